//! `cofferdam worker`, hidden: the executor process. Also installed as `cofferdam-worker`.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use cofferdam_protocol::Endpoint;
use cofferdam_worker::WorkerSettings;

use crate::{
    config::Config,
    error::CommandError,
    settings::{self, Choice, DefaultWorkspace},
};

/// As written.
#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Where to listen: a path, unix:PATH or tcp://127.0.0.1:PORT. TCP needs a shared secret in
    /// COFFERDAM_WORKER_TOKEN
    #[arg(long, value_name = "ENDPOINT")]
    bind: Endpoint,
    /// Profile of callers that name none [default: the configuration's]
    #[arg(short, long, value_name = "PROFILE")]
    profile: Option<String>,
    /// The folder that the code may work on [default: the configuration's, else the current
    /// directory]
    #[arg(short, long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Backend of callers that name none [default: the profile's first that fits]
    #[arg(short, long, value_name = "BACKEND")]
    backend: Option<String>,
    /// The server's private folder, removed should the supervisor die
    #[arg(long, value_name = "DIR", hide = true)]
    private_directory: Option<PathBuf>,
}

/// What the worker process is to do.
#[derive(Debug)]
pub(crate) struct WorkerPlan {
    /// For the executor.
    pub(crate) settings: WorkerSettings,
    /// What the settings were made from.
    pub(crate) config: Config,
    /// Where to listen.
    pub(crate) bind: Endpoint,
    /// How long calls under way may go on after the order to stop.
    pub(crate) drain: Duration,
    /// The server's private folder, removed should the supervisor die.
    pub(crate) private_directory: Option<PathBuf>,
}

impl WorkerArgs {
    /// What was meant.
    ///
    /// # Errors
    /// As for [`settings::executor`].
    pub(crate) fn resolve(self, config: Config) -> Result<WorkerPlan, CommandError> {
        let choice =
            Choice { profile: self.profile, backend: self.backend, workspace: self.workspace };
        Ok(WorkerPlan {
            settings: settings::executor(choice, DefaultWorkspace::Configured, &config)?,
            bind: self.bind,
            drain: config.server.drain,
            config,
            private_directory: self.private_directory,
        })
    }
}
