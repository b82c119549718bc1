//! Proving that the namespaces are the sandbox's own, and forbidding further ones.

use std::{
    fs,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
};

use cofferdam_init::{Layer, Order, Record};
use rustix::{
    fs::{Mode, OFlags},
    mount::{FsMountFlags, FsOpenFlags, MountAttrFlags},
};

use crate::{During, Stop, socket};

/// Compares every namespace with the launcher's.
///
/// An inode number of `/proc/self/ns` names a namespace for as long as it lives, and the launcher
/// lives: a different number is a different namespace.
pub(crate) fn prove_own(control: &OwnedFd, order: &Order) -> Result<(), Stop> {
    for (name, outside) in &order.outside_namespaces {
        let layer = match name.as_str() {
            "user" => Layer::UserNamespace,
            "mnt" => Layer::MountNamespace,
            "pid" => Layer::PidNamespace,
            "net" => Layer::NetworkNamespace,
            "ipc" => Layer::IpcNamespace,
            "uts" => Layer::UtsNamespace,
            "cgroup" => Layer::CgroupNamespace,
            _ => return Err(Stop::check(format!("know the namespace `{name}`"))),
        };
        let path = format!("/proc/self/ns/{name}");
        let inside = fs::metadata(&path).during("look at the own namespaces")?.ino();
        if inside == *outside {
            return Err(Stop::check(format!("be in another {name} namespace")));
        }
        if layer == Layer::NetworkNamespace {
            prove_only_loopback()?;
        }
        socket::send(control, &Record::Armed(layer));
    }
    Ok(())
}

fn prove_only_loopback() -> Result<(), Stop> {
    let devices = fs::read_to_string("/proc/net/dev").during("list network devices")?;
    // Two lines of heading, then one device a line.
    let foreign = devices.lines().skip(2).any(|line| !line.trim_start().starts_with("lo:"));
    if foreign { Err(Stop::check("find no network device but `lo`")) } else { Ok(()) }
}

/// Lets this user namespace have one more below it: the one the command will live in.
///
/// The count is kept along the chain of namespaces, so that the command's own cannot have any.
/// `/proc/sys` is read-only here; a second procfs that is attached nowhere is not.
pub(crate) fn forbid_nesting(control: &OwnedFd) -> Result<(), Stop> {
    let step = "limit user namespaces";
    let context = rustix::mount::fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC).during(step)?;
    rustix::mount::fsconfig_create(&context).during(step)?;
    let proc =
        rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
            .during(step)?;
    let limit = rustix::fs::openat(
        &proc,
        "sys/user/max_user_namespaces",
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .during(step)?;
    rustix::io::write(&limit, b"1").during(step)?;
    socket::send(control, &Record::Armed(Layer::NestedNamespacesOff));
    Ok(())
}
