//! What crosses the socket between the gateway and the worker.
//!
//! Requests and replies, machine-readable codes, the framing, the version handshake, and the
//! catalogue of tools (their names, arguments and schemas), which is the contract both sides keep.
//!
//! Not here: MCP (only the gateway knows it), sandboxes (only the worker and what is below know
//! them), and any I/O: this crate turns values into bytes and back.

pub mod admin;
pub mod approval;
pub mod arguments;
pub mod code;
pub mod digest;
pub mod endpoint;
pub mod frame;
pub mod message;
pub mod tool;

pub use approval::{ApprovalAnswer, Elicitation};
pub use code::ErrorCode;
pub use endpoint::Endpoint;
pub use message::{
    Failure, FromWorker, Health, Hello, PROTOCOL_VERSION, Progress, ToWorker, ToolReply,
    ToolRequest,
};
pub use tool::{ToolCall, ToolDescription};
