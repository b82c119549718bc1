//! File work beneath a held directory descriptor.
//!
//! A path is no authority; a [`Workspace`] is. Everything an agent names is resolved by one open
//! beneath the directory that the workspace holds, and whatever is decided is decided on the
//! descriptor that is then used, so there is no moment between check and use.
//!
//! Not here: which paths a call may touch (the policy crate), and paths that an admin configured
//! (the program reads those itself).

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod beneath;
mod placement;
mod quarantine;
mod shown;
mod spill;
mod walk;
mod workspace;

pub use beneath::PathError;
pub use placement::Forbidden;
pub use quarantine::Fingerprint;
pub use spill::Spill;
pub use walk::{Descend, EntryKind, WalkEntry, WalkLimits, WalkMemory, Walked};
pub use workspace::{Workspace, WorkspaceError};
