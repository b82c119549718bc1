//! Which paths make an installed program work, without showing more than that.

use std::path::{Path, PathBuf};

/// What must not become visible, or is visible anyway.
#[derive(Clone, Debug, Default)]
pub(super) struct Boundaries {
    /// Visible to every run of the profile.
    pub(super) visible: Vec<PathBuf>,
    /// Home directories and the workspace: no folder that is one, or holds one, is shown whole.
    pub(super) private: Vec<PathBuf>,
}

/// Folders whose parts need each other: what lies in one is shown with the whole of it.
const STORES: &[&str] = &["/gnu/store", "/home/linuxbrew/.linuxbrew", "/nix/store"];

/// The parts of an installation that programs use.
const PARTS: &[&str] = &["bin", "include", "lib", "lib64", "share"];

impl Boundaries {
    /// What of `wanted` must be mounted: no path twice, none that is visible anyway.
    pub(super) fn mounts(&self, wanted: &[PathBuf]) -> Vec<PathBuf> {
        let mut mounts: Vec<PathBuf> = Vec::new();
        for path in wanted.iter().filter(|path| path.is_absolute() && path.is_dir()) {
            // Programs use the name that they know; links among them lead to the canonical one.
            let canonical = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
            for name in [path.clone(), canonical] {
                for part in self.parts(&name) {
                    let seen = |root: &PathBuf| part.starts_with(root);
                    if !self.visible.iter().any(seen) && !mounts.iter().any(seen) {
                        mounts.retain(|mount| !mount.starts_with(&part));
                        mounts.push(part);
                    }
                }
            }
        }
        mounts
    }

    /// Whether a path can be seen by a run that has `mounts`.
    pub(super) fn shows(&self, path: &Path, mounts: &[PathBuf]) -> bool {
        self.visible.iter().chain(mounts).any(|root| path.starts_with(root))
    }

    /// The folder itself, or what of it programs use when the whole would show too much.
    fn parts(&self, path: &Path) -> Vec<PathBuf> {
        if let Some(store) = STORES.iter().find(|store| path.starts_with(store)) {
            return vec![PathBuf::from(store)];
        }
        let holds_private = self.private.iter().any(|private| private.starts_with(path));
        // `~/.local` is where programs keep a person's data, keys among them, beside what
        // installers put there.
        let is_user_base = self.private.iter().any(|home| home.join(".local") == path);
        let is_shallow = path.components().count() <= 2;
        if !(holds_private || is_user_base || is_shallow) {
            return vec![path.to_owned()];
        }
        PARTS
            .iter()
            .filter(|part| !(is_user_base && **part == "share"))
            .map(|part| path.join(part))
            .filter(|part| part.is_dir() && !self.private.iter().any(|one| one.starts_with(part)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new(folders: &[&str]) -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            for folder in folders {
                fs::create_dir_all(place.at(folder)).unwrap();
            }
            place
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn mounts(&self, private: &[&str], wanted: &[&str]) -> Vec<PathBuf> {
            let boundaries = Boundaries {
                visible: vec![self.at("usr")],
                private: private.iter().map(|name| self.at(name)).collect(),
            };
            let wanted: Vec<_> = wanted.iter().map(|name| self.at(name)).collect();
            boundaries.mounts(&wanted)
        }
    }

    #[test]
    fn what_is_visible_anyway_or_not_there_is_not_mounted() {
        let place = Place::new(&["usr/lib", "prefix/lib", "us"]);
        let wanted = ["usr", "usr/lib", "prefix", "prefix/lib", "absent", "us"];
        assert_eq!(place.mounts(&[], &wanted), [place.at("prefix"), place.at("us")]);
        assert_eq!(place.mounts(&[], &["prefix/lib", "prefix"]), [place.at("prefix")]);
    }

    #[test]
    fn a_home_or_what_holds_the_workspace_is_shown_only_in_parts() {
        let place =
            Place::new(&["home/bin", "home/lib", "home/secrets", "conda/lib", "conda/work"]);
        assert_eq!(
            place.mounts(&["home"], &["home"]),
            [place.at("home/bin"), place.at("home/lib")]
        );
        assert_eq!(place.mounts(&["conda/work"], &["conda"]), [place.at("conda/lib")]);
        // Below a home, a folder of its own is shown whole.
        assert_eq!(place.mounts(&["home"], &["home/lib"]), [place.at("home/lib")]);
    }

    #[test]
    fn a_part_that_holds_the_workspace_is_not_shown() {
        let place = Place::new(&["prefix/bin", "prefix/share/work"]);
        assert_eq!(place.mounts(&["prefix/share/work"], &["prefix"]), [place.at("prefix/bin")]);
    }

    #[test]
    fn the_keys_below_a_user_s_local_folder_stay_hidden() {
        let place =
            Place::new(&["home/.local/bin", "home/.local/lib", "home/.local/share/keyrings"]);
        assert_eq!(
            place.mounts(&["home"], &["home/.local"]),
            [place.at("home/.local/bin"), place.at("home/.local/lib")]
        );
    }

    #[test]
    fn the_root_is_never_mounted() {
        let boundaries = Boundaries { visible: vec!["/usr".into()], private: Vec::new() };
        let mounts = boundaries.mounts(&["/".into()]);
        assert!(!mounts.contains(&PathBuf::from("/")), "{mounts:?}");
    }

    #[test]
    fn both_the_known_and_the_canonical_name_are_mounted() {
        let place = Place::new(&["real/lib"]);
        symlink(place.at("real"), place.at("link")).unwrap();
        assert_eq!(place.mounts(&[], &["link"]), [place.at("link"), place.at("real")]);
    }

    #[test]
    fn a_store_is_mounted_whole() {
        let boundaries = Boundaries::default();
        assert_eq!(
            boundaries.parts(Path::new("/gnu/store/abc-python-3.11")),
            [PathBuf::from("/gnu/store")]
        );
    }
}
