//! `cofferdam serve` and `cofferdam stdio`: what the supervisor is to start.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::Args;
use cofferdam_protocol::Endpoint;

use super::{
    common::{GlobalArgs, UsageError, Verbosity, loopback, url_path},
    help,
    mcp::{GatewayPlan, HttpPlan},
};
use crate::config::Config;

/// What both ways of serving take.
#[derive(Debug, Args)]
struct ServerArgs {
    /// Profile of callers that name none [default: the configuration's]
    #[arg(short, long, value_name = "PROFILE")]
    profile: Option<String>,
    /// Backend of callers that name none [default: the profile's first that fits]
    #[arg(short, long, value_name = "BACKEND")]
    backend: Option<String>,
    /// The folder that the code may work on [default: the configuration's, else the current
    /// directory]
    #[arg(short, long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Where the worker listens [default: a private Unix socket]; tcp://127.0.0.1:PORT works, with
    /// a secret of its own
    #[arg(long, value_name = "ENDPOINT", help_heading = "Processes")]
    worker_endpoint: Option<Endpoint>,
    /// How long the worker may take to answer after its start, in seconds
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Processes",
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    worker_startup_timeout_s: u64,
    /// Ends any call that lasts longer, in milliseconds [default: the tools' own deadlines]
    #[arg(long, value_name = "N", help_heading = "Processes",
          value_parser = clap::value_parser!(u64).range(1..))]
    request_timeout_ms: Option<u64>,
}

/// `cofferdam stdio`, as written.
#[derive(Debug, Args)]
#[command(after_help = help::STDIO)]
pub(crate) struct StdioArgs {
    #[command(flatten)]
    server: ServerArgs,
}

/// `cofferdam serve`, as written.
#[derive(Debug, Args)]
#[command(after_help = help::SERVE)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Address to listen on; only this machine's own for now [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS", help_heading = "Endpoint")]
    mcp_host: Option<String>,
    /// Port to listen on; 0 picks a free one [default: 8050]
    #[arg(long, value_name = "N", help_heading = "Endpoint")]
    mcp_port: Option<u16>,
    /// Path of the endpoint [default: /mcp]
    #[arg(long, value_name = "PATH", help_heading = "Endpoint")]
    mcp_path: Option<String>,
}

/// What the supervisor is to start and keep.
#[derive(Debug)]
pub(crate) struct Supervision {
    /// Where the worker listens; `None` is a private Unix socket.
    pub(crate) worker_endpoint: Option<Endpoint>,
    /// How long the worker may take to answer after its start.
    pub(crate) worker_startup_timeout: Duration,
    /// How often in a row a worker that died is started again.
    pub(crate) worker_restart_limit: u32,
    /// What is passed on to the worker beside its endpoint.
    pub(crate) worker_arguments: Vec<OsString>,
    /// What the gateway is to do.
    pub(crate) gateway: GatewayPlan,
    /// The options about logging, for both.
    pub(crate) log_arguments: Vec<OsString>,
    /// Say where it serves.
    pub(crate) announce: bool,
}

impl StdioArgs {
    /// What was meant.
    ///
    /// # Errors
    /// [`UsageError`] for an endpoint that cannot be used.
    pub(crate) fn resolve(
        self,
        global: &GlobalArgs,
        config: &Config,
    ) -> Result<Supervision, UsageError> {
        supervision(self.server, None, global, config)
    }
}

impl ServeArgs {
    /// What was meant.
    ///
    /// # Errors
    /// [`UsageError`] for an address that other machines could reach and for an endpoint that
    /// cannot be used.
    pub(crate) fn resolve(
        self,
        global: &GlobalArgs,
        config: &Config,
    ) -> Result<Supervision, UsageError> {
        let host = self.mcp_host.unwrap_or_else(|| config.server.host.clone());
        let http = HttpPlan {
            host: loopback(&host)?,
            port: self.mcp_port.unwrap_or(config.server.port),
            path: url_path(self.mcp_path.unwrap_or_else(|| config.server.path.clone()))?,
            allowed_hosts: config.server.allowed_hosts.clone(),
        };
        supervision(self.server, Some(http), global, config)
    }
}

fn supervision(
    server: ServerArgs,
    http: Option<HttpPlan>,
    global: &GlobalArgs,
    config: &Config,
) -> Result<Supervision, UsageError> {
    if let Some(Endpoint::Tcp(address)) = server.worker_endpoint
        && address.port() == 0
    {
        return Err(UsageError::NoWorkerPort(address));
    }
    let mut worker_arguments = Vec::new();
    let mut option = |name: &str, value: Option<OsString>| {
        if let Some(value) = value {
            worker_arguments.extend([name.into(), value]);
        }
    };
    option("--config", global.config.clone().map(PathBuf::into_os_string));
    option("--profile", server.profile.map(OsString::from));
    option("--backend", server.backend.map(OsString::from));
    option("--workspace", server.workspace.map(PathBuf::into_os_string));
    Ok(Supervision {
        worker_endpoint: server.worker_endpoint,
        worker_startup_timeout: Duration::from_secs(server.worker_startup_timeout_s),
        worker_restart_limit: config.execution.worker_restart_limit,
        worker_arguments,
        gateway: GatewayPlan {
            request_timeout: server.request_timeout_ms.map(Duration::from_millis),
            http,
            tool_names: config.server.tool_names,
            result_form: config.server.result_form,
            inline_images: config.server.inline_images,
            drain: config.server.drain,
        },
        announce: global.verbosity() != Verbosity::Quiet,
        log_arguments: log_arguments(global.verbosity()),
    })
}

fn log_arguments(verbosity: Verbosity) -> Vec<OsString> {
    match verbosity {
        Verbosity::Quiet => vec!["--quiet".into()],
        Verbosity::Normal => Vec::new(),
        Verbosity::Verbose => vec!["-v".into()],
        Verbosity::Everything => vec!["-vv".into()],
    }
}
