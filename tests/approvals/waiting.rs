//! What a waiting call holds up (nothing), and how it ends.

use serde_json::json;

use crate::{
    ask::{BASH, counted, runs, world},
    client::{Era, Transport, WAYS, can_ask, start},
    support::client::value,
};

#[test]
fn other_calls_are_answered_while_one_waits_for_a_person() {
    for way in WAYS {
        // One place for all calls, and the calls of a session in order: the least there can be.
        let world = world("mode = \"serial\"\nmax_running = 1\nmax_queued = 0\n");
        let (_served, mut client) = start(&world, way, &can_ask());
        let waits = client.call_until_asked(BASH, &counted());
        let also_waits = client.call_until_asked(BASH, &counted());
        let id = client.send_call(BASH, &json!({ "code": "echo free", "profile": "default" }));
        assert_eq!(value(&client.answer(id))["stdout"], "free\n", "{way:?}");
        for asked in [&also_waits, &waits] {
            let answer = client.respond(asked, &json!({ "action": "accept" }));
            assert_eq!(value(&answer)["stdout"], "ran\n", "{way:?}");
        }
        assert_eq!(runs(&world), 2, "{way:?}");
    }
}

#[test]
fn a_call_that_is_taken_back_while_it_waits_takes_its_question_back_and_never_runs() {
    for transport in [Transport::Stdio, Transport::Http] {
        let world = world("");
        let (_served, mut client) = start(&world, (transport, Era::Legacy), &can_ask());
        let asked = client.call_until_asked(BASH, &counted());
        client.cancel(asked.call);
        if transport == Transport::Stdio {
            // Over HTTP it goes to a stream that this client has not opened.
            let question = asked.question["id"].clone();
            client.receive("the question's end", |message| {
                message["method"] == "notifications/cancelled"
                    && message["params"]["requestId"] == question
            });
        }
        client.send_response(&asked.question, &json!({ "action": "accept" }));
        let id = client.send_call(BASH, &json!({ "code": "echo free", "profile": "default" }));
        assert_eq!(value(&client.answer(id))["stdout"], "free\n");
        assert_eq!(runs(&world), 0, "{transport:?}");
    }
}

#[test]
fn a_client_that_answers_with_an_error_has_not_agreed() {
    let world = world("[approval]\nchannel = \"elicitation\"\n");
    let (_served, mut client) = start(&world, (Transport::Stdio, Era::Legacy), &can_ask());
    let asked = client.call_until_asked(BASH, &counted());
    client.send_error(&asked.question);
    let answer = client.answer(asked.call);
    assert_eq!(crate::client::code(&answer), "approval_required");
    assert_eq!(runs(&world), 0);
}
