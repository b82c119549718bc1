//! `cofferdam stdio`: standard input and output belong to MCP.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;

use crate::support::{
    Finish, World,
    client::{PipeClient, value},
    processes::{Watched, descendants, wait_for_sleep},
    server::Server,
};

const BASH: &str = "bash_coding_tool.execute";

#[test]
fn it_answers_and_ends_with_0_when_the_client_leaves() {
    let world = World::new();
    let (mut server, mut client) = Server::stdio(&world, &[]);
    let answer = client.call(BASH, &json!({ "code": "echo $((6*7))" }));
    assert_eq!(value(&answer)["stdout"], "42\n");
    let ready = server.ready();
    client.close();
    let (status, log) = server.finish();
    assert_eq!(status.code(), Some(0), "{log}");
    ready.worker.expect_end();
    ready.gateway.expect_end();
    assert_eq!(world.left_in_runtime(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_client_that_says_nothing_and_leaves_is_no_error() {
    let world = World::new();
    let finished = world.cofferdam().arg("stdio").finish().expect_code(0);
    assert_eq!(finished.stdout, "");
    assert!(!finished.stderr.contains("error:"), "{finished:?}");
}

#[test]
fn a_line_that_is_no_message_does_not_end_the_server() {
    let world = World::new();
    let (_server, mut client) = Server::stdio(&world, &[]);
    client.call(BASH, &json!({ "code": "true" }));
    client.send_line("this is no JSON");
    let answer = client.call(BASH, &json!({ "code": "echo alive" }));
    assert_eq!(value(&answer)["stdout"], "alive\n");
}

#[test]
fn only_messages_are_ever_on_standard_output_even_when_everything_is_logged() {
    let world = World::new();
    let (mut server, mut client) = Server::stdio(&world, &["-vv"]);
    // `answer` panics on a line that is no message.
    client.call(BASH, &json!({ "code": "echo one" }));
    let ready = server.ready();
    ready.worker.signal(Signal::KILL);
    server.expect_line("well again");
    let answer = client.call(BASH, &json!({ "code": "echo two" }));
    assert_eq!(value(&answer)["stdout"], "two\n");
}

#[test]
fn a_client_that_leaves_in_mid_call_leaves_nothing_running() {
    let world = World::new();
    let (server, mut client) = Server::stdio(&world, &[]);
    client.send_call(BASH, &json!({ "code": "setsid sleep 987.401 & sleep 987.401" }));
    let sleepers = wait_for_sleep("987.401");
    client.close();
    drop(client);
    server.supervisor.signal(Signal::TERM);
    let (_, _log) = server.finish();
    sleepers.iter().for_each(Watched::expect_end);
}

#[test]
fn a_supervisor_that_is_killed_leaves_nothing() {
    let world = World::new();
    let (mut server, mut client) = Server::stdio(&world, &[]);
    server.ready();
    client.send_call(BASH, &json!({ "code": "sleep 987.402" }));
    let sleepers = wait_for_sleep("987.402");
    let everything: Vec<Watched> =
        descendants(server.supervisor.pid()).into_iter().map(Watched::new).collect();
    server.supervisor.signal(Signal::KILL);
    everything.iter().chain(&sleepers).for_each(Watched::expect_end);
    assert_eq!(world.left_in_runtime(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_client_that_leaves_and_kills_at_once_leaves_no_file() {
    // As asyncio's subprocesses are closed. Whoever of the processes is how far differs each time.
    for _ in 0..20 {
        let world = World::new();
        let (mut server, mut client) = Server::stdio(&world, &[]);
        let ready = server.ready();
        client.close();
        ready.gateway.expect_end();
        server.supervisor.signal(Signal::KILL);
        ready.worker.expect_end();
        assert_eq!(world.left_in_runtime(), Vec::<std::path::PathBuf>::new());
    }
}

#[test]
fn the_workers_standard_input_and_output_are_nothing() {
    let world = World::new();
    let (mut server, mut client) = Server::stdio(&world, &[]);
    client.call(BASH, &json!({ "code": "true" }));
    let worker = server.ready().worker;
    for descriptor in [0, 1] {
        let target = std::fs::read_link(format!("/proc/{}/fd/{descriptor}", worker.pid()));
        assert_eq!(target.expect("it is open"), std::path::Path::new("/dev/null"));
    }
}

#[test]
fn an_interrupt_at_the_terminal_is_the_supervisors() {
    let world = World::new();
    let (mut server, mut client) = Server::stdio(&world, &[]);
    client.call(BASH, &json!({ "code": "true" }));
    let ready = server.ready();
    // As the terminal does it: everybody in the group.
    ready.gateway.signal(Signal::INT);
    let answer = client.call(BASH, &json!({ "code": "echo still here" }));
    assert_eq!(value(&answer)["stdout"], "still here\n");
    server.supervisor.signal(Signal::INT);
    assert_eq!(server.finish().0.code(), Some(0));
}

#[test]
fn quiet_is_silent() {
    let world = World::new();
    let finished =
        world.cofferdam().args(["stdio", "--quiet"]).stdout(Stdio::piped()).finish().expect_code(0);
    assert_eq!(finished.stderr, "");
}

#[test]
fn a_client_that_does_not_read_the_log_is_served_all_the_same() {
    let world = World::new();
    let (reader, writer) = std::io::pipe().expect("a pipe can be made");
    drop(reader);
    let mut child = world
        .cofferdam()
        .args(["stdio", "-vv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(writer)
        .spawn()
        .expect("the program can be started");
    let to = child.stdin.take().expect("its input is a pipe");
    let from = child.stdout.take().expect("its output is a pipe");
    let mut client = PipeClient::new(to, from);
    let answer = client.call(BASH, &json!({ "code": "echo served" }));
    assert_eq!(value(&answer)["stdout"], "served\n");
    client.close();
    Watched::new(child.id()).expect_end();
    assert_eq!(child.wait().expect("it has ended").code(), Some(0));
}
