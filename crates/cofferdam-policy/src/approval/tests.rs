//! Who is asked about what: examples, then what holds for any plan, profile and machine.

use proptest::prelude::*;

use super::*;
use crate::{
    grant::{Decision, Program, authorize},
    profile::{ProfileOrigin, ProfileSource, Profiles},
};

const BASH: &str = "bash_coding_tool.execute";

fn profile(text: &str) -> Profile {
    let source = ProfileSource {
        name: "mine".to_owned(),
        text: text.to_owned(),
        origin: ProfileOrigin::Shipped,
    };
    let profiles = Profiles::load([source]).expect(text);
    profiles.get("mine").expect("it").clone()
}

fn plan(tool: &str) -> CommandPlan {
    CommandPlan {
        tool: tool.to_owned(),
        program: Program::Command(vec!["true".into()]),
        working_directory: "/w/sub".into(),
        workspace: "/w".into(),
        runtime: vec![],
        runtime_path: vec![],
        runtime_environment: vec![],
        timeout: None,
        without_deadline: false,
        backend: None,
    }
}

fn decide(tool: &str, text: &str, usable: &[BackendKind]) -> Decision {
    authorize(plan(tool), &profile(text), 3, usable).expect("no refusal")
}

fn pending(decision: Decision) -> PendingGrant {
    match decision {
        Decision::NeedsApproval(pending) => *pending,
        Decision::Granted(grant) => panic!("granted without being asked: {grant:?}"),
    }
}

fn granted(decision: Decision) -> Grant {
    match decision {
        Decision::Granted(grant) => *grant,
        Decision::NeedsApproval(pending) => panic!("asks: {}", pending.reason_text()),
    }
}

const TWO: &str = "backends = [\"bubblewrap\", \"container\"]\n";
const UNCONFINED: &str = "[host]\nconfinement = \"none\"\n";

#[test]
fn an_approved_grant_is_the_pending_one_and_says_who_agreed() {
    let text = format!("{TWO}[approval]\n\"bash_*\" = \"always\"\n\"*\" = \"never\"");
    let pending = pending(decide(BASH, &text, &[BackendKind::Container]));
    insta::assert_snapshot!(
        pending.reason_text(),
        @"every call is asked about (rule `bash_*` of profile `mine`)"
    );
    let plan = pending.plan().clone();
    assert_eq!(pending.directory(), None);
    let grant = pending.held_at((7, 9)).approve(Approval::Admin);
    assert_eq!(grant.directory(), Some((7, 9)));
    assert_eq!(grant.plan(), &plan);
    assert_eq!(grant.profile(), &profile(&text));
    assert_eq!(grant.generation(), 3);
    assert_eq!(grant.approval(), Some(Approval::Admin));
    assert_eq!(grant.backends(), [BackendKind::Container], "the one that was asked about");
}

#[test]
fn the_first_rule_that_matches_decides() {
    let asks_last = format!("{TWO}[approval]\n\"bash_*\" = \"never\"\n\"*\" = \"always\"");
    assert_eq!(granted(decide(BASH, &asks_last, &[])).approval(), None);
    let _ = pending(decide("python_coding_tool.execute", &asks_last, &[]));
}

#[test]
fn a_run_without_a_sandbox_is_asked_about() {
    let text = format!("backends = [\"host\", \"bubblewrap\"]\n{UNCONFINED}");
    let pending = pending(decide(BASH, &text, &[BackendKind::Host, BackendKind::Bubblewrap]));
    assert_eq!(pending.reason(), &ApprovalReason::Unsandboxed);
    assert_eq!(pending.backends(), [BackendKind::Host]);
    insta::assert_snapshot!(
        pending.reason_text(),
        @"it would run without any sandbox (rule `*` of profile `mine`)"
    );
}

#[test]
fn a_run_whose_sandbox_works_is_not_asked_about_and_never_falls_back_to_none() {
    let text = format!("backends = [\"bubblewrap\", \"host\"]\n{UNCONFINED}");
    let usable = [BackendKind::Host, BackendKind::Bubblewrap];
    assert_eq!(granted(decide(BASH, &text, &usable)).backends(), [BackendKind::Bubblewrap]);
    // Preferred, and cannot be used here.
    let text = format!("backends = [\"host\", \"bubblewrap\"]\n{UNCONFINED}");
    let grant = granted(decide(BASH, &text, &[BackendKind::Bubblewrap]));
    assert_eq!(grant.backends(), [BackendKind::Bubblewrap]);
}

#[test]
fn a_run_whose_sandbox_does_not_work_is_asked_about_before_it_has_none() {
    let text = format!("backends = [\"bubblewrap\", \"host\"]\n{UNCONFINED}");
    let pending = pending(decide(BASH, &text, &[BackendKind::Host]));
    assert_eq!(pending.reason(), &ApprovalReason::Unsandboxed);
}

#[test]
fn outside_asks_about_folders_that_were_not_granted_and_about_the_whole_network() {
    let rule = "[approval]\n\"*\" = \"outside\"\n";
    let at = |folder: &str, rest: &str| {
        let text = format!("{TWO}{rule}{rest}");
        let plan = CommandPlan { working_directory: folder.into(), ..plan(BASH) };
        authorize(plan, &profile(&text), 1, &[]).expect("no refusal")
    };
    granted(at("/w", ""));
    granted(at("/w/sub", ""));
    let asks = pending(at("/work", ""));
    assert_eq!(asks.reason(), &ApprovalReason::OutsidePath("/work".into()));
    insta::assert_snapshot!(
        asks.reason_text(),
        @"it would work in `/work`, outside the allowed folders (rule `*` of profile `mine`)"
    );
    let write = "[filesystem]\nwrite = [ { path = \"/srv/results\", why = \"x\" } ]\n";
    granted(at("/srv/results/today", write));
    let _ = pending(at("/srv/results-old", write));
    let network = "[network]\nmode = \"full\"\n";
    assert_eq!(pending(at("/w", network)).reason(), &ApprovalReason::EveryHost);
    granted(at("/w", "[network]\nmode = \"allowlist\"\nallow = [\"example.org:443\"]\n"));
}

#[test]
fn tools_are_matched_by_whole_name_and_case() {
    let rule =
        |tool: &str| ApprovalRule { tool: tool.parse().expect(tool), when: ApprovalWhen::Never };
    let name = "uv_tool.uv";
    for (glob, expected) in [
        ("uv_tool.uv", true),
        ("uv_tool.*", true),
        ("*", true),
        ("*.uv", true),
        ("uv_tool.?v", true),
        ("[a-z]*", true),
        ("uv_tool", false),
        ("UV_TOOL.*", false),
        ("tool", false),
    ] {
        assert_eq!(rule(glob).tool.matches(name), expected, "{glob}");
    }
}

fn backend() -> impl Strategy<Value = BackendKind> {
    prop::sample::select(vec![BackendKind::Bubblewrap, BackendKind::Container, BackendKind::Host])
}

fn when() -> impl Strategy<Value = ApprovalWhen> {
    prop::sample::select(WEAKEST_FIRST.to_vec())
}

const WEAKEST_FIRST: [ApprovalWhen; 4] =
    [ApprovalWhen::Never, ApprovalWhen::Unsandboxed, ApprovalWhen::Outside, ApprovalWhen::Always];

fn rules() -> impl Strategy<Value = Vec<ApprovalRule>> {
    let glob = prop::sample::select(vec!["*", "bash_*", "python_*", "*.execute", "run"]);
    let rule = (glob, when())
        .prop_map(|(tool, when)| ApprovalRule { tool: tool.parse().expect(tool), when });
    prop::collection::vec(rule, 0..5)
}

/// Any profile, as far as approvals look at it. Also such as the parser would refuse: the decision
/// does not lean on it.
fn any_profile() -> impl Strategy<Value = Profile> {
    let confinement =
        prop::sample::select(vec![Confinement::Landlock, Confinement::Birdcage, Confinement::None]);
    let network =
        prop::sample::select(vec![NetworkMode::None, NetworkMode::Allowlist, NetworkMode::Full]);
    (prop::collection::vec(backend(), 1..4), confinement, network, rules()).prop_map(
        |(backends, confinement, mode, approval)| {
            let mut profile = profile("backends = [\"host\"]");
            profile.backends = backends;
            profile.host.confinement = confinement;
            profile.network.mode = mode;
            profile.approval = approval.into();
            profile
        },
    )
}

fn any_plan() -> impl Strategy<Value = CommandPlan> {
    let tool = prop::sample::select(vec![BASH, "python_coding_tool.execute", "run"]);
    let folder = prop::sample::select(vec!["/w", "/w/sub", "/work", "/"]);
    (tool, folder)
        .prop_map(|(tool, folder)| CommandPlan { working_directory: folder.into(), ..plan(tool) })
}

fn any_usable() -> impl Strategy<Value = Vec<BackendKind>> {
    prop::collection::vec(backend(), 0..4)
}

/// What matters of a decision: whether it asks, why, and where it would run.
fn essence(decision: &Decision) -> (Option<ApprovalReason>, Vec<BackendKind>) {
    match decision {
        Decision::Granted(grant) => (None, grant.backends().to_vec()),
        Decision::NeedsApproval(pending) => {
            (Some(pending.reason().clone()), pending.backends().to_vec())
        }
    }
}

fn unconfined(profile: &Profile, backends: &[BackendKind]) -> bool {
    profile.host.confinement == Confinement::None && backends.contains(&BackendKind::Host)
}

proptest! {
    #[test]
    fn equal_facts_give_equal_answers(
        plan in any_plan(), profile in any_profile(), usable in any_usable(),
    ) {
        let decide = || authorize(plan.clone(), &profile, 1, &usable).expect("no refusal");
        prop_assert_eq!(essence(&decide()), essence(&decide()));
    }

    #[test]
    fn nothing_unconfined_is_ever_granted_unasked(
        plan in any_plan(), profile in any_profile(), usable in any_usable(),
    ) {
        let decision = authorize(plan, &profile, 1, &usable).expect("no refusal");
        if let Decision::Granted(grant) = decision {
            prop_assert!(!unconfined(&profile, grant.backends()));
        }
    }

    /// What a person is shown is one backend, and no other can be used with their approval.
    #[test]
    fn an_approval_is_for_one_backend_that_the_profile_allows(
        plan in any_plan(), profile in any_profile(), usable in any_usable(),
    ) {
        let decision = authorize(plan.clone(), &profile, 9, &usable).expect("no refusal");
        if let Decision::NeedsApproval(pending) = decision {
            let backends = pending.backends().to_vec();
            prop_assert_eq!(backends.len(), 1);
            prop_assert!(profile.backends.contains(&backends[0]));
            let grant = pending.approve(Approval::Elicitation);
            prop_assert_eq!(grant.plan(), &plan);
            prop_assert_eq!(grant.profile(), &profile);
            prop_assert_eq!((grant.generation(), grant.backends()), (9, backends.as_slice()));
        }
    }

    /// A rule about another tool changes nothing, wherever it stands.
    #[test]
    fn a_rule_about_another_tool_changes_nothing(
        plan in any_plan(), profile in any_profile(), usable in any_usable(),
        when in when(), at in any::<prop::sample::Index>(),
    ) {
        let mut more = profile.clone();
        let at = at.index(more.approval.len() + 1);
        let mut rules = more.approval.to_vec();
        rules.insert(at, ApprovalRule { tool: "image_*".parse().expect("a pattern"), when });
        more.approval = rules.into();
        let decide = |profile| authorize(plan.clone(), profile, 1, &usable).expect("no refusal");
        prop_assert_eq!(essence(&decide(&profile)), essence(&decide(&more)));
    }

    /// never, unsandboxed, outside, always: each asks whenever the one before it does.
    #[test]
    fn a_stricter_rule_never_asks_less(
        plan in any_plan(), profile in any_profile(), usable in any_usable(),
    ) {
        let asks = WEAKEST_FIRST.map(|when| {
            let mut profile = profile.clone();
            let tool = "*".parse().expect("a pattern");
            profile.approval = vec![ApprovalRule { tool, when }].into();
            let decision = authorize(plan.clone(), &profile, 1, &usable).expect("no refusal");
            matches!(decision, Decision::NeedsApproval(_))
        });
        prop_assert!(asks.is_sorted(), "{asks:?}");
        prop_assert!(asks[3], "`always` asks always");
    }
}
