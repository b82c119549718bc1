//! How a person ends a command under way: a signal once in order, twice at once, three times
//! without waiting.

use std::{fs, io};

use cofferdam_backend::EndRequests;
use rustix::process::Signal;
use tokio::{
    signal::unix::{Signal as Listener, SignalKind, signal},
    sync::watch,
};
use tokio_util::sync::CancellationToken;

use crate::exit::Exit;

/// SIGINT, SIGTERM, SIGHUP and SIGQUIT, turned into requests to end.
#[derive(Debug)]
pub(crate) struct Ending {
    requests: EndRequests,
    abandoned: CancellationToken,
    received: watch::Receiver<Option<i32>>,
}

impl Ending {
    /// Takes the signals over. One that was ignored at the start, as by nohup(1), stays ignored.
    /// Needs a Tokio runtime.
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub(crate) fn by_signals() -> io::Result<Self> {
        let requests = EndRequests::default();
        let abandoned = CancellationToken::new();
        let (sender, received) = watch::channel(None);
        let ignored = ignored_signals();
        for wanted in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
            let number = wanted.as_raw();
            if ignored & (1 << (number - 1)) == 0 {
                let listener = signal(SignalKind::from_raw(number))?;
                tokio::spawn(listen(
                    listener,
                    number,
                    requests.clone(),
                    abandoned.clone(),
                    sender.clone(),
                ));
            }
        }
        Ok(Self { requests, abandoned, received })
    }

    /// What the run is to look at.
    pub(crate) fn requests(&self) -> EndRequests {
        self.requests.clone()
    }

    /// The first signal that came, if any did.
    pub(crate) fn signal(&self) -> Option<i32> {
        *self.received.borrow()
    }

    /// How this program ends because of that signal.
    pub(crate) fn exit(&self) -> Exit {
        Exit::Signal(self.signal().unwrap_or(Signal::TERM.as_raw()))
    }

    /// Returns when the person no longer waits for the run to be ended.
    pub(crate) async fn abandoned(&self) {
        self.abandoned.cancelled().await;
    }
}

async fn listen(
    mut listener: Listener,
    number: i32,
    requests: EndRequests,
    abandoned: CancellationToken,
    received: watch::Sender<Option<i32>>,
) {
    while listener.recv().await.is_some() {
        if requests.kill.is_cancelled() {
            abandoned.cancel();
        } else if requests.stop.is_cancelled() {
            requests.kill.cancel();
        } else {
            received.send_replace(Some(number));
            requests.stop.cancel();
        }
    }
}

/// The signals that whoever started us had set to be ignored, as a mask; see proc_pid_status(5).
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
