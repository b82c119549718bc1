//! Logs: what is written about the work, on standard error.
//!
//! Standard output belongs to results and, in stdio mode, to MCP: nothing is ever logged there.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::cli::{CommandKind, Verbosity};

/// Begins logging. `RUST_LOG` decides when it is set, else the command line.
pub(crate) fn start(kind: CommandKind, verbosity: Verbosity) {
    // rmcp writes a warning for each refused call and an error for each client that hangs up: both
    // are ordinary, and the gateway logs what matters of them.
    let default = match (verbosity, kind) {
        (Verbosity::Quiet, _) => "error,rmcp=off",
        (Verbosity::Normal, CommandKind::Run | CommandKind::Other) => "warn,rmcp=error",
        (Verbosity::Normal, CommandKind::Service) => "info,rmcp=error",
        (Verbosity::Verbose, _) => "debug,rmcp=warn",
        (Verbosity::Everything, _) => "trace",
    };
    let filter = match std::env::var("RUST_LOG") {
        Ok(wanted) if !wanted.is_empty() => EnvFilter::builder().parse_lossy(wanted),
        _ => EnvFilter::new(default),
    };
    let logging = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // It would say so on standard error, by a macro that panics when that is closed.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal())
        .try_init();
    // Only a second start can fail, and there is none.
    drop(logging);
}
