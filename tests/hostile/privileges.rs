//! What the kernel lets the code do: terminals, namespaces, set-uid programs, forbidden calls.

use crate::support::{Answer, Place};

/// Tries a call by number; prints `ok` or the name of the error.
const CALL: &str = r#"
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    result = libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    return "ok" if result != -1 else errno.errorcode[ctypes.get_errno()]
"#;

#[test]
fn the_code_is_an_ordinary_user_without_any_right() {
    let place = Place::new();
    let status = place.bash("id -u; cat /proc/self/uid_map; cat /proc/self/status");
    let text = status.ok();
    let user: u32 = text.lines().next().expect("a line").parse().expect("a number");
    assert_ne!(user, 0);
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(text.contains(&format!("{set}:\t0000000000000000")), "{set} in {text}");
    }
    assert!(text.contains("NoNewPrivs:\t1"), "{text}");
    assert!(text.contains("Seccomp:\t2"), "{text}");
    let map: Vec<_> = text.lines().nth(1).expect("a map").split_whitespace().collect();
    assert_eq!((map[0], map[2]), (user.to_string().as_str(), "1"), "one id only");
}

/// D1
#[test]
fn the_callers_terminal_cannot_be_opened_or_typed_into() {
    let place = Place::new();
    assert_ne!(place.bash("true < /dev/tty").code, Some(0));
    // A terminal of its own, which it controls: the strongest position to type into one.
    let attack = format!(
        "{CALL}\nimport fcntl, pty, termios\nif os.fork() == 0:\n  os.setsid()\n  \
         outer, inner = pty.openpty()\n  fcntl.ioctl(inner, termios.TIOCSCTTY, 0)\n  \
         print(call(16, inner, 0x5412, b'x'), call(16, inner, 0x541C, b'x'), flush=True)\n  \
         os._exit(0)\nos.wait()"
    );
    // On its own terminal the kernel may allow TIOCSTI or not (EIO), but nothing filters it.
    let outside = place.python_outside(&attack);
    assert!(!outside.ok().contains("EPERM"), "{outside:?}");
    assert_eq!(place.python(&attack).ok(), "EPERM EPERM");
}

/// D3
#[test]
fn no_namespace_can_be_made_by_any_of_the_three_ways() {
    let place = Place::new();
    assert_eq!(place.bash_outside("unshare --user true").code, Some(0));
    let denied = place.bash("unshare --user true");
    assert!(denied.stderr.contains("Operation not permitted"), "{denied:?}");
    for kind in ["--mount", "--pid --fork", "--net", "--ipc", "--uts", "--cgroup"] {
        let answer = place.bash(&format!("unshare --user {kind} true || unshare {kind} true"));
        assert_ne!(answer.code, Some(0), "{kind}: {answer:?}");
    }
    // clone(CLONE_NEWUSER | SIGCHLD) and clone3 with an empty request.
    let attack = format!("{CALL}\nprint(call(56, 0x10000011, 0, 0, 0, 0), call(435, 0, 0))");
    assert_eq!(place.python(&attack).ok(), "EPERM ENOSYS");
}

/// D4
#[test]
fn a_set_uid_program_gives_nothing() {
    let place = Place::new();
    let copy =
        "cp \"$(command -v id)\" ./setuid-id && chown 12345 setuid-id && chmod 4755 setuid-id";
    if place.bash_outside(copy).code != Some(0) {
        // Only root can give a file away. For others: what makes set-uid harmless is armed.
        let answer = place.bash(
            "grep NoNewPrivs /proc/self/status; findmnt -no OPTIONS -T . || cat /proc/mounts",
        );
        assert!(answer.ok().contains("NoNewPrivs:\t1") && answer.ok().contains("nosuid"));
        return;
    }
    let path = place.path().join("setuid-id").display().to_string();
    assert_eq!(place.bash_outside("./setuid-id -u").ok(), "12345");
    let inside = Answer::of(place.run().args([&path, "-u"]));
    assert_ne!(inside.stdout.trim(), "12345", "{inside:?}");
    assert_ne!(inside.stdout.trim(), "0", "{inside:?}");
}

/// D2, D11
#[test]
fn dangerous_calls_are_refused_by_the_filter() {
    let place = Place::new();
    // Number on x86-64, arguments that fail otherwise (EFAULT, EINVAL, ...) but never with EPERM.
    let calls = [
        ("ptrace", "101, 0x4206, 999999, 0, 0"),
        ("process_vm_readv", "310, 999999, 0, 0, 0, 0, 0"),
        ("pidfd_getfd", "438, 999999, 0, 0"),
        ("open_by_handle_at", "304, -1, 0, 0"),
        ("fsopen", "430, 0, 0"),
        ("userfaultfd", "323, 0xffff"),
        ("keyctl", "250, 9999, 0, 0, 0, 0"),
        ("io_uring_setup", "425, 0, 0"),
        ("bpf", "321, 9999, 0, 0"),
        ("perf_event_open", "298, 0, 0, -1, -1, 0"),
    ];
    for (name, arguments) in calls {
        let inside = place.python(&format!("{CALL}\nprint(call({arguments}))"));
        assert!(["EPERM", "ENOSYS"].contains(&inside.ok()), "{name}: {inside:?}");
    }
    // Positive control: at least the harmless ones of them answer differently outside.
    for (name, arguments) in [calls[0], calls[1], calls[4], calls[6]] {
        let outside = place.python_outside(&format!("{CALL}\nprint(call({arguments}))"));
        if name == "fsopen" && outside.ok() == "EPERM" {
            continue; // an ordinary user may not, outside either
        }
        assert!(!["EPERM", "ENOSYS"].contains(&outside.ok()), "{name}: {outside:?}");
    }
}

/// C6, C8: what needs no route.
#[test]
fn other_socket_families_do_not_exist() {
    let place = Place::new();
    let attack = "import socket\nfor family in (16, 17, 38, 40):\n  try:\n    socket.socket(family, \
                  socket.SOCK_RAW if family != 40 else socket.SOCK_STREAM)\n    print('open', family)\n  \
                  except OSError as error: print(error.errno)";
    assert!(place.python_outside(attack).ok().contains("open 16"));
    assert!(!place.python(attack).ok().contains("open"));
}
