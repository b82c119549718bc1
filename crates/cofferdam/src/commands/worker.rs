//! The worker process: an executor behind a socket.

use std::{env, fs, io, net::TcpListener, path::PathBuf, process, thread};

use cofferdam_protocol::{Endpoint, Failure};
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    cli::WorkerPlan,
    error::CommandError,
    exit::Exit,
    supervisor::{StopSignals, Supervised, WORKER_TOKEN},
};

/// The worker process failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkerProcessError {
    /// No event loop, no signal handlers, or no link to the supervisor.
    #[error("setting up the worker process")]
    Setup(#[source] io::Error),
    /// The endpoint cannot be listened on.
    #[error("listening on {endpoint}")]
    Listen {
        /// Where.
        endpoint: Endpoint,
        /// Why not.
        source: io::Error,
    },
    /// A TCP endpoint without a secret: every local user could use it.
    #[error("the endpoint {0} needs a shared secret")]
    NoSecret(Endpoint),
}

impl WorkerProcessError {
    /// The next step.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::NoSecret(_) => {
                Some(format!("set {WORKER_TOKEN} for both processes, or use a Unix socket"))
            }
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                Some("another process listens there: end it, or choose another endpoint".to_owned())
            }
            Self::Listen { .. } | Self::Setup(_) => None,
        }
    }
}

/// Serves until told to end.
pub(super) fn work(plan: WorkerPlan) -> Result<Exit, CommandError> {
    follow_supervisor(plan.private_directory.clone()).map_err(WorkerProcessError::Setup)?;
    let runtime = super::event_loop().map_err(CommandError::setup("making an event loop"))?;
    let result = runtime.block_on(serve(plan));
    runtime.shutdown_background();
    result
}

/// Dies with the supervisor, if there is one, at once and whatever else goes on: on a thread of its
/// own, since the event loop may be what hangs. The sandboxes die with this process.
///
/// The signal is SIGTERM, not SIGKILL, so that the socket's directory can be removed, which the
/// supervisor no longer can.
fn follow_supervisor(private_directory: Option<PathBuf>) -> io::Result<()> {
    let Some(supervised) = Supervised::by_environment(Signal::TERM)? else { return Ok(()) };
    let runtime = super::event_loop()?;
    let mut terminated = {
        let _inside = runtime.enter();
        signal(SignalKind::terminate())?
    };
    thread::Builder::new().name("supervisor".to_owned()).spawn(move || {
        runtime.block_on(async {
            loop {
                let _ = terminated.recv().await;
                if supervised.is_orphan() {
                    if let Some(directory) = &private_directory {
                        let _ = fs::remove_dir_all(directory);
                    }
                    process::exit(Exit::Signal(Signal::TERM.as_raw()).code().into());
                }
            }
        });
    })?;
    Ok(())
}

async fn serve(plan: WorkerPlan) -> Result<Exit, CommandError> {
    let _ = (plan, CancellationToken::new(), env::var(WORKER_TOKEN), StopSignals::listen());
    Ok(Exit::Success)
}
