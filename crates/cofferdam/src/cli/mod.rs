//! The command line as written: what clap reads, and nothing decided yet.
//!
//! Each command has its own file with two shapes: the arguments as written, and what they mean once
//! the configuration is known. Not here: doing anything.

mod approvals;
mod audit;
mod call;
mod common;
mod config;
mod help;
mod mcp;
mod profile;
mod run;
mod serve;
mod tools;
mod worker;

use std::ffi::OsString;

use clap::{CommandFactory, Parser, Subcommand};

pub(crate) use approvals::{ApprovalsAction, ApprovalsArgs};
pub(crate) use audit::{AuditArgs, AuditCommand, AuditShowArgs, AuditTailArgs, AuditVerifyArgs};
pub(crate) use call::{Call, CallArgs};
pub(crate) use common::{GlobalArgs, RunningServerArgs, UsageError, Verbosity};
pub(crate) use config::{ConfigArgs, ConfigCommand};
pub(crate) use mcp::{GatewayPlan, HttpPlan, Mcp, McpArgs};
pub(crate) use profile::{ExplainArgs, Form, ProfileArgs, ProfileCommand};
pub(crate) use run::{Run, RunArgs, Shown};
pub(crate) use serve::{ServeArgs, StdioArgs, Supervision};
pub(crate) use tools::{ToolsAction, ToolsArgs};
pub(crate) use worker::{WorkerArgs, WorkerPlan};

use crate::exit::Exit;

/// Run code that an agent wrote where it can do no harm, and say how strongly it was held.
#[derive(Debug, Parser)]
#[command(
    name = "cofferdam",
    version,
    about,
    long_about = help::ABOUT,
    after_help = help::EXAMPLES,
    after_long_help = help::EXAMPLES_AND_EXIT_CODES,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one command in a sandbox
    Run(RunArgs),
    /// Call one tool, as an agent would
    Call(CallArgs),
    /// List the tools that are served, or switch tools of a running server on and off
    Tools(ToolsArgs),
    /// Serve MCP on standard input and output
    Stdio(StdioArgs),
    /// Serve MCP over streamable HTTP on this machine
    Serve(ServeArgs),
    /// List, show, check, compare and explain sandbox profiles
    Profile(ProfileArgs),
    /// Show the configuration, and where each value came from
    Config(ConfigArgs),
    /// Show how a running server is
    #[command(after_help = help::STATUS)]
    Status {
        /// As a JSON object
        #[arg(long)]
        json: bool,
        /// Which server.
        #[command(flatten)]
        server: RunningServerArgs,
    },
    /// See which calls of a running server wait for a person, and decide
    Approvals(ApprovalsArgs),
    /// Have a running server read its configuration and profiles again
    #[command(after_help = help::RELOAD)]
    Reload {
        /// Which server.
        #[command(flatten)]
        server: RunningServerArgs,
    },
    /// Show, verify and follow the audit log
    Audit(AuditArgs),
    /// Print a completion script for a shell
    #[command(after_help = help::COMPLETIONS)]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// The executor process (started by `serve` and `stdio`)
    #[command(hide = true)]
    Worker(WorkerArgs),
    /// The MCP gateway process (started by `serve` and `stdio`)
    #[command(hide = true)]
    Mcp(McpArgs),
}

/// The kinds of command, as far as logs and exit codes are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandKind {
    /// `run`, whose small exit codes belong to the command that is run.
    Run,
    /// Any other command for a person.
    Other,
    /// A server or a part of one.
    Service,
}

impl Command {
    /// Which kind it is.
    pub(crate) fn kind(&self) -> CommandKind {
        match self {
            Self::Run(_) => CommandKind::Run,
            Self::Call(_)
            | Self::Tools(_)
            | Self::Profile(_)
            | Self::Config(_)
            | Self::Approvals(_)
            | Self::Audit(_)
            | Self::Status { .. }
            | Self::Reload { .. }
            | Self::Completions { .. } => CommandKind::Other,
            Self::Stdio(_) | Self::Serve(_) | Self::Worker(_) | Self::Mcp(_) => {
                CommandKind::Service
            }
        }
    }
}

/// The command line was not one, or asked only for help.
#[derive(Debug)]
pub(crate) struct NotACommand {
    error: clap::Error,
    exit: Exit,
}

impl NotACommand {
    /// Prints the help or the error, and says how to end.
    pub(crate) fn show(self) -> Exit {
        // clap chooses the stream; when that is closed nobody is left to be told.
        let _ = self.error.print();
        self.exit
    }
}

/// Reads the command line.
///
/// # Errors
/// [`NotACommand`] for bad arguments, and for `--help` and `--version`, which have no command to
/// carry out.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, NotACommand> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    Cli::try_parse_from(&arguments).map_err(|error| {
        let exit = match error.exit_code() {
            0 => Exit::Success,
            // Exit code 2 could be the command's own there.
            _ if names_run(&arguments) => Exit::Refused,
            _ => Exit::Usage,
        };
        NotACommand { error, exit }
    })
}

/// The definition of the command line, for completion scripts.
pub(crate) fn definition() -> clap::Command {
    Cli::command()
}

/// Whether a command line that clap refused was meant for `run`.
fn names_run(arguments: &[OsString]) -> bool {
    let lenient = Cli::command().ignore_errors(true).try_get_matches_from(arguments);
    lenient.is_ok_and(|matches| matches.subcommand_name() == Some("run"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit_of(line: &str) -> u8 {
        let arguments = line.split(' ').map(OsString::from);
        parse(arguments).map_or_else(|refused| refused.exit.code(), |_| 0)
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn usage_errors_of_run_are_125_and_of_everything_else_2() {
        assert_eq!(exit_of("cofferdam run"), 125);
        assert_eq!(exit_of("cofferdam run --no-such-option -- true"), 125);
        assert_eq!(exit_of("cofferdam --config x -v run --timeout soon -- true"), 125);
        assert_eq!(exit_of("cofferdam call"), 2);
        assert_eq!(exit_of("cofferdam tools --no-such-option"), 2);
        assert_eq!(exit_of("cofferdam no-such-command"), 2);
        assert_eq!(exit_of("cofferdam --no-such-option run -- true"), 2);
    }

    #[test]
    fn help_is_no_error() {
        assert_eq!(exit_of("cofferdam --help"), 0);
        assert_eq!(exit_of("cofferdam run --help"), 0);
        assert_eq!(exit_of("cofferdam --version"), 0);
    }
}
