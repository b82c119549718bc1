//! A workspace, the program on it, and the same command without the program.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

/// How long anything here may take before it counts as hanging. Not a measure of speed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A workspace of its own, removed at the end.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary directory") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, content).expect("writing into the workspace");
        path
    }

    /// `cofferdam run` on this workspace.
    pub(crate) fn run(&self) -> Command {
        let mut command = program();
        command.arg("run").arg("-w").arg(self.path()).args(["--timeout", "50s", "--"]);
        command
    }

    /// Bash inside.
    pub(crate) fn bash(&self, code: &str) -> Answer {
        Answer::of(self.run().args(["bash", "-c", code]))
    }

    /// Python inside.
    pub(crate) fn python(&self, code: &str) -> Answer {
        Answer::of(self.run().args(["/usr/bin/python3", "-c", code]))
    }

    /// The positive control: Bash on the same folder, without the sandbox.
    pub(crate) fn bash_outside(&self, code: &str) -> Answer {
        Answer::of(Command::new("bash").args(["-c", code]).current_dir(self.path()))
    }

    /// The positive control: Python on the same folder, without the sandbox.
    pub(crate) fn python_outside(&self, code: &str) -> Answer {
        Answer::of(Command::new("/usr/bin/python3").args(["-c", code]).current_dir(self.path()))
    }
}

/// Path of the built program. The suite may be run as a user who cannot read where it was built.
pub(crate) fn program_path() -> PathBuf {
    let given = std::env::var_os("COFFERDAM_BIN").map(PathBuf::from);
    given.unwrap_or_else(|| env!("CARGO_BIN_EXE_cofferdam").into())
}

/// The built program.
pub(crate) fn program() -> Command {
    let mut command = Command::new(program_path());
    // Servers would write theirs into the home of whoever runs this.
    command.stdin(Stdio::null()).env("COFFERDAM_AUDIT__ENABLED", "false");
    command
}

/// What a command answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Answer {
    pub(crate) fn of(command: &mut Command) -> Self {
        let Output { status, stdout, stderr } = command.output().expect("starting a command");
        Self {
            code: status.code(),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }

    /// The trimmed output of a command that must have succeeded.
    #[track_caller]
    pub(crate) fn ok(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout.trim()
    }
}

/// A process of this machine that an attack aims at.
pub(crate) struct Victim(Child);

impl Victim {
    pub(crate) fn start() -> Self {
        let child = Command::new("sleep").arg("300").spawn().expect("starting a victim");
        Self(child)
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn lives(&mut self) -> bool {
        self.0.try_wait().expect("waiting for the victim").is_none()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A text that nothing else on this machine holds.
pub(crate) fn marker(name: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("{name}-{}-{}", std::process::id(), now.expect("a clock").as_nanos())
}

/// Processes of this machine whose command line holds `text`, this one and its own parents not.
pub(crate) fn processes_with(text: &str) -> Vec<u32> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|id| *id != own)
        .filter(|id| {
            let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(text)
        })
        .collect()
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "still not so: {what}");
        std::thread::yield_now();
    }
}

/// The first line that a child prints.
pub(crate) fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("reading a line");
    line
}
