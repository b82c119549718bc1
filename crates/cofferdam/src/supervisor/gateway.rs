//! The gateway process, from its start to its end.

use std::{ffi::OsString, io, process::ExitStatus, time::Duration};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use super::{
    SupervisorError, WorkerEndpoint,
    child::{Child, ChildPlan, Environment, Streams, told_why},
};
use crate::{cli::GatewayPlan, exit::Exit};

/// The longest report that is read.
const LONGEST_REPORT: u64 = 4096;

/// A gateway that has been started.
#[derive(Debug)]
pub(super) struct StartingGateway {
    child: Child,
}

/// A gateway that serves.
#[derive(Debug)]
pub(super) struct Gateway {
    child: Child,
    address: String,
}

impl Gateway {
    /// Called by [`super::worker::HealthyWorker`] alone.
    pub(super) fn start(
        plan: &GatewayPlan,
        log_arguments: &[OsString],
        endpoint: &WorkerEndpoint,
    ) -> Result<StartingGateway, SupervisorError> {
        let mut arguments: Vec<OsString> =
            plan.to_arguments(endpoint.address()).into_iter().map(OsString::from).collect();
        arguments.extend(log_arguments.iter().cloned());
        let child = Child::start(ChildPlan {
            name: "mcp",
            arguments,
            environment: Environment::ForLogging,
            streams: if plan.http.is_some() { Streams::Report } else { Streams::Inherited },
            token: endpoint.token(),
        })?;
        Ok(StartingGateway { child })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Where clients reach it, for people.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Waits for its end. Safe to drop and call again.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.ended().await
    }

    /// Ends it: in order within `grace`, else at once.
    pub(super) async fn end(&mut self, grace: Duration) {
        self.child.end(grace).await;
    }
}

impl StartingGateway {
    /// Waits until it says where it serves. Over stdio it says nothing: what it writes there is MCP,
    /// and the client's first message waits in the pipe.
    pub(super) async fn ready(mut self) -> Result<Gateway, SupervisorError> {
        let Some(report) = self.child.take_report() else {
            return Ok(Gateway { child: self.child, address: "standard input and output".into() });
        };
        let mut address = String::new();
        BufReader::new(report.take(LONGEST_REPORT))
            .read_line(&mut address)
            .await
            .map_err(SupervisorError::GatewayReport)?;
        if address.is_empty() {
            let status = self.child.ended().await;
            return Err(self.child.failed_to_start(status));
        }
        Ok(Gateway { child: self.child, address: address.trim_end().to_owned() })
    }
}

/// What the gateway's own end means: over stdio the client has left.
pub(super) fn verdict(status: io::Result<ExitStatus>) -> Result<Exit, SupervisorError> {
    match status {
        Ok(status) if status.success() => Ok(Exit::Success),
        Ok(status) if told_why(status) => Ok(Exit::Failed),
        Ok(status) => Err(SupervisorError::GatewayDied(status)),
        Err(source) => Err(SupervisorError::Spawn { name: "mcp", source }),
    }
}
