//! `cofferdam-worker --bind ENDPOINT`: the worker as a program of its own, for those who supervise
//! it themselves. It is `cofferdam worker` under another name.

use std::process::ExitCode;

#[path = "sibling/mod.rs"]
mod sibling;

fn main() -> ExitCode {
    sibling::become_cofferdam("worker")
}
