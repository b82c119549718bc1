//! The bubblewrap backend: finding `bwrap`, starting it, and saying why it cannot be used.
//!
//! bubblewrap makes the namespaces and the mounts; everything after that is done by
//! `cofferdam-init`, the first program inside, which holds rights only in the sandbox's own user
//! namespace until it gives them up.

mod arguments;
mod diagnose;

use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{fs::MetadataExt, process::CommandExt},
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use cofferdam_init::{CONTROL_FD, FIRST_MOUNT_FD, Mount, ORDER_FD, Order, STDIO_FDS};
use cofferdam_policy::{Grant, profile::Access};
use command_fds::{CommandFdExt, FdMapping};
use rustix::fs::Mode;

pub(crate) use diagnose::explain;

use crate::{
    folders::Folder,
    identity::Identities,
    init_program,
    layout::{self, Layout},
    search::SearchPath,
    spawner::Spawner,
};

/// Where bubblewrap finds its own arguments, the namespace it enters, and the program it starts.
const ARGUMENTS_FD: i32 = 8;
const USER_NAMESPACE_FD: i32 = 9;
const INIT_FD: i32 = 10;

/// A `bwrap` that can be used.
#[derive(Clone, Debug)]
pub(crate) struct Bubblewrap {
    program: PathBuf,
}

/// Why this backend cannot be used at all here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unusable {
    /// Not installed.
    #[error("bubblewrap is not installed (no `bwrap` on PATH)")]
    Missing,
    /// A setuid bwrap would run parts of the set-up as root.
    #[error("`{0}` is setuid root, which Cofferdam refuses")]
    Setuid(String),
    /// It is there and starts, but cannot build a sandbox.
    #[error("bubblewrap cannot build a sandbox here: {0}")]
    Blocked(String, String),
}

impl Unusable {
    /// The remedy.
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Missing => {
                "install it: `apt-get install bubblewrap` (Debian, Ubuntu), `dnf install \
                 bubblewrap` (Fedora), `pacman -S bubblewrap` (Arch)"
                    .to_owned()
            }
            Self::Setuid(program) => format!(
                "let unprivileged user namespaces do the work: `chmod u-s {program}`, or install \
                 your distribution's current bubblewrap package"
            ),
            Self::Blocked(_, hint) => hint.clone(),
        }
    }
}

/// What a sandbox is started with.
pub(crate) struct Launch<'a> {
    pub(crate) grant: &'a Grant,
    pub(crate) folders: &'a [Folder],
    pub(crate) identities: &'a Identities,
    pub(crate) init: &'a OwnedFd,
    /// What the program inside is told; mounts, files and identity are filled in here.
    pub(crate) order: Order,
    /// The inner ends of the streams and of the control socket.
    pub(crate) streams: [OwnedFd; 3],
    pub(crate) control: OwnedFd,
}

impl Bubblewrap {
    /// Looks for a usable `bwrap`. Not where a run can write: it is started outside every sandbox.
    pub(crate) fn find(search: &SearchPath) -> Result<Self, Unusable> {
        let program = search.find("bwrap").ok_or(Unusable::Missing)?;
        let setuid = program
            .metadata()
            .is_ok_and(|found| found.mode() & Mode::SUID.bits() != 0 && found.uid() == 0);
        if setuid {
            return Err(Unusable::Setuid(program.display().to_string()));
        }
        Ok(Self { program })
    }

    /// Starts a sandbox. The child's standard error is bubblewrap's own diagnostics, not the
    /// command's.
    pub(crate) async fn launch(&self, spawner: &Spawner, launch: Launch<'_>) -> io::Result<Child> {
        let Launch { grant, folders, identities, init, mut order, streams, control } = launch;
        let mut mappings = vec![
            FdMapping { parent_fd: control, child_fd: CONTROL_FD },
            FdMapping { parent_fd: init.try_clone()?, child_fd: INIT_FD },
        ];
        identities.give(&streams)?;
        for (stream, child_fd) in streams.into_iter().zip(STDIO_FDS) {
            mappings.push(FdMapping { parent_fd: stream, child_fd });
        }

        let root = match identities {
            Identities::Root(root) => Some(root),
            Identities::Ordinary { .. } => None,
        };
        let Layout { entries, files, owned } =
            layout::plan(grant, identities.inner(), folders, root.is_some());
        if let Some(root) = root {
            mappings.push(FdMapping { parent_fd: root.sandbox()?, child_fd: USER_NAMESPACE_FD });
        }
        for (folder, descriptor) in folders.iter().zip(FIRST_MOUNT_FD..) {
            let (device, inode) = folder.held.identity();
            let path = folder.held.path().into();
            let mount = Mount { path, descriptor, device, inode };
            let Some(root) = root else {
                order.expect.push(mount);
                continue;
            };
            let attached = root.mount(&folder.held, folder.access == Access::Read, init)?;
            mappings.push(FdMapping { parent_fd: attached, child_fd: descriptor });
            order.attach.push(mount);
        }
        order.files = files;
        order.owned = owned;
        order.identity = identities.order();
        let order = init_program::data("order", &order.encode())?;
        mappings.push(FdMapping { parent_fd: order, child_fd: ORDER_FD });

        let arguments = arguments::build(&entries, root.is_some());
        let arguments = init_program::data("arguments", &arguments::encode(&arguments))?;
        mappings.push(FdMapping { parent_fd: arguments, child_fd: ARGUMENTS_FD });

        #[expect(clippy::disallowed_methods, reason = "the sandbox of a granted run")]
        let mut command = Command::new(&self.program);
        command.arg("--args").arg(ARGUMENTS_FD.to_string());
        // By descriptor: nothing inside the sandbox has to be there for it.
        command.arg("--").arg(format!("/proc/self/fd/{INIT_FD}"));
        command.env_clear().current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // A terminal's Ctrl-C is for us, who end the run in order.
        command.process_group(0);
        command.fd_mappings(mappings).map_err(io::Error::other)?;
        spawner.spawn(command).await
    }
}

/// Inode numbers of this process's namespaces.
pub(crate) fn outside_namespaces() -> io::Result<Vec<(String, u64)>> {
    ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]
        .into_iter()
        .map(|name| {
            let namespace = std::fs::File::open(format!("/proc/self/ns/{name}"))?;
            Ok((name.to_owned(), rustix::fs::fstat(namespace.as_fd())?.st_ino))
        })
        .collect()
}
