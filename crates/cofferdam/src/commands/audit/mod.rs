//! `cofferdam audit`: reading the audit log. What stands in it is data, whoever put it there: nothing
//! of it reaches a terminal unescaped.

mod line;
mod show;
mod tail;
mod verify;

use std::io;

use cofferdam_worker::audit::{FilesError, LogPart, open_all};

use crate::{
    cli::{AuditArgs, AuditCommand},
    config::Config,
    error::CommandError,
    exit::Exit,
};

/// The log cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuditReadError {
    /// A file cannot be opened.
    #[error("opening the audit log")]
    Open(#[source] FilesError),
    /// A file cannot be read to its end.
    #[error("reading the audit log")]
    Read(#[source] io::Error),
}

impl AuditReadError {
    /// The next step.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Open(FilesError::Open { source, .. })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                Some(
                    "nothing has been recorded there yet: `cofferdam config show` says where the \
                     log is and why"
                        .to_owned(),
                )
            }
            Self::Open(_) | Self::Read(_) => None,
        }
    }
}

pub(super) fn audit(arguments: AuditArgs, config: &Config) -> Result<Exit, CommandError> {
    match arguments.command {
        AuditCommand::Show(arguments) => show::show(arguments, &configured(config)?),
        AuditCommand::Verify(mut arguments) if !arguments.files.is_empty() => {
            let files = std::mem::take(&mut arguments.files);
            verify::verify(arguments, &verify::in_order(&files)?)
        }
        AuditCommand::Verify(arguments) => verify::verify(arguments, &configured(config)?),
        AuditCommand::Tail(arguments) => {
            let path = config.audit.path()?;
            tail::tail(arguments, path, configured(config)?)
        }
    }
}

/// The configured log, the oldest file first.
fn configured(config: &Config) -> Result<Vec<LogPart>, CommandError> {
    Ok(open_all(config.audit.path()?).map_err(AuditReadError::Open)?)
}
