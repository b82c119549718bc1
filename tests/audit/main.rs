//! Claims about the audit log, made to the built program: at the command line, and by a server that is
//! spoken to over its pipes.
//!
//! Everything here passes as root and as an ordinary user. What the chain can show at all is claimed
//! in `crates/cofferdam-worker/src/audit/tests`.

#![allow(clippy::disallowed_methods, reason = "tests start programs, and end by themselves")]

#[path = "../cli/support/mod.rs"]
#[allow(dead_code, reason = "shared with the suite of the command line, which uses more of it")]
mod support;

mod full;
mod log;
mod recorded;
mod servers;
mod shown;
mod verified;

pub(crate) const PYTHON: &str = "python_coding_tool.execute";
pub(crate) const BASH: &str = "bash_coding_tool.execute";
