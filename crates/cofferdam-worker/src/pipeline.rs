//! The pipeline: plan, authorize, execute, normalize, in this order and nowhere else.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
};

use cofferdam_backend::{
    Backends, EndRequests, Ending, Input, NotStartedKind, Outcome, RunIo, RunProgress,
};
use cofferdam_fs::Workspace;
use cofferdam_policy::{Approval, CommandPlan, Decision, Grant, Program, authorize};
use cofferdam_protocol::{ApprovalAnswer, ErrorCode, Failure, Progress, ToolCall, ToolRequest};
use serde_json::Value;
use tokio::{
    sync::{mpsc, watch},
    task::{JoinError, spawn_blocking},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    approvals::Approvals,
    asking::{ApprovalEvent, Caller, HeldCall, Stopped},
    audit::Facts,
    executor::CommandRequest,
    failure,
    generation::{Basis, Generation, Generations},
    normalize::{Finished, Notes, normalize},
    progress,
    queue::Permit,
    sessions::{LastRun, Sessions},
    settings::{ApprovalChannel, WorkerSettings},
    tool_control::ToolControl,
    tools::{self, Repair, RunPlan, attribute, bash, python, quotes},
};

/// What calls are carried out with.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) settings: WorkerSettings,
    pub(crate) workspace: Mutex<Workspace>,
    pub(crate) backends: Backends,
    pub(crate) generations: Generations,
    pub(crate) sessions: Sessions,
    pub(crate) approvals: Approvals<HeldCall>,
    pub(crate) tools: ToolControl,
}

/// Makes the object of an outcome, off the runtime's threads: it writes files.
pub(crate) async fn finish(
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

/// What may run, and what belongs to it.
#[derive(Debug)]
pub(crate) struct GrantedCall {
    pub(crate) grant: Grant,
    pub(crate) input: Option<Vec<u8>>,
    pub(crate) notes: Notes,
    pub(crate) workspace: Workspace,
}

/// Who hears of a call while it goes on.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    pub(crate) progress: Option<mpsc::Sender<Progress>>,
    pub(crate) questions: Option<mpsc::Sender<ApprovalEvent>>,
    /// What is recorded of it.
    pub(crate) facts: Facts,
}

/// What a tool planned.
enum Planned {
    /// The answer itself.
    Value(Value),
    /// A run, and what it was planned on.
    Run(Box<RunPlan>, Box<Basis>),
}

impl Pipeline {
    /// The workspace, opened anew when another directory has come in its place.
    pub(crate) fn workspace(&self) -> Result<Workspace, Failure> {
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

    /// What a call that begins now is decided on, under the profile of that name if it gives one.
    pub(crate) fn basis(
        &self,
        generation: &Arc<Generation>,
        profile: Option<&str>,
    ) -> Result<Basis, Failure> {
        let workspace = self.workspace()?;
        let profile = generation.profile(profile)?.clone();
        Ok(Basis { generation: generation.clone(), profile, workspace })
    }

    /// One admitted call, with its caller being told how far it is.
    pub(crate) async fn carry_out(
        &self,
        request: ToolRequest,
        listeners: Listeners,
        since: Instant,
        cancel: CancellationToken,
        permit: Permit,
    ) -> Result<Value, Stopped> {
        let (run_progress, seen) = watch::channel(RunProgress::default());
        let Listeners { progress, questions, facts } = listeners;
        let telling = async {
            match progress {
                Some(to) => progress::report(to, seen, since).await,
                None => std::future::pending::<Infallible>().await,
            }
        };
        let caller = Caller {
            session: request.session,
            digest: request.call.digest()?,
            elicitation: request.elicitation,
            questions,
            facts,
            permit,
            progress: run_progress,
            cancel,
        };
        tokio::select! {
            biased;
            value = self.dispatch(request.call, request.answer, caller) => value,
            never = telling => match never {},
        }
    }

    async fn dispatch(
        &self,
        call: ToolCall,
        answer: Option<ApprovalAnswer>,
        caller: Caller,
    ) -> Result<Value, Stopped> {
        let (session, tool) = (caller.session.clone(), call.tool_name());
        let value = match answer {
            // Planned when it was asked about: what was approved is what runs.
            Some(answer) => {
                let (held, by) = self.redeem(tool, &caller, &answer)?;
                self.run_held(held, by, tool, caller).await?
            }
            None => {
                let planned = tokio::select! {
                    biased;
                    () = caller.cancel.cancelled() => return Err(cancelled_before().into()),
                    planned = self.plan(&session, call) => planned?,
                };
                match planned {
                    Planned::Value(value) => return Ok(value),
                    Planned::Run(plan, basis) => self.run(*plan, *basis, tool, caller).await?,
                }
            }
        };
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

    /// What the call's tool wants done.
    async fn plan(&self, session: &str, call: ToolCall) -> Result<Planned, Failure> {
        let generation = self.generations.current();
        // Looked at before, too; but it may have been switched off while the call waited.
        self.tools.check(&generation.rules.tools, call.tool_name())?;
        let backend = self.settings.backend.clone();
        match call {
            ToolCall::Attribute(call) => {
                self.attribute(&generation, session, &call.name).map(Planned::Value)
            }
            ToolCall::Python(call) => {
                let basis = self.basis(&generation, call.profile.as_deref())?;
                let python = generation.runtimes.python(&basis.profile, &basis.workspace).await?;
                let plan = python::plan(call, backend, &basis.workspace, python)?;
                Ok(Planned::Run(Box::new(plan), Box::new(basis)))
            }
            ToolCall::Bash(call) => {
                let basis = self.basis(&generation, call.profile.as_deref())?;
                let bash = generation.runtimes.bash(&basis.profile, &basis.workspace)?;
                let others = generation.runtimes.support(&basis.profile, &basis.workspace).await;
                let plan = bash::plan(call, backend, &basis.workspace, bash, others)?;
                Ok(Planned::Run(Box::new(plan), Box::new(basis)))
            }
        }
    }

    fn attribute(
        &self,
        generation: &Generation,
        session: &str,
        name: &str,
    ) -> Result<Value, Failure> {
        let facts = attribute::Facts {
            last: self.sessions.last(session),
            profile: generation.profile(None)?,
            generation: generation.number(),
            tools: &self.tools.served(&generation.rules.tools),
            profiles: generation.rules.profiles.names().collect(),
        };
        attribute::value(name, &facts)
    }

    /// A planned run to its end, asked about first where the profile says so.
    async fn run(
        &self,
        plan: RunPlan,
        basis: Basis,
        tool: &str,
        caller: Caller,
    ) -> Result<Value, Stopped> {
        let RunPlan { command, input, mut notes, repair } = plan;
        let decision = self.decide(command, &basis)?;
        caller.facts.decided(&decision);
        let mut grant = match decision {
            Decision::Granted(grant) => *grant,
            // Never repaired: what a person is shown is what runs.
            Decision::NeedsApproval(pending) => {
                let held = HeldCall::new(*pending, input, notes, basis.workspace)?;
                let (held, by, caller) = self.ask(held, caller).await?;
                return self.run_held(held, by, tool, caller).await;
            }
        };
        if let Some(repair) = repair
            && self.is_needed(&repair, &basis, &caller.cancel).await
        {
            let mut command = grant.plan().clone();
            if let Program::Script { source, .. } = &mut command.program {
                *source = repair.source;
            }
            grant = self.grant(command, &basis)?;
            notes.repaired = true;
        }
        let workspace = basis.workspace;
        self.run_granted(GrantedCall { grant, input, notes, workspace }, caller).await
    }

    /// What was asked about and approved, if it still is what it was.
    async fn run_held(
        &self,
        held: HeldCall,
        by: Approval,
        tool: &str,
        caller: Caller,
    ) -> Result<Value, Stopped> {
        let generation = self.generations.current();
        // It may have been switched off while the call waited.
        self.tools.check(&generation.rules.tools, tool)?;
        self.run_granted(held.approve(by, generation.number())?, caller).await
    }

    async fn run_granted(&self, granted: GrantedCall, caller: Caller) -> Result<Value, Stopped> {
        let GrantedCall { grant, input, notes, workspace } = granted;
        let Caller { progress, cancel, facts, permit: _permit, .. } = caller;
        facts.granted(&grant);
        if cancel.is_cancelled() {
            return Err(cancelled_before().into());
        }
        let io = RunIo {
            input: input.map_or(Input::Empty, Input::Bytes),
            spill: Some(workspace.clone()),
            progress: Some(progress),
            ..RunIo::default()
        };
        let ends = EndRequests { kill: cancel, ..EndRequests::default() };
        let outcome = self.execute(&grant, &workspace, io, ends).await?;
        facts.ran(&outcome);
        if let Ending::NotStarted(reason) = &outcome.ending
            && reason.kind == NotStartedKind::Sandbox
        {
            return Err(failure::of_start(reason).into());
        }
        Ok(finish(grant, outcome, workspace, notes).await?)
    }

    /// Whether a source is no syntax and the repaired one is. Anything else means no.
    async fn is_needed(&self, repair: &Repair, basis: &Basis, cancel: &CancellationToken) -> bool {
        let io = RunIo { input: Input::Bytes(repair.input.clone()), ..RunIo::default() };
        let ends = EndRequests { kill: cancel.clone(), ..EndRequests::default() };
        // A check that could not be made is no reason to change the code: the run itself will say
        // what is wrong.
        let Ok(grant) = self.grant(repair.check.clone(), basis) else { return false };
        let checked = self.execute(&grant, &basis.workspace, io, ends).await;
        checked.is_ok_and(|outcome| outcome.ending == Ending::Exited(quotes::REPAIRED_PARSES))
    }

    pub(crate) async fn run_command(
        &self,
        request: CommandRequest,
        basis: &Basis,
        io: RunIo,
        ends: EndRequests,
        facts: &Facts,
    ) -> Result<(Grant, Outcome), Failure> {
        if request.argv.is_empty() {
            return Err(Failure::new(ErrorCode::InvalidArguments, "there is no command to run")
                .with_hint("write it after `--`"));
        }
        let workspace = &basis.workspace;
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
        let runtimes = &basis.generation.runtimes;
        tools::support(&mut command, runtimes.support(&basis.profile, workspace).await);
        let decision = self.decide(command, basis)?;
        facts.decided(&decision);
        let grant = match decision {
            Decision::Granted(grant) => *grant,
            Decision::NeedsApproval(pending)
                if self.settings.approval.channel == ApprovalChannel::None =>
            {
                return Err(self.unasked(&pending));
            }
            Decision::NeedsApproval(pending) if request.approved => {
                pending.approve(Approval::CommandLine)
            }
            Decision::NeedsApproval(pending) => {
                return Err(failure::of_unasked(&pending, "add `--approve` to agree to it"));
            }
        };
        facts.granted(&grant);
        let outcome = self.execute(&grant, workspace, io, ends).await?;
        facts.ran(&outcome);
        Ok((grant, outcome))
    }

    /// Authorize: what runs is what is decided here.
    fn decide(&self, command: CommandPlan, basis: &Basis) -> Result<Decision, Failure> {
        let generation = basis.generation.number();
        authorize(command, &basis.profile, generation, &self.backends.usable())
            .map_err(|refusal| failure::of_refusal(&refusal))
    }

    /// The same for what nobody needs to be asked about.
    fn grant(&self, command: CommandPlan, basis: &Basis) -> Result<Grant, Failure> {
        match self.decide(command, basis)? {
            Decision::Granted(grant) => Ok(*grant),
            Decision::NeedsApproval(pending) => Err(self.unasked(&pending)),
        }
    }

    /// Execute.
    async fn execute(
        &self,
        grant: &Grant,
        workspace: &Workspace,
        io: RunIo,
        ends: EndRequests,
    ) -> Result<Outcome, Failure> {
        self.backends
            .execute(grant, workspace, io, ends)
            .await
            .map_err(|error| failure::of_selection(&error))
    }
}

pub(crate) fn cancelled_before() -> Failure {
    Failure::new(ErrorCode::Cancelled, "the call was cancelled before it began")
}

pub(crate) fn crashed(error: JoinError) -> Failure {
    // What a panic says can hold an agent's data: it is on standard error already.
    tracing::error!(panicked = error.is_panic(), "a call's task ended without a reply");
    Failure::new(ErrorCode::Internal, "a fault of Cofferdam's own ended the call")
        .with_hint("the server's log says more; please report it")
}
