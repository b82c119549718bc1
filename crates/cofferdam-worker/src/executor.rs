//! The pipeline: plan, authorize, execute, normalize, in this order and nowhere else.
//!
//! [`Executor::call`] cannot fail: whatever goes wrong is a reply with a code.

use std::{
    convert::Infallible,
    ffi::OsString,
    path::PathBuf,
    process,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cofferdam_backend::{
    BackendSettings, Backends, EndRequests, Ending, Input, NotStartedKind, Outcome, RunIo,
    RunProgress,
};
use cofferdam_fs::Workspace;
use cofferdam_policy::{CommandPlan, Grant, Profile, Program, authorize};
use cofferdam_protocol::{
    ErrorCode, Failure, Health, Progress, ToolCall, ToolReply, ToolRequest, tool::catalogue,
};
use serde_json::Value;
use tokio::{
    sync::{mpsc, watch},
    task::{JoinError, spawn_blocking},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    failure,
    normalize::{Finished, Notes, normalize},
    progress,
    queue::{NotAdmitted, Permit, Queue, QueueLimits, Weight},
    runtime::{Runtimes, Support},
    sessions::{LastRun, Sessions},
    settings::WorkerSettings,
    tools::{self, Repair, RunPlan, attribute, bash, python, quotes},
};

/// When a caller that was refused for want of room may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The longest name of a session, in bytes.
const SESSION_BYTES: usize = 256;

/// Carries out calls. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Executor {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: WorkerSettings,
    workspace: Mutex<Workspace>,
    backends: Backends,
    runtimes: Runtimes,
    queue: Queue,
    sessions: Sessions,
    tools: Vec<&'static str>,
}

/// One command of a person at the command line.
#[derive(Clone, Debug, Default)]
pub struct CommandRequest {
    /// The program and its arguments; the program is looked for inside the sandbox.
    pub argv: Vec<OsString>,
    /// Profile; `None` for the session's.
    pub profile: Option<String>,
    /// Backend, as written; `None` for the session's.
    pub backend: Option<String>,
    /// Deadline; `None` for the profile's.
    pub timeout: Option<Duration>,
    /// Without `timeout`, no deadline at all.
    pub without_deadline: bool,
    /// Directory to start in, absolute or relative to the workspace; `None` for the workspace.
    pub working_directory: Option<PathBuf>,
}

/// A finished command, as an agent would be shown it.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalized {
    /// How it ended.
    pub ending: Ending,
    /// The object.
    pub value: Value,
}

impl Executor {
    /// Opens the workspace and makes the backends ready. Starts nothing.
    ///
    /// # Errors
    /// `workspace_invalid`, or `profile_unknown` when the default or the session's profile does not
    /// exist; each with a hint.
    pub fn new(settings: WorkerSettings) -> Result<Self, Failure> {
        let workspace = Workspace::open(&settings.workspace, &settings.homes)
            .map_err(|error| failure::of_workspace(&error))?;
        let named = [Some(&settings.default_profile), settings.session_profile.as_ref()];
        for name in named.into_iter().flatten() {
            settings.profiles.get(name).map_err(|error| failure::of_profile(&error))?;
        }
        let backends = Backends::new(BackendSettings { environment: settings.environment.clone() })
            .map_err(|error| failure::of_backends(&error))?;
        let runtimes = Runtimes::new(
            &settings.environment,
            &settings.homes,
            workspace.path(),
            &settings.profiles,
        );
        let queue = Queue::new(QueueLimits {
            serial: settings.serial,
            max_running: settings.max_running,
            max_queued: settings.max_queued,
        });
        let tools = catalogue().into_iter().map(|tool| tool.name).collect();
        let shared = Shared {
            settings,
            workspace: Mutex::new(workspace),
            backends,
            runtimes,
            queue,
            sessions: Sessions::default(),
            tools,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Finds the interpreters of the default profile, so that the first call does not wait for it.
    ///
    /// # Errors
    /// What the first call would be told: a missing runtime is known before anybody needs it.
    pub async fn prepare(&self) -> Result<(), Failure> {
        let workspace = self.shared.workspace()?;
        let profile = self.shared.profile(None)?;
        self.shared.runtimes.bash(profile, &workspace)?;
        self.shared.runtimes.python(profile, &workspace).await?;
        Ok(())
    }

    /// Carries out one call. Its place in the session's order is taken at once, not when the future
    /// is first polled.
    ///
    /// `progress` is told how far the call is, about every second while it writes and every five
    /// seconds while it is silent or waits; what it does not take in time is left out. When `cancel`
    /// fires, the run is killed and the reply tells what there was; so it is when the future is
    /// dropped, without a reply.
    pub fn call(
        &self,
        request: ToolRequest,
        progress: Option<mpsc::Sender<Progress>>,
        cancel: CancellationToken,
    ) -> impl Future<Output = ToolReply> + Send + use<> {
        let cancel = cancel.child_token();
        let since = Instant::now();
        let admission = admission(&self.shared, &request, &cancel);
        let shared = self.shared.clone();
        async move {
            let _cancelled_when_dropped = cancel.clone().drop_guard();
            // A task of its own, so that a fault of ours costs this call and nothing else, and so
            // that a run whose caller went away is still ended in order.
            let carried = tokio::spawn(async move {
                let permit = admission?.await.map_err(not_admitted)?;
                shared.carry_out(request, progress, since, cancel, permit).await
            });
            match carried.await {
                Ok(Ok(value)) => ToolReply::Done { value },
                Ok(Err(failure)) => failure.into(),
                Err(error) => crashed(error).into(),
            }
        }
    }

    /// Runs one command to its end, by the same stages as a call.
    ///
    /// # Errors
    /// What stopped it before anything was started. A command that could not be started is an
    /// [`Ending::NotStarted`].
    pub async fn run_command(
        &self,
        request: CommandRequest,
        io: RunIo,
        ends: EndRequests,
    ) -> Result<Outcome, Failure> {
        let workspace = self.shared.workspace()?;
        self.shared.run_command(request, &workspace, io, ends).await.map(|(_, outcome)| outcome)
    }

    /// The same, with the outcome as an agent would be shown it. Both streams are kept
    /// for it, whatever `io` says.
    ///
    /// # Errors
    /// As [`run_command`](Self::run_command).
    pub async fn run_command_normalized(
        &self,
        request: CommandRequest,
        io: RunIo,
        ends: EndRequests,
    ) -> Result<Normalized, Failure> {
        let workspace = self.shared.workspace()?;
        let spill = Some(workspace.clone());
        let io = RunIo { stdout: None, stderr: None, terminal: None, spill, ..io };
        let (grant, outcome) = self.shared.run_command(request, &workspace, io, ends).await?;
        let ending = outcome.ending.clone();
        let value = finish(grant, outcome, workspace, Notes::default()).await?;
        Ok(Normalized { ending, value })
    }

    /// Canonical names of the tools that may be used, in catalogue order.
    pub fn tool_names(&self) -> Vec<String> {
        self.shared.tools.iter().map(|name| (*name).to_owned()).collect()
    }

    /// How busy this executor is.
    pub fn health(&self) -> Health {
        let (running, queued) = self.shared.queue.load();
        let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Health { pid: process::id(), running: count(running), queued: count(queued) }
    }

    /// Forgets what was kept for a session.
    pub fn close_session(&self, session: &str) {
        self.shared.sessions.close(session);
    }
}

/// Checks the request and takes its place in the order.
fn admission(
    shared: &Shared,
    request: &ToolRequest,
    cancel: &CancellationToken,
) -> Result<impl Future<Output = Result<Permit, NotAdmitted>> + Send + use<>, Failure> {
    request.call.check()?;
    if request.session.len() > SESSION_BYTES {
        let message = format!("the session's name is longer than {SESSION_BYTES} bytes");
        return Err(Failure::new(ErrorCode::InvalidArguments, message));
    }
    let weight = match &request.call {
        ToolCall::Python(_) | ToolCall::Bash(_) => Weight::Heavy,
        ToolCall::Attribute(_) => Weight::Light,
    };
    Ok(shared.queue.admit(&request.session, weight, cancel.clone()))
}

fn not_admitted(reason: NotAdmitted) -> Failure {
    match reason {
        NotAdmitted::Busy => Failure {
            retry_after_ms: u64::try_from(RETRY_AFTER.as_millis()).ok(),
            ..Failure::new(ErrorCode::Busy, "too many calls wait for their turn already")
                .with_hint("try again a little later, or raise `execution.max_queued`")
        },
        NotAdmitted::Cancelled => cancelled_before(),
    }
}

fn cancelled_before() -> Failure {
    Failure::new(ErrorCode::Cancelled, "the call was cancelled before it began")
}

fn crashed(error: JoinError) -> Failure {
    // What a panic says can hold an agent's data: it is on standard error already.
    tracing::error!(panicked = error.is_panic(), "a call's task ended without a reply");
    Failure::new(ErrorCode::Internal, "a fault of Cofferdam's own ended the call")
        .with_hint("the server's log says more; please report it")
}

/// Makes the object of an outcome, off the runtime's threads: it writes files.
async fn finish(
    grant: Grant,
    outcome: Outcome,
    workspace: Workspace,
    notes: Notes,
) -> Result<Value, Failure> {
    spawn_blocking(move || {
        normalize(Finished { outcome, grant: &grant, workspace: &workspace, notes })
    })
    .await
    .map_err(crashed)
}

impl Shared {
    /// The workspace, opened anew when another directory has come in its place.
    fn workspace(&self) -> Result<Workspace, Failure> {
        // Whole even if a holder panicked: it is replaced in one piece.
        let mut held = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        if !held.is_current() {
            let found = Workspace::open(&self.settings.workspace, &self.settings.homes)
                .map_err(|error| failure::of_workspace(&error))?;
            // A link in its place leads to what nobody granted.
            if found.path() != held.path() {
                return Err(failure::of_moved_workspace(held.path(), found.path()));
            }
            *held = found;
        }
        Ok(held.clone())
    }

    /// The profile of that name, else the session's, else the default one.
    fn profile(&self, name: Option<&str>) -> Result<&Profile, Failure> {
        let name = name
            .or(self.settings.session_profile.as_deref())
            .unwrap_or(&self.settings.default_profile);
        self.settings.profiles.get(name).map_err(|error| failure::of_profile(&error))
    }

    /// One admitted call, with its caller being told how far it is.
    async fn carry_out(
        &self,
        request: ToolRequest,
        progress: Option<mpsc::Sender<Progress>>,
        since: Instant,
        cancel: CancellationToken,
        _permit: Permit,
    ) -> Result<Value, Failure> {
        let (run_progress, seen) = watch::channel(RunProgress::default());
        let telling = async {
            match progress {
                Some(to) => progress::report(to, seen, since).await,
                None => std::future::pending::<Infallible>().await,
            }
        };
        tokio::select! {
            biased;
            value = self.dispatch(request, run_progress, cancel) => value,
            never = telling => match never {},
        }
    }

    async fn dispatch(
        &self,
        request: ToolRequest,
        progress: watch::Sender<RunProgress>,
        cancel: CancellationToken,
    ) -> Result<Value, Failure> {
        let ToolRequest { session, call } = request;
        let backend = self.settings.backend.clone();
        let (plan, profile, workspace) = match call {
            ToolCall::Attribute(call) => return self.attribute(&session, &call.name),
            ToolCall::Python(call) => {
                let workspace = self.workspace()?;
                let profile = self.profile(call.profile.as_deref())?;
                let python = self.runtimes.python(profile, &workspace).await?;
                (python::plan(call, backend, &workspace, python)?, profile, workspace)
            }
            ToolCall::Bash(call) => {
                let workspace = self.workspace()?;
                let profile = self.profile(call.profile.as_deref())?;
                let bash = self.runtimes.bash(profile, &workspace)?;
                let others = self.support(profile, &workspace).await;
                (bash::plan(call, backend, &workspace, bash, others)?, profile, workspace)
            }
        };
        let value = self.run(plan, profile, &workspace, progress, cancel).await?;
        self.sessions.remember(
            &session,
            LastRun {
                stdout: value["stdout"].clone(),
                stderr: value["stderr"].clone(),
                returncode: value["returncode"].clone(),
                sandbox: value["sandbox"].clone(),
            },
        );
        Ok(value)
    }

    fn attribute(&self, session: &str, name: &str) -> Result<Value, Failure> {
        let profiles = &self.settings.profiles;
        let facts = attribute::Facts {
            last: self.sessions.last(session),
            profile: self.profile(None)?,
            generation: profiles.generation(),
            tools: &self.tools,
            profiles: profiles.names().collect(),
        };
        attribute::value(name, &facts)
    }

    /// What programs that are no Python themselves need to find the Python of this machine.
    async fn support(&self, profile: &Profile, workspace: &Workspace) -> Support {
        // Without a Python the others still run.
        self.runtimes
            .python(profile, workspace)
            .await
            .map(|python| python.support)
            .unwrap_or_default()
    }

    /// A planned run to its end.
    async fn run(
        &self,
        plan: RunPlan,
        profile: &Profile,
        workspace: &Workspace,
        progress: watch::Sender<RunProgress>,
        cancel: CancellationToken,
    ) -> Result<Value, Failure> {
        let RunPlan { mut command, input, mut notes, repair } = plan;
        if let Some(repair) = repair
            && self.is_needed(&repair, profile, workspace, &cancel).await
            && let Program::Script { source, .. } = &mut command.program
        {
            *source = repair.source;
            notes.repaired = true;
        }
        if cancel.is_cancelled() {
            return Err(cancelled_before());
        }
        let io = RunIo {
            input: input.map_or(Input::Empty, Input::Bytes),
            spill: Some(workspace.clone()),
            progress: Some(progress),
            ..RunIo::default()
        };
        let ends = EndRequests { kill: cancel, ..EndRequests::default() };
        let (grant, outcome) = self.execute(command, profile, workspace, io, ends).await?;
        if let Ending::NotStarted(reason) = &outcome.ending
            && reason.kind == NotStartedKind::Sandbox
        {
            return Err(failure::of_start(reason));
        }
        finish(grant, outcome, workspace.clone(), notes).await
    }

    /// Whether a source is no syntax and the repaired one is. Anything else means no.
    async fn is_needed(
        &self,
        repair: &Repair,
        profile: &Profile,
        workspace: &Workspace,
        cancel: &CancellationToken,
    ) -> bool {
        let io = RunIo { input: Input::Bytes(repair.input.clone()), ..RunIo::default() };
        let ends = EndRequests { kill: cancel.clone(), ..EndRequests::default() };
        let checked = self.execute(repair.check.clone(), profile, workspace, io, ends).await;
        // A check that could not be made is no reason to change the code: the run itself will say
        // what is wrong.
        checked.is_ok_and(|(_, outcome)| outcome.ending == Ending::Exited(quotes::REPAIRED_PARSES))
    }

    async fn run_command(
        &self,
        request: CommandRequest,
        workspace: &Workspace,
        io: RunIo,
        ends: EndRequests,
    ) -> Result<(Grant, Outcome), Failure> {
        if request.argv.is_empty() {
            return Err(Failure::new(ErrorCode::InvalidArguments, "there is no command to run")
                .with_hint("write it after `--`"));
        }
        let profile = self.profile(request.profile.as_deref())?;
        let wanted = request.working_directory.as_deref();
        let mut command = CommandPlan {
            tool: "run".to_owned(),
            program: Program::Command(request.argv),
            working_directory: tools::working_directory(workspace, wanted)?,
            workspace: workspace.path().to_owned(),
            runtime: Vec::new(),
            runtime_path: Vec::new(),
            runtime_environment: Vec::new(),
            timeout: request.timeout,
            without_deadline: request.without_deadline,
            backend: request.backend.or_else(|| self.settings.backend.clone()),
        };
        tools::support(&mut command, self.support(profile, workspace).await);
        self.execute(command, profile, workspace, io, ends).await
    }

    /// Authorize and execute: what runs is what was decided.
    async fn execute(
        &self,
        command: CommandPlan,
        profile: &Profile,
        workspace: &Workspace,
        io: RunIo,
        ends: EndRequests,
    ) -> Result<(Grant, Outcome), Failure> {
        let generation = self.settings.profiles.generation();
        let grant = authorize(command, profile, generation)
            .map_err(|refusal| failure::of_refusal(&refusal))?;
        let outcome = self
            .backends
            .execute(&grant, workspace, io, ends)
            .await
            .map_err(|error| failure::of_selection(&error))?;
        Ok((grant, outcome))
    }
}
