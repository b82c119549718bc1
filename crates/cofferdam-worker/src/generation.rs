//! What calls are decided by: made of files, replaced whole by a reload, read once by each call.
//!
//! Not here: reading the files, which is the program's.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use cofferdam_fs::Workspace;
use cofferdam_policy::Profile;
use cofferdam_protocol::Failure;

use crate::{
    failure,
    runtime::Runtimes,
    settings::{Rules, WorkerSettings},
};

/// The rules of one generation, and what was worked out from them.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) rules: Rules,
    /// Where programs are looked for depends on what the profiles let runs write.
    pub(crate) runtimes: Runtimes,
    session_profile: Option<String>,
}

/// The generation in force, and why the newest files are not, if they are not.
#[derive(Debug)]
pub(crate) struct Generations {
    current: RwLock<Arc<Generation>>,
    reload_error: Mutex<Option<String>>,
}

/// What one call is decided on. Fixed when the call begins: a reload changes nothing of it.
#[derive(Clone, Debug)]
pub(crate) struct Basis {
    pub(crate) generation: Arc<Generation>,
    pub(crate) profile: Profile,
    pub(crate) workspace: Workspace,
}

impl Generations {
    pub(crate) fn new(first: Generation) -> Self {
        Self { current: RwLock::new(Arc::new(first)), reload_error: Mutex::default() }
    }

    /// The one that calls begin with now.
    pub(crate) fn current(&self) -> Arc<Generation> {
        // Whole even if a holder panicked: it is replaced in one piece.
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts the next one in force.
    pub(crate) fn replace(&self, next: Generation) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }

    /// Why the newest files are not in force.
    pub(crate) fn reload_error(&self) -> Option<String> {
        self.reload_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes how the newest files fared.
    pub(crate) fn note(&self, reload_error: Option<String>) {
        *self.reload_error.lock().unwrap_or_else(PoisonError::into_inner) = reload_error;
    }
}

impl Generation {
    /// # Errors
    /// `profile_unknown` when the default or the session's profile does not exist, with a hint.
    pub(crate) fn new(
        rules: Rules,
        settings: &WorkerSettings,
        workspace: &Path,
    ) -> Result<Self, Failure> {
        let named = [Some(&rules.default_profile), settings.session_profile.as_ref()];
        for name in named.into_iter().flatten() {
            rules.profiles.get(name).map_err(|error| failure::of_profile(&error))?;
        }
        let runtimes =
            Runtimes::new(&settings.environment, &settings.homes, workspace, &rules.profiles);
        Ok(Self { rules, runtimes, session_profile: settings.session_profile.clone() })
    }

    /// Which one it is: 1 at the start, more with each reload.
    pub(crate) fn number(&self) -> u64 {
        self.rules.profiles.generation()
    }

    /// The profile of that name, else the session's, else the default one.
    ///
    /// # Errors
    /// `profile_unknown`, with the names that there are.
    pub(crate) fn profile(&self, name: Option<&str>) -> Result<&Profile, Failure> {
        let name = name.or(self.session_profile.as_deref()).unwrap_or(&self.rules.default_profile);
        self.rules.profiles.get(name).map_err(|error| failure::of_profile(&error))
    }
}
