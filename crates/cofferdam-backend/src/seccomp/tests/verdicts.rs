//! What the programs answer to every kind of call, computed.

use super::super::INSTRUCTION_BYTES;
use super::evaluate::{Call, Verdict, verdict};
use super::{number, shipped_programs};

const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
const AUDIT_ARCH_AARCH64: u32 = 0xc000_00b7;
const AUDIT_ARCH_I386: u32 = 0x4000_0003;
const AUDIT_ARCH_ARM: u32 = 0x4000_0028;
const HERE: u32 = if cfg!(target_arch = "x86_64") { AUDIT_ARCH_X86_64 } else { AUDIT_ARCH_AARCH64 };
const X32_BIT: u32 = 0x4000_0000;

const NOT_PERMITTED: Verdict = Verdict::Fails(libc::EPERM);
const NOT_IMPLEMENTED: Verdict = Verdict::Fails(libc::ENOSYS);
const NO_FAMILY: Verdict = Verdict::Fails(libc::EAFNOSUPPORT);
const NO_NETLINK: Verdict = Verdict::Fails(libc::EINVAL);
const NO_PROTOCOL: Verdict = Verdict::Fails(libc::EPROTONOSUPPORT);

struct Filters(Vec<Vec<u8>>);

impl Filters {
    fn shipped() -> Self {
        Self(shipped_programs())
    }

    fn of_number(&self, number: u32, arguments: [u64; 6]) -> Verdict {
        verdict(&self.0, Call { number, architecture: HERE, arguments })
    }

    fn of(&self, name: &str, arguments: [u64; 6]) -> Verdict {
        self.of_number(u32::try_from(number(name)).unwrap(), arguments)
    }

    /// With a value in one argument, whatever is in the upper halves of all.
    fn of_argument(&self, name: &str, index: usize, value: u32) -> Verdict {
        let verdicts: Vec<_> = [0, 1, 2, 0xffff_ffff]
            .into_iter()
            .flat_map(|upper: u64| [0, 1 << 33].map(|other: u64| (upper, other)))
            .map(|(upper, other)| {
                let mut arguments = [other; 6];
                arguments[index] = upper << 32 | u64::from(value);
                self.of(name, arguments)
            })
            .collect();
        assert!(verdicts.iter().all(|verdict| *verdict == verdicts[0]), "{name}: {verdicts:?}");
        verdicts[0]
    }
}

fn arguments_of_all_kinds() -> impl Iterator<Item = [u64; 6]> {
    let values = [0, 1, 2, 17, 0x5412, 0x7fff_ffff, 0xffff_ffff, 1 << 32, u64::MAX];
    values.into_iter().flat_map(move |one| {
        values.into_iter().map(move |other| [one, other, one, other, one, other])
    })
}

#[test]
fn the_kernel_takes_every_program_by_its_size() {
    let programs = shipped_programs();
    assert_eq!(programs.len(), 5);
    for program in programs {
        assert_eq!(program.len() % INSTRUCTION_BYTES, 0);
        assert!(program.len() / INSTRUCTION_BYTES < 4096);
    }
}

#[test]
fn what_gives_power_over_others_or_the_kernel_is_refused_whatever_its_arguments() {
    let filters = Filters::shipped();
    for name in [
        "ptrace",
        "process_vm_readv",
        "process_vm_writev",
        "pidfd_getfd",
        "kcmp",
        "bpf",
        "perf_event_open",
        "keyctl",
        "add_key",
        "request_key",
        "userfaultfd",
        "kexec_load",
        "kexec_file_load",
        "mount",
        "umount2",
        "pivot_root",
        "chroot",
        "fsopen",
        "fsconfig",
        "fsmount",
        "fspick",
        "open_tree",
        "open_tree_attr",
        "move_mount",
        "mount_setattr",
        "open_by_handle_at",
        "name_to_handle_at",
        "init_module",
        "finit_module",
        "delete_module",
        "swapon",
        "swapoff",
        "reboot",
        "settimeofday",
        "clock_settime",
        "adjtimex",
        "clock_adjtime",
        "acct",
        "quotactl",
        "quotactl_fd",
        "lookup_dcookie",
        "syslog",
        "sethostname",
        "setdomainname",
        "vhangup",
        "fanotify_init",
        "fanotify_mark",
        "move_pages",
        "migrate_pages",
        "unshare",
        "setns",
    ] {
        for arguments in arguments_of_all_kinds() {
            assert_eq!(filters.of(name, arguments), NOT_PERMITTED, "{name}");
        }
    }
    if cfg!(target_arch = "x86_64") {
        for name in ["iopl", "ioperm", "modify_ldt"] {
            assert_eq!(filters.of(name, [0; 6]), NOT_PERMITTED, "{name}");
        }
    }
}

#[test]
fn what_has_a_fallback_is_answered_as_an_older_kernel_would() {
    let filters = Filters::shipped();
    for name in [
        "clone3",
        "io_uring_setup",
        "io_uring_enter",
        "io_uring_register",
        "process_madvise",
        "process_mrelease",
        "memfd_secret",
        "statmount",
        "listmount",
        "nfsservctl",
        "lsm_get_self_attr",
        "lsm_set_self_attr",
        "lsm_list_modules",
    ] {
        for arguments in arguments_of_all_kinds() {
            assert_eq!(filters.of(name, arguments), NOT_IMPLEMENTED, "{name}");
        }
    }
    if cfg!(target_arch = "x86_64") {
        for name in [
            "sysfs",
            "ustat",
            "uselib",
            "_sysctl",
            "create_module",
            "get_kernel_syms",
            "query_module",
            "get_thread_area",
            "set_thread_area",
            "epoll_ctl_old",
            "epoll_wait_old",
            "getpmsg",
            "putpmsg",
            "afs_syscall",
            "tuxcall",
            "security",
            "vserver",
        ] {
            assert_eq!(filters.of(name, [0; 6]), NOT_IMPLEMENTED, "{name}");
        }
    }
}

#[test]
fn what_programs_live_on_is_allowed() {
    let filters = Filters::shipped();
    for name in [
        "read",
        "write",
        "openat",
        "close",
        "mmap",
        "munmap",
        "brk",
        "execve",
        "exit_group",
        "wait4",
        "futex",
        "rt_sigreturn",
        "clone",
        "pipe2",
        "connect",
        "renameat",
        "prctl",
        "seccomp",
        "landlock_restrict_self",
        "capset",
        "setuid",
        "prlimit64",
        "pidfd_open",
        "set_mempolicy",
        "mbind",
        "memfd_create",
        "restart_syscall",
    ] {
        for arguments in [[0; 6], [1; 6]] {
            assert_eq!(filters.of(name, arguments), Verdict::Allowed, "{name}");
        }
    }
}

#[test]
fn clone_makes_threads_and_processes_but_no_namespace() {
    let filters = Filters::shipped();
    let clone = |flags: i32| filters.of_argument("clone", 0, flags.cast_unsigned());
    assert_eq!(clone(libc::SIGCHLD), Verdict::Allowed);
    // As the C library calls it for threads and for vfork.
    assert_eq!(clone(0x003d_0f00), Verdict::Allowed);
    assert_eq!(clone(libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD), Verdict::Allowed);
    for flag in [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ] {
        assert_eq!(clone(flag), NOT_PERMITTED, "{flag:#x}");
        assert_eq!(clone(flag | libc::SIGCHLD | libc::CLONE_VM), NOT_PERMITTED, "{flag:#x}");
        assert_eq!(clone(-1), NOT_PERMITTED);
    }
}

#[test]
fn sockets_are_of_three_families_only() {
    let filters = Filters::shipped();
    for name in ["socket", "socketpair"] {
        for family in (0..64).chain([0xff, 0x8000_0001, 0xffff_ffff]) {
            let verdict = filters.of_argument(name, 0, family);
            let expected = match i32::try_from(family) {
                Ok(libc::AF_UNIX | libc::AF_INET | libc::AF_INET6) => Verdict::Allowed,
                Ok(libc::AF_NETLINK) if name == "socket" => NO_NETLINK,
                _ => NO_FAMILY,
            };
            assert_eq!(verdict, expected, "{name} of family {family}");
        }
    }
}

#[test]
fn packet_sockets_are_not_had_by_their_obsolete_name_either() {
    let filters = Filters::shipped();
    for flags in [0, libc::SOCK_CLOEXEC, libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC] {
        let kind = |kind: i32| {
            let arguments = [2, u64::from((kind | flags).cast_unsigned()), 0, 0, 0, 0];
            filters.of("socket", arguments)
        };
        assert_eq!(kind(libc::SOCK_STREAM), Verdict::Allowed);
        assert_eq!(kind(libc::SOCK_DGRAM), Verdict::Allowed);
        assert_eq!(kind(libc::SOCK_SEQPACKET), Verdict::Allowed);
        assert_eq!(kind(10), NO_FAMILY);
    }
}

#[test]
fn rare_protocols_are_refused() {
    let filters = Filters::shipped();
    for protocol in (0..300u32).chain([u32::MAX]) {
        let verdict = filters.of("socket", [2, 1, u64::from(protocol), 0, 0, 0]);
        let allowed = matches!(protocol, 0 | 1 | 6 | 17 | 58);
        let expected = if allowed { Verdict::Allowed } else { NO_PROTOCOL };
        assert_eq!(verdict, expected, "{protocol}");
    }
}

#[test]
fn a_terminal_cannot_be_typed_into_with_any_upper_half() {
    let filters = Filters::shipped();
    for request in [0x5412, 0x541c, 0x541d, 0x5423] {
        assert_eq!(filters.of_argument("ioctl", 1, request), NOT_PERMITTED, "{request:#x}");
    }
    // TCGETS, TIOCSCTTY, TIOCGWINSZ, TIOCSWINSZ, FIONREAD, FICLONE
    for request in [0x5401, 0x540e, 0x5413, 0x5414, 0x541b, 0x4004_9409] {
        assert_eq!(filters.of_argument("ioctl", 1, request), Verdict::Allowed, "{request:#x}");
    }
}

#[test]
fn a_personality_is_asked_for_or_harmless() {
    let filters = Filters::shipped();
    for persona in [0, 0xffff_ffff, 0x2_0000, 0x4_0000] {
        assert_eq!(filters.of_argument("personality", 0, persona), Verdict::Allowed);
    }
    // PER_LINUX32, PER_SVR4, READ_IMPLIES_EXEC, MMAP_PAGE_ZERO
    for persona in [8, 1, 0x40_0000, 0x10_0000, 0x44_0000] {
        assert_eq!(filters.of_argument("personality", 0, persona), NOT_PERMITTED);
    }
}

#[test]
fn device_nodes_are_refused_and_fifos_are_not() {
    let filters = Filters::shipped();
    let mode = |mode: u32| filters.of_argument("mknodat", 2, mode);
    for kind in [libc::S_IFCHR, libc::S_IFBLK] {
        assert_eq!(mode(kind), NOT_PERMITTED);
        assert_eq!(mode(kind | 0o666), NOT_PERMITTED);
    }
    for kind in [0, libc::S_IFIFO, libc::S_IFREG, libc::S_IFSOCK] {
        assert_eq!(mode(kind | 0o666), Verdict::Allowed);
    }
    if cfg!(target_arch = "x86_64") {
        assert_eq!(filters.of_argument("mknod", 1, libc::S_IFCHR | 0o600), NOT_PERMITTED);
        assert_eq!(filters.of_argument("mknod", 1, libc::S_IFIFO | 0o600), Verdict::Allowed);
    }
}

#[test]
fn numbers_that_no_kernel_of_today_has_are_refused() {
    let filters = Filters::shipped();
    for unknown in (471..2000).chain([0x3fff_ffff, 0x8000_0000, u32::MAX]) {
        assert_eq!(filters.of_number(unknown, [0; 6]), NOT_IMPLEMENTED, "{unknown}");
    }
}

#[test]
fn x32_numbers_are_refused() {
    let filters = Filters::shipped();
    for plain in 0..1024 {
        assert_eq!(filters.of_number(plain | X32_BIT, [0; 6]), NOT_IMPLEMENTED, "{plain}");
    }
}

#[test]
fn calls_of_another_architecture_end_the_process() {
    let programs = shipped_programs();
    let number = u32::try_from(number("read")).unwrap();
    for architecture in [0, AUDIT_ARCH_I386, AUDIT_ARCH_ARM, HERE ^ 0x8000_0000, !HERE] {
        let call = Call { number, architecture, arguments: [0; 6] };
        assert_eq!(verdict(&programs, call), Verdict::Killed, "{architecture:#x}");
        // No filter relies on another one for this.
        for program in &programs {
            assert_eq!(verdict(std::slice::from_ref(program), call), Verdict::Killed);
        }
    }
    let call = Call { number, architecture: HERE, arguments: [0; 6] };
    assert_eq!(verdict(&programs, call), Verdict::Allowed);
}

#[test]
fn equal_options_give_equal_programs() {
    assert_eq!(shipped_programs(), shipped_programs());
}
