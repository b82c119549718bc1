//! What exists for a run: the file system of the sandbox as a list of mounts, in order.
//!
//! Looks at the machine (what is there, what is a symlink) and decides nothing: the paths come from
//! the grant. The list is the same for every backend that builds its own mounts.

use std::{
    ffi::OsString,
    fs,
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use cofferdam_init::File;
use cofferdam_policy::{Grant, Program, profile::Access};

use crate::folders::Folder;

/// Home directory of the command, in memory.
pub(crate) const HOME: &str = "/home/sandbox";
/// Name of the user that the command is.
pub(crate) const USER: &str = "sandbox";
/// Folder of the script inside the sandbox.
const SCRIPT_FOLDER: &str = "/run/cofferdam";
/// Largest granted file that is copied into the sandbox instead of being mounted.
const COPIED_BYTES: u64 = 128 * 1024;

/// One entry of a sandbox's file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A directory in memory.
    Memory { path: PathBuf, mode: u32, mebibytes: u64 },
    /// A path of the machine, read-only.
    ReadOnly(PathBuf),
    /// A path of the machine, writable.
    Writable(PathBuf),
    /// An empty directory, on which something will be mounted.
    Directory(PathBuf),
    /// A symbolic link.
    Link { path: PathBuf, target: PathBuf },
}

/// The file system of a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) entries: Vec<Entry>,
    /// Files that are written inside.
    pub(crate) files: Vec<File>,
    /// Directories that belong to the command's user.
    pub(crate) owned: Vec<OsString>,
}

/// Who the command sees itself as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InnerIds {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

/// Lays a sandbox out. With `attached`, the granted folders are mounted later by descriptor.
pub(crate) fn plan(grant: &Grant, ids: InnerIds, folders: &[Folder], attached: bool) -> Layout {
    let profile = grant.profile();
    let workspace = &grant.plan().workspace;
    let in_folder = |path: &Path| folders.iter().any(|one| path.starts_with(one.held.path()));
    let mut layout = Layout::default();

    let mebibytes = profile.filesystem.tmp_mib;
    for path in ["/tmp", "/dev/shm"] {
        layout.entries.push(Entry::Memory { path: path.into(), mode: 0o1777, mebibytes });
    }
    if profile.filesystem.scratch_home {
        layout.entries.push(Entry::Memory { path: HOME.into(), mode: 0o700, mebibytes });
        layout.owned.push(HOME.into());
    }
    if !workspace.starts_with("/var/tmp") {
        let target = "../tmp".into();
        layout.entries.push(Entry::Link { path: "/var/tmp".into(), target });
    }

    let granted = profile.filesystem.read.iter().map(|grant| &grant.path);
    let mut visible: Vec<PathBuf> = Vec::new();
    for path in granted.chain(&grant.plan().runtime) {
        // Whatever lies in a granted folder is visible through it, and nobody may make a mount
        // point there: its files are the code's to swap (CVE-2026-87766).
        if in_folder(path) || visible.iter().any(|seen| path.starts_with(seen)) {
            continue;
        }
        if let Some(content) = small_public_file(path) {
            layout.files.push(File { path: path.clone().into(), content });
        } else if let Some(entry) = read_only(path) {
            visible.push(path.clone());
            layout.entries.push(entry);
        }
    }
    layout.entries.extend(folders.iter().map(|folder| {
        let path = folder.held.path().to_owned();
        match (attached, folder.access) {
            (true, _) => Entry::Directory(path),
            (false, Access::Write) => Entry::Writable(path),
            (false, Access::Read) => Entry::ReadOnly(path),
        }
    }));

    layout.entries = with_parents(layout.entries);
    layout.files.extend(system_files(ids));
    if let Program::Script { source, file_name, .. } = &grant.plan().program {
        layout.files.push(File { path: script_path(file_name), content: source.clone() });
    }
    layout
}

/// Where a script lies inside the sandbox.
pub(crate) fn script_path(file_name: &str) -> OsString {
    format!("{SCRIPT_FOLDER}/{file_name}").into()
}

/// Puts every directory that leads to an entry in front of it, open for everybody to pass.
///
/// bubblewrap would make them too, but closed: the command is not the user that owns them.
fn with_parents(entries: Vec<Entry>) -> Vec<Entry> {
    let mut complete: Vec<Entry> = Vec::new();
    for entry in entries {
        let parents: Vec<_> = entry.path().ancestors().skip(1).collect();
        for parent in parents.into_iter().rev().filter(|parent| parent.parent().is_some()) {
            let there = complete.iter().any(|earlier| match earlier {
                // Whatever lies in the machine's own directories is there, or is not ours to make.
                Entry::ReadOnly(path) | Entry::Writable(path) => parent.starts_with(path),
                other => parent == other.path(),
            });
            if !there && parent != Path::new("/dev") && parent != Path::new("/proc") {
                complete.push(Entry::Directory(parent.to_owned()));
            }
        }
        complete.push(entry);
    }
    complete
}

impl Entry {
    fn path(&self) -> &Path {
        match self {
            Self::Memory { path, .. } | Self::Link { path, .. } => path,
            Self::ReadOnly(path) | Self::Writable(path) | Self::Directory(path) => path,
        }
    }
}

/// A granted path as an entry: links as links, since `/bin` is one on most machines and programs
/// resolve it as such. A path that is not there is left out: less is safe.
fn read_only(path: &Path) -> Option<Entry> {
    let kind = fs::symlink_metadata(path).ok()?.file_type();
    if kind.is_symlink() {
        let target = fs::read_link(path).ok()?;
        let resolved = fs::canonicalize(path).ok()?;
        // A link that leads away from where programs are expected (`/etc/localtime` does, and so
        // do links into `/etc/ssl`) would dangle inside: give what it names instead.
        let stays = resolved.starts_with("/usr");
        return Some(if stays {
            Entry::Link { path: path.to_owned(), target }
        } else {
            Entry::ReadOnly(path.to_owned())
        });
    }
    Some(Entry::ReadOnly(path.to_owned()))
}

/// The content of a small file that everybody may read, to be copied: a mount costs more.
fn small_public_file(path: &Path) -> Option<Vec<u8>> {
    let found = fs::symlink_metadata(path).ok()?;
    let public = found.permissions().mode() & 0o004 != 0;
    if !found.is_file() || !public || found.len() > COPIED_BYTES {
        return None;
    }
    let mut content = Vec::new();
    fs::File::open(path).ok()?.take(COPIED_BYTES + 1).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= COPIED_BYTES).then_some(content)
}

/// The few files that programs look for and that must not be the machine's own.
fn system_files(InnerIds { user, group }: InnerIds) -> Vec<File> {
    let text =
        |path: &str, content: String| File { path: path.into(), content: content.into_bytes() };
    vec![
        text(
            "/etc/passwd",
            format!(
                "root:x:0:0:root:/root:/usr/sbin/nologin\n\
                 {USER}:x:{user}:{group}:{USER}:{HOME}:/bin/bash\n\
                 nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
            ),
        ),
        text("/etc/group", format!("root:x:0:\n{USER}:x:{group}:\nnogroup:x:65534:\n")),
        text("/etc/hosts", "127.0.0.1 localhost cofferdam\n::1 localhost\n".to_owned()),
        text("/etc/hostname", "cofferdam\n".to_owned()),
        text("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n".to_owned()),
        text("/etc/resolv.conf", String::new()),
    ]
}
