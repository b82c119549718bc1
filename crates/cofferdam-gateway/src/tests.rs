//! The gateway against a worker that stands at the other end of the socket and does what its test
//! needs. It stands for a peer that speaks the protocol, not for a sandbox.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod client;
pub(crate) mod fake_worker;
mod http;
mod stdio;
