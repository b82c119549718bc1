//! The system calls that no safe library offers. The only home of `unsafe` in this crate.
//!
//! One call per block; each says what the callee demands and why it holds here.
#![allow(unsafe_code)]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
};

use tokio::io::unix::AsyncFd;

/// Marks every descriptor from `first` on close-on-exec, so that no child inherits what whoever
/// started us left open. See close_range(2).
///
/// # Errors
/// What close_range(2) says; kernels before 5.11 do not have it.
pub fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: close_range takes no pointers; CLOSE_RANGE_CLOEXEC closes nothing, so no owned
    // descriptor of this process becomes invalid.
    let result = unsafe { libc::close_range(first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC as i32) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Asks the kernel to send `signal` to this process when the **thread** that started it ends.
/// See PR_SET_PDEATHSIG(2const).
///
/// # Errors
/// What prctl(2) says.
pub fn die_with_parent(signal: rustix::process::Signal) -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(signal))?)
}

/// Changes the attributes of the detached mount behind `mount`: `attributes` are set, and with
/// `user_namespace` its owners are mapped by that namespace. See mount_setattr(2).
///
/// # Errors
/// What mount_setattr(2) says, for example `EINVAL` on file systems that cannot map owners.
pub fn set_mount_attributes(
    mount: BorrowedFd<'_>,
    attributes: u64,
    user_namespace: BorrowedFd<'_>,
) -> io::Result<()> {
    let request = libc::mount_attr {
        attr_set: attributes | libc::MOUNT_ATTR_IDMAP,
        attr_clr: 0,
        propagation: 0,
        userns_fd: user_namespace.as_raw_fd() as u64,
    };
    // SAFETY: the path is a NUL-terminated empty string, and `request` lives through the call and
    // has exactly the size that is passed; the kernel only reads both.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const request,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Watches a descriptor in the runtime's event loop.
///
/// # Errors
/// What epoll_ctl(2) says, and when there is no runtime.
pub(crate) fn watched(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` stays open, and the same, until the `AsyncFd` that owns it is dropped,
    // which deregisters it first; nobody can exchange it behind the `AsyncFd`.
    Ok(unsafe { AsyncFd::register(descriptor) }?)
}
