//! Keeping what a run writes, in constant memory.
//!
//! The beginning and the end of a stream are kept, and once something between them has to be
//! dropped, the whole stream goes to a file as well, up to a cap. Bytes are kept as they are:
//! decoding is for whoever shows them.

use std::{collections::VecDeque, io::Write};

use cofferdam_fs::{Spill, Workspace};
use tokio::{io::AsyncReadExt, net::unix::pipe};
use tokio_util::sync::CancellationToken;

use crate::Captured;

/// How much of a stream is kept.
#[derive(Clone, Debug)]
pub(crate) struct CaptureLimits {
    /// Bytes in the reply, head and tail together.
    pub(crate) kept: usize,
    /// Bytes in the spill file.
    pub(crate) spilled: u64,
    /// Where spill files are made.
    pub(crate) workspace: Option<Workspace>,
}

/// Longest last line that is shown while a run goes on.
const LAST_LINE_BYTES: usize = 4096;

/// What is kept of one stream so far.
#[derive(Debug)]
pub(crate) struct Capture {
    limits: CaptureLimits,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    spill: Option<Spill>,
    spilled: u64,
    spill_failed: bool,
}

impl Capture {
    pub(crate) fn new(limits: CaptureLimits) -> Self {
        Self {
            limits,
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
            spill: None,
            spilled: 0,
            spill_failed: false,
        }
    }

    fn half(&self) -> usize {
        self.limits.kept / 2
    }

    /// Takes the next bytes. Does not touch the disk: see [`Capture::spill`].
    fn keep(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.half().saturating_sub(self.head.len());
        let (to_head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(to_head);
        let rest = &rest[rest.len().saturating_sub(self.half())..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.half());
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    fn dropped(&self) -> u64 {
        self.total - self.head.len() as u64 - self.tail.len() as u64
    }

    /// Whether the bytes that come next belong into a file too.
    fn spills(&self, next: usize) -> bool {
        let over = self.total + next as u64 > 2 * self.half() as u64;
        over && self.limits.workspace.is_some()
            && !self.spill_failed
            && self.spilled < self.limits.spilled
    }

    /// Writes to the file what is not in it yet: at first everything kept so far, then `bytes`.
    fn spill(&mut self, bytes: &[u8]) {
        let result = match (&mut self.spill, &self.limits.workspace) {
            (Some(spill), _) => write_capped(spill, &mut self.spilled, self.limits.spilled, bytes),
            (None, Some(workspace)) => workspace.spill().and_then(|mut spill| {
                let (first, second) = self.tail.as_slices();
                for part in [&self.head, first, second, bytes] {
                    write_capped(&mut spill, &mut self.spilled, self.limits.spilled, part)?;
                }
                self.spill = Some(spill);
                Ok(())
            }),
            (None, None) => return,
        };
        if let Err(error) = result {
            // A full disk must not end the run: the reply still has head and tail.
            tracing::warn!(%error, "spilling output failed");
            self.spill_failed = true;
            self.spill = None;
        }
    }

    /// The last non-blank line so far.
    pub(crate) fn last_line(&self) -> Vec<u8> {
        let (first, second) = self.tail.as_slices();
        let mut recent = Vec::with_capacity(LAST_LINE_BYTES);
        let mut room = LAST_LINE_BYTES;
        for part in [second, first, &self.head] {
            let part = &part[part.len().saturating_sub(room)..];
            recent.splice(0..0, part.iter().copied());
            room -= part.len();
        }
        recent
            .split(|byte| *byte == b'\n' || *byte == b'\r')
            .rfind(|line| !line.trim_ascii().is_empty())
            .unwrap_or_default()
            .to_vec()
    }

    pub(crate) fn finish(self) -> Captured {
        let dropped_bytes = self.dropped();
        let last_line = self.last_line();
        let spill_capped = self.spill.is_some() && self.spilled < self.total;
        let mut head = self.head;
        let mut tail = Vec::from(self.tail);
        if dropped_bytes == 0 {
            head.append(&mut tail);
        }
        Captured {
            head,
            tail,
            total_bytes: self.total,
            dropped_bytes,
            spill: self.spill.filter(|_| dropped_bytes > 0),
            spill_capped,
            last_line,
        }
    }

    /// Reads a stream to its end, or until told that there is no point in going on.
    ///
    /// `kept` is told the bytes and the last line after every read. After `enough`, only what is in
    /// the pipe already is taken: another run may hold an end that it was passed.
    pub(crate) async fn read(
        mut self,
        mut stream: pipe::Receiver,
        enough: CancellationToken,
        mut kept: impl FnMut(usize, &Self),
    ) -> Self {
        // As large as a pipe: one read empties it.
        let mut buffer = vec![0; 64 * 1024];
        let mut is_last = false;
        loop {
            let read = tokio::select! {
                biased;
                () = enough.cancelled(), if !is_last => {
                    is_last = true;
                    stream.try_read(&mut buffer)
                }
                read = stream.read(&mut buffer), if !is_last => read,
                else => return self,
            };
            let length = match read {
                Ok(0) | Err(_) => return self,
                Ok(length) => length,
            };
            if self.spills(length) {
                // Disks block; the runtime's threads must not.
                let written = tokio::task::spawn_blocking(move || {
                    self.spill(&buffer[..length]);
                    (self, buffer)
                });
                match written.await {
                    Ok(back) => (self, buffer) = back,
                    Err(panic) => std::panic::resume_unwind(panic.into_panic()),
                }
            }
            self.keep(&buffer[..length]);
            kept(length, &self);
        }
    }
}

fn write_capped(
    spill: &mut Spill,
    written: &mut u64,
    cap: u64,
    bytes: &[u8],
) -> std::io::Result<()> {
    let room = usize::try_from(cap - *written).unwrap_or(usize::MAX);
    let bytes = &bytes[..bytes.len().min(room)];
    spill.write_all(bytes)?;
    *written += bytes.len() as u64;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(kept: usize) -> Capture {
        Capture::new(CaptureLimits { kept, spilled: 0, workspace: None })
    }

    #[test]
    fn what_fits_is_kept_whole() {
        let mut capture = capture(8);
        for part in [&b"ab"[..], b"cdef", b"gh"] {
            capture.keep(part);
        }
        let captured = capture.finish();
        assert_eq!((captured.head.as_slice(), captured.dropped_bytes), (&b"abcdefgh"[..], 0));
        assert!(captured.tail.is_empty());
    }

    #[test]
    fn head_and_tail_survive_what_does_not_fit() {
        for step in 1..12 {
            let mut capture = capture(8);
            for part in b"0123456789abcdefghij".chunks(step) {
                capture.keep(part);
            }
            let captured = capture.finish();
            assert_eq!(captured.head, b"0123");
            assert_eq!(captured.tail, b"ghij");
            assert_eq!((captured.total_bytes, captured.dropped_bytes), (20, 12));
        }
    }

    #[test]
    fn the_last_line_is_the_last_that_is_not_blank() {
        let mut capture = capture(64);
        capture.keep(b"one\ntwo\r\n");
        assert_eq!(capture.last_line(), b"two");
        capture.keep(b"  \n\nthr");
        assert_eq!(capture.last_line(), b"thr");
        capture.keep(b"ee");
        assert_eq!(capture.last_line(), b"three");
    }
}
