//! The private folder of a running server: its sockets, and what outlives its worker.
//!
//! `BASE/PID`, where PID is the server's first process and BASE `$COFFERDAM_RUNTIME_DIR`, else
//! `$XDG_RUNTIME_DIR/cofferdam`, else `/tmp/cofferdam-UID`. These names can be foretold, so that the
//! owner finds the server; what another user made first at one of them is refused. A server holds a
//! lock (flock(2)) on its folder for as long as any of its processes lives: what nobody holds is the
//! remainder of a dead one. Not here: what is in it.

use std::{
    env, fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    process, thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, OFlags, flock},
    io::Errno,
};

/// Where the owner speaks to the server, in its folder.
pub(crate) const ADMIN_SOCKET: &str = "admin.sock";
/// What was switched on or off at run time, in its folder.
pub(crate) const TOOLS_FILE: &str = "tools.json";

/// Is there once the server is to end, in its folder.
const ENDING: &str = "ending";

/// Names the folder in which servers have theirs.
const VARIABLE: &str = "COFFERDAM_RUNTIME_DIR";
/// The longest such folder: the path of a socket below it must fit into the 108 bytes of unix(7).
const LONGEST_BASE: usize = 80;
/// How long another server that starts or ends is waited for.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(20);
/// A base may go while another server waits for it.
const TRIES: usize = 8;

/// There is no private folder.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    /// The variable holds what no folder can be.
    #[error("`{VARIABLE}` must be an absolute path in UTF-8 of at most {LONGEST_BASE} bytes")]
    Named,
    /// The system refused.
    #[error("{doing} `{}`", path.display())]
    System {
        /// What was tried.
        doing: &'static str,
        /// With what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Somebody else made it.
    #[error("`{}` belongs to user {owner}, not to user {ours}", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who we are.
        ours: u32,
    },
    /// Others may enter it.
    #[error("`{}` is open to other users (mode {mode:o})", path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A server of another process id namespace has the same number.
    #[error("`{}` is in use by another server", .0.display())]
    Taken(PathBuf),
}

impl FolderError {
    /// The next step.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Foreign { .. } => Some(format!(
                "set `{VARIABLE}` or `XDG_RUNTIME_DIR` to a folder of your own, and tell the \
                 machine's admin"
            )),
            Self::Open { path, .. } => {
                Some(format!("close it with `chmod 700 {}`, or remove it", path.display()))
            }
            Self::Named | Self::System { .. } | Self::Taken(_) => {
                Some(format!("set `{VARIABLE}` to a folder of your own"))
            }
        }
    }
}

/// A folder that is held: nobody takes it for the remainder of a dead server.
#[derive(Debug)]
pub(crate) struct ServerFolder {
    path: PathBuf,
    /// Held by being open.
    _lock: OwnedFd,
    /// Whether it goes with this value.
    remove: bool,
}

/// A server that runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunningServer {
    /// Its first process.
    pub(crate) pid: u32,
    /// Its folder.
    pub(crate) folder: PathBuf,
}

impl ServerFolder {
    /// Makes the folder of this process, and removes what dead servers left beside it.
    ///
    /// # Errors
    /// [`FolderError`]; nothing of another user is ever used or changed.
    pub(crate) fn create() -> Result<Self, FolderError> {
        Self::create_in(&base()?)
    }

    fn create_in(base: &Path) -> Result<Self, FolderError> {
        let mut tries = 0..TRIES;
        loop {
            match Self::try_create_in(base) {
                // The last server here has just ended and has taken the base with it.
                Err(FolderError::System { source, .. })
                    if source.kind() == io::ErrorKind::NotFound && tries.next().is_some() => {}
                made => return made,
            }
        }
    }

    fn try_create_in(base: &Path) -> Result<Self, FolderError> {
        let failed = |doing| {
            move |path: &Path, source: io::Error| {
                Err(FolderError::System { doing, path: path.to_owned(), source })
            }
        };
        match fs::DirBuilder::new().mode(0o700).create(base) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return failed("making the folder")(base, error);
            }
            _ => {}
        }
        let held = open_private(base)?;
        // One server at a time cleans up and makes its folder.
        if let Err(error) = lock(&held, FlockOperation::NonBlockingLockExclusive) {
            return failed("waiting for the folder")(base, error);
        }
        for stale in servers_in(base).into_iter().filter(|server| !is_held(&server.folder)) {
            tracing::debug!(folder = %stale.folder.display(), "removing what a dead server left");
            if let Err(error) = fs::remove_dir_all(&stale.folder) {
                // It is in nobody's way.
                tracing::warn!(folder = %stale.folder.display(), %error, "cannot be removed");
            }
        }
        let path = base.join(process::id().to_string());
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(FolderError::Taken(path));
            }
            Err(error) => return failed("making the folder")(&path, error),
            Ok(()) => {}
        }
        let mut own = Self::join(&path)?;
        own.remove = true;
        Ok(own)
    }

    /// Holds a folder that an earlier process of the same server made.
    ///
    /// # Errors
    /// [`FolderError`] when it is not private or cannot be held.
    pub(crate) fn join(path: &Path) -> Result<Self, FolderError> {
        let held = open_private(path)?;
        match lock(&held, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: held, remove: false }),
            Err(source) => {
                Err(FolderError::System { doing: "holding", path: path.to_owned(), source })
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// From now on whoever ends last removes the folder: this process may be killed before it can.
    pub(crate) fn announce_end(&self) {
        if let Err(error) = fs::write(self.path.join(ENDING), "") {
            tracing::debug!(%error, "the server's folder may be left behind");
        }
    }
}

impl Drop for ServerFolder {
    fn drop(&mut self) {
        if self.remove {
            remove(&self.path);
        }
    }
}

/// Whether the server of that folder is to end, rather than only its worker.
pub(crate) fn is_ending(folder: &Path) -> bool {
    folder.join(ENDING).exists()
}

/// Removes a server's folder, and the base if that was the last one in it.
pub(crate) fn remove(folder: &Path) {
    // Each fails only when it is gone already, and the second when the base is in use.
    let _ = fs::remove_dir_all(folder);
    let named = env::var_os(VARIABLE).is_some_and(|value| !value.is_empty());
    if let (Some(base), false) = (folder.parent(), named) {
        let _ = fs::remove_dir(base);
    }
}

/// The servers of this user that run, wherever they may have their folders.
///
/// # Errors
/// [`FolderError::Named`]. Places that are not this user's own are left out.
pub(crate) fn running() -> Result<Vec<RunningServer>, FolderError> {
    let mut found: Vec<_> = bases()?
        .into_iter()
        .filter(|base| open_private(base).is_ok())
        .flat_map(|base| servers_in(&base))
        .filter(|server| open_private(&server.folder).is_ok() && is_held(&server.folder))
        .collect();
    found.sort();
    Ok(found)
}

/// Where a server that starts now has its folder.
fn base() -> Result<PathBuf, FolderError> {
    match named_base()? {
        Some(base) => Ok(base),
        None => Ok(of_session().unwrap_or_else(in_tmp)),
    }
}

/// Everywhere a server of this user may have its folder: it need not have been started from a session
/// like this one.
fn bases() -> Result<Vec<PathBuf>, FolderError> {
    if let Some(base) = named_base()? {
        return Ok(vec![base]);
    }
    let usual = PathBuf::from(format!("/run/user/{}/cofferdam", user()));
    let mut bases: Vec<_> = of_session().into_iter().chain([usual, in_tmp()]).collect();
    bases.sort();
    bases.dedup();
    Ok(bases)
}

fn named_base() -> Result<Option<PathBuf>, FolderError> {
    let Some(value) = env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let path = PathBuf::from(value);
    if path.is_absolute() && path.to_str().is_some_and(|text| text.len() <= LONGEST_BASE) {
        Ok(Some(path))
    } else {
        Err(FolderError::Named)
    }
}

/// Below `$XDG_RUNTIME_DIR`, when that is what the specification promises: ours alone.
fn of_session() -> Option<PathBuf> {
    let runtime = PathBuf::from(env::var_os("XDG_RUNTIME_DIR")?);
    if !runtime.is_absolute() {
        return None;
    }
    let metadata = fs::metadata(&runtime).ok()?;
    let is_private =
        metadata.is_dir() && metadata.uid() == user() && metadata.permissions().mode() & 0o077 == 0;
    let base = runtime.join("cofferdam");
    // Paths that are not UTF-8 could not be passed on as an endpoint.
    let fits = base.to_str().is_some_and(|text| text.len() <= LONGEST_BASE);
    (is_private && fits).then_some(base)
}

fn in_tmp() -> PathBuf {
    PathBuf::from(format!("/tmp/cofferdam-{}", user()))
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Opens a folder that is ours alone. A link is none.
fn open_private(path: &Path) -> Result<OwnedFd, FolderError> {
    let failed = |source| FolderError::System { doing: "opening", path: path.to_owned(), source };
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(failed)?;
    let metadata = folder.metadata().map_err(failed)?;
    let (owner, ours) = (metadata.uid(), user());
    if owner != ours {
        return Err(FolderError::Foreign { path: path.to_owned(), owner, ours });
    }
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(FolderError::Open { path: path.to_owned(), mode });
    }
    Ok(folder.into())
}

/// The folders in `base` that are named as servers' are.
fn servers_in(base: &Path) -> Vec<RunningServer> {
    let Ok(entries) = fs::read_dir(base) else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let folder = entry.ok()?.path();
            let name = folder.file_name()?.to_str()?;
            let pid = name.parse().ok().filter(|pid: &u32| pid.to_string() == name)?;
            Some(RunningServer { pid, folder })
        })
        .collect()
}

/// Whether a process of a server holds the folder.
fn is_held(folder: &Path) -> bool {
    let Ok(folder) = fs::File::open(folder) else { return false };
    flock(&folder, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
}

/// Waits for the lock, but not for ever.
#[expect(clippy::disallowed_methods, reason = "flock(2) knows no deadline")]
fn lock(folder: impl AsFd, operation: FlockOperation) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match flock(&folder, operation) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if begun.elapsed() < LOCK_PATIENCE => thread::sleep(LOCK_PAUSE),
            Err(Errno::WOULDBLOCK) => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "another process holds it"));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests;
