//! The worker process: an executor behind a socket.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process,
    sync::Arc,
    thread,
};

use cofferdam_protocol::Endpoint;
use cofferdam_worker::{Auth, Control, Executor, Listener, ServeError, bind_unix};
use rustix::process::Signal;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{
    cli::WorkerPlan,
    error::CommandError,
    exit::Exit,
    reload::Files,
    server_folder::{self, ADMIN_SOCKET, FolderError, ServerFolder, TOOLS_FILE},
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
    /// The server's private folder cannot be used.
    #[error("holding the server's private folder")]
    Folder(#[source] FolderError),
    /// The endpoint cannot be served.
    #[error(transparent)]
    Serve(ServeError),
}

impl WorkerProcessError {
    /// The next step.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Serve(ServeError::NoToken) => {
                Some(format!("set {WORKER_TOKEN} for both processes, or use a Unix socket"))
            }
            Self::Serve(ServeError::Audit(error)) => Some(error.hint()),
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                Some("another process listens there: end it, or choose another endpoint".to_owned())
            }
            Self::Folder(error) => error.hint(),
            Self::Listen { .. } | Self::Setup(_) | Self::Serve(_) => None,
        }
    }
}

/// Serves until told to end.
pub(super) fn work(plan: WorkerPlan) -> Result<Exit, CommandError> {
    let directory = plan.private_directory.clone();
    let supervised = follow_supervisor(directory.clone()).map_err(WorkerProcessError::Setup)?;
    let runtime = super::event_loop().map_err(CommandError::setup("making an event loop"))?;
    let result = runtime.block_on(serve(plan, supervised.is_some()));
    runtime.shutdown_background();
    let is_ending = || directory.as_deref().is_some_and(server_folder::is_ending);
    if supervised.is_some_and(|supervised| supervised.is_orphan() || is_ending()) {
        // The supervisor does so too, and may be killed before it has tidied up. A worker that ends
        // alone leaves the folder to the next one.
        remove(directory.as_deref());
    }
    result
}

/// Dies with the supervisor, if there is one (the answer), at once and whatever else goes on: on a
/// thread of its own, since the event loop may be what hangs. The sandboxes die with this process.
///
/// The signal is SIGTERM, not SIGKILL, so that the socket's directory can be removed, which the
/// supervisor no longer can.
fn follow_supervisor(private_directory: Option<PathBuf>) -> io::Result<Option<Supervised>> {
    let runtime = super::event_loop()?;
    // Before the signal can come.
    let mut terminated = {
        let _inside = runtime.enter();
        signal(SignalKind::terminate())?
    };
    let Some(supervised) = Supervised::by_environment(Signal::TERM)? else { return Ok(None) };
    thread::Builder::new().name("supervisor".to_owned()).spawn(move || {
        runtime.block_on(async {
            loop {
                let _ = terminated.recv().await;
                if supervised.is_orphan() {
                    remove(private_directory.as_deref());
                    process::exit(Exit::Signal(Signal::TERM.as_raw()).code().into());
                }
            }
        });
    })?;
    Ok(Some(supervised))
}

/// Removes the folder that the supervisor made, which it perhaps no longer can.
fn remove(private_directory: Option<&Path>) {
    if let Some(directory) = private_directory {
        server_folder::remove(directory);
    }
}

async fn serve(plan: WorkerPlan, supervised: bool) -> Result<Exit, CommandError> {
    let WorkerPlan { mut settings, config, in_force, resumes, bind, drain, private_directory } =
        plan;
    let mut signals = StopSignals::listen().map_err(WorkerProcessError::Setup)?;
    // Goes last.
    let folder = folder(private_directory.as_deref())?;
    // Without a folder there is no socket by which the owner could be asked.
    settings.approval.admin &= folder.is_some();
    settings.tools_file = folder.as_ref().map(|folder| folder.path().join(TOOLS_FILE));
    // Without a supervisor there is no next worker.
    let kept_in = private_directory.filter(|_| supervised);
    if let Some(folder) = &kept_in {
        in_force.keep(folder);
    }
    let session_profile = settings.session_profile.clone();
    let files = Files::new(config, settings.workspace.clone(), session_profile, kept_in);
    let files = Arc::new(files);
    let executor = Executor::new(settings).map_err(CommandError::Refused)?;
    let read = files.clone();
    let control = Control::new(executor.clone(), Box::new(move |before| read.read(before)));
    let listener = listen(&bind)?;
    let auth = Auth {
        uid: rustix::process::geteuid().as_raw(),
        token: env::var(WORKER_TOKEN).ok().filter(|secret| !secret.is_empty()),
    };
    tracing::debug!(endpoint = %bind, "the worker listens");

    let stop = CancellationToken::new();
    let ended = CancellationToken::new();
    let admin = match &folder {
        Some(folder) => Some(admin(folder, control.clone(), ended.clone())?),
        None => None,
    };
    if resumes {
        // The files may be others by now, and be of use or not: that is what a reload is for.
        reload_apart(&control);
    }
    let watching = tokio::spawn(files.watch(control.clone()));
    let serving = cofferdam_worker::serve(listener, executor, auth, stop.clone(), drain);
    tokio::pin!(serving);
    let exit = loop {
        let signal = tokio::select! {
            result = &mut serving => {
                break result.map(|()| Exit::Success).map_err(WorkerProcessError::Serve);
            }
            signal = signals.next() => signal,
        };
        if signal == Signal::HUP.as_raw() {
            tracing::info!("told to read the configuration again");
            reload_apart(&control);
            continue;
        }
        // The supervisor has one way to say it; whatever else comes was meant for others.
        if supervised && signal != Signal::TERM.as_raw() {
            continue;
        }
        if stop.is_cancelled() && !supervised {
            break Ok(Exit::Signal(signal));
        }
        stop.cancel();
    };
    watching.abort();
    // Its owner is served to the end: calls that may finish may still need a word.
    ended.cancel();
    if let Some(admin) = admin {
        let _ = admin.await;
    }
    if let Endpoint::Unix(path) = &bind {
        // Whoever replaced it meanwhile listens there now, and notices.
        let _ = fs::remove_file(path);
    }
    Ok(exit?)
}

/// Has the files read again, without waiting for it: the log says what became of it.
fn reload_apart(control: &Control) {
    let control = control.clone();
    tokio::spawn(async move { control.reload().await });
}

/// The server's private folder, in which its owner finds it.
///
/// A worker that somebody else supervises makes one of its own, and serves without when it cannot.
fn folder(of_server: Option<&Path>) -> Result<Option<ServerFolder>, WorkerProcessError> {
    match of_server {
        Some(path) => ServerFolder::join(path).map(Some).map_err(WorkerProcessError::Folder),
        None => Ok(ServerFolder::create()
            .inspect_err(|error| {
                let hint = error.hint();
                tracing::warn!(%error, hint, "`cofferdam status` and the like will not find this server");
            })
            .ok()),
    }
}

/// Serves the owner.
fn admin(
    folder: &ServerFolder,
    control: Control,
    ended: CancellationToken,
) -> Result<JoinHandle<()>, WorkerProcessError> {
    let path = folder.path().join(ADMIN_SOCKET);
    let listener = bind_unix(&path)
        .map_err(|source| WorkerProcessError::Listen { endpoint: Endpoint::Unix(path), source })?;
    let uid = rustix::process::geteuid().as_raw();
    Ok(tokio::spawn(cofferdam_worker::serve_admin(listener, control, uid, ended)))
}

fn listen(endpoint: &Endpoint) -> Result<Listener, WorkerProcessError> {
    let failed = |source| WorkerProcessError::Listen { endpoint: endpoint.clone(), source };
    match endpoint {
        Endpoint::Unix(path) => bind_unix(path).map(Listener::Unix).map_err(failed),
        Endpoint::Tcp(address) => {
            let listener = std::net::TcpListener::bind(address).map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            tokio::net::TcpListener::from_std(listener).map(Listener::Tcp).map_err(failed)
        }
    }
}
