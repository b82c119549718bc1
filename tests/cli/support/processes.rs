//! Watching processes: by pidfd, so that a number that is used again cannot mislead.

use std::{
    fs,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::Instant,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
};

use super::{PATIENCE, between_looks};

/// One process that is watched.
#[derive(Debug)]
pub(crate) struct Watched {
    pid: Pid,
    handle: OwnedFd,
}

impl Watched {
    /// Begins to watch a process that runs.
    pub(crate) fn new(pid: u32) -> Self {
        let pid = Pid::from_raw(pid.cast_signed()).expect("a process id");
        let handle = pidfd_open(pid, PidfdFlags::empty())
            .unwrap_or_else(|error| panic!("process {pid:?} does not run: {error}"));
        Self { pid, handle }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("the process can be signalled");
    }

    /// Claims that it ends by itself.
    #[track_caller]
    pub(crate) fn expect_end(&self) {
        let timeout = Timespec::try_from(PATIENCE).expect("it fits");
        let mut fds = [PollFd::new(&self.handle, PollFlags::IN)];
        let ready = poll(&mut fds, Some(&timeout)).expect("a pidfd can be polled");
        assert_eq!(ready, 1, "process {:?} still runs: {:?}", self.pid, command_line(self.pid()));
    }

    /// Waits until it is stopped, every thread of it: before that the kernel does not count it as
    /// stopped.
    #[track_caller]
    pub(crate) fn expect_stop(&self) {
        let begun = Instant::now();
        let is_stopped =
            |thread: &PathBuf| status(thread, "State:").is_none_or(|state| state.starts_with('T'));
        let threads = PathBuf::from(format!("/proc/{}/task", self.pid()));
        while !super::entries(&threads).iter().all(is_stopped) {
            assert!(begun.elapsed() < PATIENCE, "process {:?} did not stop", self.pid);
            between_looks();
        }
    }

    /// Whether it runs.
    pub(crate) fn runs(&self) -> bool {
        let timeout = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.handle, PollFlags::IN)];
        poll(&mut fds, Some(&timeout)).expect("a pidfd can be polled") == 0
    }
}

/// The processes that have this text in their command line, the test itself left out.
pub(crate) fn with_argument(text: &str) -> Vec<u32> {
    processes()
        .into_iter()
        .filter(|pid| *pid != std::process::id())
        .filter(|pid| command_line(*pid).contains(text))
        .collect()
}

/// The processes that are `sleep SECONDS` and nothing else. Each test has a number of its own.
pub(crate) fn sleeping(seconds: &str) -> Vec<u32> {
    let wanted = format!("sleep {seconds} ");
    processes().into_iter().filter(|pid| command_line(*pid) == wanted).collect()
}

/// Waits until `sleep SECONDS` runs, and watches all that do.
#[track_caller]
pub(crate) fn wait_for_sleep(seconds: &str) -> Vec<Watched> {
    let begun = Instant::now();
    loop {
        let found: Vec<Watched> = sleeping(seconds).into_iter().map(Watched::new).collect();
        if !found.is_empty() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "`sleep {seconds}` did not appear");
        between_looks();
    }
}

/// The direct children of a process.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    processes().into_iter().filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

/// Everything below a process.
pub(crate) fn descendants(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(children(parent));
        next += 1;
    }
    found.split_off(1)
}

/// The arguments of a process, joined by spaces; empty when it is gone.
pub(crate) fn command_line(pid: u32) -> String {
    let raw = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&raw).replace('\0', " ")
}

/// What the descriptors of a process lead to, by number; nothing when it has ended meanwhile.
pub(crate) fn descriptors(pid: u32) -> Vec<(u32, String)> {
    let listed = match fs::read_dir(format!("/proc/{pid}/fd")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        listed => listed.expect("the descriptors can be listed"),
    };
    let mut descriptors: Vec<_> = listed
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let number = path.file_name()?.to_str()?.parse().ok()?;
            Some((number, fs::read_link(&path).ok()?.to_string_lossy().into_owned()))
        })
        .collect();
    descriptors.sort();
    descriptors
}

fn processes() -> Vec<u32> {
    fs::read_dir("/proc")
        .expect("/proc can be listed")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    status(Path::new(&format!("/proc/{pid}")), "PPid:")?.parse().ok()
}

/// One line of proc_pid_status(5).
fn status(process: &Path, key: &str) -> Option<String> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    Some(status.lines().find_map(|line| line.strip_prefix(key))?.trim().to_owned())
}
