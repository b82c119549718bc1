//! The embedded `cofferdam-init`, made ready to be executed.
//!
//! It is kept in a sealed anonymous file: nothing on disk that could be swapped, nothing inside a
//! sandbox that could be written through `/proc/self/exe` (CVE-2019-5736).

use std::{fs::File, io::Write, os::fd::OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};

/// The program, as the build script made it.
static PROGRAM: &[u8] = include_bytes!(env!("COFFERDAM_INIT_PROGRAM"));

/// An executable, unchangeable descriptor of the program.
///
/// # Errors
/// When anonymous files are not to be had or, by the sysctl `vm.memfd_noexec`, not to be executed.
pub(crate) fn descriptor() -> std::io::Result<OwnedFd> {
    sealed("cofferdam-init", PROGRAM, MemfdFlags::EXEC)
}

/// An anonymous file with this content, sealed, its offset at the start.
pub(crate) fn data(name: &str, content: &[u8]) -> std::io::Result<OwnedFd> {
    sealed(name, content, MemfdFlags::NOEXEC_SEAL)
}

fn sealed(name: &str, content: &[u8], execution: MemfdFlags) -> std::io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = match rustix::fs::memfd_create(name, flags | execution) {
        // Kernels before 6.3 do not know the flags about execution.
        Err(rustix::io::Errno::INVAL) => rustix::fs::memfd_create(name, flags)?,
        created => created?,
    };
    let mut file = File::from(file);
    file.write_all(content)?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    // The kernel refuses to execute a file that is open for writing: open it anew, read-only.
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    Ok(File::open(path)?.into())
}
