//! Where the worker listens, and the secret that goes with it.

use std::{
    env, fmt, fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use cofferdam_protocol::Endpoint;
use tempfile::TempDir;

use super::SupervisorError;

/// The longest directory in which a socket is made: sun_path holds 108 bytes, see unix(7).
const LONGEST_DIRECTORY: usize = 70;

/// The worker's endpoint, private to this supervisor unless the person chose it.
#[derive(Debug)]
pub(super) struct WorkerEndpoint {
    address: Endpoint,
    token: Option<Token>,
    /// Removed with everything in it when this is dropped.
    directory: Option<TempDir>,
}

/// A shared secret. Never shown.
#[derive(Clone)]
pub(super) struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl WorkerEndpoint {
    /// A fresh private socket, or the endpoint that was chosen; TCP gets a fresh secret.
    pub(super) fn prepare(chosen: Option<Endpoint>) -> Result<Self, SupervisorError> {
        match chosen {
            Some(address @ Endpoint::Tcp(_)) => {
                let token = Token::fresh().map_err(SupervisorError::Secret)?;
                Ok(Self { address, token: Some(token), directory: None })
            }
            Some(address @ Endpoint::Unix(_)) => Ok(Self { address, token: None, directory: None }),
            None => {
                let directory = private_directory().map_err(SupervisorError::PrivateDirectory)?;
                let address = Endpoint::Unix(directory.path().join("worker.sock"));
                Ok(Self { address, token: None, directory: Some(directory) })
            }
        }
    }

    pub(super) fn address(&self) -> &Endpoint {
        &self.address
    }

    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.0.as_str())
    }

    /// The directory that was made for the socket.
    pub(super) fn directory(&self) -> Option<&Path> {
        self.directory.as_ref().map(TempDir::path)
    }
}

impl Token {
    fn fresh() -> io::Result<Self> {
        let mut bytes = [0_u8; 32];
        let mut filled = 0;
        while filled < bytes.len() {
            let flags = rustix::rand::GetRandomFlags::empty();
            filled += rustix::rand::getrandom(&mut bytes[filled..], flags)?;
        }
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }
}

/// A new directory that only this user can enter.
fn private_directory() -> io::Result<TempDir> {
    let base = runtime_directory().unwrap_or_else(|| PathBuf::from("/tmp"));
    tempfile::Builder::new()
        .prefix("cofferdam-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(base)
}

/// `$XDG_RUNTIME_DIR` when it is what the specification promises: ours alone.
fn runtime_directory() -> Option<PathBuf> {
    let path = PathBuf::from(env::var_os("XDG_RUNTIME_DIR")?);
    // Paths that are not UTF-8 could not be passed on as an endpoint.
    if !path.is_absolute() || path.to_str()?.len() > LONGEST_DIRECTORY {
        return None;
    }
    let metadata = fs::metadata(&path).ok()?;
    let ours = metadata.uid() == rustix::process::geteuid().as_raw();
    (metadata.is_dir() && ours && metadata.permissions().mode() & 0o077 == 0).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_are_not_shown() -> io::Result<()> {
        let (one, other) = (Token::fresh()?, Token::fresh()?);
        assert_eq!(one.0.len(), 64);
        assert_ne!(one.0, other.0);
        assert!(!format!("{one:?}").contains(&one.0));
        Ok(())
    }

    #[test]
    fn a_private_directory_is_closed_to_others_and_goes_away() -> io::Result<()> {
        let directory = private_directory()?;
        let path = directory.path().to_owned();
        assert_eq!(fs::metadata(&path)?.permissions().mode() & 0o777, 0o700);
        drop(directory);
        assert!(!path.exists());
        Ok(())
    }
}
