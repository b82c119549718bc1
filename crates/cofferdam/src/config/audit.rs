//! `[audit]`: where calls are recorded, which, and what becomes of those that cannot be.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use cofferdam_policy::{
    Profiles,
    document::{DocumentError, Entry, Layers, Origin},
};

use super::{
    Config, ConfigError,
    raw::{OnError, RawConfig},
    resolve::Folders,
};

/// How calls are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Audit {
    /// The file: absolute. `None` when nobody named one and this user has no folder for it.
    pub(crate) path: Option<PathBuf>,
    /// Which calls.
    pub(crate) scope: Scope,
    /// What becomes of a call that cannot be recorded.
    pub(crate) on_error: OnError,
    /// Size from which on a new file is begun.
    pub(crate) rotate_mib: u32,
    /// How many rotated files are kept.
    pub(crate) keep: u32,
}

/// Which calls are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those of servers: nobody said anything.
    Servers,
    /// Those of the command line too: somebody asked for a log.
    Everything,
    /// None.
    Nothing,
}

/// Decides the values.
pub(super) fn resolve(
    keys: &mut Layers<'_, RawConfig>,
    folders: &Folders<'_>,
) -> Result<Audit, DocumentError> {
    let path = keys.pick("audit.path", |raw| &raw.audit.path, String::new());
    let enabled = keys.pick("audit.enabled", |raw| &raw.audit.enabled, true);
    let is_written = |origin| origin != Origin::Default;
    let path_is_written = is_written(path.place.origin());
    let scope = match (enabled.value, is_written(enabled.place.origin()) || path_is_written) {
        (false, _) => Scope::Nothing,
        (true, true) => Scope::Everything,
        (true, false) => Scope::Servers,
    };
    let path = if path_is_written {
        Some(path.parse(|text| match text.starts_with('~') {
            true => Err("must be a path without `~`, which nothing expands here".to_owned()),
            false => folders.absolute(&path, text),
        })?)
    } else {
        folders.state.map(|state| state.join("cofferdam/audit.jsonl"))
    };
    Ok(Audit {
        path,
        scope,
        on_error: keys.pick("audit.on_error", |raw| &raw.audit.on_error, OnError::Refuse).value,
        rotate_mib: keys.pick("audit.rotate_mib", |raw| &raw.audit.rotate_mib, 64).value,
        keep: keys.pick("audit.keep", |raw| &raw.audit.keep, 8).value,
    })
}

/// The folder in which programs of this user keep what shall outlive them, by the base directory
/// specification.
pub(super) fn state_folder(environment: &BTreeMap<OsString, OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| {
        let value = environment.get(&OsString::from(name)).map(PathBuf::from);
        // The specification has relative values ignored.
        value.filter(|path| path.is_absolute())
    };
    absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
}

pub(super) fn entries(audit: &Audit) -> [Entry; 5] {
    const TABLE: &str = "audit";
    let path = audit.path.as_ref().map(|path| path.to_string_lossy()).unwrap_or_default();
    let on_error = match audit.on_error {
        OnError::Refuse => "refuse",
        OnError::Warn => "warn",
    };
    [
        Entry::new(TABLE, "path", path),
        Entry::new(TABLE, "enabled", audit.scope != Scope::Nothing),
        Entry::new(TABLE, "on_error", on_error),
        Entry::new(TABLE, "rotate_mib", audit.rotate_mib),
        Entry::new(TABLE, "keep", audit.keep),
    ]
}

impl Audit {
    /// Where the log is.
    ///
    /// # Errors
    /// [`ConfigError::NoAuditPath`] when there is no place for one.
    pub(crate) fn path(&self) -> Result<&Path, ConfigError> {
        self.path.as_deref().ok_or(ConfigError::NoAuditPath)
    }

    /// Where calls are recorded, if they are: those of a server, or of the command line.
    ///
    /// # Errors
    /// As [`path`](Self::path).
    pub(crate) fn records(&self, serves: bool) -> Result<Option<&Path>, ConfigError> {
        let recorded = match self.scope {
            Scope::Nothing => false,
            Scope::Servers => serves,
            Scope::Everything => true,
        };
        recorded.then(|| self.path()).transpose()
    }
}

impl Config {
    /// Whether runs on `workspace`, under any of the profiles, cannot alter the log.
    ///
    /// # Errors
    /// [`ConfigError::AuditInReach`] when one can.
    pub(crate) fn audit_is_out_of_reach(
        &self,
        workspace: &Path,
        profiles: &Profiles,
    ) -> Result<(), ConfigError> {
        let Some(path) = &self.audit.path else { return Ok(()) };
        let log = without_links(path);
        let profiles = profiles.names().filter_map(|name| profiles.get(name).ok());
        let granted = profiles.flat_map(|profile| &profile.filesystem.write);
        let writable = std::iter::once(workspace)
            .chain(self.workspace.write_whitelist_paths.iter().map(PathBuf::as_path))
            .chain(granted.map(|grant| grant.path.as_path()));
        for folder in writable {
            if log.starts_with(without_links(folder)) {
                let folder = folder.to_owned();
                return Err(ConfigError::AuditInReach { path: path.clone(), folder });
            }
        }
        Ok(())
    }
}

/// The path with the links resolved in as much of it as exists.
fn without_links(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|ancestor| {
        let rest = path.strip_prefix(ancestor).ok()?;
        Some(ancestor.canonicalize().ok()?.join(rest))
    });
    found.unwrap_or_else(|| path.to_owned())
}
