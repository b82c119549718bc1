//! Switching tools on and off.

use serde_json::json;

use crate::{
    client::{Client, Era, refusal},
    owned::{ATTRIBUTE, BASH, PYTHON, Place, Transport, WAYS},
    support::client::value,
};

#[test]
fn a_tool_that_is_off_is_not_listed_and_a_call_is_refused_in_evofabrics_words() {
    for way in WAYS {
        let place = Place::new("");
        let (_running, mut client) = place.start(way);
        assert_eq!(client.tools(), [PYTHON, BASH, ATTRIBUTE], "{way:?}");
        let said = place.done(&["tools", "deactivate", "bash_*"]);
        assert_eq!(said, format!("deactivated: {BASH}\n"));
        assert_eq!(client.tools(), [PYTHON, ATTRIBUTE], "{way:?}");
        for name in [BASH, "bash_coding_tool_execute"] {
            let answer = client.call(name, &json!({ "code": "echo > ran" }));
            let text = "Cannot call bash_coding_tool.execute because this tool is deactivate now.";
            assert_eq!(refusal(&answer), (text, "tool_inactive"), "{way:?}");
        }
        assert!(!place.world.workspace().join("ran").exists());
        place.done(&["tools", "forget", "bash_*"]);
        assert_eq!(client.tools(), [PYTHON, BASH, ATTRIBUTE], "{way:?}");
        let answer = client.call(BASH, &json!({ "code": "echo on again" }));
        assert_eq!(value(&answer)["stdout"], "on again\n");
    }
}

#[test]
fn what_is_set_last_goes_first_and_all_of_it_before_the_configuration() {
    let place = Place::new(
        "[tools]\n[[tools.rule]]\nmode = \"deactivate\"\npattern = \"bash_coding_tool.*\"\n",
    );
    let running = place.serve(&[]);
    let mut client = Client::at_url(Era::Modern, &running.url);
    assert_eq!(client.tools(), [PYTHON, ATTRIBUTE]);
    place.done(&["tools", "activate", "bash_coding_tool.execute"]);
    assert_eq!(client.tools(), [PYTHON, BASH, ATTRIBUTE]);
    place.done(&["tools", "deactivate", "*_tool.execute", "--for", "1h"]);
    assert_eq!(client.tools(), [ATTRIBUTE]);
    let rules = place.owner(&["tools", "rules", "--json"]).expect_code(0).json();
    let shown: Vec<_> = rules
        .as_array()
        .expect("an array")
        .iter()
        .map(|rule| (rule["pattern"].as_str(), rule["active"].as_bool(), rule["origin"].as_str()))
        .collect();
    assert_eq!(
        shown,
        [
            (Some("*_tool.execute"), Some(false), Some("run time")),
            (Some(BASH), Some(true), Some("run time")),
            (Some("bash_coding_tool.*"), Some(false), Some("cofferdam.toml:2")),
            (Some("*"), Some(true), Some("tools.default_mode")),
        ]
    );
    assert!(rules[0]["expires_in_s"].as_u64().is_some_and(|left| left <= 3_600), "{rules}");
    // Set again, it is the newest.
    place.done(&["tools", "activate", "bash_coding_tool.execute"]);
    assert_eq!(client.tools(), [BASH, ATTRIBUTE]);
}

#[test]
fn what_is_set_outlives_a_worker_that_is_killed() {
    let place = Place::new("");
    let (mut running, mut client) = place.start((Transport::Stdio, Era::Modern));
    place.done(&["tools", "deactivate", "*"]);
    place.done(&["tools", "activate", "python_*", "--for", "1h"]);
    let rules = place.done(&["tools", "rules"]);
    running.kill_worker();
    assert_eq!(client.tools(), [PYTHON]);
    let answer = client.call(BASH, &json!({ "code": "true" }));
    assert_eq!(refusal(&answer).1, "tool_inactive");
    let patterns = |rules: &str| {
        let words = rules.lines().filter_map(|line| line.split_whitespace().nth(1));
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(patterns(&place.done(&["tools", "rules"])), patterns(&rules));
}

#[test]
fn what_is_set_for_a_time_is_forgotten_after_it_and_clients_are_told() {
    let place = Place::new("");
    let (_running, mut client) = place.start((Transport::Stdio, Era::Modern));
    let stream = client.listen();
    place.done(&["tools", "deactivate", "bash_*", "--for", "1500ms"]);
    client.expect_change(stream);
    client.expect_change(stream);
    assert_eq!(client.tools(), [PYTHON, BASH, ATTRIBUTE]);
    let rules = place.owner(&["tools", "rules", "--json"]).expect_code(0).json();
    assert_eq!(rules.as_array().map(Vec::len), Some(1), "{rules}");
}

#[test]
fn a_call_that_waits_for_its_turn_is_refused_when_its_tool_is_switched_off_meanwhile() {
    let place = Place::new("");
    let running = place.serve(&[]);
    // Calls of modern clients over HTTP share a session, hence an order.
    let mut client = Client::at_url(Era::Modern, &running.url);
    let code = "touch started; while [ ! -e go ]; do sleep 0.02; done; echo finished";
    let first = client.send_call(BASH, &json!({ "code": code }));
    place.wait_for_status("a running call", |status| status["running"] == 1);
    let second = client.send_call(BASH, &json!({ "code": "echo > ran" }));
    place.wait_for_status("a waiting call", |status| status["queued"] == 1);
    place.done(&["tools", "deactivate", "bash_*"]);
    place.world.file("go", "");
    // What runs already is left alone.
    assert_eq!(value(&client.answer(first))["stdout"], "finished\n");
    assert_eq!(refusal(&client.answer(second)).1, "tool_inactive");
    assert!(!place.world.workspace().join("ran").exists());
}

#[test]
fn the_command_line_keeps_to_the_configurations_rules_too() {
    let place = Place::new(
        "[tools]\ndefault_mode = \"deactivate\"\nrule = [{ mode = \"activate\", pattern = \"python_*\" }]\n",
    );
    let config = place.admin("cofferdam.toml");
    let config = config.to_str().expect("UTF-8");
    let tools = place.owner(&["--config", config, "tools", "--json"]).expect_code(0).json();
    let names: Vec<_> = tools.as_array().expect("an array").iter().map(|it| &it["name"]).collect();
    assert_eq!(names, [PYTHON]);
    let call = ["--config", config, "call", BASH, r#"{"code": "true"}"#];
    let refused = place.owner(&call).expect_code(1).json();
    assert_eq!(refused["code"], "tool_inactive");
    let text = "Cannot call bash_coding_tool.execute because this tool is deactivate now.";
    assert_eq!(refused["error"], text);
}

#[test]
fn what_cannot_be_meant_is_refused_and_changes_nothing() {
    let place = Place::new("");
    let _running = place.serve(&[]);
    let rules = place.done(&["tools", "rules"]);
    let refused = place.owner(&["tools", "deactivate", "bash_["]).expect_code(1);
    refused.expect_error(&["must be a glob, not `bash_[`"]);
    let refused = place.owner(&["tools", "deactivate", ""]).expect_code(1);
    refused.expect_error(&["not an empty string"]);
    let refused = place.owner(&["tools", "forget", "bash_*"]).expect_code(1);
    refused.expect_error(&["not set at run time", "\nhint: "]);
    place.owner(&["tools", "deactivate", "*", "--for", "soon"]).expect_code(2);
    assert_eq!(place.done(&["tools", "rules"]), rules);
    let said = place.done(&["tools", "deactivate", "uv_tool.*"]);
    assert_eq!(said, "no tool matches `uv_tool.*`; those that ever do are deactivated\n");
}
