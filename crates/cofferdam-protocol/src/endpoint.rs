//! Where a worker listens: a Unix socket, or TCP on loopback with a shared token.

use std::{net::SocketAddr, path::PathBuf, str::FromStr};

/// Address of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A Unix socket in a private directory; the kernel tells who the peer is.
    Unix(PathBuf),
    /// TCP. Only loopback addresses; the peer proves itself by the shared token.
    Tcp(SocketAddr),
}

/// A text is not the address of a worker.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// Neither a path nor `unix:PATH` nor `tcp://IP:PORT`.
    #[error("`{0}` is not a worker endpoint")]
    Unparsable(String),
    /// A TCP address that other machines could reach.
    #[error("worker endpoint `{0}` is not a loopback address")]
    NotLoopback(SocketAddr),
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    /// Reads `/absolute/path`, `unix:PATH`, `unix://PATH` or `tcp://127.0.0.1:5555`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(address) = text.strip_prefix("tcp://") {
            let address: SocketAddr =
                address.parse().map_err(|_| EndpointError::Unparsable(text.to_owned()))?;
            if !address.ip().is_loopback() {
                return Err(EndpointError::NotLoopback(address));
            }
            return Ok(Self::Tcp(address));
        }
        let path =
            text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:")).unwrap_or(text);
        if path.is_empty() || path.contains("://") {
            return Err(EndpointError::Unparsable(text.to_owned()));
        }
        Ok(Self::Unix(PathBuf::from(path)))
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}
