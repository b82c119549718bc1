//! What `cofferdam run` is connected to.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    process::Stdio,
};

use crate::support::{Finish, World, own, processes::Watched};

#[test]
fn standard_output_and_standard_error_stay_apart() {
    let world = World::new();
    let finished = world.shell("echo out; echo err >&2").finish().expect_code(0);
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("out\n", "err\n"));
}

#[test]
fn standard_input_arrives_byte_for_byte() {
    let world = World::new();
    let input: Vec<u8> = (0..=255_u8).cycle().take(1 << 20).collect();
    let mut child = world
        .run(&[], &["cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut stdin = child.stdin.take().expect("its input is a pipe");
    let sent = input.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&sent));
    let output = child.wait_with_output().expect("its output can be read");
    writer.join().expect("the writer ends").expect("everything is read");
    assert!(output.status.success());
    assert!(output.stdout == input, "{} bytes came back", output.stdout.len());
}

#[test]
fn streams_are_live_in_both_directions() {
    let world = World::new();
    let mut child = world
        .shell("echo first; read answer; echo got $answer; read answer; echo got $answer")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut to = child.stdin.take().expect("its input is a pipe");
    let mut from = BufReader::new(child.stdout.take().expect("its output is a pipe")).lines();
    let mut next = || from.next().expect("a line").expect("text");
    // Each line is sent only after the one before has come back.
    assert_eq!(next(), "first");
    writeln!(to, "one").expect("it reads");
    assert_eq!(next(), "got one");
    writeln!(to, "two").expect("it reads");
    assert_eq!(next(), "got two");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn an_empty_or_closed_standard_input_is_end_of_file() {
    let world = World::new();
    assert_eq!(world.run(&[], &["cat"]).finish().expect_code(0).stdout, "");
    let mut closed = std::process::Command::new("sh");
    world.surround(&mut closed);
    closed.args(["-c", "exec \"$0\" run -- cat <&-", &own()]);
    assert_eq!(closed.finish().expect_code(0).stdout, "");
}

#[test]
fn a_command_that_does_not_read_does_not_wait_for_its_input() {
    let world = World::new();
    let mut child = world
        .run(&[], &["true"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    // The pipe stays open and silent until the end.
    let silent = child.stdin.take();
    Watched::new(child.id()).expect_end();
    drop(silent);
    assert!(child.wait().expect("it has ended").success());
}

#[test]
fn ten_mebibytes_of_output_arrive_whole() {
    let world = World::new();
    let mut child = world
        .run(&[], &["head", "-c", "10485760", "/dev/zero"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut output = Vec::new();
    let mut from = child.stdout.take().expect("its output is a pipe");
    from.read_to_end(&mut output).expect("it can be read");
    assert_eq!(output.len(), 10 << 20);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_reader_that_goes_away_ends_the_run_quietly() {
    let world = World::new();
    let mut child = world
        .run(&[], &["yes"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut line = String::new();
    let mut from = BufReader::new(child.stdout.take().expect("its output is a pipe"));
    from.read_line(&mut line).expect("it can be read");
    drop(from);
    Watched::new(child.id()).expect_end();
    let output = child.wait_with_output().expect("it has ended");
    assert_eq!(output.status.code(), Some(141), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_full_disk_behind_standard_output_is_said() {
    let world = World::new();
    let full = File::options().write(true).open("/dev/full").expect("/dev/full is there");
    let output = world
        .cofferdam()
        .args(["tools"])
        .stdin(Stdio::null())
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .expect("the program can be started");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: "), "{output:?}");
}

#[test]
fn the_command_starts_where_the_person_is_when_that_is_in_the_workspace() {
    let world = World::new();
    let inside = world.workspace().join("a/b");
    std::fs::create_dir_all(&inside).expect("a folder can be made");
    let workspace = world.workspace();
    let workspace = workspace.to_str().expect("UTF-8");
    let here = world.run(&["-w", workspace], &["pwd"]).current_dir(&inside).finish();
    assert_eq!(here.expect_code(0).stdout.trim_end(), inside.to_str().expect("UTF-8"));
    let elsewhere = world.run(&["-w", workspace], &["pwd"]).current_dir(world.home()).finish();
    assert_eq!(elsewhere.expect_code(0).stdout.trim_end(), workspace);
}

#[test]
fn json_is_one_object_and_the_exit_code_passes_through() {
    let world = World::new();
    let finished = world
        .run(&["--json"], &["sh", "-c", "echo out; echo err >&2; cat; exit 3"])
        .finish_with(b"typed")
        .expect_code(3);
    let value = finished.json();
    assert_eq!(finished.stdout.lines().count(), 1);
    assert_eq!(finished.stderr, "");
    assert_eq!(value["stdout"], "out\ntyped");
    assert_eq!(value["stderr"], "err\n");
    assert_eq!(value["returncode"], 3);
    assert_eq!(value["timeout"], false);
    assert_eq!(value["verdict"], "exit");
}

#[test]
fn json_of_a_deadline_keeps_the_output_and_124() {
    let world = World::new();
    let value = world
        .run(&["--json", "--timeout", "0.3"], &["sh", "-c", "echo early; sleep 1000"])
        .finish()
        .expect_code(124)
        .json();
    assert_eq!(value["timeout"], true);
    assert_eq!(value["stdout"], "early\n");
    assert_eq!(value["returncode"], serde_json::Value::Null);
}
