//! The program `cofferdam`: command line, configuration, supervisor.
//!
//! Everything else is in the crates beside this one. Here is only the order of things: read the
//! command line, resolve it with the configuration, carry it out, and turn what went wrong into one
//! message and one exit code.

mod cli;
mod commands;
mod config;
mod error;
mod exit;
mod in_force;
mod logging;
mod output;
mod owner;
mod reload;
mod server_folder;
mod settings;
mod supervisor;

use std::{env, process::ExitCode};

use cofferdam_backend::sys;

use crate::error::CommandError;

fn main() -> ExitCode {
    let cli = match cli::parse(env::args_os()) {
        Ok(cli) => cli,
        Err(no_command) => return no_command.show().into(),
    };
    let kind = cli.command.kind();
    logging::start(kind, cli.global.verbosity());
    // Whoever started this may have left anything open; no child shall get it.
    let exit = sys::close_on_exec_from(3)
        .map_err(CommandError::setup("marking descriptors close-on-exec"))
        .and_then(|()| commands::carry_out(cli))
        .unwrap_or_else(|error| error.show(kind));
    exit.into()
}
