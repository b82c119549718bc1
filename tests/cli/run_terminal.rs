//! `cofferdam run` at a terminal.

use rustix::{
    process::Signal,
    termios::{LocalModes, Termios},
};

use crate::support::{World, own, processes::Watched, terminal::Session};

/// What a person would notice of a terminal's settings.
fn noticed(settings: &Termios) -> (u32, u32, u32) {
    (settings.input_modes.bits(), settings.output_modes.bits(), settings.local_modes.bits())
}

#[test]
fn a_command_has_a_terminal_when_the_person_has_one() {
    let world = World::new();
    let session = Session::start(
        &world,
        &[
            "run",
            "--",
            "sh",
            "-c",
            "tty >/dev/null && test -t 0 && test -t 1 && test -t 2 && echo yes",
        ],
    );
    let (status, shown) = session.finish();
    assert_eq!(status.code(), Some(0), "{shown}");
    assert_eq!(shown, "yes\r\n");
}

#[test]
fn the_windows_size_is_known_and_followed() {
    let world = World::new();
    let mut session = Session::start(
        &world,
        &[
            "run",
            "--",
            "bash",
            "-c",
            "trap 'stty size' WINCH; stty size; echo ready; while :; do sleep 0.05; done",
        ],
    );
    session.expect("24 80");
    session.expect("ready");
    session.resize(33, 101);
    session.expect("33 101");
}

#[test]
fn an_interactive_shell_has_job_control() {
    let world = World::new();
    let mut session = Session::start(
        &world,
        &["run", "--", "bash", "--norc", "--noprofile", "--noediting", "-i"],
    );
    session.send("PS1='rea''dy> '\n");
    session.expect("ready> ");
    session.send("cat\n");
    session.send("there\n");
    // Once by the terminal's echo, once by cat: it runs, and has the terminal.
    session.expect("there\r\nthere");
    session.send("\x1a");
    session.expect("Stopped");
    session.expect("ready> ");
    session.send("fg\n");
    session.expect("\ncat\r\n");
    session.send("again\n");
    session.expect("again\r\nagain");
    session.send("\x04");
    session.expect("ready> ");
    session.send("exit 5\n");
    let (status, shown) = session.finish();
    assert_eq!(status.code(), Some(5), "{shown}");
    assert!(!shown.contains("no job control"), "{shown}");
    assert!(!shown.contains("cannot set terminal"), "{shown}");
}

#[test]
fn the_interrupt_key_goes_to_the_command() {
    let world = World::new();
    let mut session = Session::start(
        &world,
        &["run", "--", "bash", "-c", "trap 'echo caught; exit 6' INT; echo ready; read line"],
    );
    session.expect("ready");
    session.send("\x03");
    session.expect("caught");
    assert_eq!(session.finish().0.code(), Some(6));
}

#[test]
fn the_end_of_input_key_is_the_end_of_input() {
    let world = World::new();
    let mut session = Session::start(&world, &["run", "--", "cat"]);
    session.send("typed\n");
    session.expect("typed\r\ntyped");
    session.send("\x04");
    assert_eq!(session.finish().0.code(), Some(0));
}

#[test]
fn the_terminal_is_restored_after_every_kind_of_end() {
    let world = World::new();
    // A shell holds the terminal, so that its settings can be asked after the end.
    let own = own();
    for (inner, code) in [
        ("true", "0"),
        ("exit 3", "3"),
        ("kill -9 $$", "137"),
        ("stty raw -echo", "0"),
        ("exec /no/such/program", "127"),
    ] {
        let script = format!("'{own}' run -- sh -c '{inner}'; echo code $?; read line");
        let mut session = Session::start_program(&world, "sh", &["-c", &script]);
        let before = noticed(&session.settings());
        session.expect(&format!("code {code}"));
        assert_eq!(noticed(&session.settings()), before, "after `{inner}`");
    }
}

#[test]
fn the_terminal_is_raw_during_the_run_and_restored_after_a_signal() {
    let world = World::new();
    let own = own();
    let script =
        format!("'{own}' run -- sh -c 'echo ready; sleep 987.102'; echo code $?; read line");
    let mut session = Session::start_program(&world, "sh", &["-c", &script]);
    let before = noticed(&session.settings());
    session.expect("ready");
    assert!(!session.settings().local_modes.contains(LocalModes::ICANON));
    for pid in crate::support::processes::children(session.pid()) {
        Watched::new(pid).signal(Signal::TERM);
    }
    session.expect("code 143");
    assert_eq!(noticed(&session.settings()), before);
}

#[test]
fn a_stream_that_is_no_terminal_stays_plain() {
    let world = World::new();
    let own = own();
    let script = format!(
        "'{own}' run -- sh -c 'test -t 0 && ! test -t 1 && echo in the file && echo shown >&2' > out.txt"
    );
    let (status, shown) = Session::start_program(&world, "sh", &["-c", &script]).finish();
    assert_eq!(status.code(), Some(0), "{shown}");
    assert_eq!(shown, "shown\r\n");
    let file = std::fs::read_to_string(world.workspace().join("out.txt"));
    assert_eq!(file.expect("the file is there"), "in the file\n");
}

#[test]
fn a_terminal_that_a_pager_may_share_is_left_alone() {
    let world = World::new();
    let own = own();
    let script = format!("'{own}' run -- sh -c 'test -t 1; echo $?; sleep 0.2' | cat");
    let mut session = Session::start_program(&world, "sh", &["-c", &script]);
    session.expect("1\r\n");
    assert!(session.settings().local_modes.contains(LocalModes::ICANON));
    assert_eq!(session.finish().0.code(), Some(0));
}

#[test]
fn a_background_job_neither_reads_nor_changes_the_terminal() {
    let world = World::new();
    let own = own();
    let mut session =
        Session::start_program(&world, "bash", &["--norc", "--noprofile", "--noediting", "-i"]);
    session.send("PS1='rea''dy> '\n");
    session.expect("ready> ");
    session.send(&format!("'{own}' run -- echo from-the-background & wait; echo code $?\n"));
    session.expect("\nfrom-the-background");
    session.expect("code 0");
}
