//! A virtual environment in the workspace.
//!
//! Everything in it is the run's: its interpreter is started only inside a sandbox, and what its
//! `pyvenv.cfg` says makes nothing visible. It is used when the Python that it builds on can be seen
//! anyway, and otherwise ignored with the reason.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use cofferdam_fs::{PathError, Workspace};

use crate::failure::chain;

/// The largest `pyvenv.cfg` that is read; real ones have a few hundred bytes.
const MOST_BYTES: u64 = 64 * 1024;

/// A virtual environment that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Venv {
    /// Its folder, absolute.
    pub(super) prefix: PathBuf,
    /// Its interpreter.
    pub(super) interpreter: PathBuf,
}

/// What there is at a folder of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// No virtual environment.
    Nothing,
    /// One that can be used.
    Usable(Venv),
    /// One that cannot be used, and why.
    Unusable(String),
}

/// Looks at `folder`, relative to the workspace. `is_visible` tells which canonical paths outside the
/// workspace a run can see.
pub(super) fn look(
    workspace: &Workspace,
    folder: &Path,
    is_visible: impl Fn(&Path) -> bool,
) -> Found {
    let text = match read(workspace, &folder.join("pyvenv.cfg")) {
        Ok(text) => text,
        Err(None) => return Found::Nothing,
        Err(Some(reason)) => return unusable(folder, &reason),
    };
    let Some(home) = value(&text, "home").map(PathBuf::from).filter(|home| home.is_absolute())
    else {
        return unusable(folder, "its pyvenv.cfg names no absolute `home`");
    };
    let base = std::fs::canonicalize(&home).ok().filter(|home| home.is_dir());
    if !base.is_some_and(|base| is_visible(&base)) {
        let reason = format!(
            "the Python that it builds on, `{}`, cannot be seen by a run",
            crate::shown::one_line(home.as_os_str().as_encoded_bytes(), 200)
        );
        return unusable(folder, &reason);
    }
    let python = folder.join("bin/python");
    let is_runnable = workspace
        .leads_to(&python)
        .is_ok_and(|path| path.starts_with(workspace.path()) || is_visible(&path));
    if !is_runnable {
        return unusable(folder, "its bin/python leads nowhere that a run can see");
    }
    Found::Usable(Venv {
        prefix: workspace.path().join(folder),
        interpreter: workspace.path().join(python),
    })
}

fn unusable(folder: &Path, reason: &str) -> Found {
    Found::Unusable(format!("{} of the workspace is not used: {reason}", folder.display()))
}

/// The text, or why there is none: without a reason when there is no such file.
fn read(workspace: &Workspace, path: &Path) -> Result<String, Option<String>> {
    let (file, _) = workspace.open_regular(path).map_err(|error| match error {
        PathError::FileNotFound(_) => None,
        error => Some(chain(&error)),
    })?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(|error| Some(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| Some("its pyvenv.cfg is not UTF-8".to_owned()))
}

/// The value of a key, read as Python's `site` reads it.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case(key))
        .map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    /// `base` is a Python that runs can see, `hidden` one that they cannot.
    struct Place {
        folder: tempfile::TempDir,
        workspace: Workspace,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            for path in ["base/bin", "hidden/bin", "work/.venv/bin"] {
                fs::create_dir_all(folder.path().join(path)).unwrap();
            }
            for path in ["base/bin/python3", "hidden/bin/python3"] {
                fs::write(folder.path().join(path), "").unwrap();
            }
            let workspace = Workspace::open(&folder.path().join("work"), &[]).unwrap();
            Self { folder, workspace }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn venv(&self, home: &str, target: &str) -> Found {
            let cfg = format!(
                "home = {}\ninclude-system-site-packages = false\nversion = 3.11.7\n",
                self.at(home).display()
            );
            fs::write(self.at("work/.venv/pyvenv.cfg"), cfg).unwrap();
            let python = self.at("work/.venv/bin/python");
            let _ = fs::remove_file(&python);
            symlink(self.at(target), python).unwrap();
            self.look()
        }

        fn look(&self) -> Found {
            let base = self.at("base");
            look(&self.workspace, Path::new(".venv"), |path| path.starts_with(&base))
        }
    }

    fn reason(found: Found) -> String {
        match found {
            Found::Unusable(reason) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_that_builds_on_a_visible_python_is_used() {
        let place = Place::new();
        assert_eq!(
            place.venv("base/bin", "base/bin/python3"),
            Found::Usable(Venv {
                prefix: place.at("work/.venv"),
                interpreter: place.at("work/.venv/bin/python"),
            })
        );
    }

    #[test]
    fn no_folder_and_an_empty_folder_are_nothing() {
        let place = Place::new();
        assert_eq!(place.look(), Found::Nothing);
        fs::remove_dir_all(place.at("work/.venv")).unwrap();
        assert_eq!(place.look(), Found::Nothing);
    }

    #[test]
    fn one_that_builds_on_a_hidden_python_is_ignored_with_the_reason() {
        let place = Place::new();
        for home in ["hidden/bin", "base/../hidden/bin", "absent", "base-evil"] {
            let reason = reason(place.venv(home, "base/bin/python3"));
            assert!(reason.contains("cannot be seen by a run"), "{reason}");
        }
        symlink(place.at("hidden/bin"), place.at("base/link")).unwrap();
        let reason = reason(place.venv("base/link", "base/bin/python3"));
        assert!(reason.contains("cannot be seen by a run"), "{reason}");
    }

    #[test]
    fn an_interpreter_that_leads_to_a_hidden_place_or_nowhere_is_ignored() {
        let place = Place::new();
        for target in ["hidden/bin/python3", "absent"] {
            let reason = reason(place.venv("base/bin", target));
            assert!(reason.contains("leads nowhere that a run can see"), "{reason}");
        }
    }

    #[test]
    fn hostile_files_are_ignored_with_a_reason() {
        let place = Place::new();
        let cfg = place.at("work/.venv/pyvenv.cfg");
        for text in [&b"home = relative"[..], b"nothing", b"home = /\xff"] {
            fs::write(&cfg, text).unwrap();
            reason(place.look());
        }
        fs::remove_file(&cfg).unwrap();
        symlink("/etc/passwd", &cfg).unwrap();
        assert!(reason(place.look()).contains("outside the workspace"));
        fs::remove_file(&cfg).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &cfg,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        assert!(reason(place.look()).contains("FIFO"));
    }

    #[test]
    fn a_file_without_end_is_read_only_so_far() {
        let place = Place::new();
        let cfg = fs::File::create(place.at("work/.venv/pyvenv.cfg")).unwrap();
        cfg.set_len(1 << 40).unwrap();
        reason(place.look());
    }

    #[test]
    fn keys_are_read_as_python_reads_them() {
        let text = "HOME = /a = b\r\nversion_info = 3.12.1.final.0\nhome = /second\n";
        assert_eq!(value(text, "home"), Some("/a = b"));
        assert_eq!(value(text, "version_info"), Some("3.12.1.final.0"));
        assert_eq!(value(text, "absent"), None);
    }
}
