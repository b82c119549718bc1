//! Names that a run may not touch, read or leave behind: `protect` and `deny`.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::support::{Answer, Place, program};

/// A workspace with a profile that has rules, outside of it.
struct Carved {
    place: Place,
    config: tempfile::TempDir,
}

impl Carved {
    fn new() -> Self {
        Self::with("")
    }

    fn with(extra: &str) -> Self {
        let config = tempfile::tempdir().expect("a folder");
        fs::create_dir(config.path().join("profiles")).expect("a folder");
        let profile = format!(
            "description = \"carved\"\nextends = \"base\"\nbackends = [\"bubblewrap\"]\n\
             require = {{ files = \"full\" }}\n[filesystem]\nworkspace = \"write\"\nallow_new_repositories = false\n\
             protect = [\"**/.git/config\", \"**/.git/hooks\", \"**/.vscode\", \"**/.mcp.json\"]\n\
             deny = [\"**/.env\", \"**/.ssh\"]\n{extra}\n"
        );
        fs::write(config.path().join("profiles/carved.toml"), profile).expect("a profile");
        let server = "[execution]\ndefault_profile = \"carved\"\nprofile_dirs = [\"profiles\"]\n";
        fs::write(config.path().join("cofferdam.toml"), server).expect("a configuration");
        Self { place: Place::new(), config }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, content).expect("a file");
    }

    /// Bash inside; the whole result.
    fn run(&self, code: &str) -> Value {
        serde_json::from_str(self.call(code).ok()).expect("JSON")
    }

    fn call(&self, code: &str) -> Answer {
        let call = serde_json::json!({ "code": code }).to_string();
        Answer::of(
            program()
                .args(["call", "--config"])
                .arg(self.config.path().join("cofferdam.toml"))
                .args(["bash_coding_tool.execute", "-w"])
                .arg(self.place.path())
                .arg(call),
        )
    }
}

#[track_caller]
fn quarantined(reply: &Value) -> Vec<String> {
    let list = reply["quarantined"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut paths: Vec<_> =
        list.iter().map(|one| one["path"].as_str().expect("a path").to_owned()).collect();
    paths.sort();
    paths
}

/// B1
#[test]
fn what_is_protected_can_be_read_but_not_changed_moved_or_removed() {
    let carved = Carved::new();
    for name in [".git/config", "sub/.git/config", ".mcp.json", "a/b/c/.vscode/settings.json"] {
        carved.write(name, "original");
    }
    let attack = "for f in .git/config sub/.git/config .mcp.json a/b/c/.vscode/settings.json; do \
                  cat $f; (echo evil > $f); (echo evil >> $f); rm -f $f; mv $f x; ln $f y; \
                  chmod 777 $f; truncate -s 0 $f; (echo n > n) && mv n $f; done 2>/dev/null; \
                  rm -rf a/b/c/.vscode; mv a/b/c/.vscode v; mkdir -p a/b/c/.vscode/new; true";
    let reply = carved.run(attack);
    assert_eq!(reply["stdout"], "original".repeat(4));
    assert_eq!(reply["sandbox"]["enforcement"]["files"], "full");
    for name in [".git/config", "sub/.git/config", ".mcp.json", "a/b/c/.vscode/settings.json"] {
        assert_eq!(fs::read_to_string(carved.path(name)).expect("still there"), "original");
    }
    // Positive control: what no rule names is destroyed by the same attack.
    carved.write("plain.json", "original");
    carved.run("echo evil > plain.json; mv plain.json moved");
    assert_eq!(fs::read_to_string(carved.path("moved")).expect("moved"), "evil\n");
}

/// B4
#[test]
fn a_parent_cannot_be_renamed_from_under_a_rule() {
    let carved = Carved::new();
    carved.write("a/b/.git/config", "original");
    carved.write("a/b/.env", "secret");
    let attack = "mv a/b/.git a/b/g; mv a/b a/c; mv a z; rm -rf a; \
                  mkdir -p a/b/.git; echo evil > a/b/.git/config; cat z/b/.env a/c/.env a/b/.env";
    let reply = carved.run(&format!("({attack}) 2>/dev/null; true"));
    assert_eq!(reply["stdout"], "");
    assert_eq!(fs::read_to_string(carved.path("a/b/.git/config")).expect("kept"), "original");
    assert_eq!(fs::read_to_string(carved.path("a/b/.env")).expect("kept"), "secret");
}

/// B4
#[test]
fn a_rule_that_meets_a_symbolic_link_is_refused_clearly() {
    let carved = Carved::new();
    fs::create_dir(carved.path("elsewhere")).expect("a folder");
    symlink("elsewhere", carved.path(".vscode")).expect("a link");
    let answer = carved.call("echo evil > .vscode/settings.json");
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.stdout.contains(".vscode"), "{answer:?}");
    assert!(answer.stdout.contains("symbolic link"), "{answer:?}");
    assert_eq!(fs::read_dir(carved.path("elsewhere")).expect("a folder").count(), 0);
}

#[test]
fn what_is_denied_can_be_neither_read_nor_reached_another_way() {
    let carved = Carved::new();
    carved.write(".env", "SECRET");
    carved.write("deep/er/.ssh/id", "SECRET");
    fs::write(carved.path("plain"), "SECRET").expect("a file");
    let attack = "cat .env deep/er/.ssh/id; ls deep/er/.ssh; chmod 777 .env deep/er/.ssh; cat .env; \
                  ln .env hard; cp .env c; mv .env m; cat hard c m; cat /proc/self/cwd/.env; \
                  ln -s .env soft; cat soft; mount; unshare -Ur cat .env; tar c . | strings";
    let reply = carved.run(&format!("({attack}) 2>/dev/null; cat plain"));
    let stdout = reply["stdout"].as_str().expect("text").replace("SECRET\n", "");
    // Only the file that no rule names shows up, by `cat` and in the archive.
    assert!(reply["stdout"].as_str().expect("text").contains("SECRET"));
    assert!(stdout.matches("SECRET").count() <= 1, "{reply}");
    assert_eq!(fs::read_to_string(carved.path(".env")).expect("kept"), "SECRET");
}

/// B2, B3
#[test]
fn what_appears_during_a_run_is_quarantined_and_nothing_is_left_in_its_place() {
    let carved = Carved::new();
    let attack = "mkdir -p new/.git/hooks; echo evil > new/.git/hooks/post-checkout; \
                  echo evil > .mcp.json; echo evil > .env; ln -s /etc .vscode; \
                  mkdir -p deep/x/y/.ssh; echo fine > fine";
    let reply = carved.run(attack);
    assert_eq!(
        quarantined(&reply),
        [".env", ".mcp.json", ".vscode", "deep/x/y/.ssh", "new/.git/hooks"]
    );
    for name in [".env", ".mcp.json", ".vscode", "deep/x/y/.ssh", "new/.git/hooks"] {
        assert!(fs::symlink_metadata(carved.path(name)).is_err(), "{name} is still there");
    }
    assert_eq!(fs::read_to_string(carved.path("fine")).expect("kept"), "fine\n");
    // Kept, not lost, and named.
    for one in reply["quarantined"].as_array().expect("a list") {
        let kept = one["kept_as"].as_str().expect("a path");
        assert!(fs::symlink_metadata(carved.path(kept)).is_ok(), "{kept}");
        assert!(one["rule"].as_str().expect("a rule").starts_with("**/"));
    }
}

/// A12, B2
#[test]
fn a_folder_that_is_closed_hides_nothing() {
    let carved = Carved::new();
    let attack = "mkdir -p a/b/.git/hooks; echo evil > a/b/.git/hooks/x; chmod 000 a/b/.git a/b a";
    assert_eq!(quarantined(&carved.run(attack)), ["a/b/.git/hooks"]);
    assert!(fs::symlink_metadata(carved.path("a/b/.git/hooks")).is_err());
}

/// B3
#[test]
fn a_run_that_does_nothing_leaves_no_trace_of_the_rules() {
    let carved = Carved::new();
    let reply = carved.run("ls -A");
    assert_eq!(reply["stdout"], "");
    assert_eq!(fs::read_dir(carved.place.path()).expect("the workspace").count(), 0);
}

/// B2: what an earlier run planted in the quarantine's place.
#[test]
fn the_quarantine_itself_cannot_be_used_to_hide_or_to_get_out() {
    let carved = Carved::new();
    let outside = tempfile::tempdir().expect("a folder");
    symlink(outside.path(), carved.path(".tmp")).expect("a link");
    let reply = carved.run("echo evil > .mcp.json");
    assert_eq!(quarantined(&reply), [".mcp.json"]);
    assert_eq!(fs::read_dir(outside.path()).expect("a folder").count(), 0);

    let carved = Carved::new();
    let reply =
        carved.run("mkdir -p .tmp/quarantine/x/.git; echo evil > .tmp/quarantine/x/.git/config");
    assert_eq!(quarantined(&reply), [".tmp/quarantine/x/.git/config"]);
    // Later runs can neither read nor change what is kept.
    let reply = carved.run("ls .tmp/quarantine || echo closed; rm -rf .tmp; true");
    assert_eq!(reply["stdout"], "closed\n");
}

/// B5
#[test]
fn the_end_of_one_run_does_not_open_another() {
    let carved = Carved::new();
    carved.write(".env", "SECRET");
    let config = carved.config.path().join("cofferdam.toml");
    let call = serde_json::json!({
        "code": "echo x > started; until test -e finish; do :; done; cat .env; echo $?"
    });
    let long = program()
        .args(["call", "--config"])
        .arg(&config)
        .args(["bash_coding_tool.execute", "-w"])
        .arg(carved.place.path())
        .arg(call.to_string())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("a run");
    crate::support::eventually("the first run is under way", || carved.path("started").exists());
    carved.run("true");
    fs::write(carved.path("finish"), "").expect("a file");
    let output = long.wait_with_output().expect("the end");
    let reply: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(reply["stdout"], "1\n", "{reply}");
}

/// B5: a descriptor of a folder, passed on and used after the run that it comes from has ended.
#[test]
fn a_folder_that_one_run_passes_to_another_keeps_its_rules() {
    let carved = Carved::new();
    carved.write(".env", "SECRET");
    carved.write(".git/config", "original");
    let receive = "import os, socket\ns = socket.socket(socket.AF_UNIX); s.bind('s'); s.listen(1)\n\
                   c, _ = s.accept()\n_, fds, _, _ = socket.recv_fds(c, 9, 1)\n\
                   while not os.path.exists('gone'): pass\n\
                   for name, flags in (('.env', os.O_RDONLY), ('.git/config', os.O_WRONLY)):\n  \
                   try: os.open(name, flags, dir_fd=fds[0]); print('OPENED', name)\n  \
                   except OSError as error: print(error.errno)\n";
    let send = "import os, socket\ns = socket.socket(socket.AF_UNIX); s.connect('s')\n\
                socket.send_fds(s, [b'x'], [os.open('.', os.O_RDONLY)])\n";
    carved.write("receive.py", receive);
    carved.write("send.py", send);
    let call = serde_json::json!({ "code": "/usr/bin/python3 receive.py" }).to_string();
    let receiver = program()
        .args(["call", "--config"])
        .arg(carved.config.path().join("cofferdam.toml"))
        .args(["bash_coding_tool.execute", "-w"])
        .arg(carved.place.path())
        .arg(call)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("a run");
    crate::support::eventually("the receiver listens", || carved.path("s").exists());
    let sent = carved.run("/usr/bin/python3 send.py");
    assert_eq!(sent["returncode"], 0, "{sent}");
    fs::write(carved.path("gone"), "").expect("a file");
    let output = receiver.wait_with_output().expect("the end");
    let reply: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(reply["stdout"], "13\n30\n", "{reply}");
}

/// B2: other ways in which git finds its configuration, and closed folders.
#[test]
fn git_cannot_be_led_to_a_configuration_of_another_name() {
    for attack in [
        "mkdir -p r store; echo 'gitdir: ../store' > r/.git",
        "mkdir -p r store; ln -s ../store r/.git",
        "mkdir -p r/.git; echo 'x' > r/.git/commondir",
        "mkdir -p r/.git/modules/m; echo '[core]' > r/.git/modules/m/config",
        "mkdir -p r/.git; ln -s ../../hk r/.git/hooks",
        "mkdir -p r/.git/hooks; echo evil > r/.git/hooks/x; chmod 111 r/.git/hooks",
        "mkdir -p r/.git; echo '[remote \"a\"] [core] fsmonitor = \"x\" #]' > r/.git/config; \
         chmod 555 r/.git",
    ] {
        // Under the shipped rules, which let plain repositories through.
        let place = Place::new();
        let call = serde_json::json!({ "code": attack }).to_string();
        let mut command = program();
        command.args(["call", "bash_coding_tool.execute", "-w"]).arg(place.path()).arg(call);
        let reply: Value = serde_json::from_str(Answer::of(&mut command).ok()).expect("JSON");
        let moved = quarantined(&reply);
        assert_eq!(moved.len(), 1, "{attack}: {reply}");
        assert!(moved[0].starts_with("r/.git"), "{attack}: {reply}");
        assert!(reply["quarantined"][0]["kept_as"].is_string(), "{attack}: {reply}");
        assert!(fs::symlink_metadata(place.path().join(&moved[0])).is_err(), "{attack}");
    }
}

/// B6
#[test]
fn a_working_directory_outside_is_refused() {
    let carved = Carved::new();
    fs::create_dir(carved.path("a")).expect("a folder");
    for directory in ["/", "/etc", "..", "a/../..", "/proc/self/root"] {
        let call = serde_json::json!({ "code": "pwd", "cwd": directory }).to_string();
        let answer = Answer::of(
            program()
                .args(["call", "bash_coding_tool.execute", "-w"])
                .arg(carved.place.path())
                .arg(call),
        );
        assert_eq!(answer.code, Some(1), "{directory}: {answer:?}");
        assert!(answer.stdout.contains("path_outside_workspace"), "{answer:?}");
    }
}

/// B6
#[test]
fn a_configuration_in_the_workspace_is_not_taken_as_given() {
    let place = Place::new();
    place.file("cofferdam.toml", "[execution]\ndefault_profile = \"loose\"\n");
    fs::create_dir(place.path().join("sandbox-profiles")).expect("a folder");
    place.file(
        "sandbox-profiles/loose.toml",
        "description = \"loose\"\nextends = \"base\"\nbackends = [\"bubblewrap\"]\n\
         [filesystem]\nread = [{ path = \"/etc\", why = \"everything\" }]\n",
    );
    let answer =
        Answer::of(program().args(["run", "--", "cat", "/etc/shadow"]).current_dir(place.path()));
    assert_eq!(answer.code, Some(125), "{answer:?}");
    assert!(
        answer.stderr.contains("cofferdam.toml") && answer.stderr.contains("--config"),
        "{answer:?}"
    );
}

/// B6: a configuration that somebody named is trusted as it was, not as a run leaves it.
#[test]
fn a_named_configuration_in_the_workspace_cannot_be_changed_by_a_run() {
    let place = Place::new();
    let config = place.file("cofferdam.toml", "[execution]\nprofile_dirs = [\"profiles\"]\n");
    fs::create_dir(place.path().join("profiles")).expect("a folder");
    let attack = "(echo evil >> cofferdam.toml; rm -f cofferdam.toml; mv cofferdam.toml x; \
                  echo evil > profiles/default.toml; mv profiles p) 2>/dev/null; true";
    let run = |config: &Path| {
        let mut command = program();
        command.args(["run", "--config"]).arg(config).arg("-w").arg(place.path());
        Answer::of(command.args(["--", "bash", "-c", attack]))
    };
    assert_eq!(run(&config).code, Some(0));
    let left = fs::read_to_string(&config).expect("still there");
    assert!(!left.contains("evil"), "{left}");
    assert_eq!(fs::read_dir(place.path().join("profiles")).expect("still there").count(), 0);
    // Positive control: a configuration elsewhere does not make these names special.
    let elsewhere = tempfile::tempdir().expect("a folder");
    let other = elsewhere.path().join("cofferdam.toml");
    fs::write(&other, "").expect("a file");
    run(&other);
    assert!(place.path().join("p").exists());
}

#[test]
fn a_plain_repository_may_be_made_under_the_shipped_profile() {
    let place = Place::new();
    let code = "git init -q one && cd one && echo x > a && git add a && \
                git -c user.name=n -c user.email=e@x commit -q -m m && git log --oneline | wc -l";
    assert_eq!(place.bash(code).ok(), "1");
    assert!(place.path().join("one/.git/config").exists());
    // Positive control: one that would run a program may not.
    place.bash("git init -q two && git -C two config core.fsmonitor ./evil");
    assert!(!place.path().join("two/.git/config").exists());
}

/// A5, CVE-2026-87766
#[test]
fn links_planted_where_mount_points_could_be_made_lead_nowhere() {
    let carved = Carved::new();
    let outside = tempfile::tempdir().expect("a folder");
    let target = outside.path().join("made-by-the-sandbox");
    for name in [".env", ".git", ".vscode", "tmp", "run", "home"] {
        let _ = symlink(&target, carved.path(name));
    }
    let _ = carved.call("true");
    let _ = carved.call("true");
    assert!(fs::symlink_metadata(&target).is_err());
    assert_eq!(fs::read_dir(outside.path()).expect("a folder").count(), 0);
}

/// The server's own programs: an active virtual environment puts the workspace on `PATH`.
#[test]
fn a_program_that_a_run_plants_on_the_path_is_never_started_outside() {
    let place = Place::new();
    fs::create_dir_all(place.path().join(".venv/bin")).expect("a folder");
    let outside = tempfile::tempdir().expect("a folder");
    let proof = outside.path().join("started");
    let planted = format!("#!/bin/sh\ntouch {}\nexec false\n", proof.display());
    for name in ["bwrap", "python3", "bash"] {
        place.file("plant", &planted);
        place.bash(&format!("cp plant .venv/bin/{name}; chmod +x .venv/bin/{name}"));
    }
    let path = format!("{}/.venv/bin:/usr/bin:/bin", place.path().display());
    let answer = Answer::of(place.run().args(["sh", "-c", "echo fine"]).env("PATH", &path));
    assert_eq!(answer.ok(), "fine");
    assert!(!proof.exists());
    // Positive control: whoever looks the name up on that path starts the planted one.
    let mut by_name = std::process::Command::new("env");
    by_name.args(["bwrap", "--version"]).env("PATH", &path);
    Answer::of(&mut by_name);
    assert!(proof.exists());
}

/// A6
#[test]
fn a_workspace_that_was_swapped_for_a_link_is_not_followed() {
    let holder = tempfile::tempdir().expect("a folder");
    let secret = holder.path().join("secret");
    fs::create_dir(&secret).expect("a folder");
    fs::write(secret.join("key"), "SECRET").expect("a file");
    let work = holder.path().join("work");
    fs::create_dir(&work).expect("a folder");
    let mut server = crate::lifetime::Server::at(&work);
    fs::rename(&work, holder.path().join("old")).expect("a swap");
    symlink(&secret, &work).expect("a link");
    let answer = server.answer("cat key");
    assert!(!answer.contains("SECRET"), "{answer}");
    // Positive control: by name, the link leads there.
    assert!(Path::new(&work).join("key").exists());
}
