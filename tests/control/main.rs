//! Claims about what the owner does to a running server: switching tools, reloading, asking how it is.
//!
//! Made to the built program, by the smallest clients of both protocol eras over both transports.
//! Everything here passes as root and as an ordinary user.
#![allow(
    clippy::disallowed_methods,
    reason = "it starts the program as people do, and watches it with nothing but the system"
)]

#[path = "../cli/support/mod.rs"]
#[allow(dead_code, reason = "shared with the suite of the command line, which uses more of it")]
mod support;

mod client;
mod list_changed;
mod owned;
mod reload;
mod servers;
mod tool_control;
