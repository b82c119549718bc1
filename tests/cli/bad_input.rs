//! One clear message with a hint, nothing left behind.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Finish, World, entries};

/// Calls the Python tool and claims a tool error with this code, naming these.
#[track_caller]
fn refused(arguments: &Value, code: &str, parts: &[&str]) {
    let world = World::new();
    let finished = world
        .cofferdam()
        .args(["call", "python_coding_tool.execute", "-"])
        .finish_with(arguments.to_string().as_bytes())
        .expect_code(1);
    let value = finished.json();
    assert_eq!(value["code"], code, "{value}");
    let message = value["error"].as_str().expect("a message");
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in `{message}`");
    }
    assert!(!message.contains('\n'), "{message:?}");
    assert_eq!(entries(&world.workspace()), Vec::<std::path::PathBuf>::new());
}

/// Runs on a workspace that is none, by both ways in, and claims the refusal.
#[track_caller]
fn no_workspace(world: &World, path: &Path, parts: &[&str]) {
    let path = path.to_str().expect("UTF-8");
    let run = world.cofferdam().args(["run", "-w", path, "--", "true"]).finish().expect_code(125);
    run.expect_error(parts).expect_error(&["\nhint: "]);
    let code = json!({ "code": "print(1)" }).to_string();
    let call = world
        .cofferdam()
        .args(["call", "-w", path, "python_coding_tool.execute", &code])
        .finish()
        .expect_code(1);
    let value = call.json();
    assert_eq!(value["code"], "workspace_invalid", "{value}");
    assert!(value["hint"].is_string(), "{value}");
    let serve =
        world.cofferdam().args(["serve", "--mcp-port", "0", "-w", path]).finish().expect_code(1);
    serve.expect_error(parts).expect_error(&["\nhint: "]);
    assert_eq!(world.left_in_runtime(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_missing_an_extra_and_a_wrong_argument_are_named() {
    refused(&json!({}), "invalid_arguments", &["`code`"]);
    refused(&json!({ "code": "1", "coed": 1 }), "invalid_arguments", &["`coed`"]);
    refused(&json!({ "code": ["print(1)"] }), "invalid_arguments", &["code"]);
    refused(
        &json!({ "code": "1", "last_print_is_image_path": 7 }),
        "invalid_arguments",
        &["last_print_is_image_path"],
    );
}

#[test]
fn a_nul_in_code_is_refused() {
    refused(&json!({ "code": "print(1)\u{0}" }), "invalid_arguments", &["NUL", "8"]);
}

#[test]
fn fifty_megabytes_of_code_are_refused() {
    let world = World::new();
    let code = "#".repeat(50_000_000);
    let finished = world
        .cofferdam()
        .args(["call", "python_coding_tool.execute", "-"])
        .finish_with(json!({ "code": code }).to_string().as_bytes())
        .expect_code(1);
    let value = finished.json();
    assert_eq!(value["code"], "invalid_arguments", "{value}");
    assert!(value["hint"].is_string(), "{value}");
}

#[test]
fn a_timeout_that_is_none_is_refused() {
    for timeout in [json!(0), json!(-1), json!("soon"), json!("NaN"), json!("inf"), json!([])] {
        refused(
            &json!({ "code": "print(1)", "timeout": timeout }),
            "invalid_arguments",
            &["timeout"],
        );
    }
}

#[test]
fn a_huge_timeout_is_capped_and_the_result_says_so() {
    let world = World::new();
    let arguments = json!({ "code": "print(1)", "timeout": 1e300 }).to_string();
    let finished = world
        .cofferdam()
        .args(["call", "python_coding_tool.execute", &arguments])
        .finish()
        .expect_code(0);
    assert_eq!(finished.json()["stdout"], "1\n");
    assert!(finished.stdout.contains("capped"), "{finished:?}");
}

#[test]
fn a_working_directory_outside_is_refused() {
    for cwd in ["/etc", "..", "/"] {
        refused(&json!({ "code": "print(1)", "cwd": cwd }), "path_outside_workspace", &[]);
    }
    refused(&json!({ "code": "print(1)", "cwd": "no/such" }), "invalid_arguments", &["no/such"]);
}

#[test]
fn a_workspace_that_is_missing_is_refused() {
    let world = World::new();
    no_workspace(&world, &world.outside("missing"), &["missing"]);
}

#[test]
fn a_workspace_that_is_a_file_is_refused() {
    let world = World::new();
    no_workspace(&world, &world.file("file.txt", ""), &["file.txt"]);
}

#[test]
fn the_root_a_system_directory_and_a_home_are_no_workspaces() {
    let world = World::new();
    for path in ["/", "/usr", "/etc", "/usr/lib", "/proc", "/home"] {
        if Path::new(path).exists() {
            no_workspace(&world, Path::new(path), &[path]);
        }
    }
    no_workspace(&world, &world.home(), &["home"]);
}

#[test]
fn no_bubblewrap_is_said_with_the_remedy() {
    let world = World::new();
    // A PATH on which nothing is found.
    let bare = world.outside("bin");
    std::fs::create_dir(&bare).expect("a folder can be made");
    let finished = world.run(&[], &["true"]).env("PATH", &bare).finish().expect_code(125);
    finished.expect_error(&["bubblewrap", "\nhint: "]);
    assert!(finished.stderr.contains("install"), "{finished:?}");
}

#[test]
fn a_configuration_that_is_wrong_is_refused_with_the_line() {
    let world = World::new();
    let file = world.outside("bad.toml");
    std::fs::write(&file, "[server]\nprot = 1\n").expect("a file can be written");
    let path = file.to_str().expect("UTF-8");
    for (arguments, code) in [
        (&["--config", path, "run", "--", "true"][..], 125),
        (&["call", "--config", path, "bash_coding_tool.execute", "{}"], 1),
        (&["serve", "--config", path], 1),
    ] {
        let finished = world.cofferdam().args(arguments).finish().expect_code(code);
        finished.expect_error(&["prot", "line 2"]);
        assert_eq!(finished.stdout, "");
    }
}

#[test]
fn a_configuration_file_that_is_not_there_is_named() {
    let world = World::new();
    let finished =
        world.cofferdam().args(["tools", "--config", "/no/such.toml"]).finish().expect_code(1);
    finished.expect_error(&["/no/such.toml"]);
}

#[test]
fn hostile_bytes_in_a_name_do_not_drive_the_terminal() {
    let world = World::new();
    let finished = world.run(&[], &["no\u{1b}[31msuch"]).finish().expect_code(127);
    assert!(!finished.stderr.contains('\u{1b}'), "{finished:?}");
}
