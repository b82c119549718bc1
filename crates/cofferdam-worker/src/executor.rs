//! The executor as others see it: settings in, calls and commands in, replies out.
//!
//! [`Executor::call`] cannot fail: whatever goes wrong is a reply with a code.

use std::{
    ffi::OsString,
    path::PathBuf,
    process,
    sync::{Arc, Mutex},
    time::Duration,
};

use cofferdam_backend::{BackendSettings, Backends, EndRequests, Ending, Outcome, RunIo};
use cofferdam_fs::Workspace;
use cofferdam_policy::Approval;
use cofferdam_protocol::{
    ApprovalAnswer, ErrorCode, Failure, Health, Progress, ToolCall, ToolReply, ToolRequest,
    admin::WaitingApproval,
};
use serde_json::Value;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    approvals::Approvals,
    asking::{ApprovalEvent, Stopped},
    audit::{Audit, AuditError, RecordedCall},
    failure,
    generation::{Basis, Generation, Generations},
    normalize::Notes,
    pipeline::{Listeners, Pipeline, cancelled_before, crashed, finish},
    queue::{NotAdmitted, Permit, Queue, QueueLimits, Weight},
    sessions::Sessions,
    settings::WorkerSettings,
    tool_control::ToolControl,
};

/// When a caller that was refused for want of room may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The session of commands, of which there is one in a process.
const COMMAND_SESSION: &str = "command-line";

/// The longest name of a session, in bytes.
const SESSION_BYTES: usize = 256;

/// Carries out calls. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Executor {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) queue: Queue,
    audit: Audit,
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
    /// Whoever typed it agrees to what would have to be asked about.
    pub approved: bool,
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
    /// Opens the workspace and the audit log, and makes the backends ready. Starts nothing.
    ///
    /// # Errors
    /// `workspace_invalid`, `audit_unavailable` when calls cannot be recorded and shall not run
    /// unrecorded, or `profile_unknown` when the default or the session's profile does not
    /// exist; each with a hint.
    pub fn new(settings: WorkerSettings) -> Result<Self, Failure> {
        let workspace = Workspace::open(&settings.workspace, &settings.homes)
            .map_err(|error| failure::of_workspace(&error))?;
        let generation = Generation::new(settings.rules.clone(), &settings, workspace.path())?;
        let tools = ToolControl::new(&generation.rules.tools, settings.tools_file.clone())
            .map_err(|error| failure::of_tool_control(&error))?;
        let backends = Backends::new(BackendSettings {
            environment: settings.environment.clone(),
            search: generation.runtimes.search_path().clone(),
        })
        .map_err(|error| failure::of_backends(&error))?;
        let audit =
            Audit::new(settings.audit.clone()).map_err(|error| failure::of_audit(&error))?;
        let queue = Queue::new(QueueLimits {
            serial: settings.serial,
            max_running: settings.max_running,
            max_queued: settings.max_queued,
        });
        let approvals = Approvals::new(settings.approval.wait);
        let pipeline = Pipeline {
            settings,
            workspace: Mutex::new(workspace),
            backends,
            generations: Generations::new(generation),
            sessions: Sessions::default(),
            approvals,
            tools,
        };
        Ok(Self { pipeline: Arc::new(pipeline), queue, audit })
    }

    /// Finds the interpreters of the default profile, so that the first call does not wait for it.
    ///
    /// # Errors
    /// What the first call would be told: a missing runtime is known before anybody needs it.
    pub async fn prepare(&self) -> Result<(), Failure> {
        let generation = self.pipeline.generations.current();
        let workspace = self.pipeline.workspace()?;
        let profile = generation.profile(None)?;
        generation.runtimes.bash(profile, &workspace)?;
        generation.runtimes.python(profile, &workspace).await?;
        Ok(())
    }

    /// Carries out one call. Its place in the session's order is taken at once, not when the future
    /// is first polled.
    ///
    /// `progress` is told how far the call is, about every second while it writes and every five
    /// seconds while it is silent or waits; what it does not take in time is left out. When `cancel`
    /// fires, the run is killed and the reply tells what there was; so it is when the future is
    /// dropped, without a reply.
    ///
    /// The caller's person cannot be asked while the call waits; see
    /// [`call_asking`](Self::call_asking).
    pub fn call(
        &self,
        request: ToolRequest,
        progress: Option<mpsc::Sender<Progress>>,
        cancel: CancellationToken,
    ) -> impl Future<Output = ToolReply> + Send + use<> {
        self.begin(request, Listeners { progress, ..Listeners::default() }, cancel)
    }

    /// The same for a caller whose person can be asked while the call waits, if the request says so
    /// by [`Elicitation::Push`](cofferdam_protocol::Elicitation::Push).
    ///
    /// `questions` is told to ask and, at the latest before the reply, that no answer is needed any
    /// more; the answer goes to [`answer`](Self::answer). Whoever listens must take what is sent: the
    /// call waits for that.
    pub fn call_asking(
        &self,
        request: ToolRequest,
        progress: Option<mpsc::Sender<Progress>>,
        questions: mpsc::Sender<ApprovalEvent>,
        cancel: CancellationToken,
    ) -> impl Future<Output = ToolReply> + Send + use<> {
        let listeners = Listeners { progress, questions: Some(questions), ..Listeners::default() };
        self.begin(request, listeners, cancel)
    }

    fn begin(
        &self,
        request: ToolRequest,
        mut listeners: Listeners,
        cancel: CancellationToken,
    ) -> impl Future<Output = ToolReply> + Send + use<> {
        let cancel = cancel.child_token();
        let since = Instant::now();
        let admission = self.admission(&request, &cancel);
        let (pipeline, audit) = (self.pipeline.clone(), self.audit.clone());
        async move {
            let _cancelled_when_dropped = cancel.clone().drop_guard();
            // A task of its own, so that a fault of ours costs this call and nothing else, and so
            // that a run whose caller went away is still ended in order.
            let carried = tokio::spawn(async move {
                let recorded = match audit.begin(&request.session, &request.call).await {
                    Ok(recorded) => recorded,
                    Err(failure) => return failure.into(),
                };
                listeners.facts = recorded.facts().clone();
                let carrying = async {
                    let permit = admission?.await.map_err(not_admitted)?;
                    pipeline.carry_out(request, listeners, since, cancel, permit).await
                };
                let reply = match carrying.await {
                    Ok(value) => ToolReply::Done { value },
                    Err(Stopped::Failed(failure)) => failure.into(),
                    Err(Stopped::NeedsApproval(approval)) => ToolReply::NeedsApproval { approval },
                };
                recorded.end_with(&reply).await;
                reply
            });
            carried.await.unwrap_or_else(|error| crashed(error).into())
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
        let recorded = self.begin_command(&request).await?;
        let running = async {
            let basis = self.basis(&request)?;
            let facts = recorded.facts();
            self.pipeline.run_command(request, &basis, io, ends, facts).await
        };
        let outcome = running.await.map(|(_, outcome)| outcome);
        recorded.end_of(&outcome).await;
        outcome
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
        let recorded = self.begin_command(&request).await?;
        let running = async {
            let basis = self.basis(&request)?;
            let spill = Some(basis.workspace.clone());
            let io = RunIo { stdout: None, stderr: None, terminal: None, spill, ..io };
            let facts = recorded.facts();
            let (grant, outcome) =
                self.pipeline.run_command(request, &basis, io, ends, facts).await?;
            let ending = outcome.ending.clone();
            let value = finish(grant, outcome, basis.workspace, Notes::default()).await?;
            Ok(Normalized { ending, value })
        };
        let normalized = running.await;
        recorded.end_of(&normalized).await;
        normalized
    }

    /// Records that a command is to be run.
    async fn begin_command(&self, request: &CommandRequest) -> Result<RecordedCall, Failure> {
        self.audit.begin_command(COMMAND_SESSION, &request.argv).await
    }

    /// Records that calls are served from now on.
    pub(crate) async fn started(&self) -> Result<(), AuditError> {
        self.audit.start(&self.pipeline.settings.workspace).await
    }

    /// Records that no more calls are served.
    pub(crate) async fn stopped(&self) {
        self.audit.stop().await;
    }

    /// Canonical names of the tools that may be used now, in catalogue order.
    pub fn tool_names(&self) -> Vec<String> {
        let served = self.pipeline.tools.served(&self.pipeline.generations.current().rules.tools);
        served.into_iter().map(str::to_owned).collect()
    }

    /// How busy this executor is.
    pub fn health(&self) -> Health {
        let (running, queued) = self.queue.load();
        let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
        let generations = &self.pipeline.generations;
        Health {
            pid: process::id(),
            running: count(running),
            queued: count(queued),
            generation: generations.current().number(),
            reload_error: generations.reload_error(),
        }
    }

    /// What a caller's person said to a question of [`call_asking`](Self::call_asking); `by` is how
    /// they were asked. Without an answer, only the owner is left to decide, if there is one.
    pub fn answer(&self, answer: &ApprovalAnswer, by: Approval) {
        let approvals = &self.pipeline.approvals;
        match answer.allow {
            // One that has been decided meanwhile keeps its first decision.
            Some(allow) => drop(approvals.decide(&answer.id, allow, by)),
            None if self.pipeline.settings.approval.asks_owner() => {}
            None => approvals.give_up(&answer.id),
        }
    }

    /// The calls that wait for a person, the oldest first.
    pub fn approvals(&self) -> Vec<WaitingApproval> {
        self.pipeline.approvals.list()
    }

    /// The owner's decision about a waiting call. Says what was decided, in one line.
    ///
    /// # Errors
    /// `approval_required` when no such call waits any more.
    pub fn decide_approval(&self, id: &str, allow: bool) -> Result<String, Failure> {
        let question = self.pipeline.approvals.decide(id, allow, Approval::Admin)?;
        let done = if allow { "allowed" } else { "denied" };
        Ok(format!("{done} one call of {} by session {}", question.tool, question.session))
    }

    /// Forgets what was kept for a session.
    pub fn close_session(&self, session: &str) {
        self.pipeline.sessions.close(session);
        self.pipeline.approvals.close_session(session);
    }

    /// What a command that begins now is decided on.
    fn basis(&self, request: &CommandRequest) -> Result<Basis, Failure> {
        let generation = self.pipeline.generations.current();
        self.pipeline.basis(&generation, request.profile.as_deref())
    }

    /// Checks the request and takes its place in the order.
    fn admission(
        &self,
        request: &ToolRequest,
        cancel: &CancellationToken,
    ) -> Result<impl Future<Output = Result<Permit, NotAdmitted>> + Send + use<>, Failure> {
        request.call.check()?;
        if request.session.len() > SESSION_BYTES {
            let message = format!("the session's name is longer than {SESSION_BYTES} bytes");
            return Err(Failure::new(ErrorCode::InvalidArguments, message));
        }
        // Asked again when its turn comes; what is refused now need not wait for that.
        let generation = self.pipeline.generations.current();
        self.pipeline.tools.check(&generation.rules.tools, request.call.tool_name())?;
        let weight = match &request.call {
            ToolCall::Python(_) | ToolCall::Bash(_) => Weight::Heavy,
            ToolCall::Attribute(_) => Weight::Light,
        };
        Ok(self.queue.admit(&request.session, weight, cancel.clone()))
    }
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
