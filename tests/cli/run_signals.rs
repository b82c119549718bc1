//! How a person ends `cofferdam run` before its time.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
};

use rustix::process::Signal;

use crate::support::{
    Finish, World, own,
    processes::{Watched, wait_for_sleep},
};

/// Starts it and waits for the line `ready`.
fn started(command: &mut Command) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut from = BufReader::new(child.stdout.take().expect("its output is a pipe"));
    let mut line = String::new();
    from.read_line(&mut line).expect("it can be read");
    assert_eq!(line, "ready\n");
    (child, from)
}

fn rest(mut from: BufReader<std::process::ChildStdout>) -> String {
    let mut rest = String::new();
    from.read_to_string(&mut rest).expect("it can be read");
    rest
}

#[test]
fn one_signal_lets_the_command_end_in_order_and_the_code_names_the_signal() {
    let world = World::new();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let script = "trap 'echo tidied; exit 7' TERM; echo ready; while :; do sleep 0.05; done";
        let (mut child, from) = started(&mut world.shell(script));
        let watched = Watched::new(child.id());
        watched.signal(signal);
        watched.expect_end();
        assert_eq!(child.wait().expect("it has ended").code(), Some(code));
        assert_eq!(rest(from), "tidied\n");
    }
}

#[test]
fn a_second_signal_ends_what_does_not_want_to_end() {
    let world = World::new();
    // The profile's grace is shortened by the second signal, so nothing here waits for it.
    let script = "trap '' TERM INT; echo ready; while :; do sleep 987.001; done";
    let (mut child, _from) = started(&mut world.shell(script));
    let sleepers = wait_for_sleep("987.001");
    let watched = Watched::new(child.id());
    watched.signal(Signal::INT);
    watched.signal(Signal::TERM);
    watched.expect_end();
    let code = child.wait().expect("it has ended").code();
    assert!(matches!(code, Some(130 | 143)), "{code:?}");
    sleepers.iter().for_each(Watched::expect_end);
}

#[test]
fn nothing_survives_when_the_program_itself_is_killed() {
    let world = World::new();
    let (mut child, _from) =
        started(&mut world.shell("setsid sleep 987.002 & echo ready; sleep 987.002"));
    let sleepers = wait_for_sleep("987.002");
    Watched::new(child.id()).signal(Signal::KILL);
    child.wait().expect("it has ended");
    sleepers.iter().for_each(Watched::expect_end);
}

#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let world = World::new();
    let mut command = Command::new("sh");
    world.surround(&mut command);
    command.args([
        "-c",
        "trap '' HUP; exec \"$0\" run -- sh -c 'echo ready; read line; echo still here'",
        &own(),
    ]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut from = BufReader::new(child.stdout.take().expect("its output is a pipe"));
    let mut line = String::new();
    from.read_line(&mut line).expect("it can be read");
    Watched::new(child.id()).signal(Signal::HUP);
    drop(child.stdin.take());
    assert_eq!(rest(from), "still here\n");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn processes_left_in_the_background_end_with_the_run() {
    let world = World::new();
    let (mut child, from) = started(
        &mut world.shell("(setsid nohup sleep 987.003 >/dev/null 2>&1 &) ; echo ready; read line"),
    );
    // `read` met the end of its empty input: the run is over.
    assert_eq!(rest(from), "");
    child.wait().expect("it ends");
    assert!(crate::support::processes::sleeping("987.003").is_empty());
}

#[test]
fn the_deadline_needs_no_signal_from_outside() {
    let world = World::new();
    world
        .run(&["--timeout", "200ms"], &["sh", "-c", "trap '' TERM; sleep 987.004 & wait"])
        .finish()
        .expect_code(124);
    assert!(crate::support::processes::sleeping("987.004").is_empty());
}
