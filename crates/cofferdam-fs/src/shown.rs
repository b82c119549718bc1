//! Paths in messages: an agent or a run chose the bytes, so they are bounded and escaped.

use std::{fmt, path::Path};

/// The most characters of a path that a message shows.
const MOST_CHARACTERS: usize = 400;

/// Shows a path on one line: lossy UTF-8, control characters escaped, at most 400 characters.
pub(crate) struct Shown<'a>(pub(crate) &'a Path);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string_lossy();
        for character in text.chars().take(MOST_CHARACTERS) {
            if is_deceptive(character) {
                write!(f, "{}", character.escape_default())?;
            } else {
                write!(f, "{character}")?;
            }
        }
        if text.chars().nth(MOST_CHARACTERS).is_some() {
            f.write_str("…")?;
        }
        Ok(())
    }
}

/// Whether a character would change the lines or the order of what is shown around it.
fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newline_in_a_path_does_not_make_a_second_line() {
        assert_eq!(Shown(Path::new("a\nb")).to_string(), "a\\nb");
    }

    #[test]
    fn a_right_to_left_override_is_escaped() {
        assert_eq!(Shown(Path::new("a\u{202e}b")).to_string(), "a\\u{202e}b");
    }

    #[test]
    fn a_long_path_is_cut() {
        let path = "x".repeat(500);
        assert_eq!(Shown(Path::new(&path)).to_string().chars().count(), MOST_CHARACTERS + 1);
    }
}
