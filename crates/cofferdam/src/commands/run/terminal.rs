//! The person's terminal while a command has one of its own: raw, followed, and always restored.
//!
//! The command's terminal is a pseudo-terminal inside the sandbox; this is about the one outside.

use std::{
    io::{self, IsTerminal},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use cofferdam_backend::{Terminal, WindowSize};
use rustix::{
    fs::FileType,
    process::{Signal, getpgrp},
    termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::JoinHandle,
};

/// What kind of thing a command reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streams {
    /// Whatever standard input, output and error are.
    Plain,
    /// As `Plain`, but standard input is a terminal that is not ours to read.
    WithoutInput,
    /// A terminal.
    Terminal,
}

impl Streams {
    /// Looks at what this process was given.
    pub(crate) fn of_this_process() -> Self {
        if !io::stdin().is_terminal() {
            return Self::Plain;
        }
        // Reading or changing a terminal from the background stops the process.
        if tcgetpgrp(io::stdin()).ok() != Some(getpgrp()) {
            return Self::WithoutInput;
        }
        // Behind a pipe there may be a pager, which sets the same terminal as it needs it.
        if leads_elsewhere(io::stdout().as_fd()) { Self::Plain } else { Self::Terminal }
    }
}

fn leads_elsewhere(stream: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(stream).is_ok_and(|about| {
        matches!(FileType::from_raw_mode(about.st_mode), FileType::Fifo | FileType::Socket)
    })
}

/// The outer terminal in raw mode. Restored when dropped, whatever ends the run.
#[derive(Debug)]
pub(crate) struct RawTerminal {
    terminal: OwnedFd,
    before: Termios,
    follower: JoinHandle<()>,
}

impl RawTerminal {
    /// Takes the terminal at standard input over, and gives the run's connections to it. Needs a
    /// Tokio runtime.
    ///
    /// # Errors
    /// When the terminal cannot be asked, set or followed; it is as it was then.
    pub(crate) fn take_over() -> io::Result<(Self, Terminal)> {
        let terminal = io::stdin().as_fd().try_clone_to_owned()?;
        let before = tcgetattr(&terminal)?;
        let mut raw = before.clone();
        raw.make_raw();
        let (sender, size) = watch::channel(size(&terminal)?);
        let connection = Terminal {
            input: terminal.try_clone()?,
            output: output()?,
            stdout: io::stdout().is_terminal(),
            stderr: io::stderr().is_terminal(),
            size,
        };
        let follower = follow(terminal.try_clone()?, raw.clone(), sender)?;
        let guard = Self { terminal, before, follower };
        // From here on a failure restores.
        tcsetattr(&guard.terminal, OptionalActions::Now, &raw)?;
        Ok((guard, connection))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // First, so that it cannot make the terminal raw again.
        self.follower.abort();
        // Fails only when the terminal is gone.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Where the terminal's output goes: the terminal, by a descriptor that can be written.
fn output() -> io::Result<OwnedFd> {
    if io::stdout().is_terminal() {
        io::stdout().as_fd().try_clone_to_owned()
    } else if io::stderr().is_terminal() {
        io::stderr().as_fd().try_clone_to_owned()
    } else {
        Ok(std::fs::File::options().write(true).open("/dev/tty")?.into())
    }
}

fn size(terminal: &OwnedFd) -> io::Result<WindowSize> {
    let size = tcgetwinsize(terminal)?;
    Ok(WindowSize { rows: size.ws_row, columns: size.ws_col })
}

/// Passes changes of the window's size on, and makes the terminal raw again after a stop: whoever
/// was in the foreground meanwhile has set it for itself.
fn follow(
    terminal: OwnedFd,
    raw: Termios,
    sizes: watch::Sender<WindowSize>,
) -> io::Result<JoinHandle<()>> {
    let mut resized = signal(SignalKind::window_change())?;
    let mut continued = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
    Ok(tokio::spawn(async move {
        loop {
            tokio::select! {
                Some(()) = resized.recv() => {}
                Some(()) = continued.recv() => {
                    let _ = tcsetattr(&terminal, OptionalActions::Now, &raw);
                }
                else => return,
            }
            if let Ok(size) = size(&terminal) {
                sizes.send_replace(size);
            }
        }
    }))
}
