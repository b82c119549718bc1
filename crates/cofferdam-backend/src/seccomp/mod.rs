//! The system call filter of code that runs in a sandbox.
//!
//! What is allowed and refused, and why, is data: `syscalls.list`. This module reads it and makes
//! programs that `cofferdam-init` hands to seccomp(2) as they are. A filter is the layer under the
//! namespaces: it takes away the kernel's rarely used doors, it does not know files or hosts.
//!
//! Not here: installing (`cofferdam-init`), capabilities, Landlock, resource limits.

mod compile;
mod list;
mod numbers;
#[cfg(test)]
mod tests;

pub use list::{ListError, ListProblem};

/// The size of one instruction of a program, `struct sock_filter`, in bytes.
pub const INSTRUCTION_BYTES: usize = 8;

/// What a filter is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterOptions {
    /// Which sockets there are.
    pub network: NetworkFilter,
}

/// Which sockets a filter leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkFilter {
    /// Unix sockets, and TCP, UDP and ICMP over IPv4 and IPv6: what a program needs on the loopback
    /// device of a network namespace of its own. No other address family and no other protocol.
    ///
    /// Netlink is among the refused, so that `getifaddrs` fails with `EINVAL`; name look-ups work
    /// without.
    #[default]
    None,
}

/// The filter could not be made. Not a property of the machine: every run of this build fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeccompError {
    /// The list of system calls is not understood.
    #[error("reading the list of system calls")]
    List(#[source] ListError),
    /// The programs could not be generated, for example because one is too long for the kernel.
    #[error("generating the syscall filter")]
    Generate(#[source] seccompiler::BackendError),
}

/// The programs to install, in this order, every one of them.
///
/// Each is an array of `struct sock_filter` as seccomp(2) takes it: [`INSTRUCTION_BYTES`] per
/// instruction in native byte order, fewer than 4096 instructions. The order decides only which
/// error a refused call fails with. The one who installs needs `no_new_privs`, and whatever is
/// installed later can only refuse more.
///
/// Calls of another architecture end the process with `SIGSYS`. The result is the same for equal
/// options, and is not kept here: ask once.
///
/// # Errors
/// [`SeccompError`] when this build's list cannot be used.
pub fn programs(options: FilterOptions) -> Result<Vec<Vec<u8>>, SeccompError> {
    let FilterOptions { network: NetworkFilter::None } = options;
    let entries = list::shipped().map_err(|error| SeccompError::List(error.clone()))?;
    let programs = compile::compile(entries).map_err(SeccompError::Generate)?;
    Ok(programs.iter().map(|program| raw(program)).collect())
}

fn raw(program: &[seccompiler::sock_filter]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(program.len() * INSTRUCTION_BYTES);
    for instruction in program {
        bytes.extend_from_slice(&instruction.code.to_ne_bytes());
        bytes.extend_from_slice(&[instruction.jt, instruction.jf]);
        bytes.extend_from_slice(&instruction.k.to_ne_bytes());
    }
    bytes
}
