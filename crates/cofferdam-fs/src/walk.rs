//! Looking through a workspace without following a link, bounded in depth and entries.
//!
//! A run can make any tree: deep, wide, full of links. Every directory is opened beneath the
//! workspace without following a link, so that a swap in mid walk leads nowhere else.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::{
    fs::{
        AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, statat,
    },
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
#[derive(Clone, Copy, Debug)]
pub struct WalkEntry<'a> {
    /// Relative to the workspace.
    pub path: &'a Path,
    /// What it is.
    pub kind: EntryKind,
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

/// What earlier walks with the same idea of what is wanted have seen, so that directories that did
/// not change since need not be read again.
///
/// A directory's time of last status change (`st_ctim`) moves when an entry is made, renamed or
/// removed in it, and no program can set it. One that moved so lately that a further change could
/// bear the same time is read again.
#[derive(Debug, Default)]
pub struct WalkMemory {
    folders: HashMap<PathBuf, Remembered>,
}

#[derive(Debug)]
struct Remembered {
    state: FolderState,
    /// How many entries there were.
    entries: usize,
    folders: Vec<OsString>,
    wanted: Vec<(OsString, EntryKind)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FolderState {
    device: u64,
    inode: u64,
    changed: Duration,
}

/// The most directories that are remembered: beyond, memory would cost more than reading again.
const MOST_REMEMBERED: usize = 200_000;

/// How coarse the kernel's clock for files may be, with a margin: it is a timer tick, at most 10 ms.
const COARSE: Duration = Duration::from_millis(50);

impl FolderState {
    fn of(found: &Stat) -> Self {
        let seconds = Duration::from_secs(u64::try_from(found.st_ctime).unwrap_or_default());
        let changed = seconds + Duration::from_nanos(found.st_ctime_nsec);
        Self { device: found.st_dev, inode: found.st_ino, changed }
    }

    /// Whether every later change will bear another time.
    fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now > self.changed + COARSE
    }
}

impl Workspace {
    /// Visits every directory of the workspace and every other entry that is `wanted`, folders
    /// before what is in them, in no further order.
    ///
    /// `wanted` must give the same answers in every walk that shares `memory`.
    ///
    /// # Errors
    /// When the workspace itself cannot be read.
    pub fn walk(
        &self,
        limits: WalkLimits,
        memory: &mut WalkMemory,
        wanted: impl Fn(&Path, EntryKind) -> bool,
        mut visit: impl FnMut(WalkEntry<'_>) -> Descend,
    ) -> io::Result<Walked> {
        let root = match open_folder(self.directory(), OsStr::new(".")) {
            // A run can close even the workspace itself.
            Err(Errno::ACCESS) if self.open_up(Path::new("."))? => {
                open_folder(self.directory(), OsStr::new("."))?
            }
            opened => opened?,
        };
        let walked = Walked { complete: true, opaque: Vec::new() };
        let mut walk =
            Walk { limits, root: self.directory(), memory, wanted: &wanted, seen: 0, walked };
        walk.folder(Some(root), &mut PathBuf::new(), 0, &mut visit)?;
        Ok(walk.walked)
    }
}

struct Walk<'a> {
    limits: WalkLimits,
    root: BorrowedFd<'a>,
    memory: &'a mut WalkMemory,
    wanted: &'a dyn Fn(&Path, EntryKind) -> bool,
    seen: usize,
    walked: Walked,
}

impl Walk<'_> {
    /// Recursion is bounded by the depth. Without `folder`, it has not been opened yet.
    fn folder(
        &mut self,
        folder: Option<OwnedFd>,
        path: &mut PathBuf,
        depth: usize,
        visit: &mut dyn FnMut(WalkEntry<'_>) -> Descend,
    ) -> io::Result<()> {
        let Some((entries, folders, wanted)) = self.contents(folder, path)? else { return Ok(()) };
        self.seen += entries;
        if self.seen > self.limits.entries {
            self.walked.complete = false;
            return Ok(());
        }
        for (name, kind) in wanted {
            path.push(name);
            visit(WalkEntry { path, kind });
            path.pop();
        }
        for name in folders {
            path.push(name);
            if visit(WalkEntry { path, kind: EntryKind::Directory }) == Descend::Into {
                if depth + 1 >= self.limits.depth {
                    self.walked.opaque.push(path.clone());
                } else {
                    self.folder(None, path, depth + 1, visit)?;
                }
            }
            path.pop();
            if !self.walked.complete {
                return Ok(());
            }
        }
        Ok(())
    }

    /// How many entries a directory has, its directories, and what is wanted in it.
    #[expect(clippy::type_complexity, reason = "three parts of one answer, taken apart at once")]
    fn contents(
        &mut self,
        folder: Option<OwnedFd>,
        path: &Path,
    ) -> io::Result<Option<(usize, Vec<OsString>, Vec<(OsString, EntryKind)>)>> {
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        // A name that leads elsewhere by now has another inode, or the directory above has changed.
        if let Ok(found) = statat(self.root, here, AtFlags::SYMLINK_NOFOLLOW)
            && let Some(known) = self.memory.folders.get(path)
            && known.state == FolderState::of(&found)
        {
            return Ok(Some((known.entries, known.folders.clone(), known.wanted.clone())));
        }
        let folder = match folder.map_or_else(|| self.open(path), Ok) {
            Ok(folder) => folder,
            // Gone, or swapped for something else since: there is nothing to look into.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => return Ok(None),
            Err(_) => {
                self.walked.opaque.push(path.to_owned());
                return Ok(None);
            }
        };
        let state = FolderState::of(&fstat(&folder)?);
        let is_settled = state.is_settled();
        let mut read = Remembered { state, entries: 0, folders: Vec::new(), wanted: Vec::new() };
        let mut whole = PathBuf::from(path);
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            read.entries += 1;
            if self.seen + read.entries > self.limits.entries {
                break;
            }
            let Some(kind) = kind(&folder, name, entry.file_type()) else { continue };
            if kind == EntryKind::Directory {
                read.folders.push(name.to_owned());
                continue;
            }
            whole.push(name);
            if (self.wanted)(&whole, kind) {
                read.wanted.push((name.to_owned(), kind));
            }
            whole.pop();
        }
        let answer = (read.entries, read.folders.clone(), read.wanted.clone());
        if is_settled && self.memory.folders.len() < MOST_REMEMBERED {
            self.memory.folders.insert(path.to_owned(), read);
        } else {
            self.memory.folders.remove(path);
        }
        Ok(Some(answer))
    }

    /// Opens a directory by its whole path, without following a link anywhere on the way.
    fn open(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat2(
            self.root,
            path,
            flags,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        )
    }
}

fn kind(folder: &OwnedFd, name: &OsStr, told: FileType) -> Option<EntryKind> {
    let kind = match told {
        FileType::Unknown => {
            FileType::from_raw_mode(statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?.st_mode)
        }
        known => known,
    };
    Some(match kind {
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::File,
    })
}

fn open_folder(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, thread, time::Instant};

    use super::*;

    const WIDE: WalkLimits = WalkLimits { depth: 64, entries: 10_000 };

    fn workspace() -> (tempfile::TempDir, Workspace) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("work");
        fs::create_dir(&path).unwrap();
        let workspace = Workspace::open(&path, &[]).unwrap();
        (folder, workspace)
    }

    fn paths(
        workspace: &Workspace,
        limits: WalkLimits,
        memory: &mut WalkMemory,
    ) -> (Vec<String>, Walked) {
        let mut paths = Vec::new();
        let walked = workspace.walk(
            limits,
            memory,
            |_, _| true,
            |entry| {
                paths.push(entry.path.display().to_string());
                Descend::Into
            },
        );
        paths.sort();
        (paths, walked.unwrap())
    }

    /// Until the clock of files has moved on from everything that was made so far.
    fn settle() {
        let since = Instant::now();
        while since.elapsed() <= COARSE {
            thread::yield_now();
        }
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
        let (paths, walked) = paths(&workspace, WIDE, &mut WalkMemory::default());
        assert_eq!(paths, ["a", "a/.b", "a/.b/c", "loop", "out"]);
        assert!(walked.complete && walked.opaque.is_empty());
    }

    #[test]
    fn what_is_too_deep_or_too_much_is_told() {
        let (_folder, workspace) = workspace();
        fs::create_dir_all(workspace.path().join("a/b/c")).unwrap();
        let memory = &mut WalkMemory::default();
        let (found, walked) = paths(&workspace, WalkLimits { depth: 2, entries: 10 }, memory);
        assert_eq!(found, ["a", "a/b"]);
        assert_eq!(walked.opaque, [Path::new("a/b")]);
        let (_, walked) = paths(&workspace, WalkLimits { depth: 9, entries: 2 }, memory);
        assert!(!walked.complete);
    }

    #[test]
    fn a_folder_that_is_passed_by_is_not_opened() {
        let (_folder, workspace) = workspace();
        fs::create_dir_all(workspace.path().join("skip/inner")).unwrap();
        let mut seen = 0;
        let count = |_: WalkEntry<'_>| {
            seen += 1;
            Descend::Past
        };
        workspace.walk(WIDE, &mut WalkMemory::default(), |_, _| true, count).unwrap();
        assert_eq!(seen, 1);
    }

    #[test]
    fn what_did_not_change_is_remembered() {
        let (_folder, workspace) = workspace();
        fs::create_dir_all(workspace.path().join("a/b")).unwrap();
        fs::write(workspace.path().join("a/b/c"), "").unwrap();
        settle();
        let mut memory = WalkMemory::default();
        let first = paths(&workspace, WIDE, &mut memory).0;
        assert_eq!(memory.folders.len(), 3);
        // Proof that it is used: what is remembered wrongly is told wrongly.
        memory.folders.get_mut(Path::new("a/b")).unwrap().wanted.clear();
        assert_eq!(paths(&workspace, WIDE, &mut memory).0, ["a", "a/b"]);
        assert_eq!(first, ["a", "a/b", "a/b/c"]);
    }

    #[test]
    fn every_change_is_seen_however_quickly_it_follows() {
        let (_folder, workspace) = workspace();
        let path = |name: &str| workspace.path().join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        let mut memory = WalkMemory::default();
        for turn in 0..500 {
            if turn % 100 == 0 {
                settle();
            }
            paths(&workspace, WIDE, &mut memory);
            fs::write(path(&format!("a/b/{turn}")), "").unwrap();
            let found = paths(&workspace, WIDE, &mut memory).0;
            assert!(found.contains(&format!("a/b/{turn}")), "{turn}");
            fs::remove_file(path(&format!("a/b/{turn}"))).unwrap();
        }
        // Renames of folders, and other folders under the same name.
        settle();
        paths(&workspace, WIDE, &mut memory);
        fs::rename(path("a"), path("z")).unwrap();
        fs::create_dir_all(path("a/b")).unwrap();
        fs::write(path("a/b/new"), "").unwrap();
        let found = paths(&workspace, WIDE, &mut memory).0;
        assert_eq!(found, ["a", "a/b", "a/b/new", "z", "z/b"]);
        settle();
        paths(&workspace, WIDE, &mut memory);
        fs::rename(path("a"), path("y")).unwrap();
        symlink("y", path("a")).unwrap();
        assert_eq!(
            paths(&workspace, WIDE, &mut memory).0,
            ["a", "y", "y/b", "y/b/new", "z", "z/b"]
        );
    }
}
