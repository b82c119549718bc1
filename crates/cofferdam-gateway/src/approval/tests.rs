//! What counts as an answer, and what a sealed state is good for.

use rmcp::model::{
    ElicitationCapability, FormElicitationCapability, InputRequiredResult, UrlElicitationCapability,
};
use serde_json::{Map, json};

use super::*;

const BASH: &str = "bash_coding_tool.execute";

fn bash(code: &str) -> ToolCall {
    call(BASH, code)
}

fn call(tool: &str, code: &str) -> ToolCall {
    let arguments = Map::from_iter([("code".to_owned(), json!(code))]);
    ToolCall::parse(tool, arguments).unwrap()
}

fn question(call: &ToolCall) -> WaitingApproval {
    WaitingApproval {
        id: "4f".to_owned(),
        tool: call.tool_name().to_owned(),
        session: "a".to_owned(),
        reason: "why".to_owned(),
        summary: "Code, 1 line:\n| true".to_owned(),
        working_directory: "/w".to_owned(),
        profile: "ask".to_owned(),
        generation: 1,
        backend: "bubblewrap".to_owned(),
        enforcement: "files full".to_owned(),
        network: "none".to_owned(),
        digest: call.digest().unwrap(),
        waiting_s: 0,
        expires_in_s: 300,
    }
}

fn sealed(states: &ApprovalStates, call: &ToolCall, session: &str) -> String {
    states.ask(&question(call), session).unwrap().request_state.unwrap()
}

fn responses(response: Value) -> InputResponses {
    InputResponses::from([("approval".to_owned(), response)])
}

fn accepted() -> InputResponses {
    responses(json!({ "action": "accept", "content": { "approve": true } }))
}

/// The message of a refusal, which is always about the parameters.
fn refusal(answer: Result<ApprovalAnswer, ErrorData>) -> String {
    let error = answer.unwrap_err();
    assert_eq!(error.code, rmcp::model::ErrorCode::INVALID_PARAMS);
    error.message.into_owned()
}

#[test]
fn a_client_is_asked_only_in_a_way_that_it_declared() {
    let declared = |elicitation: Option<ElicitationCapability>| {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = elicitation;
        capabilities
    };
    let form = FormElicitationCapability::default();
    let url = UrlElicitationCapability::default();
    let modes = ElicitationCapability::new();
    let table = [
        (None, false),
        (Some(modes.clone()), true),
        (Some(modes.clone().with_form(form.clone())), true),
        (Some(modes.clone().with_form(form).with_url(url.clone())), true),
        (Some(modes.with_url(url)), false),
    ];
    for (capability, can) in table {
        let capabilities = declared(capability);
        for (modern, way) in [(false, Elicitation::Push), (true, Elicitation::InputRequired)] {
            let expected = if can { way } else { Elicitation::None };
            assert_eq!(elicitation(Some(&capabilities), modern), expected, "{capabilities:?}");
        }
    }
    assert_eq!(elicitation(None, true), Elicitation::None);
}

#[test]
fn the_action_decides_and_the_content_only_takes_away() {
    let accept = ElicitationAction::Accept;
    for (content, allowed) in [
        (None, true),
        (Some(json!(null)), true),
        (Some(json!({})), true),
        (Some(json!({ "approve": null })), true),
        (Some(json!({ "approve": true })), true),
        (Some(json!({ "approve": "Yes" })), true),
        (Some(json!({ "approve": " TRUE " })), true),
        (Some(json!({ "approve": false })), false),
        (Some(json!({ "approve": "false" })), false),
        (Some(json!({ "approve": "no" })), false),
        (Some(json!({ "approve": "" })), false),
        (Some(json!({ "approve": 1 })), false),
        (Some(json!({ "approve": [true] })), false),
    ] {
        assert_eq!(allows(&accept, content.as_ref()), allowed, "{content:?}");
        for action in [ElicitationAction::Decline, ElicitationAction::Cancel] {
            assert!(!allows(&action, content.as_ref()), "{action:?} {content:?}");
        }
    }
}

#[test]
fn the_form_has_one_boolean_and_the_whole_question() {
    let question = question(&bash("true"));
    let form = serde_json::to_value(form(&question)).unwrap();
    assert_eq!(form["message"], question.text());
    insta::assert_json_snapshot!(form["requestedSchema"], @r#"
    {
      "type": "object",
      "properties": {
        "approve": {
          "type": "boolean",
          "title": "Approve",
          "description": "Run exactly this, once"
        }
      },
      "required": [
        "approve"
      ]
    }
    "#);
}

#[test]
fn a_result_asks_for_one_input_and_carries_the_state() {
    let states = ApprovalStates::new().unwrap();
    let result: InputRequiredResult = states.ask(&question(&bash("true")), "a").unwrap();
    let value = serde_json::to_value(result).unwrap();
    assert_eq!(value["resultType"], "input_required");
    assert_eq!(value["inputRequests"]["approval"]["method"], "elicitation/create");
    assert!(value["requestState"].is_string());
}

#[test]
fn the_answer_comes_back_with_its_question() {
    let states = ApprovalStates::new().unwrap();
    let call = bash("true");
    let state = sealed(&states, &call, "a");
    for (responses, allow) in [
        (Some(accepted()), Some(true)),
        (Some(responses(json!({ "action": "accept", "content": null }))), Some(true)),
        (Some(responses(json!({ "action": "accept" }))), Some(true)),
        (Some(responses(json!({ "action": "decline" }))), Some(false)),
        (Some(responses(json!({ "action": "cancel" }))), Some(false)),
        (Some(responses(json!(null))), None),
        (Some(InputResponses::new()), None),
        (None, None),
    ] {
        let answer = states.answer(&state, responses.as_ref(), "a", &call).unwrap();
        assert_eq!(answer, ApprovalAnswer { id: "4f".to_owned(), allow }, "{responses:?}");
    }
}

#[test]
fn what_should_be_an_answer_and_is_none_is_refused() {
    let states = ApprovalStates::new().unwrap();
    let call = bash("true");
    let state = sealed(&states, &call, "a");
    for wrong in [json!({}), json!({ "action": "yes" }), json!("accept"), json!([])] {
        let message = refusal(states.answer(&state, Some(&responses(wrong)), "a", &call));
        assert!(message.contains("inputResponses.approval"), "{message}");
    }
}

#[test]
fn a_state_that_was_changed_anywhere_is_refused() {
    let states = ApprovalStates::new().unwrap();
    let call = bash("true");
    let state = sealed(&states, &call, "a");
    for at in 0..state.len() {
        let mut changed = state.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        let answer = states.answer(&changed, Some(&accepted()), "a", &call);
        // The last digit of base64 can have bits that mean nothing.
        if answer.is_ok() {
            assert!(at + 1 == state.len(), "at {at} of {state}");
            continue;
        }
        assert!(refusal(answer).contains("was changed"));
    }
    for none in ["", "rs1", "rs1..", "x".repeat(100_000).as_str()] {
        refusal(states.answer(none, Some(&accepted()), "a", &call));
    }
}

#[test]
fn a_state_is_good_for_one_caller_and_one_call_and_one_server() {
    let states = ApprovalStates::new().unwrap();
    let own = bash("true");
    let state = sealed(&states, &own, "a");
    let answer =
        |session: &str, call: &ToolCall| states.answer(&state, Some(&accepted()), session, call);
    assert!(answer("a", &own).is_ok());
    assert!(refusal(answer("b", &own)).contains("not given to this caller"));
    assert!(refusal(answer("", &own)).contains("not given to this caller"));
    for other in [bash("true "), call("python_coding_tool.execute", "true")] {
        assert!(refusal(answer("a", &other)).contains("another call"));
    }
    let elsewhere = ApprovalStates::new().unwrap();
    refusal(elsewhere.answer(&state, Some(&accepted()), "a", &own));
}

#[test]
fn the_key_is_not_shown() {
    let states = ApprovalStates::new().unwrap();
    assert!(format!("{states:?}").contains("redacted"));
}
