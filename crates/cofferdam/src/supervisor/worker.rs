//! The worker, from its start to its end: starting, then healthy.

use std::{ffi::OsString, io, path::PathBuf, process::ExitStatus, time::Duration};

use cofferdam_gateway::client::WorkerClient;
use cofferdam_protocol::{ErrorCode, Failure, Health};
use rustix::process::Signal;

use super::{
    Gateway, SupervisorError, WorkerEndpoint,
    child::{Child, ChildPlan, Environment, Streams},
    gateway::StartingGateway,
};
use crate::cli::GatewayPlan;

/// Pauses between two questions to a worker that starts.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// How workers are started, each like the one before.
#[derive(Debug)]
pub(super) struct WorkerLaunch {
    pub(super) endpoint: WorkerEndpoint,
    /// The server's private folder.
    pub(super) folder: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) log_arguments: Vec<OsString>,
    pub(super) startup_timeout: Duration,
}

/// A worker that has been started and has not answered yet.
#[derive(Debug)]
pub(super) struct StartingWorker<'a> {
    launch: &'a WorkerLaunch,
    child: Child,
}

/// A worker that has answered over its real socket.
#[derive(Debug)]
pub(super) struct HealthyWorker<'a> {
    launch: &'a WorkerLaunch,
    child: Child,
}

impl WorkerLaunch {
    pub(super) fn start(&self) -> Result<StartingWorker<'_>, SupervisorError> {
        let mut arguments: Vec<OsString> =
            vec!["--bind".into(), self.endpoint.address().to_string().into()];
        arguments.extend(["--private-directory".into(), self.folder.clone().into()]);
        arguments.extend(self.arguments.iter().cloned());
        arguments.extend(self.log_arguments.iter().cloned());
        let child = Child::start(ChildPlan {
            name: "worker",
            arguments,
            environment: Environment::Inherited,
            streams: Streams::Null,
            token: self.endpoint.token(),
        })?;
        Ok(StartingWorker { launch: self, child })
    }
}

impl<'a> StartingWorker<'a> {
    /// Waits until it answers.
    pub(super) async fn healthy(mut self) -> Result<HealthyWorker<'a>, SupervisorError> {
        let within = self.launch.startup_timeout;
        let mut last = Failure::new(ErrorCode::WorkerUnavailable, "it was not asked yet");
        let answered = tokio::select! {
            status = self.child.ended() => return Err(self.child.failed_to_start(status)),
            answered = tokio::time::timeout(within, ask(self.launch, &mut last)) => answered,
        };
        let Ok(health) = answered else {
            return Err(SupervisorError::NotHealthy { within, last });
        };
        if health.pid != self.child.pid() {
            return Err(SupervisorError::ForeignWorker {
                expected: self.child.pid(),
                found: health.pid,
            });
        }
        Ok(HealthyWorker { launch: self.launch, child: self.child })
    }
}

impl HealthyWorker<'_> {
    pub(super) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Starts the gateway: only a worker that has answered can.
    pub(super) fn start_gateway(
        &self,
        plan: &GatewayPlan,
        log_arguments: &[OsString],
    ) -> Result<StartingGateway, SupervisorError> {
        Gateway::start(plan, log_arguments, &self.launch.endpoint)
    }

    /// Waits for its end. Safe to drop and call again.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.ended().await
    }

    /// Has it read the configuration again.
    pub(super) fn reload(&self) {
        self.child.signal(Signal::HUP);
    }

    /// Ends it: in order within `grace`, else at once.
    pub(super) async fn end(&mut self, grace: Duration) {
        self.child.end(grace).await;
    }
}

/// Asks until there is an answer; what went wrong last is left in `last`.
async fn ask(launch: &WorkerLaunch, last: &mut Failure) -> Health {
    let mut pause = FIRST_PAUSE;
    loop {
        let endpoint = launch.endpoint.address().clone();
        let token = launch.endpoint.token().map(str::to_owned);
        let answer = match WorkerClient::connect(endpoint, token).await {
            Ok(client) => client.health().await,
            Err(error) => Err(Failure::new(ErrorCode::WorkerUnavailable, with_causes(&error))),
        };
        match answer {
            Ok(health) => return health,
            Err(failure) => *last = failure,
        }
        tokio::time::sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}
