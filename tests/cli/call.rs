//! `cofferdam call`

use serde_json::{Value, json};

use crate::support::{Finish, Finished, World};

const PYTHON: &str = "python_coding_tool.execute";
const BASH: &str = "bash_coding_tool.execute";

fn call(world: &World, tool: &str, arguments: &Value) -> Finished {
    world.cofferdam().args(["call", tool, &arguments.to_string()]).finish()
}

#[test]
fn python_answers_with_the_normalized_object_on_one_line() {
    let world = World::new();
    let finished = call(&world, PYTHON, &json!({ "code": "print(6*7)" })).expect_code(0);
    assert_eq!(finished.stdout.lines().count(), 1);
    let value = finished.json();
    assert_eq!(value["stdout"], "42\n");
    assert_eq!(value["stderr"], "");
    assert_eq!(value["returncode"], 0);
    assert_eq!(value["timeout"], false);
    assert_eq!(value["verdict"], "ok");
}

#[test]
fn bash_answers_and_a_program_that_fails_is_a_finished_call() {
    let world = World::new();
    let value = call(&world, BASH, &json!({ "code": "echo hi >&2; exit 4" })).expect_code(0).json();
    assert_eq!(value["returncode"], 4);
    assert_eq!(value["stderr"], "hi\n");
    assert_eq!(value["verdict"], "exit");
}

#[test]
fn the_underscored_name_is_the_same_tool() {
    let world = World::new();
    let value = call(&world, "bash_coding_tool_execute", &json!({ "code": "echo hi" }))
        .expect_code(0)
        .json();
    assert_eq!(value["stdout"], "hi\n");
}

#[test]
fn arguments_come_from_standard_input_and_from_files_too() {
    let world = World::new();
    let arguments = json!({ "code": "echo from afar" }).to_string();
    let by_input = world
        .cofferdam()
        .args(["call", BASH, "-"])
        .finish_with(arguments.as_bytes())
        .expect_code(0);
    assert_eq!(by_input.json()["stdout"], "from afar\n");
    let file = world.outside("arguments.json");
    std::fs::write(&file, &arguments).expect("a file can be written");
    let by_file = world
        .cofferdam()
        .args(["call", BASH, &format!("@{}", file.display())])
        .finish()
        .expect_code(0);
    assert_eq!(by_file.json()["stdout"], "from afar\n");
}

#[test]
fn a_tool_that_is_not_there_is_a_tool_error_on_standard_output() {
    let world = World::new();
    let finished = call(&world, "no_such_tool", &json!({})).expect_code(1);
    let value = finished.json();
    assert_eq!(value["error"], "Unknown tool: 'no_such_tool'");
    assert_eq!(value["code"], "unknown_tool");
    assert!(value["hint"].as_str().is_some_and(|hint| hint.contains(PYTHON)), "{value}");
    assert_eq!(finished.stderr, "");
}

#[test]
fn every_tool_error_has_exactly_these_keys() {
    let world = World::new();
    let value = call(&world, BASH, &json!({ "code": 1 })).expect_code(1).json();
    let keys: Vec<&String> = value.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["error", "code", "hint"]);
}

#[test]
fn json_that_is_none_is_a_usage_error_that_names_the_place() {
    let world = World::new();
    let finished = world.cofferdam().args(["call", BASH, "{\"code\": }"]).finish().expect_code(2);
    finished.expect_error(&["line 1 column 10", "\nhint: "]);
    assert_eq!(finished.stdout, "");
    for (arguments, kind) in
        [("[1]", "array"), ("3", "number"), ("null", "null"), ("\"x\"", "string")]
    {
        let finished = world.cofferdam().args(["call", BASH, arguments]).finish().expect_code(2);
        finished.expect_error(&[kind]);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_a_usage_error_that_names_it() {
    let world = World::new();
    let finished = world.cofferdam().args(["call", BASH, "@/no/such/file"]).finish().expect_code(2);
    finished.expect_error(&["/no/such/file", "caused by"]);
}

#[test]
fn the_backend_option_stands_for_the_argument_that_is_left_out() {
    let world = World::new();
    let code = json!({ "code": "echo hi" }).to_string();
    let by_option = |backend: &str, arguments: &str| {
        world.cofferdam().args(["call", "-b", backend, BASH, arguments]).finish()
    };
    assert_eq!(
        by_option("bubblewrap", &code).expect_code(0).json()["sandbox"]["backend"],
        "bubblewrap"
    );
    assert_eq!(by_option("chroot", &code).expect_code(1).json()["code"], "invalid_arguments");
    let own = json!({ "code": "echo hi", "backend": "bubblewrap" }).to_string();
    assert_eq!(by_option("chroot", &own).expect_code(0).json()["sandbox"]["backend"], "bubblewrap");
}

#[test]
fn the_profile_option_stands_for_the_argument_that_is_left_out() {
    let world = World::new();
    let code = json!({ "code": "echo hi" }).to_string();
    let finished = world.cofferdam().args(["call", "-p", "no-such-profile", BASH, &code]).finish();
    assert_eq!(finished.expect_code(1).json()["code"], "profile_unknown");
    let profiles = world.outside("sandbox-profiles");
    std::fs::create_dir(&profiles).expect("a folder can be made");
    let text = "description = \"Another one.\"\nextends = \"base\"\n";
    std::fs::write(profiles.join("another.toml"), text).expect("a file can be written");
    let config = world.outside("cofferdam.toml");
    std::fs::write(&config, "").expect("a file can be written");
    let profile = |arguments: &Value| {
        let finished = world
            .cofferdam()
            .args(["call", "-p", "another", BASH, &arguments.to_string(), "--config"])
            .arg(&config)
            .finish()
            .expect_code(0);
        finished.json()["sandbox"]["profile"].clone()
    };
    assert_eq!(profile(&json!({ "code": "true" })), "another");
    assert_eq!(profile(&json!({ "code": "true", "profile": "default" })), "default");
}

#[test]
fn approve_is_accepted() {
    let world = World::new();
    let code = json!({ "code": "echo hi" }).to_string();
    world.cofferdam().args(["call", "--approve", BASH, &code]).finish().expect_code(0);
}

#[test]
fn the_call_works_on_the_named_workspace() {
    let world = World::new();
    let folder = world.workspace();
    let code = json!({ "code": "open('made.txt', 'w').write('by the call')" }).to_string();
    world
        .cofferdam()
        .current_dir(world.home())
        .args(["call", "-w", folder.to_str().expect("UTF-8"), PYTHON, &code])
        .finish()
        .expect_code(0);
    let made = std::fs::read_to_string(folder.join("made.txt")).expect("it was made there");
    assert_eq!(made, "by the call");
}

#[test]
fn an_interrupt_cancels_the_call() {
    use crate::support::processes::{Watched, wait_for_sleep};
    let world = World::new();
    let mut child = world
        .cofferdam()
        .args(["call", BASH, "{\"code\": \"sleep 987.201\"}"])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let sleepers = wait_for_sleep("987.201");
    let watched = Watched::new(child.id());
    watched.signal(rustix::process::Signal::INT);
    watched.expect_end();
    assert_eq!(child.wait().expect("it has ended").code(), Some(130));
    sleepers.iter().for_each(Watched::expect_end);
}
