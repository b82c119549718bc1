//! Places that must never be a workspace.
//!
//! A run may change everything in its workspace, so a directory that the machine or a person's
//! account depends on cannot be one. Only names are compared here, on a canonical path; nothing is
//! opened.

use std::{
    fmt,
    path::{Component, Path, PathBuf},
};

use crate::shown::Shown;

/// Why a directory cannot be a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forbidden {
    /// It is `/`.
    Root,
    /// It is this directory of the system, or lies inside it.
    System(PathBuf),
    /// It is a folder that other things share: `/tmp`, `/home`, `/opt`, ...
    Shared,
    /// It is a home directory itself.
    Home,
    /// A home directory lies inside it.
    ContainsHome(PathBuf),
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("it is the root of the file system"),
            Self::System(directory) => {
                write!(f, "it belongs to the system directory `{}`", Shown(directory))
            }
            Self::Shared => f.write_str("it is a folder that the whole system shares"),
            Self::Home => f.write_str("it is a home directory itself"),
            Self::ContainsHome(home) => {
                write!(f, "it contains the home directory `{}`", Shown(home))
            }
        }
    }
}

/// Directories of the system, with everything inside them.
const SYSTEM: &[&str] = &[
    "bin",
    "boot",
    "dev",
    "efi",
    "etc",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "lost+found",
    "nix",
    "proc",
    "run",
    "sbin",
    "snap",
    "sys",
    "usr",
    "var",
];

/// Folders that are shared: not themselves, but what lies inside them. Those inside a system
/// directory are its exceptions.
const SHARED: &[&str] = &[
    "/home",
    "/media",
    "/mnt",
    "/opt",
    "/run/media",
    "/run/user",
    "/srv",
    "/tmp",
    "/var/home",
    "/var/opt",
    "/var/srv",
    "/var/tmp",
    "/var/www",
];

/// Folders whose direct children belong to one account each. The runtime directory of an account
/// holds its session's sockets.
const ACCOUNTS: &[&str] = &["/home", "/var/home", "/run/user"];

/// Why `path`, which must be absolute and canonical, cannot be a workspace.
pub(crate) fn forbidden(path: &Path, homes: &[PathBuf]) -> Option<Forbidden> {
    let mut components = path.components();
    components.next();
    let Some(Component::Normal(first)) = components.next() else {
        return Some(Forbidden::Root);
    };
    let is_account =
        || path.parent().is_some_and(|parent| ACCOUNTS.iter().any(|one| parent == Path::new(one)));
    if path == Path::new("/root") || homes.iter().any(|home| home == path) || is_account() {
        return Some(Forbidden::Home);
    }
    if SHARED.iter().any(|shared| path == Path::new(shared)) {
        return Some(Forbidden::Shared);
    }
    if SYSTEM.iter().any(|name| first == *name)
        && !SHARED.iter().any(|shared| path.starts_with(shared))
    {
        return Some(Forbidden::System(Path::new("/").join(first)));
    }
    homes
        .iter()
        .find(|home| home.starts_with(path))
        .map(|home| Forbidden::ContainsHome(home.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Option<Forbidden> {
        forbidden(Path::new(path), &["/home/ann".into(), "/data/people/ben".into()])
    }

    #[test]
    fn the_root_is_refused() {
        assert_eq!(of("/"), Some(Forbidden::Root));
    }

    #[test]
    fn system_directories_and_what_is_in_them_are_refused() {
        for path in [
            "/etc",
            "/etc/ssh",
            "/usr",
            "/usr/local/share/x",
            "/bin",
            "/sbin",
            "/lib",
            "/lib64",
            "/lib32/x",
            "/boot",
            "/boot/efi",
            "/dev",
            "/dev/shm",
            "/proc",
            "/proc/1/root",
            "/sys",
            "/sys/fs/cgroup",
            "/run",
            "/run/lock",
            "/var",
            "/var/lib",
            "/var/lib/x/y",
            "/var/log",
        ] {
            assert!(matches!(of(path), Some(Forbidden::System(_))), "{path}: {:?}", of(path));
        }
    }

    #[test]
    fn shared_folders_are_refused_themselves() {
        for path in ["/home", "/opt", "/srv", "/mnt", "/media", "/tmp", "/var/tmp", "/run/media"] {
            assert_eq!(of(path), Some(Forbidden::Shared), "{path}");
        }
    }

    #[test]
    fn home_directories_are_refused_themselves() {
        for path in ["/root", "/home/ann", "/home/unlisted", "/data/people/ben", "/run/user/1000"] {
            assert_eq!(of(path), Some(Forbidden::Home), "{path}");
        }
    }

    #[test]
    fn a_directory_that_holds_a_home_is_refused() {
        let home = || PathBuf::from("/data/people/ben");
        assert_eq!(of("/data/people"), Some(Forbidden::ContainsHome(home())));
        assert_eq!(of("/data"), Some(Forbidden::ContainsHome(home())));
    }

    #[test]
    fn ordinary_places_are_fine() {
        for path in [
            "/tmp/x",
            "/var/tmp/x",
            "/srv/x",
            "/opt/x",
            "/mnt/x",
            "/media/x",
            "/home/ann/x",
            "/root/x",
            "/data/people/ben/x",
            "/data/people/benedict",
            "/work",
            "/binary/x",
            "/etcetera",
            "/run/media/ann/disk",
            "/var/www/site",
            "/library",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }
}
