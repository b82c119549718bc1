//! What can be wrong with a document, and where.

use std::fmt;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nowhere: the built-in default serves.
    Default,
    /// A line of the file itself, counted from 1.
    Line {
        /// The line.
        line: usize,
    },
    /// A line of the file that this one extends.
    Inherited {
        /// Name of the file that is extended.
        from: String,
        /// The line there, counted from 1.
        line: usize,
    },
    /// An environment variable.
    Variable {
        /// Its name.
        name: String,
    },
    /// An option of the command line.
    Option {
        /// As it is written there: `--port`.
        name: String,
    },
}

/// A key, the table that it stands in, and where it was written; made for messages.
// Boxed, because every error holds one and errors travel by value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location(Box<Parts>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    subject: String,
    within: Option<String>,
    origin: Option<Origin>,
}

/// Why a document was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// The text is no TOML.
    #[error("not valid TOML{}: {message}", At(origin))]
    Syntax {
        /// Where.
        origin: Origin,
        /// What the parser says.
        message: String,
    },
    /// A key that the schema does not know.
    #[error("unknown key {location}")]
    UnknownKey {
        /// The key.
        location: Location,
        /// The next step.
        hint: String,
    },
    /// A key that must be there.
    #[error("missing key {location}")]
    MissingKey {
        /// The key, with the place where it is missing.
        location: Location,
        /// The next step.
        hint: Option<String>,
    },
    /// A value of another type than the schema says, or out of its bounds.
    #[error("{location} must be {expected}, not {found}")]
    WrongValue {
        /// The key.
        location: Location,
        /// What was expected, for people.
        expected: String,
        /// What was found, for people.
        found: String,
        /// The next step.
        hint: Option<String>,
    },
    /// A value of the right type that cannot be meant.
    #[error("{location} {reason}")]
    Invalid {
        /// The key.
        location: Location,
        /// What is wrong, to be read after the key.
        reason: String,
        /// The next step.
        hint: Option<String>,
    },
}

impl DocumentError {
    /// The next step for whoever wrote the document.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Syntax { .. } => None,
            Self::UnknownKey { hint, .. } => Some(hint),
            Self::MissingKey { hint, .. }
            | Self::WrongValue { hint, .. }
            | Self::Invalid { hint, .. } => hint.as_deref(),
        }
    }

    /// Where the fault was written, if it was written at all.
    pub fn origin(&self) -> Option<&Origin> {
        match self {
            Self::Syntax { origin, .. } => Some(origin),
            Self::UnknownKey { location, .. }
            | Self::MissingKey { location, .. }
            | Self::WrongValue { location, .. }
            | Self::Invalid { location, .. } => location.0.origin.as_ref(),
        }
    }

    /// The same fault, found in text that came from elsewhere than a file.
    pub(super) fn found_in(mut self, whence: Origin) -> Self {
        match &mut self {
            Self::Syntax { origin, .. } => *origin = whence,
            Self::UnknownKey { location, .. }
            | Self::MissingKey { location, .. }
            | Self::WrongValue { location, .. }
            | Self::Invalid { location, .. } => location.0.origin = Some(whence),
        }
        self
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { subject, within, origin } = self.0.as_ref();
        f.write_str(subject)?;
        if let Some(within) = within {
            write!(f, " in {within}")?;
        }
        origin.as_ref().map_or(Ok(()), |origin| At(origin).fmt(f))
    }
}

/// An origin as the end of a phrase.
struct At<'a>(&'a Origin);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Origin::Default => f.write_str(" (built-in default)"),
            Origin::Line { line } => write!(f, " at line {line}"),
            Origin::Inherited { from, line } => write!(f, " at line {line} of `{from}`"),
            Origin::Variable { name } => write!(f, " (variable `{name}`)"),
            Origin::Option { name } => write!(f, " (option `{name}`)"),
        }
    }
}

/// One step from the top of a document to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    /// Of a list, counted from 0.
    Entry(usize),
}

/// A path in its one canonical spelling: `limits.pids`, `filesystem.read[0].why`,
/// `approval."uv_tool.*"`.
pub(super) fn spelled(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(&quoted_if_needed(key));
            }
            Step::Entry(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

/// A key as it is written in TOML.
pub(super) fn quoted_if_needed(key: &str) -> String {
    let bare = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    if !key.is_empty() && key.chars().all(bare) {
        key.to_owned()
    } else {
        toml::Value::from(key).to_string()
    }
}

impl Location {
    pub(super) fn new(path: &[Step], origin: Origin) -> Self {
        let mut location = Self::without_origin(path);
        location.0.origin = Some(origin);
        location
    }

    /// A key that is written nowhere.
    pub(super) fn without_origin(path: &[Step]) -> Self {
        let (subject, parent) = match path {
            [] => ("the document".to_owned(), path),
            [parent @ .., Step::Key(key)] => (format!("`{}`", super::shown(key)), parent),
            [parent @ .., Step::Key(list), Step::Entry(index)] => {
                (format!("entry {} of `{}`", index + 1, super::shown(list)), parent)
            }
            [parent @ .., Step::Entry(index)] => (format!("entry {}", index + 1), parent),
        };
        let within = match parent {
            [] => None,
            [list @ .., Step::Entry(index)] => {
                Some(format!("entry {} of `{}`", index + 1, super::shown(&spelled(list))))
            }
            table => Some(format!("`[{}]`", super::shown(&spelled(table)))),
        };
        Self(Box::new(Parts { subject, within, origin: None }))
    }
}
