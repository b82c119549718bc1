//! What holds in both eras and over both transports.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    ask::{BASH, counted, runs, world},
    client::{Client, Era, WAYS, can_ask, code, refusal, start},
    support::{between_looks, client::value},
};

/// How long calls wait where nobody is to answer in time.
const WAIT: Duration = Duration::from_millis(1);

fn response(action: &str, content: Value) -> Value {
    json!({ "action": action, "content": content })
}

#[test]
fn a_person_is_shown_what_would_run_and_it_runs_once_they_agree() {
    for way in WAYS {
        let world = world("");
        let (_served, mut client) = start(&world, way, &can_ask());
        let asked = client.call_until_asked(BASH, &counted());
        assert_eq!(runs(&world), 0, "{way:?}: it ran before anybody agreed");
        let message = asked.elicitation["message"].as_str().expect("a message");
        for part in [
            "May `bash_coding_tool.execute` run this?",
            "every call is asked about (rule `*` of profile `ask`)",
            "Runs in: bubblewrap, held as files full, network full",
            "Network: none",
            "Profile: ask, generation 1",
            world.workspace().to_str().expect("UTF-8"),
            "Arguments: sha256 ",
            "\n| echo run >> runs; echo ran",
        ] {
            assert!(message.contains(part), "{way:?}: `{part}` is not in {message}");
        }
        let schema = &asked.elicitation["requestedSchema"];
        assert_eq!(schema["properties"]["approve"]["type"], "boolean", "{way:?}: {schema}");
        assert_eq!(schema["properties"].as_object().map(|all| all.len()), Some(1));
        let answer = client.respond(&asked, &response("accept", json!({ "approve": true })));
        assert_eq!(value(&answer)["stdout"], "ran\n", "{way:?}");
        assert_eq!(runs(&world), 1, "{way:?}");
    }
}

#[test]
fn an_acceptance_without_content_is_one() {
    for way in WAYS {
        let world = world("");
        let (_served, mut client) = start(&world, way, &can_ask());
        for accepted in [json!({ "action": "accept" }), response("accept", json!(null))] {
            let asked = client.call_until_asked(BASH, &counted());
            let answer = client.respond(&asked, &accepted);
            assert_eq!(value(&answer)["stdout"], "ran\n", "{way:?} {accepted}");
        }
        assert_eq!(runs(&world), 2, "{way:?}");
    }
}

#[test]
fn a_call_that_is_declined_dismissed_or_left_unticked_does_not_run() {
    for way in WAYS {
        let world = world("");
        let (_served, mut client) = start(&world, way, &can_ask());
        for no in [
            json!({ "action": "decline" }),
            json!({ "action": "cancel" }),
            response("decline", json!({ "approve": true })),
            response("accept", json!({ "approve": false })),
        ] {
            let asked = client.call_until_asked(BASH, &counted());
            let answer = client.respond(&asked, &no);
            assert_eq!(refusal(&answer), "Tool execution was denied by the user.", "{way:?} {no}");
            assert_eq!(code(&answer), "denied");
        }
        assert_eq!(runs(&world), 0, "{way:?}");
    }
}

#[test]
fn a_client_that_does_not_say_it_can_ask_is_never_asked() {
    for way in WAYS {
        for capabilities in [json!({}), json!({ "elicitation": { "url": {} } })] {
            let world = world("[approval]\nchannel = \"elicitation\"\n");
            let (_served, mut client) = start(&world, way, &capabilities);
            let id = client.send_call(BASH, &counted());
            let answer = client.answer(id);
            assert_eq!(code(&answer), "approval_required", "{way:?}");
            assert!(refusal(&answer).starts_with("a person must agree before this may run"));
            let hint = answer.pointer("/result/_meta/cofferdam/hint").and_then(Value::as_str);
            assert!(hint.is_some_and(|hint| hint.contains("elicitation")), "{answer}");
            assert!(!client.was_asked(), "{way:?}");
            assert_eq!(runs(&world), 0, "{way:?}");
        }
    }
}

#[test]
fn nobody_is_asked_where_the_configuration_says_so() {
    for way in WAYS {
        let world = world("[approval]\nchannel = \"none\"\n");
        let (_served, mut client) = start(&world, way, &can_ask());
        let id = client.send_call(BASH, &counted());
        assert_eq!(code(&client.answer(id)), "approval_required", "{way:?}");
        assert!(!client.was_asked(), "{way:?}");
    }
}

#[test]
fn an_answer_that_comes_too_late_runs_nothing() {
    for way in WAYS {
        let world = world("[approval]\nwait = \"1ms\"\n");
        let (_served, mut client) = start(&world, way, &can_ask());
        let (answer, expected) = late(&mut client);
        assert_eq!(code(&answer), "approval_required", "{way:?}");
        assert!(refusal(&answer).contains(expected), "{way:?}: {answer}");
        assert_eq!(runs(&world), 0, "{way:?}");
    }
}

/// The answer to a call whose person answers when nobody waits any more, and what it must say.
fn late(client: &mut Client) -> (Value, &'static str) {
    match client.era {
        Era::Legacy => {
            let id = client.send_call(BASH, &counted());
            (client.answer(id), "nobody did within")
        }
        Era::Modern => {
            let asked = client.call_until_asked(BASH, &counted());
            let asked_at = Instant::now();
            while asked_at.elapsed() <= WAIT {
                between_looks();
            }
            (client.respond(&asked, &json!({ "action": "accept" })), "has expired")
        }
    }
}

#[test]
fn a_call_that_needs_no_approval_is_not_asked_about() {
    for way in WAYS {
        let world = world("");
        let (_served, mut client) = start(&world, way, &can_ask());
        let id = client.send_call(BASH, &json!({ "code": "echo free", "profile": "default" }));
        assert_eq!(value(&client.answer(id))["stdout"], "free\n", "{way:?}");
        assert!(!client.was_asked(), "{way:?}");
    }
}
