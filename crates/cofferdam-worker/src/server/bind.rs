//! A Unix socket in a private folder.
//!
//! The folder keeps other users away from the socket's name, so that nobody can put one of his own
//! in its place; the peer's user is checked at every connection all the same.

use std::{
    io,
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt},
    path::Path,
};

use rustix::process::geteuid;
use tokio::net::UnixListener;

/// Listens on a Unix socket at `path`, which only this user can reach.
///
/// The folder is made, mode 0700, when it is missing; one that is there must belong to this user and
/// be writable by nobody else. A socket that nobody listens on any more is replaced.
///
/// # Errors
/// [`io::ErrorKind::AddrInUse`] when somebody listens there; [`io::ErrorKind::AlreadyExists`] when
/// something else is at that path; [`io::ErrorKind::PermissionDenied`] when the folder is not
/// private; else what the system said. Needs a Tokio runtime.
pub fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    check_private(folder)?;
    remove_stale(path)?;
    let listener = UnixListener::bind(path)?;
    // Made with what the umask leaves; until here the folder alone has kept others out.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn check_private(folder: &Path) -> io::Result<()> {
    let found = std::fs::metadata(folder)?;
    let refuse = |why: String| {
        let text = format!("`{}` {why}; name a socket in a folder of its own", folder.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
    };
    let ours = geteuid().as_raw();
    if found.uid() != ours {
        return refuse(format!("belongs to user {}, not to user {ours}", found.uid()));
    }
    if found.mode() & 0o022 != 0 {
        return refuse("can be written by other users".to_owned());
    }
    Ok(())
}

fn remove_stale(path: &Path) -> io::Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        let text = format!("`{}` exists and is no socket", path.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) => Err(error),
        Ok(_) => {
            let text = format!("another process listens on `{}`", path.display());
            Err(io::Error::new(io::ErrorKind::AddrInUse, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[tokio::test]
    async fn the_folder_is_made_private_and_the_socket_too() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("run/worker.sock");
        let _listener = bind_unix(&path).unwrap();
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(mode(&path), 0o600);
    }

    #[tokio::test]
    async fn a_folder_that_others_can_write_is_refused() {
        let place = tempfile::tempdir().unwrap();
        for mode in [0o777, 0o1777, 0o770] {
            fs::set_permissions(place.path(), fs::Permissions::from_mode(mode)).unwrap();
            let error = bind_unix(&place.path().join("worker.sock")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{mode:o}");
        }
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        bind_unix(&place.path().join("worker.sock")).unwrap();
    }

    #[tokio::test]
    async fn only_a_socket_without_a_listener_is_replaced() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("worker.sock");
        let first = bind_unix(&path).unwrap();
        assert_eq!(bind_unix(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(first);
        assert!(path.exists(), "a socket outlives its listener");
        bind_unix(&path).unwrap();
    }

    #[tokio::test]
    async fn files_and_links_are_never_replaced() {
        let place = tempfile::tempdir().unwrap();
        let (file, link) = (place.path().join("file"), place.path().join("link"));
        fs::write(&file, "mine").unwrap();
        symlink(&file, &link).unwrap();
        for path in [&file, &link] {
            assert_eq!(bind_unix(path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    }
}
