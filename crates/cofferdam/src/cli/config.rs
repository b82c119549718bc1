//! `cofferdam config`: what an admin asks about the configuration. Changes nothing.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use cofferdam_policy::document::Origin;

use super::{
    common::{loopback, url_path},
    profile::Form,
};
use crate::{config::Config, error::CommandError, settings};

const ABOUT: &str = "\
Examples:
  cofferdam config show
  COFFERDAM_SERVER__PORT=8051 cofferdam config show
  cofferdam config schema > cofferdam.schema.json

`cofferdam config COMMAND --help` shows more of each.";

const SHOW: &str = "\
Examples:
  cofferdam config show
  cofferdam --config /etc/cofferdam/cofferdam.toml config show --json
  cofferdam config show -w ~/project --mcp-port 0

Every value, with where it came from behind it: an option, a variable COFFERDAM_<SECTION>__<KEY>, a line \
of the file, or the built-in default. The options are those of `serve`.";

const SCHEMA: &str = "\
Examples:
  cofferdam config schema > cofferdam.schema.json";

/// As written.
#[derive(Debug, Args)]
#[command(after_help = ABOUT, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// The questions.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show the configuration: every value, and where it came from
    #[command(after_help = SHOW)]
    Show(ShowArgs),
    /// Print the JSON Schema of the configuration file
    #[command(after_help = SCHEMA)]
    Schema,
}

/// `cofferdam config show`, as written.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) form: Form,
    /// As for `serve`
    #[arg(short, long, value_name = "PROFILE", help_heading = "As for serve")]
    profile: Option<String>,
    /// As for `serve`
    #[arg(short, long, value_name = "DIR", help_heading = "As for serve")]
    workspace: Option<PathBuf>,
    /// As for `serve`
    #[arg(long, value_name = "ADDRESS", help_heading = "As for serve")]
    mcp_host: Option<String>,
    /// As for `serve`
    #[arg(long, value_name = "N", help_heading = "As for serve")]
    mcp_port: Option<u16>,
    /// As for `serve`
    #[arg(long, value_name = "PATH", help_heading = "As for serve")]
    mcp_path: Option<String>,
}

impl ShowArgs {
    /// The configuration as a server with these options would have it.
    ///
    /// # Errors
    /// [`CommandError`] for an address or a path that cannot be served, and when the current
    /// directory is needed and gone.
    pub(crate) fn resolve(self, mut config: Config) -> Result<Config, CommandError> {
        let mut given = |key: &str, option: &str| {
            config.origins.insert(key.to_owned(), Origin::Option { name: option.to_owned() });
        };
        if let Some(profile) = self.profile {
            given("execution.default_profile", "--profile");
            config.execution.default_profile = profile;
        }
        if let Some(workspace) = self.workspace {
            given("workspace.root", "--workspace");
            config.workspace.root = settings::absolute(&workspace)?;
        }
        if let Some(host) = self.mcp_host {
            given("server.host", "--mcp-host");
            config.server.host = loopback(&host)?.to_string();
        }
        if let Some(port) = self.mcp_port {
            given("server.port", "--mcp-port");
            config.server.port = port;
        }
        if let Some(path) = self.mcp_path {
            given("server.path", "--mcp-path");
            config.server.path = url_path(path)?;
        }
        Ok(config)
    }
}
