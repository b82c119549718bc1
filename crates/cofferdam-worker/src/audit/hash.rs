//! The sha256 of something, as it stands in records.

use std::{fmt, str::FromStr};

use sha2::{Digest, Sha256};

/// Digits of a hash in hexadecimal.
pub(crate) const DIGITS: usize = 64;

/// A sha256. Written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hash([u8; 32]);

/// A text is no hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a sha256 in hexadecimal, {DIGITS} digits")]
pub struct NotAHash;

impl Hash {
    /// What stands where there is nothing before: all zeros.
    pub const NOTHING: Self = Self([0; 32]);

    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Hash {
    type Err = NotAHash;

    /// Only lower case: a hash has one spelling, so that a changed letter is a changed record.
    fn from_str(text: &str) -> Result<Self, NotAHash> {
        let digit = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(NotAHash),
        };
        let digits: &[u8; DIGITS] = text.as_bytes().try_into().map_err(|_| NotAHash)?;
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_read_as_it_is_written() {
        let hash = Hash::of(b"abc");
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), text);
        assert_eq!(text.parse(), Ok(hash));
    }

    #[test]
    fn a_hash_has_one_spelling() {
        let text = Hash::of(b"abc").to_string();
        for other in [&text.to_uppercase(), &text[1..], "", &format!("{text}0"), &"ä".repeat(32)] {
            assert_eq!(other.parse::<Hash>(), Err(NotAHash), "{other}");
        }
    }
}
