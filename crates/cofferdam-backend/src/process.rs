//! A child process of ours, held by pidfd.

use std::{io, os::fd::OwnedFd, process::Child, time::Duration};

use rustix::process::{Pid, PidfdFlags};
use tokio::{io::unix::AsyncFd, time::timeout};

/// A process that we started and have not yet reaped.
///
/// Dropping it kills and reaps the process, so that no way out leaves one behind.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    ended: AsyncFd<OwnedFd>,
    reaped: bool,
}

impl Process {
    /// Takes over a child.
    pub(crate) fn new(mut child: Child) -> io::Result<Self> {
        let pidfd = Pid::from_raw(child.id() as i32)
            .ok_or(rustix::io::Errno::SRCH)
            .and_then(|id| rustix::process::pidfd_open(id, PidfdFlags::empty()));
        match pidfd.map_err(io::Error::from).and_then(crate::sys::watched) {
            Ok(ended) => Ok(Self { child, ended, reaped: false }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Sends SIGKILL. Harmless when it has ended.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
    }

    /// Waits until it has ended; after `patience` it is killed first.
    pub(crate) async fn end_within(&mut self, patience: Duration) {
        if timeout(patience, self.ended.readable()).await.is_err() {
            self.kill();
            let _ = self.ended.readable().await;
        }
        self.reap();
    }

    fn reap(&mut self) {
        if !self.reaped {
            self.reaped = true;
            let _ = self.child.wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill();
            self.reap();
        }
    }
}
