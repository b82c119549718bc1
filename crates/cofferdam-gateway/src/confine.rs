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
        expect_unopenable(&openable)?;
    }
    seccompiler::apply_filter(&program).map_err(ConfineError::Filter)?;
    expect_unopenable(&openable)?;
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

fn expect_unopenable(paths: &[&'static str]) -> Result<(), ConfineError> {
    for path in paths {
        let outcome = match File::open(Path::new(path)) {
            // EACCES from Landlock, EPERM from the filter.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    /// Confines a thread of its own, which is what the rules bind, and runs `inside` there.
    fn confined<T: Send + 'static>(inside: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(|| {
            confine_this_thread().unwrap();
            inside()
        })
        .join()
        .unwrap()
    }

    fn is_denied<T>(outcome: io::Result<T>) -> bool {
        outcome.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    }

    #[test]
    fn nothing_can_be_opened_made_or_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "x").unwrap();
        // The positive control: all of it works before.
        File::open(&path).unwrap();
        let inside = path.clone();
        let denied = confined(move || {
            [
                is_denied(File::open(&inside)),
                is_denied(File::create(inside.with_extension("new"))),
                is_denied(std::fs::read_dir(inside.parent().unwrap())),
                is_denied(std::fs::remove_file(&inside)),
                is_denied(std::fs::create_dir(inside.with_extension("dir"))),
                is_denied(std::fs::rename(&inside, inside.with_extension("moved"))),
            ]
        });
        assert_eq!(denied, [true; 6]);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "what is tried is that no program starts")]
    fn no_program_can_be_executed_by_the_thread_or_its_children() {
        let program = std::env::current_exe().unwrap();
        let list = |program: &Path| Command::new(program).arg("--list").output();
        assert!(list(&program).is_ok());
        let outcomes = confined(move || {
            let here = list(&program);
            let below = std::thread::spawn(move || list(&program)).join().unwrap();
            [is_denied(here), is_denied(below)]
        });
        assert_eq!(outcomes, [true, true]);
    }

    #[test]
    fn other_processes_and_new_listeners_are_out_of_reach() {
        let pid = rustix::process::getpid();
        let outcomes = confined(move || {
            [
                is_denied(std::net::TcpListener::bind("127.0.0.1:0")),
                is_denied(rustix::process::test_kill_process(pid).map_err(io::Error::from)),
                is_denied(rustix::process::chdir("/").map_err(io::Error::from)),
            ]
        });
        assert_eq!(outcomes, [true; 3]);
    }

    #[test]
    fn connecting_to_a_socket_by_its_path_still_works_also_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let connected = confined(move || [(); 2].map(|()| UnixStream::connect(&path).is_ok()));
        assert_eq!(connected, [true, true]);
        listener.accept().unwrap();
    }

    #[test]
    fn a_confined_runtime_serves_and_reconnects() {
        use crate::client::WorkerClient;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("worker");
        let worker = std::thread::spawn({
            let listener = UnixListener::bind(&path).unwrap();
            move || {
                for _ in 0..2 {
                    answer_one_health_question(&listener);
                }
            }
        });
        let healths = confined(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let endpoint = cofferdam_protocol::Endpoint::Unix(path);
                let client = WorkerClient::connect(endpoint, None).await.unwrap();
                let first = client.health().await;
                client.connection_lost().await;
                let second = client.health().await;
                [first.is_ok(), second.is_ok()]
            })
        });
        assert_eq!(healths, [true, true]);
        worker.join().unwrap();
    }

    /// Serves one connection as a worker would that dies after its first answer.
    fn answer_one_health_question(listener: &UnixListener) {
        use std::io::{Read, Write};

        use cofferdam_protocol::{FromWorker, Health, Hello, PROTOCOL_VERSION, frame};

        let (mut stream, _) = listener.accept().unwrap();
        let hello = FromWorker::Hello(Hello { version: PROTOCOL_VERSION, token: None });
        let health = Health { pid: 1, running: 0, queued: 0, generation: 1, reload_error: None };
        let health = FromWorker::Health { id: 1, health };
        for answer in [hello, health] {
            let mut length = [0; 4];
            stream.read_exact(&mut length).unwrap();
            let mut payload = vec![0; u32::from_be_bytes(length) as usize];
            stream.read_exact(&mut payload).unwrap();
            let answer = frame::encode(&answer).unwrap();
            stream.write_all(&(answer.len() as u32).to_be_bytes()).unwrap();
            stream.write_all(&answer).unwrap();
        }
    }

    #[test]
    fn a_process_with_more_threads_is_not_confined_and_says_why() {
        // The test harness has threads of its own beside this one.
        let error = confine().unwrap_err();
        assert!(
            matches!(error, ConfineError::OtherThreads { threads } if threads > 1),
            "{error:?}"
        );
        File::open("/proc/self/exe").unwrap();
    }

    #[test]
    fn a_canary_that_is_not_held_is_an_error() {
        let error = expect_unopenable(&["/"]).unwrap_err();
        assert_eq!(error.to_string(), "the proof failed: opening `/` succeeded");
        let error = expect_unexecutable().unwrap_err();
        assert!(error.to_string().contains("executing a program failed otherwise"), "{error}");
    }
}
