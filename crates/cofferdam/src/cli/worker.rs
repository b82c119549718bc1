//! `cofferdam worker`, hidden: the executor process. Also installed as `cofferdam-worker`.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use cofferdam_protocol::Endpoint;
use cofferdam_worker::WorkerSettings;

use crate::{
    config::Config,
    error::CommandError,
    in_force::InForce,
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
    /// What the settings were made from when the server started.
    pub(crate) config: Config,
    /// What is in force, to be kept for the next worker.
    pub(crate) in_force: InForce,
    /// Whether this worker goes on where another one ended, rather than begins.
    pub(crate) resumes: bool,
    /// Where to listen.
    pub(crate) bind: Endpoint,
    /// How long calls under way may go on after the order to stop.
    pub(crate) drain: Duration,
    /// The server's private folder, removed should the supervisor die.
    pub(crate) private_directory: Option<PathBuf>,
}

impl WorkerArgs {
    /// What was meant. `config` reads the configuration, which is done unless this worker goes on where
    /// another one of the same server ended.
    ///
    /// # Errors
    /// As for [`settings::executor`].
    pub(crate) fn resolve(
        self,
        config: impl FnOnce() -> Result<Config, CommandError>,
    ) -> Result<WorkerPlan, CommandError> {
        let folder = self.private_directory.as_deref();
        let before = folder.map(InForce::read).transpose();
        let before = before.map_err(CommandError::setup("reading what was in force"))?.flatten();
        let choice =
            Choice { profile: self.profile, backend: self.backend, workspace: self.workspace };
        let resumes = before.is_some();
        let (config, in_force, settings) = match before {
            Some(in_force) => {
                let config = settings::configuration_as_read(in_force.first.clone())?;
                let settings = settings::resumed(choice, &config, &in_force)?;
                (config, in_force, settings)
            }
            None => {
                let config = config()?;
                let sources = config.profile_sources()?;
                let file = config.file.clone();
                let in_force =
                    InForce::new(file.clone(), file, &sources, settings::FIRST_GENERATION);
                let default = DefaultWorkspace::Configured;
                let settings = settings::executor_of(choice, default, &config, sources)?;
                (config, in_force, settings)
            }
        };
        Ok(WorkerPlan {
            settings,
            bind: self.bind,
            drain: config.server.drain,
            config,
            in_force,
            resumes,
            private_directory: self.private_directory,
        })
    }
}
