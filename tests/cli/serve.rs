//! `cofferdam serve`: the processes, their order, and their ends.

use std::{
    net::TcpListener,
    process::{Command, Stdio},
};

use rustix::process::Signal;
use serde_json::json;

use crate::support::{
    Finish, World,
    client::{call_over_http, value},
    own,
    processes::{
        Watched, children, command_line, descendants, descriptors, wait_for_sleep, with_argument,
    },
    program,
    server::Server,
};

const BASH: &str = "bash_coding_tool.execute";

#[test]
fn it_says_where_it_serves_and_answers_there() {
    let world = World::new();
    let mut server = Server::serve(&world, &[]);
    let ready = server.ready();
    assert!(ready.address.starts_with("http://127.0.0.1:"), "{}", ready.address);
    assert!(ready.address.ends_with("/mcp"), "{}", ready.address);
    let answer = call_over_http(&ready.address, BASH, &json!({ "code": "echo $((6*7))" }));
    assert_eq!(value(&answer.expect("an answer"))["stdout"], "42\n");
}

#[test]
fn the_order_is_worker_then_gateway_each_a_process_of_its_own() {
    let world = World::new();
    let mut server = Server::serve(&world, &[]);
    let ready = server.ready();
    let mut processes = children(server.supervisor.pid());
    processes.sort_unstable();
    assert_eq!(processes, [ready.worker.pid(), ready.gateway.pid()]);
    assert!(command_line(ready.worker.pid()).starts_with("cofferdam worker "));
    assert!(command_line(ready.gateway.pid()).starts_with("cofferdam mcp "));
    // Process ids rise within so short a time unless they wrapped around.
    assert!(ready.worker.pid() < ready.gateway.pid() || ready.gateway.pid() < 1000);
}

#[test]
fn no_gateway_is_started_when_the_worker_does_not_answer() {
    let world = World::new();
    let finished = world
        .cofferdam()
        .args(["serve", "--mcp-port", "0", "-w", "/no/such/workspace"])
        .finish()
        .expect_code(1);
    assert!(!finished.stderr.contains("serving MCP"), "{finished:?}");
}

#[test]
fn a_term_signal_lets_calls_finish_and_ends_with_0() {
    let world = World::new();
    let mut server = Server::serve(&world, &[]);
    let ready = server.ready();
    let address = ready.address.clone();
    let call = std::thread::spawn(move || {
        let code = "echo $$ > started; while [ ! -e go ]; do sleep 0.02; done; echo finished";
        call_over_http(&address, BASH, &json!({ "code": code }))
    });
    while !world.workspace().join("started").exists() {
        crate::support::between_looks();
    }
    server.supervisor.signal(Signal::TERM);
    server.expect_line("told to end");
    world.file("go", "");
    let answer = call.join().expect("the client ends").expect("an answer");
    assert_eq!(value(&answer)["stdout"], "finished\n");
    let (status, log) = server.finish();
    assert_eq!(status.code(), Some(0), "{log}");
    ready.worker.expect_end();
    ready.gateway.expect_end();
    assert_eq!(world.left_in_runtime(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_second_signal_ends_everything_at_once() {
    let world = World::new();
    let mut server = Server::serve(&world, &[]);
    let ready = server.ready();
    let address = ready.address.clone();
    let call = std::thread::spawn(move || {
        call_over_http(&address, BASH, &json!({ "code": "trap '' TERM; sleep 987.301" }))
    });
    let sleepers = wait_for_sleep("987.301");
    server.supervisor.signal(Signal::TERM);
    server.expect_line("told to end");
    server.supervisor.signal(Signal::INT);
    let (status, log) = server.finish();
    assert_eq!(status.code(), Some(130), "{log}");
    ready.worker.expect_end();
    ready.gateway.expect_end();
    sleepers.iter().for_each(Watched::expect_end);
    let _ = call.join().expect("the client ends");
    assert_eq!(world.left_in_runtime(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_worker_that_ends_is_started_again() {
    for signal in [Signal::KILL, Signal::TERM] {
        let world = World::new();
        let mut server = Server::serve(&world, &[]);
        let ready = server.ready();
        ready.worker.signal(signal);
        let next = server.next_worker(&ready.worker);
        server.expect_line("well again");
        let answer = call_over_http(&ready.address, BASH, &json!({ "code": "echo again" }));
        assert_eq!(value(&answer.expect("an answer"))["stdout"], "again\n");
        assert!(next.runs() && ready.gateway.runs());
    }
}

#[test]
fn a_call_whose_worker_dies_is_answered_and_its_sandbox_is_gone() {
    let world = World::new();
    let mut server = Server::serve(&world, &[]);
    let ready = server.ready();
    let address = ready.address.clone();
    let call = std::thread::spawn(move || {
        call_over_http(&address, BASH, &json!({ "code": "setsid sleep 987.302 & sleep 987.302" }))
    });
    let sleepers = wait_for_sleep("987.302");
    ready.worker.signal(Signal::KILL);
    let answer = call.join().expect("the client ends").expect("an answer");
    let result = &answer["result"];
    assert_eq!(result["isError"], true, "{answer}");
    assert_eq!(result["_meta"]["cofferdam"]["code"], "worker_unavailable", "{answer}");
    sleepers.iter().for_each(Watched::expect_end);
}

#[test]
fn past_the_restart_limit_both_end_and_the_exit_code_says_so() {
    let world = World::new();
    let config = world.outside("cofferdam.toml");
    for limit in [0, 1] {
        let text = format!("[execution]\nworker_restart_limit = {limit}\n");
        std::fs::write(&config, text).expect("a file can be written");
        let mut server = Server::serve(&world, &["--config", config.to_str().expect("UTF-8")]);
        let ready = server.ready();
        ready.worker.signal(Signal::KILL);
        if limit == 1 {
            let next = server.next_worker(&ready.worker);
            server.expect_line("well again");
            next.signal(Signal::KILL);
        }
        let (status, log) = server.finish();
        assert_eq!(status.code(), Some(3), "{log}");
        assert!(log.contains("error: the worker process died"), "{log}");
        ready.gateway.expect_end();
    }
}

#[test]
fn a_gateway_that_is_killed_ends_everything_and_the_exit_code_says_so() {
    let world = World::new();
    let mut server = Server::serve(&world, &[]);
    let ready = server.ready();
    ready.gateway.signal(Signal::KILL);
    let (status, log) = server.finish();
    assert_eq!(status.code(), Some(4), "{log}");
    ready.worker.expect_end();
    assert_eq!(world.left_in_runtime(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_supervisor_that_is_killed_leaves_no_process_and_no_file() {
    let world = World::new();
    let mut server = Server::serve(&world, &[]);
    let ready = server.ready();
    let address = ready.address.clone();
    let call = std::thread::spawn(move || {
        call_over_http(&address, BASH, &json!({ "code": "setsid sleep 987.303 & sleep 987.303" }))
    });
    let sleepers = wait_for_sleep("987.303");
    let everything: Vec<Watched> =
        descendants(server.supervisor.pid()).into_iter().map(Watched::new).collect();
    assert!(everything.len() > 2, "the sandbox is below the worker");
    server.supervisor.signal(Signal::KILL);
    everything.iter().chain(&sleepers).for_each(Watched::expect_end);
    let _ = call.join().expect("the client ends");
    assert_eq!(world.left_in_runtime(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_stopped_worker_dies_with_its_supervisor_too() {
    let world = World::new();
    let mut server = Server::serve(&world, &[]);
    let ready = server.ready();
    ready.worker.signal(Signal::STOP);
    ready.worker.expect_stop();
    server.supervisor.signal(Signal::KILL);
    ready.gateway.expect_end();
    ready.worker.expect_end();
}

#[test]
fn the_socket_is_in_a_directory_that_only_this_user_can_enter() {
    use std::os::unix::fs::MetadataExt;
    let world = World::new();
    let mut server = Server::serve(&world, &[]);
    server.ready();
    let made = world.left_in_runtime();
    assert_eq!(made.len(), 1, "{made:?}");
    let metadata = made[0].metadata().expect("it can be asked");
    assert!(metadata.is_dir());
    assert_eq!(metadata.mode() & 0o7777, 0o700);
}

#[test]
fn a_port_in_use_is_one_clear_error() {
    let world = World::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = taken.local_addr().expect("it has an address").port().to_string();
    let finished = world.cofferdam().args(["serve", "--mcp-port", &port]).finish().expect_code(1);
    finished.expect_error(&[&port, "in use", "\nhint: "]);
    assert_eq!(world.left_in_runtime(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn an_address_that_other_machines_could_reach_is_refused() {
    let world = World::new();
    for host in ["0.0.0.0", "192.0.2.1", "::", "example.org"] {
        let finished =
            world.cofferdam().args(["serve", "--mcp-host", host]).finish().expect_code(2);
        finished.expect_error(&[host, "\nhint: "]);
    }
}

#[test]
fn the_path_and_the_ipv6_loopback_can_be_chosen() {
    let world = World::new();
    let mut server = Server::serve(&world, &["--mcp-path", "/tools", "--mcp-host", "::1"]);
    let ready = server.ready();
    assert!(ready.address.starts_with("http://[::1]:"), "{}", ready.address);
    assert!(ready.address.ends_with("/tools"), "{}", ready.address);
    let answer = call_over_http(&ready.address, BASH, &json!({ "code": "echo hi" }));
    assert_eq!(value(&answer.expect("an answer"))["stdout"], "hi\n");
}

#[test]
fn a_worker_on_tcp_has_a_secret_that_nobody_else_sees() {
    let world = World::new();
    let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let endpoint = format!("tcp://{}", free.local_addr().expect("it has an address"));
    drop(free);
    let mut server = Server::serve(&world, &["--worker-endpoint", &endpoint, "-vv"]);
    let ready = server.ready();
    let answer = call_over_http(&ready.address, BASH, &json!({ "code": "env" }));
    let answer = answer.expect("an answer");
    let environment = value(&answer)["stdout"].as_str().expect("text");
    assert!(!environment.contains("COFFERDAM"), "{environment}");
    let raw = std::fs::read(format!("/proc/{}/environ", ready.worker.pid())).expect("ours");
    let raw = String::from_utf8_lossy(&raw).into_owned();
    let secret = raw
        .split('\0')
        .find_map(|variable| variable.strip_prefix("COFFERDAM_WORKER_TOKEN="))
        .expect("the worker has a secret");
    assert!(secret.len() >= 32);
    assert_eq!(with_argument(secret), Vec::<u32>::new());
    // Without it nobody is served.
    let mut stranger = Command::new(program("cofferdam-mcp"));
    world.surround(&mut stranger);
    stranger.args(["--worker", &endpoint, "--port", "0"]);
    stranger.finish().expect_code(1).expect_error(&["worker"]);
    server.supervisor.signal(Signal::TERM);
    let secret = secret.to_owned();
    let (_, log) = server.finish();
    assert!(!log.contains(&secret));
}

#[test]
fn a_worker_endpoint_that_cannot_be_used_is_refused() {
    let world = World::new();
    for endpoint in
        ["tcp://192.0.2.1:5555", "tcp://localhost", "http://127.0.0.1:5555", "tcp://127.0.0.1:0"]
    {
        let finished = world
            .cofferdam()
            .args(["serve", "--worker-endpoint", endpoint])
            .finish()
            .expect_code(2);
        finished.expect_error(&["endpoint"]);
    }
}

#[test]
fn no_process_keeps_a_descriptor_that_somebody_left_open() {
    let world = World::new();
    let secret = world.outside("secret.txt");
    std::fs::write(&secret, "secret").expect("a file can be written");
    let mut command = Command::new("bash");
    world.surround(&mut command);
    let script = "exec 7<\"$1\" 9<\"$1\"; exec \"$0\" serve --mcp-port 0";
    command.args(["-c", script, &own()]).arg(&secret).stdin(Stdio::null());
    let mut server = Server::start(command);
    let ready = server.ready();
    let address = ready.address.clone();
    let call = std::thread::spawn(move || {
        call_over_http(&address, BASH, &json!({ "code": "sleep 987.304" }))
    });
    let _sleepers = wait_for_sleep("987.304");
    for pid in descendants(server.supervisor.pid()) {
        let open = descriptors(pid);
        let leaked = open.iter().any(|(_, target)| target.contains("secret.txt"));
        assert!(!leaked, "{}: {open:?}", command_line(pid));
    }
    server.supervisor.signal(Signal::TERM);
    server.supervisor.signal(Signal::TERM);
    server.finish();
    let _ = call.join().expect("the client ends");
}

#[test]
fn the_gateway_does_not_see_the_servers_environment() {
    let world = World::new();
    let mut command = world.cofferdam();
    command.args(["serve", "--mcp-port", "0"]).env("SOME_SECRET", "hunter2").stdin(Stdio::null());
    let mut server = Server::start(command);
    let ready = server.ready();
    let environment =
        std::fs::read(format!("/proc/{}/environ", ready.gateway.pid())).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&environment).contains("hunter2"));
}

#[test]
fn the_worker_and_the_gateway_are_programs_of_their_own_too() {
    let world = World::new();
    let socket = world.runtime().join("own.sock");
    let mut worker = Command::new(program("cofferdam-worker"));
    world.surround(&mut worker);
    let mut worker = worker
        .arg("--bind")
        .arg(&socket)
        .stdin(Stdio::null())
        .spawn()
        .expect("the worker can be started");
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        assert!(worker.try_wait().expect("it can be asked").is_none(), "the worker ended");
        crate::support::between_looks();
    }
    let mut gateway = Command::new(program("cofferdam-mcp"));
    world.surround(&mut gateway);
    let mut gateway = gateway
        .arg("--worker")
        .arg(&socket)
        .args(["--timeout-ms", "60000", "--host", "127.0.0.1", "--port", "0", "--path", "/own"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the gateway can be started");
    let mut address = String::new();
    let mut report = std::io::BufReader::new(gateway.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut report, &mut address).expect("it says where it serves");
    let answer = call_over_http(address.trim(), BASH, &json!({ "code": "echo own" }));
    assert_eq!(value(&answer.expect("an answer"))["stdout"], "own\n");
    for (child, name) in [(&mut gateway, "gateway"), (&mut worker, "worker")] {
        let watched = Watched::new(child.id());
        watched.signal(Signal::TERM);
        watched.expect_end();
        assert_eq!(child.wait().expect("it has ended").code(), Some(0), "{name}");
    }
    assert!(!socket.exists(), "the worker removes its socket");
}
