//! Runs that really end, and take everything with them.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use crate::support::{
    Answer, PATIENCE, Place, eventually, first_line, marker, processes_with, program,
};

/// A background job under a name that can be looked for.
fn lingering(name: &str) -> String {
    format!("exec -a {name} sleep 600")
}

#[track_caller]
fn gone(name: &str) {
    eventually(&format!("no process {name}"), || processes_with(name).is_empty());
}

/// E5
#[test]
fn nothing_survives_the_end_of_the_main_process() {
    let place = Place::new();
    let name = marker("survivor");
    let sleep = lingering(&name);
    let ways = [
        format!("(bash -c '{sleep}' &)"),
        format!("nohup bash -c '{sleep}' >/dev/null 2>&1 &"),
        format!("setsid bash -c '{sleep}' </dev/null >/dev/null 2>&1 &"),
        format!("(setsid bash -c '(setsid bash -c \"{sleep}\" &)' &)"),
        format!("bash -c 'trap \"\" TERM HUP INT; {sleep}' &"),
        format!("bash -c 'exec 0<&- 1>&- 2>&-; {sleep}' &"),
    ];
    for way in &ways {
        assert_eq!(place.bash(&format!("{way}\necho done")).ok(), "done", "{way}");
        gone(&name);
    }
    // Positive control: without the sandbox it does survive.
    assert_eq!(place.bash_outside(&format!("{} >/dev/null 2>&1; echo done", ways[0])).ok(), "done");
    eventually("the control survives", || !processes_with(&name).is_empty());
    // Again and again: a shell that is killed in mid start may have left a child behind.
    eventually("the control is gone", || {
        let left = processes_with(&name);
        for id in &left {
            let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
        }
        left.is_empty()
    });
}

/// E6
#[test]
fn a_deadline_ends_what_ignores_or_cannot_hear_signals() {
    let place = Place::new();
    let name = marker("deaf");
    let sleep = lingering(&name);
    for code in [
        format!("trap '' TERM HUP INT; echo started; bash -c '{sleep}'"),
        format!("bash -c '{sleep}' & kill -STOP $!; echo started; kill -STOP $$"),
        format!("echo started; while :; do bash -c '{sleep}' & wait -n; done"),
    ] {
        let mut command = program();
        command.args(["run", "--timeout", "1s", "-w"]).arg(place.path());
        let answer = Answer::of(command.args(["--", "bash", "-c", &code]));
        assert_eq!((answer.code, answer.stdout.trim()), (Some(124), "started"), "{answer:?}");
        gone(&name);
    }
    // The next run is unaffected.
    assert_eq!(place.bash("echo free").ok(), "free");
}

/// E8
#[test]
fn an_empty_standard_input_ends_at_once() {
    let place = Place::new();
    let call = r#"{"code": "cat; read line; echo ended $?"}"#;
    let answer = Answer::of(
        program()
            .args(["call", "bash_coding_tool.execute", "-w"])
            .arg(place.path())
            .arg(call)
            // The caller's own standard input stays open and empty: it must not be inherited.
            .stdin(Stdio::piped()),
    );
    let reply: serde_json::Value = serde_json::from_str(answer.ok()).expect("JSON");
    assert_eq!(reply["stdout"], "ended 1\n");
}

/// E9
#[test]
fn a_killed_program_takes_its_run_with_it() {
    let place = Place::new();
    let name = marker("orphan");
    let code = format!("echo started; (setsid bash -c '{0}' &); bash -c '{0}'", lingering(&name));
    let mut run = place
        .run()
        .args(["bash", "-c", &code])
        .stdout(Stdio::piped())
        .spawn()
        .expect("starting a run");
    assert_eq!(first_line(&mut run).trim(), "started");
    eventually("the run is under way", || !processes_with(&name).is_empty());
    run.kill().expect("SIGKILL");
    run.wait().expect("waiting");
    gone(&name);
}

/// E9, for a server: whichever of its processes is killed.
#[test]
fn a_killed_server_takes_its_runs_with_it() {
    for victim in ["worker", "supervisor"] {
        let place = Place::new();
        let name = marker("served");
        let mut server = Server::start(&place);
        server.call(&format!("bash -c '{}' & echo x > started; wait", lingering(&name)));
        eventually("the run is under way", || !processes_with(&name).is_empty());
        let id = match victim {
            "worker" => child_named(server.0.id(), "worker"),
            _ => server.0.id(),
        };
        let killed = Command::new("kill").args(["-9", &id.to_string()]).status();
        assert!(killed.expect("kill").success(), "{victim}");
        gone(&name);
        drop(server);
    }
}

/// E10
#[test]
fn a_client_that_goes_away_ends_its_run() {
    let place = Place::new();
    let name = marker("abandoned");
    let mut server = Server::start(&place);
    server.call(&format!("bash -c '{}'", lingering(&name)));
    eventually("the run is under way", || !processes_with(&name).is_empty());
    drop(server.0.stdin.take());
    gone(&name);
    let status = server.wait();
    assert_eq!(status, Some(0), "a client that leaves is no fault");
}

/// E10
#[test]
fn a_hundred_runs_leave_nothing_behind() {
    let place = Place::new();
    let name = marker("leftover");
    let count = || {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let files = std::fs::read_dir(place.path()).expect("the workspace").count();
        (mounts.lines().count(), files, processes_with(&name).len())
    };
    let before = count();
    for turn in 0..100 {
        let end = if turn % 3 == 0 { "kill -9 $$" } else { "true" };
        place.bash(&format!("(exec -a {name} sleep 600 &); {end}"));
    }
    assert_eq!(count(), before);
}

/// An MCP server over stdio, spoken to by hand.
pub(crate) struct Server(std::process::Child);

impl Server {
    fn start(place: &Place) -> Self {
        Self::at(place.path())
    }

    /// A server on the workspace at `path`.
    pub(crate) fn at(path: &std::path::Path) -> Self {
        let mut command = program();
        command.args(["stdio", "-w"]).arg(path);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = Self(child.spawn().expect("starting a server"));
        server.send(&serde_json::json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": { "name": "test", "version": "0" }
            }
        }));
        assert!(first_line(&mut server.0).contains("cofferdam"));
        server.send(&serde_json::json!({
            "jsonrpc": "2.0", "method": "notifications/initialized"
        }));
        server
    }

    fn send(&mut self, message: &serde_json::Value) {
        let stdin = self.0.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "{message}").expect("speaking to the server");
    }

    /// Starts a call and does not wait for its answer.
    fn call(&mut self, code: &str) {
        self.send(&serde_json::json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": "bash_coding_tool.execute", "arguments": { "code": code } }
        }));
    }

    /// Calls, and waits for the answer as it stands on the wire.
    pub(crate) fn answer(&mut self, code: &str) -> String {
        self.call(code);
        first_line(&mut self.0)
    }

    fn wait(&mut self) -> Option<i32> {
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait().expect("waiting") {
                return status.code();
            }
            assert!(std::time::Instant::now() < deadline, "the server does not end");
            std::thread::yield_now();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The child of `parent` whose command line holds `word`.
fn child_named(parent: u32, word: &str) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))
        .expect("children");
    children
        .split_whitespace()
        .filter_map(|id| id.parse().ok())
        .find(|id: &u32| processes_with(word).contains(id))
        .expect("the child")
}
