//! The server's configuration: `cofferdam.toml`, the environment, and the defaults, resolved.
//!
//! It is complete before anything is bound or started, and nothing here does either. Options of the
//! command line go before all of this; the commands see to that.

mod audit;
mod entries;
mod error;
mod profiles;
mod raw;
mod resolve;
mod sources;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::LazyLock,
    time::Duration,
};

use cofferdam_gateway::{ResultForm, ToolNames};
use cofferdam_policy::{
    ToolRules,
    document::{Layer, Layers, Origin, Source, schema_for},
};
use serde::{Deserialize, Serialize};

pub(crate) use audit::Audit;
pub(crate) use error::ConfigError;
pub(crate) use profiles::{KnownProfiles, profile_file, widened};
pub(crate) use raw::{Channel, Mode, OnError, Outside};
use sources::Written;

static SCHEMA: LazyLock<serde_json::Value> = LazyLock::new(schema_for::<raw::RawConfig>);

/// The JSON Schema of the file, draft 2020-12.
pub(crate) fn schema() -> &'static serde_json::Value {
    &SCHEMA
}

/// The configuration: every value decided.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// How clients are served.
    pub(crate) server: Server,
    /// What runs and file tools work on.
    pub(crate) workspace: Workspace,
    /// How calls are carried out.
    pub(crate) execution: Execution,
    /// Which tools are served.
    pub(crate) tools: ToolRules,
    /// How people are asked.
    pub(crate) approval: Approval,
    /// How calls are recorded.
    pub(crate) audit: Audit,
    /// Who may call over HTTP.
    pub(crate) tokens: Vec<Token>,
    /// The file that was read, if there was one.
    pub(crate) file: Option<ConfigFile>,
    /// Folders of `execution.profile_dirs` that are not read, because code may have made them. They
    /// are protected like the others.
    pub(crate) unread_profile_dirs: Vec<PathBuf>,
    /// Where each value came from, by dotted key: `server.port`.
    pub(crate) origins: BTreeMap<String, Origin>,
}

/// The file of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConfigFile {
    /// Absolute path.
    pub(crate) path: PathBuf,
    /// Somebody named it; it was not just lying where files are looked for.
    pub(crate) named: bool,
    /// What it said when it was read.
    pub(crate) text: String,
}

/// How clients are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// Loopback address to listen on.
    pub(crate) host: String,
    /// 0 picks a free one.
    pub(crate) port: u16,
    /// Path of the endpoint, begins with a slash.
    pub(crate) path: String,
    /// Which spelling of the tools' names is listed.
    pub(crate) tool_names: ToolNames,
    /// The form of structured results.
    pub(crate) result_form: ResultForm,
    /// Adds an image block for a result that has a picture.
    pub(crate) inline_images: bool,
    /// Further names that a `Host` or `Origin` header may carry, in lower case.
    pub(crate) allowed_hosts: Vec<String>,
    /// How long calls under way may go on after the order to stop.
    pub(crate) drain: Duration,
}

/// What runs and file tools work on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Workspace {
    /// The workspace, or with `per_session` the folder that holds one per session: absolute, not
    /// yet looked at.
    pub(crate) root: PathBuf,
    /// Whether each session has a workspace of its own.
    pub(crate) per_session: bool,
    /// Absolute paths that runs and file tools may read.
    pub(crate) read_whitelist_paths: Vec<PathBuf>,
    /// Absolute paths that runs and file tools may change.
    pub(crate) write_whitelist_paths: Vec<PathBuf>,
    /// What becomes of file calls on other paths.
    pub(crate) outside: Outside,
}

/// How calls are carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Execution {
    /// Profile of calls that name none.
    pub(crate) default_profile: String,
    /// Folders of sandbox profiles: absolute. Without a configuration file there is none.
    pub(crate) profile_dirs: Vec<PathBuf>,
    /// In which order the calls of a session run.
    pub(crate) mode: Mode,
    /// Most calls that run at once in the whole server.
    pub(crate) max_running: u32,
    /// Most calls that wait for their turn.
    pub(crate) max_queued: u32,
    /// How often in a row a worker that died is started again.
    pub(crate) worker_restart_limit: u32,
}

/// How people are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Approval {
    /// How long a call waits for an answer.
    pub(crate) wait: Duration,
    /// Who is asked.
    pub(crate) channel: Channel,
}

/// A caller over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// Name of the caller.
    pub(crate) name: String,
    /// SHA-256 of the bearer token.
    pub(crate) sha256: [u8; 32],
    /// Profiles that this caller may use; `None` is all.
    pub(crate) profiles: Option<Vec<String>>,
    /// Globs of the tools that this caller may call; `None` is all.
    pub(crate) tools: Option<Vec<String>>,
    /// Most calls of this caller that run at once; `None` is the server's own limit.
    pub(crate) max_running: Option<u32>,
}

impl Config {
    /// Reads and resolves the configuration.
    ///
    /// The file is `explicit`, else `$COFFERDAM_CONFIG`, else the first that exists of
    /// `cofferdam.toml` in `current`, in the user's and in the system's configuration folder; with
    /// none, the defaults serve. Variables `COFFERDAM_<SECTION>__<KEY>` go before the file. Paths
    /// in the file count from its folder, all others from `current`, which must be absolute.
    ///
    /// # Errors
    /// [`ConfigError`] for a file that is named and not there, for one that cannot be read, and for
    /// the first key or value, in a file or a variable, that cannot be meant.
    pub(crate) fn load(
        explicit: Option<&Path>,
        environment: &BTreeMap<OsString, OsString>,
        current: &Path,
    ) -> Result<Self, ConfigError> {
        Self::load_on(Path::new("/etc/cofferdam/cofferdam.toml"), explicit, environment, current)
    }

    /// The same on a machine whose own configuration is `system`.
    fn load_on(
        system: &Path,
        explicit: Option<&Path>,
        environment: &BTreeMap<OsString, OsString>,
        current: &Path,
    ) -> Result<Self, ConfigError> {
        let written = sources::file(explicit, environment, current, system)?;
        Self::resolve(written, environment, current)
    }

    /// What a file said when it was read, whatever it says now.
    ///
    /// # Errors
    /// As for [`load`](Self::load), but nothing is read.
    pub(crate) fn as_read(
        file: Option<ConfigFile>,
        environment: &BTreeMap<OsString, OsString>,
        current: &Path,
    ) -> Result<Self, ConfigError> {
        let written = file.map(sources::written).transpose()?;
        Self::resolve(written, environment, current)
    }

    /// The same again, from the very file that this was read from: where no file was, none is looked
    /// for, so that nothing that appeared meanwhile decides.
    ///
    /// # Errors
    /// As for [`load`](Self::load); also when the file is gone.
    pub(crate) fn again(
        &self,
        environment: &BTreeMap<OsString, OsString>,
        current: &Path,
    ) -> Result<Self, ConfigError> {
        let written = self.file.as_ref().map(sources::again).transpose()?;
        Self::resolve(written, environment, current)
    }

    fn resolve(
        written: Option<Written>,
        environment: &BTreeMap<OsString, OsString>,
        current: &Path,
    ) -> Result<Self, ConfigError> {
        let variables = sources::variables(environment)?;
        if let Some(file) = &written {
            tracing::debug!(path = %file.file.path.display(), "read the configuration");
        }
        let mut layers: Vec<_> = variables
            .iter()
            .map(|variable| Layer { raw: &variable.raw, source: Source::Variable(&variable.name) })
            .collect();
        if let Some(file) = &written {
            layers.push(Layer { raw: &file.raw, source: Source::File(&file.lines) });
        }
        let file = written.as_ref().map(|written| written.file.path.as_path());
        let state = audit::state_folder(environment);
        let folders = resolve::Folders { file, current, state: state.as_deref() };
        let keys = Layers::new(schema(), layers);
        let resolved =
            resolve::resolve(keys, &folders).map_err(|source| match (source.origin(), file) {
                (Some(Origin::Line { .. }), Some(path)) => {
                    ConfigError::File { path: path.to_owned(), source }
                }
                _ => ConfigError::Environment(source),
            })?;
        Ok(Self { file: written.map(|written| written.file), ..resolved })
    }

    /// Whether this configuration may decide about runs on `workspace`, an existing directory.
    ///
    /// What lies in a workspace belongs to the code, and to whoever wrote the repository in it: it
    /// decides nothing unless somebody names it.
    ///
    /// # Errors
    /// [`ConfigError::InWorkspace`] for a file in it that nobody named.
    pub(crate) fn may_decide_about(&self, workspace: &Path) -> Result<(), ConfigError> {
        match &self.file {
            Some(file) if !file.named && lies_in(&file.path, workspace).is_some() => {
                Err(ConfigError::InWorkspace(file.path.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Globs, relative to `workspace`, of what this configuration was read from and lies in it.
    pub(crate) fn own_files_in(&self, workspace: &Path) -> Vec<String> {
        let Ok(workspace) = workspace.canonicalize() else { return Vec::new() };
        let file = self.file.as_ref().map(|file| &file.path);
        file.into_iter()
            .chain(&self.execution.profile_dirs)
            .flat_map(|path| [path.canonicalize().ok(), without_links_before(path)])
            .filter_map(|path| path?.strip_prefix(&workspace).ok().map(Path::to_owned))
            .filter_map(|relative| relative.to_str().map(globset::escape))
            .filter(|glob| !glob.is_empty())
            .collect()
    }

    /// The sections and keys in which `other` differs and which are read only when a server starts.
    pub(crate) fn fixed_differences(&self, other: &Self) -> Vec<&'static str> {
        let (ours, theirs) = (&self.execution, &other.execution);
        let differences = [
            ("server.host", self.server.host != other.server.host),
            ("server.port", self.server.port != other.server.port),
            ("server.path", self.server.path != other.server.path),
            ("server.tool_names", self.server.tool_names != other.server.tool_names),
            ("server.result_form", self.server.result_form != other.server.result_form),
            ("server.inline_images", self.server.inline_images != other.server.inline_images),
            ("server.allowed_hosts", self.server.allowed_hosts != other.server.allowed_hosts),
            ("server.drain", self.server.drain != other.server.drain),
            ("workspace", self.workspace != other.workspace),
            ("execution.mode", ours.mode != theirs.mode),
            ("execution.max_running", ours.max_running != theirs.max_running),
            ("execution.max_queued", ours.max_queued != theirs.max_queued),
            (
                "execution.worker_restart_limit",
                ours.worker_restart_limit != theirs.worker_restart_limit,
            ),
            ("approval", self.approval != other.approval),
            ("audit", self.audit != other.audit),
            ("token", self.tokens != other.tokens),
        ];
        differences.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }

    /// The keys that ask for something which nothing enforces yet, so that the server can say so.
    pub(crate) fn not_armed(&self) -> Vec<&'static str> {
        let asked = [
            ("server.inline_images", self.server.inline_images),
            ("workspace.per_session", self.workspace.per_session),
            ("workspace.read_whitelist_paths", !self.workspace.read_whitelist_paths.is_empty()),
            ("workspace.write_whitelist_paths", !self.workspace.write_whitelist_paths.is_empty()),
            ("workspace.outside", self.workspace.outside != Outside::Ask),
            ("token", !self.tokens.is_empty()),
        ];
        asked.into_iter().filter(|(_, asked)| *asked).map(|(key, _)| key).collect()
    }
}

/// The path itself, which may be a link or not exist yet: whoever may write there may put another
/// file in its place.
fn without_links_before(path: &Path) -> Option<PathBuf> {
    let (there, folder) =
        path.ancestors().skip(1).find_map(|above| Some((above, above.canonicalize().ok()?)))?;
    Some(folder.join(path.strip_prefix(there).ok()?))
}

/// Where `path` lies in `workspace`, both without links.
fn lies_in(path: &Path, workspace: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    let workspace = workspace.canonicalize().ok()?;
    path.strip_prefix(workspace).ok().map(Path::to_owned)
}
