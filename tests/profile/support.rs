//! What the claims share: a folder to configure in, and the built program.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

/// A configuration of its own, with nothing of the machine's around it.
#[derive(Debug)]
pub(crate) struct World(TempDir);

impl World {
    /// One without a configuration file.
    pub(crate) fn new() -> Self {
        let root = tempfile::Builder::new().prefix("cofferdam-profile-").tempdir();
        let world = Self(root.expect("a temporary directory can be made"));
        for name in ["work", "runtime"] {
            fs::create_dir(world.path(name)).expect("a folder can be made");
        }
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(world.path("runtime"), private).expect("permissions can be set");
        world
    }

    /// One with a configuration file and these profiles beside it.
    pub(crate) fn with(config: &str, profiles: &[(&str, &str)]) -> Self {
        let world = Self::new();
        world.write("work/cofferdam.toml", config);
        for (name, text) in profiles {
            world.write(&format!("work/sandbox-profiles/{name}.toml"), text);
        }
        world
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder can be made");
        fs::write(&path, text).expect("a file can be written");
        path
    }

    /// The program, started in `work`. `COFFERDAM_BIN` names a copy, where the build's folder cannot
    /// be read by whoever runs this.
    pub(crate) fn cofferdam(&self, arguments: &[&str]) -> Command {
        let program = match std::env::var_os("COFFERDAM_BIN") {
            Some(copy) => PathBuf::from(copy),
            None => Path::new(env!("CARGO_BIN_EXE_cofferdam")).to_owned(),
        };
        #[allow(clippy::disallowed_methods, reason = "a test drives the program from outside")]
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.path("work")).env_clear();
        command.env("HOME", self.path("home")).env("LANG", "C.UTF-8").stdin(Stdio::null());
        // Not where others of the same user may have servers running.
        command.env("COFFERDAM_RUNTIME_DIR", self.path("runtime"));
        command.envs(std::env::vars_os().filter(|(name, _)| name == "PATH"));
        command
    }

    /// Runs it to its end.
    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        self.finish(&mut self.cofferdam(arguments))
    }

    /// Runs a command to its end.
    #[track_caller]
    pub(crate) fn finish(&self, command: &mut Command) -> Finished {
        let output = command.output().expect("the program can be started");
        let text = |bytes: Vec<u8>| self.placed(&String::from_utf8(bytes).expect("UTF-8"));
        Finished {
            code: output.status.code().expect("an exit code"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Text without this folder's own path.
    fn placed(&self, text: &str) -> String {
        text.replace(&*self.0.path().to_string_lossy(), "[PLACE]")
    }
}

/// What a command answered, without its folder's own path.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// Standard output of a command that succeeded without a word on standard error.
    #[track_caller]
    pub(crate) fn text(&self) -> &str {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{self:?}");
        &self.stdout
    }

    /// The same as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.text()).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Exit code, standard output and standard error, for a snapshot.
    pub(crate) fn all(&self) -> String {
        format!("exit code {}\n{}---\n{}", self.code, self.stdout, self.stderr)
    }
}
