//! The last touches to the sandbox's files: mounts that only we can make safely, small files, and
//! the root made read-only.

use std::{
    ffi::OsStr,
    fs,
    io::{Read, Write},
    os::{
        fd::OwnedFd,
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::Path,
};

use cofferdam_init::{FIRST_MOUNT_FD, Layer, Mount, Order, Record};
use rustix::{
    fs::{CWD, Gid, Mode, OFlags, Uid},
    mount::{MountFlags, MoveMountFlags},
};

use crate::{During, Stop, carve, socket, sys};

/// Reads the order from its anonymous file.
pub(crate) fn read_order(descriptor: OwnedFd) -> Result<Order, Stop> {
    let mut bytes = Vec::new();
    fs::File::from(descriptor).read_to_end(&mut bytes).during("read the order")?;
    Order::decode(&bytes).map_err(|error| Stop::check(error.to_string()))
}

/// Attaches and checks mounts, writes files, and makes the root read-only.
pub(crate) fn finish(control: &OwnedFd, order: &Order) -> Result<(), Stop> {
    rustix::process::umask(Mode::from_raw_mode(0o022));
    for mount in &order.attach {
        attach(mount)?;
    }
    for mount in order.attach.iter().chain(&order.expect) {
        verify(mount)?;
    }
    socket::send(control, &Record::Armed(Layer::MountsVerified));
    for file in &order.files {
        write(Path::new(&file.path), &file.content)?;
    }
    carve::carve(&order.carve)?;
    socket::send(control, &Record::Armed(Layer::CarveOuts));
    let user = Uid::from_raw(order.identity.outer_user);
    let group = Gid::from_raw(order.identity.outer_group);
    for path in &order.owned {
        rustix::fs::chown(path.as_os_str(), Some(user), Some(group))
            .during(&format!("give `{}` to the user", path.display()))?;
    }
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    for folder in ["/dev", "/"] {
        rustix::mount::mount_remount(folder, flags, c"").during("make the root read-only")?;
    }
    socket::send(control, &Record::Armed(Layer::ReadOnlyRoot));
    Ok(())
}

fn attach(mount: &Mount) -> Result<(), Stop> {
    let step = format!("attach `{}`", mount.path.display());
    if mount.descriptor < FIRST_MOUNT_FD {
        return Err(Stop::check(step));
    }
    let detached = sys::inherited(mount.descriptor);
    rustix::mount::move_mount(
        &detached,
        "",
        CWD,
        mount.path.as_os_str(),
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
    .during(&step)
}

/// Whoever built the mounts looked the paths up by name, and the code of an earlier run may have
/// swapped something since the launcher opened them: device and inode tell.
fn verify(mount: &Mount) -> Result<(), Stop> {
    let step = format!("find at `{}` what was opened", mount.path.display());
    let found = fs::symlink_metadata(&mount.path).during(&step)?;
    if (found.dev(), found.ino()) == (mount.device, mount.inode) {
        Ok(())
    } else {
        Err(Stop::check(step))
    }
}

fn write(path: &Path, content: &[u8]) -> Result<(), Stop> {
    let step = format!("write `{}`", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).during(&step)?;
    }
    let opened = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(path);
    match opened {
        // A granted file of the machine is there already.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error).during(&step),
        Ok(mut file) => file.write_all(content).during(&step),
    }
}

/// Writes a file of `/proc/self`, which exists already.
pub(crate) fn write_existing(path: &OsStr, content: &str) -> Result<(), Stop> {
    let step = format!("write `{}`", path.display());
    let mut file = fs::OpenOptions::new().write(true).open(path).during(&step)?;
    file.write_all(content.as_bytes()).during(&step)
}
