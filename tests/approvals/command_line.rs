//! A person at the command line: `cofferdam call` and `cofferdam run`.

use serde_json::Value;

use crate::{
    ask::{BASH, counted, options, runs, world},
    support::{Finish, World, terminal::Session},
};

fn call(world: &World, more: &[&str]) -> std::process::Command {
    let mut command = world.cofferdam();
    command.arg("call").args(options(world)).args(more).arg(BASH).arg(counted().to_string());
    command
}

/// `cofferdam call` at a terminal.
fn at_a_terminal(world: &World) -> Session {
    let options = options(world);
    let arguments = counted().to_string();
    Session::start(world, &["call", &options[0], &options[1], BASH, &arguments])
}

#[test]
fn a_call_without_a_terminal_is_refused_and_says_how_to_go_on() {
    let world = world("");
    let value = call(&world, &[]).finish().expect_code(1).json();
    assert_eq!(value["code"], "approval_required");
    let hint = value["hint"].as_str().expect("a hint");
    assert!(hint.contains("--approve") && hint.contains("terminal"), "{hint}");
    assert_eq!(runs(&world), 0);
}

#[test]
fn approve_agrees_to_one_call() {
    let world = world("");
    let value = call(&world, &["--approve"]).finish().expect_code(0).json();
    assert_eq!(value["stdout"], "ran\n");
    assert_eq!(runs(&world), 1);
    call(&world, &[]).finish().expect_code(1);
}

#[test]
fn at_a_terminal_a_person_is_shown_the_call_and_asked() {
    for (typed, ran) in [("y\n", 1), ("YES\n", 1), ("n\n", 0), ("\n", 0), ("yy\n", 0)] {
        let world = world("");
        let mut session = at_a_terminal(&world);
        session.expect("| echo run >> runs; echo ran");
        session.expect("[y/N] ");
        session.send(typed);
        let (status, shown) = session.finish();
        assert_eq!(runs(&world), ran, "{typed:?}: {shown}");
        assert_eq!(status.code(), Some(1 - ran as i32), "{typed:?}: {shown}");
        if ran == 0 {
            assert!(shown.contains("Tool execution was denied by the user."), "{shown}");
        }
    }
}

#[test]
fn an_interrupt_at_the_question_ends_the_call() {
    let world = world("");
    let mut session = at_a_terminal(&world);
    session.expect("[y/N] ");
    session.send("\x03");
    let (status, _) = session.finish();
    assert_eq!(status.code(), Some(130));
    assert_eq!(runs(&world), 0);
}

#[test]
fn a_run_needs_approve_too() {
    let world = world("");
    let run = |more: &[&str]| {
        let options = options(&world);
        let all: Vec<&str> =
            options.iter().map(String::as_str).chain(more.iter().copied()).collect();
        world.run(&all, &["echo", "ran"]).finish()
    };
    let refused = run(&[]).expect_code(125);
    refused.expect_error(&["a person must agree", "hint: add `--approve`"]);
    assert_eq!(run(&["--approve"]).expect_code(0).stdout, "ran\n");
    let value: Value = run(&["--json"]).expect_code(125).json();
    assert_eq!(value["code"], "approval_required");
    assert_eq!(run(&["--json", "--approve"]).expect_code(0).json()["stdout"], "ran\n");
}

#[test]
fn the_configurations_no_is_above_whoever_types() {
    let world = world("[approval]\nchannel = \"none\"\n");
    let value = call(&world, &["--approve"]).finish().expect_code(1).json();
    assert_eq!(value["code"], "approval_required");
    assert!(value["hint"].as_str().is_some_and(|hint| hint.contains("channel")), "{value}");
    assert_eq!(runs(&world), 0);
}
