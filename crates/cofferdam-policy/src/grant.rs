//! The decision: a plan and facts in, a [`Grant`], a [`PendingGrant`] or a [`Refusal`] out.
//!
//! [`authorize`] is the only way to a `Grant`, directly or through a person's approval, and only a
//! `Grant` can be launched, so what runs is what was decided. Nothing here reads a file, the clock or
//! the environment.

use std::{path::PathBuf, time::Duration};

use crate::{
    approval::{self, Approval, PendingGrant},
    document::shown,
    enforcement::Enforcement,
    profile::{ApprovalWhen, BackendKind, Profile},
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
/// Only [`authorize`] makes one, or [`PendingGrant::approve`] of what it made.
#[derive(Clone, Debug)]
pub struct Grant {
    plan: CommandPlan,
    profile: Profile,
    generation: u64,
    backends: Vec<BackendKind>,
    timeout: Option<Duration>,
    timeout_capped: bool,
    approval: Option<Approval>,
    directory: Option<(u64, u64)>,
}

/// What [`authorize`] decided.
#[derive(Debug)]
#[must_use]
pub enum Decision {
    /// It may run.
    Granted(Box<Grant>),
    /// It may run once a person has agreed.
    NeedsApproval(Box<PendingGrant>),
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
}

impl Refusal {
    /// The next step for whoever asked.
    pub fn hint(&self) -> String {
        match self {
            Self::NoSuchBackend(_) => "the backends are bubblewrap, container, host".to_owned(),
            Self::BackendNotAllowed { allowed, .. } => {
                format!("the profile allows {allowed}; leave `backend` out for its first that fits")
            }
        }
    }
}

/// Decides whether, and how, a plan may run.
///
/// `usable` are the backends that work on this machine. The first allowed one of them is the one that
/// would be used (when there is none, the first allowed one), and what must be asked about is decided
/// for that one. Backends that would have to be asked about are never fallen back to.
///
/// # Errors
/// [`Refusal`] names what stood in the way.
pub fn authorize(
    plan: CommandPlan,
    profile: &Profile,
    generation: u64,
    usable: &[BackendKind],
) -> Result<Decision, Refusal> {
    let backends = allowed_backends(&plan, profile)?;
    let rule = approval::deciding_rule(&plan, profile);
    let when = rule.map_or(ApprovalWhen::Unsandboxed, |rule| rule.when);
    let asks = |kind: BackendKind| approval::reason(when, &plan, profile, kind);
    let chosen = backends.iter().find(|kind| usable.contains(kind)).or(backends.first()).copied();
    let reason = chosen.and_then(asks);
    let backends = match (chosen, &reason) {
        (Some(chosen), Some(_)) => vec![chosen],
        _ => backends.into_iter().filter(|kind| asks(*kind).is_none()).collect(),
    };
    let rule = rule.map(|rule| rule.tool.as_str().to_owned());
    let limits = &profile.limits;
    let asked = plan.timeout.unwrap_or(limits.timeout);
    let (timeout, timeout_capped) = if plan.without_deadline && plan.timeout.is_none() {
        (None, false)
    } else {
        (Some(asked.min(limits.timeout_max)), asked > limits.timeout_max)
    };
    let profile = profile.clone();
    let grant = Grant {
        plan,
        profile,
        generation,
        backends,
        timeout,
        timeout_capped,
        approval: None,
        directory: None,
    };
    Ok(match reason {
        None => Decision::Granted(Box::new(grant)),
        Some(reason) => Decision::NeedsApproval(Box::new(PendingGrant::new(grant, reason, rule))),
    })
}

/// The backends that the profile allows, narrowed to the one that the caller asked for.
fn allowed_backends(plan: &CommandPlan, profile: &Profile) -> Result<Vec<BackendKind>, Refusal> {
    let Some(name) = plan.backend.as_deref() else { return Ok(profile.backends.clone()) };
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
    Ok(vec![wanted])
}

impl Grant {
    pub(crate) fn held_at(self, directory: (u64, u64)) -> Self {
        Self { directory: Some(directory), ..self }
    }

    pub(crate) fn approved(self, approval: Approval) -> Self {
        Self { approval: Some(approval), ..self }
    }

    /// How a person agreed, when one had to.
    pub fn approval(&self) -> Option<Approval> {
        self.approval
    }

    /// Device and inode of the working directory, when it must be the very one that was asked about.
    pub fn directory(&self) -> Option<(u64, u64)> {
        self.directory
    }

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

    fn granted(plan: CommandPlan, text: &str) -> Grant {
        match authorize(plan, &profile(text), 7, &[]) {
            Ok(Decision::Granted(grant)) => *grant,
            other => panic!("{other:?}"),
        }
    }

    const TWO: &str = "backends = [\"container\", \"bubblewrap\"]\n";

    #[test]
    fn the_profiles_backends_are_granted_in_its_order() {
        let grant = granted(plan(), TWO);
        assert_eq!(grant.backends(), [BackendKind::Container, BackendKind::Bubblewrap]);
        assert_eq!(grant.generation(), 7);
    }

    #[test]
    fn a_backend_that_is_asked_for_is_the_only_one_and_must_be_listed() {
        let asking = |name: &str| CommandPlan { backend: Some(name.to_owned()), ..plan() };
        let grant = granted(asking("bubblewrap"), TWO);
        assert_eq!(grant.backends(), [BackendKind::Bubblewrap]);
        let ask = |name: &str| authorize(asking(name), &profile(TWO), 1, &[]);
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
            let grant = granted(plan, &text);
            assert_eq!((grant.timeout(), grant.timeout_capped()), (expected, capped));
        }
    }
}
