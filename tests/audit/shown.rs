//! What `cofferdam audit show` and `tail` print, and that nothing of a record drives a terminal.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::Stdio,
};

use serde_json::{Value, json};

use crate::{BASH, log::Audited};

fn rows(log: &Audited, arguments: &[&str]) -> Vec<String> {
    let shown = log.audit(&[&["show"], arguments].concat()).expect_code(0);
    assert_eq!(shown.stderr, "", "{shown:?}");
    shown.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn show_has_a_line_for_each_call_and_filters_them() {
    let log = Audited::new();
    log.bash("exit 4");
    log.call(BASH, &json!({ "code": "true", "profile": "no-such" })).expect_code(1);
    log.calls(1);
    log.finish(&["run", "--", "true"]).expect_code(0);
    let all = rows(&log, &[]);
    assert_eq!(all.len(), 4, "{all:#?}");
    let held = [" exit 4 ", BASH, "session command-line", "profile default/1", "bubblewrap"];
    assert!(held.iter().all(|part| all[0].contains(part)), "{}", all[0]);
    assert!(all[1].contains(" profile_unknown "), "{}", all[1]);
    assert_eq!(rows(&log, &["--tool", "bash_*"]), all[..2]);
    assert_eq!(rows(&log, &["--tool", "run", "--session", "command-line"]), all[3..]);
    assert_eq!(rows(&log, &["--session", "another"]), [""; 0]);
    assert_eq!(rows(&log, &["-n", "2"]), all[2..]);
    assert_eq!(rows(&log, &["-n", "0"]), [""; 0]);
    assert_eq!(rows(&log, &["--since", "1h"]), all);
    assert_eq!(rows(&log, &["--since", "2999-01-01"]), [""; 0]);
    let time = all[2].split(' ').next().expect("a time");
    assert_eq!(rows(&log, &["--since", time]), all[2..]);
    for wrong in [["--since", "soon"], ["--tool", "["], ["-n", "x"]] {
        log.audit(&[&["show"], &wrong[..]].concat()).expect_code(2);
    }
}

#[test]
fn json_is_the_records_themselves() {
    let log = Audited::new();
    log.bash("true");
    let shown = rows(&log, &["--json", "--tool", BASH]);
    assert_eq!(shown, log.text().lines().collect::<Vec<_>>());
    let tail = log.audit(&["tail", "--json", "-n", "1"]).expect_code(0);
    assert_eq!(Some(tail.stdout.trim_end()), log.text().lines().last());
}

#[test]
fn bytes_of_a_record_never_reach_a_terminal_as_they_are() {
    let log = Audited::new();
    log.calls(1);
    let text = log.text();
    let hostile = "\\u001b]0;title\\u0007\u{9b}31m\u{202e}\\r\\n";
    let forged = text.replace("command-line", hostile);
    fs::write(log.path(), [forged.as_bytes(), b"\x1b[2J raw \xff\xe2\x80\xae\r\n"].concat())
        .expect("it can be written");
    for command in [
        &["show"][..],
        &["show", "--json"],
        &["tail"],
        &["tail", "--json"],
        &["verify"],
        &["verify", "--json"],
    ] {
        let finished = log.audit(command);
        for stream in [&finished.stdout, &finished.stderr] {
            let is_bad = |character: char| {
                (character.is_control() && character != '\n') || character == '\u{202e}'
            };
            assert!(!stream.contains(is_bad), "{command:?}: {finished:?}");
        }
    }
    let shown = log.audit(&["show"]).expect_code(0);
    assert!(
        shown.stdout.contains(r"session \u{1b}]0;title\u{7}\u{9b}31m\u{202e}\r\n"),
        "{shown:?}"
    );
    assert!(shown.stderr.contains("see `cofferdam audit verify`"), "{shown:?}");
    let json = log.audit(&["show", "--json"]).expect_code(0).stdout;
    let record: Value = serde_json::from_str(json.lines().next().expect("a line")).expect("JSON");
    assert_eq!(record["session"], "\u{1b}]0;title\u{7}\u{9b}31m\u{202e}\r\n");
}

#[test]
fn tail_shows_the_last_records_over_a_rotation() {
    let log = Audited::new();
    log.calls(3);
    let text = log.text();
    let lines: Vec<_> = text.lines().collect();
    let rotated = format!("{}.1", log.path().display());
    fs::write(rotated, format!("{}\n", lines[..4].join("\n"))).expect("it can be written");
    log.tamper(&lines[4..]);
    let tail = log.audit(&["tail", "--json", "-n", "3"]).expect_code(0);
    assert_eq!(tail.stdout.lines().collect::<Vec<_>>(), lines[3..]);
    assert_eq!(log.audit(&["tail"]).expect_code(0).stdout.lines().count(), 6);
}

#[test]
fn tail_goes_on_with_what_other_processes_add() {
    let log = Audited::new();
    log.calls(1);
    let mut child = log
        .cofferdam(&["audit", "tail", "-f", "--json", "-n", "1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut lines = BufReader::new(child.stdout.take().expect("its output is a pipe")).lines();
    let mut number = || -> Value {
        let line = lines.next().expect("it goes on").expect("text");
        serde_json::from_str::<Value>(&line).expect("JSON")["seq"].clone()
    };
    assert_eq!(number(), 2);
    log.calls(1);
    // Rotated under its hands.
    fs::rename(log.path(), format!("{}.1", log.path().display())).expect("it can be moved");
    log.calls(1);
    let numbers: Vec<_> = (0..4).map(|_| number()).collect();
    assert_eq!(numbers, [3, 4, 5, 6]);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}
