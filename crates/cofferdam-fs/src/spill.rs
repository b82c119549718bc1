//! Files that we write into a workspace: streams too long for a reply.
//!
//! A run is under way while its stream is spilled, and the workspace is its own, so the file has no
//! name until the run is over, and the folder in which it then gets one is reached without
//! following a single link.

use std::{
    fs::File,
    io::{self, Seek, Write},
    os::fd::{AsFd, OwnedFd},
    path::{Component, Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::{
    fs::{
        AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Uid, fchmod, fchown, linkat,
        mkdirat, openat, statat, unlinkat,
    },
    io::Errno,
    process::geteuid,
};

use crate::{
    beneath::{PathError, descriptor_path, open_at},
    workspace::Workspace,
};

/// How many files a folder of spills keeps.
const KEPT_FILES: usize = 32;

/// How many entries of a folder are looked at when it is pruned: a run can make any number.
const MOST_ENTRIES: usize = 4096;

/// A file without a name, in the file system of the workspace. Gone when dropped unpublished.
#[derive(Debug)]
pub struct Spill {
    file: File,
    /// The file can still be given a name; else its bytes must be copied to one that has a name.
    linkable: bool,
}

impl Write for Spill {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Workspace {
    /// Makes a file without a name in the workspace, mode 0600.
    ///
    /// # Errors
    /// What the system said, when the file system cannot be written to.
    pub fn spill(&self) -> io::Result<Spill> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        match openat(self.directory(), ".", flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Ok(Spill { file: file.into(), linkable: true }),
            // The ways in which file systems say that they do not know O_TMPFILE.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
                self.unlinked_spill()
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// A file that had a name for a moment, in a folder that only we can enter. The weaker way:
    /// a run of the same user that guesses the name in that moment can open the file.
    fn unlinked_spill(&self) -> io::Result<Spill> {
        let folder = self.make_folder(Path::new(".tmp/spill"), Mode::RWXU)?;
        for attempt in 0..100 {
            let name = format!("{}-{attempt}", unpredictable());
            let flags =
                OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(&folder, &name, flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => {
                    unlinkat(&folder, &name, AtFlags::empty())?;
                    return Ok(Spill { file: file.into(), linkable: false });
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Gives a spilled file the name `name` in `folder`, and tells its absolute path.
    ///
    /// The folder is made, one component after the other, and must be reachable without links. The
    /// file gets mode 0644 and, when we are root, the owner of the workspace. Only the newest 32
    /// regular files of the folder are kept.
    ///
    /// # Errors
    /// [`PathError`] when the folder cannot be had without links, or the name is taken; the file is
    /// gone then.
    pub fn publish(&self, spill: Spill, folder: &Path, name: &str) -> Result<PathBuf, PathError> {
        let path = self.path().join(folder).join(name);
        let system = |operation: &'static str| {
            let path = path.clone();
            move |source: io::Error| PathError::System { operation, path, source }
        };
        if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
            return Err(system("naming the file")(Errno::INVAL.into()));
        }
        let directory = self
            .make_folder(folder, Mode::from_raw_mode(0o755))
            .map_err(system("making the folder of"))?;
        let linked = if spill.linkable {
            link(&spill.file, &directory, name, self)
        } else {
            copy(spill.file, &directory, name, self)
        };
        linked.map_err(system("writing"))?;
        prune(&directory, name);
        Ok(path)
    }

    /// Opens the folder, making what is missing, without following any link. `mode` is that of the
    /// last component.
    pub(crate) fn make_folder(&self, folder: &Path, mode: Mode) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let mut current = open_at(self.directory(), Path::new("."), flags, resolve)?;
        let mut components = folder.components().peekable();
        while let Some(component) = components.next() {
            let Component::Normal(name) = component else { return Err(Errno::INVAL.into()) };
            let is_last = components.peek().is_none();
            let mode = if is_last { mode } else { Mode::from_raw_mode(0o755) };
            let made = match mkdirat(&current, name, mode) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(errno) => return Err(errno.into()),
            };
            current = open_at(&current, Path::new(name), flags, resolve)?;
            if made {
                give_to_owner(&current, self);
            }
        }
        Ok(current)
    }
}

/// Gives a file that has no name a name.
fn link(file: &File, folder: &OwnedFd, name: &str, workspace: &Workspace) -> io::Result<()> {
    finish(file, workspace)?;
    // AT_EMPTY_PATH would need CAP_DAC_READ_SEARCH; this way is the one that open(2) describes.
    linkat(CWD, descriptor_path(file), folder, name, AtFlags::SYMLINK_FOLLOW)?;
    Ok(())
}

/// Copies a file that cannot get a name any more.
fn copy(mut file: File, folder: &OwnedFd, name: &str, workspace: &Workspace) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut copy = File::from(openat(folder, name, flags, Mode::RUSR | Mode::WUSR)?);
    file.rewind()?;
    let copied = io::copy(&mut file, &mut copy).and_then(|_| finish(&copy, workspace));
    if copied.is_err() {
        // Half a stream under the name of a whole one would be a lie.
        let _ = unlinkat(folder, name, AtFlags::empty());
    }
    copied
}

fn finish(file: &File, workspace: &Workspace) -> io::Result<()> {
    fchmod(file, Mode::from_raw_mode(0o644))?;
    give_to_owner(file, workspace);
    Ok(())
}

/// What root makes in somebody's workspace belongs to that somebody.
fn give_to_owner(file: impl AsFd, workspace: &Workspace) {
    let (user, group) = workspace.owner();
    if geteuid().is_root() && user != 0 {
        // Fails in a user namespace that does not know the owner; the file is readable even so.
        let _ = fchown(file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
    }
}

/// Removes all but the newest regular files; never `newest`, which has just been made.
fn prune(folder: &OwnedFd, newest: &str) {
    let Ok(entries) = Dir::read_from(folder) else { return };
    let mut files = Vec::new();
    for entry in entries.take(MOST_ENTRIES) {
        let Ok(entry) = entry else { break };
        let name = entry.file_name().to_owned();
        if name.to_bytes() == newest.as_bytes() {
            continue;
        }
        let Ok(found) = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile {
            files.push(((found.st_mtime, found.st_mtime_nsec), name));
        }
    }
    files.sort_by(|left, right| right.cmp(left));
    for (_, name) in files.into_iter().skip(KEPT_FILES - 1) {
        let _ = unlinkat(folder, &name, AtFlags::empty());
    }
}

/// A text that another process does not know beforehand.
pub(crate) fn unpredictable() -> String {
    use std::hash::{BuildHasher, RandomState};
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    // Every RandomState is keyed from the system's random numbers.
    format!("{:016x}{:016x}", RandomState::new().hash_one(since), RandomState::new().hash_one(1))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, symlink},
    };

    use super::*;

    const RUNS: &str = ".tmp/runs";

    fn workspace() -> (tempfile::TempDir, Workspace) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("work");
        fs::create_dir(&path).unwrap();
        let workspace = Workspace::open(&path, &[]).unwrap();
        (folder, workspace)
    }

    /// Both ways to make a spill: every claim holds for each.
    fn both_ways(workspace: &Workspace) -> [Spill; 2] {
        [workspace.spill().unwrap(), workspace.unlinked_spill().unwrap()]
    }

    #[test]
    fn a_spill_has_no_name_until_it_is_published() {
        let (_folder, workspace) = workspace();
        let mut spill = workspace.spill().unwrap();
        spill.write_all(b"whole output").unwrap();
        assert_eq!(fs::read_dir(workspace.path()).unwrap().count(), 0);
        let path = workspace.publish(spill, Path::new(RUNS), "1-stdout.txt").unwrap();
        assert_eq!(path, workspace.path().join(RUNS).join("1-stdout.txt"));
        assert_eq!(fs::read(&path).unwrap(), b"whole output");
    }

    #[test]
    fn a_spill_that_is_dropped_leaves_nothing() {
        let (_folder, workspace) = workspace();
        for mut spill in both_ways(&workspace) {
            spill.write_all(b"x").unwrap();
            drop(spill);
        }
        let left = workspace.path().join(".tmp/spill");
        assert_eq!(fs::read_dir(left).unwrap().count(), 0);
    }

    #[test]
    fn a_published_file_holds_all_bytes_and_can_be_read_by_all() {
        let (_folder, workspace) = workspace();
        for (number, mut spill) in both_ways(&workspace).into_iter().enumerate() {
            spill.write_all(&vec![b'a'; 300_000]).unwrap();
            let name = format!("{number}-stdout.txt");
            let path = workspace.publish(spill, Path::new(RUNS), &name).unwrap();
            let found = fs::metadata(&path).unwrap();
            assert_eq!(found.len(), 300_000);
            assert_eq!(found.mode() & 0o7777, 0o644);
            assert_eq!((found.uid(), found.gid()), workspace.owner());
        }
    }

    #[test]
    fn what_root_writes_belongs_to_the_owner_of_the_workspace() {
        if !geteuid().is_root() {
            // Only root can give files away; an ordinary user's files are his own anyway.
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("work");
        fs::create_dir(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(12_345), Some(23_456)).unwrap();
        let workspace = Workspace::open(&path, &[]).unwrap();
        for (number, spill) in both_ways(&workspace).into_iter().enumerate() {
            let name = format!("{number}-stdout.txt");
            workspace.publish(spill, Path::new(RUNS), &name).unwrap();
            for made in [".tmp", RUNS, &format!("{RUNS}/{name}")] {
                let found = fs::symlink_metadata(path.join(made)).unwrap();
                assert_eq!((found.uid(), found.gid()), (12_345, 23_456), "{made}");
            }
        }
    }

    #[test]
    fn a_planted_link_for_the_folder_is_refused_and_nothing_is_written_outside() {
        for planted in [".tmp", ".tmp/runs"] {
            let (folder, workspace) = workspace();
            let outside = folder.path().join("outside");
            fs::create_dir(&outside).unwrap();
            let link = workspace.path().join(planted);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(&outside, &link).unwrap();
            let spill = workspace.spill().unwrap();
            workspace.publish(spill, Path::new(RUNS), "1-stdout.txt").unwrap_err();
            assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{planted}");
            // The control: by path, the same write lands outside.
            fs::create_dir_all(workspace.path().join(RUNS)).unwrap();
            fs::write(workspace.path().join(RUNS).join("1-stdout.txt"), "").unwrap();
            assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "{planted}");
        }
    }

    #[test]
    fn a_link_planted_inside_the_workspace_is_refused_too() {
        let (_folder, workspace) = workspace();
        fs::create_dir(workspace.path().join("elsewhere")).unwrap();
        symlink("elsewhere", workspace.path().join(".tmp")).unwrap();
        workspace.publish(workspace.spill().unwrap(), Path::new(RUNS), "1-stdout.txt").unwrap_err();
    }

    #[test]
    fn a_link_planted_for_the_file_is_neither_followed_nor_replaced() {
        let (folder, workspace) = workspace();
        let canary = folder.path().join("canary");
        fs::write(&canary, "untouched").unwrap();
        fs::create_dir_all(workspace.path().join(RUNS)).unwrap();
        let link = workspace.path().join(RUNS).join("1-stdout.txt");
        symlink(&canary, &link).unwrap();
        for mut spill in both_ways(&workspace) {
            spill.write_all(b"changed").unwrap();
            workspace.publish(spill, Path::new(RUNS), "1-stdout.txt").unwrap_err();
        }
        assert_eq!(fs::read_to_string(&canary).unwrap(), "untouched");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn a_file_in_place_of_the_folder_is_refused() {
        let (_folder, workspace) = workspace();
        fs::write(workspace.path().join(".tmp"), "mine").unwrap();
        workspace.publish(workspace.spill().unwrap(), Path::new(RUNS), "1-stdout.txt").unwrap_err();
        assert_eq!(fs::read_to_string(workspace.path().join(".tmp")).unwrap(), "mine");
    }

    #[test]
    fn folders_and_names_that_climb_are_refused() {
        let (_folder, workspace) = workspace();
        for (folder, name) in [
            ("../out", "x"),
            ("/tmp", "x"),
            (RUNS, "../x"),
            (RUNS, ".."),
            (RUNS, ""),
            (RUNS, "a/b"),
        ] {
            let spill = workspace.spill().unwrap();
            assert!(workspace.publish(spill, Path::new(folder), name).is_err(), "{folder} {name}");
        }
    }

    #[test]
    fn only_the_newest_files_are_kept_and_only_files_are_removed() {
        let (_folder, workspace) = workspace();
        let runs = workspace.path().join(RUNS);
        fs::create_dir_all(runs.join("a-directory")).unwrap();
        symlink("/etc/hostname", runs.join("a-link")).unwrap();
        for number in 0..40 {
            let file = fs::File::create(runs.join(format!("old-{number:02}"))).unwrap();
            let when = UNIX_EPOCH + std::time::Duration::from_secs(1_000 + number);
            file.set_modified(when).unwrap();
        }
        let spill = workspace.spill().unwrap();
        workspace.publish(spill, Path::new(RUNS), "1-stdout.txt").unwrap();
        let mut left: Vec<_> = fs::read_dir(&runs)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut expected = vec!["1-stdout.txt".to_owned(), "a-directory".into(), "a-link".into()];
        expected.extend((9..40).map(|number| format!("old-{number:02}")));
        assert_eq!(left, expected);
    }

    #[test]
    fn files_from_the_future_do_not_push_the_new_one_out() {
        let (_folder, workspace) = workspace();
        let runs = workspace.path().join(RUNS);
        fs::create_dir_all(&runs).unwrap();
        for number in 0..40 {
            let file = fs::File::create(runs.join(format!("planted-{number}"))).unwrap();
            file.set_modified(SystemTime::now() + std::time::Duration::from_secs(86_400)).unwrap();
        }
        let path =
            workspace.publish(workspace.spill().unwrap(), Path::new(RUNS), "1-stdout.txt").unwrap();
        assert!(path.exists());
        assert_eq!(fs::read_dir(&runs).unwrap().count(), KEPT_FILES);
    }
}
