//! What can be wrong with the configuration.

use std::{io, path::PathBuf};

use cofferdam_policy::{ProfileError, document::DocumentError};

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ConfigError {
    /// A file of the configuration cannot be read.
    #[error("reading the configuration `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What a file says cannot be used.
    #[error("failed to load the configuration `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: DocumentError,
    },
    /// What the environment, or what it and the defaults together, say cannot be used.
    #[error("failed to load the configuration")]
    Environment(#[source] DocumentError),
    /// The file lies in the workspace, and nobody named it.
    #[error(
        "the configuration `{}` lies in the workspace, where code and repositories write",
        .0.display()
    )]
    InWorkspace(PathBuf),
    /// There is no place for the audit log.
    #[error("there is no folder for the audit log: neither XDG_STATE_HOME nor HOME is set")]
    NoAuditPath,
    /// Code could alter the audit log.
    #[error(
        "the audit log `{}` lies in `{}`, where code may write", path.display(), folder.display()
    )]
    AuditInReach {
        /// The log.
        path: PathBuf,
        /// The workspace or a granted folder.
        folder: PathBuf,
    },
    /// The value of a variable is not UTF-8.
    #[error("the variable `{0}` is not UTF-8")]
    NotUtf8(String),
    /// A folder of profiles, or a file in it, cannot be read.
    #[error("reading profiles from `{}`", path.display())]
    ReadProfiles {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file of a profile that somebody named cannot be read.
    #[error("reading the profile `{}`", path.display())]
    ReadProfile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A profile cannot be used.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A profile that the configuration names does not exist.
    #[error("`{key}` names a profile that does not exist")]
    NoSuchProfile {
        /// The key of the configuration.
        key: String,
        /// The profile.
        source: ProfileError,
    },
}

impl ConfigError {
    /// The next step for the admin.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::File { source, .. } | Self::Environment(source) => {
                source.hint().map(str::to_owned)
            }
            Self::Profile(error) | Self::NoSuchProfile { source: error, .. } => error.hint(),
            Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => Some(
                "leave `--config` and `COFFERDAM_CONFIG` out to run on the defaults".to_owned(),
            ),
            Self::ReadProfiles { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("make the folder, or take it out of `execution.profile_dirs`".to_owned())
            }
            Self::InWorkspace(path) => Some(format!(
                "if you trust it, name it: `--config {}`; else use another workspace, or move it \
                 to ~/.config/cofferdam/",
                path.display()
            )),
            Self::NoAuditPath => {
                Some("name a file by `audit.path`, or set `audit.enabled = false`".to_owned())
            }
            Self::AuditInReach { .. } => {
                Some("name another place by `audit.path`, outside of what code works on".to_owned())
            }
            Self::Read { .. }
            | Self::ReadProfiles { .. }
            | Self::ReadProfile { .. }
            | Self::NotUtf8(_) => None,
        }
    }
}
