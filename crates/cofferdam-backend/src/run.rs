//! One run, from its start to the moment when nothing of it is left.
//!
//! The one owner of the child. There are four ways to the end: the command ends by itself, the
//! deadline passes, the caller asks, or the sandbox could not be built; each has a name in
//! [`Ending`], and none of them is read from output.

use std::{
    collections::HashSet,
    io::{self, Read},
    os::fd::OwnedFd,
    process::ChildStderr,
    time::{Duration, Instant},
};

use cofferdam_fs::Workspace;
use cofferdam_init::{COMMAND_KILL, COMMAND_TERMINATE, Ended, Failed, Layer, Order, Record, order};
use cofferdam_policy::{BackendKind, Grant, Program};
use tokio::time::{Instant as Moment, sleep_until};

use crate::{
    BackendSettings, EndRequests, Ending, LimitHit, NotStarted, NotStartedKind, Outcome, RunIo,
    Usage,
    bubblewrap::{self, Bubblewrap, Launch, Unusable},
    carve_outs::{Guard, Memories},
    control::Control,
    enforcement, environment, folders,
    identity::Identities,
    layout,
    process::Process,
    spawner::Spawner,
    streams::Streams,
};

/// After SIGKILL to everything inside: how long until bubblewrap itself is killed.
const KILL_PATIENCE: Duration = Duration::from_millis(100);
/// After the last record: how long bubblewrap may take to leave.
const LEAVE_PATIENCE: Duration = Duration::from_millis(500);

const FOLDER_HINT: &str = "correct the profile's `filesystem.write`";

/// What all runs share.
pub(crate) struct Shared<'a> {
    pub(crate) settings: &'a BackendSettings,
    pub(crate) spawner: &'a Spawner,
    pub(crate) identities: &'a Identities,
    pub(crate) init: &'a OwnedFd,
    pub(crate) filters: &'a [Vec<u8>],
    pub(crate) memories: &'a Memories,
}

/// What was learned while a run went on.
#[derive(Debug, Default)]
struct Watched {
    armed: HashSet<Layer>,
    failed: Option<Failed>,
    ended: Option<Ended>,
    ended_by_us: Option<EndedByUs>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndedByUs {
    Deadline,
    Caller,
}

/// Runs a command in bubblewrap.
///
/// # Errors
/// [`Unusable`] when bubblewrap could not build any sandbox here.
pub(crate) async fn in_bubblewrap(
    shared: &Shared<'_>,
    bubblewrap: &Bubblewrap,
    grant: &Grant,
    workspace: &Workspace,
    io: RunIo,
    ends: &EndRequests,
) -> Result<Outcome, Unusable> {
    let started = Instant::now();
    let terminal = io.terminal.as_ref().map(|terminal| {
        let size = *terminal.size.borrow();
        order::Terminal {
            rows: size.rows,
            columns: size.columns,
            stdout: terminal.stdout,
            stderr: terminal.stderr,
        }
    });
    let limits = &grant.profile().limits;
    let folders = match folders::open(grant, workspace) {
        Ok(folders) => folders,
        Err(error) => return Ok(not_built(grant, shared, started, &error, Some(FOLDER_HINT))),
    };
    let (guard, carve) = match Guard::prepare(grant, &folders, shared.memories).await {
        Ok(prepared) => prepared,
        Err(error) => return Ok(not_built(grant, shared, started, &error, error.hint())),
    };
    let prepared = (|| -> io::Result<_> {
        let order = Order {
            carve,
            arguments: arguments(grant),
            environment: environment::build(
                grant,
                &shared.settings.environment,
                terminal.is_some(),
            ),
            working_directory: grant.plan().working_directory.clone().into(),
            working_directory_identity: grant.directory(),
            filters: shared.filters.to_vec(),
            open_files: limits.open_files,
            file_size: limits.file_size_mib * 1024 * 1024,
            terminal,
            outside_namespaces: bubblewrap::outside_namespaces()?,
            ..Order::default()
        };
        let (streams, inner) = Streams::connect(grant, io, started)?;
        let (control, inner_control) = Control::pair()?;
        Ok((order, streams, inner, control, inner_control))
    })();
    let (order, mut streams, inner, control, inner_control) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return Ok(not_built(grant, shared, started, &error, None)),
    };
    let launch = Launch {
        grant,
        folders: &folders,
        identities: shared.identities,
        init: shared.init,
        order,
        streams: inner,
        control: inner_control,
    };
    let launched = bubblewrap.launch(shared.spawner, launch).await;
    let launched = launched.and_then(|mut child| {
        let diagnostics = child.stderr.take();
        Ok((Process::new(child)?, diagnostics))
    });
    let (mut process, diagnostics) = match launched {
        Ok(launched) => launched,
        Err(error) => {
            streams.finish().await;
            return Ok(not_built(grant, shared, started, &error, None));
        }
    };

    let deadline = grant.timeout().map(|timeout| Moment::from_std(started + timeout));
    let watched = watch(&control, &mut process, &mut streams, limits.grace, deadline, ends).await;
    process.end_within(LEAVE_PATIENCE).await;
    let [stdout, stderr] = streams.finish().await;
    let mut report = enforcement::report(grant.profile(), &watched.armed, shared.root_outside());
    let quarantined = guard.settle().await.unwrap_or_else(|error| {
        tracing::error!(%error, "looking for what a run left behind failed");
        enforcement::carve_outs_not_settled(&mut report);
        Vec::new()
    });
    if quarantined.iter().any(|one| one.kept_as.is_none()) {
        enforcement::carve_outs_not_settled(&mut report);
    }

    if watched.armed.is_empty() && watched.failed.is_none() && watched.ended_by_us.is_none() {
        return Err(bubblewrap::explain(&printed(diagnostics)));
    }
    let mut limits_hit = Vec::new();
    if stdout.dropped_bytes > 0 || stderr.dropped_bytes > 0 {
        limits_hit.push(LimitHit { limit: "output", value: limits.output_kib });
    }
    if stdout.spill_capped || stderr.spill_capped {
        limits_hit.push(LimitHit { limit: "output_file", value: limits.output_file_mib });
    }
    Ok(Outcome {
        backend: BackendKind::Bubblewrap,
        ending: watched.ending(grant),
        report,
        usage: watched.ended.map(Usage::from).unwrap_or_default(),
        stdout,
        stderr,
        duration: started.elapsed(),
        limits_hit,
        quarantined,
    })
}

impl Shared<'_> {
    /// Whether commands are root in the eyes of the machine.
    pub(crate) fn root_outside(&self) -> bool {
        match self.identities {
            Identities::Ordinary { user, .. } => *user == 0,
            Identities::Root(_) => false,
        }
    }
}

impl From<Ended> for Usage {
    fn from(ended: Ended) -> Self {
        Self {
            cpu: Duration::from_micros(ended.cpu_micros),
            peak_memory_bytes: ended.peak_kib * 1024,
        }
    }
}

impl Watched {
    fn ending(&self, grant: &Grant) -> Ending {
        match self.ended_by_us {
            Some(EndedByUs::Deadline) => {
                return Ending::TimedOut { after: grant.timeout().unwrap_or_default() };
            }
            Some(EndedByUs::Caller) => return Ending::Cancelled,
            None => {}
        }
        if let Some(failed) = &self.failed {
            return Ending::NotStarted(not_started(failed));
        }
        match self.ended {
            Some(Ended { wait_status, .. }) if libc::WIFSIGNALED(wait_status) => {
                Ending::Signaled(libc::WTERMSIG(wait_status))
            }
            Some(Ended { wait_status, .. }) => Ending::Exited(libc::WEXITSTATUS(wait_status)),
            // Process 1 went away without a word: something outside killed it.
            None => Ending::Signaled(libc::SIGKILL),
        }
    }
}

/// Follows a run until the first program inside is gone.
async fn watch(
    control: &Control,
    process: &mut Process,
    streams: &mut Streams,
    grace: Duration,
    deadline: Option<Moment>,
    ends: &EndRequests,
) -> Watched {
    let mut watched = Watched::default();
    let never = Moment::now() + Duration::from_secs(86_400 * 365);
    let deadline = deadline.unwrap_or(never);
    // When to send SIGKILL to everything inside, and when to kill bubblewrap itself.
    let (mut kill_at, mut force_at) = (None, None);
    loop {
        let ending = watched.ended_by_us.is_some();
        tokio::select! {
            biased;
            received = control.receive() => {
                let Some(received) = received else { return watched };
                match received.record {
                    Record::Armed(layer) => {
                        watched.armed.insert(layer);
                    }
                    Record::Failed(failed) => watched.failed = Some(failed),
                    Record::Ended(ended) => watched.ended = Some(ended),
                    Record::Terminal => {
                        let attached =
                            received.descriptor.map(|master| streams.attach_terminal(master));
                        if let Some(Err(error)) = attached {
                            tracing::warn!(%error, "connecting the terminal failed");
                            control.command(COMMAND_KILL);
                        }
                    }
                }
            }
            () = ends.kill.cancelled(), if force_at.is_none() => {
                watched.ended_by_us.get_or_insert(EndedByUs::Caller);
                control.command(COMMAND_KILL);
                force_at = Some(Moment::now() + KILL_PATIENCE);
            }
            () = ends.stop.cancelled(), if !ending => {
                watched.ended_by_us = Some(EndedByUs::Caller);
                control.command(COMMAND_TERMINATE);
                kill_at = Some(Moment::now() + grace);
            }
            () = sleep_until(deadline), if !ending => {
                watched.ended_by_us = Some(EndedByUs::Deadline);
                control.command(COMMAND_TERMINATE);
                kill_at = Some(Moment::now() + grace);
            }
            () = sleep_until(kill_at.unwrap_or(never)), if kill_at.is_some() && force_at.is_none() => {
                control.command(COMMAND_KILL);
                force_at = Some(Moment::now() + KILL_PATIENCE);
            }
            () = sleep_until(force_at.unwrap_or(never)), if force_at.is_some() => {
                process.kill();
                return watched;
            }
        }
        if watched.ended.is_some() {
            return watched;
        }
    }
}

fn arguments(grant: &Grant) -> Vec<std::ffi::OsString> {
    match &grant.plan().program {
        Program::Command(arguments) => arguments.clone(),
        Program::Script { interpreter, file_name, .. } => {
            let mut arguments = interpreter.clone();
            arguments.push(layout::script_path(file_name));
            arguments
        }
    }
}

fn not_started(failed: &Failed) -> NotStarted {
    let cause = match failed.errno {
        0 => String::new(),
        errno => format!(": {}", io::Error::from_raw_os_error(errno)),
    };
    let (kind, message, hint) = match (failed.step.strip_prefix("start "), failed.errno) {
        (Some(program), libc::ENOENT | libc::ENOTDIR) => (
            NotStartedKind::NotFound,
            format!("{program} was not found in the sandbox"),
            Some(
                "the sandbox sees only what the profile's `filesystem.read` grants; a script's \
                 interpreter line must name a program that is there too"
                    .to_owned(),
            ),
        ),
        (Some(program), _) => {
            (NotStartedKind::NotExecutable, format!("{program} cannot be executed{cause}"), None)
        }
        (None, _) => (
            NotStartedKind::Sandbox,
            format!("the sandbox could not be finished: failed to {}{cause}", failed.step),
            None,
        ),
    };
    NotStarted { kind, message, hint }
}

/// The outcome when something of ours failed before anything was started.
fn not_built(
    grant: &Grant,
    shared: &Shared<'_>,
    started: Instant,
    error: &dyn std::error::Error,
    hint: Option<&str>,
) -> Outcome {
    let mut message = format!("the sandbox could not be prepared: {error}");
    if let Some(source) = error.source() {
        message.push_str(&format!(": {source}"));
    }
    Outcome {
        backend: BackendKind::Bubblewrap,
        ending: Ending::NotStarted(NotStarted {
            kind: NotStartedKind::Sandbox,
            message,
            hint: hint.map(str::to_owned),
        }),
        stdout: Default::default(),
        stderr: Default::default(),
        report: enforcement::report(grant.profile(), &HashSet::new(), shared.root_outside()),
        usage: Usage::default(),
        duration: started.elapsed(),
        limits_hit: Vec::new(),
        quarantined: Vec::new(),
    }
}

/// What bubblewrap itself printed; it has ended, so reading cannot wait for long.
fn printed(diagnostics: Option<ChildStderr>) -> String {
    let mut printed = Vec::new();
    if let Some(diagnostics) = diagnostics {
        let _ = diagnostics.take(4096).read_to_end(&mut printed);
    }
    String::from_utf8_lossy(&printed).into_owned()
}
