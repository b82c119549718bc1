//! The signals that mean "end", and the one that means "read the configuration again".

use std::{fs::File, io};

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

/// What a signal orders a supervisor to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// End, by the signal of this number.
    End(i32),
    /// Read the configuration again.
    Reload,
}

/// The signals of a supervisor.
#[derive(Debug)]
pub(super) struct SupervisorSignals {
    signals: StopSignals,
    had_terminal: bool,
}

impl SupervisorSignals {
    /// Takes these signals over. Needs a Tokio runtime.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self { signals: StopSignals::listen()?, had_terminal: has_terminal() })
    }

    /// The next order. Safe to drop and call again.
    pub(super) async fn next(&mut self) -> Order {
        match self.signals.next().await {
            // Nobody is left at a terminal that was closed: the server ends with it, as ever.
            number if number != Signal::HUP.as_raw() || self.has_lost_terminal() => {
                Order::End(number)
            }
            _ => Order::Reload,
        }
    }

    /// The number of the next signal that means "end". Safe to drop and call again.
    pub(super) async fn end(&mut self) -> i32 {
        loop {
            if let Order::End(number) = self.next().await {
                return number;
            }
        }
    }

    fn has_lost_terminal(&self) -> bool {
        self.had_terminal && !has_terminal()
    }
}

/// Whether this process has a controlling terminal that still works; see tty(4).
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}
