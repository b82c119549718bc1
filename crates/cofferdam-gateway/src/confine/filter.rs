//! The system calls that a running gateway never needs, as data, each group with its reason.
//!
//! A list of what is denied, not of what is allowed: the C library and the runtime may use any
//! harmless call, now or in a later version, and a wrong guess would end the process. What matters
//! is that nothing can be opened, executed or mounted, and no other process touched.
//!
//! Denied calls answer EPERM. Calls of another architecture's table end the process.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

/// System calls that are denied for the same reason.
struct Denied {
    #[cfg_attr(not(test), expect(dead_code, reason = "the reason is for readers"))]
    reason: &'static str,
    calls: &'static [libc::c_long],
}

const DENIED: &[Denied] = &[
    Denied {
        reason: "executing a program: the gateway is one process and stays one",
        calls: &[libc::SYS_execve, libc::SYS_execveat],
    },
    Denied {
        reason: "opening anything by name: all that is needed is open",
        calls: &[
            libc::SYS_openat,
            libc::SYS_openat2,
            libc::SYS_open_by_handle_at,
            libc::SYS_name_to_handle_at,
        ],
    },
    Denied {
        reason: "changing names, contents and rights by name, which Landlock covers only in part",
        calls: &[
            libc::SYS_mkdirat,
            libc::SYS_mknodat,
            libc::SYS_unlinkat,
            libc::SYS_renameat2,
            libc::SYS_linkat,
            libc::SYS_symlinkat,
            libc::SYS_truncate,
            libc::SYS_fchmodat,
            libc::SYS_fchmodat2,
            libc::SYS_fchownat,
            libc::SYS_utimensat,
            libc::SYS_setxattr,
            libc::SYS_lsetxattr,
            libc::SYS_removexattr,
            libc::SYS_lremovexattr,
            libc::SYS_chdir,
            libc::SYS_fchdir,
        ],
    },
    Denied {
        reason: "a ring of system calls is filtered by nobody: it could open files",
        calls: &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register],
    },
    Denied {
        reason: "a new listener: the one there is was bound before",
        calls: &[libc::SYS_bind, libc::SYS_listen],
    },
    Denied {
        reason: "reading, changing or signalling other processes",
        calls: &[
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_process_madvise,
            libc::SYS_pidfd_open,
            libc::SYS_pidfd_getfd,
            libc::SYS_pidfd_send_signal,
            libc::SYS_kill,
            libc::SYS_kcmp,
            libc::SYS_perf_event_open,
        ],
    },
    Denied {
        reason: "mounts and roots",
        calls: &[
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_chroot,
            libc::SYS_fsopen,
            libc::SYS_fsconfig,
            libc::SYS_fsmount,
            libc::SYS_fspick,
            libc::SYS_open_tree,
            libc::SYS_move_mount,
            libc::SYS_mount_setattr,
        ],
    },
    Denied {
        reason: "namespaces: a new one would bring rights back",
        calls: &[libc::SYS_setns, libc::SYS_unshare],
    },
    Denied {
        reason: "code and keys in the kernel",
        calls: &[
            libc::SYS_bpf,
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_delete_module,
            libc::SYS_kexec_load,
            libc::SYS_userfaultfd,
            libc::SYS_add_key,
            libc::SYS_request_key,
            libc::SYS_keyctl,
        ],
    },
    Denied {
        reason: "changing who this process is, also when it was started as root",
        calls: &[
            libc::SYS_setuid,
            libc::SYS_setgid,
            libc::SYS_setreuid,
            libc::SYS_setregid,
            libc::SYS_setresuid,
            libc::SYS_setresgid,
            libc::SYS_setgroups,
            libc::SYS_setfsuid,
            libc::SYS_setfsgid,
            libc::SYS_capset,
            libc::SYS_personality,
        ],
    },
    Denied {
        reason: "the machine as a whole",
        calls: &[
            libc::SYS_reboot,
            libc::SYS_swapon,
            libc::SYS_swapoff,
            libc::SYS_acct,
            libc::SYS_quotactl,
            libc::SYS_settimeofday,
            libc::SYS_clock_settime,
            libc::SYS_clock_adjtime,
            libc::SYS_adjtimex,
            libc::SYS_sethostname,
            libc::SYS_setdomainname,
            libc::SYS_syslog,
        ],
    },
    #[cfg(target_arch = "x86_64")]
    Denied {
        reason: "older forms of the above, which this architecture has kept",
        calls: &[
            libc::SYS_open,
            libc::SYS_creat,
            libc::SYS_mkdir,
            libc::SYS_rmdir,
            libc::SYS_mknod,
            libc::SYS_unlink,
            libc::SYS_rename,
            libc::SYS_renameat,
            libc::SYS_link,
            libc::SYS_symlink,
            libc::SYS_chmod,
            libc::SYS_chown,
            libc::SYS_lchown,
            libc::SYS_utime,
            libc::SYS_utimes,
            libc::SYS_futimesat,
            libc::SYS_kexec_file_load,
            libc::SYS_ioperm,
            libc::SYS_iopl,
            libc::SYS_modify_ldt,
            libc::SYS_uselib,
        ],
    },
];

/// The x32 table shares the architecture's number with x86-64: its calls carry this bit.
#[cfg(target_arch = "x86_64")]
const X32_BIT: libc::c_long = 0x4000_0000;
/// Denied calls that have numbers of their own in the x32 table: execve, ptrace, kexec_load,
/// process_vm_readv, process_vm_writev, execveat.
#[cfg(target_arch = "x86_64")]
const X32_ONLY: [libc::c_long; 6] = [520, 521, 528, 539, 540, 545];

/// The filter as the kernel takes it.
pub(super) fn program() -> Result<BpfProgram, seccompiler::Error> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(
        denied_calls().map(|call| (call, Vec::new())).collect::<BTreeMap<_, _>>(),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        architecture,
    )?;
    Ok(BpfProgram::try_from(filter)?)
}

fn denied_calls() -> impl Iterator<Item = libc::c_long> {
    let calls = || DENIED.iter().flat_map(|denied| denied.calls).copied();
    #[cfg(target_arch = "x86_64")]
    let all = calls().chain(calls().chain(X32_ONLY).map(|call| X32_BIT | call));
    #[cfg(not(target_arch = "x86_64"))]
    let all = calls();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_listed_twice_and_every_group_has_a_reason() {
        let mut calls: Vec<_> = DENIED.iter().flat_map(|denied| denied.calls).collect();
        let listed = calls.len();
        calls.sort();
        calls.dedup();
        assert_eq!(calls.len(), listed);
        assert!(DENIED.iter().all(|denied| !denied.reason.is_empty()));
    }
}
