//! Carrying out: one file per command.

mod approvals;
mod audit;
mod call;
mod config;
mod ending;
mod gateway;
mod owner;
mod profile;
mod run;
mod tools;
mod worker;

use std::io;

use tokio::runtime::{Builder, Runtime};

pub(crate) use audit::AuditReadError;
pub(crate) use gateway::GatewayProcessError;
pub(crate) use worker::WorkerProcessError;

use crate::{
    cli::{self, Cli, Command, ToolsArgs},
    config::Config,
    error::CommandError,
    exit::Exit,
    output, settings, supervisor,
};

/// Carries a command out.
///
/// # Errors
/// [`CommandError`] when it could not be.
pub(crate) fn carry_out(cli: Cli) -> Result<Exit, CommandError> {
    let Cli { global, command } = cli;
    let config = || settings::configuration(global.config.as_deref());
    match command {
        Command::Run(arguments) => {
            let run = arguments.resolve(&noted(config()?))?;
            run::run(run, global.verbosity())
        }
        Command::Call(arguments) => call::call(arguments.resolve(&noted(config()?))?),
        Command::Tools(ToolsArgs { action: Some(action), .. }) => owner::tools(action),
        Command::Tools(ToolsArgs { json, action: None }) => tools::tools(json, &noted(config()?)),
        Command::Approvals(arguments) => approvals::approvals(arguments),
        Command::Status { json, server } => owner::status(server, json),
        Command::Reload { server } => owner::reload(server),
        Command::Stdio(arguments) => {
            Ok(supervisor::supervise(arguments.resolve(&global, &noted(config()?))?)?)
        }
        Command::Serve(arguments) => {
            Ok(supervisor::supervise(arguments.resolve(&global, &noted(config()?))?)?)
        }
        // Their supervisor has noted it already.
        Command::Worker(arguments) => worker::work(arguments.resolve(config)?),
        Command::Mcp(arguments) => Ok(gateway::translate(arguments.resolve()?)?),
        Command::Profile(arguments) => profile::profile(arguments, &config()?),
        Command::Config(arguments) => config::config(arguments, config),
        Command::Audit(arguments) => audit::audit(arguments, &config()?),
        Command::Completions { shell } => completions(shell),
    }
}

/// Says what the configuration asks for and nothing enforces yet: silence would be a promise.
fn noted(config: Config) -> Config {
    let not_armed = config.not_armed();
    if !not_armed.is_empty() {
        tracing::warn!(keys = not_armed.join(", "), "configured, and not enforced yet");
    }
    config
}

fn completions(shell: clap_complete::Shell) -> Result<Exit, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::definition(), "cofferdam", &mut script);
    output::result(&String::from_utf8_lossy(&script)).map_err(CommandError::Output)?;
    Ok(Exit::Success)
}

/// The event loop of one process: one thread, which is also the one that starts children.
fn event_loop() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
