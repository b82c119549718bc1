//! Reading configuration and profiles again while the server runs.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    client::{Client, Era},
    owned::{ATTRIBUTE, BASH, PYTHON, Place, Running, Transport},
    support::{between_looks, client::value},
};

const CONFIGURATION: &str = "[execution]\ndefault_profile = \"mine\"\n";

/// A profile that shows in a run which version of it that was.
fn profile(version: &str) -> String {
    format!(
        "extends = \"base\"\n[filesystem]\nworkspace = \"write\"\n[environment.set]\nVERSION = \"{version}\"\n"
    )
}

fn place() -> Place {
    let place = Place::new(CONFIGURATION);
    place.write("sandbox-profiles/mine.toml", &profile("one"));
    place
}

/// Which version of the profile a call runs under, and of which generation it says that it is.
fn version(client: &mut Client) -> (String, u64) {
    let answer = client.call(BASH, &json!({ "code": "echo -n $VERSION" }));
    shown(&answer)
}

fn shown(answer: &Value) -> (String, u64) {
    let value = value(answer);
    let generation = value["sandbox"]["profile_generation"].as_u64().expect("a number");
    (value["stdout"].as_str().expect("text").to_owned(), generation)
}

fn ready(running: &Running) -> Value {
    let url = running.url.replace("/mcp", "/readyz");
    let mut response = ureq::get(&url).call().expect("it is ready");
    let body = response.body_mut().read_to_string().expect("text");
    serde_json::from_str(&body).expect("JSON")
}

#[test]
fn a_changed_profile_is_in_force_without_being_asked_for() {
    let place = place();
    let (_running, mut client) = place.start((Transport::Stdio, Era::Modern));
    assert_eq!(version(&mut client), ("one".to_owned(), 1));
    place.write("sandbox-profiles/mine.toml", &profile("two"));
    place.wait_for_status("the next generation", |status| status["generation"] == 2);
    assert_eq!(version(&mut client), ("two".to_owned(), 2));
    // As editors do it: another file, of the same length, takes the place of the old one.
    place.write("mine.toml~", &profile("six"));
    std::fs::rename(place.admin("mine.toml~"), place.admin("sandbox-profiles/mine.toml"))
        .expect("it can be renamed");
    place.wait_for_status("the next generation", |status| status["generation"] == 3);
    assert_eq!(version(&mut client), ("six".to_owned(), 3));
}

#[test]
fn a_file_that_cannot_be_used_keeps_the_last_good_generation_until_it_is_mended() {
    let place = place();
    let mut running = place.serve(&[]);
    let mut client = Client::at_url(Era::Modern, &running.url);
    assert_eq!(ready(&running)["worker"]["reload_failed"], false);
    // No TOML; an unknown key; a profile that is gone; and the configuration itself.
    for (name, text) in [
        ("sandbox-profiles/mine.toml", "extends = \"base\"\n[environment\n"),
        ("sandbox-profiles/mine.toml", "extends = \"base\"\nbackend = [\"host\"]\n"),
        ("cofferdam.toml", "[execution]\ndefault_profile = \"other\"\n"),
        ("cofferdam.toml", "[tools]\ndefault_mod = \"deactivate\"\n"),
    ] {
        let good = std::fs::read_to_string(place.admin(name)).expect("it is there");
        place.write(name, text);
        let refused = place.owner(&["reload"]).expect_code(1);
        refused.expect_error(&["failed to load"].map(|part| match name {
            "cofferdam.toml" if text.contains("other") => "names a profile that does not exist",
            _ => part,
        }));
        running.server.expect_line("the last good ones stay in force");
        let status = place.owner(&["status", "--json"]).expect_code(0).json();
        assert_eq!(status["generation"], 1, "{status}");
        assert!(status["reload_error"].is_string(), "{status}");
        assert!(place.done(&["status"]).contains("the newest files are not in force: "));
        let readiness = ready(&running);
        assert_eq!(readiness["worker"]["reload_failed"], true, "{readiness}");
        assert_eq!(version(&mut client), ("one".to_owned(), 1), "{name}: {text}");
        place.write(name, &good);
        place.done(&["reload"]);
        let status = place.owner(&["status", "--json"]).expect_code(0).json();
        assert_eq!(status["reload_error"], Value::Null, "{status}");
        assert_eq!(status["generation"], 1, "it says what is in force already: {status}");
    }
    place.write("sandbox-profiles/mine.toml", &profile("mended"));
    place.done(&["reload"]);
    assert_eq!(version(&mut client), ("mended".to_owned(), 2));
}

#[test]
fn a_wrong_file_is_found_and_a_mended_one_taken_over_by_itself() {
    let place = place();
    let (_running, mut client) = place.start((Transport::Stdio, Era::Legacy));
    place.write("sandbox-profiles/mine.toml", "[");
    place.wait_for_status("the error", |status| status["reload_error"].is_string());
    assert_eq!(version(&mut client), ("one".to_owned(), 1));
    place.write("sandbox-profiles/mine.toml", &profile("mended"));
    place.wait_for_status("the next generation", |status| {
        status["generation"] == 2 && status["reload_error"].is_null()
    });
    assert_eq!(version(&mut client), ("mended".to_owned(), 2));
}

#[test]
fn of_several_files_either_all_are_taken_over_or_none() {
    let place = place();
    let (_running, mut client) = place.start((Transport::Stdio, Era::Modern));
    place.write("sandbox-profiles/mine.toml", &profile("two"));
    place.write("sandbox-profiles/other.toml", "extends = \"base\"\nnonsense = 1\n");
    let refused = place.owner(&["reload"]).expect_code(1);
    refused.expect_error(&["other", "nonsense"]);
    assert_eq!(version(&mut client), ("one".to_owned(), 1));
    std::fs::remove_file(place.admin("sandbox-profiles/other.toml")).expect("it is there");
    place.done(&["reload"]);
    assert_eq!(version(&mut client), ("two".to_owned(), 2));
}

#[test]
fn a_hangup_signal_has_the_files_read_again() {
    let place = place();
    let mut running = place.serve(&[]);
    let mut client = Client::at_url(Era::Modern, &running.url);
    place.write("sandbox-profiles/mine.toml", &profile("two"));
    running.server.supervisor.signal(Signal::HUP);
    running.server.expect_line("told to read the configuration again");
    place.wait_for_status("the next generation", |status| status["generation"] == 2);
    assert_eq!(version(&mut client), ("two".to_owned(), 2));
    assert!(running.server.supervisor.runs());
}

#[test]
fn a_call_keeps_the_generation_it_began_with() {
    let place = place();
    let (_running, mut client) = place.start((Transport::Stdio, Era::Modern));
    let code = "touch started; while [ ! -e go ]; do sleep 0.02; done; echo -n $VERSION";
    let call = client.send_call(BASH, &json!({ "code": code }));
    while !place.world.workspace().join("started").exists() {
        between_looks();
    }
    place.write("sandbox-profiles/mine.toml", &profile("two"));
    place.done(&["reload"]);
    place.world.file("go", "");
    assert_eq!(shown(&client.answer(call)), ("one".to_owned(), 1));
    assert_eq!(version(&mut client), ("two".to_owned(), 2));
}

#[test]
fn changed_tool_rules_are_in_force_and_clients_are_told() {
    let place = place();
    let (_running, mut client) = place.start((Transport::Stdio, Era::Modern));
    let stream = client.listen();
    let rule = "[[tools.rule]]\nmode = \"deactivate\"\npattern = \"bash_*\"\n";
    place.write("cofferdam.toml", &format!("{CONFIGURATION}{rule}"));
    client.expect_change(stream);
    assert_eq!(client.tools(), [PYTHON, ATTRIBUTE]);
    place.write("cofferdam.toml", CONFIGURATION);
    client.expect_change(stream);
    assert_eq!(client.tools(), [PYTHON, BASH, ATTRIBUTE]);
}

#[test]
fn what_needs_a_new_start_is_named_in_the_log_and_changes_nothing() {
    let place = place();
    let mut running = place.serve(&[]);
    let elsewhere = place.world.outside("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder can be made");
    let text = format!(
        "[server]\nport = 1\n[workspace]\nroot = \"{}\"\n{CONFIGURATION}max_running = 3\n",
        elsewhere.display()
    );
    place.write("cofferdam.toml", &text);
    place.done(&["reload"]);
    let line = running.server.expect_line("started anew");
    for key in ["server.port", "workspace", "execution.max_running"] {
        assert!(line.contains(key), "{line}");
    }
    let status = place.owner(&["status", "--json"]).expect_code(0).json();
    let workspace = place.world.workspace().canonicalize().expect("it is there");
    assert_eq!(status["workspace"], workspace.to_str().expect("UTF-8"));
}

#[test]
fn a_configuration_that_is_gone_is_an_error_and_not_the_defaults() {
    let place = place();
    let (_running, mut client) = place.start((Transport::Stdio, Era::Modern));
    std::fs::remove_file(place.admin("cofferdam.toml")).expect("it is there");
    place.wait_for_status("the error", |status| status["reload_error"].is_string());
    assert_eq!(version(&mut client), ("one".to_owned(), 1));
}

#[test]
fn a_worker_that_is_started_again_goes_on_with_the_last_good_generation() {
    let place = place();
    let (mut running, mut client) = place.start((Transport::Stdio, Era::Modern));
    place.write("sandbox-profiles/mine.toml", &profile("two"));
    place.done(&["reload"]);
    // The number goes on where it was.
    running.kill_worker();
    assert_eq!(version(&mut client), ("two".to_owned(), 2));
    // So do the rules, whatever has become of the files.
    for name in ["sandbox-profiles/mine.toml", "cofferdam.toml"] {
        let good = std::fs::read_to_string(place.admin(name)).expect("it is there");
        place.write(name, "[[[");
        running.kill_worker();
        assert_eq!(version(&mut client), ("two".to_owned(), 2), "{name}");
        let status = place.wait_for_status("the error", |it| it["reload_error"].is_string());
        assert_eq!(status["generation"], 2, "{status}");
        place.write(name, &good);
        place.done(&["reload"]);
    }
    place.write("sandbox-profiles/mine.toml", &profile("three"));
    running.kill_worker();
    place.wait_for_status("what was written meanwhile", |status| status["generation"] == 3);
    assert_eq!(version(&mut client), ("three".to_owned(), 3));
}

#[test]
fn what_needs_a_new_start_stays_what_it_was_also_for_a_worker_that_is_started_again() {
    let place = place();
    let (mut running, mut client) = place.start((Transport::Stdio, Era::Modern));
    assert_eq!(version(&mut client), ("one".to_owned(), 1));
    let elsewhere = place.world.outside("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a folder can be made");
    let text = format!("[workspace]\nroot = \"{}\"\n{CONFIGURATION}", elsewhere.display());
    place.write("cofferdam.toml", &text);
    running.kill_worker();
    let answer = client.call(BASH, &json!({ "code": "pwd -P" }));
    let workspace = place.world.workspace().canonicalize().expect("it is there");
    assert_eq!(value(&answer)["stdout"], format!("{}\n", workspace.display()));
}

#[test]
fn a_run_cannot_make_or_change_the_files_that_a_reload_reads() {
    // Named, so that it may lie in the workspace; the folder of profiles beside it does not exist.
    let place = Place::new("");
    let config = place.world.file("cofferdam.toml", "");
    let mut command = place.cofferdam();
    command.args(["stdio", "--config"]).arg(&config);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let (mut server, to, from) = crate::support::server::Server::start_piped(command);
    server.ready();
    let mut client = Client::at_pipes(Era::Modern, to, from);
    let code = "mkdir sandbox-profiles; echo 'extends = \"host-unconfined\"' > sandbox-profiles/default.toml
        echo '[execution]' > cofferdam.toml; rm -f cofferdam.toml; mv cofferdam.toml other
        ln -sf other cofferdam.toml; touch free";
    let answer = client.call(BASH, &json!({ "code": code }));
    assert!(place.world.workspace().join("free").exists(), "{answer}");
    assert_eq!(std::fs::read_to_string(&config).expect("it is there"), "");
    assert!(!place.world.workspace().join("sandbox-profiles/default.toml").exists(), "{answer}");
    place.done(&["reload"]);
    let status = place.owner(&["status", "--json"]).expect_code(0).json();
    assert_eq!((&status["generation"], &status["reload_error"]), (&json!(1), &Value::Null));
}
