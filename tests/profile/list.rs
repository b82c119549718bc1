//! `cofferdam profile list`

use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
    sync::mpsc,
    thread,
};

use crate::support::World;

#[test]
fn without_a_configuration_the_built_in_profiles_are_listed() {
    insta::assert_snapshot!(World::new().run(&["profile", "list"]).text(), @"
    base             What programs need to start; the other profiles extend it.
                     built in; bubblewrap, container, host
    container        Run code on the workspace in a container, with no way out.
                     built in, extends base; container
    default          Run code on the workspace, with no way out.
                     built in, extends base; bubblewrap, container, host
    gvisor           Run code on the workspace in a container under gVisor, with no way out.
                     built in, extends base; container
    host-guarded     Run code on the workspace on this machine, held by what its kernel offers.
                     built in, extends base; host
    host-unconfined  Run code on this machine without a sandbox; every call must be approved.
                     built in, extends base; host
    offline-strict   Run code that can read the workspace and change nothing, everything held in full.
                     built in, extends base; bubblewrap, container, host
    uv               Install and run Python packages with uv; only the package index can be reached.
                     built in, extends base; bubblewrap, container, host

    Calls that name none get `default`.
    ");
}

#[test]
fn a_broken_file_is_a_line_of_its_own_and_takes_nothing_away() {
    let world = World::with(
        "",
        &[
            (
                "mine",
                "extends = \"base\"\ndescription = \"Ours \\u001b[31m.\"\nbackends = [\"host\"]",
            ),
            ("offline", "extends = \"base\"\n[limits]\nmemory_mb = 1\npids = 0"),
            ("Bad Name", ""),
        ],
    );
    let listed = world.run(&["profile", "list"]);
    let own: Vec<_> = listed.text().lines().skip_while(|line| !line.starts_with("mine")).collect();
    insta::assert_snapshot!(own.join("\n"), @r"
    mine             Ours \u{1b}[31m.
                     [PLACE]/work/sandbox-profiles/mine.toml, extends base; host
    offline-strict   Run code that can read the workspace and change nothing, everything held in full.
                     built in, extends base; bubblewrap, container, host
    uv               Install and run Python packages with uv; only the package index can be reached.
                     built in, extends base; bubblewrap, container, host
    Bad Name         cannot be used: `Bad Name` cannot be the name of a profile
                     [PLACE]/work/sandbox-profiles/Bad Name.toml
    offline          cannot be used: unknown key `memory_mb` in `[limits]` at line 3
    offline          cannot be used: `pids` in `[limits]` at line 4 must be a whole number from 1 to 4194304, not `0`
                     [PLACE]/work/sandbox-profiles/offline.toml

    Calls that name none get `default`.
    A server does not start on these files, and one that runs keeps its last generation.
    ");
    let json = world.run(&["profile", "list", "--json"]).json();
    assert_eq!(json["generation"], 1);
    assert_eq!(json["default"], "default");
    assert_eq!(json["profiles"].as_array().map(Vec::len), Some(9));
    let broken: Vec<_> = json["broken"].as_array().into_iter().flatten().collect();
    assert_eq!(broken.len(), 2, "{json}");
    assert_eq!(broken[1]["name"], "offline");
    assert_eq!(broken[1]["problems"].as_array().map(Vec::len), Some(2), "{json}");
    assert!(broken[1]["file"].as_str().is_some_and(|file| file.ends_with("offline.toml")));
}

#[test]
fn what_cannot_be_read_is_listed_too() {
    let world = World::with("[execution]\nprofile_dirs = [\"none\", \"sandbox-profiles\"]", &[]);
    world.write("work/sandbox-profiles/latin.toml", "");
    std::fs::write(world.path("work/sandbox-profiles/latin.toml"), b"description = \"\xff\"")
        .expect("a file can be written");
    let listed = world.run(&["profile", "list"]);
    let own: Vec<_> = listed.text().lines().filter(|line| line.contains("cannot be")).collect();
    insta::assert_snapshot!(own.join("\n"), @"
    cannot be read: reading profiles from `[PLACE]/work/none`: No such file or directory (os error 2)
    cannot be read: reading profiles from `[PLACE]/work/sandbox-profiles/latin.toml`: stream did not contain valid UTF-8
    ");
    assert!(listed.text().starts_with("base "), "{listed:?}");
    let json = world.run(&["profile", "list", "--json"]).json();
    assert_eq!(json["unreadable"].as_array().map(Vec::len), Some(2), "{json}");
}

#[test]
fn a_default_profile_that_cannot_be_had_is_said() {
    let world = World::with("[execution]\ndefault_profile = \"offline\"", &[]);
    let listed = world.run(&["profile", "list"]);
    assert!(listed.text().contains("get `offline`, which cannot be had."), "{listed:?}");
}

#[test]
fn a_file_takes_the_place_of_the_built_in_profile_of_its_name() {
    let world = World::with("", &[("default", "backends = [\"host\"]\ndescription = \"Ours.\"")]);
    let json = world.run(&["profile", "list", "--json"]).json();
    let profiles = json["profiles"].as_array().expect("a list");
    assert_eq!(profiles.len(), 8);
    let default = profiles.iter().find(|one| one["name"] == "default").expect("it");
    assert_eq!(default["description"], "Ours.");
    assert_eq!(default["file"], "[PLACE]/work/sandbox-profiles/default.toml");
    assert_eq!(profiles[0]["file"], serde_json::Value::Null);
}

#[test]
fn another_configuration_can_be_named() {
    let world = World::new();
    world.write("etc/cofferdam.toml", "");
    world.write("etc/sandbox-profiles/mine.toml", "extends = \"base\"");
    let named = world.run(&["--config", "../etc/cofferdam.toml", "profile", "list"]);
    assert!(named.text().contains("\nmine "), "{named:?}");
    let behind = world.run(&["profile", "list", "--config", "../etc/cofferdam.toml"]);
    assert_eq!(behind.text(), named.text());
}

/// A server that ends with the claim about it.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a server says on standard error where it serves; what it says after that is read on.
fn until_it_serves(server: &mut Server) {
    let lines = BufReader::new(server.0.stderr.take().expect("a pipe"));
    let (ready, wait) = mpsc::sync_channel(1);
    thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            if line.contains("http://127.0.0.1:") {
                let _ = ready.send(());
            }
        }
    });
    wait.recv().expect("the server serves");
}

#[test]
fn a_running_server_is_listed_with_its_generation_and_why_it_keeps_it() {
    let world = World::new();
    world.write("etc/cofferdam.toml", "");
    let profile = |text: &str| world.write("etc/sandbox-profiles/mine.toml", text);
    profile("extends = \"base\"");
    let config = ["--config", "../etc/cofferdam.toml"];
    let mut serve = world.cofferdam(&config);
    serve.args(["serve", "--mcp-port", "0", "-w", "."]).stderr(Stdio::piped());
    let mut server = Server(serve.spawn().expect("the program can be started"));
    until_it_serves(&mut server);
    let server_of = |json: &serde_json::Value| json["servers"][0].clone();
    let list = || world.run(&[&config[..], &["profile", "list", "--json"]].concat()).json();

    let before = server_of(&list());
    assert_eq!(before["server"], server.0.id());
    assert_eq!((&before["generation"], &before["reload_error"]), (&1.into(), &().into()));
    profile("extends = \"bsae\"");
    assert_ne!(world.run(&["reload"]).code, 0);
    let after = server_of(&list());
    assert_eq!(after["generation"], 1);
    let error = after["reload_error"].as_str().unwrap_or_default();
    assert!(error.contains("it extends `bsae`"), "{after}");
    let text = world.run(&[&config[..], &["profile", "list"]].concat());
    let line = text.text().lines().find(|line| line.starts_with("The server "));
    assert!(line.is_some_and(|line| line.contains("does not take the newest files")), "{text:?}");
}
