//! What can be wrong with a profile, or with asking for one.

use std::fmt;

use crate::{
    carve_outs::GlobError,
    document::{DocumentError, shown},
};

/// Why a profile could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The profile exists and cannot be used.
    #[error("failed to load profile `{}`", shown(name))]
    Load {
        /// Name of the profile.
        name: String,
        /// What is wrong with it.
        #[source]
        source: Box<ProfileProblem>,
    },
    /// There is no such profile.
    #[error("there is no profile `{}`", shown(name))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
}

/// What is wrong with a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileProblem {
    /// A key or value of the file.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// A glob that is protected in every profile, whatever the file says, cannot be used.
    #[error("what is protected in every profile cannot be used")]
    AddedGlob(#[source] GlobError),
    /// The file's name cannot be the name of a profile.
    #[error("`{}` cannot be the name of a profile", shown(.0))]
    Name(String),
    /// Two files of that name.
    #[error("two files define it: `{first}` and `{second}`")]
    Twice {
        /// The one.
        first: String,
        /// The other.
        second: String,
    },
    /// The profile that it extends does not exist.
    #[error("it extends `{}`, which does not exist", shown(parent))]
    NoParent {
        /// Name of that profile.
        parent: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// The profile that it extends cannot be read.
    #[error("it extends `{}`, which cannot be read", shown(parent))]
    BrokenParent {
        /// Name of that profile.
        parent: String,
    },
    /// It extends itself.
    #[error("it extends itself")]
    Itself,
    /// The profile that it extends extends another one.
    #[error("it extends `{}`, which extends `{}` itself", shown(parent), shown(grandparent))]
    TwoLevels {
        /// Name of the profile that it extends.
        parent: String,
        /// Name of the profile that that one extends.
        grandparent: String,
    },
}

impl ProfileError {
    /// Whether the profile that it extends is what has to be put right.
    pub(super) fn is_of_the_parent(&self) -> bool {
        let problem = match self {
            Self::Load { source, .. } => source,
            Self::Unknown { .. } => return false,
        };
        matches!(**problem, ProfileProblem::BrokenParent { .. })
    }

    /// The next step for whoever wrote, or asked for, the profile.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Load { source, .. } => source.hint(),
            Self::Unknown { name, known } => Some(near_or_all(name, known)),
        }
    }
}

impl ProfileProblem {
    /// The problem as that of the profile `name`.
    pub(super) fn of(self, name: &str) -> ProfileError {
        ProfileError::Load { name: name.to_owned(), source: Box::new(self) }
    }

    /// The next step for whoever wrote the profile.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Document(error) => error.hint().map(str::to_owned),
            Self::AddedGlob(_) => None,
            Self::Name(_) => Some(
                "use lower-case letters, digits, `-` and `_`, at most 64, a letter or digit first"
                    .to_owned(),
            ),
            Self::Itself => Some("remove `extends`, or name another profile".to_owned()),
            Self::Twice { .. } => Some("rename or remove one of them".to_owned()),
            Self::BrokenParent { parent } => Some(format!("put `{}` right first", shown(parent))),
            Self::NoParent { known, .. } if known.is_empty() => None,
            Self::NoParent { parent, known } => Some(near_or_all(parent, known)),
            Self::TwoLevels { grandparent, .. } => {
                Some(format!("one level only: extend `{}` directly", shown(grandparent)))
            }
        }
    }
}

fn near_or_all(name: &str, known: &[String]) -> String {
    match crate::document::nearest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`? The profiles are {}", Listed(known)),
        None => format!("the profiles are {}", Listed(known)),
    }
}

struct Listed<'a>(&'a [String]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "`{name}`")?;
        }
        Ok(())
    }
}
