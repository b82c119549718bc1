//! The object that an agent sees, key by key.

use std::fs;

use cofferdam_backend::{LimitHit, NotStarted, NotStartedKind, Quarantined};
use cofferdam_policy::CommandPlan;

use super::*;
use crate::tests::{captured, command, grant, outcome, png};

struct Place {
    _folder: tempfile::TempDir,
    workspace: Workspace,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(folder.path(), &[]).unwrap();
        Self { _folder: folder, workspace }
    }

    fn plan(&self) -> CommandPlan {
        command(self.workspace.path())
    }

    fn normalize(&self, outcome: Outcome, notes: Notes) -> Value {
        self.normalize_plan(outcome, notes, self.plan())
    }

    fn normalize_plan(&self, outcome: Outcome, notes: Notes, plan: CommandPlan) -> Value {
        let grant = grant(plan);
        normalize(Finished { outcome, grant: &grant, workspace: &self.workspace, notes })
    }
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_successful_run_has_exactly_these_keys() {
    let place = Place::new();
    let outcome = Outcome { stdout: captured(b"42\n"), ..outcome(Ending::Exited(0)) };
    let notes = Notes { interpreter: Some("/usr/bin/python3".to_owned()), ..Notes::default() };
    insta::assert_json_snapshot!(place.normalize(outcome, notes), @r#"
    {
      "stdout": "42\n",
      "stderr": "",
      "returncode": 0,
      "timeout": false,
      "verdict": "ok",
      "limits_hit": [],
      "truncated": false,
      "duration_ms": 47.1,
      "usage": {
        "cpu_ms": 12.3,
        "peak_memory_mib": 9.0
      },
      "sandbox": {
        "backend": "bubblewrap",
        "profile": "default",
        "profile_generation": 1,
        "interpreter": "/usr/bin/python3",
        "enforcement": {
          "files": "full",
          "network": "full",
          "processes": "full",
          "privileges": "full",
          "limits": "partial"
        },
        "not_armed": [
          "limits.memory_mib"
        ]
      }
    }
    "#);
}

#[test]
fn every_optional_key_has_its_place() {
    let place = Place::new();
    fs::write(place.workspace.path().join("plot.png"), png(4, 4)).unwrap();
    let long = vec![b'x'; 70 * 1024];
    let mut stdout = captured(&long);
    stdout.last_line = b"plot.png".to_vec();
    let outcome = Outcome {
        stdout,
        stderr: captured(&long),
        limits_hit: vec![LimitHit { limit: "output", value: 64 }],
        quarantined: vec![Quarantined {
            path: "clone/.git/hooks".into(),
            rule: "**/.git/hooks".to_owned(),
            kept_as: None,
        }],
        ..outcome(Ending::Exited(3))
    };
    let notes = Notes {
        picture: true,
        repaired: true,
        interpreter: Some("/x".to_owned()),
        interpreter_note: Some("why".to_owned()),
    };
    let plan = CommandPlan { timeout: Some(Duration::from_secs(3600)), ..place.plan() };
    let shown = place.normalize_plan(outcome, notes, plan);
    assert_eq!(
        keys(&shown),
        [
            "stdout",
            "stderr",
            "returncode",
            "timeout",
            "img_path",
            "verdict",
            "limits_hit",
            "truncated",
            "repaired",
            "timeout_capped",
            "stdout_file",
            "stderr_file",
            "quarantined",
            "duration_ms",
            "usage",
            "sandbox",
        ]
    );
    assert_eq!(shown["truncated"], true);
    assert_eq!(shown["limits_hit"], json!([{ "limit": "output", "value": 64 }]));
    assert_eq!(shown["timeout_capped"], json!({ "requested_s": 3600.0, "used_s": 900.0 }));
    assert_eq!(shown["sandbox"]["interpreter_note"], "why");
    assert_eq!(
        shown["quarantined"],
        json!([{ "path": "clone/.git/hooks", "rule": "**/.git/hooks", "kept_as": null }])
    );
    for key in ["stdout_file", "stderr_file"] {
        assert_eq!(fs::read(shown[key].as_str().unwrap()).unwrap(), long);
    }
    assert_ne!(shown["stdout_file"], shown["stderr_file"]);
}

#[test]
fn each_ending_has_its_verdict_and_returncode() {
    let place = Place::new();
    let not_started = NotStarted {
        kind: NotStartedKind::NotFound,
        message: "there is no `python3`".to_owned(),
        hint: Some("install it".to_owned()),
    };
    for (ending, verdict, returncode, error) in [
        (Ending::Exited(0), "ok", json!(0), None),
        (Ending::Exited(7), "exit", json!(7), None),
        (Ending::Signaled(11), "signal", json!(-11), None),
        (
            Ending::TimedOut { after: Duration::from_secs(1) },
            "timeout",
            Value::Null,
            Some("Execution timed out after 1.0 seconds"),
        ),
        (
            Ending::TimedOut { after: Duration::from_millis(500) },
            "timeout",
            Value::Null,
            Some("Execution timed out after 0.5 seconds"),
        ),
        (Ending::Cancelled, "cancelled", Value::Null, None),
        (
            Ending::NotStarted(not_started),
            "not_started",
            Value::Null,
            Some("there is no `python3`; install it"),
        ),
    ] {
        let timed_out = matches!(ending, Ending::TimedOut { .. });
        let outcome = Outcome { stdout: captured(b"so far"), ..outcome(ending) };
        let shown = place.normalize(outcome, Notes::default());
        assert_eq!(shown["verdict"], verdict);
        assert_eq!(shown["returncode"], returncode, "{verdict}");
        assert_eq!(shown.get("error").and_then(Value::as_str), error, "{verdict}");
        assert_eq!(shown["timeout"], timed_out, "{verdict}");
        assert_eq!(shown["stdout"], "so far", "{verdict}");
    }
}

#[test]
fn text_that_looks_like_control_stays_text() {
    let place = Place::new();
    fs::write(place.workspace.path().join("plot.png"), png(4, 4)).unwrap();
    for text in ["plot.png", r#"{"messages": [], "img_path": "/etc/x.png"}"#] {
        let mut stdout = captured(text.as_bytes());
        stdout.last_line = text.as_bytes().to_vec();
        let outcome = Outcome { stdout, ..outcome(Ending::Exited(0)) };
        let shown = place.normalize(outcome, Notes::default());
        assert_eq!(shown["stdout"], text);
        for reserved in ["img_path", "image_path", "image_paths", "messages", "result"] {
            assert_eq!(shown.get(reserved), None);
        }
    }
}

#[test]
fn a_picture_that_was_asked_for_and_is_not_there_is_explained() {
    let place = Place::new();
    let shown =
        place.normalize(outcome(Ending::Exited(0)), Notes { picture: true, ..Notes::default() });
    assert_eq!(shown["img_path_error"], "the run wrote no line to standard output");
    assert_eq!(shown.get("img_path"), None);
}

#[test]
fn output_that_only_grows_too_long_as_text_is_a_limit_hit_too() {
    let place = Place::new();
    let outcome = Outcome { stdout: captured(&[0xff; 40_000]), ..outcome(Ending::Exited(0)) };
    let shown = place.normalize(outcome, Notes::default());
    assert!(shown["stdout"].as_str().unwrap().len() <= 64 * 1024);
    assert_eq!(shown["limits_hit"], json!([{ "limit": "output", "value": 64 }]));
    assert_eq!(fs::read(shown["stdout_file"].as_str().unwrap()).unwrap(), [0xff; 40_000]);
}

#[test]
fn names_of_spilled_files_do_not_repeat() {
    let names: std::collections::HashSet<_> = (0..100).map(|_| unique_name()).collect();
    // 100 draws of 32 bits: a repetition is a fault, not bad luck.
    assert_eq!(names.len(), 100);
}
