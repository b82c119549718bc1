//! The decision: a plan and facts in, a [`Grant`] or a [`Refusal`] out.
//!
//! [`authorize`] is the only way to a `Grant`, and only a `Grant` can be launched, so what runs is
//! what was decided. Nothing here reads a file, the clock or the environment.

use std::{path::PathBuf, time::Duration};

use crate::{
    document::shown,
    enforcement::Enforcement,
    profile::{ApprovalRule, ApprovalWhen, BackendKind, Confinement, Profile},
};

/// What a tool wants to run. Made by the tools, which never run anything themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandPlan {
    /// Canonical name of the tool, or `run` for the command line.
    pub tool: String,
    /// What is run.
    pub program: Program,
    /// Directory in which it starts: absolute, already resolved inside an allowed root.
    pub working_directory: PathBuf,
    /// The workspace: absolute, already opened and checked.
    pub workspace: PathBuf,
    /// Paths that this program's runtime needs, visible read-only (an interpreter's prefix).
    pub runtime: Vec<PathBuf>,
    /// Directories of the runtime's programs, put in front of `PATH`.
    pub runtime_path: Vec<PathBuf>,
    /// Further variables that the runtime needs.
    pub runtime_environment: Vec<(String, String)>,
    /// Deadline the caller asked for.
    pub timeout: Option<Duration>,
    /// The caller asked for no deadline at all (only the command line can).
    pub without_deadline: bool,
    /// Backend the caller asked for, as written.
    pub backend: Option<String>,
}

/// What is run.
#[derive(Clone, Debug, PartialEq)]
pub enum Program {
    /// An interpreter on source that is passed by descriptor, never in an argument.
    Script {
        /// The interpreter and its options; the script's path is appended.
        interpreter: Vec<std::ffi::OsString>,
        /// The source.
        source: Vec<u8>,
        /// Name of the file inside, `script.py` for example.
        file_name: String,
    },
    /// A command line.
    Command(Vec<std::ffi::OsString>),
}

/// Permission to run one command, and all that was decided about it.
///
/// Only [`authorize`] makes one.
#[derive(Clone, Debug)]
pub struct Grant {
    plan: CommandPlan,
    profile: Profile,
    generation: u64,
    backends: Vec<BackendKind>,
    timeout: Option<Duration>,
    timeout_capped: bool,
}

/// Why a plan was not granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The caller named something that is no backend.
    #[error("`{}` is not a backend", shown(.0))]
    NoSuchBackend(String),
    /// The profile does not list that backend.
    #[error("profile `{profile}` does not allow the backend `{backend}`")]
    BackendNotAllowed {
        /// Name of the profile.
        profile: String,
        /// What was asked for.
        backend: &'static str,
        /// What the profile lists.
        allowed: String,
    },
    /// The profile says that a person must agree first.
    #[error("profile `{profile}` lets `{tool}` run only when a person has agreed")]
    ApprovalRequired {
        /// Name of the profile.
        profile: String,
        /// Name of the tool.
        tool: String,
        /// Pattern of the rule in `[approval]` that says so.
        rule: String,
        /// Whether the rule asks every time, rather than for runs without a sandbox.
        always: bool,
    },
}

impl Refusal {
    /// The next step for whoever asked.
    pub fn hint(&self) -> String {
        match self {
            Self::NoSuchBackend(_) => "the backends are bubblewrap, container, host".to_owned(),
            Self::BackendNotAllowed { allowed, .. } => {
                format!("the profile allows {allowed}; leave `backend` out for its first that fits")
            }
            Self::ApprovalRequired { rule, always: true, .. } => format!(
                "nobody can be asked yet; use a profile whose `[approval]` does not ask, or change \
                 its rule `{}`",
                shown(rule)
            ),
            Self::ApprovalRequired { rule, always: false, .. } => format!(
                "nobody can be asked yet, and this run would have no sandbox (rule `{}`); use a \
                 profile with one",
                shown(rule)
            ),
        }
    }
}

/// Decides whether, and how, a plan may run.
///
/// # Errors
/// [`Refusal`] names what stood in the way.
pub fn authorize(plan: CommandPlan, profile: &Profile, generation: u64) -> Result<Grant, Refusal> {
    let backends = match plan.backend.as_deref() {
        None => profile.backends.clone(),
        Some(name) => {
            let wanted = [BackendKind::Bubblewrap, BackendKind::Container, BackendKind::Host]
                .into_iter()
                .find(|kind| kind.as_str() == name)
                .ok_or_else(|| Refusal::NoSuchBackend(name.to_owned()))?;
            if !profile.backends.contains(&wanted) {
                let allowed: Vec<_> = profile.backends.iter().map(|kind| kind.as_str()).collect();
                return Err(Refusal::BackendNotAllowed {
                    profile: profile.name.clone(),
                    backend: wanted.as_str(),
                    allowed: allowed.join(", "),
                });
            }
            vec![wanted]
        }
    };
    let backends = without_asking(&plan.tool, profile, backends)?;
    let limits = &profile.limits;
    let asked = plan.timeout.unwrap_or(limits.timeout);
    let (timeout, timeout_capped) = if plan.without_deadline && plan.timeout.is_none() {
        (None, false)
    } else {
        (Some(asked.min(limits.timeout_max)), asked > limits.timeout_max)
    };
    Ok(Grant { plan, profile: profile.clone(), generation, backends, timeout, timeout_capped })
}

/// The backends for which nobody has to be asked. Nobody can be, yet: what would need it is refused.
fn without_asking(
    tool: &str,
    profile: &Profile,
    mut backends: Vec<BackendKind>,
) -> Result<Vec<BackendKind>, Refusal> {
    let Some(rule) = profile.approval.iter().find(|rule| rule.matches(tool)) else {
        return Ok(backends);
    };
    let unconfined = profile.host.confinement == Confinement::None;
    match rule.when {
        ApprovalWhen::Always => backends.clear(),
        ApprovalWhen::Unsandboxed if unconfined => {
            backends.retain(|kind| *kind != BackendKind::Host);
        }
        // Which paths a call touches is looked at where they are opened.
        ApprovalWhen::Unsandboxed | ApprovalWhen::Outside | ApprovalWhen::Never => {}
    }
    if backends.is_empty() {
        return Err(Refusal::ApprovalRequired {
            profile: profile.name.clone(),
            tool: tool.to_owned(),
            rule: rule.tool.clone(),
            always: rule.when == ApprovalWhen::Always,
        });
    }
    Ok(backends)
}

impl ApprovalRule {
    /// Whether the rule is about that tool.
    pub fn matches(&self, tool: &str) -> bool {
        // A profile holds only globs that compile.
        globset::Glob::new(&self.tool).is_ok_and(|glob| glob.compile_matcher().is_match(tool))
    }
}

impl Grant {
    /// What may run.
    pub fn plan(&self) -> &CommandPlan {
        &self.plan
    }

    /// The profile under which it runs.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Which generation of the profiles that was.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The backends that may be used, most wanted first.
    pub fn backends(&self) -> &[BackendKind] {
        &self.backends
    }

    /// The least that the backend must hold.
    pub fn require(&self) -> &Enforcement {
        &self.profile.require
    }

    /// The deadline; `None` only for the command line without `--timeout`.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Whether the caller asked for a longer deadline than the profile allows.
    pub fn timeout_capped(&self) -> bool {
        self.timeout_capped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{ProfileOrigin, ProfileSource, Profiles};

    fn profile(text: &str) -> Profile {
        let source = ProfileSource {
            name: "mine".to_owned(),
            text: text.to_owned(),
            origin: ProfileOrigin::Shipped,
        };
        let profiles = Profiles::load([source]).expect(text);
        profiles.get("mine").expect("it").clone()
    }

    fn plan() -> CommandPlan {
        CommandPlan {
            tool: "bash_coding_tool.execute".to_owned(),
            program: Program::Command(vec!["true".into()]),
            working_directory: "/w".into(),
            workspace: "/w".into(),
            runtime: vec![],
            runtime_path: vec![],
            runtime_environment: vec![],
            timeout: None,
            without_deadline: false,
            backend: None,
        }
    }

    const TWO: &str = "backends = [\"container\", \"bubblewrap\"]\n";

    #[test]
    fn the_profiles_backends_are_granted_in_its_order() {
        let grant = authorize(plan(), &profile(TWO), 7).expect("a grant");
        assert_eq!(grant.backends(), [BackendKind::Container, BackendKind::Bubblewrap]);
        assert_eq!(grant.generation(), 7);
    }

    #[test]
    fn a_backend_that_is_asked_for_is_the_only_one_and_must_be_listed() {
        let ask = |name: &str| {
            authorize(CommandPlan { backend: Some(name.to_owned()), ..plan() }, &profile(TWO), 1)
        };
        let grant = ask("bubblewrap").expect("a grant");
        assert_eq!(grant.backends(), [BackendKind::Bubblewrap]);
        let refusal = ask("host").expect_err("not listed");
        insta::assert_snapshot!(refusal, @"profile `mine` does not allow the backend `host`");
        insta::assert_snapshot!(refusal.hint(), @"the profile allows container, bubblewrap; leave `backend` out for its first that fits");
        insta::assert_snapshot!(ask("Bubblewrap\n").expect_err("none"), @r"`Bubblewrap\n` is not a backend");
    }

    #[test]
    fn a_deadline_is_the_callers_up_to_the_profiles_longest() {
        let text = format!("{TWO}[limits]\ntimeout = \"2s\"\ntimeout_max = \"5s\"");
        let seconds = Duration::from_secs;
        let table = [
            (None, false, Some(seconds(2)), false),
            (Some(seconds(5)), false, Some(seconds(5)), false),
            (Some(seconds(6)), false, Some(seconds(5)), true),
            (Some(seconds(6)), true, Some(seconds(5)), true),
            (None, true, None, false),
        ];
        for (timeout, without_deadline, expected, capped) in table {
            let plan = CommandPlan { timeout, without_deadline, ..plan() };
            let grant = authorize(plan, &profile(&text), 1).expect("a grant");
            assert_eq!((grant.timeout(), grant.timeout_capped()), (expected, capped));
        }
    }

    #[test]
    fn what_a_person_must_agree_to_is_refused_while_nobody_can_be_asked() {
        let text = format!("{TWO}[approval]\n\"bash_*\" = \"always\"\n\"*\" = \"never\"");
        let refusal = authorize(plan(), &profile(&text), 1).expect_err("nobody to ask");
        insta::assert_snapshot!(refusal, @"profile `mine` lets `bash_coding_tool.execute` run only when a person has agreed");
        insta::assert_snapshot!(refusal.hint(), @"nobody can be asked yet; use a profile whose `[approval]` does not ask, or change its rule `bash_*`");
        let other = CommandPlan { tool: "python_coding_tool.execute".to_owned(), ..plan() };
        assert!(authorize(other, &profile(&text), 1).is_ok());
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let text = format!("{TWO}[approval]\n\"bash_*\" = \"never\"\n\"*\" = \"always\"");
        assert!(authorize(plan(), &profile(&text), 1).is_ok());
    }

    #[test]
    fn a_run_without_a_sandbox_is_not_granted_unasked() {
        let rest = "[host]\nconfinement = \"none\"";
        let text = format!("backends = [\"host\", \"bubblewrap\"]\n{rest}");
        let grant = authorize(plan(), &profile(&text), 1).expect("a grant");
        assert_eq!(grant.backends(), [BackendKind::Bubblewrap]);
        let text = format!("backends = [\"host\"]\n{rest}");
        let refusal = authorize(plan(), &profile(&text), 1).expect_err("nobody to ask");
        insta::assert_snapshot!(refusal.hint(), @"nobody can be asked yet, and this run would have no sandbox (rule `*`); use a profile with one");
    }

    #[test]
    fn tools_are_matched_by_whole_name_and_case() {
        let rule = |tool: &str| ApprovalRule { tool: tool.to_owned(), when: ApprovalWhen::Never };
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
            ("", false),
        ] {
            assert_eq!(rule(glob).matches(name), expected, "{glob}");
        }
    }
}
