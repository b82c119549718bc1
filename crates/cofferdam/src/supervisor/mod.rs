//! The supervisor: starts the worker, then the gateway, keeps both, and ends both.
//!
//! It speaks neither MCP nor the worker's protocol beyond one health question, and in stdio mode it
//! never touches standard input and output. The order is a type: a gateway can only be started by a
//! worker that has answered.

mod child;
mod endpoint;
mod gateway;
mod keeper;
mod link;
mod signals;
mod worker;

use std::{io, process::ExitStatus, time::Duration};

use cofferdam_protocol::Failure;

pub(crate) use link::{Supervised, WORKER_TOKEN};
pub(crate) use signals::StopSignals;

use self::{
    endpoint::WorkerEndpoint,
    gateway::Gateway,
    keeper::Keeper,
    signals::{Order, SupervisorSignals},
    worker::WorkerLaunch,
};
use crate::{
    cli::Supervision,
    exit::Exit,
    output,
    server_folder::{FolderError, ServerFolder},
};

/// How much longer than its own drain deadline the gateway may take.
const GATEWAY_MARGIN: Duration = Duration::from_secs(5);
/// How long the worker may take to end once nobody can use its answers.
const WORKER_GRACE: Duration = Duration::from_secs(10);
/// How long the gateway may take to tell its clients that the worker is lost.
const FAREWELL: Duration = Duration::from_secs(3);

/// Serving failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SupervisorError {
    /// No event loop, or no signal handlers.
    #[error("setting up the supervisor")]
    Setup(#[source] io::Error),
    /// No private folder for the server's sockets.
    #[error("making a private folder for the server's sockets")]
    Folder(#[source] FolderError),
    /// No secret for the worker's TCP endpoint.
    #[error("making a secret for the worker's endpoint")]
    Secret(#[source] io::Error),
    /// A child process cannot be started.
    #[error("starting the {name} process")]
    Spawn {
        /// Which one.
        name: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A child process ended while it started, without saying why.
    #[error("the {name} process ended while it started: {status}")]
    EndedAtStart {
        /// Which one.
        name: &'static str,
        /// How.
        status: ExitStatus,
    },
    /// A child process ended while it started; it has said why on standard error.
    #[error("the {name} process could not start")]
    RefusedToStart {
        /// Which one.
        name: &'static str,
    },
    /// The worker did not answer in time.
    #[error("the worker did not answer within {} s: {}", within.as_secs(), last.message)]
    NotHealthy {
        /// The deadline.
        within: Duration,
        /// What the last attempt said.
        last: Failure,
    },
    /// Somebody else answers at the worker's endpoint.
    #[error("process {found} answers at the worker's endpoint, expected process {expected}")]
    ForeignWorker {
        /// Who should.
        expected: u32,
        /// Who did.
        found: u32,
    },
    /// The gateway's report cannot be read.
    #[error("reading the gateway's report")]
    GatewayReport(#[source] io::Error),
    /// The gateway was killed, or ended in a way that is none of its own.
    #[error("the gateway process died: {0}")]
    GatewayDied(ExitStatus),
    /// The worker died too often.
    #[error(
        "the worker process died and is not started again: {status} (restarts in a row: {restarts})"
    )]
    WorkerLost {
        /// How it ended last.
        status: String,
        /// How often it was started again.
        restarts: u32,
    },
}

impl SupervisorError {
    /// How the program ends.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::WorkerLost { .. } => Exit::WorkerLost,
            Self::GatewayDied(_) => Exit::GatewayLost,
            Self::Setup(_)
            | Self::Folder(_)
            | Self::Secret(_)
            | Self::Spawn { .. }
            | Self::EndedAtStart { .. }
            | Self::RefusedToStart { .. }
            | Self::NotHealthy { .. }
            | Self::ForeignWorker { .. }
            | Self::GatewayReport(_) => Exit::Failed,
        }
    }

    /// Whether the process that failed has told the person already.
    pub(crate) fn already_told(&self) -> bool {
        matches!(self, Self::RefusedToStart { .. })
    }

    /// The next step.
    pub(crate) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Folder(error) => return error.hint(),
            Self::NotHealthy { .. } => {
                "give it longer with --worker-startup-timeout-s, or see why with -v"
            }
            Self::ForeignWorker { .. } => {
                "leave --worker-endpoint out for a private socket, or name a free one"
            }
            Self::WorkerLost { .. } | Self::GatewayDied(_) => {
                "its last log lines are above; `execution.worker_restart_limit` says how often a \
                 worker is started again"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// Serves until it is told to end, the client of stdio leaves, or a part is lost.
///
/// Every process and file that it made is gone when it returns.
///
/// # Errors
/// [`SupervisorError`] names the part that failed.
pub(crate) fn supervise(plan: Supervision) -> Result<Exit, SupervisorError> {
    // One thread: the kernel ends the children with the thread that started them, and the main
    // thread lives as long as this process.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(SupervisorError::Setup)?;
    runtime.block_on(serve(plan))
}

async fn serve(plan: Supervision) -> Result<Exit, SupervisorError> {
    let mut signals = SupervisorSignals::listen().map_err(SupervisorError::Setup)?;
    // First, so that it goes last.
    let folder = ServerFolder::create().map_err(SupervisorError::Folder)?;
    let endpoint = WorkerEndpoint::prepare(plan.worker_endpoint.clone(), folder.path())?;
    let launch = WorkerLaunch {
        endpoint,
        folder: folder.path().to_owned(),
        arguments: plan.worker_arguments.clone(),
        log_arguments: plan.log_arguments.clone(),
        startup_timeout: plan.worker_startup_timeout,
    };
    let starting = async {
        let worker = launch.start()?.healthy().await?;
        let gateway = worker.start_gateway(&plan.gateway, &plan.log_arguments)?.ready().await?;
        Ok::<_, SupervisorError>((worker, gateway))
    };
    let (worker, mut gateway) = tokio::select! {
        started = starting => started?,
        // What was started dies with the future that started it.
        _ = signals.end() => return Ok(Exit::Success),
    };
    if plan.announce {
        output::notice(&format!(
            "serving MCP on {} (worker {}, gateway {})",
            gateway.address(),
            worker.pid(),
            gateway.pid()
        ));
    }

    let mut keeper = Keeper::new(&launch, worker, plan.worker_restart_limit);
    let outcome = loop {
        tokio::select! {
            status = gateway.ended() => break gateway::verdict(status),
            lost = keeper.keep() => {
                gateway.end(FAREWELL).await;
                break Err(lost);
            }
            order = signals.next() => match order {
                Order::Reload => keeper.reload(),
                Order::End(_) => {
                    tracing::info!(
                        "told to end: calls under way may finish, once more ends them at once"
                    );
                    break Ok(Exit::Success);
                }
            },
        }
    };
    folder.announce_end();
    let ending = async {
        gateway.end(plan.gateway.drain + GATEWAY_MARGIN).await;
        keeper.end(WORKER_GRACE).await;
    };
    tokio::select! {
        () = ending => outcome,
        // What is still there is killed when its handle is dropped.
        second = signals.end() => Ok(Exit::Signal(second)),
    }
}
