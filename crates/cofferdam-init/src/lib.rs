//! What `cofferdam-init` is told and what it answers.
//!
//! `cofferdam-init` is the first program inside every sandbox: it finishes the mounts, gives up
//! every right, and starts the command. It gets one [`Order`] in an anonymous file and writes
//! [`Record`]s to one socket. Both sides use this crate, so they cannot disagree.
//!
//! Not here: how a sandbox is built around it (the backend), and what may run (the policy).

pub mod order;
pub mod report;

pub use order::{Carve, CarveKind, DecodeError, File, Identity, Mount, Order};
pub use report::{Ended, Failed, Layer, Record};

/// Descriptor of the socket to the launcher, a `SOCK_SEQPACKET`: one record per message.
pub const CONTROL_FD: i32 = 3;
/// Descriptor of the order.
pub const ORDER_FD: i32 = 4;
/// Descriptors that become the command's standard input, output and error.
pub const STDIO_FDS: [i32; 3] = [5, 6, 7];
/// The first descriptor that may hold a detached mount of the order.
pub const FIRST_MOUNT_FD: i32 = 16;

/// To the init process: send SIGTERM to everything inside.
pub const COMMAND_TERMINATE: u8 = b'T';
/// To the init process: send SIGKILL to everything inside.
pub const COMMAND_KILL: u8 = b'K';

/// First argument that makes the program hold a new user namespace until its standard input ends,
/// instead of running an order.
pub const HOLD_USER_NAMESPACE: &str = "hold-user-namespace";
