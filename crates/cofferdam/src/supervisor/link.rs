//! How the supervisor's children know that they have a supervisor, and end with it.

use std::{env, io, process};

use cofferdam_backend::sys;
use rustix::process::{Pid, Signal, getppid};

/// Environment variable with the supervisor's process id.
const SUPERVISOR: &str = "COFFERDAM_SUPERVISOR";
/// Environment variable with the shared secret of a TCP endpoint: never in argv, which others see.
pub(crate) const WORKER_TOKEN: &str = "COFFERDAM_WORKER_TOKEN";

/// Proof that this process was started by a supervisor and ends with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Supervised {
    supervisor: Pid,
}

impl Supervised {
    /// What a supervisor puts into its children's environment.
    pub(super) fn mark() -> (&'static str, String) {
        (SUPERVISOR, process::id().to_string())
    }

    /// In a child: asks the kernel for `signal` when the supervisor ends. `None` when this process
    /// was started by somebody else, whose death is then none of its business.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn by_environment(signal: Signal) -> io::Result<Option<Self>> {
        let announced = env::var(SUPERVISOR).ok().and_then(|pid| pid.parse().ok());
        let Some(supervisor) = announced.and_then(Pid::from_raw) else { return Ok(None) };
        sys::die_with_parent(signal)?;
        let supervised = Self { supervisor };
        // It may have died before the kernel was asked.
        if supervised.is_orphan() {
            rustix::process::kill_process(rustix::process::getpid(), signal)?;
        }
        Ok(Some(supervised))
    }

    /// Whether the supervisor is gone.
    pub(crate) fn is_orphan(&self) -> bool {
        getppid() != Some(self.supervisor)
    }
}
