//! Probes, launches, watches, captures and ends one command under a [`Grant`].
//!
//! The only place that starts a process for a call. It takes a `Grant` and nothing else as
//! permission; it never weakens what was granted, and it reports what was armed and proven in that
//! very run. Not here: deciding (the policy crate), what an agent sees (the worker).
//!
//! [`Grant`]: cofferdam_policy::Grant

mod bubblewrap;
mod capture;
mod carve_outs;
mod control;
mod enforcement;
mod environment;
mod folders;
mod forward;
mod identity;
mod init_program;
pub mod io;
mod layout;
pub mod outcome;
mod process;
mod repositories;
mod run;
mod search;
pub mod seccomp;
mod spawner;
mod streams;
pub mod sys;

use std::{collections::BTreeMap, ffi::OsString, os::fd::OwnedFd, sync::Arc};

use cofferdam_fs::Workspace;
use cofferdam_policy::{BackendKind, Dimension, Grant, PendingGrant, Profile, Strength};

pub use io::{EndRequests, Input, RunIo, RunProgress, Terminal, WindowSize};
pub use outcome::{
    Captured, Ending, EnforcementReport, LimitHit, NotStarted, NotStartedKind, Outcome,
    Quarantined, Usage,
};
pub use search::SearchPath;

/// What the backends take from the outside, once.
#[derive(Clone, Debug)]
pub struct BackendSettings {
    /// The environment of the server: profiles name what of it is passed on.
    pub environment: BTreeMap<OsString, OsString>,
    /// Where programs of this machine are looked for: nowhere that a run can write.
    pub search: SearchPath,
}

/// The backends of this machine. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Backends {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    settings: BackendSettings,
    spawner: spawner::Spawner,
    identities: identity::Identities,
    init: OwnedFd,
    filters: Vec<Vec<u8>>,
    memories: carve_outs::Memories,
}

/// No backend can be used for a grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// None of the allowed backends works here.
    #[error("no backend of profile `{profile}` can be used here: {causes}")]
    Unavailable {
        /// Name of the profile.
        profile: String,
        /// One cause per backend, joined by `; `.
        causes: String,
        /// The remedy.
        hint: String,
    },
    /// The allowed backends that work would hold less than the profile requires.
    #[error(
        "backend `{backend}` holds `{dimension}` as `{held}` here, profile `{profile}` requires `{required}`",
        backend = backend.as_str(), dimension = dimension.as_str(),
        held = held.as_str(), required = required.as_str()
    )]
    TooWeak {
        /// Name of the profile.
        profile: String,
        /// The backend that came nearest.
        backend: BackendKind,
        /// The dimension in which it is too weak.
        dimension: Dimension,
        /// What it would hold.
        held: Strength,
        /// What the profile requires.
        required: Strength,
        /// The remedy.
        hint: String,
    },
}

impl SelectError {
    /// The next step.
    pub fn hint(&self) -> &str {
        match self {
            Self::Unavailable { hint, .. } | Self::TooWeak { hint, .. } => hint,
        }
    }
}

/// The backends could not be set up at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The syscall filter could not be built.
    #[error("building the syscall filter")]
    Filter(#[source] seccomp::SeccompError),
    /// The thread that starts processes could not be started.
    #[error("starting the spawner thread")]
    Spawner(#[source] std::io::Error),
    /// The program that is first inside every sandbox could not be made ready.
    #[error("preparing `cofferdam-init`")]
    Init(#[source] std::io::Error),
    /// The user that commands of a root server become could not be set up.
    #[error("setting up the user that sandboxed commands become")]
    Identity(#[source] std::io::Error),
}

impl Backends {
    /// Makes the backends ready. Probes nothing yet.
    ///
    /// # Errors
    /// [`BackendError`] when not even one backend could ever be used.
    pub fn new(settings: BackendSettings) -> Result<Self, BackendError> {
        let filters =
            seccomp::programs(seccomp::FilterOptions::default()).map_err(BackendError::Filter)?;
        let spawner = spawner::Spawner::start().map_err(BackendError::Spawner)?;
        let init = init_program::descriptor().map_err(BackendError::Init)?;
        let identities = identity::Identities::prepare(&init).map_err(BackendError::Identity)?;
        let memories = carve_outs::Memories::default();
        let inner = Inner { settings, spawner, identities, init, filters, memories };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The backends that work on this machine, as far as can be told without starting one.
    pub fn usable(&self) -> Vec<BackendKind> {
        // The others are not built into this version.
        self.bubblewrap().map(|_| BackendKind::Bubblewrap).into_iter().collect()
    }

    /// In which backend a pending grant would run, and how strongly that would hold it.
    ///
    /// # Errors
    /// As for [`execute`](Self::execute): what cannot run need not be approved.
    pub fn promise(
        &self,
        pending: &PendingGrant,
    ) -> Result<(BackendKind, EnforcementReport), SelectError> {
        self.select(pending.profile(), pending.backends())
            .map(|selected| (BackendKind::Bubblewrap, selected.promised))
    }

    /// Runs a granted command to its end, in the first backend that is allowed, works here and
    /// holds what the profile requires. `workspace` is the one that the grant names.
    ///
    /// When it returns, nothing of the run is left: no process, no mount, no descriptor.
    ///
    /// # Errors
    /// [`SelectError`] when no backend fits; nothing was started then. A sandbox that could not be
    /// built is an [`Ending::NotStarted`], not an error.
    pub async fn execute(
        &self,
        grant: &Grant,
        workspace: &Workspace,
        io: RunIo,
        ends: EndRequests,
    ) -> Result<Outcome, SelectError> {
        let Selected { bubblewrap, .. } = self.select(grant.profile(), grant.backends())?;
        // The streams are used up by the first start; the next backend would need its own. Only
        // one is built, so there is no next.
        run::in_bubblewrap(&self.shared(), &bubblewrap, grant, workspace, io, &ends).await.map_err(
            |unusable| SelectError::Unavailable {
                profile: grant.profile().name.clone(),
                causes: unusable.to_string(),
                hint: unusable.hint(),
            },
        )
    }

    /// The first of these backends that works here, if it holds what the profile requires.
    fn select(&self, profile: &Profile, allowed: &[BackendKind]) -> Result<Selected, SelectError> {
        let mut causes = Vec::new();
        let mut hints = Vec::new();
        for kind in allowed {
            if *kind != BackendKind::Bubblewrap {
                causes.push(format!("{} is not built into this version", kind.as_str()));
                continue;
            }
            let bubblewrap = match self.bubblewrap() {
                Ok(found) => found,
                Err(unusable) => {
                    causes.push(unusable.to_string());
                    hints.push(unusable.hint());
                    continue;
                }
            };
            let promised = enforcement::promise(profile, self.shared().root_outside());
            if let Some(dimension) = promised.enforcement.weaker_than(&profile.require) {
                return Err(SelectError::TooWeak {
                    profile: profile.name.clone(),
                    backend: *kind,
                    dimension,
                    held: promised.enforcement.get(dimension),
                    required: profile.require.get(dimension),
                    hint: format!(
                        "not armed here: {}; use a profile that requires less, or leave those out",
                        promised.not_armed.join(", ")
                    ),
                });
            }
            return Ok(Selected { bubblewrap, promised });
        }
        Err(SelectError::Unavailable {
            profile: profile.name.clone(),
            causes: causes.join("; "),
            hint: hints
                .pop()
                .unwrap_or_else(|| "use a profile whose `backends` list `bubblewrap`".to_owned()),
        })
    }

    fn bubblewrap(&self) -> Result<bubblewrap::Bubblewrap, bubblewrap::Unusable> {
        bubblewrap::Bubblewrap::find(&self.inner.settings.search)
    }

    fn shared(&self) -> run::Shared<'_> {
        let Inner { settings, spawner, identities, init, filters, memories } = &*self.inner;
        run::Shared { settings, spawner, identities, init, filters, memories }
    }
}

/// A backend that can be used, and what it promises.
struct Selected {
    bubblewrap: bubblewrap::Bubblewrap,
    promised: EnforcementReport,
}
