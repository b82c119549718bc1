//! What the claims share: a workspace of their own, the built program, and watching processes.

pub(crate) mod client;
pub(crate) mod processes;
pub(crate) mod server;
pub(crate) mod terminal;

use std::{
    ffi::OsStr,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Output, Stdio},
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;

/// How long anything here may take before a test gives up. Never a measure of speed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The built program of that name. `COFFERDAM_BIN` names a copy, where the build's folder cannot be
/// read by whoever runs this.
pub(crate) fn program(name: &str) -> PathBuf {
    match std::env::var_os("COFFERDAM_BIN") {
        Some(copy) => Path::new(&copy).with_file_name(name),
        None => Path::new(env!("CARGO_BIN_EXE_cofferdam")).with_file_name(name),
    }
}

/// The program itself, for scripts.
pub(crate) fn own() -> String {
    program("cofferdam").to_str().expect("UTF-8").to_owned()
}

/// A fresh workspace, and a world around it in which nothing of the machine's is configured.
#[derive(Debug)]
pub(crate) struct World {
    root: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let root = tempfile::Builder::new()
            .prefix("cofferdam-cli-")
            .tempdir()
            .expect("a temporary directory can be made");
        let world = Self { root };
        for folder in [world.workspace(), world.home(), world.runtime()] {
            fs::create_dir(folder).expect("a folder can be made");
        }
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(world.runtime(), private).expect("permissions can be set");
        world
    }

    /// The folder that code may work on.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.root.path().join("workspace")
    }

    /// The person's home directory.
    pub(crate) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// `$XDG_RUNTIME_DIR`
    pub(crate) fn runtime(&self) -> PathBuf {
        self.root.path().join("runtime")
    }

    /// A path beside the workspace.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Writes a file into the workspace.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.workspace().join(name);
        fs::write(&path, content).expect("a file can be written");
        path
    }

    /// The program, started in the workspace, with nothing of the test's own environment but what
    /// finding programs needs.
    pub(crate) fn cofferdam(&self) -> Command {
        let mut command = Command::new(program("cofferdam"));
        self.surround(&mut command);
        command
    }

    /// Gives any command this world.
    pub(crate) fn surround(&self, command: &mut Command) {
        command.current_dir(self.workspace()).env_clear();
        for (name, value) in self.environment() {
            command.env(name, value);
        }
    }

    /// The environment of this world.
    pub(crate) fn environment(&self) -> Vec<(&'static str, std::ffi::OsString)> {
        let mut environment = vec![
            ("HOME", self.home().into_os_string()),
            ("XDG_RUNTIME_DIR", self.runtime().into_os_string()),
            ("LANG", "C.UTF-8".into()),
        ];
        // PYENV_ROOT and its like are not needed: shims are resolved.
        for name in ["PATH", "LLVM_PROFILE_FILE"] {
            if let Some(value) = std::env::var_os(name) {
                environment.push((name, value));
            }
        }
        environment
    }

    /// `cofferdam run OPTIONS… -- COMMAND…`
    pub(crate) fn run<S: AsRef<OsStr>>(&self, options: &[&str], command: &[S]) -> Command {
        let mut run = self.cofferdam();
        run.arg("run").args(options).arg("--").args(command);
        run
    }

    /// `cofferdam run -- sh -c SCRIPT`
    pub(crate) fn shell(&self, script: &str) -> Command {
        self.run(&[], &["sh", "-c", script])
    }

    /// What is left in the runtime directory.
    pub(crate) fn left_in_runtime(&self) -> Vec<PathBuf> {
        entries(&self.runtime())
    }
}

/// A pause between two looks at something that nothing announces, to leave the processor to it.
pub(crate) fn between_looks() {
    std::thread::sleep(Duration::from_millis(5));
}

/// The entries of a directory.
pub(crate) fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory)
        .expect("the directory can be listed")
        .map(|entry| entry.expect("an entry can be read").path())
        .collect()
}

/// One finished command, its streams as text.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// The exit code; a signal is a failed claim.
    #[track_caller]
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("killed by a signal: {self:?}"))
    }

    /// Claims the exit code.
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code(), code, "{self:?}");
        self
    }

    /// Standard output as one JSON value.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Claims an error message on standard error: begins with `error: `, once, and holds these.
    #[track_caller]
    pub(crate) fn expect_error(&self, parts: &[&str]) -> &Self {
        let errors = self.stderr.lines().filter(|line| line.starts_with("error: ")).count();
        assert_eq!(errors, 1, "{self:?}");
        for part in parts {
            assert!(self.stderr.contains(part), "`{part}` is not in {self:?}");
        }
        self
    }
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        Self {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Running a command to its end.
pub(crate) trait Finish {
    /// With an empty standard input.
    fn finish(&mut self) -> Finished;
    /// With this standard input.
    fn finish_with(&mut self, input: &[u8]) -> Finished;
}

impl Finish for Command {
    #[track_caller]
    fn finish(&mut self) -> Finished {
        self.stdin(Stdio::null()).output().expect("the program can be started").into()
    }

    #[track_caller]
    fn finish_with(&mut self, input: &[u8]) -> Finished {
        let mut child = self
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let mut stdin = child.stdin.take().expect("its input is a pipe");
        let input = input.to_vec();
        let writer = std::thread::spawn(move || {
            // The program need not read to the end.
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().expect("its output can be read");
        writer.join().expect("the writer ends");
        output.into()
    }
}
