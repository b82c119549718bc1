//! Puts a program, or one attempted system call, into a process of its own under filters.
//!
//! Not the way in which sandboxes get their filter: that is `cofferdam-init`.
#![allow(unsafe_code, reason = "only a process of its own can be put under a filter")]

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;

use super::super::INSTRUCTION_BYTES;

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempted {
    Succeeded,
    Failed(i32),
    KilledBy(i32),
}

/// What is attempted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Attempt {
    Call(libc::c_long, [libc::c_long; 6]),
    /// `getpid` through the gate of 32-bit programs.
    #[cfg(target_arch = "x86_64")]
    Gate32,
}

/// The process id of an ordinary user that may own nothing.
pub(super) const NOBODY: u32 = 65534;

/// Whether this test may change to another user.
pub(super) fn is_root() -> bool {
    // SAFETY: geteuid(2) takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Makes the command start under the filters.
pub(super) fn put_under(command: &mut Command, programs: Vec<Vec<u8>>) {
    // SAFETY: between fork and exec the closure only makes system calls.
    unsafe { command.pre_exec(move || install(&programs)) };
}

/// Makes the attempt in a process of its own, under the filters, as a user.
pub(super) fn attempt(attempt: Attempt, programs: Vec<Vec<u8>>, user: Option<u32>) -> Attempted {
    let mut command = Command::new("/nonexistent");
    command.current_dir("/");
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let try_it = move || {
        install(&programs)?;
        make(attempt)
    };
    // SAFETY: between fork and exec the closure only makes system calls.
    unsafe { command.pre_exec(try_it) };
    match command.spawn() {
        Err(error) => Attempted::Failed(error.raw_os_error().unwrap()),
        Ok(mut child) => match child.wait().unwrap().signal() {
            None => Attempted::Succeeded,
            Some(signal) => Attempted::KilledBy(signal),
        },
    }
}

fn install(programs: &[Vec<u8>]) -> io::Result<()> {
    if programs.is_empty() {
        return Ok(());
    }
    // SAFETY: PR_SET_NO_NEW_PRIVS takes four numbers and no memory.
    checked(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())?;
    for program in programs {
        let length = u16::try_from(program.len() / INSTRUCTION_BYTES).map_err(io::Error::other)?;
        let descriptor =
            libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
        let operation = libc::SECCOMP_SET_MODE_FILTER;
        // SAFETY: seccomp(2) copies `len` instructions from `filter`, which holds as many.
        let result =
            unsafe { libc::syscall(libc::SYS_seccomp, operation, 0, &raw const descriptor) };
        checked(result)?;
    }
    Ok(())
}

/// Returns only with the error of an attempt that failed.
fn make(attempt: Attempt) -> io::Result<()> {
    let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: setrlimit(2) reads one struct that outlives the call.
    checked(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core) }.into())?;
    let result = match attempt {
        Attempt::Call(number, [a, b, c, d, e, f]) => {
            // SAFETY: the calls of the tests name no memory but addresses that cannot be mapped,
            // and what they change is gone with this process.
            unsafe { libc::syscall(number, a, b, c, d, e, f) }
        }
        #[cfg(target_arch = "x86_64")]
        Attempt::Gate32 => gate_32(),
    };
    checked(result)?;
    // Also the way of a child that the attempt made.
    // SAFETY: _exit(2) takes a number and does not return.
    unsafe { libc::_exit(0) }
}

#[cfg(target_arch = "x86_64")]
fn gate_32() -> libc::c_long {
    const GETPID_OF_32_BIT_PROGRAMS: libc::c_long = 20;
    let result;
    // SAFETY: the call takes no arguments, touches no memory, and changes no other registers.
    unsafe {
        std::arch::asm!(
            "int 0x80",
            inlateout("rax") GETPID_OF_32_BIT_PROGRAMS => result,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
        );
    }
    result
}

fn checked(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
