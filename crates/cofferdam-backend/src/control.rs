//! The socket to the first program inside: records come out, two commands go in.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, OwnedFd},
};

use cofferdam_init::Record;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags,
    SocketType,
};
use tokio::io::unix::AsyncFd;

/// Our end of the socket.
#[derive(Debug)]
pub(crate) struct Control {
    socket: AsyncFd<OwnedFd>,
}

/// A record, and the descriptor that came with it.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) record: Record,
    pub(crate) descriptor: Option<OwnedFd>,
}

/// Longest record: a failed step may name a path.
const MAX_RECORD_BYTES: usize = 8 * 1024;

impl Control {
    /// Makes both ends; the second is for the process inside.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        Ok((Self { socket: crate::sys::watched(ours)? }, theirs))
    }

    /// The next record; `None` when the other side is gone or says what is no record.
    pub(crate) async fn receive(&self) -> Option<Received> {
        let mut message = vec![0; MAX_RECORD_BYTES];
        loop {
            let mut ready = self.socket.readable().await.ok()?;
            let received = ready.try_io(|socket| Ok(receive(socket.as_fd(), &mut message)?));
            match received {
                Err(_would_block) => continue,
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(Err(_) | Ok((0, _))) => return None,
                Ok(Ok((length, descriptor))) => {
                    let record = Record::decode(&message[..length])?;
                    return Some(Received { record, descriptor });
                }
            }
        }
    }

    /// Sends one of the two commands. A sandbox that is gone needs none.
    pub(crate) fn command(&self, command: u8) {
        let _ = rustix::net::send(self.socket.get_ref(), &[command], SendFlags::NOSIGNAL);
    }
}

fn receive(socket: impl AsFd, message: &mut [u8]) -> rustix::io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [io::IoSliceMut::new(message)];
    let received =
        rustix::net::recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptor = None;
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = part {
            descriptor = descriptors.into_iter().next().or(descriptor);
        }
    }
    Ok((received.bytes, descriptor))
}
