//! Giving up, for good, the right to execute programs and to open files.
//!
//! The gateway parses what strangers send. After start-up it only reads, writes, connects to the
//! worker and accepts clients; so nothing else is left to whoever takes it over. Two layers, each
//! of which denies opening by itself: Landlock (every file system right this kernel knows, new TCP
//! listeners, signals and abstract sockets beyond this process) and a system call filter
//! ([`filter`]). Neither governs descriptors that are already open.
//!
//! That it holds is proven by canaries, not concluded from return codes.
//!
//! Not here: sandboxes for runs; they belong to the worker's side.

mod filter;

use std::{fs::File, io, path::Path, process::Command};

use landlock::{
    ABI, Access, AccessFs, AccessNet, LandlockStatus, Ruleset, RulesetAttr, RulesetError,
    RulesetStatus, Scope,
};

/// The newest Landlock version whose rights are asked for; older kernels get what they know.
///
/// Not newer on purpose: from version 9 on, Landlock can deny connecting to a Unix socket by its
/// path, and the gateway must be able to reach a worker that was started again.
const NEWEST_ABI: ABI = ABI::V8;
/// Files that exist on every system with `/proc`, and the root directory.
const CANARY_FILES: [&str; 2] = ["/", "/proc/self/exe"];
/// Must not exist: were the filter missing, the canary would start it.
const CANARY_PROGRAM: &str = "/cofferdam-canary/there-is-no-such-program";

/// The process could not be confined, or the proof that it is failed.
///
/// The process may be confined in part when this is returned; it must not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfineError {
    /// Landlock binds one thread; the others would keep their rights.
    #[error("{threads} threads are running, confinement needs to be the work of the only one")]
    OtherThreads {
        /// How many there are.
        threads: usize,
    },
    /// The threads of this process cannot be counted.
    #[error("cannot count this process's threads")]
    Threads(#[source] io::Error),
    /// The kernel knows Landlock and did not take the rules.
    #[error("cannot apply Landlock rules")]
    Landlock(#[source] RulesetError),
    /// The system call filter cannot be built or was not taken.
    #[error("cannot apply the system call filter")]
    Filter(#[source] seccompiler::Error),
    /// Something that must be denied was not.
    #[error("the proof failed: {canary} {outcome}")]
    NotHeld {
        /// What was tried.
        canary: Canary,
        /// What happened.
        outcome: String,
    },
}

/// Something that is tried to prove that it is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Canary {
    /// Opening a file or directory that could be opened before.
    Open(&'static str),
    /// Executing a program.
    Execute,
}

impl std::fmt::Display for Canary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Open(path) => write!(f, "opening `{path}`"),
            Self::Execute => f.write_str("executing a program"),
        }
    }
}

/// How strongly this process is confined. That it can neither execute nor open was proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Confinement {
    /// Whether Landlock enforces its rules too, and not the filter alone; proven by canaries of its
    /// own. False on kernels that do not have it.
    pub landlock: bool,
}

impl std::fmt::Display for Confinement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let layers = if self.landlock { "Landlock and a filter" } else { "a filter, no Landlock" };
        write!(f, "no program can be executed and no file opened ({layers})")
    }
}

/// Confines this process: from now on it cannot execute programs or open files, nor can the threads
/// that it starts.
///
/// Must be called while there is one thread: before a multi-threaded runtime starts, or on a
/// current-thread runtime that has not used its blocking pool. Connecting to Unix sockets by path
/// keeps working.
///
/// # Errors
/// See [`ConfineError`]. A kernel without Landlock is no error: the filter alone denies the same.
pub fn confine() -> Result<Confinement, ConfineError> {
    let tasks = std::fs::read_dir("/proc/self/task").map_err(ConfineError::Threads)?;
    match tasks.count() {
        1 => confine_this_thread(),
        threads => Err(ConfineError::OtherThreads { threads }),
    }
}

fn confine_this_thread() -> Result<Confinement, ConfineError> {
    // What cannot be opened before proves nothing after.
    let openable: Vec<_> =
        CANARY_FILES.into_iter().filter(|path| File::open(path).is_ok()).collect();
    let program = filter::program().map_err(ConfineError::Filter)?;
    let landlock = apply_landlock().map_err(ConfineError::Landlock)?;
    if landlock {
        // Now, for afterwards the filter would answer in Landlock's place.
        expect_unopenable(&openable, io::ErrorKind::PermissionDenied)?;
    }
    seccompiler::apply_filter(&program).map_err(ConfineError::Filter)?;
    expect_unopenable(&openable, io::ErrorKind::PermissionDenied)?;
    expect_unexecutable()?;
    Ok(Confinement { landlock })
}

/// Whether Landlock enforces something now; false when this kernel does not have it.
fn apply_landlock() -> Result<bool, RulesetError> {
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST_ABI))?
        .handle_access(AccessNet::BindTcp)?
        .scope(Scope::from_all(NEWEST_ABI))?
        .create()?
        .restrict_self()?;
    tracing::debug!(?status, "landlock");
    Ok(status.ruleset != RulesetStatus::NotEnforced
        && matches!(status.landlock, LandlockStatus::Available { .. }))
}

fn expect_unopenable(paths: &[&'static str], expected: io::ErrorKind) -> Result<(), ConfineError> {
    for path in paths {
        let outcome = match File::open(Path::new(path)) {
            Err(error) if error.kind() == expected => continue,
            Err(error) => format!("failed otherwise: {error}"),
            Ok(_) => "succeeded".to_owned(),
        };
        return Err(ConfineError::NotHeld { canary: Canary::Open(path), outcome });
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the canary: starting a program must fail")]
fn expect_unexecutable() -> Result<(), ConfineError> {
    // Nothing is started: the program does not exist, and the filter denies the attempt before the
    // kernel looks for it, which is what tells the two apart.
    let outcome = match Command::new(CANARY_PROGRAM).spawn() {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => return Ok(()),
        Err(error) => format!("failed otherwise: {error}"),
        Ok(_) => "succeeded".to_owned(),
    };
    Err(ConfineError::NotHeld { canary: Canary::Execute, outcome })
}
