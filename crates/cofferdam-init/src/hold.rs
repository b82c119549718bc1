//! Holding a new user namespace, so that the launcher can write its maps and take it over.
//!
//! The launcher cannot make one itself: unshare(2) refuses a process with several threads.

use std::io::{Read, Write};

use crate::sys;

/// Makes a user namespace, says so with one byte on standard output, and keeps it until standard
/// input ends. Gives the exit status.
pub(crate) fn user_namespace() -> i32 {
    if let Err(error) = sys::unshare_user_namespace() {
        return error.raw_os_error().unwrap_or(1);
    }
    let mut out = std::io::stdout();
    if out.write_all(b".").and_then(|()| out.flush()).is_err() {
        return 1;
    }
    let _ = std::io::stdin().read(&mut [0]);
    0
}
