//! The socket to the launcher: records out, one message each.

use std::os::fd::{AsFd, OwnedFd};

use cofferdam_init::Record;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

/// Sends a record. A launcher that is gone cannot be told: process 1 sees that by itself.
pub(crate) fn send(control: &OwnedFd, record: &Record) {
    let _ = rustix::net::send(control, &record.encode(), SendFlags::NOSIGNAL);
}

/// Sends a record together with a descriptor.
pub(crate) fn send_descriptor(
    control: &OwnedFd,
    record: &Record,
    descriptor: impl AsFd,
) -> rustix::io::Result<()> {
    let descriptors = [descriptor.as_fd()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let message = record.encode();
    let parts = [std::io::IoSlice::new(&message)];
    rustix::net::sendmsg(control, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}
