//! Replaces this process by the `cofferdam` that is installed beside it.
//!
//! Only the standard library, so that these two programs stay small.

use std::{
    env,
    io::{self, Write},
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
};

/// Runs `cofferdam SUBCOMMAND` with the arguments of this process; returns only when it cannot.
#[allow(clippy::disallowed_methods, reason = "it starts nothing: it becomes our own program")]
pub(crate) fn become_cofferdam(subcommand: &str) -> ExitCode {
    let program = match env::current_exe() {
        Ok(own) => own.with_file_name("cofferdam"),
        Err(error) => return failed("finding this program's own folder", &error),
    };
    #[expect(clippy::disallowed_methods, reason = "becomes our own program")]
    let error = Command::new(&program).arg(subcommand).args(env::args_os().skip(1)).exec();
    failed(&format!("starting `{}`", program.display()), &error)
}

fn failed(what: &str, error: &io::Error) -> ExitCode {
    // Nobody is left to be told when standard error cannot be written.
    let _ = write!(
        io::stderr(),
        "error: {what}\n  caused by: {error}\nhint: install `cofferdam` beside this program\n"
    );
    ExitCode::FAILURE
}
