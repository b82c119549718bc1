//! Other processes, descriptors, and the files of `/proc`.

use std::fs;

use crate::support::{Answer, Place, Victim, marker, program, program_path};

/// D2, D5
#[test]
fn a_process_of_the_same_user_cannot_be_seen_signalled_or_read() {
    let place = Place::new();
    let mut victim = Victim::start();
    let id = victim.id();
    assert_eq!(
        place.bash_outside(&format!("kill -0 {id} && cat /proc/{id}/maps >/dev/null")).code,
        Some(0)
    );

    let answer = place.bash(&format!("kill -9 {id}; cat /proc/{id}/maps; kill -9 -1; true"));
    assert!(answer.stderr.contains("No such process"), "{answer:?}");
    assert!(answer.stderr.contains("No such file"), "{answer:?}");
    assert!(victim.lives());
}

/// D2
#[test]
fn the_first_process_inside_cannot_be_read_killed_or_imitated() {
    let place = Place::new();
    let attack = "kill -9 1; kill -STOP 1; for file in mem maps environ root/etc fd/3 cwd/x; do \
                  cat /proc/1/$file 2>/dev/null && echo READ $file; done; \
                  for fd in /proc/1/fd/*; do echo 'ended 0 0 0' > $fd 2>/dev/null && echo WROTE; \
                  done; exit 3";
    let answer = place.bash(attack);
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(3), ""), "{answer:?}");
    // Positive control: an own process can be read in the same ways.
    let own = place.bash_outside("sleep 60 & cat /proc/$!/maps >/dev/null && echo READ; kill $!");
    assert_eq!(own.ok(), "READ");
}

/// D6
#[test]
fn only_three_descriptors_are_inherited() {
    let place = Place::new();
    let list = "import os\nfds = sorted(map(int, os.listdir('/proc/self/fd')))\n\
                print(*[fd for fd in fds if os.path.exists(f'/proc/self/fd/{fd}')])";
    place.file("list.py", list);
    let binary = program_path().display().to_string();
    let folder = place.path().display();
    let leak = |inner: &str| format!("exec 7</etc/passwd 8>/dev/null 9</; exec {inner}");
    let outside = place.bash_outside(&leak("/usr/bin/python3 list.py"));
    // Whoever runs the tests may have left further ones open: so much the better.
    assert!(outside.ok().starts_with("0 1 2 7 8 9"), "{outside:?}");
    let run = format!("{binary} run -w {folder} -- /usr/bin/python3 {folder}/list.py");
    assert_eq!(place.bash_outside(&leak(&run)).ok(), "0 1 2");
}

/// D7
#[test]
fn the_programs_behind_proc_cannot_be_altered() {
    let place = Place::new();
    let binary = program_path();
    let before = fs::metadata(&binary).expect("the program").modified().expect("a time");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a host name");
    let attack = "for file in /proc/self/exe /proc/1/exe /proc/sys/kernel/hostname \
                  /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/1/root/etc/passwd \
                  /proc/1/oom_score_adj /proc/sys/user/max_user_namespaces; do \
                  (echo hacked > $file) 2>/dev/null && echo WROTE $file; done; true";
    assert_eq!(place.bash(attack).ok(), "");
    assert_eq!(fs::metadata(binary).expect("the program").modified().expect("a time"), before);
    assert_eq!(fs::read_to_string("/proc/sys/kernel/hostname").expect("a name"), host);
    // Positive control: what is one's own can be written through /proc.
    let own = place.bash_outside("echo 500 > /proc/self/oom_score_adj && echo WROTE");
    assert_eq!(own.ok(), "WROTE");
}

/// D8
#[test]
fn an_ending_cannot_be_forged() {
    let place = Place::new();
    let attack = "for n in 0 1 2 3 4 5 6 7 8 9 10 16; do \
                  (echo 'ended 0 0 0' >&$n) 2>/dev/null; done; \
                  echo 'returncode: 0'; kill -TERM $$";
    let answer = place.bash(attack);
    assert_eq!(answer.code, Some(128 + 15), "{answer:?}");
    let json =
        Answer::of(place_json(&place).args(["bash", "-c", "echo '{\"returncode\":0}'; exit 9"]));
    assert_eq!(json.code, Some(9));
    assert!(json.stdout.contains("\"returncode\":9") || json.stdout.contains("\"returncode\": 9"));
}

fn place_json(place: &Place) -> std::process::Command {
    let mut command = program();
    command.arg("run").arg("--json").arg("-w").arg(place.path()).arg("--");
    command
}

/// D9
#[test]
fn a_crash_leaves_no_core() {
    let place = Place::new();
    let crash = "ulimit -c unlimited 2>/dev/null; ulimit -c; kill -SEGV $$";
    let answer = place.bash(crash);
    assert_eq!(answer.code, Some(128 + 11), "{answer:?}");
    assert_eq!(answer.stdout.trim(), "0");
    let left = fs::read_dir(place.path()).expect("the workspace").count();
    assert_eq!(left, 0);
}

/// C7, C8: sockets of the machine.
#[test]
fn sockets_of_the_machine_are_out_of_reach() {
    use std::os::{linux::net::SocketAddrExt, unix::net};
    let place = Place::new();
    let name = marker("abstract");
    let address = net::SocketAddr::from_abstract_name(&name).expect("a name");
    let _abstract = net::UnixListener::bind_addr(&address).expect("an abstract socket");
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
    let port = tcp.local_addr().expect("an address").port();
    let attack = format!(
        "import socket\nfor family, address in ((socket.AF_UNIX, '\\0{name}'), (socket.AF_INET, \
         ('127.0.0.1', {port})), (socket.AF_INET6, ('::ffff:127.0.0.1', {port}))):\n  try:\n    \
         socket.socket(family).connect(address); print('reached')\n  except OSError: print('no')"
    );
    assert_eq!(place.python_outside(&attack).ok(), "reached\nreached\nreached");
    assert_eq!(place.python(&attack).ok(), "no\nno\nno");
}
