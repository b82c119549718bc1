//! Process 1: waits, ends everything, reports.
//!
//! It handles no signal and holds rights that the command has not, in another user namespace: from
//! inside it can be neither killed, stopped, traced nor imitated.

use std::{convert::Infallible, os::fd::OwnedFd, process::exit};

use cofferdam_init::{COMMAND_KILL, COMMAND_TERMINATE, Ended, Record};
use rustix::{
    event::{PollFd, PollFlags},
    net::RecvFlags,
    process::Pid,
};

use crate::{During, Stop, socket, sys};

/// What process 1 needs to stay.
pub(crate) struct Reaper {
    signals: OwnedFd,
}

/// Sums of everything that was reaped.
#[derive(Default)]
struct Usage {
    cpu_micros: u64,
    peak_kib: u64,
}

impl Reaper {
    /// Must come before the fork, so that no SIGCHLD is lost.
    pub(crate) fn prepare() -> Result<Self, Stop> {
        Ok(Self { signals: sys::child_signals().during("watch for ended children")? })
    }

    /// Stays until the command ends or the launcher goes away, then ends the sandbox.
    pub(crate) fn stay(self, control: &OwnedFd, main: Pid) -> ! {
        match self.wait(control, main) {
            Ok(never) => match never {},
            // Leaving ends everything inside, whatever went wrong.
            Err(_) => exit(1),
        }
    }

    fn wait(&self, control: &OwnedFd, main: Pid) -> Result<Infallible, Stop> {
        // The streams belong to the command alone: holding them would keep them open.
        for stream in cofferdam_init::STDIO_FDS {
            drop(sys::inherited(stream));
        }
        let mut usage = Usage::default();
        loop {
            let mut watched =
                [PollFd::new(&self.signals, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
            match rustix::event::poll(&mut watched, None) {
                Err(rustix::io::Errno::INTR) => continue,
                polled => polled.during("wait")?,
            };
            let [child_ended, spoken_to] = watched.map(|fd| !fd.revents().is_empty());
            if spoken_to {
                obey(control)?;
            }
            if child_ended {
                let _ = rustix::io::read(&self.signals, &mut [0; 1024]);
                if let Some(status) = usage.reap_until(Some(main)) {
                    sys::kill_everything(libc::SIGKILL);
                    usage.reap_all();
                    let Usage { cpu_micros, peak_kib } = usage;
                    let ended = Ended { wait_status: status, cpu_micros, peak_kib };
                    socket::send(control, &Record::Ended(ended));
                    exit(0);
                }
            }
        }
    }
}

/// Does what the launcher says. Its end is ours: process 1 ends, and the kernel kills the rest.
fn obey(control: &OwnedFd) -> Result<(), Stop> {
    let mut command = [0];
    let (received, _) =
        rustix::net::recv(control, &mut command, RecvFlags::empty()).during("listen")?;
    match (received, command[0]) {
        (0, _) => exit(0),
        (_, COMMAND_TERMINATE) => {
            sys::kill_everything(libc::SIGTERM);
            // A stopped process sees the first signal only when it is continued.
            sys::kill_everything(libc::SIGCONT);
        }
        (_, COMMAND_KILL) => sys::kill_everything(libc::SIGKILL),
        _ => return Err(Stop::check("know the launcher's command")),
    }
    Ok(())
}

impl Usage {
    /// Reaps whatever has ended; the status of `main` when it was among them.
    fn reap_until(&mut self, main: Option<Pid>) -> Option<i32> {
        while let Ok(Some((id, status, cpu_micros, peak_kib))) = sys::reap() {
            self.cpu_micros += cpu_micros;
            self.peak_kib = self.peak_kib.max(peak_kib);
            if main.is_some_and(|main| main.as_raw_pid() == id) {
                return Some(status);
            }
        }
        None
    }

    /// Reaps everything that was killed. Ends when there is no child left (ECHILD).
    fn reap_all(&mut self) {
        loop {
            match sys::reap() {
                Err(_) => return,
                Ok(Some((_, _, cpu_micros, peak_kib))) => {
                    self.cpu_micros += cpu_micros;
                    self.peak_kib = self.peak_kib.max(peak_kib);
                }
                // Killed, not yet dead. A process that forked while it was being killed may have
                // left a child that the first signal did not see.
                Ok(None) => {
                    sys::kill_everything(libc::SIGKILL);
                    std::thread::yield_now();
                }
            }
        }
    }
}
