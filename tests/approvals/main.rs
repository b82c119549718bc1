//! Claims about approvals, made to the built program: by the smallest clients of both protocol eras
//! over both transports, and at the command line.
//!
//! Everything here passes as root and as an ordinary user. How real clients fare is claimed in
//! `tests/mcp/test_approvals.py`.

#![allow(clippy::disallowed_methods, reason = "tests start programs, and end by themselves")]

#[path = "../cli/support/mod.rs"]
#[allow(dead_code, reason = "shared with the suite of the command line, which uses more of it")]
mod support;

mod ask;
mod audited;
mod client;
mod command_line;
mod every_way;
mod owner;
mod sealed_state;
mod waiting;
