//! Which Python a run gets.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use super::*;
use crate::tests::{EXECUTABLES, profiles};
use tokio::sync::MutexGuard;

/// A machine with one Python in `opt/python`, seen by a shim, and a workspace.
struct Machine {
    folder: tempfile::TempDir,
    workspace: Workspace,
    profile: Profile,
    _serial: MutexGuard<'static, ()>,
}

impl Machine {
    async fn new() -> Self {
        let serial = EXECUTABLES.lock().await;
        let folder = tempfile::tempdir().unwrap();
        for path in ["opt/python/bin", "opt/python/lib/python3.11", "home", "work/.venv/bin"] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        fs::remove_dir_all(folder.path().join("work/.venv")).unwrap();
        let workspace = Workspace::open(&folder.path().join("work"), &[]).unwrap();
        let machine = Self {
            folder,
            workspace,
            profile: profiles().get("default").unwrap().clone(),
            _serial: serial,
        };
        machine.install("opt/python/bin/python3", "");
        machine.install("shims/python3", "");
        machine
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A script that answers as the Python in `opt/python` would, after doing `first`.
    fn install(&self, name: &str, first: &str) {
        let prefix = self.at("opt/python");
        let answer = serde_json::json!({
            "executable": prefix.join("bin/python3"),
            "prefixes": [prefix],
            "libraries": [prefix.join("lib/python3.11")],
            "user_base": self.at("home/.local"),
            "user_site": self.at("home/.local/lib/python3.11/site-packages"),
        });
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{first}\necho '{answer}'\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A virtual environment of the workspace on `home`.
    fn venv(&self, home: &str) {
        fs::create_dir_all(self.at("work/.venv/bin")).unwrap();
        let cfg = format!("home = {}\n", self.at(home).display());
        fs::write(self.at("work/.venv/pyvenv.cfg"), cfg).unwrap();
        symlink(self.at("opt/python/bin/python3"), self.at("work/.venv/bin/python")).unwrap();
    }

    fn runtimes(&self, folders: &[&str]) -> Runtimes {
        let path = std::env::join_paths(folders.iter().map(|folder| self.at(folder)));
        let mut path = path.unwrap();
        path.push(":/usr/bin:/bin");
        let environment = BTreeMap::from([
            ("PATH".into(), path),
            ("HOME".into(), self.at("home").into_os_string()),
        ]);
        let homes = [self.at("home")];
        Runtimes::new(&environment, &homes, self.workspace.path(), &profiles())
    }

    async fn python(&self, folders: &[&str]) -> Result<PythonRuntime, Failure> {
        self.runtimes(folders).python(&self.profile, &self.workspace).await
    }
}

#[tokio::test]
async fn the_python_behind_the_shim_is_used_with_what_it_needs() {
    let machine = Machine::new().await;
    let python = machine.python(&["shims"]).await.unwrap();
    assert_eq!(python.interpreter, machine.at("opt/python/bin/python3"));
    assert_eq!(python.support.mounts, [machine.at("opt/python")]);
    assert_eq!(python.support.path, [machine.at("opt/python/bin")]);
    assert_eq!(python.support.environment, []);
    assert_eq!(python.note, None);
}

#[tokio::test]
async fn an_interpreter_is_asked_once_and_again_when_it_has_gone() {
    let machine = Machine::new().await;
    let log = machine.at("log");
    machine.install("shims/python3", &format!("echo asked >> {}", log.display()));
    let runtimes = machine.runtimes(&["shims"]);
    let asked = || fs::read_to_string(&log).unwrap().lines().count();
    for _ in 0..3 {
        runtimes.python(&machine.profile, &machine.workspace).await.unwrap();
    }
    assert_eq!(asked(), 1);
    fs::remove_file(machine.at("opt/python/bin/python3")).unwrap();
    runtimes.python(&machine.profile, &machine.workspace).await.unwrap();
    assert_eq!(asked(), 2);
}

#[tokio::test]
async fn the_user_s_own_packages_are_visible_when_there_are_any() {
    let machine = Machine::new().await;
    let site = machine.at("home/.local/lib/python3.11/site-packages");
    fs::create_dir_all(&site).unwrap();
    let python = machine.python(&["shims"]).await.unwrap();
    assert_eq!(python.support.mounts, [machine.at("opt/python"), site]);
    let base = machine.at("home/.local").into_os_string().into_string().unwrap();
    assert_eq!(python.support.environment, [("PYTHONUSERBASE".to_owned(), base)]);
}

#[tokio::test]
async fn the_workspace_s_virtual_environment_goes_first_and_is_never_started_here() {
    let machine = Machine::new().await;
    machine.venv("opt/python/bin");
    let python = machine.python(&["shims"]).await.unwrap();
    assert_eq!(python.interpreter, machine.at("work/.venv/bin/python"));
    assert_eq!(python.support.mounts, [machine.at("opt/python")]);
    assert_eq!(python.support.path, [machine.at("work/.venv/bin")]);
    let prefix = machine.at("work/.venv").into_os_string().into_string().unwrap();
    assert_eq!(python.support.environment, [("VIRTUAL_ENV".to_owned(), prefix)]);
}

#[tokio::test]
async fn a_virtual_environment_active_in_the_server_s_shell_is_not_started() {
    let machine = Machine::new().await;
    let canary = machine.at("canary");
    machine.install("work/.venv/bin/python3", &format!("touch {}", canary.display()));
    let python = machine.python(&["work/.venv/bin", "shims"]).await.unwrap();
    assert_eq!(python.interpreter, machine.at("opt/python/bin/python3"));
    assert!(!canary.exists());
    // The control: what is trusted is started.
    machine.install("first/python3", &format!("touch {}", canary.display()));
    machine.python(&["first"]).await.unwrap();
    assert!(canary.exists());
}

#[tokio::test]
async fn a_virtual_environment_on_a_hidden_python_is_ignored_and_it_is_said() {
    let machine = Machine::new().await;
    fs::create_dir_all(machine.at("hidden/bin")).unwrap();
    machine.venv("hidden/bin");
    let python = machine.python(&["shims"]).await.unwrap();
    assert_eq!(python.interpreter, machine.at("opt/python/bin/python3"));
    assert!(python.note.unwrap().starts_with(".venv of the workspace is not used: "));
    assert!(!python.support.mounts.contains(&machine.at("hidden/bin")));
}

#[tokio::test]
async fn without_a_python_the_answer_says_what_to_do() {
    let machine = Machine::new().await;
    let environment = BTreeMap::from([("PATH".into(), machine.at("none").into_os_string())]);
    let runtimes = Runtimes::new(&environment, &[], machine.workspace.path(), &profiles());
    let failure = runtimes.python(&machine.profile, &machine.workspace).await.unwrap_err();
    assert_eq!(failure.code, ErrorCode::StartFailed);
    assert_eq!(failure.message, "no python3 was found on the server's PATH");
    assert!(failure.hint.unwrap().contains("[python] interpreter"));
}

#[tokio::test]
async fn the_python_that_the_profile_names_is_used_instead() {
    let mut machine = Machine::new().await;
    machine.install("other/python3", "");
    machine.venv("opt/python/bin");
    machine.profile.python.interpreter = Some(machine.at("other/python3"));
    let python = machine.python(&["none"]).await.unwrap();
    assert_eq!(python.interpreter, machine.at("opt/python/bin/python3"));
    machine.profile.python.interpreter = Some(machine.at("absent/python3"));
    let failure = machine.python(&["shims"]).await.unwrap_err();
    assert!(failure.message.contains("absent/python3"), "{}", failure.message);
}

#[tokio::test]
async fn a_named_python_inside_the_workspace_must_be_a_virtual_environment_s() {
    let mut machine = Machine::new().await;
    let canary = machine.at("canary");
    let touch = format!("touch {}", canary.display());
    machine.install("work/tools/bin/python3", &touch);
    machine.profile.python.interpreter = Some(machine.at("work/tools/bin/python3"));
    let failure = machine.python(&["shims"]).await.unwrap_err();
    assert!(failure.message.contains("runs can write"), "{}", failure.message);
    assert!(!canary.exists());
    machine.venv("opt/python/bin");
    machine.profile.python.interpreter = Some(machine.at("work/.venv/bin/python"));
    let python = machine.python(&["shims"]).await.unwrap();
    assert_eq!(python.interpreter, machine.at("work/.venv/bin/python"));
}

#[tokio::test]
async fn other_programs_get_the_python_behind_a_shim_too() {
    let machine = Machine::new().await;
    let runtimes = machine.runtimes(&["shims"]);
    let support = runtimes.support(&machine.profile, &machine.workspace).await;
    assert_eq!(support.mounts, [machine.at("opt/python")]);
    assert_eq!(support.path, [machine.at("opt/python/bin")]);
    // A shim at an ordinary place is a shim all the same.
    assert!(is_script(&machine.at("shims/python3")) && is_script(&machine.at("absent")));
    assert!(!is_script(&std::env::current_exe().unwrap()));
}

#[tokio::test]
async fn without_a_python_other_programs_get_nothing() {
    let machine = Machine::new().await;
    let environment = BTreeMap::from([("PATH".into(), machine.at("none").into_os_string())]);
    let runtimes = Runtimes::new(&environment, &[], machine.workspace.path(), &profiles());
    let support = runtimes.support(&machine.profile, &machine.workspace).await;
    assert_eq!(support, Support::default());
}

#[test]
fn folders_of_every_path_are_not_put_in_front() {
    assert_eq!(folder_of(Path::new("/usr/bin/python3.11")), None);
    assert_eq!(folder_of(Path::new("/opt/py/bin/python3")), Some("/opt/py/bin".into()));
}

#[test]
fn only_folders_of_python_count_as_a_user_s_packages() {
    let home = tempfile::tempdir().unwrap();
    assert!(!has_user_packages(home.path()));
    fs::create_dir_all(home.path().join(".local/lib/other")).unwrap();
    assert!(!has_user_packages(home.path()));
    fs::create_dir_all(home.path().join(".local/lib/python3.11")).unwrap();
    assert!(has_user_packages(home.path()));
}

#[tokio::test]
async fn bash_is_the_real_one_and_brings_its_prefix_only_when_it_is_hidden() {
    let machine = Machine::new().await;
    let bash = machine.runtimes(&[]).bash(&machine.profile, &machine.workspace).unwrap();
    assert!(bash.interpreter.ends_with("bash"), "{bash:?}");
    assert_eq!(bash.mounts, Vec::<PathBuf>::new());
    fs::create_dir_all(machine.at("brew/bin")).unwrap();
    fs::copy(&bash.interpreter, machine.at("brew/bin/bash")).unwrap();
    fs::create_dir_all(machine.at("links")).unwrap();
    symlink(machine.at("brew/bin/bash"), machine.at("links/bash")).unwrap();
    let bash = machine.runtimes(&["links"]).bash(&machine.profile, &machine.workspace).unwrap();
    assert_eq!(bash.interpreter, machine.at("brew/bin/bash"));
    assert_eq!(bash.mounts, [machine.at("brew")]);
}
