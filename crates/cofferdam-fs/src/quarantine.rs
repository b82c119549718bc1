//! Moving what a run must not leave behind out of place, without losing it.
//!
//! The workspace is the code's own: neither the way to the entry nor the place it is moved to may
//! lead through a link, and nothing is overwritten.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, Mode, OFlags, RenameFlags, ResolveFlags, chmod, mkdirat, renameat_with, statat},
    io::Errno,
};

use crate::{
    beneath::{descriptor_path, open_at},
    spill::unpredictable,
    workspace::Workspace,
};

/// Where things are moved, relative to the workspace.
const FOLDER: &str = ".tmp/quarantine";

impl Workspace {
    /// Moves the entry at `path`, relative to the workspace, into the quarantine; tells where it is
    /// kept, relative too.
    ///
    /// # Errors
    /// When the entry is gone, or cannot be moved.
    pub fn quarantine(&self, path: &Path) -> io::Result<PathBuf> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::INVAL.into());
        };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let from = self.reach(parent, OFlags::DIRECTORY)?;
        // Moving needs the right to write the folder and, of a folder that moves, its own. A run
        // may have taken both away; what is not ours stays as it is, and the move fails.
        let _ = self.open_up(parent);
        let _ = self.open_up(path);
        let (folder, shown) = self.quarantine_folder()?;
        for _ in 0..100 {
            let mut kept = std::ffi::OsString::from(&unpredictable()[..8]);
            kept.push("-");
            kept.push(name);
            let moved = renameat_with(&from, name, &folder, &kept, RenameFlags::NOREPLACE);
            match moved {
                Ok(()) => return Ok(shown.join(kept)),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Opens or makes the quarantine. A run may have put something else in its place, so there is a
    /// second way that it cannot have foreseen.
    fn quarantine_folder(&self) -> io::Result<(OwnedFd, PathBuf)> {
        if let Ok(folder) = self.make_folder(Path::new(FOLDER), Mode::RWXU) {
            return Ok((folder, FOLDER.into()));
        }
        let name = format!(".cofferdam-quarantine-{}", unpredictable());
        mkdirat(self.directory(), &name, Mode::RWXU)?;
        Ok((self.reach(Path::new(&name), OFlags::DIRECTORY)?, name.into()))
    }

    /// The entry at `path`, relative, itself: no link leads to it and none is followed.
    fn reach(&self, path: &Path, more: OFlags) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC | more;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        Ok(open_at(self.directory(), path, flags, resolve)?)
    }

    /// Makes the directory at `path`, relative, one that we can look into, when it is ours.
    ///
    /// A run can close a directory to hide what is in it. Tells whether that was so.
    ///
    /// # Errors
    /// When it is gone, a link leads to it, or it is not ours.
    pub fn open_up(&self, path: &Path) -> io::Result<bool> {
        let folder = self.reach(path, OFlags::DIRECTORY)?;
        let mode = Mode::from_raw_mode(statat(&folder, "", AtFlags::EMPTY_PATH)?.st_mode);
        if mode.contains(Mode::RWXU) {
            return Ok(false);
        }
        chmod(descriptor_path(&folder), mode | Mode::RWXU)?;
        Ok(true)
    }

    /// Device, inode and time of the last change of the entry at `path`, relative, itself.
    ///
    /// # Errors
    /// When there is none, or a link leads to it.
    pub fn fingerprint(&self, path: &Path) -> io::Result<Fingerprint> {
        let entry = self.reach(path, OFlags::empty())?;
        let found = statat(entry.as_fd(), "", AtFlags::EMPTY_PATH)?;
        Ok(Fingerprint {
            device: found.st_dev,
            inode: found.st_ino,
            changed: (found.st_ctime, found.st_ctime_nsec),
        })
    }
}

/// What tells one entry from another, and from itself before a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// Device.
    pub device: u64,
    /// Inode.
    pub inode: u64,
    /// Seconds and nanoseconds of the last change of content or status (`st_ctim`).
    pub changed: (i64, u64),
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn workspace() -> (tempfile::TempDir, Workspace) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("work");
        fs::create_dir(&path).unwrap();
        let workspace = Workspace::open(&path, &[]).unwrap();
        (folder, workspace)
    }

    #[test]
    fn what_is_moved_is_kept_whole() {
        let (_folder, workspace) = workspace();
        fs::create_dir_all(workspace.path().join("a/.git/hooks")).unwrap();
        fs::write(workspace.path().join("a/.git/hooks/pre-commit"), "evil").unwrap();
        let kept = workspace.quarantine(Path::new("a/.git/hooks")).unwrap();
        assert!(!workspace.path().join("a/.git/hooks").exists());
        let kept = workspace.path().join(kept).join("pre-commit");
        assert_eq!(fs::read_to_string(kept).unwrap(), "evil");
    }

    #[test]
    fn a_planted_quarantine_is_not_followed() {
        let (folder, workspace) = workspace();
        fs::create_dir(folder.path().join("outside")).unwrap();
        symlink("../outside", workspace.path().join(".tmp")).unwrap();
        fs::write(workspace.path().join(".mcp.json"), "x").unwrap();
        let kept = workspace.quarantine(Path::new(".mcp.json")).unwrap();
        assert!(workspace.path().join(kept).is_file());
        assert_eq!(fs::read_dir(folder.path().join("outside")).unwrap().count(), 0);
    }

    #[test]
    fn a_closed_folder_can_be_opened_up_and_a_link_is_not_followed() {
        use std::os::unix::fs::PermissionsExt;
        let (folder, workspace) = workspace();
        let closed = workspace.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
        assert!(workspace.open_up(Path::new("closed")).unwrap());
        assert!(!workspace.open_up(Path::new("closed")).unwrap());
        assert_eq!(fs::metadata(&closed).unwrap().permissions().mode() & 0o777, 0o700);
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o000)).unwrap();
        symlink("../outside", workspace.path().join("link")).unwrap();
        workspace.open_up(Path::new("link")).unwrap_err();
        assert_eq!(fs::metadata(&outside).unwrap().permissions().mode() & 0o777, 0o000);
    }

    #[test]
    fn the_way_to_the_entry_follows_no_link() {
        let (folder, workspace) = workspace();
        fs::create_dir(folder.path().join("outside")).unwrap();
        fs::write(folder.path().join("outside/file"), "x").unwrap();
        symlink("../outside", workspace.path().join("way")).unwrap();
        workspace.quarantine(Path::new("way/file")).unwrap_err();
        assert!(folder.path().join("outside/file").exists());
    }
}
