//! The owner of the server, who decides by `cofferdam approvals`.

use serde_json::{Value, json};

use crate::{
    ask::{BASH, cofferdam, counted, profile, runs, world},
    client::{Client, Era, Transport, WAYS, can_ask, code, refusal, start},
    support::{Finish, Finished, World, between_looks, client::value},
};

/// `cofferdam approvals ARGUMENTS…`
fn approvals(world: &World, arguments: &[&str]) -> Finished {
    cofferdam(world).arg("approvals").args(arguments).finish()
}

/// The calls that wait.
fn listed(world: &World) -> Vec<Value> {
    let listed = approvals(world, &["list", "--json"]).expect_code(0).json();
    listed.as_array().expect("an array").clone()
}

/// Waits until as many calls wait; the id of the first.
fn wait_for(world: &World, count: usize) -> String {
    let begun = std::time::Instant::now();
    loop {
        let all = listed(world);
        if all.len() == count {
            let first = all.first().map(|call| call["id"].as_str().expect("a text").to_owned());
            return first.unwrap_or_default();
        }
        assert!(begun.elapsed() < crate::support::PATIENCE, "{count} calls should wait: {all:#?}");
        between_looks();
    }
}

#[test]
fn the_owner_sees_and_decides_what_clients_cannot_ask_about() {
    for way in WAYS {
        let world = world("");
        let (_served, mut client) = start(&world, way, &json!({}));
        let call = client.send_call(BASH, &counted());
        let id = wait_for(&world, 1);
        let shown = approvals(&world, &["show", &id[..8]]).expect_code(0).stdout;
        for part in
            ["| echo run >> runs; echo ran", "Runs in: bubblewrap", "Arguments: sha256 ", &id]
        {
            assert!(shown.contains(part), "{way:?}: `{part}` is not in {shown}");
        }
        let done = approvals(&world, &["allow", &id[..8]]).expect_code(0).stdout;
        assert!(done.starts_with("allowed one call of bash_coding_tool.execute"), "{done}");
        assert_eq!(value(&client.answer(call))["stdout"], "ran\n", "{way:?}");

        let call = client.send_call(BASH, &counted());
        let id = wait_for(&world, 1);
        approvals(&world, &["deny", &id]).expect_code(0);
        let answer = client.answer(call);
        assert_eq!(refusal(&answer), "Tool execution was denied by the user.", "{way:?}");
        assert_eq!(code(&answer), "denied");
        assert_eq!((runs(&world), listed(&world).len()), (1, 0), "{way:?}");
        assert!(!client.was_asked(), "{way:?}");
    }
}

#[test]
fn the_first_who_decides_decides_and_the_others_question_is_taken_back() {
    let world = world("");
    let (_served, mut client) = start(&world, (Transport::Stdio, Era::Legacy), &can_ask());
    // The owner first.
    let asked = client.call_until_asked(BASH, &counted());
    let id = wait_for(&world, 1);
    approvals(&world, &["allow", &id]).expect_code(0);
    let question = asked.question["id"].clone();
    client.receive("the question's end", |message| {
        message["method"] == "notifications/cancelled" && message["params"]["requestId"] == question
    });
    assert_eq!(value(&client.answer(asked.call))["stdout"], "ran\n");
    client.send_response(&asked.question, &json!({ "action": "decline" }));
    // The person first.
    let asked = client.call_until_asked(BASH, &counted());
    let id = wait_for(&world, 1);
    let denied = client.respond(&asked, &json!({ "action": "decline" }));
    assert_eq!(code(&denied), "denied");
    let late = approvals(&world, &["allow", &id]).expect_code(1);
    late.expect_error(&["no call that waits has the id", "hint: "]);
    assert_eq!(runs(&world), 1);
}

#[test]
fn the_owners_word_counts_when_a_client_comes_back() {
    let world = world("");
    let (_served, mut client) = start(&world, (Transport::Stdio, Era::Modern), &can_ask());
    let again = |client: &mut Client, question: &Value, response: Value| {
        let id = client.send_again(BASH, &counted(), question, &response);
        client.answer(id)
    };
    let accept = json!({ "action": "accept" });
    let asked = client.call_until_asked(BASH, &counted());
    approvals(&world, &["deny", &wait_for(&world, 1)]).expect_code(0);
    assert_eq!(code(&again(&mut client, &asked.question, accept)), "denied");
    let asked = client.call_until_asked(BASH, &counted());
    approvals(&world, &["allow", &wait_for(&world, 1)]).expect_code(0);
    // Nothing begins after a person said no.
    let declined = again(&mut client, &asked.question, json!({ "action": "decline" }));
    assert_eq!(code(&declined), "denied");
    let asked = client.call_until_asked(BASH, &counted());
    approvals(&world, &["allow", &wait_for(&world, 1)]).expect_code(0);
    let answer = again(&mut client, &asked.question, json!(null));
    assert_eq!(value(&answer)["stdout"], "ran\n");
    assert_eq!(runs(&world), 1);
}

#[test]
fn with_the_admin_channel_clients_are_not_asked() {
    for way in WAYS {
        let world = world("[approval]\nchannel = \"admin\"\n");
        let (_served, mut client) = start(&world, way, &can_ask());
        let call = client.send_call(BASH, &counted());
        approvals(&world, &["allow", &wait_for(&world, 1)]).expect_code(0);
        assert_eq!(value(&client.answer(call))["stdout"], "ran\n", "{way:?}");
        assert!(!client.was_asked(), "{way:?}");
    }
}

#[test]
fn a_call_whose_client_takes_it_back_or_leaves_no_longer_waits() {
    let world = world("");
    let (served, mut client) = start(&world, (Transport::Stdio, Era::Legacy), &json!({}));
    let call = client.send_call(BASH, &counted());
    wait_for(&world, 1);
    client.cancel(call);
    wait_for(&world, 0);
    drop((client, served));

    let (_served, mut client) = start(&world, (Transport::Http, Era::Legacy), &json!({}));
    client.send_call(BASH, &counted());
    wait_for(&world, 1);
    client.end_session();
    wait_for(&world, 0);
    assert_eq!(runs(&world), 0);
}

#[test]
fn a_modern_client_that_hangs_up_no_longer_waits() {
    let world = world("");
    let (_served, client) = start(&world, (Transport::Http, Era::Modern), &json!({}));
    let hanging = client.hang_on(BASH, &counted());
    wait_for(&world, 1);
    drop(hanging);
    wait_for(&world, 0);
    assert_eq!(runs(&world), 0);
}

#[test]
fn an_approval_does_not_outlive_the_profiles_it_was_asked_under() {
    for way in WAYS {
        let world = world("");
        let (_served, mut client) = start(&world, way, &can_ask());
        let asked = client.call_until_asked(BASH, &counted());
        // Another generation, with nothing different that this call would use.
        profile(&world, "[limits]\npids = 99\n");
        cofferdam(&world).arg("reload").finish().expect_code(0);
        let answer = client.respond(&asked, &json!({ "action": "accept" }));
        assert_eq!(code(&answer), "approval_required", "{way:?}");
        assert!(refusal(&answer).starts_with("the profiles were read again"), "{answer}");
        assert_eq!(runs(&world), 0, "{way:?}");
        let asked = client.call_until_asked(BASH, &counted());
        let message = asked.elicitation["message"].as_str().expect("a message");
        assert!(message.contains("generation 2"), "{way:?}: {message}");
        let answer = client.respond(&asked, &json!({ "action": "accept" }));
        assert_eq!(value(&answer)["stdout"], "ran\n", "{way:?}");
        assert_eq!(value(&answer)["sandbox"]["profile_generation"], 2, "{way:?}");
    }
}

#[test]
fn a_tool_that_was_switched_off_while_its_call_waited_does_not_run() {
    for way in WAYS {
        let world = world("");
        let (_served, mut client) = start(&world, way, &can_ask());
        let asked = client.call_until_asked(BASH, &counted());
        cofferdam(&world).args(["tools", "deactivate", "bash_*"]).finish().expect_code(0);
        let answer = client.respond(&asked, &json!({ "action": "accept" }));
        assert_eq!(code(&answer), "tool_inactive", "{way:?}");
        assert_eq!(runs(&world), 0, "{way:?}");
    }
}

#[test]
fn approvals_of_a_worker_that_died_are_gone() {
    use crate::support::processes::Watched;
    let world = world("");
    let (mut served, mut client) = start(&world, (Transport::Http, Era::Modern), &can_ask());
    let asked = client.call_until_asked(BASH, &counted());
    let status = cofferdam(&world).args(["status", "--json"]).finish().expect_code(0).json();
    let pid = status["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a number");
    let worker = Watched::new(pid);
    worker.signal(rustix::process::Signal::KILL);
    served.server.expect_line("well again");
    let answer = client.respond(&asked, &json!({ "action": "accept" }));
    assert_eq!(refusal(&answer), "this approval was used, refused or has expired");
    assert_eq!(runs(&world), 0);
}

#[test]
fn without_a_server_or_a_call_the_owner_is_told() {
    let world = world("");
    let none = approvals(&world, &["list"]).expect_code(1);
    none.expect_error(&["no server of yours is running", "hint: "]);
    let (_served, _client) = start(&world, (Transport::Stdio, Era::Legacy), &can_ask());
    assert_eq!(approvals(&world, &["list"]).stdout, "no call waits for a person\n");
    approvals(&world, &["allow", "0000"]).expect_code(1).expect_error(&["no call that waits"]);
    approvals(&world, &["allow", ""]).expect_code(1).expect_error(&["at least 4 digits"]);
}
