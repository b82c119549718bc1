//! Carve-outs inside granted folders, made with mounts.
//!
//! The folders belong to the code of earlier runs, so every place is reached beneath the granted
//! folder without following a link, compared with what the launcher saw, and mounted on by
//! descriptor. A mount point can be neither renamed nor removed, and nothing is written to the
//! machine's file system, so nothing is left there.

use std::{
    fs,
    os::{fd::OwnedFd, unix::fs::PermissionsExt},
    path::Path,
};

use cofferdam_init::{Carve, CarveKind};
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags},
    mount::{MoveMountFlags, OpenTreeFlags},
};

use crate::{During, Stop, sys};

/// What stands in for a denied file and a denied folder: empty, and nobody's to open.
const DENIED_FILE: &str = "/run/cofferdam/denied/file";
const DENIED_FOLDER: &str = "/run/cofferdam/denied/folder";

/// Puts every carve-out in place.
pub(crate) fn carve(carves: &[Carve]) -> Result<(), Stop> {
    if carves.iter().any(|carve| carve.kind != CarveKind::Pin) {
        prepare().during("prepare what stands in for denied places")?;
    }
    for carve in carves {
        let place = find(carve)?;
        let step = format!("carve `{}` out", carve.path.display());
        let mount = match carve.kind {
            CarveKind::Pin | CarveKind::Protect => clone_of(&place, "").during(&step)?,
            CarveKind::DenyFile => clone_at(DENIED_FILE).during(&step)?,
            CarveKind::DenyFolder => clone_at(DENIED_FOLDER).during(&step)?,
        };
        if carve.kind != CarveKind::Pin {
            sys::make_mount_read_only(&mount).during(&step)?;
        }
        let flags =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        rustix::mount::move_mount(&mount, "", &place, "", flags).during(&step)?;
    }
    Ok(())
}

/// Opens a place that must still be what the launcher saw.
fn find(carve: &Carve) -> Result<OwnedFd, Stop> {
    let step = format!("find `{}` unchanged", carve.path.display());
    let root = rustix::fs::open(
        carve.root.as_os_str(),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .during(&step)?;
    let place = rustix::fs::openat2(
        root,
        carve.path.as_os_str(),
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
    )
    .during(&step)?;
    let found = rustix::fs::statat(&place, "", AtFlags::EMPTY_PATH).during(&step)?;
    if (found.st_dev, found.st_ino) == (carve.device, carve.inode) {
        Ok(place)
    } else {
        Err(Stop::check(step))
    }
}

fn prepare() -> std::io::Result<()> {
    fs::create_dir_all(DENIED_FOLDER)?;
    fs::write(DENIED_FILE, "")?;
    for path in [DENIED_FILE, DENIED_FOLDER] {
        fs::set_permissions(Path::new(path), fs::Permissions::from_mode(0o000))?;
    }
    Ok(())
}

fn clone_of(place: &OwnedFd, path: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    rustix::mount::open_tree(place, path, flags)
}

fn clone_at(path: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    rustix::mount::open_tree(CWD, path, flags)
}
