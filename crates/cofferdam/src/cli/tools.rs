//! `cofferdam tools`

use clap::Args;

use super::help;

/// As written.
#[derive(Debug, Args)]
#[command(after_help = help::TOOLS)]
pub(crate) struct ToolsArgs {
    /// Everything a client is told, schemas included, as a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}
