//! The gateway process: opens what it needs, gives up the right to open more, serves.

use std::{
    env, io,
    net::{SocketAddr, TcpListener},
};

use cofferdam_gateway::{ConfineError, Gateway, GatewayError, GatewaySettings, Transport, confine};
use rustix::process::Signal;
use tokio_util::sync::CancellationToken;

use crate::{
    cli::{HttpPlan, Mcp},
    exit::Exit,
    output,
    supervisor::{StopSignals, Supervised, WORKER_TOKEN},
};

/// The gateway process failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GatewayProcessError {
    /// No event loop, no signal handlers, or no link to the supervisor.
    #[error("setting up the gateway process")]
    Setup(#[source] io::Error),
    /// The port cannot be listened on.
    #[error("listening on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The rights could not be given up, so nothing is served.
    #[error("giving up the gateway's rights")]
    Confine(#[source] ConfineError),
    /// The address could not be reported.
    #[error("reporting where the gateway serves")]
    Report(#[source] io::Error),
    /// Serving failed.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
}

impl GatewayProcessError {
    /// The next step.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => Some(
                "another server has that port: end it, or choose one with --mcp-port".to_owned(),
            ),
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("ports below 1024 need a privilege: choose one with --mcp-port".to_owned())
            }
            _ => None,
        }
    }
}

/// Serves until told to end or, over stdio, until the client leaves.
pub(super) fn translate(mcp: Mcp) -> Result<Exit, GatewayProcessError> {
    // It owns nothing that would have to be tidied up, so the surest signal.
    let supervised =
        Supervised::by_environment(Signal::KILL).map_err(GatewayProcessError::Setup)?;
    let runtime = super::event_loop().map_err(GatewayProcessError::Setup)?;
    let result = runtime.block_on(serve(mcp, supervised.is_some()));
    // A read of standard input that still waits must not keep the process.
    runtime.shutdown_background();
    result
}

async fn serve(mcp: Mcp, supervised: bool) -> Result<Exit, GatewayProcessError> {
    let mut signals = StopSignals::listen().map_err(GatewayProcessError::Setup)?;
    let (transport, address) = match mcp.plan.http {
        None => (Transport::Stdio, None),
        Some(http) => {
            let (transport, address) = listen(http)?;
            (transport, Some(address))
        }
    };
    let gateway = Gateway::start(GatewaySettings {
        worker: mcp.worker,
        worker_token: env::var(WORKER_TOKEN).ok(),
        request_timeout: mcp.plan.request_timeout,
        transport,
        tool_names: mcp.plan.tool_names,
        result_form: mcp.plan.result_form,
        inline_images: mcp.plan.inline_images,
        drain: mcp.plan.drain,
    })
    .await?;
    // Everything is open, and this is still the only thread.
    let confinement = confine().map_err(GatewayProcessError::Confine)?;
    tracing::debug!(%confinement, "the gateway is confined");
    if let Some(address) = address {
        output::result(&format!("{address}\n")).map_err(GatewayProcessError::Report)?;
    }

    let stop = CancellationToken::new();
    let serving = gateway.serve(stop.clone());
    tokio::pin!(serving);
    loop {
        let signal = tokio::select! {
            result = &mut serving => return Ok(result.map(|()| Exit::Success)?),
            signal = signals.next() => signal,
        };
        // A terminal's signals reach the whole group: the supervisor decides what they mean.
        if supervised && signal != Signal::TERM.as_raw() {
            continue;
        }
        if stop.is_cancelled() && !supervised {
            return Ok(Exit::Signal(signal));
        }
        stop.cancel();
    }
}

fn listen(http: HttpPlan) -> Result<(Transport, String), GatewayProcessError> {
    let wanted = SocketAddr::new(http.host, http.port);
    let failed = |source| GatewayProcessError::Listen { address: wanted, source };
    let listener = TcpListener::bind(wanted).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let address = format!("http://{address}{}", http.path);
    let transport =
        Transport::Http { listener, path: http.path, allowed_hosts: http.allowed_hosts };
    Ok((transport, address))
}
