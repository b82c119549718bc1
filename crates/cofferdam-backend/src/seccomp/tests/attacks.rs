//! Calls that are refused, tried on the kernel, with and without the filter.
//!
//! Arguments are chosen so that the kernel, unfiltered, goes past its own "not permitted" and
//! either does something harmless or stumbles over what it was given.

use super::under_filter::{Attempt, Attempted, NOBODY, attempt, is_root, put_under};
use super::{number, shipped_programs};

/// Who gets past the kernel's own refusals when there is no filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Control {
    Anyone,
    Root,
    /// It depends on how a kernel was built or set up, so that nothing can be claimed.
    DependsOnKernel,
}

struct Attack {
    name: &'static str,
    arguments: [i64; 6],
    control: Control,
    refusal: i32,
}

const fn attack(name: &'static str, control: Control, arguments: [i64; 6]) -> Attack {
    Attack { name, arguments, control, refusal: libc::EPERM }
}

const fn answered(refusal: i32, attack: Attack) -> Attack {
    Attack { refusal, ..attack }
}

use Control::{Anyone, DependsOnKernel, Root};

const NEW_USER: i64 = libc::CLONE_NEWUSER as i64;
const CHILD: i64 = libc::SIGCHLD as i64;
const BAD: i64 = -1;

const ATTACKS: &[Attack] = &[
    attack("unshare", Anyone, [NEW_USER, 0, 0, 0, 0, 0]),
    attack("unshare", Root, [libc::CLONE_NEWNS as i64, 0, 0, 0, 0, 0]),
    attack("setns", Anyone, [BAD, 0, 0, 0, 0, 0]),
    attack("clone", Anyone, [NEW_USER | CHILD, 0, 0, 0, 0, 0]),
    attack("clone", Anyone, [1 << 40 | NEW_USER | CHILD, 0, 0, 0, 0, 0]),
    attack("clone", Root, [libc::CLONE_NEWNET as i64 | CHILD, 0, 0, 0, 0, 0]),
    answered(libc::ENOSYS, attack("clone3", Anyone, [0; 6])),
    attack("ptrace", Anyone, [libc::PTRACE_TRACEME as i64, 0, 0, 0, 0, 0]),
    attack("process_vm_readv", Anyone, [1, 0, 0, 0, 0, 0]),
    attack("process_vm_writev", Anyone, [1, 0, 0, 0, 0, 0]),
    attack("pidfd_getfd", Anyone, [BAD, 0, 0, 0, 0, 0]),
    attack("kcmp", DependsOnKernel, [i32::MAX as i64, i32::MAX as i64, 0, 0, 0, 0]),
    attack("bpf", Root, [BAD, 0, 0, 0, 0, 0]),
    attack("perf_event_open", Anyone, [0, 0, 0, BAD, 0, 0]),
    attack("keyctl", DependsOnKernel, [0, -3, 0, 0, 0, 0]),
    attack("add_key", DependsOnKernel, [0; 6]),
    attack("request_key", DependsOnKernel, [0; 6]),
    attack("userfaultfd", DependsOnKernel, [1, 0, 0, 0, 0, 0]),
    attack("kexec_load", DependsOnKernel, [0, 99, 0, BAD, 0, 0]),
    attack("mount", Anyone, [0; 6]),
    attack("umount2", Anyone, [0, BAD, 0, 0, 0, 0]),
    attack("pivot_root", Root, [0; 6]),
    attack("chroot", Anyone, [0; 6]),
    attack("fsopen", Root, [0; 6]),
    attack("fsconfig", Anyone, [BAD, 0, 0, 0, 0, 0]),
    attack("fsmount", Root, [BAD, 0, 0, 0, 0, 0]),
    attack("fspick", Root, [BAD, 0, 0, 0, 0, 0]),
    attack("open_tree", Anyone, [BAD, 0, 0, 0, 0, 0]),
    attack("move_mount", Root, [BAD, 0, BAD, 0, 0, 0]),
    attack("mount_setattr", Anyone, [BAD, 0, 0, 0, 0, 0]),
    attack("open_by_handle_at", Root, [BAD, 0, 0, 0, 0, 0]),
    attack("name_to_handle_at", Anyone, [BAD, 0, 0, 0, 0, 0]),
    answered(libc::ENOSYS, attack("io_uring_setup", DependsOnKernel, [0; 6])),
    answered(libc::ENOSYS, attack("io_uring_enter", DependsOnKernel, [BAD, 0, 0, 0, 0, 0])),
    attack("init_module", DependsOnKernel, [0; 6]),
    attack("finit_module", DependsOnKernel, [BAD, 0, 0, 0, 0, 0]),
    attack("delete_module", DependsOnKernel, [0; 6]),
    attack("swapon", Root, [0; 6]),
    attack("swapoff", Root, [0; 6]),
    attack("reboot", Root, [0; 6]),
    attack("settimeofday", Anyone, [1, 0, 0, 0, 0, 0]),
    attack("clock_settime", Anyone, [0; 6]),
    attack("adjtimex", Anyone, [0; 6]),
    attack("clock_adjtime", Anyone, [0; 6]),
    attack("acct", Root, [1, 0, 0, 0, 0, 0]),
    attack("quotactl", DependsOnKernel, [BAD, 0, 0, 0, 0, 0]),
    attack("syslog", Root, [10, 0, 0, 0, 0, 0]),
    attack("sethostname", Root, [0, BAD, 0, 0, 0, 0]),
    attack("setdomainname", Root, [0, BAD, 0, 0, 0, 0]),
    attack("fanotify_init", DependsOnKernel, [BAD, 0, 0, 0, 0, 0]),
    attack("move_pages", DependsOnKernel, [0; 6]),
    attack("migrate_pages", DependsOnKernel, [0; 6]),
    attack("personality", Anyone, [0x0040_0000, 0, 0, 0, 0, 0]),
    attack("mknodat", Anyone, [BAD, 0, libc::S_IFCHR as i64 | 0o666, 0, 0, 0]),
    attack("ioctl", Anyone, [BAD, 0x5412, 0, 0, 0, 0]),
    attack("ioctl", Anyone, [BAD, 1 << 32 | 0x5412, 0, 0, 0, 0]),
    attack("ioctl", Anyone, [BAD, 0x541c, 0, 0, 0, 0]),
    attack("ioctl", Anyone, [BAD, 0x541d, 0, 0, 0, 0]),
    attack("ioctl", Anyone, [BAD, 0x5423, 0, 0, 0, 0]),
    answered(libc::EINVAL, no_family(libc::AF_NETLINK, libc::SOCK_RAW, Anyone)),
    no_family(libc::AF_PACKET, libc::SOCK_RAW, DependsOnKernel),
    no_family(libc::AF_VSOCK, libc::SOCK_STREAM, DependsOnKernel),
    no_family(libc::AF_ALG, libc::SOCK_SEQPACKET, DependsOnKernel),
    no_family(libc::AF_BLUETOOTH, libc::SOCK_RAW, DependsOnKernel),
    no_family(libc::AF_XDP, libc::SOCK_RAW, DependsOnKernel),
    no_family(libc::AF_INET, 10, DependsOnKernel),
    answered(
        libc::EPROTONOSUPPORT,
        attack("socket", Root, [libc::AF_INET as i64, libc::SOCK_RAW as i64, 255, 0, 0, 0]),
    ),
];

const fn no_family(family: i32, kind: i32, control: Control) -> Attack {
    let attack = attack("socket", control, [family as i64, kind as i64, 0, 0, 0, 0]);
    answered(libc::EAFNOSUPPORT, attack)
}

#[cfg(target_arch = "x86_64")]
const ATTACKS_OF_THIS_ARCHITECTURE: &[Attack] = &[
    attack("iopl", DependsOnKernel, [4, 0, 0, 0, 0, 0]),
    attack("ioperm", DependsOnKernel, [65536, 1, 1, 0, 0, 0]),
    attack("modify_ldt", DependsOnKernel, [0; 6]),
    attack("mknod", Anyone, [0, libc::S_IFBLK as i64 | 0o666, 0, 0, 0, 0]),
];
#[cfg(not(target_arch = "x86_64"))]
const ATTACKS_OF_THIS_ARCHITECTURE: &[Attack] = &[];

fn attacks() -> impl Iterator<Item = &'static Attack> {
    ATTACKS.iter().chain(ATTACKS_OF_THIS_ARCHITECTURE)
}

fn users() -> Vec<Option<u32>> {
    if is_root() { vec![None, Some(NOBODY)] } else { vec![None] }
}

impl Attack {
    fn attempt(&self, programs: Vec<Vec<u8>>, user: Option<u32>) -> Attempted {
        attempt(Attempt::Call(number(self.name), self.arguments), programs, user)
    }

    fn is_shown_for(&self, user: Option<u32>) -> bool {
        match self.control {
            Anyone => true,
            Root => is_root() && user.is_none(),
            DependsOnKernel => false,
        }
    }
}

#[test]
fn every_attack_is_refused_and_without_the_filter_it_is_not() {
    for user in users() {
        for attack in attacks() {
            let name = attack.name;
            let with = attack.attempt(shipped_programs(), user);
            assert_eq!(with, Attempted::Failed(attack.refusal), "{name} as {user:?}");
            let without = attack.attempt(Vec::new(), user);
            if attack.is_shown_for(user) {
                assert_ne!(without, Attempted::Failed(libc::EPERM), "{name} as {user:?}");
                assert_ne!(without, Attempted::Failed(libc::ENOSYS), "{name} as {user:?}");
                assert_ne!(without, with, "{name} as {user:?}");
            }
        }
    }
}

#[test]
fn a_later_filter_that_allows_everything_gives_nothing_back() {
    // BPF_RET of SECCOMP_RET_ALLOW
    let mut allow_everything = 0x06u16.to_ne_bytes().to_vec();
    allow_everything.extend([0, 0]);
    allow_everything.extend(0x7fff_0000u32.to_ne_bytes());
    let mut programs = shipped_programs();
    programs.push(allow_everything.clone());

    for attack in attacks().filter(|attack| matches!(attack.name, "unshare" | "clone3")) {
        let with = attack.attempt(programs.clone(), None);
        assert_eq!(with, Attempted::Failed(attack.refusal), "{}", attack.name);
    }
    let unshare = Attack { ..attack("unshare", Anyone, [NEW_USER, 0, 0, 0, 0, 0]) };
    assert_eq!(unshare.attempt(vec![allow_everything], None), Attempted::Succeeded);
}

#[test]
fn a_call_with_the_x32_bit_is_refused() {
    const X32_BIT: i64 = 0x4000_0000;
    let getpid = number("getpid");
    let with = |number| attempt(Attempt::Call(number, [0; 6]), shipped_programs(), None);
    assert_eq!(with(getpid | X32_BIT), Attempted::Failed(libc::ENOSYS));
    assert_eq!(with(getpid), Attempted::Succeeded);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_32_bit_call_ends_the_process() {
    let with = attempt(Attempt::Gate32, shipped_programs(), None);
    assert_eq!(with, Attempted::KilledBy(libc::SIGSYS));
    // A kernel without 32-bit emulation answers the gate itself, with SIGSEGV.
    let without = attempt(Attempt::Gate32, Vec::new(), None);
    assert!(
        matches!(without, Attempted::Succeeded | Attempted::KilledBy(libc::SIGSEGV)),
        "{without:?}"
    );
}

#[test]
fn programs_that_a_program_starts_are_under_the_filter_too() {
    let script = "bash -c 'unshare --user true'; echo $?";
    let mut command = std::process::Command::new("bash");
    command.args(["-c", script]);
    let without = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&without.stdout), "0\n");
    put_under(&mut command, shipped_programs());
    let with = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&with.stdout), "1\n");
    assert!(String::from_utf8_lossy(&with.stderr).contains("Operation not permitted"));
}
