//! Resolution of paths that an agent named, beneath the held directory.
//!
//! One `openat2` decides: beneath, no magic links. Only when that fails because a link is absolute,
//! or leaves, is the path walked to find out which link it was; a link whose target is the
//! workspace's own path is then followed, and the final open allows no link at all.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fd::AsRawFd,
    fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2, readlinkat},
    io::Errno,
};

use crate::{shown::Shown, workspace::Workspace};

/// A path cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The path has no characters other than blanks.
    #[error("Path must not be empty.")]
    Empty,
    /// The path begins with `~`, which only shells expand.
    #[error("`~` is not expanded: `{path}`", path = Shown(.0))]
    Tilde(PathBuf),
    /// The path has a NUL character.
    #[error("path has a NUL character: `{path}`", path = Shown(.0))]
    Nul(PathBuf),
    /// The path leads out of the workspace.
    #[error("`{path}` is outside the workspace `{root}`", path = Shown(.path), root = Shown(.root))]
    Outside {
        /// The path as given.
        path: PathBuf,
        /// The workspace.
        root: PathBuf,
    },
    /// A symbolic link on the way leads out of the workspace.
    #[error(
        "the symbolic link `{link}` leads outside the workspace `{root}`",
        link = Shown(.link), root = Shown(.root)
    )]
    LinkLeaves {
        /// The link, absolute.
        link: PathBuf,
        /// The workspace.
        root: PathBuf,
    },
    /// There is no directory at that path.
    #[error("No such directory: {path}", path = Shown(.0))]
    NoSuchDirectory(PathBuf),
    /// There is no file at that path.
    #[error("File not found: {path}", path = Shown(.0))]
    FileNotFound(PathBuf),
    /// Something else than a directory is at that path.
    #[error("Not a directory: {path}", path = Shown(.0))]
    NotADirectory(PathBuf),
    /// Something else than a regular file is at that path.
    #[error("Not a regular file but a {kind}: {path}", path = Shown(.path))]
    NotRegular {
        /// The path.
        path: PathBuf,
        /// What it is: `directory`, `FIFO`, `socket`, `device`, ...
        kind: &'static str,
    },
    /// The system did not let us.
    #[error("{operation} `{path}`", path = Shown(.path))]
    System {
        /// What was tried.
        operation: &'static str,
        /// The path.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl PathError {
    /// The next step, if there is one to name.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Tilde(_) => {
                Some("write the path relative to the workspace, or as an absolute path inside it")
            }
            Self::Outside { .. } | Self::LinkLeaves { .. } => {
                Some("only paths inside the workspace can be used")
            }
            Self::NoSuchDirectory(_) | Self::NotADirectory(_) => {
                Some("name a directory that is there, or make it first")
            }
            _ => None,
        }
    }

    /// Whether the path was refused because it leads out of the workspace.
    pub fn leaves_workspace(&self) -> bool {
        matches!(self, Self::Outside { .. } | Self::LinkLeaves { .. })
    }
}

/// What the last component of a path must be.
#[derive(Clone, Copy)]
enum Wanted {
    Directory,
    File,
}

impl Workspace {
    /// The absolute path, without links, of the directory that `path` names now.
    ///
    /// `path` is relative to the workspace, or absolute inside it. The answer is a name, taken from
    /// the opened directory; whoever uses it later must resolve it in a place where the workspace
    /// is the same and nothing outside is reachable.
    ///
    /// # Errors
    /// [`PathError`] names the path and what is wrong with it.
    pub fn resolve_directory(&self, path: &Path) -> Result<PathBuf, PathError> {
        let opened = self.open_beneath(path, Wanted::Directory)?;
        self.name_of(&opened, path)
    }

    /// Device and inode of the directory that `path` names now.
    ///
    /// For telling later whether it is still the same one.
    ///
    /// # Errors
    /// [`PathError`] names the path and what is wrong with it.
    pub fn directory_identity(&self, path: &Path) -> Result<(u64, u64), PathError> {
        let opened = self.open_beneath(path, Wanted::Directory)?;
        let found = fstat(&opened).map_err(|errno| PathError::System {
            operation: "inspecting",
            path: path.to_owned(),
            source: errno.into(),
        })?;
        Ok((found.st_dev, found.st_ino))
    }

    /// Opens the regular file that `path` names for reading, and tells its absolute path.
    ///
    /// What is no regular file is refused by its type without having been opened for reading, so
    /// that neither a FIFO can block nor a device do anything.
    ///
    /// # Errors
    /// [`PathError`] names the path and what is wrong with it.
    pub fn open_regular(&self, path: &Path) -> Result<(File, PathBuf), PathError> {
        let found = self.open_beneath(path, Wanted::File)?;
        let name = self.name_of(&found, path)?;
        let system = |operation| {
            let path = name.clone();
            move |errno: Errno| PathError::System { operation, path, source: errno.into() }
        };
        let metadata = fstat(&found).map_err(system("inspecting"))?;
        if let Some(kind) = irregular(FileType::from_raw_mode(metadata.st_mode)) {
            return Err(PathError::NotRegular { path: name, kind });
        }
        // The very file that was inspected, whatever has become of its name.
        let file = open(
            descriptor_path(&found),
            OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(system("opening"))?;
        Ok((File::from(file), name))
    }

    /// Where a path of the workspace leads once every link is followed, outside too.
    ///
    /// A name and nothing more: nothing is opened, and it may be another one a moment later. For
    /// saying beforehand what a sandbox would find; never for opening anything outside of one.
    ///
    /// # Errors
    /// What the system said, when the path leads nowhere.
    pub fn leads_to(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(self.path().join(path))
    }

    /// Opens `path` as a path descriptor.
    fn open_beneath(&self, path: &Path, wanted: Wanted) -> Result<OwnedFd, PathError> {
        let relative = self.relative(path)?;
        let directory = match wanted {
            Wanted::Directory => OFlags::DIRECTORY,
            Wanted::File => OFlags::empty(),
        };
        let flags = OFlags::PATH | OFlags::CLOEXEC | directory;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let opened = match open_at(self.directory(), &relative, flags, resolve) {
            Err(Errno::XDEV) => {
                let plain = self.without_links(path, &relative)?;
                open_at(self.directory(), &plain, flags, resolve | ResolveFlags::NO_SYMLINKS)
            }
            other => other,
        };
        opened.map_err(|errno| {
            let absolute = self.path().join(&relative);
            match (errno, wanted) {
                (Errno::NOENT, Wanted::Directory) => PathError::NoSuchDirectory(absolute),
                (Errno::NOENT | Errno::NOTDIR, Wanted::File) => PathError::FileNotFound(absolute),
                (Errno::NOTDIR, Wanted::Directory) => PathError::NotADirectory(absolute),
                (Errno::XDEV, _) => self.outside(path),
                _ => {
                    PathError::System { operation: "opening", path: absolute, source: errno.into() }
                }
            }
        })
    }

    /// `path` relative to the workspace, not yet resolved, never empty.
    fn relative(&self, path: &Path) -> Result<PathBuf, PathError> {
        let trimmed =
            PathBuf::from(OsString::from_vec(path.as_os_str().as_bytes().trim_ascii().to_vec()));
        if trimmed.as_os_str().is_empty() {
            return Err(PathError::Empty);
        }
        if trimmed.as_os_str().as_bytes().contains(&0) {
            return Err(PathError::Nul(trimmed));
        }
        if trimmed.as_os_str().as_bytes()[0] == b'~' {
            return Err(PathError::Tilde(trimmed));
        }
        let below = if trimmed.is_absolute() {
            self.below(&trimmed).ok_or_else(|| self.outside(path))?.to_owned()
        } else {
            trimmed
        };
        Ok(if below.as_os_str().is_empty() { PathBuf::from(".") } else { below })
    }

    fn outside(&self, path: &Path) -> PathError {
        PathError::Outside { path: path.to_owned(), root: self.path().to_owned() }
    }

    /// The same path with every link replaced by its target, links to the workspace's own absolute
    /// path included.
    ///
    /// Only a name: it must be opened with links forbidden, since everything may have changed.
    fn without_links(&self, given: &Path, relative: &Path) -> Result<PathBuf, PathError> {
        // As many as the kernel itself follows in one resolution.
        const MOST_LINKS: usize = 40;
        let mut ahead: VecDeque<OsString> = components(relative);
        let mut done = PathBuf::new();
        let mut links = 0;
        while let Some(next) = ahead.pop_front() {
            match next.as_bytes() {
                b"." => continue,
                b".." if done.pop() => continue,
                b".." => return Err(self.outside(given)),
                _ => done.push(&next),
            }
            let Some(target) = self.read_link(&done) else { continue };
            links += 1;
            let leaves = || PathError::LinkLeaves {
                link: self.path().join(&done),
                root: self.path().to_owned(),
            };
            if links > MOST_LINKS {
                return Err(PathError::System {
                    operation: "following the links of",
                    path: given.to_owned(),
                    source: Errno::LOOP.into(),
                });
            }
            let target = Path::new(&target);
            let followed = if target.is_absolute() {
                let below = self.below(target).ok_or_else(leaves)?.to_owned();
                done = PathBuf::new();
                below
            } else {
                let climbs = target.components().take_while(|one| *one == Component::ParentDir);
                if climbs.count() >= done.components().count() {
                    return Err(leaves());
                }
                done.pop();
                target.to_owned()
            };
            let mut joined = components(&followed);
            joined.append(&mut ahead);
            ahead = joined;
        }
        Ok(if done.as_os_str().is_empty() { PathBuf::from(".") } else { done })
    }

    /// The target of the link at `path`, if there is a link.
    fn read_link(&self, path: &Path) -> Option<OsString> {
        let link = open_at(
            self.directory(),
            path,
            OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        )
        .ok()?;
        // An empty path reads the link that the descriptor stands for; other types answer ENOENT.
        let target = readlinkat(&link, c"", Vec::new()).ok()?;
        Some(OsString::from_vec(target.into_bytes()))
    }

    /// The absolute path of something that was opened beneath the workspace.
    fn name_of(&self, opened: &OwnedFd, given: &Path) -> Result<PathBuf, PathError> {
        let name = readlinkat(CWD, descriptor_path(opened), Vec::new()).map_err(|errno| {
            PathError::System { operation: "naming", path: given.to_owned(), source: errno.into() }
        })?;
        let name = PathBuf::from(OsString::from_vec(name.into_bytes()));
        // Not so when the workspace itself was moved or deleted since it was opened.
        if name.starts_with(self.path()) { Ok(name) } else { Err(self.outside(given)) }
    }
}

/// `openat2`, repeated while the kernel cannot tell because something is being renamed.
pub(crate) fn open_at(
    directory: impl AsFd,
    path: &Path,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    // Under a storm of renames the kernel says EAGAIN at every `..`; the bound is only there so
    // that such a storm cannot hold us for ever.
    const MOST_TRIES: usize = 256;
    let mut last = Errno::AGAIN;
    for _ in 0..MOST_TRIES {
        match openat2(&directory, path, flags, Mode::empty(), resolve) {
            Err(errno @ (Errno::AGAIN | Errno::INTR)) => last = errno,
            other => return other,
        }
    }
    Err(last)
}

/// A name of what the descriptor stands for, whatever has become of its path.
pub(crate) fn descriptor_path(descriptor: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()))
}

fn components(path: &Path) -> VecDeque<OsString> {
    path.components().map(|one| one.as_os_str().to_owned()).collect()
}

/// What a file that is not regular is called.
fn irregular(kind: FileType) -> Option<&'static str> {
    match kind {
        FileType::RegularFile => None,
        FileType::Directory => Some("directory"),
        FileType::Fifo => Some("FIFO"),
        FileType::Socket => Some("socket"),
        FileType::CharacterDevice | FileType::BlockDevice => Some("device"),
        FileType::Symlink => Some("symbolic link"),
        FileType::Unknown => Some("file of unknown type"),
    }
}

#[cfg(test)]
mod tests;
