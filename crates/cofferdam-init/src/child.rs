//! From process 1's child to the command: every right is given up here, in this order.
//!
//! 1. session, terminal and streams, while files of the outer user can still be opened;
//! 2. limits that need no right;
//! 3. the identity: an ordinary user in a user namespace with no other id;
//! 4. capabilities, then `no_new_privs`, then descriptors, and last the filter, which forbids some
//!    of the calls that the steps before it need.

use std::{
    convert::Infallible,
    ffi::{CString, OsStr, OsString},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
};

use cofferdam_init::{Layer, Order, Record, STDIO_FDS};
use rustix::{
    fs::{Mode, OFlags},
    process::{Resource, Rlimit},
    pty::OpenptFlags,
    thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets},
};

use crate::{During, Stop, files, namespaces, socket, sys};

/// Becomes the command. Returns only when a step failed.
pub(crate) fn become_command(
    control: &OwnedFd,
    order: &Order,
    proc: &OwnedFd,
) -> Result<Infallible, Stop> {
    let armed = |layer| socket::send(control, &Record::Armed(layer));
    sys::reset_signals();
    rustix::process::setsid().during("lead a session")?;
    limits(order, &armed)?;
    identity(order)?;
    armed(Layer::Identity);
    namespaces::forbid_nesting(control, proc)?;
    streams(control, order)?;
    armed(Layer::OwnSession);
    rustix::process::umask(Mode::from_raw_mode(0o022));
    enter(order)?;
    drop_capabilities()?;
    armed(Layer::NoCapabilities);
    no_new_privileges()?;
    armed(Layer::NoNewPrivileges);
    sys::close_on_exec_from(3).during("close descriptors")?;
    armed(Layer::Descriptors);
    for filter in &order.filters {
        sys::install_filter(filter).during("install the syscall filter")?;
    }
    if !order.filters.is_empty() {
        armed(Layer::SyscallFilter);
    }
    start(order)
}

/// Goes to where the command starts. A directory that must be a certain one is looked at after it was
/// entered: from then on nothing can take its place.
fn enter(order: &Order) -> Result<(), Stop> {
    let name = order.working_directory.display();
    rustix::process::chdir(order.working_directory.as_os_str())
        .during(&format!("enter `{name}`"))?;
    let Some(wanted) = order.working_directory_identity else { return Ok(()) };
    let here = rustix::fs::stat(".").during(&format!("look at `{name}`"))?;
    if (here.st_dev, here.st_ino) == wanted {
        Ok(())
    } else {
        Err(Stop::check(format!("find at `{name}` the directory that was approved")))
    }
}

fn limits(order: &Order, armed: &dyn Fn(Layer)) -> Result<(), Stop> {
    let set = |resource, value: u64| {
        let hard = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX).min(value);
        let limit = Rlimit { current: Some(hard), maximum: Some(hard) };
        rustix::process::setrlimit(resource, limit)
    };
    set(Resource::Core, 0).during("forbid cores")?;
    armed(Layer::NoCore);
    if order.open_files != 0 {
        set(Resource::Nofile, order.open_files).during("limit open files")?;
        armed(Layer::OpenFiles);
    }
    if order.file_size != 0 {
        set(Resource::Fsize, order.file_size).during("limit the size of files")?;
        armed(Layer::FileSize);
    }
    Ok(())
}

/// Becomes an ordinary user in a user namespace of its own.
fn identity(order: &Order) -> Result<(), Stop> {
    let identity = order.identity;
    if identity.user == 0 || identity.group == 0 {
        return Err(Stop::check("be told of a user that is not root"));
    }
    let own = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    if own != (identity.outer_user, identity.outer_group) {
        sys::become_user(identity.outer_user, identity.outer_group).during("become the user")?;
        // Changing ids has made /proc/self belong to root, and the maps are written there.
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)
            .during("own /proc/self")?;
    }
    sys::unshare_user_and_mount_namespaces().during("make the command's namespaces")?;
    let (user, group) = (identity.user, identity.group);
    files::write_existing(OsStr::new("/proc/self/setgroups"), "deny")?;
    let map = format!("{group} {} 1", identity.outer_group);
    files::write_existing(OsStr::new("/proc/self/gid_map"), &map)?;
    let map = format!("{user} {} 1", identity.outer_user);
    files::write_existing(OsStr::new("/proc/self/uid_map"), &map)?;
    let now = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if now != (user, group) {
        return Err(Stop::check("be the user that the order names"));
    }
    Ok(())
}

fn streams(control: &OwnedFd, order: &Order) -> Result<(), Stop> {
    let mut sources = STDIO_FDS;
    let mut terminal_side = None;
    if let Some(terminal) = order.terminal {
        let step = "open a terminal";
        let outer = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).during(step)?;
        rustix::pty::unlockpt(&outer).during(step)?;
        let name = rustix::pty::ptsname(&outer, Vec::new()).during(step)?;
        let inner = rustix::fs::open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty())
            .during(step)?;
        let mut size = rustix::termios::tcgetwinsize(&inner).during(step)?;
        (size.ws_row, size.ws_col) = (terminal.rows, terminal.columns);
        rustix::termios::tcsetwinsize(&inner, size).during(step)?;
        rustix::process::ioctl_tiocsctty(&inner).during(step)?;
        sources[0] = inner.as_raw_fd();
        if terminal.stdout {
            sources[1] = inner.as_raw_fd();
        }
        if terminal.stderr {
            sources[2] = inner.as_raw_fd();
        }
        socket::send_descriptor(control, &Record::Terminal, &outer).during(step)?;
        terminal_side = Some(inner);
    }
    for (stream, source) in (0..).zip(sources) {
        sys::become_stream(source, stream).during("connect the streams")?;
    }
    drop(terminal_side);
    Ok(())
}

fn drop_capabilities() -> Result<(), Stop> {
    let step = "drop capabilities";
    for bit in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        match rustix::thread::capability_is_in_bounding_set(capability) {
            Ok(true) => {
                rustix::thread::remove_capability_from_bounding_set(capability).during(step)?;
            }
            Ok(false) => {}
            // The kernel knows no capability of that number, nor any above.
            Err(_) => break,
        }
    }
    rustix::thread::clear_ambient_capability_set().during(step)?;
    // A program that changes users inside must not get rights back by that.
    let bits = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    rustix::thread::set_capabilities_secure_bits(bits).during("lock capabilities")?;
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none).during(step)?;
    let status = std::fs::read_to_string("/proc/self/status").during("read capabilities back")?;
    let held = status
        .lines()
        .filter(|line| line.starts_with("Cap"))
        .filter_map(|line| line.split_whitespace().nth(1))
        .any(|set| set.bytes().any(|digit| digit != b'0'));
    if held { Err(Stop::check("have no capability left")) } else { Ok(()) }
}

fn no_new_privileges() -> Result<(), Stop> {
    let step = "set no_new_privs";
    rustix::thread::set_no_new_privs(true).during(step)?;
    match rustix::thread::no_new_privs().during(step)? {
        true => Ok(()),
        false => Err(Stop::check(step)),
    }
}

fn start(order: &Order) -> Result<Infallible, Stop> {
    let strings = |values: &[OsString]| -> Result<Vec<CString>, Stop> {
        values
            .iter()
            .map(|value| CString::new(value.as_bytes()))
            .collect::<Result<_, _>>()
            .map_err(|_| Stop::check("find no NUL in arguments and environment"))
    };
    let arguments = strings(&order.arguments)?;
    let environment = strings(&order.environment)?;
    let Some(program) = order.arguments.first().filter(|program| !program.is_empty()) else {
        return Err(Stop { step: "start ``".to_owned(), errno: libc::ENOENT });
    };
    let failed = |errno| Stop { step: format!("start `{}`", program.display()), errno };
    let execute = |path: &OsStr| {
        sys::execute(path, &arguments, &environment).raw_os_error().unwrap_or_default()
    };
    if program.as_bytes().contains(&b'/') {
        return Err(failed(execute(program)));
    }
    // As execvp(3): go on past what is not there, remember what is there but cannot be executed.
    let mut worst = libc::ENOENT;
    let path = order.variable("PATH").unwrap_or(OsStr::new("/usr/bin:/bin"));
    for folder in path.as_bytes().split(|byte| *byte == b':') {
        let mut candidate = if folder.is_empty() { b".".to_vec() } else { folder.to_vec() };
        candidate.push(b'/');
        candidate.extend_from_slice(program.as_bytes());
        match execute(&OsString::from_vec(candidate)) {
            libc::ENOENT | libc::ENOTDIR => {}
            errno => worst = errno,
        }
    }
    Err(failed(worst))
}
