//! What a server records, and what is left when it is killed.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    BASH,
    log::{Audited, records},
    support::{
        Finish, World,
        client::value,
        processes::{Watched, wait_for_sleep},
        server::Server,
    },
};

fn events(records: &[Value]) -> Vec<&str> {
    records.iter().filter_map(|record| record["event"].as_str()).collect()
}

#[test]
fn a_server_records_its_start_its_calls_and_its_stop_without_being_configured() {
    let world = World::new();
    let (mut server, mut client) = Server::stdio(&world, &[]);
    let answer = client.call(BASH, &json!({ "code": "exit 4" }));
    assert_eq!(value(&answer)["returncode"], 4);
    let worker = server.ready().worker;
    client.close();
    let (status, log) = server.finish();
    assert_eq!(status.code(), Some(0));

    let path = world.home().join(".local/state/cofferdam/audit.jsonl");
    let records = records(&path);
    assert_eq!(events(&records), ["start", "begin", "end", "stop"]);
    assert_eq!(records[0]["pid"], worker.pid());
    assert_eq!(records[0]["workspace"], world.workspace().to_str().expect("UTF-8"));
    assert_eq!(records[0]["instance"], records[3]["instance"]);
    assert_eq!(records[2]["caller"]["via"], "socket");
    assert_eq!(records[2]["run"]["returncode"], 4);
    let call = records[1]["call"].as_str().expect("an id");
    assert!(call.starts_with(records[0]["instance"].as_str().expect("an id")), "{call}");
    // Outside of the log, for whoever keeps it: what shows that its end was cut off.
    assert!(log.contains(records[3]["hash"].as_str().expect("a hash")), "{log}");

    let mode = |path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(path.as_path()), 0o600);
    assert_eq!(mode(path.parent().expect("a folder")), 0o700);
    let verified = world.cofferdam().args(["audit", "verify"]).finish().expect_code(0);
    assert!(
        verified.stdout.starts_with("unbroken: 4 records, 1 to 4, in 1 file\n"),
        "{verified:?}"
    );
}

#[test]
fn a_killed_worker_leaves_a_beginning_without_an_end_and_the_next_one_goes_on() {
    let log = Audited::new();
    let mut command = log.cofferdam(&["stdio"]);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let (mut server, to, from) = Server::start_piped(command);
    let mut client = crate::support::client::PipeClient::new(to, from);
    let ready = server.ready();
    let lost = client.send_call(BASH, &json!({ "code": "sleep 987.701" }));
    let sleepers = wait_for_sleep("987.701");
    ready.worker.signal(Signal::KILL);
    client.answer(lost);
    sleepers.iter().for_each(Watched::expect_end);
    server.expect_line("well again");
    client.call(BASH, &json!({ "code": "true" }));
    client.close();
    server.finish();
    let records = log.records();
    assert_eq!(events(&records), ["start", "begin", "start", "begin", "end", "stop"]);

    let verified = log.audit(&["verify"]).expect_code(0);
    assert!(
        verified.stdout.contains("\nunfinished calls, under way or killed: 1\n"),
        "{verified:?}"
    );
    assert!(verified.stdout.contains("\nservers that run, or were killed: 1\n"), "{verified:?}");
    let json = log.audit(&["verify", "--json"]).expect_code(0).json();
    assert_eq!(json["unfinished"][0]["call"], records[1]["call"]);
    assert_eq!(json["unfinished"][0]["line"], 2);
    let shown = log.audit(&["show"]).expect_code(0).stdout;
    let rows: Vec<_> = shown.lines().map(|row| row.contains("  unfinished  ")).collect();
    assert_eq!(rows, [false, true, false, false, false], "{shown}");
}

#[test]
fn two_servers_and_a_person_write_one_chain() {
    const CALLS: usize = 15;
    let log = Audited::new();
    let serve = || {
        let mut command = log.cofferdam(&["stdio"]);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let (server, to, from) = Server::start_piped(command);
        (server, crate::support::client::PipeClient::new(to, from))
    };
    let (one, mut client) = serve();
    let (other, mut other_client) = serve();
    let arguments = json!({ "name": "limits" });
    std::thread::scope(|scope| {
        scope.spawn(|| log.calls(5));
        for _ in 0..CALLS {
            // Under way at the same time.
            let first = client.send_call("executor.get_attribute_payload", &arguments);
            let second = other_client.send_call("executor.get_attribute_payload", &arguments);
            client.answer(first);
            other_client.answer(second);
        }
    });
    client.close();
    other_client.close();
    one.finish();
    other.finish();
    let json = log.audit(&["verify", "--json"]).expect_code(0).json();
    assert_eq!(json["records"], 2 * (2 * CALLS + 5) + 4, "{json}");
    assert_eq!((&json["unfinished"], &json["not_stopped"]), (&json!([]), &json!(0)));
    // In turns, not one after the other.
    let calls: Vec<_> = log.records().iter().filter_map(instance_of_call).collect();
    let changes = calls.windows(2).filter(|two| two[0] != two[1]).count();
    assert!(changes >= CALLS, "{changes}");
}

/// Which process a record's call belongs to.
fn instance_of_call(record: &Value) -> Option<String> {
    Some(record["call"].as_str()?.split_once('-')?.0.to_owned())
}

#[test]
fn a_server_that_cannot_record_does_not_start_and_says_why() {
    let log = Audited::new();
    std::fs::create_dir(log.world.outside("log")).expect("a folder can be made");
    std::fs::write(log.path(), "notes of mine\n").expect("a file can be written");
    let finished = log.finish(&["stdio"]).expect_code(1);
    finished.expect_error(&["does not end with an audit record", "\nhint: move "]);
    assert_eq!(log.text(), "notes of mine\n");
    let mut command = log.world.cofferdam();
    let finished = command.args(["stdio"]).env_remove("HOME").finish().expect_code(1);
    finished.expect_error(&["neither XDG_STATE_HOME nor HOME is set", "audit.enabled = false"]);
}

#[test]
fn a_server_that_shall_not_record_does_not() {
    let world = World::new();
    let mut command = world.cofferdam();
    command.arg("stdio").env("COFFERDAM_AUDIT__ENABLED", "false");
    command.finish().expect_code(0);
    assert_eq!(crate::support::entries(&world.home()), Vec::<std::path::PathBuf>::new());
}
