//! What a run is connected to.

use std::{os::fd::OwnedFd, time::Duration};

use cofferdam_fs::Workspace;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The connections of one run.
#[derive(Debug, Default)]
pub struct RunIo {
    /// What it reads.
    pub input: Input,
    /// Where its standard output goes live, copied by us; `None` captures it for the reply.
    pub stdout: Option<OwnedFd>,
    /// Where its standard error goes live; `None` captures it for the reply.
    pub stderr: Option<OwnedFd>,
    /// A terminal of the sandbox's own instead of the plain streams.
    pub terminal: Option<Terminal>,
    /// Where over-long streams are spilled; `None` drops what does not fit.
    pub spill: Option<Workspace>,
    /// Told how far the run is, at most every quarter of a second.
    pub progress: Option<watch::Sender<RunProgress>>,
}

/// What a run reads from standard input.
#[derive(Debug, Default)]
pub enum Input {
    /// Nothing: end of file at once.
    #[default]
    Empty,
    /// These bytes, then end of file.
    Bytes(Vec<u8>),
    /// Whatever comes from there, copied by us: the descriptor itself is never passed in, because
    /// the run could reopen it by `/proc/self/fd` with other rights.
    Forward(OwnedFd),
}

/// A pseudo-terminal inside the sandbox, connected to a terminal outside.
#[derive(Debug)]
pub struct Terminal {
    /// The outer terminal's input, already in raw mode.
    pub input: OwnedFd,
    /// The outer terminal's output.
    pub output: OwnedFd,
    /// Standard output is the terminal too; else it is a plain stream.
    pub stdout: bool,
    /// Standard error is the terminal too; else it is a plain stream.
    pub stderr: bool,
    /// The window's size, followed while the run goes on.
    pub size: watch::Receiver<WindowSize>,
}

/// Size of a terminal window in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSize {
    /// Lines.
    pub rows: u16,
    /// Characters a line.
    pub columns: u16,
}

/// How far a run is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunProgress {
    /// Since the start.
    pub elapsed: Duration,
    /// Bytes written to both streams.
    pub output_bytes: u64,
    /// The last non-blank line, at most 4,096 bytes, as the run wrote it: hostile bytes.
    pub last_line: Vec<u8>,
}

/// How a run is asked to end before its time.
#[derive(Clone, Debug, Default)]
pub struct EndRequests {
    /// SIGTERM to everything, the profile's grace, then SIGKILL.
    pub stop: CancellationToken,
    /// SIGKILL to everything.
    pub kill: CancellationToken,
}
