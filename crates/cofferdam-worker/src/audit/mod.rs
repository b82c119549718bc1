//! The audit log: what was called, by whom, under which rules, and what came of it.
//!
//! One record when a call arrives, before anything is planned, and one when it has been answered, so a
//! crash leaves a beginning without an end. Records are lines of an append-only file, chained by
//! hashes. They say that and how something ran, never what: no arguments, no output, no secrets. What
//! each key means and what the chain can and cannot show stands in `docs/audit.md`.
//!
//! [`Record`], [`Verifier`] and [`struct@Hash`] are pure. Not here: deciding anything about a call, except
//! that it must not run when it cannot be recorded.

mod chain;
mod facts;
mod files;
mod hash;
mod read;
mod record;
mod settings;
mod store;
#[cfg(test)]
mod tests;
mod writer;

pub use chain::{Fault, FaultKind, LinePlace, Summary, Unfinished, Verifier};
pub use files::{FilesError, LogPart, open_all};
pub use hash::{Hash, NotAHash};
pub use read::{Follower, Lines, RawLine, verify};
pub use record::{MOST_LINE_BYTES, Record, Via};
pub use settings::{AuditSettings, OnError};
pub use store::StoreError;
pub use writer::AuditError;

pub(crate) use facts::Facts;
pub(crate) use writer::{Audit, RecordedCall};
