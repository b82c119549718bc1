//! The state that a client of the modern era brings back: whose it is, for which call, and how often.

use serde_json::{Value, json};

use crate::{
    ask::{BASH, counted, runs, world},
    client::{Asked, Client, Era, Transport, can_ask, code, connect, refusal, serve, start},
    support::client::value,
};

const PYTHON: &str = "python_coding_tool.execute";
const INVALID_PARAMS: i64 = -32602;

fn accept() -> Value {
    json!({ "action": "accept", "content": { "approve": true } })
}

/// Sends that state with a call; the answer.
fn bring(client: &mut Client, tool: &str, arguments: &Value, state: &Value) -> Value {
    let more = json!({ "requestState": state, "inputResponses": { "approval": accept() } });
    let id = client.send_call_with(tool, arguments, &more);
    client.answer(id)
}

fn state(asked: &Asked) -> &Value {
    &asked.question["result"]["requestState"]
}

/// Claims that the state was refused before it could mean anything, and what was said.
#[track_caller]
fn expect_invalid(answer: &Value, part: &str) {
    assert_eq!(answer["error"]["code"], INVALID_PARAMS, "{answer}");
    let message = answer["error"]["message"].as_str().expect("a message");
    assert!(message.contains("requestState") && message.contains(part), "{message}");
}

#[test]
fn an_approval_is_good_for_one_run() {
    for transport in [Transport::Stdio, Transport::Http] {
        let world = world("");
        let (_served, mut client) = start(&world, (transport, Era::Modern), &can_ask());
        let asked = client.call_until_asked(BASH, &counted());
        assert_eq!(value(&client.respond(&asked, &accept()))["stdout"], "ran\n");
        for _ in 0..2 {
            let again = client.respond(&asked, &accept());
            assert_eq!(code(&again), "approval_required");
            assert_eq!(refusal(&again), "this approval was used, refused or has expired");
        }
        assert_eq!(runs(&world), 1);
    }
}

#[test]
fn a_refusal_cannot_be_taken_back() {
    let world = world("");
    let (_served, mut client) = start(&world, (Transport::Stdio, Era::Modern), &can_ask());
    let asked = client.call_until_asked(BASH, &counted());
    let denied = client.respond(&asked, &json!({ "action": "decline" }));
    assert_eq!(code(&denied), "denied");
    assert_eq!(code(&client.respond(&asked, &accept())), "approval_required");
    assert_eq!(runs(&world), 0);
}

#[test]
fn of_many_that_bring_the_same_state_at_once_one_runs() {
    let world = world("");
    let (_served, mut client) = start(&world, (Transport::Stdio, Era::Modern), &can_ask());
    let asked = client.call_until_asked(BASH, &counted());
    let ids: Vec<u64> =
        (0..8).map(|_| client.send_again(BASH, &counted(), &asked.question, &accept())).collect();
    let refused = ids.iter().filter(|id| client.answer(**id)["result"]["isError"] == true).count();
    assert_eq!((refused, runs(&world)), (7, 1));
}

#[test]
fn a_state_that_was_changed_is_refused() {
    let world = world("");
    let (_served, mut client) = start(&world, (Transport::Stdio, Era::Modern), &can_ask());
    let asked = client.call_until_asked(BASH, &counted());
    let sealed = state(&asked).as_str().expect("a text");
    let swapped = |at: usize| {
        let mut changed = sealed.to_owned().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        String::from_utf8(changed).expect("UTF-8")
    };
    for changed in [swapped(6), swapped(sealed.len() / 2), swapped(sealed.len() - 2)] {
        let answer = bring(&mut client, BASH, &counted(), &json!(changed));
        expect_invalid(&answer, "was changed");
    }
    expect_invalid(&bring(&mut client, BASH, &counted(), &json!("x")), "was changed");
    assert_eq!(runs(&world), 0);
    assert_eq!(value(&client.respond(&asked, &accept()))["stdout"], "ran\n", "and spoils nothing");
}

#[test]
fn a_state_is_for_the_tool_and_the_arguments_that_were_asked_about() {
    let world = world("");
    let (_served, mut client) = start(&world, (Transport::Stdio, Era::Modern), &can_ask());
    let asked = client.call_until_asked(BASH, &counted());
    let code = counted()["code"].clone();
    for (tool, arguments) in [
        (BASH, json!({ "code": "echo other >> runs" })),
        (BASH, json!({ "code": code, "profile": "default" })),
        (BASH, json!({ "code": code, "cwd": "." })),
        (BASH, json!({ "code": code, "input_text": "x" })),
        (PYTHON, json!({ "code": code })),
    ] {
        let answer = bring(&mut client, tool, &arguments, state(&asked));
        expect_invalid(&answer, "another call");
    }
    assert_eq!(runs(&world), 0);
    // The same arguments written in another way are the same arguments.
    let same = json!({ "timeout": null, "code": code });
    let answer = bring(&mut client, "bash_coding_tool_execute", &same, state(&asked));
    assert_eq!(value(&answer)["stdout"], "ran\n");
}

#[test]
fn a_state_is_for_the_caller_that_was_asked() {
    let world = world("");
    let served = serve(&world);
    let mut asked_one = connect(&served, Era::Modern, &can_ask());
    let asked = asked_one.call_until_asked(BASH, &counted());
    // A session of its own, on the same server.
    let mut other = connect(&served, Era::Legacy, &can_ask());
    let answer = bring(&mut other, BASH, &counted(), state(&asked));
    expect_invalid(&answer, "not given to this caller");
    // Another server altogether.
    let (_elsewhere, mut stranger) = start(&world, (Transport::Http, Era::Modern), &can_ask());
    let answer = bring(&mut stranger, BASH, &counted(), state(&asked));
    expect_invalid(&answer, "not given to this caller");
    assert_eq!(runs(&world), 0);
    assert_eq!(value(&asked_one.respond(&asked, &accept()))["stdout"], "ran\n");
}

#[test]
fn a_question_that_is_not_answered_is_put_again() {
    let world = world("");
    let (_served, mut client) = start(&world, (Transport::Stdio, Era::Modern), &can_ask());
    let asked = client.call_until_asked(BASH, &counted());
    let more = json!({ "requestState": state(&asked) });
    let id = client.send_call_with(BASH, &counted(), &more);
    let again = client.answer(id);
    assert_eq!(again["result"]["resultType"], "input_required", "{again}");
    let id = client.send_again(BASH, &counted(), &again, &accept());
    assert_eq!(value(&client.answer(id))["stdout"], "ran\n");
    assert_eq!(runs(&world), 1);
}

#[test]
fn an_answer_that_is_none_runs_nothing_and_spoils_nothing() {
    let world = world("");
    let (_served, mut client) = start(&world, (Transport::Stdio, Era::Modern), &can_ask());
    let asked = client.call_until_asked(BASH, &counted());
    for none in [json!({}), json!({ "action": "sure" }), json!("accept")] {
        let answer = client.respond(&asked, &none);
        assert_eq!(answer["error"]["code"], INVALID_PARAMS, "{none}: {answer}");
    }
    assert_eq!(runs(&world), 0);
    assert_eq!(value(&client.respond(&asked, &accept()))["stdout"], "ran\n");
}

#[test]
fn an_answer_without_a_question_is_asked_about_like_any_other_call() {
    let world = world("");
    let (_served, mut client) = start(&world, (Transport::Stdio, Era::Modern), &can_ask());
    let more = json!({ "inputResponses": { "approval": accept() } });
    let id = client.send_call_with(BASH, &counted(), &more);
    let answer = client.answer(id);
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    assert_eq!(runs(&world), 0);
}
