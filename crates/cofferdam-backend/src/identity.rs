//! Who a command is, outside and inside, and how it is kept away from root.
//!
//! An ordinary user's commands are that user outside too: nobody else is to be had. When the server
//! is root, its commands are a user of the machine that nobody is, and the workspace is mounted
//! with its owner mapped to that user, so that what the command writes belongs to the workspace's
//! owner (mount_setattr(2), MOUNT_ATTR_IDMAP).

use std::{
    collections::HashMap,
    fs, io,
    io::{Read, Write},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Command, Stdio},
    sync::Mutex,
};

use cofferdam_fs::Workspace;
use cofferdam_init::{HOLD_USER_NAMESPACE, Identity};
use rustix::{
    fs::{FileType, Gid, Uid},
    mount::OpenTreeFlags,
};

use crate::{layout::InnerIds, sys};

/// User and group outside of commands of a root server. Above everything that distributions, system
/// services and container engines hand out, and below 2^31.
const OUTSIDE_ID: u32 = 0x7c0f_0001;

/// User and group inside, where the outer one would be 0.
const INSIDE_ID: u32 = 1000;

/// How commands get their identity here.
#[derive(Debug)]
pub(crate) enum Identities {
    /// The server is an ordinary user.
    Ordinary { user: u32, group: u32 },
    /// The server is root.
    Root(RootIdentities),
}

/// User namespaces of a root server.
#[derive(Debug)]
pub(crate) struct RootIdentities {
    /// Holds root, for building the sandbox, and the outside user.
    sandbox: OwnedFd,
    /// By owner of a workspace: maps that owner to the outside user.
    owners: Mutex<HashMap<(u32, u32), OwnedFd>>,
}

impl Identities {
    /// Looks who the server is, and makes what is needed. `init` is the program that can hold a
    /// user namespace.
    pub(crate) fn prepare(init: &OwnedFd) -> io::Result<Self> {
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        if user != 0 {
            return Ok(Self::Ordinary { user, group });
        }
        let map = format!("0 0 1\n{INSIDE_ID} {OUTSIDE_ID} 1\n");
        let sandbox = user_namespace(init, &map, &map)?;
        Ok(Self::Root(RootIdentities { sandbox, owners: Mutex::default() }))
    }

    /// User and group as the command sees them.
    pub(crate) fn inner(&self) -> InnerIds {
        let away_from_root = |id| if id == 0 { INSIDE_ID } else { id };
        match self {
            Self::Ordinary { user, group } => {
                InnerIds { user: away_from_root(*user), group: away_from_root(*group) }
            }
            Self::Root(_) => InnerIds { user: INSIDE_ID, group: INSIDE_ID },
        }
    }

    /// Gives the inner ends of a run's streams to its user, who may open them anew by
    /// `/dev/stdout` and its like.
    pub(crate) fn give(&self, streams: &[OwnedFd]) -> io::Result<()> {
        let Self::Root(_) = self else { return Ok(()) };
        for stream in streams {
            // Pipes are ours; what else there is (`/dev/null`) belongs to the machine.
            let found = rustix::fs::fstat(stream)?;
            if FileType::from_raw_mode(found.st_mode) == FileType::Fifo {
                let (user, group) = (Uid::from_raw(OUTSIDE_ID), Gid::from_raw(OUTSIDE_ID));
                rustix::fs::fchown(stream, Some(user), Some(group))?;
            }
        }
        Ok(())
    }

    /// What the first program inside has to become.
    pub(crate) fn order(&self) -> Identity {
        let InnerIds { user, group } = self.inner();
        let outer = match self {
            // bubblewrap maps the ordinary user to 0 in the namespace that it makes.
            Self::Ordinary { .. } => 0,
            Self::Root(_) => INSIDE_ID,
        };
        Identity { user, group, outer_user: outer, outer_group: outer }
    }
}

impl RootIdentities {
    /// The namespace in which a sandbox is built.
    pub(crate) fn sandbox(&self) -> io::Result<OwnedFd> {
        self.sandbox.try_clone()
    }

    /// A detached mount of the workspace in which its owner is the command's user.
    ///
    /// Made from the held descriptor: no path is looked up again.
    pub(crate) fn mount(
        &self,
        workspace: &Workspace,
        read_only: bool,
        init: &OwnedFd,
    ) -> io::Result<OwnedFd> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_EMPTY_PATH;
        let mount = rustix::mount::open_tree(workspace.directory(), "", flags)?;
        let mut attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
        if read_only {
            attributes |= libc::MOUNT_ATTR_RDONLY;
        }
        let mut owners = self.owners.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let owner = workspace.owner();
        let namespace = match owners.entry(owner) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => {
                let map = |id| format!("{id} {OUTSIDE_ID} 1\n");
                new.insert(user_namespace(init, &map(owner.0), &map(owner.1))?)
            }
        };
        sys::set_mount_attributes(mount.as_fd(), attributes, namespace.as_fd())?;
        Ok(mount)
    }
}

/// Makes a user namespace with these maps. It lives as long as the descriptor.
fn user_namespace(init: &OwnedFd, user_map: &str, group_map: &str) -> io::Result<OwnedFd> {
    #[expect(clippy::disallowed_methods, reason = "our own program")]
    let mut holder = Command::new(format!("/proc/self/fd/{}", init.as_raw_fd()));
    holder.arg0("cofferdam-init").arg(HOLD_USER_NAMESPACE).env_clear().current_dir("/");
    holder.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut holder = holder.spawn()?;
    let made = (|| {
        let mut ready = [0];
        let out = holder.stdout.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        out.read_exact(&mut ready)?;
        let folder = format!("/proc/{}", holder.id());
        for (name, map) in [("uid_map", user_map), ("gid_map", group_map)] {
            // One write(2) has to carry the whole map.
            fs::OpenOptions::new()
                .write(true)
                .open(format!("{folder}/{name}"))?
                .write_all(map.as_bytes())?;
        }
        Ok(fs::File::open(format!("{folder}/ns/user"))?.into())
    })();
    // Closing its standard input ends the holder.
    drop(holder.stdin.take());
    holder.wait()?;
    made
}
