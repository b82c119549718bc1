//! Where calls are recorded, and what becomes of those that cannot be.

use std::path::PathBuf;

use super::record::Via;

/// How calls are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditSettings {
    /// The file; rotated ones are beside it, with `.1` for the newest. Absolute.
    pub path: PathBuf,
    /// What becomes of a call that cannot be recorded.
    pub on_error: OnError,
    /// Size from which on a new file is begun, in bytes.
    pub rotate_bytes: u64,
    /// How many rotated files are kept. 0 counts as 1.
    pub keep: u32,
    /// How the calls come in.
    pub via: Via,
}

/// What becomes of a call that cannot be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// It does not run.
    Refuse,
    /// It runs, and the log says that it was not recorded.
    Warn,
}
