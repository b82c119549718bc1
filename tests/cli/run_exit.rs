//! How `cofferdam run` ends.

use crate::support::{Finish, World};

#[test]
fn a_commands_own_exit_code_passes_through() {
    let world = World::new();
    for code in [0, 1, 2, 3, 125, 255] {
        world.shell(&format!("exit {code}")).finish().expect_code(code);
    }
}

#[test]
fn a_command_killed_by_a_signal_is_128_and_its_number() {
    let world = World::new();
    for signal in [9, 11, 15] {
        world.shell(&format!("kill -{signal} $$")).finish().expect_code(128 + signal);
    }
}

#[test]
fn a_deadline_is_124_and_output_so_far_is_shown() {
    let world = World::new();
    let finished = world
        .run(&["--timeout", "300ms"], &["sh", "-c", "echo early; sleep 1000"])
        .finish()
        .expect_code(124);
    assert_eq!(finished.stdout, "early\n");
}

#[test]
fn a_command_that_is_not_there_is_127_and_named() {
    let world = World::new();
    let finished = world.run(&[], &["no-such-command-anywhere"]).finish().expect_code(127);
    finished.expect_error(&["no-such-command-anywhere"]);
    let finished = world.run(&[], &["/no/such/path"]).finish().expect_code(127);
    finished.expect_error(&["/no/such/path"]);
}

#[test]
fn a_file_that_cannot_be_executed_is_126_and_named() {
    let world = World::new();
    world.file("data.txt", "no program\n");
    let finished = world.run(&[], &["./data.txt"]).finish().expect_code(126);
    finished.expect_error(&["data.txt"]);
    // A directory is found, and cannot be executed either.
    world.run(&[], &["/usr"]).finish().expect_code(126).expect_error(&["/usr"]);
}

#[test]
fn a_command_line_that_is_wrong_is_125_because_2_may_be_the_commands_own() {
    let world = World::new();
    for arguments in [
        &["run"][..],
        &["run", "--no-such-option", "--", "true"],
        &["run", "--timeout", "soon", "--", "true"],
        &["run", "--timeout", "0", "--", "true"],
        &["run", "--timeout", "-1s", "--", "true"],
        &["run", "--timeout", "nan", "--", "true"],
    ] {
        let finished = world.cofferdam().args(arguments).finish().expect_code(125);
        finished.expect_error(&["Usage: cofferdam run"][..usize::from(arguments.len() == 1)]);
    }
}

#[test]
fn an_unknown_profile_is_125_with_a_hint() {
    let world = World::new();
    let finished = world.run(&["-p", "no-such-profile"], &["true"]).finish().expect_code(125);
    finished.expect_error(&["no-such-profile", "\nhint: "]);
    assert_eq!(finished.stdout, "");
}

#[test]
fn an_unknown_backend_and_one_that_the_profile_does_not_list_are_125_with_a_hint() {
    let world = World::new();
    let finished = world.run(&["-b", "chroot"], &["true"]).finish().expect_code(125);
    finished.expect_error(&["chroot", "\nhint: "]);
}

#[test]
fn a_relative_command_is_looked_for_where_it_starts() {
    let world = World::new();
    let script = world.file("hello", "#!/bin/sh\necho hello\n");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(script, executable).expect("permissions can be set");
    assert_eq!(world.run(&[], &["./hello"]).finish().expect_code(0).stdout, "hello\n");
}

#[test]
fn a_command_may_be_written_without_dashes_and_keeps_its_own_options() {
    let world = World::new();
    let finished =
        world.cofferdam().args(["run", "sh", "-c", "echo $0", "--json"]).finish().expect_code(0);
    assert_eq!(finished.stdout, "--json\n");
}

#[test]
fn arguments_that_are_not_utf8_arrive_as_they_are() {
    use std::os::unix::ffi::OsStrExt;
    let world = World::new();
    let odd = std::ffi::OsStr::from_bytes(b"a\xff\xfeb");
    let script = std::ffi::OsStr::new("printf %s \"$1\" | od -An -tx1");
    let command = ["sh".as_ref(), "-c".as_ref(), script, "sh".as_ref(), odd];
    let finished = world.run(&[], &command).finish().expect_code(0);
    assert_eq!(finished.stdout.trim(), "61 ff fe 62");
}

#[test]
fn the_report_names_the_backend_and_every_dimension() {
    let world = World::new();
    let finished = world.run(&["--report"], &["true"]).finish().expect_code(0);
    let report = finished.stderr.lines().last().unwrap_or_default();
    assert!(report.starts_with("cofferdam: bubblewrap, profile default: "), "{finished:?}");
    for dimension in ["files ", "network ", "processes ", "privileges ", "limits "] {
        assert!(report.contains(dimension), "{report}");
    }
    assert_eq!(world.run(&[], &["true"]).finish().stderr, "");
}
