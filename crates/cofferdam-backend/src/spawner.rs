//! The one thread that starts processes.
//!
//! PR_SET_PDEATHSIG, and with it bubblewrap's `--die-with-parent`, follows the **thread** that
//! started a process: an idle runtime thread that ends would kill healthy runs. This one lives as
//! long as the backends.

use std::{
    io,
    process::{Child, Command},
    sync::mpsc,
    thread,
};

use tokio::sync::oneshot;

type Request = (Command, oneshot::Sender<io::Result<Child>>);

/// Handle to the thread.
#[derive(Clone, Debug)]
pub(crate) struct Spawner {
    requests: mpsc::SyncSender<Request>,
}

impl Spawner {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Self> {
        // Each request waits for its answer, so the queue is as long as there are runs at once.
        let (requests, incoming) = mpsc::sync_channel::<Request>(64);
        thread::Builder::new().name("spawner".to_owned()).spawn(move || {
            for (mut command, answer) in incoming {
                if let Err(Ok(mut unwanted)) = answer.send(command.spawn()) {
                    // Whoever asked is gone; what was started for it must go too.
                    let _ = unwanted.kill();
                    let _ = unwanted.wait();
                }
            }
        })?;
        Ok(Self { requests })
    }

    /// Starts a process from the thread that lives.
    pub(crate) async fn spawn(&self, command: Command) -> io::Result<Child> {
        let gone = || io::Error::other("the spawner thread has ended");
        let (answer, answered) = oneshot::channel();
        self.requests.try_send((command, answer)).map_err(|error| match error {
            mpsc::TrySendError::Full(_) => io::Error::other("too many processes start at once"),
            mpsc::TrySendError::Disconnected(_) => gone(),
        })?;
        answered.await.map_err(|_| gone())?
    }
}
