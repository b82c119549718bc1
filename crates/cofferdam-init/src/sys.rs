//! The system calls that no safe library offers. The only home of `unsafe` in this program.
#![allow(unsafe_code)]

use std::{
    ffi::{CString, OsStr},
    io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
};

use rustix::{process::Pid, thread::UnshareFlags};

/// Which side of a fork this is.
pub(crate) enum Fork {
    /// The new process.
    Child,
    /// The old one, with the id of the new one.
    Parent(Pid),
}

/// Takes over a descriptor that the launcher passed at a fixed number.
pub(crate) fn inherited(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the launcher's contract puts these descriptors here, and each number is taken over
    // once. A launcher that breaks it makes every later use fail with EBADF, nothing worse.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// See fork(2).
pub(crate) fn fork() -> io::Result<Fork> {
    // SAFETY: this program has one thread, so the child may go on doing anything.
    let id = unsafe { libc::fork() };
    match id {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        id => Pid::from_raw(id)
            .map(Fork::Parent)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

/// Leaves the user namespace for a new one. See unshare(2).
pub(crate) fn unshare_user_namespace() -> io::Result<()> {
    // SAFETY: CLONE_NEWUSER shares no memory or descriptor table anew; one thread.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWUSER) }?)
}

/// The same, and takes a copy of every mount along.
///
/// A copy that crosses into another user namespace is locked (mount_namespaces(7)): its mounts come
/// off neither one by one nor when the namespace ends, so that a descriptor of a folder, passed to
/// another run, still leads to what was mounted in it.
pub(crate) fn unshare_user_and_mount_namespaces() -> io::Result<()> {
    let flags = UnshareFlags::NEWUSER | UnshareFlags::NEWNS;
    // SAFETY: neither flag shares memory or a descriptor table anew; one thread.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Becomes another user and group with no further groups. See setresuid(2).
pub(crate) fn become_user(user: u32, group: u32) -> io::Result<()> {
    let check = |result| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: a count of 0 makes the kernel ignore the pointer.
    check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: takes no pointers; one thread, so no other one is left behind with the old ids.
    check(unsafe { libc::setresgid(group, group, group) })?;
    // SAFETY: as above.
    check(unsafe { libc::setresuid(user, user, user) })
}

/// Installs one filter program. See seccomp(2).
pub(crate) fn install_filter(program: &[u8]) -> io::Result<()> {
    let size = size_of::<libc::sock_filter>();
    let instructions: Vec<libc::sock_filter> = program
        .chunks_exact(size)
        .map(|raw| libc::sock_filter {
            code: u16::from_ne_bytes([raw[0], raw[1]]),
            jt: raw[2],
            jf: raw[3],
            k: u32::from_ne_bytes([raw[4], raw[5], raw[6], raw[7]]),
        })
        .collect();
    if instructions.is_empty() || instructions.len() * size != program.len() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let program = libc::sock_fprog {
        len: u16::try_from(instructions.len())
            .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?,
        filter: instructions.as_ptr().cast_mut(),
    };
    // SAFETY: `program` points to `len` instructions that live through the call; the kernel copies
    // and checks them.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Marks every descriptor from `first` on close-on-exec. See close_range(2).
pub(crate) fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: takes no pointers, and closes nothing yet.
    let result = unsafe { libc::close_range(first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC as i32) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes `descriptor` the standard stream `stream`. See dup3(2); the copy survives an exec.
pub(crate) fn become_stream(descriptor: RawFd, stream: RawFd) -> io::Result<()> {
    // SAFETY: takes no pointers; nothing in this program owns the numbers 0 to 2.
    let result = unsafe { libc::dup2(descriptor, stream) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets every signal back to its default action and unblocks all of them.
///
/// The Rust runtime ignores SIGPIPE, process 1 blocks SIGCHLD, and ignored signals stay ignored
/// through an exec.
pub(crate) fn reset_signals() {
    for signal in 1..=64 {
        // SAFETY: SIG_DFL is a valid action; the call fails harmlessly for SIGKILL and SIGSTOP.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let none = empty_signal_set();
    // SAFETY: `none` is an initialized set; the old one is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()) };
}

/// Blocks SIGCHLD and gives a descriptor that becomes readable when one arrives. See signalfd(2).
pub(crate) fn child_signals() -> io::Result<OwnedFd> {
    let mut set = empty_signal_set();
    // SAFETY: `set` is an initialized set.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGCHLD) };
    // SAFETY: `set` is initialized; the old one is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    // SAFETY: -1 asks for a new descriptor; `set` is initialized.
    let descriptor = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) };
    if descriptor == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just given us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn empty_signal_set() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initializes the set it is given.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: initialized just now.
    unsafe { set.assume_init() }
}

/// Reaps one child that has ended, without waiting: its id, wait status, processor time in
/// microseconds and peak resident set in KiB. `None` when none has ended. See wait4(2).
pub(crate) fn reap() -> io::Result<Option<(i32, i32, u64, u64)>> {
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are valid for writes of their types.
    let id = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) };
    match id {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        id => {
            // SAFETY: zeroed is a valid rusage, and the kernel has filled it in.
            let usage = unsafe { usage.assume_init() };
            let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
            let cpu = micros(usage.ru_utime) + micros(usage.ru_stime);
            Ok(Some((id, status, cpu, usage.ru_maxrss as u64)))
        }
    }
}

/// Sends a signal to every process of this process id namespace but this one. See kill(2).
pub(crate) fn kill_everything(signal: i32) {
    // SAFETY: takes no pointers. As process 1 of a namespace, -1 reaches nothing outside it.
    unsafe { libc::kill(-1, signal) };
}

/// Becomes another program. Returns only on failure. See execve(2).
pub(crate) fn execute(path: &OsStr, arguments: &[CString], environment: &[CString]) -> io::Error {
    let Ok(path) = CString::new(path.as_bytes()) else {
        return io::Error::from_raw_os_error(libc::ENOENT);
    };
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (arguments, environment) = (pointers(arguments), pointers(environment));
    // SAFETY: all three are NUL-terminated, the arrays end with a null pointer, and everything
    // lives through the call.
    unsafe { libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

/// Makes a detached mount read-only. See mount_setattr(2).
pub(crate) fn make_mount_read_only(mount: &OwnedFd) -> io::Result<()> {
    let request = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the path is a NUL-terminated empty string; `request` lives through the call and has
    // exactly the size that is passed; the kernel only reads both.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const request,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
