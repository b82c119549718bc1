//! What several commands take, and how they read it.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    time::Duration,
};

use clap::Args;

use crate::settings::Choice;

/// What every command takes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct GlobalArgs {
    /// Configuration file [default: $COFFERDAM_CONFIG, ./cofferdam.toml, the user's, the system's]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Everywhere")]
    pub(crate) config: Option<PathBuf>,
    /// Say more on standard error; twice for everything (RUST_LOG says it finer)
    #[arg(short, long, action = clap::ArgAction::Count, global = true, help_heading = "Everywhere")]
    pub(crate) verbose: u8,
    /// Say only what went wrong
    #[arg(long, global = true, conflicts_with = "verbose", help_heading = "Everywhere")]
    pub(crate) quiet: bool,
}

/// How much is said on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Only errors.
    Quiet,
    /// What the command's kind says by default.
    Normal,
    /// What is done and why.
    Verbose,
    /// Everything.
    Everything,
}

impl GlobalArgs {
    /// How much is to be said.
    pub(crate) fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, 0) => Verbosity::Normal,
            (false, 1) => Verbosity::Verbose,
            (false, _) => Verbosity::Everything,
        }
    }
}

/// Under which rules, where and on what: the same on every command that takes them.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SandboxArgs {
    /// Sandbox profile [default: the configuration's]
    #[arg(short, long, value_name = "PROFILE")]
    pub(crate) profile: Option<String>,
    /// Backend: bubblewrap, container or host, if the profile lists it [default: the profile's
    /// first that fits]
    #[arg(short, long, value_name = "BACKEND")]
    pub(crate) backend: Option<String>,
    /// The folder that the code may work on [default: the current directory]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
}

impl From<SandboxArgs> for Choice {
    fn from(arguments: SandboxArgs) -> Self {
        let SandboxArgs { profile, backend, workspace } = arguments;
        Self { profile, backend, workspace }
    }
}

/// Which running server is meant.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct RunningServerArgs {
    /// Process id of the server [default: the only one that runs]
    #[arg(long, value_name = "PID")]
    pub(crate) server: Option<u32>,
}

/// The command line means something impossible.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UsageError {
    /// The current directory is needed and cannot be told.
    #[error("finding the current directory")]
    CurrentDirectory(#[source] std::io::Error),
    /// A file of arguments cannot be read.
    #[error("reading the arguments from `{}`", path.display())]
    ReadArguments {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Standard input cannot be read.
    #[error("reading the arguments from standard input")]
    ReadStandardInput(#[source] std::io::Error),
    /// The arguments are not JSON.
    #[error("the arguments are not JSON")]
    NotJson(#[source] serde_json::Error),
    /// The arguments are JSON but not an object.
    #[error("the arguments must be a JSON object, got {0}")]
    NotAnObject(&'static str),
    /// There are too many arguments to be true.
    #[error("the arguments are longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: u64,
    },
    /// The address to listen on is none.
    #[error("`{0}` is not an IP address")]
    NotAnAddress(String),
    /// The address to listen on can be reached by other machines.
    #[error(
        "refusing to listen on `{0}`: other machines could reach it, and callers have no tokens"
    )]
    NotLoopback(std::net::IpAddr),
    /// The path of the endpoint is none.
    #[error("`{0}` is not a URL path")]
    NotAPath(String),
    /// A TCP endpoint for the worker needs a port that both sides know beforehand.
    #[error("the worker endpoint `{0}` names no port")]
    NoWorkerPort(std::net::SocketAddr),
}

impl UsageError {
    /// The next step.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::CurrentDirectory(_) => Some("name the workspace with `-w DIR`".to_owned()),
            Self::NotJson(_) | Self::NotAnObject(_) => Some(
                "write an object such as '{\"code\": \"print(6*7)\"}', `-` to read it from \
                 standard input, or `@FILE`"
                    .to_owned(),
            ),
            Self::TooLong { .. } => {
                Some("write the data to a file in the workspace and read it from there".to_owned())
            }
            Self::NotAnAddress(_) | Self::NotLoopback(_) => {
                Some("use 127.0.0.1, ::1 or localhost, and a tunnel for other machines".to_owned())
            }
            Self::NotAPath(_) => Some("write it as /mcp".to_owned()),
            Self::NoWorkerPort(address) => {
                Some(format!("write a port, such as tcp://{}:5555", address.ip()))
            }
            Self::ReadArguments { .. } | Self::ReadStandardInput(_) => None,
        }
    }
}

/// Reads the address to listen on: loopback only.
///
/// # Errors
/// [`UsageError`] for anything else.
pub(crate) fn loopback(text: &str) -> Result<IpAddr, UsageError> {
    let address = match text {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        _ => text
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse()
            .map_err(|_| UsageError::NotAnAddress(text.to_owned()))?,
    };
    if address.is_loopback() { Ok(address) } else { Err(UsageError::NotLoopback(address)) }
}

/// Reads the path of a URL.
///
/// # Errors
/// [`UsageError::NotAPath`] unless it begins with a slash. What a route can be is decided by the
/// gateway.
pub(crate) fn url_path(text: String) -> Result<String, UsageError> {
    if text.starts_with('/') { Ok(text) } else { Err(UsageError::NotAPath(text)) }
}

/// Reads a duration with its unit, as in profiles, or a number of seconds.
///
/// # Errors
/// What was expected instead.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const EXPECTED: &str = "expected a time above 0, such as 30s, 1m, 500ms or a number of seconds";
    let duration = match text.trim().parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| EXPECTED.to_owned())?,
        Err(_) => cofferdam_policy::document::duration(text).map_err(|_| EXPECTED.to_owned())?,
    };
    if duration.is_zero() { Err(EXPECTED.to_owned()) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_and_without_units() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("1m"), Ok(Duration::from_secs(60)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
    }

    #[test]
    fn times_that_are_none_are_refused() {
        for text in ["", "0", "0s", "-1", "-1s", "nan", "inf", "soon", "1e400", "s", "1m x"] {
            assert!(duration(text).is_err(), "`{text}` was read as {:?}", duration(text));
        }
    }
}
