//! What the code can learn of the server: variables, command lines, files.

use crate::support::{Answer, Place, marker, program};

/// E13
#[test]
fn nothing_of_the_servers_environment_is_visible() {
    let place = Place::new();
    let secret = marker("secret");
    let search = "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null; true";
    let outside =
        Answer::of(std::process::Command::new("bash").args(["-c", search]).env("API_KEY", &secret));
    assert!(outside.stdout.contains(&secret), "the search finds it where it is");
    let inside = Answer::of(place.run().args(["bash", "-c", search]).env("API_KEY", &secret));
    assert!(inside.ok().contains("HOME=/home/sandbox"), "{inside:?}");
    assert!(!inside.stdout.contains(&secret));
    assert!(!inside.stdout.contains("API_KEY"));
}

/// E13
#[test]
fn start_up_files_of_a_shell_are_not_read() {
    let place = Place::new();
    let trap = place.file("trap.sh", "echo TRAPPED\n");
    let outside =
        Answer::of(std::process::Command::new("bash").args(["-c", "true"]).env("BASH_ENV", &trap));
    assert_eq!(outside.ok(), "TRAPPED");
    let inside = Answer::of(place.run().args(["bash", "-c", "echo fine"]).env("BASH_ENV", &trap));
    assert_eq!(inside.ok(), "fine");
}

/// E13: source code is private.
#[test]
fn code_never_stands_in_a_command_line() {
    let place = Place::new();
    let secret = marker("source");
    let code = format!("cat /proc/*/cmdline | tr '\\0' ' '; ls /proc/*/fd >/dev/null # {secret}");
    let call = serde_json::json!({ "code": code }).to_string();
    let answer = Answer::of(
        program().args(["call", "bash_coding_tool.execute", "-w"]).arg(place.path()).arg(&call),
    );
    let reply: serde_json::Value = serde_json::from_str(answer.ok()).expect("JSON");
    let stdout = reply["stdout"].as_str().expect("text");
    assert!(stdout.contains("bash"), "{stdout}");
    assert!(!stdout.contains(&secret), "{stdout}");
}

#[test]
fn files_that_are_not_granted_do_not_exist() {
    let place = Place::new();
    let secret = tempfile::NamedTempFile::new().expect("a file");
    let path = secret.path().display().to_string();
    assert_eq!(place.bash_outside(&format!("cat {path}")).code, Some(0));
    let paths = format!(
        "{path} /etc/shadow /root/.bashrc /root/.cargo /var/log /run/docker.sock /sys/kernel /boot"
    );
    let answer =
        place.bash(&format!("for p in {paths}; do test -e $p && echo FOUND $p; done; true"));
    assert_eq!(answer.ok(), "");
}

#[test]
fn the_code_can_open_its_own_streams_anew() {
    let place = Place::new();
    let code = "echo a > /dev/stdout; echo b | tee /dev/stderr; echo c > /proc/self/fd/1; \
                cat /dev/stdin";
    let answer = place.bash(code);
    assert_eq!((answer.ok(), answer.stderr.as_str()), ("a\nb\nc", "b\n"));
}

/// E12
#[test]
fn nothing_carries_over_to_the_next_run() {
    let place = Place::new();
    let leave = "echo x > /tmp/left; echo x > ~/left; echo x > /dev/shm/left; \
                 ls /tmp/left ~/left /dev/shm/left";
    assert_eq!(place.bash(leave).ok().lines().count(), 3);
    let look = "ls -A ~ /dev/shm; test -e /tmp/left && echo FOUND; true";
    assert!(!place.bash(look).ok().contains("left"));
}
