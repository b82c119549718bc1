//! The workspace: one directory, opened once and held.
//!
//! Choosing it is the admin's act, so symbolic links on the way to it are followed, once. From then
//! on the descriptor counts, not the path.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2, stat};

use crate::{
    placement::{Forbidden, forbidden},
    shown::Shown,
};

/// A directory that code may work in. Cheap to clone; all clones hold the same descriptor.
#[derive(Clone, Debug)]
pub struct Workspace {
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    directory: OwnedFd,
    path: PathBuf,
    alias: Option<PathBuf>,
    identity: (u64, u64),
    owner: (u32, u32),
}

/// A directory cannot be used as a workspace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// There is nothing at that path.
    #[error("workspace `{path}` does not exist", path = Shown(.0))]
    Missing(PathBuf),
    /// There is something else at that path.
    #[error("workspace `{path}` is not a directory", path = Shown(.0))]
    NotADirectory(PathBuf),
    /// It is a place that must never be one.
    #[error("`{path}` cannot be a workspace: {reason}", path = Shown(.path))]
    Forbidden {
        /// The canonical path.
        path: PathBuf,
        /// Why not.
        reason: Forbidden,
    },
    /// The path has control characters, which would make every message about it ambiguous.
    #[error("the path of workspace `{path}` has control characters", path = Shown(.0))]
    ControlCharacters(PathBuf),
    /// The system did not let us open it.
    #[error("opening workspace `{path}`", path = Shown(.path))]
    Open {
        /// The path as given.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl WorkspaceError {
    /// The next step.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Missing(_) => "create the directory first, or name another one with `-w`",
            Self::NotADirectory(_) => "name the directory that holds the project",
            Self::Forbidden { .. } => {
                "code may change everything in its workspace: make a directory of its own for it, \
                 such as ~/projects/NAME"
            }
            Self::ControlCharacters(_) => "rename the directory",
            Self::Open { .. } => {
                "the directory must be readable and searchable by the user who runs cofferdam \
                 (Linux 5.6 or newer)"
            }
        }
    }
}

impl Workspace {
    /// Opens and holds the directory at `path`.
    ///
    /// Symbolic links are resolved once, here. `homes` are the home directories that must not
    /// become, or lie in, a workspace, beside the usual ones.
    ///
    /// # Errors
    /// [`WorkspaceError`] when there is no directory, when it is `/`, a directory of the system, a
    /// shared folder or a home directory itself, or when it cannot be opened.
    pub fn open(path: &Path, homes: &[PathBuf]) -> Result<Self, WorkspaceError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => WorkspaceError::Missing(path.to_owned()),
            io::ErrorKind::NotADirectory => WorkspaceError::NotADirectory(path.to_owned()),
            _ => WorkspaceError::Open { path: path.to_owned(), source: error },
        };
        let canonical = std::fs::canonicalize(path).map_err(failed)?;
        if canonical.as_os_str().as_bytes().iter().any(u8::is_ascii_control) {
            return Err(WorkspaceError::ControlCharacters(canonical));
        }
        // The canonical path has no links: if one turns up now, somebody put it there since.
        let directory = openat2(
            CWD,
            &canonical,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::NO_SYMLINKS,
        )
        .map_err(|errno| failed(errno.into()))?;
        let found = fstat(&directory).map_err(|errno| failed(errno.into()))?;
        let homes: Vec<_> = homes
            .iter()
            .filter(|home| home.is_absolute())
            .map(|home| std::fs::canonicalize(home).unwrap_or_else(|_| home.clone()))
            .collect();
        if let Some(reason) = forbidden(&canonical, &homes) {
            return Err(WorkspaceError::Forbidden { path: canonical, reason });
        }
        let alias = std::path::absolute(path).ok().filter(|alias| *alias != canonical);
        Ok(Self {
            held: Arc::new(Held {
                directory,
                path: canonical,
                alias,
                identity: identity(&found),
                owner: (found.st_uid, found.st_gid),
            }),
        })
    }

    /// The absolute path without links, as it was when the workspace was opened.
    pub fn path(&self) -> &Path {
        &self.held.path
    }

    /// The held directory. Opened as a path: it can be opened beneath or bound, not read.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.held.directory.as_fd()
    }

    /// Device and inode of the held directory.
    pub fn identity(&self) -> (u64, u64) {
        self.held.identity
    }

    /// User and group that own the directory, as they were when it was opened.
    pub fn owner(&self) -> (u32, u32) {
        self.held.owner
    }

    /// Whether the held directory still is what lies at [`path`](Self::path).
    ///
    /// For a server that lives long: a workspace can be deleted and made anew by its owner.
    pub fn is_current(&self) -> bool {
        stat(self.path()).is_ok_and(|found| {
            FileType::from_raw_mode(found.st_mode) == FileType::Directory
                && identity(&found) == self.identity()
        })
    }

    /// The part of `path` below this workspace, by its canonical or its given name.
    pub(crate) fn below<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(self.path())
            .ok()
            .or_else(|| self.held.alias.as_ref().and_then(|alias| path.strip_prefix(alias).ok()))
    }
}

fn identity(found: &Stat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_missing_workspace_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("absent");
        let error = Workspace::open(&path, &[]).unwrap_err();
        assert_eq!(error.to_string(), format!("workspace `{}` does not exist", path.display()));
    }

    #[test]
    fn a_file_is_no_workspace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "").unwrap();
        assert!(matches!(Workspace::open(&path, &[]), Err(WorkspaceError::NotADirectory(_))));
        assert!(matches!(
            Workspace::open(&path.join("below"), &[]),
            Err(WorkspaceError::NotADirectory(_))
        ));
    }

    #[test]
    fn the_root_and_system_directories_are_refused_through_links_too() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("innocent");
        symlink("/etc", &link).unwrap();
        for path in [Path::new("/"), Path::new("/usr/../etc"), &link] {
            let error = Workspace::open(path, &[]).unwrap_err();
            assert!(matches!(error, WorkspaceError::Forbidden { .. }), "{path:?}: {error:?}");
        }
    }

    #[test]
    fn a_listed_home_is_refused_and_a_folder_in_it_is_fine() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        let home = folder.path().join("home");
        fs::create_dir_all(home.join("project")).unwrap();
        symlink(&home, &link).unwrap();
        let refused = Workspace::open(&home, std::slice::from_ref(&link)).unwrap_err();
        assert!(
            matches!(refused, WorkspaceError::Forbidden { reason: Forbidden::Home, .. }),
            "{refused:?}"
        );
        Workspace::open(&home.join("project"), &[link]).unwrap();
    }

    #[test]
    fn a_newline_in_the_path_is_refused_and_bytes_that_are_no_text_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let newline = folder.path().join("a\nb");
        let bytes = folder.path().join(OsStr::from_bytes(b"caf\xe9"));
        fs::create_dir(&newline).unwrap();
        fs::create_dir(&bytes).unwrap();
        let error = Workspace::open(&newline, &[]).unwrap_err();
        assert!(matches!(error, WorkspaceError::ControlCharacters(_)), "{error:?}");
        assert!(!error.to_string().contains('\n'));
        assert_eq!(Workspace::open(&bytes, &[]).unwrap().path(), bytes);
    }

    #[test]
    fn a_link_to_a_workspace_is_followed_once_and_the_directory_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let (real, other) = (folder.path().join("real"), folder.path().join("other"));
        let link = folder.path().join("link");
        fs::create_dir(&real).unwrap();
        fs::create_dir(&other).unwrap();
        symlink(&real, &link).unwrap();
        let workspace = Workspace::open(&link, &[]).unwrap();
        fs::remove_file(&link).unwrap();
        symlink(&other, &link).unwrap();
        assert_eq!(workspace.path(), real);
        assert_eq!(identity(&fstat(workspace.directory()).unwrap()), workspace.identity());
        assert_eq!(identity(&stat(&real).unwrap()), workspace.identity());
    }

    #[test]
    fn a_workspace_that_was_replaced_is_no_longer_current() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("project");
        fs::create_dir(&path).unwrap();
        let workspace = Workspace::open(&path, &[]).unwrap();
        assert!(workspace.is_current());
        fs::rename(&path, folder.path().join("moved")).unwrap();
        assert!(!workspace.is_current());
        fs::create_dir(&path).unwrap();
        assert!(!workspace.is_current());
    }
}
