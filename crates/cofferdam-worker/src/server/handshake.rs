//! From an accepted connection to one whose peer may call.

use std::{io, time::Duration};

use bytes::Bytes;
use cofferdam_protocol::{
    ErrorCode, Failure, FromWorker, Hello, PROTOCOL_VERSION, ToWorker,
    frame::{self, FrameError, MAX_FRAME_BYTES},
};
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use subtle::ConstantTimeEq;
use tokio::net::{TcpStream, UnixStream};
use tokio_util::{
    codec::{Framed, LengthDelimitedCodec},
    either::Either,
};

use super::Auth;

/// How long a peer may take to introduce itself.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The longest introduction, in bytes: a peer that is not known yet must not make us reserve more.
const MOST_BYTES: usize = 16 * 1024;

pub(super) type Stream = Either<UnixStream, TcpStream>;
pub(super) type Frames = Framed<Stream, LengthDelimitedCodec>;

/// What is known of a peer before it speaks.
#[derive(Debug)]
pub(super) enum Peer {
    /// A process of this machine, with the user that the kernel names.
    Local(io::Result<u32>),
    /// Anybody who can reach the port.
    Remote,
}

/// A peer may not call.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("asking the kernel who the peer is")]
    PeerUnknown(#[source] io::Error),
    #[error("the peer is user {theirs}, only user {ours} may call")]
    OtherUser { ours: u32, theirs: u32 },
    #[error("the peer does not know the shared token")]
    WrongToken,
    #[error("the peer speaks protocol version {0}, this worker speaks {PROTOCOL_VERSION}")]
    VersionMismatch(Value),
    #[error("the first message is no hello")]
    NoHello,
    #[error("the first message cannot be read")]
    Malformed(#[from] FrameError),
    #[error("the connection broke during the handshake")]
    Broken(#[from] io::Error),
    #[error("no hello within {} s", TIMEOUT.as_secs())]
    Silent,
    #[error("the connection ended before a hello")]
    Gone,
}

impl Refused {
    /// What the peer is told, if it is told anything.
    fn failure(&self) -> Option<Failure> {
        let (code, hint) = match self {
            Self::PeerUnknown(_) | Self::OtherUser { .. } => {
                (ErrorCode::PeerRefused, "run the gateway as the user who runs the worker")
            }
            Self::WrongToken => {
                (ErrorCode::PeerRefused, "start both processes with the same shared token")
            }
            Self::VersionMismatch(_) => (
                ErrorCode::VersionMismatch,
                "install gateway and worker from the same build and restart both",
            ),
            _ => return None,
        };
        Some(Failure::new(code, self.to_string()).with_hint(hint))
    }
}

/// Checks who the peer is and agrees on the version.
pub(super) async fn shake_hands(
    stream: Stream,
    peer: Peer,
    auth: &Auth,
) -> Result<Frames, Refused> {
    let mut frames = Framed::new(stream, frame::codec());
    frames.codec_mut().set_max_frame_length(MOST_BYTES);
    let checked = tokio::time::timeout(TIMEOUT, check(&mut frames, peer, auth)).await;
    let checked = checked.unwrap_or(Err(Refused::Silent));
    let answer = match &checked {
        Ok(()) => Some(FromWorker::Hello(Hello { version: PROTOCOL_VERSION, token: None })),
        Err(refused) => refused.failure().map(FromWorker::Refused),
    };
    if let Some(answer) = answer {
        let answer: Bytes = frame::encode(&answer)?;
        let sent = tokio::time::timeout(TIMEOUT, frames.send(answer)).await;
        // A peer that was refused and does not even listen changes nothing.
        if checked.is_ok() {
            sent.map_err(|_| Refused::Silent)??;
        }
    }
    checked?;
    frames.codec_mut().set_max_frame_length(MAX_FRAME_BYTES);
    Ok(frames)
}

async fn check(frames: &mut Frames, peer: Peer, auth: &Auth) -> Result<(), Refused> {
    if let Peer::Local(theirs) = &peer {
        let theirs = *theirs.as_ref().map_err(|error| {
            Refused::PeerUnknown(io::Error::new(error.kind(), error.to_string()))
        })?;
        if theirs != auth.uid {
            return Err(Refused::OtherUser { ours: auth.uid, theirs });
        }
    }
    let payload = frames.next().await.ok_or(Refused::Gone)??;
    // Read loosely first: a hello of another version may have keys that this one does not know.
    let hello: Value = frame::decode(&payload)?;
    if hello["type"] != "hello" {
        return Err(Refused::NoHello);
    }
    if matches!(peer, Peer::Remote) && !knows(auth, hello["token"].as_str().unwrap_or_default()) {
        return Err(Refused::WrongToken);
    }
    if hello["version"] != PROTOCOL_VERSION {
        return Err(Refused::VersionMismatch(hello["version"].clone()));
    }
    match frame::decode(&payload)? {
        ToWorker::Hello(_) => Ok(()),
        _ => Err(Refused::NoHello),
    }
}

/// Whether `token` is the shared one. Takes equally long wherever they differ.
fn knows(auth: &Auth, token: &str) -> bool {
    let Some(expected) = auth.token.as_deref().filter(|expected| !expected.is_empty()) else {
        return false;
    };
    expected.as_bytes().ct_eq(token.as_bytes()).into()
}
