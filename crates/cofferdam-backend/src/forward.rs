//! Copying live streams between the outside and a run.
//!
//! Threads with blocking calls: the descriptors outside may be anything (terminals, files, pipes
//! shared with other programs), and setting those non-blocking would change them for everybody.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags};

/// A copy under way.
#[derive(Debug)]
pub(crate) struct Forward {
    thread: JoinHandle<u64>,
    /// Dropping it ends the copy at the next pause in the input.
    stop: OwnedFd,
}

impl Forward {
    /// Copies `from` to `to` until the end of either.
    pub(crate) fn start(name: &str, from: OwnedFd, to: OwnedFd) -> io::Result<Self> {
        let (stopped, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || copy(&from, &to, &stopped))?;
        Ok(Self { thread, stop })
    }

    /// Waits for the end of the input, and after `patience` only until it pauses; gives the number
    /// of bytes.
    pub(crate) async fn finish_within(self, patience: Duration) -> u64 {
        let Self { thread, stop } = self;
        let mut joined = tokio::task::spawn_blocking(move || thread.join().unwrap_or_default());
        if let Ok(copied) = tokio::time::timeout(patience, &mut joined).await {
            return copied.unwrap_or_default();
        }
        drop(stop);
        joined.await.unwrap_or_default()
    }

    /// Ends the copy as soon as the input pauses.
    pub(crate) async fn stop(self) -> u64 {
        let Self { thread, stop } = self;
        drop(stop);
        tokio::task::spawn_blocking(move || thread.join().unwrap_or_default())
            .await
            .unwrap_or_default()
    }
}

fn copy(from: &OwnedFd, to: &OwnedFd, stopped: &OwnedFd) -> u64 {
    let mut buffer = vec![0; 64 * 1024];
    let mut copied = 0;
    loop {
        let mut watched =
            [PollFd::new(from, PollFlags::IN), PollFd::new(stopped, PollFlags::empty())];
        match rustix::event::poll(&mut watched, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return copied,
            Ok(_) => {}
        }
        // What is there is copied even when told to stop: the end of the output counts most.
        if watched[0].revents().is_empty() {
            return copied;
        }
        match rustix::io::read(from, &mut buffer) {
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            // A terminal without an inner side answers EIO.
            Ok(0) | Err(_) => return copied,
            Ok(length) => match write_all(to, &buffer[..length]) {
                Ok(()) => copied += length as u64,
                // The reader is gone: dropping our end tells the run, as in any pipeline.
                Err(_) => return copied,
            },
        }
    }
}

fn write_all(to: impl AsFd, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(&to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                let mut watched = [PollFd::new(&to, PollFlags::OUT)];
                rustix::event::poll(&mut watched, None)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
