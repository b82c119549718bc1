//! What a person finds out by asking.

use crate::support::{Finish, World, program};

#[test]
fn every_command_shows_examples() {
    let world = World::new();
    let general = world.cofferdam().arg("--help").finish().expect_code(0);
    assert!(general.stdout.contains("Examples:"), "{general:?}");
    assert!(general.stdout.contains("Exit codes:"), "{general:?}");
    for command in
        ["run", "call", "tools", "stdio", "serve", "approvals", "profile", "config", "completions"]
    {
        assert!(general.stdout.contains(&format!("\n  {command} ")), "{general:?}");
        let finished = world.cofferdam().args([command, "--help"]).finish().expect_code(0);
        assert!(finished.stdout.contains("Examples:"), "{command}: {finished:?}");
        assert!(finished.stdout.contains("--config <FILE>"), "{command}: {finished:?}");
        assert_eq!(finished.stderr, "");
    }
}

#[test]
fn the_processes_inside_are_not_shown_as_commands() {
    let world = World::new();
    let general = world.cofferdam().arg("--help").finish();
    assert!(!general.stdout.contains("\n  worker "), "{general:?}");
    assert!(!general.stdout.contains("\n  mcp "), "{general:?}");
}

#[test]
fn the_version_is_told() {
    let world = World::new();
    let finished = world.cofferdam().arg("--version").finish().expect_code(0);
    assert_eq!(finished.stdout, concat!("cofferdam ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn no_command_at_all_is_a_usage_error_that_shows_help() {
    let world = World::new();
    let finished = world.cofferdam().finish().expect_code(2);
    assert!(finished.stderr.contains("Usage: cofferdam"), "{finished:?}");
}

#[test]
fn a_mistyped_command_is_a_usage_error_that_names_the_nearest() {
    let world = World::new();
    let finished = world.cofferdam().arg("serv").finish().expect_code(2);
    finished.expect_error(&["serve"]);
}

#[test]
fn every_shell_gets_its_completions() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let finished = world.cofferdam().args(["completions", shell]).finish().expect_code(0);
        assert!(finished.stdout.contains("cofferdam"), "{shell}: {finished:?}");
    }
    let script = world.cofferdam().args(["completions", "bash"]).finish().stdout;
    std::process::Command::new("bash").args(["-n", "-c", &script]).finish().expect_code(0);
}

#[test]
fn the_programs_of_their_own_are_the_hidden_commands() {
    let world = World::new();
    for program in [program("cofferdam-worker"), program("cofferdam-mcp")] {
        let mut help = std::process::Command::new(program);
        world.surround(&mut help);
        let finished = help.arg("--help").finish().expect_code(0);
        assert!(finished.stdout.contains("Usage: "), "{finished:?}");
    }
}
