//! What is recorded of a call, and what never is.

use std::{fs, process::Command};

use serde_json::{Value, json};

use crate::{
    BASH, PYTHON,
    log::{Audited, records},
    support::{Finish, World, entries},
};

#[test]
fn a_call_is_a_beginning_and_an_end_that_says_how_it_was_held() {
    let world = World::new();
    let config = world.outside("cofferdam.toml");
    fs::write(&config, "[audit]\npath = \"log/audit.jsonl\"\n").expect("a file can be written");
    let arguments = json!({ "code": "exit 4" }).to_string();
    let answer = world
        .cofferdam()
        .args(["call", BASH, &arguments, "--config"])
        .arg(&config)
        .finish()
        .expect_code(0)
        .json();
    let records = records(&world.outside("log/audit.jsonl"));
    let [begin, end] = &records[..] else { panic!("two records: {records:#?}") };
    assert_eq!((&begin["event"], &end["event"]), (&json!("begin"), &json!("end")));
    assert_eq!((&begin["seq"], &end["seq"]), (&json!(1), &json!(2)));
    for key in ["call", "session", "caller", "tool", "digest"] {
        assert_eq!(begin[key], end[key], "{key}");
    }
    assert_eq!(end["tool"], BASH);
    assert_eq!(end["session"], "command-line");
    assert_eq!(end["caller"]["via"], "command_line");
    assert_eq!(end["result"], "done");
    let sandbox = &answer["sandbox"];
    assert_eq!(end["profile"], sandbox["profile"]);
    assert_eq!(end["generation"], sandbox["profile_generation"]);
    let run = &end["run"];
    for key in ["backend", "enforcement", "not_armed"] {
        assert_eq!(run[key], sandbox[key], "{key}");
    }
    for key in ["verdict", "returncode", "usage", "duration_ms", "limits_hit"] {
        assert_eq!(run[key], answer[key], "{key}");
    }
    assert_eq!((&run["verdict"], &run["returncode"]), (&json!("exit"), &json!(4)));
    assert_eq!(run["quarantined"], 0);
    let time = begin["time"].as_str().expect("a time");
    assert!(time.len() == 24 && time.ends_with('Z'), "{time}");
}

#[test]
fn neither_code_nor_input_nor_output_nor_environment_is_recorded() {
    let log = Audited::new();
    let secret = "hunter2";
    let code = format!("echo {secret}; echo {secret} >&2; cat; echo {secret} > {secret}.txt");
    let arguments = json!({ "code": code, "input_text": secret }).to_string();
    let mut call = log.cofferdam(&["call", BASH, &arguments]);
    let answer = call.env("PASSWORD", secret).finish().expect_code(0).json();
    assert!(answer["stdout"].as_str().is_some_and(|text| text.contains(secret)), "{answer}");
    log.finish(&["run", "--", "echo", secret]).expect_code(0);
    log.finish(&["run", "--", secret]).expect_code(127);
    log.call(BASH, &json!({ "code": "true", "profile": secret })).expect_code(1);
    log.call(BASH, &json!({ "code": "true", "cwd": secret })).expect_code(1);
    assert_eq!(log.records().len(), 10);
    assert!(!log.text().contains(secret), "{}", log.text());
}

#[test]
fn the_digest_can_be_worked_out_from_the_arguments() {
    let log = Audited::new();
    log.call("executor.get_attribute_payload", &json!({ "name": "limits" })).expect_code(0);
    log.finish(&["run", "--", "sh", "-c", "exit 0"]).expect_code(0);
    let digest = |text: &str| {
        let sum = Command::new("sha256sum").finish_with(text.as_bytes());
        Value::from(sum.stdout.split_once(' ').expect("a sum").0)
    };
    let records = log.records();
    assert_eq!(records[0]["digest"], digest(r#"{"name":"limits"}"#));
    assert_eq!(records[2]["digest"], digest(r#"{"command":["sh","-c","exit 0"]}"#));
}

#[test]
fn what_is_refused_is_recorded_with_its_code() {
    let log = Audited::new();
    log.call(BASH, &json!({ "code": "true", "profile": "no-such" })).expect_code(1);
    log.call(BASH, &json!({ "code": "true", "cwd": "/" })).expect_code(1);
    log.call("executor.get_attribute_payload", &json!({ "name": "x" })).expect_code(1);
    let records = log.records();
    let ends = records.iter().filter(|record| record["event"] == "end");
    let ends: Vec<_> = ends.map(|end| (&end["result"], &end["code"], end.get("run"))).collect();
    assert_eq!(
        ends,
        ["profile_unknown", "path_outside_workspace", "unknown_attribute"]
            .map(Value::from)
            .each_ref()
            .map(|code| (&records[1]["result"], code, None))
    );
    assert_eq!(records[1]["result"], "failed");
}

#[test]
fn every_way_to_end_is_recorded_as_it_was_answered() {
    let log = Audited::new();
    for code in ["true", "exit 3", "kill -9 $$", "sleep 60", "yes | head -c 300000"] {
        let answer = log.call(BASH, &json!({ "code": code, "timeout": 1.5 })).expect_code(0).json();
        let end = log.records().pop().expect("a record");
        for key in ["verdict", "returncode", "limits_hit", "duration_ms"] {
            assert_eq!(end["run"][key], answer[key], "{code}: {key}");
        }
    }
    let verdicts: Vec<_> = log.records().iter().map(|end| end["run"]["verdict"].clone()).collect();
    let expected = ["ok", "exit", "signal", "timeout", "ok"];
    assert_eq!(verdicts.iter().filter(|verdict| !verdict.is_null()).collect::<Vec<_>>(), expected);
}

#[test]
fn what_was_quarantined_is_counted() {
    let log = Audited::new();
    let answer = log.bash("mkdir -p a/b && touch a/b/.env && mkdir c && touch c/.env");
    assert_eq!(answer["quarantined"].as_array().map(Vec::len), Some(2), "{answer}");
    assert_eq!(log.records()[1]["run"]["quarantined"], 2);
}

#[test]
fn commands_are_recorded_live_and_as_json() {
    let log = Audited::new();
    log.finish(&["run", "--", "sh", "-c", "exit 7"]).expect_code(7);
    log.finish(&["run", "--json", "--", "sh", "-c", "exit 7"]).expect_code(7);
    log.finish(&["run", "--", "no-such-program"]).expect_code(127);
    let records = log.records();
    assert_eq!(records.len(), 6);
    for end in [&records[1], &records[3]] {
        assert_eq!((&end["tool"], &end["run"]["returncode"]), (&json!("run"), &json!(7)));
    }
    assert_eq!(records[1]["digest"], records[3]["digest"]);
    assert_eq!(records[5]["run"]["verdict"], "not_started");
}

#[test]
fn how_a_person_agreed_is_recorded_and_that_nobody_did() {
    let log = Audited::new();
    let profiles = log.world.outside("sandbox-profiles");
    fs::create_dir(&profiles).expect("a folder can be made");
    let text = "description = \"Asks.\"\nextends = \"base\"\n[approval]\n\"*\" = \"always\"\n";
    fs::write(profiles.join("asks.toml"), text).expect("a file can be written");
    let config = log.world.outside("cofferdam.toml");
    fs::write(&config, "").expect("a file can be written");
    let config = config.to_str().expect("UTF-8");
    let arguments = json!({ "code": "true" }).to_string();
    for options in [&["--approve"][..], &[]] {
        let call = ["call", "--config", config, "-p", "asks", PYTHON, &arguments];
        log.finish(&[&call, options].concat());
        let run = ["run", "--config", config, "-p", "asks"];
        log.finish(&[&run, options, &["--", "true"]].concat());
    }
    let records = log.records();
    let ends: Vec<_> = records.iter().filter(|record| record["event"] == "end").collect();
    let said = |key: &str| ends.iter().map(|end| end[key].clone()).collect::<Vec<_>>();
    let null = Value::Null;
    assert_eq!(
        said("approval"),
        [json!("command_line"), json!("command_line"), null.clone(), null]
    );
    assert_eq!(said("profile"), ["asks"; 4]);
    assert_eq!(ends[2]["code"], "approval_required");
    assert_eq!(ends[3]["code"], "approval_required");
}

#[test]
fn nothing_is_recorded_of_the_command_line_unless_somebody_asked() {
    let world = World::new();
    let arguments = json!({ "name": "limits" }).to_string();
    let call = ["call", "executor.get_attribute_payload", &arguments];
    world.cofferdam().args(call).finish().expect_code(0);
    assert_eq!(entries(&world.home()), Vec::<std::path::PathBuf>::new());
    world.cofferdam().args(call).env("COFFERDAM_AUDIT__ENABLED", "true").finish().expect_code(0);
    assert_eq!(records(&world.home().join(".local/state/cofferdam/audit.jsonl")).len(), 2);
    let state = world.outside("state");
    let mut command = world.cofferdam();
    command.args(call).env("COFFERDAM_AUDIT__ENABLED", "true").env("XDG_STATE_HOME", &state);
    command.finish().expect_code(0);
    assert_eq!(records(&state.join("cofferdam/audit.jsonl")).len(), 2);
}

#[test]
fn a_log_where_the_code_may_write_is_refused() {
    let world = World::new();
    let mut call = world.cofferdam();
    call.args(["call", "executor.get_attribute_payload", "{\"name\": \"limits\"}"]);
    call.env("COFFERDAM_AUDIT__PATH", world.workspace().join("made/audit.jsonl"));
    let finished = call.finish().expect_code(1);
    finished.expect_error(&["made/audit.jsonl", "where code may write", "\nhint: "]);
    assert_eq!(entries(&world.workspace()), Vec::<std::path::PathBuf>::new());
}
