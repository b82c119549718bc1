//! `cofferdam profile`: what an admin asks about sandbox profiles. Changes nothing.

use std::path::{Component, Path, PathBuf};

use clap::{Args, Subcommand};
use cofferdam_policy::hosts::HostPort;

const ABOUT: &str = "\
Examples:
  cofferdam profile list
  cofferdam profile show default
  cofferdam profile check sandbox-profiles/*.toml
  cofferdam profile diff default uv
  cofferdam profile explain default bash_coding_tool.execute --path .git/config

`cofferdam profile COMMAND --help` shows more of each.";

const LIST: &str = "\
Examples:
  cofferdam profile list
  cofferdam profile list --json | jq '.broken'

A file that cannot be used is listed with what is wrong, and takes nothing away from the others; a \
server refuses to start on it.";

const SHOW: &str = "\
Examples:
  cofferdam profile show default
  cofferdam profile show default > sandbox-profiles/mine.toml

What is printed is a profile file itself: every value decided, with where it came from behind it.";

const CHECK: &str = "\
Examples:
  cofferdam profile check sandbox-profiles/offline.toml
  cofferdam profile check --json sandbox-profiles/*.toml

The files need not be in force: each is checked among the known profiles as if it were. All that is \
wrong is told. By what a profile may allow more than the one it extends is noted and is no error.

Exit codes:
  0  every file can be used
  1  one cannot
  2  the command line is wrong";

const DIFF: &str = "\
Examples:
  cofferdam profile diff default uv
  cofferdam profile diff default offline-strict --json

Says of each value that differs whether the second profile is wider (allows more) or tighter. \
\"unclear\" matters and cannot be ordered, \"neutral\" allows and forbids nothing.";

const EXPLAIN: &str = "\
Examples:
  cofferdam profile explain default python_coding_tool.execute
  cofferdam profile explain default run --path .env --path /usr/bin/env
  cofferdam profile explain uv uv_tool.uv --host idx.test:443

Says which rule of which file decides. Nothing is run and nothing is looked up: paths and names are \
taken as they are spelled. What a server was told since it started is not known here.";

const SCHEMA: &str = "\
Examples:
  cofferdam profile schema > profile.schema.json";

/// As written.
#[derive(Debug, Args)]
#[command(after_help = ABOUT, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct ProfileArgs {
    #[command(subcommand)]
    pub(crate) command: ProfileCommand,
}

/// The questions.
#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// List the profiles, and the files that are none
    #[command(after_help = LIST)]
    List {
        #[command(flatten)]
        form: Form,
    },
    /// Show a profile: every value, and where it came from
    #[command(after_help = SHOW)]
    Show {
        /// Name of the profile
        name: String,
        #[command(flatten)]
        form: Form,
    },
    /// Check files before they are put in force
    #[command(after_help = CHECK)]
    Check {
        /// The files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        form: Form,
    },
    /// Compare two profiles, value by value
    #[command(after_help = DIFF)]
    Diff {
        /// Name of the one
        #[arg(value_name = "A")]
        before: String,
        /// Name of the other
        #[arg(value_name = "B")]
        after: String,
        #[command(flatten)]
        form: Form,
    },
    /// Say which rule decides about a tool, a path or a host, and why
    #[command(after_help = EXPLAIN)]
    Explain(ExplainArgs),
    /// Print the JSON Schema of a profile file
    #[command(after_help = SCHEMA)]
    Schema,
}

/// For whom a result is printed.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Form {
    /// For programs: one JSON value
    #[arg(long)]
    pub(crate) json: bool,
}

/// `cofferdam profile explain`, as written.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Name of the profile
    pub(crate) name: String,
    /// Name of the tool, or `run` for the command line
    pub(crate) tool: String,
    /// A path that a run may or may not touch, relative to the workspace or absolute; may be
    /// repeated
    #[arg(long = "path", value_name = "PATH", value_parser = plain_path)]
    pub(crate) paths: Vec<PathBuf>,
    /// A host that a run may or may not reach; may be repeated
    #[arg(long = "host", value_name = "HOST:PORT", value_parser = HostPort::parse)]
    pub(crate) hosts: Vec<HostPort>,
    /// The folder that the code may work on [default: the configuration's]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// A path that means what it says: what `..` leads to is only known where links are looked at.
fn plain_path(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    if text.is_empty() {
        return Err("must not be empty".to_owned());
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err("must not have `..` in it".to_owned());
    }
    Ok(path.components().filter(|part| *part != Component::CurDir).collect())
}
