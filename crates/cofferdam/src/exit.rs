//! Exit codes: every number this program can end with, and what it means.
//!
//! `--help` shows the same table. A code never changes its meaning.

use rustix::process::Signal;

/// How this program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// What was asked for was done.
    Success,
    /// A tool or a command failed; what and why was printed.
    Failed,
    /// The command line, or JSON given on it, cannot be understood.
    Usage,
    /// `serve`, `stdio`: the worker died more often than `worker_restart_limit` allows.
    WorkerLost,
    /// `serve`, `stdio`: the gateway died.
    GatewayLost,
    /// `run`: the command's own exit status.
    Child(u8),
    /// `run`: the deadline passed.
    TimedOut,
    /// `run`: Cofferdam itself failed or refused, so the command did not run to its end.
    Refused,
    /// `run`: the command was found but cannot be executed.
    NotExecutable,
    /// `run`: there is no such command inside the sandbox.
    NotFound,
    /// The command, or this program, was ended by a signal.
    Signal(i32),
}

impl Exit {
    /// The number: 124 to 127 as env(1) and timeout(1) use them, 128+N as shells do.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::WorkerLost => 3,
            Self::GatewayLost => 4,
            Self::Child(status) => status,
            Self::TimedOut => 124,
            Self::Refused => 125,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
            Self::Signal(number) => 128_u8.wrapping_add(number.rem_euclid(128) as u8),
        }
    }

    /// The reader of our output went away: ends as if SIGPIPE had not been ignored.
    pub(crate) const BROKEN_PIPE: Self = Self::Signal(Signal::PIPE.as_raw());
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_128_and_its_number() {
        assert_eq!(Exit::Signal(2).code(), 130);
        assert_eq!(Exit::BROKEN_PIPE.code(), 141);
    }

    #[test]
    fn a_childs_own_code_passes_through() {
        assert_eq!(Exit::Child(255).code(), 255);
    }
}
