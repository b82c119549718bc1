//! Framing: a four-byte big-endian length, then that many bytes of JSON.
//!
//! The length is checked before anything is allocated, so that a peer cannot make us reserve more
//! than [`MAX_FRAME_BYTES`].

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use tokio_util::codec::LengthDelimitedCodec;

/// The largest message either side sends or accepts, in bytes.
///
/// It leaves room for [`crate::tool::MAX_CODE_BYTES`] of source with every byte escaped, and is far
/// above any reply, whose streams are capped by the profile.
pub const MAX_FRAME_BYTES: usize = 48 * 1024 * 1024;

/// A message could not be turned into a frame or back.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The message is longer than [`MAX_FRAME_BYTES`].
    #[error("message of {bytes} bytes exceeds the frame limit of {MAX_FRAME_BYTES} bytes")]
    TooLarge {
        /// How long the message was.
        bytes: usize,
    },
    /// The bytes are not a message of the expected kind.
    #[error("malformed message")]
    Malformed(#[source] serde_json::Error),
}

/// The codec that both ends of the socket use.
pub fn codec() -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder().max_frame_length(MAX_FRAME_BYTES).new_codec()
}

/// Turns a message into the payload of one frame.
///
/// # Errors
/// [`FrameError::TooLarge`] when the payload would exceed [`MAX_FRAME_BYTES`].
pub fn encode<T: Serialize>(message: &T) -> Result<Bytes, FrameError> {
    let payload = serde_json::to_vec(message).map_err(FrameError::Malformed)?;
    if payload.len() > MAX_FRAME_BYTES {
        return Err(FrameError::TooLarge { bytes: payload.len() });
    }
    Ok(payload.into())
}

/// Turns the payload of one frame back into a message.
///
/// # Errors
/// [`FrameError::Malformed`] when the bytes are not a `T`.
pub fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, FrameError> {
    serde_json::from_slice(payload).map_err(FrameError::Malformed)
}
