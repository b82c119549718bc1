//! `cofferdam run`

use std::{ffi::OsString, time::Duration};

use clap::Args;
use cofferdam_worker::WorkerSettings;

use super::{
    common::{SandboxArgs, duration},
    help,
};
use crate::{
    config::Config,
    error::CommandError,
    settings::{self, DefaultWorkspace},
};

/// As written.
#[derive(Debug, Args)]
#[command(after_help = help::RUN, override_usage = "cofferdam run [OPTIONS] -- COMMAND...")]
pub(crate) struct RunArgs {
    /// Under which rules, where and on what.
    #[command(flatten)]
    sandbox: SandboxArgs,
    /// End it after this time: 30s, 1m, 500ms or a number of seconds
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// Agree to this one run, should the profile want a person to be asked
    #[arg(long)]
    approve: bool,
    /// Print the result as an agent gets it, instead of streaming
    #[arg(long)]
    json: bool,
    /// Say on standard error at the end how strongly the run was held
    #[arg(long)]
    report: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What is to be run, and how it is shown.
#[derive(Debug)]
pub(crate) struct Run {
    /// For the executor.
    pub(crate) settings: WorkerSettings,
    /// The command and its arguments, at least one.
    pub(crate) command: Vec<OsString>,
    /// The deadline that was asked for.
    pub(crate) timeout: Option<Duration>,
    /// Whoever typed it agrees to it.
    pub(crate) approved: bool,
    /// Where the streams go.
    pub(crate) shown: Shown,
    /// Say at the end how strongly the run was held.
    pub(crate) report: bool,
}

/// How a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Streams as they come.
    Live,
    /// One JSON object at the end.
    Json,
}

impl RunArgs {
    /// What was meant.
    ///
    /// # Errors
    /// As for [`settings::executor`].
    pub(crate) fn resolve(self, config: &Config) -> Result<Run, CommandError> {
        Ok(Run {
            settings: settings::executor(self.sandbox.into(), DefaultWorkspace::Here, config)?,
            command: self.command,
            timeout: self.timeout,
            approved: self.approve,
            shown: if self.json { Shown::Json } else { Shown::Live },
            report: self.report,
        })
    }
}
