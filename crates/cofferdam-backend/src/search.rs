//! Finding programs of this machine on the server's `PATH`.
//!
//! Folders that a run can write are never searched: a virtual environment of the workspace that is
//! active in the server's shell would otherwise have the server start the workspace's own files.

use std::{
    ffi::{OsStr, OsString},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// The folders of a `PATH` that can be trusted, in order.
#[derive(Clone, Debug, Default)]
pub struct SearchPath {
    folders: Vec<PathBuf>,
    /// Canonical.
    untrusted: Vec<PathBuf>,
}

impl SearchPath {
    /// Leaves out of `path` what is relative, and what lies in one of `untrusted`.
    pub fn new(path: Option<&OsStr>, untrusted: &[PathBuf]) -> Self {
        let untrusted: Vec<_> = untrusted
            .iter()
            .flat_map(|path| [path.clone(), std::fs::canonicalize(path).unwrap_or_default()])
            .filter(|path| path.is_absolute())
            .collect();
        let mut search = Self { folders: Vec::new(), untrusted };
        for folder in path.map(std::env::split_paths).into_iter().flatten() {
            if folder.is_absolute() && search.trusts(&folder) && !search.folders.contains(&folder) {
                search.folders.push(folder);
            }
        }
        search
    }

    /// Whether neither the path nor what it leads to can be written by a run.
    pub fn trusts(&self, path: &Path) -> bool {
        let is_untrusted = |path: &Path| self.untrusted.iter().any(|root| path.starts_with(root));
        let leads_to_untrusted =
            || std::fs::canonicalize(path).is_ok_and(|path| is_untrusted(&path));
        !is_untrusted(path) && !leads_to_untrusted()
    }

    /// The first program of that name, as the path names it: shims go by their name.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        self.folders
            .iter()
            .map(|folder| folder.join(name))
            .find(|candidate| is_program(candidate) && self.trusts(candidate))
    }

    /// The same folders as a `PATH`.
    pub fn joined(&self) -> OsString {
        // A folder with a colon came from no `PATH`.
        std::env::join_paths(&self.folders).unwrap_or_default()
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn program(path: &Path, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn find(folders: &[PathBuf], untrusted: &[PathBuf]) -> Option<PathBuf> {
        let path = std::env::join_paths(folders).unwrap();
        SearchPath::new(Some(&path), untrusted).find("python3")
    }

    #[test]
    fn the_first_executable_file_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        program(&at("a/python3"), 0o644);
        fs::create_dir_all(at("b/python3")).unwrap();
        program(&at("c/python3"), 0o755);
        program(&at("d/python3"), 0o755);
        let folders = ["none", "a", "b", "c", "d"].map(at);
        assert_eq!(find(&folders, &[]), Some(at("c/python3")));
    }

    #[test]
    fn nothing_of_the_workspace_is_found_however_it_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        program(&at("work/.venv/bin/python3"), 0o755);
        fs::create_dir(at("links")).unwrap();
        symlink(at("work/.venv/bin/python3"), at("links/python3")).unwrap();
        symlink(at("work/.venv/bin"), at("linked-folder")).unwrap();
        symlink(at("work"), at("linked-work")).unwrap();
        program(&at("real/python3"), 0o755);
        let folders = ["work/.venv/bin", "links", "linked-folder", "real"].map(at);
        // The control: were the workspace trusted, its program would come first.
        assert_eq!(find(&folders, &[]), Some(at("work/.venv/bin/python3")));
        for workspace in ["work", "linked-work"] {
            assert_eq!(find(&folders, &[at(workspace)]), Some(at("real/python3")));
        }
    }

    #[test]
    fn a_link_of_the_workspace_to_a_good_program_is_not_taken_either() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        program(&at("real/python3"), 0o755);
        fs::create_dir_all(at("work/.venv/bin")).unwrap();
        // As `python3 -m venv` makes it: started by this name, it would read the workspace's files.
        symlink(at("real/python3"), at("work/.venv/bin/python3")).unwrap();
        assert_eq!(find(&[at("work/.venv/bin")], &[at("work")]), None);
    }

    #[test]
    fn relative_folders_are_left_out() {
        let search = SearchPath::new(Some(OsStr::new(".:bin::/usr/bin:/usr/bin")), &[]);
        assert_eq!(search.joined(), "/usr/bin");
        assert_eq!(SearchPath::new(None, &[]).find("sh"), None);
    }
}
