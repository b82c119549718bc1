//! How strongly a run is, or must be, held: five dimensions, three strengths.
//!
//! The same words are used for what a profile requires, what a backend promises and what a run
//! reports, so that they can be compared. What each strength means per dimension is fixed in
//! `SECURITY.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How strongly one dimension is held. Ordered: `None < Partial < Full`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    /// Not held.
    None,
    /// Held with named gaps.
    Partial,
    /// Held.
    Full,
}

/// One thing that can be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Which files exist for the run.
    Files,
    /// What the run can reach.
    Network,
    /// What the run can see of processes, and whether its tree ends with it.
    Processes,
    /// What the kernel lets the run do.
    Privileges,
    /// How much the run may use.
    Limits,
}

impl Dimension {
    /// All dimensions, in the order in which they are reported.
    pub const ALL: [Self; 5] =
        [Self::Files, Self::Network, Self::Processes, Self::Privileges, Self::Limits];

    /// The name used in profiles and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Network => "network",
            Self::Processes => "processes",
            Self::Privileges => "privileges",
            Self::Limits => "limits",
        }
    }
}

impl Strength {
    /// The name used in profiles and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Partial => "partial",
            Self::Full => "full",
        }
    }
}

/// A strength for every dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforcement {
    /// See [`Dimension::Files`].
    pub files: Strength,
    /// See [`Dimension::Network`].
    pub network: Strength,
    /// See [`Dimension::Processes`].
    pub processes: Strength,
    /// See [`Dimension::Privileges`].
    pub privileges: Strength,
    /// See [`Dimension::Limits`].
    pub limits: Strength,
}

impl Enforcement {
    /// The same strength everywhere.
    pub const fn uniform(strength: Strength) -> Self {
        Self {
            files: strength,
            network: strength,
            processes: strength,
            privileges: strength,
            limits: strength,
        }
    }

    /// The strength of one dimension.
    pub fn get(&self, dimension: Dimension) -> Strength {
        match dimension {
            Dimension::Files => self.files,
            Dimension::Network => self.network,
            Dimension::Processes => self.processes,
            Dimension::Privileges => self.privileges,
            Dimension::Limits => self.limits,
        }
    }

    /// The first dimension in which `self` is weaker than `required`, if there is one.
    pub fn weaker_than(&self, required: &Self) -> Option<Dimension> {
        Dimension::ALL.into_iter().find(|dimension| self.get(*dimension) < required.get(*dimension))
    }
}
