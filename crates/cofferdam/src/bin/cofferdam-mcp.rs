//! `cofferdam-mcp --worker ENDPOINT --host H --port N --path P`: the gateway as a program of its
//! own, for those who supervise it themselves. It is `cofferdam mcp` under another name.

use std::process::ExitCode;

#[path = "sibling/mod.rs"]
mod sibling;

fn main() -> ExitCode {
    sibling::become_cofferdam("mcp")
}
