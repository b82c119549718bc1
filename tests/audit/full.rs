//! What becomes of calls when the log cannot be written.

use std::{
    fs::{self, OpenOptions},
    process::Command,
};

use crate::{
    log::Audited,
    support::{Finish, Finished, entries, own},
};
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

const LIMITS: [&str; 3] = ["call", "executor.get_attribute_payload", "{\"name\": \"limits\"}"];

/// Runs a script where the log's disk is full: a small one of its own, which calls have filled. `call`
/// makes a call that starts nothing, and `sum` names the log's content.
fn on_a_full_disk(log: &Audited, script: &str) -> Finished {
    let script = format!(
        "log=$1
        call() {{ \"$0\" call executor.get_attribute_payload '{{\"name\": \"limits\"}}'; }}
        sum() {{ sha256sum < \"$log/audit.jsonl\"; }}
        for i in $(seq 24); do call; done 2>&1
        {script}
        \"$0\" audit verify"
    );
    let finished = on_a_disk(log, "80k", &script);
    assert!(finished.stdout.contains("\nunbroken: "), "{finished:?}");
    finished
}

/// Runs a script where the folder of the log, `$1`, is a disk of that size. `$0` is the program.
fn on_a_disk(log: &Audited, size: &str, script: &str) -> Finished {
    let folder = log.world.outside("log");
    fs::create_dir(&folder).expect("a folder can be made");
    let mounted = "mount -t tmpfs -o size=$0 none \"$1\" || exit 99; shift; exec \"$@\"";
    let mut command = Command::new("unshare");
    if rustix::process::geteuid().is_root() {
        command.arg("--mount");
    } else {
        // An ordinary user may mount as the root of a namespace, and is then ordinary again.
        command.args(["--user", "--map-root-user", "--mount"]);
    }
    command.args(["sh", "-c", mounted, size]).arg(&folder);
    if !rustix::process::geteuid().is_root() {
        command.args(["unshare", "--user", "--map-user=1000", "--map-group=1000"]);
    }
    command.args(["sh", "-c", script, &own()]).arg(&folder);
    log.world.surround(&mut command);
    command.env("COFFERDAM_AUDIT__PATH", log.path()).finish().expect_code(0)
}

#[test]
fn on_a_full_disk_calls_are_refused() {
    let log = Audited::new();
    let finished = on_a_full_disk(&log, "");
    let (answered, refused): (Vec<&str>, Vec<&str>) = finished
        .stdout
        .lines()
        .filter(|line| line.starts_with('{'))
        .partition(|line| !line.contains("\"audit_unavailable\""));
    assert!(!answered.is_empty() && !refused.is_empty(), "{finished:?}");
    assert_eq!(answered.len() + refused.len(), 24);
    assert!(refused.iter().all(|line| line.contains("the disk is full")), "{refused:?}");
    assert!(
        refused.iter().all(|line| !line.contains("audit.jsonl")),
        "the agent is not told where"
    );
    assert!(finished.stdout.contains("writing to `"), "the owner is: {finished:?}");
}

#[test]
fn what_cannot_be_recorded_does_nothing() {
    let log = Audited::new();
    let script = "
        before=$(sum)
        \"$0\" call bash_coding_tool.execute '{\"code\": \"touch called\"}'; echo call ended $?
        \"$0\" run -- touch ran; echo run ended $?
        test \"$before\" = \"$(sum)\" && echo no part of a record
    ";
    let finished = on_a_full_disk(&log, script);
    assert!(finished.stdout.contains("\ncall ended 1\n"), "{finished:?}");
    assert!(finished.stdout.contains("\nrun ended 125\n"), "{finished:?}");
    assert!(finished.stdout.contains("\nno part of a record\n"), "{finished:?}");
    assert!(finished.stderr.contains("error: the call cannot be recorded"), "{finished:?}");
    assert_eq!(entries(&log.world.workspace()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn with_warn_what_cannot_be_recorded_is_done_and_said_in_the_log() {
    let log = Audited::new();
    let script = "
        export COFFERDAM_AUDIT__ON_ERROR=warn
        head -c 1m /dev/zero > \"$log/fill\"
        while before=$(sum); call; echo warned ended $?; test \"$before\" != \"$(sum)\"; do :; done
    ";
    let finished = on_a_full_disk(&log, script);
    assert!(finished.stdout.contains("\nwarned ended 0\n"), "{finished:?}");
    assert!(!finished.stdout.contains("\nwarned ended 1\n"), "{finished:?}");
    assert!(finished.stderr.contains("a call is not recorded"), "{finished:?}");
    assert!(finished.stderr.contains("the end of a call was not recorded"), "{finished:?}");
}

#[test]
fn code_that_fills_the_disk_cannot_keep_its_end_from_being_recorded() {
    let log = Audited::new();
    let script = "
        mkdir \"$1/log\" \"$1/work\"
        export COFFERDAM_AUDIT__PATH=\"$1/log/audit.jsonl\"
        # Until the beginning of one more call fits into the page that is there, and its end does not.
        left=0
        while [ $left -lt 600 ] || [ $left -gt 1300 ]; do
            \"$0\" call executor.get_attribute_payload '{\"name\": \"limits\"}' > /dev/null
            left=$((4096 - $(stat -c %s \"$COFFERDAM_AUDIT__PATH\") % 4096))
        done
        \"$0\" run -w \"$1/work\" -- sh -c 'head -c 8m /dev/zero > fill; echo one more > more'
        echo ended $?
        echo x > \"$1/work/control\" || echo the disk is full
        cat \"$COFFERDAM_AUDIT__PATH\"
    ";
    let finished = on_a_disk(&log, "4m", script);
    assert!(finished.stdout.starts_with("ended 1\nthe disk is full\n"), "{finished:?}");
    let last: Value = serde_json::from_str(finished.stdout.lines().last().expect("a record"))
        .unwrap_or_else(|error| panic!("{error}: {finished:?}"));
    assert_eq!((&last["event"], &last["run"]["returncode"]), (&json!("end"), &json!(1)));
}

#[test]
fn a_log_that_another_process_holds_refuses_the_call() {
    let log = Audited::new();
    log.calls(1);
    let file = OpenOptions::new().append(true).open(log.path()).expect("it can be opened");
    flock(&file, FlockOperation::LockExclusive).expect("it can be locked");
    let refused = log.finish(&LIMITS).expect_code(1);
    assert_eq!(refused.json()["code"], "audit_unavailable");
    assert!(refused.stderr.contains("another process keeps holding"), "{refused:?}");
    drop(file);
    log.calls(1);
}

#[test]
fn a_log_that_is_no_log_is_refused_and_left_alone() {
    let log = Audited::new();
    fs::create_dir(log.world.outside("log")).expect("a folder can be made");
    std::os::unix::fs::symlink(log.world.outside("elsewhere"), log.path()).expect("a link");
    let refused = log.finish(&LIMITS).expect_code(1);
    assert_eq!(refused.json()["code"], "audit_unavailable");
    assert!(
        refused.json()["error"].as_str().is_some_and(|text| text.contains("not a regular file"))
    );
    assert!(!log.world.outside("elsewhere").exists(), "the link was not followed");
}
