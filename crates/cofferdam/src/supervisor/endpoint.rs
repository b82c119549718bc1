//! Where the worker listens, and the secret that goes with it.

use std::{fmt, io, path::Path};

use cofferdam_protocol::Endpoint;

use super::SupervisorError;

/// The worker's endpoint, private to this supervisor unless the person chose it.
#[derive(Debug)]
pub(super) struct WorkerEndpoint {
    address: Endpoint,
    token: Option<Token>,
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
    /// A socket in the server's private folder, or the endpoint that was chosen; TCP gets a fresh
    /// secret.
    pub(super) fn prepare(
        chosen: Option<Endpoint>,
        folder: &Path,
    ) -> Result<Self, SupervisorError> {
        let address = chosen.unwrap_or_else(|| Endpoint::Unix(folder.join("worker.sock")));
        let token = match &address {
            Endpoint::Tcp(_) => Some(Token::fresh().map_err(SupervisorError::Secret)?),
            Endpoint::Unix(_) => None,
        };
        Ok(Self { address, token })
    }

    pub(super) fn address(&self) -> &Endpoint {
        &self.address
    }

    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.0.as_str())
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
}
