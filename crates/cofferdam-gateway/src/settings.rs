//! What a gateway is told by the program that runs it, already resolved.
//!
//! Not here: defaults and their reading from files and flags; the program does that.

use std::{net::TcpListener, time::Duration};

use cofferdam_protocol::Endpoint;

/// Everything that one gateway needs to know.
#[derive(Debug)]
pub struct GatewaySettings {
    /// Where the worker listens.
    pub worker: Endpoint,
    /// Shared secret of the worker's endpoint; needed on TCP only.
    pub worker_token: Option<String>,
    /// Ends any call that lasts longer, with a failure. None leaves it to the tools' own deadlines.
    pub request_timeout: Option<Duration>,
    /// How clients reach the gateway.
    pub transport: Transport,
    /// Which spelling of the tools' names is listed. Calls may always use either.
    pub tool_names: ToolNames,
    /// Whether structured results are wrapped as `{"result": N}`.
    pub result_form: ResultForm,
    /// Adds an image block for a result that has a picture.
    ///
    /// Accepted and without effect so far: the gateway may not open files, so the picture's bytes
    /// have to come from the worker, which no tool sends before pictures themselves arrive.
    pub inline_images: bool,
    /// How long calls under way may go on once the gateway has been told to stop.
    pub drain: Duration,
}

/// How clients reach the gateway.
#[derive(Debug)]
pub enum Transport {
    /// The process's own stdin and stdout, one client.
    Stdio,
    /// Streamable HTTP, many clients.
    Http {
        /// Bound and listening; its address must be a loopback address.
        listener: TcpListener,
        /// Path of the MCP endpoint, for example `/mcp`.
        path: String,
        /// Names, beside the loopback ones, that a `Host` or `Origin` header may carry:
        /// `example.org`, `example.org:8443` or `https://example.org`.
        allowed_hosts: Vec<String>,
    },
}

/// Which spelling of the tools' names is listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolNames {
    /// `python_coding_tool.execute`
    #[default]
    Dotted,
    /// `python_coding_tool_execute`, for clients that accept only letters, digits, `_` and `-`.
    Underscore,
    /// Each tool under both names, except those that are not meant for models: those dotted only.
    Both,
}

/// The form of structured results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultForm {
    /// `{"result": N}`, flagged as such, for the tools that keep EAA's form.
    #[default]
    Wrapped,
    /// `N` itself.
    Plain,
}
