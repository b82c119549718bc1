//! What became of one run.
//!
//! Facts only, from the kernel and from our own counters; how they are shown to an agent is decided
//! elsewhere.

use std::{path::PathBuf, time::Duration};

use cofferdam_fs::Spill;
use cofferdam_policy::{BackendKind, Enforcement};

/// The end of one run and all that is known of it.
#[derive(Debug)]
pub struct Outcome {
    /// Where it ran.
    pub backend: BackendKind,
    /// How it ended.
    pub ending: Ending,
    /// What it wrote to standard output. Empty when the stream was a terminal.
    pub stdout: Captured,
    /// What it wrote to standard error. Empty when the stream was a terminal.
    pub stderr: Captured,
    /// How strongly it was held.
    pub report: EnforcementReport,
    /// What it used.
    pub usage: Usage,
    /// From the decision to launch until everything of it was gone.
    pub duration: Duration,
    /// Every limit that was reached on the way.
    pub limits_hit: Vec<LimitHit>,
    /// What the run made against `protect` and `deny`, moved out of place.
    pub quarantined: Vec<Quarantined>,
}

/// How a run ended. Always from the kernel or from our own clock, never from output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The main process exited by itself with this status, 0 to 255.
    Exited(i32),
    /// The main process was killed by this signal, which we did not send.
    Signaled(i32),
    /// The deadline passed and we ended it.
    TimedOut {
        /// The deadline.
        after: Duration,
    },
    /// The caller asked for the end.
    Cancelled,
    /// The command itself was never started.
    NotStarted(NotStarted),
}

/// Why a command was never started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotStarted {
    /// For machines and exit codes.
    pub kind: NotStartedKind,
    /// One line for people.
    pub message: String,
    /// The next step, if there is one to name.
    pub hint: Option<String>,
}

/// The kinds of not having been started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStartedKind {
    /// There is no such program inside the sandbox.
    NotFound,
    /// The file is there but cannot be executed.
    NotExecutable,
    /// The sandbox could not be built.
    Sandbox,
}

/// What was kept of one stream.
#[derive(Debug, Default)]
pub struct Captured {
    /// The beginning; everything, when nothing was dropped.
    pub head: Vec<u8>,
    /// The end, when something between was dropped.
    pub tail: Vec<u8>,
    /// How many bytes the run wrote.
    pub total_bytes: u64,
    /// How many of them are neither in `head` nor in `tail`.
    pub dropped_bytes: u64,
    /// The whole stream up to the profile's cap, when `dropped_bytes` is not 0.
    pub spill: Option<Spill>,
    /// Whether the stream was longer than the spill's cap too.
    pub spill_capped: bool,
    /// The end of the last non-blank line, at most 4,096 bytes.
    pub last_line: Vec<u8>,
}

/// How strongly a run was held, from what was armed and proven in that very run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnforcementReport {
    /// The strength per dimension.
    pub enforcement: Enforcement,
    /// What the profile asks for and nobody armed, for example `limits.memory_mib`.
    pub not_armed: Vec<String>,
}

/// What a run used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time of the whole tree.
    pub cpu: Duration,
    /// Largest resident set of a single process of the tree, in bytes.
    pub peak_memory_bytes: u64,
}

/// One limit that was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitHit {
    /// Its name: `output`, `output_file`, ...
    pub limit: &'static str,
    /// Its value, in the unit of the profile's key.
    pub value: u64,
}

/// An entry that a run made although a rule forbids it, and that no mount could foresee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Where it was, relative to the workspace.
    pub path: PathBuf,
    /// The glob that it matches.
    pub rule: String,
    /// Where it is kept, relative to the workspace; `None` when it could not be moved.
    pub kept_as: Option<PathBuf>,
}
