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

/// A procfs that is attached nowhere and can be written: `/proc/sys` is read-only here.
pub(crate) fn writable_proc() -> Result<OwnedFd, Stop> {
    let step = "limit user namespaces";
    let context = rustix::mount::fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC).during(step)?;
    rustix::mount::fsconfig_create(&context).during(step)?;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
        .during(step)
}

/// Lets the user namespace of this process, the command's own, have none below it.
///
/// Which namespace a file of `sys/user` is about is decided when it is opened, by who opens it. The
/// one above must not be limited instead: a root server's runs share it, so that they would wait
/// for each other's to be freed.
pub(crate) fn forbid_nesting(control: &OwnedFd, proc: &OwnedFd) -> Result<(), Stop> {
    let step = "limit user namespaces";
    let limit = rustix::fs::openat(
        proc,
        "sys/user/max_user_namespaces",
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .during(step)?;
    rustix::io::write(&limit, b"0").during(step)?;
    socket::send(control, &Record::Armed(Layer::NestedNamespacesOff));
    Ok(())
}
