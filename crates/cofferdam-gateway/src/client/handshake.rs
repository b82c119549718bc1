//! From an endpoint to a connection whose other end has proven to be our worker.

use std::{io, time::Duration};

use cofferdam_protocol::{
    Endpoint, ErrorCode, Failure, FromWorker, Hello, PROTOCOL_VERSION, ToWorker,
    frame::{self, FrameError},
};
use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_util::{
    codec::{Framed, LengthDelimitedCodec},
    either::Either,
};

/// How long connecting and shaking hands may take together.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) type Frames = Framed<Either<UnixStream, TcpStream>, LengthDelimitedCodec>;

/// There is no usable worker at the endpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nobody listens there, or it cannot be reached.
    #[error("cannot connect to `{endpoint}`")]
    Unreachable {
        /// Where the worker should be.
        endpoint: Endpoint,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The kernel cannot tell who the peer is.
    #[error("cannot ask who listens on the worker's socket")]
    PeerUnknown(#[source] io::Error),
    /// Another user listens on the worker's socket.
    #[error("user {theirs} listens on the worker's socket, expected user {ours}")]
    PeerRefused {
        /// Our own effective user id.
        ours: u32,
        /// Effective user id of the peer.
        theirs: u32,
    },
    /// The two processes are of different builds.
    #[error("the worker speaks protocol version {theirs}, this gateway speaks {ours}")]
    VersionMismatch {
        /// [`PROTOCOL_VERSION`].
        ours: u32,
        /// What the worker said.
        theirs: u32,
    },
    /// The worker refused the handshake.
    #[error("the worker refused the connection: {}", .0.message)]
    Refused(Failure),
    /// The peer does not speak the worker's protocol.
    #[error("the peer did not answer the handshake as a worker does")]
    NotAWorker(#[source] Option<FrameError>),
    /// The connection broke during the handshake.
    #[error("the connection broke during the handshake")]
    Broken(#[source] io::Error),
    /// No answer within five seconds.
    #[error("no handshake within {} s", HANDSHAKE_TIMEOUT.as_secs())]
    TimedOut,
}

impl ConnectError {
    /// Whether trying again soon may help: true while a worker is being restarted.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Broken(_) | Self::NotAWorker(_) => true,
            Self::PeerUnknown(_)
            | Self::PeerRefused { .. }
            | Self::VersionMismatch { .. }
            | Self::Refused(_)
            | Self::TimedOut => false,
        }
    }

    /// The same, as the answer to a call that needed the worker.
    pub(super) fn to_failure(&self) -> Failure {
        match self {
            Self::PeerRefused { .. } | Self::PeerUnknown(_) => {
                Failure::new(ErrorCode::PeerRefused, self.to_string())
                    .with_hint("the worker's socket must belong to a worker of the same user")
            }
            Self::VersionMismatch { .. } => {
                Failure::new(ErrorCode::VersionMismatch, self.to_string())
                    .with_hint("install gateway and worker from the same build and restart both")
            }
            Self::Refused(failure) => failure.clone(),
            Self::Unreachable { .. } | Self::NotAWorker(_) | Self::Broken(_) | Self::TimedOut => {
                super::unavailable("the worker process cannot be reached".to_owned())
            }
        }
    }
}

/// Connects to `endpoint`, checks the peer and shakes hands.
pub(super) async fn open(endpoint: &Endpoint, token: Option<&str>) -> Result<Frames, ConnectError> {
    tokio::time::timeout(HANDSHAKE_TIMEOUT, async {
        let stream = match endpoint {
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(unreachable(endpoint))?;
                check_peer(&stream)?;
                Either::Left(stream)
            }
            Endpoint::Tcp(address) => {
                let stream = TcpStream::connect(address).await.map_err(unreachable(endpoint))?;
                stream.set_nodelay(true).map_err(ConnectError::Broken)?;
                Either::Right(stream)
            }
        };
        shake_hands(Framed::new(stream, frame::codec()), token).await
    })
    .await
    .unwrap_or(Err(ConnectError::TimedOut))
}

fn unreachable(endpoint: &Endpoint) -> impl FnOnce(io::Error) -> ConnectError {
    let endpoint = endpoint.clone();
    move |source| ConnectError::Unreachable { endpoint, source }
}

fn check_peer(stream: &UnixStream) -> Result<(), ConnectError> {
    let ours = rustix::process::geteuid().as_raw();
    let theirs = stream.peer_cred().map_err(ConnectError::PeerUnknown)?.uid();
    if ours == theirs { Ok(()) } else { Err(ConnectError::PeerRefused { ours, theirs }) }
}

async fn shake_hands(mut frames: Frames, token: Option<&str>) -> Result<Frames, ConnectError> {
    let hello = Hello { version: PROTOCOL_VERSION, token: token.map(str::to_owned) };
    let payload = frame::encode(&ToWorker::Hello(hello))
        .map_err(|error| ConnectError::NotAWorker(Some(error)))?;
    frames.send(payload).await.map_err(ConnectError::Broken)?;
    let answer =
        frames.next().await.ok_or(ConnectError::NotAWorker(None))?.map_err(ConnectError::Broken)?;
    // A worker of another build may say hello in another shape: the version decides first.
    if let Some(theirs) = announced_version(&answer).filter(|theirs| *theirs != PROTOCOL_VERSION) {
        return Err(ConnectError::VersionMismatch { ours: PROTOCOL_VERSION, theirs });
    }
    match frame::decode(&answer) {
        Ok(FromWorker::Hello(_)) => Ok(frames),
        Ok(FromWorker::Refused(failure)) => Err(ConnectError::Refused(failure)),
        Ok(_) => Err(ConnectError::NotAWorker(None)),
        Err(error) => Err(ConnectError::NotAWorker(Some(error))),
    }
}

fn announced_version(answer: &[u8]) -> Option<u32> {
    let answer: serde_json::Value = serde_json::from_slice(answer).ok()?;
    (answer.get("type")? == "hello").then(|| answer.get("version")?.as_u64())??.try_into().ok()
}
