//! Claims about the command line, made to the built program.
//!
//! Everything here passes as root and as an ordinary user.
#![allow(
    clippy::disallowed_methods,
    reason = "it starts the program as people do, and watches it with nothing but the system"
)]

mod bad_input;
mod call;
mod help;
mod run_exit;
mod run_signals;
mod run_streams;
mod run_terminal;
mod serve;
mod stdio;
mod support;
mod tools;
