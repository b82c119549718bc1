//! The signals that mean "end".

use std::io;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};

/// SIGINT, SIGTERM and SIGHUP, from the moment it is made.
#[derive(Debug)]
pub(crate) struct StopSignals {
    interrupt: Listener,
    terminate: Listener,
    hangup: Listener,
}

impl StopSignals {
    /// Takes these signals over. Needs a Tokio runtime.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The number of the next one. Safe to drop and call again.
    pub(crate) async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::INT.as_raw(),
            _ = self.terminate.recv() => Signal::TERM.as_raw(),
            _ = self.hangup.recv() => Signal::HUP.as_raw(),
        }
    }
}
