//! Claims about the filter: read from the list, computed from the programs, and tried on the kernel.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
#![allow(clippy::disallowed_methods, reason = "tests start programs to try the filter on")]

mod attacks;
mod evaluate;
mod list_is_strict;
mod ordinary_programs;
mod under_filter;
mod verdicts;

use super::{FilterOptions, programs};

fn shipped_programs() -> Vec<Vec<u8>> {
    programs(FilterOptions::default()).unwrap()
}

fn number(name: &str) -> libc::c_long {
    super::numbers::find(name)
        .unwrap_or_else(|| panic!("`{name}` is no system call"))
        .1
        .unwrap_or_else(|| panic!("`{name}` does not exist on this architecture"))
}
