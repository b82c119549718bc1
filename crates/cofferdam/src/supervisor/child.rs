//! One child process: this program again, with another subcommand.

use std::{
    env,
    ffi::OsString,
    io,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{ChildStdout, Command};

use super::{
    SupervisorError,
    link::{Supervised, WORKER_TOKEN},
};

/// A running child. Killed when dropped.
#[derive(Debug)]
pub(super) struct Child {
    name: &'static str,
    pid: u32,
    process: tokio::process::Child,
}

/// How a child is started.
#[derive(Debug)]
pub(super) struct ChildPlan<'a> {
    /// The subcommand, which is also what it is called in messages.
    pub(super) name: &'static str,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: Environment,
    pub(super) streams: Streams,
    /// The secret of the worker's endpoint.
    pub(super) token: Option<&'a str>,
}

/// What a child sees of this process's environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Environment {
    /// All of it.
    Inherited,
    /// Only what logging needs: a process that strangers talk to need not hold secrets.
    ForLogging,
}

/// A child's standard input and output. Standard error is always this process's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Streams {
    /// Nothing.
    Null,
    /// This process's own: MCP over stdio.
    Inherited,
    /// No input, and output that this process reads.
    Report,
}

impl Child {
    pub(super) fn start(plan: ChildPlan<'_>) -> Result<Self, SupervisorError> {
        let name = plan.name;
        let failed = |source| SupervisorError::Spawn { name, source };
        let mut process = command(plan).spawn().map_err(failed)?;
        let pid = process.id().ok_or_else(|| failed(io::Error::other("it has ended already")))?;
        tracing::debug!(name, pid, "started");
        // Nothing is ever written to it.
        drop(process.stdin.take());
        Ok(Self { name, pid, process })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Its standard output, once, when it was started with [`Streams::Report`].
    pub(super) fn take_report(&mut self) -> Option<ChildStdout> {
        self.process.stdout.take()
    }

    /// Waits for its end. Safe to drop and call again.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// What its end at the start means.
    pub(super) fn failed_to_start(&self, status: io::Result<ExitStatus>) -> SupervisorError {
        match status {
            Err(source) => SupervisorError::Spawn { name: self.name, source },
            Ok(status) if told_why(status) => SupervisorError::RefusedToStart { name: self.name },
            Ok(status) => SupervisorError::EndedAtStart { name: self.name, status },
        }
    }

    /// Sends it a signal, if it still runs.
    pub(super) fn signal(&self, signal: Signal) {
        // None once it has been waited for: then the number may belong to somebody else.
        if let Some(pid) = self.process.id().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
            // It may just have ended.
            let _ = kill_process(pid, signal);
        }
    }

    /// SIGTERM, then after `grace` SIGKILL; returns when it is gone.
    pub(super) async fn end(&mut self, grace: Duration) {
        self.signal(Signal::TERM);
        if tokio::time::timeout(grace, self.process.wait()).await.is_err() {
            tracing::warn!(name = self.name, pid = self.pid, "did not end in time, killed");
            // Fails only when it is gone.
            let _ = self.process.kill().await;
        }
    }
}

/// Whether a process that ended like this has printed an error: those codes have no other source.
pub(super) fn told_why(status: ExitStatus) -> bool {
    matches!(status.code(), Some(1 | 2))
}

#[allow(clippy::disallowed_methods, reason = "the supervisor starts our own processes")]
fn command(plan: ChildPlan<'_>) -> Command {
    // Not the file's path, which an update may have replaced by another version meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("cofferdam").arg(plan.name).args(&plan.arguments).kill_on_drop(true);
    if plan.environment == Environment::ForLogging {
        command.env_clear();
        for name in ["RUST_LOG", "RUST_BACKTRACE", "NO_COLOR", "TZ"] {
            if let Some(value) = env::var_os(name) {
                command.env(name, value);
            }
        }
    }
    let (supervisor, pid) = Supervised::mark();
    command.env(supervisor, pid).env_remove(WORKER_TOKEN);
    if let Some(token) = plan.token {
        command.env(WORKER_TOKEN, token);
    }
    match plan.streams {
        Streams::Null => command.stdin(Stdio::null()).stdout(Stdio::null()),
        Streams::Inherited => command.stdin(Stdio::inherit()).stdout(Stdio::inherit()),
        Streams::Report => command.stdin(Stdio::null()).stdout(Stdio::piped()),
    };
    // Ctrl-C at a terminal is for the supervisor, which ends the others in order. Whoever reads a
    // terminal must stay in its foreground group, though.
    if plan.streams != Streams::Inherited {
        command.process_group(0);
    }
    command
}
