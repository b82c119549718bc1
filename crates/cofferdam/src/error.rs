//! The error at the edge: whatever went wrong, printed once, and the exit code that goes with it.

use std::io;

use cofferdam_protocol::Failure;

use crate::{
    cli::{CommandKind, UsageError},
    commands::{AuditReadError, GatewayProcessError, WorkerProcessError},
    config::ConfigError,
    exit::Exit,
    output,
    owner::OwnerError,
    supervisor::SupervisorError,
};

/// A command could not be carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// The command line means something impossible.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The pipeline refused or failed.
    #[error("{}", .0.message)]
    Refused(Failure),
    /// Serving failed.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
    /// The worker process failed.
    #[error(transparent)]
    Worker(#[from] WorkerProcessError),
    /// A running server could not be asked.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// The audit log cannot be read.
    #[error(transparent)]
    Audit(#[from] AuditReadError),
    /// The gateway process failed.
    #[error(transparent)]
    Gateway(#[from] GatewayProcessError),
    /// Something of this process's own could not be set up.
    #[error("{doing}")]
    Setup {
        /// What was tried.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// A result could not be printed.
    #[error("writing to standard output")]
    Output(#[source] io::Error),
}

impl CommandError {
    /// Turns an error of the system into [`CommandError::Setup`].
    pub(crate) fn setup(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Setup { doing, source }
    }

    /// Prints the error, unless nobody needs it, and says how to end.
    pub(crate) fn show(self, command: CommandKind) -> Exit {
        if let Self::Output(error) = &self
            && let Some(exit) = output::quiet_exit(error)
        {
            return exit;
        }
        let already_told = matches!(&self, Self::Supervisor(error) if error.already_told());
        if !already_told {
            output::error(&self, self.hint().as_deref());
        }
        self.exit(command)
    }

    /// The one map from errors to exit codes.
    fn exit(&self, command: CommandKind) -> Exit {
        match (self, command) {
            // Every smaller code could be the command's own.
            (_, CommandKind::Run) => Exit::Refused,
            (Self::Usage(_), _) => Exit::Usage,
            (Self::Supervisor(error), _) => error.exit(),
            (
                Self::Config(_)
                | Self::Refused(_)
                | Self::Owner(_)
                | Self::Worker(_)
                | Self::Gateway(_)
                | Self::Audit(_)
                | Self::Setup { .. }
                | Self::Output(_),
                _,
            ) => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Usage(error) => error.hint(),
            Self::Config(error) => error.hint(),
            Self::Refused(failure) => failure.hint.clone(),
            Self::Supervisor(error) => error.hint(),
            Self::Owner(error) => error.hint(),
            Self::Worker(error) => error.hint(),
            Self::Gateway(error) => error.hint(),
            Self::Audit(error) => error.hint(),
            Self::Setup { .. } | Self::Output(_) => None,
        }
    }
}
