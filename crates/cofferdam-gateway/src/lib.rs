//! The gateway: MCP over stdio and streamable HTTP on one side, the worker's socket on the other.
//!
//! Translation only. It parses what strangers send, so it knows nothing of sandboxes, profiles or
//! files, and after start-up it can give up the right to execute programs and to open files
//! ([`confine`]). Which tools there are comes from [`cofferdam_protocol::tool`]; which of them are
//! active, and every answer, comes from the worker.
//!
//! The order of a program that runs it:
//!
//! ```no_run
//! # use cofferdam_gateway::{Gateway, GatewayError, GatewaySettings, confine};
//! # use tokio_util::sync::CancellationToken;
//! # async fn program(settings: GatewaySettings, stop: CancellationToken)
//! #     -> Result<(), Box<dyn std::error::Error>> {
//! // On a current-thread runtime, so that there is one thread to confine.
//! let gateway = Gateway::start(settings).await?; // opens what must be opened
//! let confinement = confine()?; // from here on nothing can be opened
//! tracing::info!(%confinement, "the gateway is confined");
//! gateway.serve(stop).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Not here: the command line, the configuration file, log subscribers, and binding the listener;
//! they belong to the program. Pictures inside results (`inline_images`) neither: see
//! [`GatewaySettings::inline_images`].

mod approval;
mod calls;
pub mod client;
mod confine;
mod http;
mod server;
mod settings;
mod stdio;
mod subscriptions;
mod translate;

pub use confine::{Canary, ConfineError, Confinement, confine};
pub use settings::{GatewaySettings, ResultForm, ToolNames, Transport};

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::{
    approval::ApprovalStates,
    calls::Calls,
    client::{ConnectError, WorkerClient},
    server::GatewayServer,
};

/// The gateway could not start, or its transport failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// There is no usable worker at the endpoint.
    #[error("cannot use the worker")]
    Worker(#[source] ConnectError),
    /// The path is not an absolute URL path, has characters that a route cannot have, or is taken.
    #[error("`{0}` cannot be the path of the MCP endpoint")]
    Path(String),
    /// The listening socket that the caller bound cannot be used.
    #[error("cannot take over the listening socket")]
    Listener(#[source] std::io::Error),
    /// The listening socket can be reached from other machines, which needs callers' tokens.
    #[error("`{0}` is not a loopback address")]
    NotLoopback(std::net::SocketAddr),
    /// There is no key to seal approvals' states with.
    #[error("making a key from the system's random numbers")]
    Key(#[source] std::io::Error),
    /// What arrived first on stdin does not begin an MCP session.
    #[error("the client did not begin an MCP session")]
    Handshake(#[source] Box<rmcp::service::ServerInitializeError>),
}

/// A gateway that holds everything it needs: a worker connection, and its pipes or its listener.
#[derive(Debug)]
pub struct Gateway {
    server: GatewayServer,
    drain: std::time::Duration,
    opened: Opened,
}

#[derive(Debug)]
enum Opened {
    Stdio(stdio::Pipes),
    Http(http::Http),
}

impl Gateway {
    /// Connects to the worker and takes over the transport. Nothing is answered yet.
    ///
    /// All opening of files happens here, so [`confine`] belongs right after it. Needs a Tokio
    /// runtime with I/O and time.
    ///
    /// # Errors
    /// See [`GatewayError`].
    pub async fn start(settings: GatewaySettings) -> Result<Self, GatewayError> {
        let opened = match settings.transport {
            Transport::Stdio => Opened::Stdio(stdio::Pipes::open()),
            Transport::Http { listener, path, allowed_hosts } => {
                Opened::Http(http::Http::new(listener, path, allowed_hosts)?)
            }
        };
        let worker = WorkerClient::connect(settings.worker, settings.worker_token)
            .await
            .map_err(GatewayError::Worker)?;
        let calls = Arc::new(Calls::new(settings.request_timeout));
        let approvals = ApprovalStates::new().map_err(GatewayError::Key)?;
        let server =
            GatewayServer::new(worker, calls, settings.tool_names, settings.result_form, approvals);
        Ok(Self { server, drain: settings.drain, opened })
    }

    /// Serves until `stop` is cancelled or, over stdio, until the client closes stdin.
    ///
    /// Then new calls are refused, calls under way may finish until the drain deadline, and what
    /// is left is cancelled at the worker. Returns within the drain time and a few seconds.
    ///
    /// # Errors
    /// [`GatewayError::Handshake`] over stdio. A client that closes stdin before saying anything
    /// is no error.
    pub async fn serve(self, stop: CancellationToken) -> Result<(), GatewayError> {
        let worker = self.server.worker().clone();
        let serving = async {
            match self.opened {
                Opened::Stdio(pipes) => pipes.serve(self.server, self.drain, stop).await,
                Opened::Http(http) => {
                    http.serve(self.server, self.drain, stop).await;
                    Ok(())
                }
            }
        };
        tokio::select! {
            served = serving => served,
            // Never ends: clients are told of changes also while they call nothing.
            () = worker.stay_connected() => Ok(()),
        }
    }
}

/// [`Gateway::start`] and [`Gateway::serve`] in one, for callers that do nothing in between.
///
/// # Errors
/// See [`GatewayError`].
pub async fn run(settings: GatewaySettings, stop: CancellationToken) -> Result<(), GatewayError> {
    Gateway::start(settings).await?.serve(stop).await
}

#[cfg(test)]
mod tests;
