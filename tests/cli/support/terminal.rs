//! A person at a terminal: a pseudo-terminal with the program on it, read and typed into.

use std::{
    io::{Read, Write},
    os::fd::AsFd,
    process::ExitStatus,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::Instant,
};

use pty_process::blocking::{Command, Pty, open};
use rustix::termios::{Termios, tcgetattr};

use super::{PATIENCE, World, own};

/// A program on a terminal.
pub(crate) struct Session {
    terminal: std::sync::Arc<Pty>,
    child: std::process::Child,
    output: Receiver<Vec<u8>>,
    /// Everything that appeared so far.
    seen: Vec<u8>,
    /// How much of it was expected already.
    matched: usize,
}

impl Session {
    /// Starts `cofferdam ARGUMENTS…` on a terminal of 24 lines and 80 columns.
    pub(crate) fn start(world: &World, arguments: &[&str]) -> Self {
        Self::start_program(world, &own(), arguments)
    }

    /// Starts any program on a terminal.
    pub(crate) fn start_program(world: &World, program: &str, arguments: &[&str]) -> Self {
        let (terminal, other_end) = open().expect("a pseudo-terminal can be opened");
        terminal.resize(pty_process::Size::new(24, 80)).expect("it has a size");
        let mut command = Command::new(program)
            .args(arguments)
            .current_dir(world.workspace())
            .env_clear()
            .env("TERM", "xterm");
        for (name, value) in world.environment() {
            command = command.env(name, value);
        }
        let child = command.spawn(other_end).expect("the program can be started");
        let terminal = std::sync::Arc::new(terminal);
        let (sender, output) = channel();
        let reader = terminal.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Ends with the terminal: EIO when the last process on it is gone.
            while let Ok(length @ 1..) = (&*reader).read(&mut buffer) {
                if sender.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { terminal, child, output, seen: Vec::new(), matched: 0 }
    }

    /// Types.
    pub(crate) fn send(&self, text: &str) {
        (&*self.terminal).write_all(text.as_bytes()).expect("the terminal can be typed into");
    }

    /// Changes the size of the window.
    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        self.terminal.resize(pty_process::Size::new(rows, columns)).expect("it can be resized");
    }

    /// How the terminal is set.
    pub(crate) fn settings(&self) -> Termios {
        tcgetattr(self.terminal.as_fd()).expect("the terminal can be asked")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until this text appears after what was expected before.
    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str) {
        let begun = Instant::now();
        loop {
            let new = &self.seen[self.matched..];
            if let Some(at) = find(new, text.as_bytes()) {
                self.matched += at + text.len();
                return;
            }
            let left = PATIENCE.saturating_sub(begun.elapsed());
            match self.output.recv_timeout(left) {
                Ok(more) => self.seen.extend(more),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("`{text}` did not appear after {:?}", self.shown())
                }
            }
        }
    }

    /// Everything that appeared so far.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// Waits for the program's end and returns everything that appeared.
    #[track_caller]
    pub(crate) fn finish(mut self) -> (ExitStatus, String) {
        super::processes::Watched::new(self.child.id()).expect_end();
        let status = self.child.wait().expect("it has ended");
        while let Ok(more) = self.output.recv_timeout(std::time::Duration::from_millis(200)) {
            self.seen.extend(more);
        }
        (status, self.shown())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}
