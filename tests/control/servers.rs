//! Finding servers, and who is let in.

use std::{
    fs,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::Path,
    time::Instant,
};

use rustix::process::Signal;
use serde_json::json;

use crate::{
    client::{Client, Era},
    owned::{BASH, PYTHON, Place, Transport},
    support::{Finish, PATIENCE, between_looks, own, processes::Watched, server::Server},
};

#[test]
fn the_only_server_is_found_by_itself_and_its_status_told() {
    let place = Place::new("");
    let running = place.serve(&[]);
    let status = place.owner(&["status", "--json"]).expect_code(0).json();
    assert_eq!(status["server"].to_string(), running.pid());
    assert_eq!(status["pid"], running.worker.pid());
    assert_eq!((&status["generation"], &status["running"]), (&json!(1), &json!(0)));
    let text = place.done(&["status"]);
    assert!(text.contains("generation  1\n"), "{text}");
    let mut client = Client::at_url(Era::Modern, &running.url);
    let code = "while [ ! -e go ]; do sleep 0.02; done";
    let call = client.send_call(BASH, &json!({ "code": code }));
    place.wait_for_status("a running call", |status| status["running"] == 1);
    place.world.file("go", "");
    client.answer(call);
    place.wait_for_status("no call", |status| status["running"] == 0);
}

#[test]
fn without_a_server_there_is_one_clear_error() {
    let place = Place::new("");
    for command in [
        &["status"][..],
        &["reload"],
        &["tools", "rules"],
        &["tools", "deactivate", "*"],
        &["tools", "forget", "*"],
        &["status", "--server", "1"],
    ] {
        let finished = place.owner(command).expect_code(1);
        finished.expect_error(&["no server of yours is running", "\nhint: "]);
    }
}

#[test]
fn of_two_servers_one_must_be_named_and_the_other_is_left_alone() {
    let place = Place::new("");
    let (first, mut client) = place.start((Transport::Stdio, Era::Modern));
    let second = place.serve(&[]);
    let mut other = Client::at_url(Era::Modern, &second.url);
    let finished = place.owner(&["tools", "deactivate", "*"]).expect_code(1);
    let workspace = place.world.workspace().canonicalize().expect("it is there");
    let listed = [&first, &second].map(|it| format!("\n  {}  {}", it.pid(), workspace.display()));
    finished.expect_error(&["several servers of yours are running", "--server PID"]);
    finished.expect_error(&listed.each_ref().map(String::as_str));
    place.done(&["tools", "deactivate", "*", "--server", &second.pid()]);
    assert!(other.tools().is_empty());
    assert_eq!(client.tools()[..2], [PYTHON, BASH]);
    let finished = place.owner(&["status", "--server", "1"]).expect_code(1);
    finished.expect_error(&["no server of yours has the process id 1"]);
    // A server that has ended is not one of several.
    second.server.supervisor.signal(Signal::TERM);
    second.server.finish();
    place.done(&["tools", "rules"]);
    drop(first);
}

#[test]
fn a_server_is_found_in_the_folder_of_the_session_too() {
    let place = Place::new("");
    let mut command = place.world.cofferdam();
    command.args(["serve", "--mcp-port", "0"]).stdin(std::process::Stdio::null());
    let mut server = Server::start(command);
    server.ready();
    let pid = server.supervisor.pid().to_string();
    assert!(place.world.runtime().join("cofferdam").join(&pid).join("admin.sock").exists());
    let status = place.world.cofferdam().args(["status", "--json", "--server", &pid]).finish();
    assert_eq!(status.expect_code(0).json()["server"].to_string(), pid);
}

#[test]
fn the_sockets_are_for_this_user_only() {
    let place = Place::new("");
    let running = place.serve(&[]);
    let folder = place.world.runtime().join(running.pid());
    let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o7777;
    assert_eq!(mode(&folder), 0o700);
    for socket in ["admin.sock", "worker.sock"] {
        assert_eq!(mode(&folder.join(socket)), 0o600, "{socket}");
    }
}

#[test]
fn a_folder_that_somebody_else_made_first_is_refused_and_not_trusted() {
    let place = Place::new("");
    // Root can give a folder away; for everybody else one of root's serves.
    let is_root = rustix::process::geteuid().is_root();
    let theirs = if is_root { place.world.outside("theirs") } else { "/usr".into() };
    if is_root {
        fs::DirBuilder::new().mode(0o700).create(&theirs).expect("a folder can be made");
        std::os::unix::fs::chown(&theirs, Some(65_534), None).expect("root may");
    }
    let mut serve = place.world.cofferdam();
    serve.args(["serve", "--mcp-port", "0"]).env("COFFERDAM_RUNTIME_DIR", &theirs);
    let finished = serve.finish().expect_code(1);
    finished.expect_error(&["belongs to user", "\nhint: "]);
    if is_root {
        assert_eq!(fs::read_dir(&theirs).expect("root may").count(), 0);
    }
    let mut status = place.world.cofferdam();
    status.arg("status").env("COFFERDAM_RUNTIME_DIR", &theirs);
    status.finish().expect_code(1).expect_error(&["no server of yours is running"]);
}

#[test]
fn a_folder_that_others_may_enter_is_refused() {
    let place = Place::new("");
    let open = place.world.outside("open");
    fs::DirBuilder::new().mode(0o755).create(&open).expect("a folder can be made");
    let mut serve = place.world.cofferdam();
    serve.args(["serve", "--mcp-port", "0"]).env("COFFERDAM_RUNTIME_DIR", &open);
    serve.finish().expect_code(1).expect_error(&["open to other users", "chmod 700"]);
}

#[test]
fn what_a_killed_server_left_is_removed_by_the_next_and_a_live_one_is_not_touched() {
    let place = Place::new("");
    let live = place.serve(&[]);
    let dead = place.serve(&[]);
    let (live_folder, dead_folder) =
        (place.world.runtime().join(live.pid()), place.world.runtime().join(dead.pid()));
    // Nobody of it gets a chance to tidy up.
    dead.server.supervisor.signal(Signal::STOP);
    dead.server.supervisor.expect_stop();
    dead.worker.signal(Signal::KILL);
    dead.worker.expect_end();
    dead.server.supervisor.signal(Signal::KILL);
    dead.server.supervisor.expect_end();
    assert!(dead_folder.join("admin.sock").exists(), "there is something to remove");
    let next = place.serve(&[]);
    assert!(!dead_folder.exists());
    assert!(live_folder.join("admin.sock").exists());
    place.done(&["status", "--server", &live.pid()]);
    place.done(&["status", "--server", &next.pid()]);
}

#[test]
fn the_owner_waits_for_a_worker_that_is_being_started_again() {
    let place = Place::new("");
    let running = place.serve(&[]);
    running.worker.signal(Signal::KILL);
    running.worker.expect_end();
    let status = place.owner(&["status", "--json"]).expect_code(0).json();
    assert_ne!(status["pid"], running.worker.pid());
}

#[test]
fn a_terminal_that_is_closed_ends_the_server_on_it() {
    let place = Place::new("");
    let (terminal, other_end) = pty_process::blocking::open().expect("a terminal can be opened");
    let mut command = pty_process::blocking::Command::new(own())
        .args(["serve", "--mcp-port", "0"])
        .current_dir(place.world.workspace())
        .env_clear()
        .env("COFFERDAM_RUNTIME_DIR", place.world.runtime());
    for (name, value) in place.world.environment() {
        command = command.env(name, value);
    }
    let mut child = command.spawn(other_end).expect("the program can be started");
    let server = Watched::new(child.id());
    let begun = Instant::now();
    while place.owner(&["status"]).code() != 0 {
        assert!(begun.elapsed() < PATIENCE && server.runs(), "it does not serve");
        between_looks();
    }
    // What SIGHUP means then is not "reload": nobody is left who could end it.
    drop(terminal);
    server.expect_end();
    assert_eq!(child.wait().expect("it has ended").code(), Some(0));
}
