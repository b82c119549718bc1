//! The decision: a plan and facts in, a [`Grant`] or a [`Refusal`] out.
//!
//! [`authorize`] is the only way to a `Grant`, and only a `Grant` can be launched, so what runs is
//! what was decided. Nothing here reads a file, the clock or the environment.

use std::{path::PathBuf, time::Duration};

use crate::{
    enforcement::Enforcement,
    profile::{BackendKind, Profile},
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
    #[error("`{0}` is not a backend")]
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
/// # Errors
/// [`Refusal`] names what stood in the way.
pub fn authorize(plan: CommandPlan, profile: &Profile, generation: u64) -> Result<Grant, Refusal> {
    let backends = match plan.backend.as_deref() {
        None => profile.backends.clone(),
        Some(name) => {
            let wanted = [BackendKind::Bubblewrap, BackendKind::Container, BackendKind::Host]
                .into_iter()
                .find(|kind| kind.as_str() == name)
                .ok_or_else(|| Refusal::NoSuchBackend(name.chars().take(60).collect()))?;
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
    let limits = &profile.limits;
    let asked = plan.timeout.unwrap_or(limits.timeout);
    let (timeout, timeout_capped) = if plan.without_deadline && plan.timeout.is_none() {
        (None, false)
    } else {
        (Some(asked.min(limits.timeout_max)), asked > limits.timeout_max)
    };
    Ok(Grant { plan, profile: profile.clone(), generation, backends, timeout, timeout_capped })
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
