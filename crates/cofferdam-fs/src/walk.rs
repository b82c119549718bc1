//! Looking through a workspace without following a link, bounded in depth and entries.
//!
//! A run can make any tree: deep, wide, full of links. Directories are opened one beneath the other
//! by descriptor, so that a swap in mid walk leads nowhere else.

use std::{
    ffi::OsStr,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat},
    io::Errno,
};

use crate::workspace::Workspace;

/// How far a walk goes.
#[derive(Clone, Copy, Debug)]
pub struct WalkLimits {
    /// Directories below directories.
    pub depth: usize,
    /// Entries in all.
    pub entries: usize,
}

/// What became of a walk.
#[derive(Debug, Default)]
pub struct Walked {
    /// Whether every entry within the depth was seen.
    pub complete: bool,
    /// Directories that were not looked into, relative: too deep, or not readable for us.
    pub opaque: Vec<PathBuf>,
}

/// One entry on the way.
#[derive(Debug)]
pub struct WalkEntry<'a> {
    /// Relative to the workspace.
    pub path: &'a Path,
    /// What it is.
    pub kind: EntryKind,
    folder: BorrowedFd<'a>,
    name: &'a OsStr,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// Anything else.
    File,
}

/// Whether a walk goes into a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descend {
    /// Look inside.
    Into,
    /// Pass by.
    Past,
}

impl WalkEntry<'_> {
    /// Device and inode of the entry itself.
    ///
    /// # Errors
    /// When the entry is gone.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        let found = statat(self.folder, self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((found.st_dev, found.st_ino))
    }
}

impl Workspace {
    /// Visits every entry of the workspace, folders before what is in them, in no further order.
    ///
    /// # Errors
    /// When the workspace itself cannot be read.
    pub fn walk(
        &self,
        limits: WalkLimits,
        mut visit: impl FnMut(&WalkEntry<'_>) -> Descend,
    ) -> io::Result<Walked> {
        let mut walk = Walk { limits, seen: 0, walked: Walked::default() };
        walk.walked.complete = true;
        let root = open_folder(self.directory(), OsStr::new("."))?;
        walk.folder(root, &mut PathBuf::new(), 0, &mut visit)?;
        Ok(walk.walked)
    }
}

struct Walk {
    limits: WalkLimits,
    seen: usize,
    walked: Walked,
}

impl Walk {
    /// Recursion is bounded by the depth; each level holds one descriptor and one read buffer.
    fn folder(
        &mut self,
        folder: OwnedFd,
        path: &mut PathBuf,
        depth: usize,
        visit: &mut dyn FnMut(&WalkEntry<'_>) -> Descend,
    ) -> io::Result<()> {
        let mut folders = Vec::new();
        let mut entries = Dir::read_from(&folder)?;
        while let Some(entry) = entries.read() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            self.seen += 1;
            if self.seen > self.limits.entries {
                self.walked.complete = false;
                return Ok(());
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(found) => FileType::from_raw_mode(found.st_mode),
                    Err(_) => continue,
                },
                known => known,
            };
            let kind = match kind {
                FileType::Directory => EntryKind::Directory,
                FileType::Symlink => EntryKind::Link,
                _ => EntryKind::File,
            };
            path.push(name);
            let visited = WalkEntry { path, kind, folder: folder.as_fd(), name };
            if visit(&visited) == Descend::Into && kind == EntryKind::Directory {
                folders.push(name.to_owned());
            }
            path.pop();
        }
        drop(entries);
        for name in folders {
            path.push(&name);
            if depth + 1 >= self.limits.depth {
                self.walked.opaque.push(path.clone());
            } else {
                match open_folder(folder.as_fd(), &name) {
                    Ok(inner) => self.folder(inner, path, depth + 1, visit)?,
                    // Gone, or swapped for something else since: there is nothing to look into.
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                    Err(_) => self.walked.opaque.push(path.clone()),
                }
            }
            path.pop();
        }
        Ok(())
    }
}

fn open_folder(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    const WIDE: WalkLimits = WalkLimits { depth: 64, entries: 10_000 };

    fn workspace() -> (tempfile::TempDir, Workspace) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("work");
        fs::create_dir(&path).unwrap();
        let workspace = Workspace::open(&path, &[]).unwrap();
        (folder, workspace)
    }

    fn paths(workspace: &Workspace, limits: WalkLimits) -> (Vec<String>, Walked) {
        let mut paths = Vec::new();
        let walked = workspace.walk(limits, |entry| {
            paths.push(entry.path.display().to_string());
            Descend::Into
        });
        paths.sort();
        (paths, walked.unwrap())
    }

    #[test]
    fn a_walk_sees_hidden_entries_and_follows_no_link() {
        let (folder, workspace) = workspace();
        fs::create_dir(folder.path().join("outside")).unwrap();
        fs::write(folder.path().join("outside/secret"), "").unwrap();
        fs::create_dir_all(workspace.path().join("a/.b")).unwrap();
        fs::write(workspace.path().join("a/.b/c"), "").unwrap();
        symlink("../outside", workspace.path().join("out")).unwrap();
        symlink(".", workspace.path().join("loop")).unwrap();
        let (paths, walked) = paths(&workspace, WIDE);
        assert_eq!(paths, ["a", "a/.b", "a/.b/c", "loop", "out"]);
        assert!(walked.complete && walked.opaque.is_empty());
    }

    #[test]
    fn what_is_too_deep_or_too_much_is_told() {
        let (_folder, workspace) = workspace();
        fs::create_dir_all(workspace.path().join("a/b/c")).unwrap();
        let (found, walked) = paths(&workspace, WalkLimits { depth: 2, entries: 10 });
        assert_eq!(found, ["a", "a/b"]);
        assert_eq!(walked.opaque, [Path::new("a/b")]);
        let (_, walked) = paths(&workspace, WalkLimits { depth: 9, entries: 2 });
        assert!(!walked.complete);
    }

    #[test]
    fn a_folder_that_is_passed_by_is_not_opened() {
        let (_folder, workspace) = workspace();
        fs::create_dir_all(workspace.path().join("skip/inner")).unwrap();
        let mut seen = 0;
        workspace
            .walk(WIDE, |_| {
                seen += 1;
                Descend::Past
            })
            .unwrap();
        assert_eq!(seen, 1);
    }
}
