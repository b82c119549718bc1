//! Attacks on the sandbox, each a claim of `SECURITY.md`.
//!
//! Every attack has a positive control: the same attack without the sandbox succeeds, or the test
//! proves nothing. Driven through the built program, as a user would; run as root and as an
//! ordinary user.
//!
//! Not here: messages and exit codes (`tests/cli`), what clients see (`tests/mcp`).

#![allow(clippy::disallowed_methods, reason = "tests start programs and their controls")]

mod carve_outs;
mod environment;
mod lifetime;
mod privileges;
mod processes;
mod support;
