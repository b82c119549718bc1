//! `cofferdam tools`, and what its subcommands do to a running server.

use std::time::Duration;

use clap::{Args, Subcommand};
use cofferdam_protocol::admin::AdminRequest;

use super::{
    common::{RunningServerArgs, duration},
    help,
};

/// As written.
#[derive(Debug, Args)]
#[command(after_help = help::TOOLS, args_conflicts_with_subcommands = true)]
pub(crate) struct ToolsArgs {
    /// Everything a client is told, schemas included, as a JSON array
    #[arg(long)]
    pub(crate) json: bool,
    /// What to do to a running server
    #[command(subcommand)]
    pub(crate) action: Option<ToolsAction>,
}

/// What to do to a running server.
#[derive(Debug, Subcommand)]
pub(crate) enum ToolsAction {
    /// Switch tools of a running server on, before every rule of its configuration
    #[command(after_help = help::TOOLS_SET)]
    Activate(SetToolsArgs),
    /// Switch tools of a running server off, before every rule of its configuration
    #[command(after_help = help::TOOLS_SET)]
    Deactivate(SetToolsArgs),
    /// Forget a pattern that was switched on or off: the rules below it decide again
    Forget {
        /// The pattern, as it was given
        pattern: String,
        /// Which server.
        #[command(flatten)]
        server: RunningServerArgs,
    },
    /// Show the rules of a running server, in the order in which they are asked
    Rules {
        /// As a JSON array
        #[arg(long)]
        json: bool,
        /// Which server.
        #[command(flatten)]
        server: RunningServerArgs,
    },
}

/// `activate` and `deactivate`, as written.
#[derive(Debug, Args)]
pub(crate) struct SetToolsArgs {
    /// Shell-style glob over whole canonical names, case-sensitive.
    #[arg(
        help = "Shell-style glob over whole canonical names, case-sensitive: *, ?, [abc], [!abc]"
    )]
    pattern: String,
    /// Forget it again after this time: 30s, 10m, 2h or a number of seconds
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    expires_after: Option<Duration>,
    /// Which server.
    #[command(flatten)]
    server: RunningServerArgs,
}

impl ToolsAction {
    /// What the server is asked, and which server that is.
    pub(crate) fn resolve(self) -> (RunningServerArgs, AdminRequest) {
        match self {
            Self::Activate(arguments) => arguments.resolve(true),
            Self::Deactivate(arguments) => arguments.resolve(false),
            Self::Forget { pattern, server } => (server, AdminRequest::ForgetTools { pattern }),
            Self::Rules { server, .. } => (server, AdminRequest::ToolRules),
        }
    }
}

impl SetToolsArgs {
    fn resolve(self, active: bool) -> (RunningServerArgs, AdminRequest) {
        // Whole seconds: a part of one counts as one.
        let expires_after_s =
            self.expires_after.map(|time| time.as_secs() + u64::from(time.subsec_nanos() > 0));
        (self.server, AdminRequest::SetTools { pattern: self.pattern, active, expires_after_s })
    }
}
