//! Calls that a person must agree to, carried out in this machine's own sandboxes.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs;

use cofferdam_policy::{
    Approval, Profiles,
    profile::{ProfileOrigin, ProfileSource, shipped},
};
use cofferdam_protocol::{
    ApprovalAnswer, Elicitation, ErrorCode, Failure, ToolCall, ToolReply, ToolRequest,
    admin::WaitingApproval, tool::BashExecute,
};
use cofferdam_worker::{
    ApprovalChannel, ApprovalEvent, ApprovalSettings, CommandRequest, Executor, Rules,
    WorkerSettings,
};
use support::{Place, bash, finished, python};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// Asks about every call.
const ASK: &str = "extends = \"base\"\n[filesystem]\nworkspace = \"write\"\n\
                   [approval]\n\"*\" = \"always\"\n";
/// Asks about every call, and cannot run anywhere.
const NOWHERE: &str =
    "extends = \"base\"\nbackends = [\"container\"]\n[approval]\n\"*\" = \"always\"\n";

fn settings(place: &Place, approval: ApprovalSettings) -> WorkerSettings {
    let own = [("ask", ASK), ("nowhere", NOWHERE)].map(|(name, text)| ProfileSource {
        name: name.to_owned(),
        text: text.to_owned(),
        origin: ProfileOrigin::Shipped,
    });
    let settings = place.settings();
    let rules = Rules {
        default_profile: "ask".to_owned(),
        profiles: Profiles::load(shipped().chain(own)).unwrap(),
        ..settings.rules
    };
    WorkerSettings { rules, approval, ..settings }
}

fn executor(place: &Place) -> Executor {
    let approval = ApprovalSettings { admin: true, ..ApprovalSettings::default() };
    Executor::new(settings(place, approval)).unwrap()
}

fn request(elicitation: Elicitation, call: ToolCall) -> ToolRequest {
    ToolRequest { elicitation, ..ToolRequest::new("session", call) }
}

/// A call under way whose person can be asked.
struct Call {
    reply: JoinHandle<ToolReply>,
    questions: mpsc::Receiver<ApprovalEvent>,
    cancel: CancellationToken,
}

impl Call {
    fn begin(executor: &Executor, call: ToolCall) -> Self {
        let (to, questions) = mpsc::channel(2);
        let cancel = CancellationToken::new();
        let request = request(Elicitation::Push, call);
        let reply = tokio::spawn(executor.call_asking(request, None, to, cancel.clone()));
        Self { reply, questions, cancel }
    }

    async fn asked(&mut self) -> WaitingApproval {
        match self.questions.recv().await {
            Some(ApprovalEvent::Asked(question)) => *question,
            other => panic!("expected a question, got {other:?}"),
        }
    }

    async fn settled(&mut self) {
        assert_eq!(self.questions.recv().await, Some(ApprovalEvent::Settled));
    }

    async fn reply(self) -> ToolReply {
        self.reply.await.unwrap()
    }
}

fn say(executor: &Executor, question: &WaitingApproval, allow: Option<bool>) {
    let answer = ApprovalAnswer { id: question.id.clone(), allow };
    executor.answer(&answer, Approval::Elicitation);
}

fn failure(reply: ToolReply) -> Failure {
    match reply {
        ToolReply::Failed(failure) => failure,
        other => panic!("expected a failure, got {other:?}"),
    }
}

/// The question of a call whose caller comes back with the answer.
async fn parked(executor: &Executor, call: ToolCall) -> WaitingApproval {
    let request = request(Elicitation::InputRequired, call);
    match executor.call(request, None, CancellationToken::new()).await {
        ToolReply::NeedsApproval { approval } => *approval,
        other => panic!("expected a question, got {other:?}"),
    }
}

/// The same caller comes back with an answer.
async fn come_back(
    executor: &Executor,
    call: ToolCall,
    question: &WaitingApproval,
    allow: Option<bool>,
) -> ToolReply {
    let answer = Some(ApprovalAnswer { id: question.id.clone(), allow });
    let request = ToolRequest { answer, ..request(Elicitation::InputRequired, call) };
    executor.call(request, None, CancellationToken::new()).await
}

fn shell(code: &str) -> ToolCall {
    ToolCall::Bash(bash(code))
}

#[tokio::test]
async fn an_approved_call_runs_once_and_a_denied_one_never() {
    let place = Place::new();
    let executor = executor(&place);
    let mut call = Call::begin(&executor, shell("echo run >> runs"));
    let question = call.asked().await;
    assert!(!place.workspace().join("runs").exists(), "it ran before anybody agreed");
    say(&executor, &question, Some(true));
    call.settled().await;
    assert_eq!(finished(call.reply().await)["returncode"], 0);
    assert_eq!(fs::read_to_string(place.workspace().join("runs")).unwrap(), "run\n");

    let mut call = Call::begin(&executor, shell("echo run >> runs"));
    let question = call.asked().await;
    say(&executor, &question, Some(false));
    let denied = failure(call.reply().await);
    assert_eq!(denied.message, "Tool execution was denied by the user.");
    assert_eq!(denied.code, ErrorCode::Denied);
    assert_eq!(fs::read_to_string(place.workspace().join("runs")).unwrap(), "run\n");
    assert_eq!(executor.approvals(), []);
}

#[tokio::test]
async fn a_question_says_what_would_run_where_and_how_it_would_be_held() {
    let place = Place::new();
    fs::create_dir(place.workspace().join("sub")).unwrap();
    let executor = executor(&place);
    let code = BashExecute {
        cwd: Some("sub".to_owned()),
        input_text: Some("typed".to_owned()),
        ..bash("cat\n# \u{1b}[2J")
    };
    let call = ToolCall::Bash(code);
    let digest = call.digest().unwrap();
    let question = parked(&executor, call).await;
    assert_eq!(
        (question.tool.as_str(), question.session.as_str()),
        ("bash_coding_tool.execute", "session")
    );
    assert_eq!((question.profile.as_str(), question.backend.as_str()), ("ask", "bubblewrap"));
    assert_eq!(question.working_directory, place.workspace().join("sub").to_str().unwrap());
    assert_eq!(question.digest, digest);
    assert!(question.enforcement.contains("files full, network full"), "{question:?}");
    assert!(question.enforcement.contains("not armed: "), "{question:?}");
    assert!(question.summary.contains("\n| # \\u{1b}[2J\n"), "{question:?}");
    assert!(question.summary.ends_with("Standard input, 1 line, 5 bytes:\n| typed"));
    assert!(question.reason.contains("rule `*` of profile `ask`"));
    assert_eq!(executor.approvals(), [question]);
}

#[tokio::test]
async fn waiting_blocks_no_other_call() {
    let place = Place::new();
    let approval = ApprovalSettings::default();
    let settings = WorkerSettings { max_running: 1, serial: true, ..settings(&place, approval) };
    let executor = Executor::new(settings).unwrap();
    let mut waits = Call::begin(&executor, shell("echo waited"));
    let question = waits.asked().await;
    assert_eq!((executor.health().running, executor.health().queued), (0, 0));
    // Of the same session, and of another.
    for session in ["session", "other"] {
        let other = BashExecute { profile: Some("default".to_owned()), ..bash("echo not held up") };
        let request = ToolRequest::new(session, ToolCall::Bash(other));
        let reply = executor.call(request, None, CancellationToken::new()).await;
        assert_eq!(finished(reply)["stdout"], "not held up\n");
    }
    say(&executor, &question, Some(true));
    assert_eq!(finished(waits.reply().await)["stdout"], "waited\n");
}

#[tokio::test]
async fn a_waiting_call_tells_its_caller_what_it_waits_for() {
    let place = Place::new();
    let executor = executor(&place);
    let (to, mut told) = mpsc::channel(4);
    let cancel = CancellationToken::new();
    let request = request(Elicitation::None, shell("true"));
    let reply = tokio::spawn(executor.call(request, Some(to), cancel.clone()));
    let progress = told.recv().await.unwrap();
    assert_eq!(progress.last_line.as_deref(), Some("waiting for a person to agree"));
    cancel.cancel();
    reply.await.unwrap();
}

#[tokio::test]
async fn a_call_that_is_cancelled_or_given_up_while_it_waits_leaves() {
    let place = Place::new();
    let executor = executor(&place);
    let mut call = Call::begin(&executor, shell("touch ran"));
    let question = call.asked().await;
    call.cancel.cancel();
    call.settled().await;
    assert_eq!(failure(call.reply().await).code, ErrorCode::Cancelled);
    assert_eq!(executor.approvals(), []);
    assert!(executor.decide_approval(&question.id, true).is_err());

    let mut call = Call::begin(&executor, shell("touch ran"));
    call.asked().await;
    call.reply.abort();
    // Told by the call's own task, which ends although its caller is gone.
    call.settled().await;
    assert_eq!(executor.approvals(), []);
    assert!(!place.workspace().join("ran").exists());
}

#[tokio::test]
async fn the_first_of_two_deciders_decides() {
    let place = Place::new();
    let executor = executor(&place);
    let mut call = Call::begin(&executor, shell("echo allowed"));
    let question = call.asked().await;
    let done = executor.decide_approval(&question.id, true).unwrap();
    assert_eq!(done, "allowed one call of bash_coding_tool.execute by session session");
    say(&executor, &question, Some(false));
    call.settled().await;
    assert_eq!(finished(call.reply().await)["stdout"], "allowed\n");

    let mut call = Call::begin(&executor, shell("echo allowed"));
    let question = call.asked().await;
    say(&executor, &question, Some(false));
    assert!(executor.decide_approval(&question.id, true).is_err());
    assert_eq!(failure(call.reply().await).code, ErrorCode::Denied);
}

#[tokio::test]
async fn a_client_that_could_not_ask_leaves_it_to_the_owner_or_ends_the_wait() {
    let place = Place::new();
    let with_owner = executor(&place);
    let mut call = Call::begin(&with_owner, shell("echo by the owner"));
    let question = call.asked().await;
    say(&with_owner, &question, None);
    with_owner.decide_approval(&question.id, true).unwrap();
    assert_eq!(finished(call.reply().await)["stdout"], "by the owner\n");

    let alone = Executor::new(settings(&place, ApprovalSettings::default())).unwrap();
    let mut call = Call::begin(&alone, shell("touch ran"));
    let question = call.asked().await;
    say(&alone, &question, None);
    let refused = failure(call.reply().await);
    assert_eq!(refused.code, ErrorCode::ApprovalRequired);
    assert!(refused.hint.is_some());
    assert!(!place.workspace().join("ran").exists());
}

#[tokio::test]
async fn nobody_waits_longer_than_the_configuration_says() {
    let place = Place::new();
    let wait = std::time::Duration::from_millis(1);
    let approval = ApprovalSettings { wait, admin: true, ..ApprovalSettings::default() };
    let executor = Executor::new(settings(&place, approval)).unwrap();
    let call = Call::begin(&executor, shell("touch ran"));
    let refused = failure(call.reply().await);
    assert_eq!(refused.code, ErrorCode::ApprovalRequired);
    assert!(refused.hint.unwrap().contains("approval.wait"));
    assert!(!place.workspace().join("ran").exists());
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_refusal_says_how_to_go_on() {
    let place = Place::new();
    for (channel, admin, elicitation, wanted) in [
        (ApprovalChannel::Auto, false, Elicitation::None, "MCP elicitation"),
        (ApprovalChannel::Elicitation, true, Elicitation::None, "channel = \"auto\""),
        (ApprovalChannel::Admin, false, Elicitation::Push, "MCP elicitation"),
        (ApprovalChannel::None, true, Elicitation::InputRequired, "channel = \"none\""),
    ] {
        let approval = ApprovalSettings { channel, admin, ..ApprovalSettings::default() };
        let executor = Executor::new(settings(&place, approval)).unwrap();
        let request = request(elicitation, shell("touch ran"));
        let refused = failure(executor.call(request, None, CancellationToken::new()).await);
        assert_eq!(refused.code, ErrorCode::ApprovalRequired, "{channel:?}");
        let hint = refused.hint.unwrap();
        assert!(hint.contains(wanted), "{channel:?}: {hint}");
    }
    assert!(!place.workspace().join("ran").exists());
}

#[tokio::test]
async fn what_cannot_run_is_not_asked_about() {
    let place = Place::new();
    let executor = executor(&place);
    let call = BashExecute { profile: Some("nowhere".to_owned()), ..bash("true") };
    let refused = failure(Call::begin(&executor, ToolCall::Bash(call)).reply().await);
    assert_eq!(refused.code, ErrorCode::BackendUnavailable);
}

#[tokio::test]
async fn a_caller_that_comes_back_gets_what_was_asked_about_once() {
    let place = Place::new();
    let executor = executor(&place);
    let call = || shell("echo run >> runs; cat runs");
    let question = parked(&executor, call()).await;
    assert_eq!(
        finished(come_back(&executor, call(), &question, Some(true)).await)["stdout"],
        "run\n"
    );
    let replayed = failure(come_back(&executor, call(), &question, Some(true)).await);
    assert_eq!(replayed.code, ErrorCode::ApprovalRequired);
    assert_eq!(replayed.message, "this approval was used, refused or has expired");
    assert_eq!(fs::read_to_string(place.workspace().join("runs")).unwrap(), "run\n");
}

#[tokio::test]
async fn other_arguments_and_other_sessions_get_nothing_for_an_approval() {
    let place = Place::new();
    let executor = executor(&place);
    let question = parked(&executor, shell("echo asked")).await;
    let others = [
        shell("touch ran"),
        ToolCall::Python(python("echo asked")),
        ToolCall::Bash(BashExecute { profile: Some("default".to_owned()), ..bash("echo asked") }),
        ToolCall::Bash(BashExecute { timeout: Some(1.0), ..bash("echo asked") }),
    ];
    for other in others {
        let refused = failure(come_back(&executor, other, &question, Some(true)).await);
        assert!(refused.message.contains("another call"), "{refused:?}");
    }
    let answer = Some(ApprovalAnswer { id: question.id.clone(), allow: Some(true) });
    let stranger = ToolRequest { answer, ..ToolRequest::new("stranger", shell("echo asked")) };
    let refused = failure(executor.call(stranger, None, CancellationToken::new()).await);
    assert!(refused.message.contains("another caller"), "{refused:?}");
    let own = come_back(&executor, shell("echo asked"), &question, Some(true)).await;
    assert_eq!(finished(own)["stdout"], "asked\n");
    assert!(!place.workspace().join("ran").exists());
}

#[tokio::test]
async fn the_owner_can_decide_about_a_parked_call_and_a_no_is_final() {
    let place = Place::new();
    let executor = executor(&place);
    let call = || shell("echo asked");
    let question = parked(&executor, call()).await;
    executor.decide_approval(&question.id, false).unwrap();
    let refused = failure(come_back(&executor, call(), &question, Some(true)).await);
    assert_eq!(refused.code, ErrorCode::Denied);

    let question = parked(&executor, call()).await;
    let again = come_back(&executor, call(), &question, None).await;
    assert!(matches!(&again, ToolReply::NeedsApproval { approval } if approval.id == question.id));
    executor.decide_approval(&question.id, true).unwrap();
    let reply = come_back(&executor, call(), &question, None).await;
    assert_eq!(finished(reply)["stdout"], "asked\n");
}

#[tokio::test]
async fn a_directory_that_was_replaced_while_the_call_waited_is_not_entered() {
    let place = Place::new();
    let (sub, other) = (place.workspace().join("sub"), place.workspace().join("other"));
    fs::create_dir(&sub).unwrap();
    let executor = executor(&place);
    let call = || ToolCall::Bash(BashExecute { cwd: Some("sub".to_owned()), ..bash("touch ran") });
    let mut pushed = Call::begin(&executor, call());
    let asked = pushed.asked().await;
    let parked = parked(&executor, call()).await;
    fs::rename(&sub, &other).unwrap();
    fs::create_dir(&sub).unwrap();
    say(&executor, &asked, Some(true));
    let by_waiting = failure(pushed.reply().await);
    let by_coming_back = failure(come_back(&executor, call(), &parked, Some(true)).await);
    for refused in [by_waiting, by_coming_back] {
        assert_eq!(refused.code, ErrorCode::ApprovalRequired);
        assert!(refused.message.starts_with("the working directory was replaced"), "{refused:?}");
    }
    assert!(!sub.join("ran").exists() && !other.join("ran").exists());
}

#[tokio::test]
async fn code_that_a_person_saw_is_not_repaired() {
    let place = Place::new();
    let executor = executor(&place);
    let call = || ToolCall::Python(python("print(“a”)"));
    let question = parked(&executor, call()).await;
    let value = finished(come_back(&executor, call(), &question, Some(true)).await);
    assert!(value["stderr"].as_str().unwrap().contains("SyntaxError"), "{value:#}");
    assert!(value.get("repaired").is_none(), "{value:#}");
}

#[tokio::test]
async fn a_session_that_is_closed_takes_its_parked_calls_along() {
    let place = Place::new();
    let executor = executor(&place);
    let question = parked(&executor, shell("true")).await;
    executor.close_session("session");
    assert_eq!(executor.approvals(), []);
    let refused = failure(come_back(&executor, shell("true"), &question, Some(true)).await);
    assert_eq!(refused.code, ErrorCode::ApprovalRequired);
}

#[tokio::test]
async fn a_command_of_a_person_runs_when_they_say_so() {
    let place = Place::new();
    let run = |approved: bool, channel: ApprovalChannel| {
        let approval = ApprovalSettings { channel, ..ApprovalSettings::default() };
        let executor = Executor::new(settings(&place, approval)).unwrap();
        let argv = vec!["true".into()];
        let request = CommandRequest { argv, approved, ..CommandRequest::default() };
        async move {
            let io = cofferdam_backend::RunIo::default();
            executor.run_command(request, io, cofferdam_backend::EndRequests::default()).await
        }
    };
    let outcome = run(true, ApprovalChannel::Elicitation).await.unwrap();
    assert_eq!(outcome.ending, cofferdam_backend::Ending::Exited(0));
    let refused = run(false, ApprovalChannel::Elicitation).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::ApprovalRequired);
    assert!(refused.hint.unwrap().contains("--approve"));
    // The configuration's word is above that of whoever types.
    let refused = run(true, ApprovalChannel::None).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::ApprovalRequired);
}

#[tokio::test]
async fn the_sandbox_itself_enters_no_other_directory_than_the_approved_one() {
    use cofferdam_backend::{BackendSettings, Backends, EndRequests, Ending, RunIo, SearchPath};
    use cofferdam_policy::{CommandPlan, Decision, Program, authorize};
    let place = Place::new();
    let settings = settings(&place, ApprovalSettings::default());
    let workspace = cofferdam_fs::Workspace::open(&settings.workspace, &[]).unwrap();
    let own = workspace.directory_identity(workspace.path()).unwrap();
    let path = settings.environment.get(std::ffi::OsStr::new("PATH"));
    let search = SearchPath::new(path.map(|path| path.as_os_str()), &[]);
    let backends =
        Backends::new(BackendSettings { environment: settings.environment, search }).unwrap();
    for (directory, enters) in [(own, true), ((own.0, own.1 + 1), false), ((0, own.1), false)] {
        let plan = CommandPlan {
            tool: "run".to_owned(),
            program: Program::Command(vec!["true".into()]),
            working_directory: workspace.path().to_owned(),
            workspace: workspace.path().to_owned(),
            runtime: Vec::new(),
            runtime_path: Vec::new(),
            runtime_environment: Vec::new(),
            timeout: None,
            without_deadline: false,
            backend: None,
        };
        let profile = settings.rules.profiles.get("ask").unwrap();
        let Ok(Decision::NeedsApproval(pending)) = authorize(plan, profile, 1, &backends.usable())
        else {
            panic!("it was not asked about")
        };
        let grant = pending.held_at(directory).approve(Approval::CommandLine);
        let outcome = backends
            .execute(&grant, &workspace, RunIo::default(), EndRequests::default())
            .await
            .unwrap();
        match outcome.ending {
            Ending::Exited(0) => assert!(enters, "{directory:?}"),
            Ending::NotStarted(why) => {
                assert!(
                    !enters && why.message.contains("the directory that was approved"),
                    "{why:?}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
}
