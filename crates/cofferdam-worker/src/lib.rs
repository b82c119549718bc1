//! The executor process: sessions, tools, the pipeline from request to reply, the audit log, the
//! socket server.
//!
//! [`Executor`] alone carries calls through their stages (plan, authorize, execute, normalize), and
//! cannot fail: every failure is a reply with a code. [`serve`] lets other processes of the same
//! user call it.
//!
//! Not here: MCP (the gateway), deciding what may run (the policy crate), starting it (the backend).

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod approvals;
mod asking;
pub mod audit;
mod control;
mod executor;
mod failure;
mod generation;
mod normalize;
mod pipeline;
mod progress;
mod queue;
mod runtime;
mod server;
mod sessions;
mod settings;
mod shown;
#[cfg(test)]
mod tests;
mod tool_control;
mod tools;

pub use asking::ApprovalEvent;
pub use control::{Control, ReadRules};
pub use executor::{CommandRequest, Executor, Normalized};
pub use server::{Auth, Listener, ServeError, bind_unix, serve, serve_admin};
pub use settings::{ApprovalChannel, ApprovalSettings, Rules, WorkerSettings};
