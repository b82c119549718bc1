//! bubblewrap's arguments, from a layout. Pure: the snapshot tests show what is asked of bwrap(1).

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
};

use super::USER_NAMESPACE_FD;
use crate::layout::Entry;

/// Rights of the first program inside, in the sandbox's own user namespace: to finish the mounts
/// and files, and to become the command's user. The command gets none of them.
const INIT_CAPABILITIES: [&str; 7] = [
    "CAP_SYS_ADMIN",
    "CAP_SYS_RESOURCE",
    "CAP_SETUID",
    "CAP_SETGID",
    "CAP_SETFCAP",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
];

/// The arguments, without the command. With `enters_user_namespace` a prepared one is entered
/// instead of making one.
pub(crate) fn build(entries: &[Entry], enters_user_namespace: bool) -> Vec<OsString> {
    let mut arguments = Arguments::default();
    if enters_user_namespace {
        arguments.option("--userns", [USER_NAMESPACE_FD.to_string()]);
    } else {
        arguments.flag("--unshare-user");
        arguments.option("--uid", ["0"]).option("--gid", ["0"]);
    }
    for namespace in ["ipc", "pid", "net", "uts", "cgroup"] {
        arguments.flag(&format!("--unshare-{namespace}"));
    }
    arguments.option("--hostname", ["cofferdam"]);
    arguments.flag("--die-with-parent").flag("--new-session").flag("--as-pid-1");
    for capability in INIT_CAPABILITIES {
        arguments.option("--cap-add", [capability]);
    }
    arguments.option("--proc", ["/proc"]).option("--dev", ["/dev"]);
    for entry in entries {
        match entry {
            Entry::Memory { path, mode, mebibytes } => {
                arguments.option("--perms", [format!("{mode:04o}")]);
                arguments.option("--size", [(mebibytes * 1024 * 1024).to_string()]);
                arguments.option("--tmpfs", [path]);
            }
            Entry::ReadOnly(path) => {
                arguments.option("--ro-bind", [path, path]);
            }
            Entry::Writable(path) => {
                arguments.option("--bind", [path, path]);
            }
            Entry::Directory(path) => {
                arguments.option("--perms", ["0755"]).option("--dir", [path]);
            }
            Entry::Link { path, target } => {
                arguments.option("--symlink", [target, path]);
            }
        }
    }
    arguments.0
}

/// The form that bwrap reads from a descriptor: each argument ended by a NUL.
pub(crate) fn encode(arguments: &[OsString]) -> Vec<u8> {
    arguments.iter().flat_map(|argument| [argument.as_bytes(), b"\0"].concat()).collect()
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn flag(&mut self, name: &str) -> &mut Self {
        self.0.push(name.into());
        self
    }

    fn option<const N: usize>(&mut self, name: &str, values: [impl AsRef<OsStr>; N]) -> &mut Self {
        self.0.push(name.into());
        self.0.extend(values.map(|value| value.as_ref().to_owned()));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(entries: &[Entry], enters: bool) -> String {
        let words = build(entries, enters);
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ").replace(" --", "\n--")
    }

    #[test]
    fn every_namespace_is_asked_for_and_every_mount_in_order() {
        let entries = [
            Entry::Memory { path: "/tmp".into(), mode: 0o1777, mebibytes: 1 },
            Entry::ReadOnly("/usr".into()),
            Entry::Link { path: "/bin".into(), target: "usr/bin".into() },
            Entry::Writable("/srv/work".into()),
        ];
        insta::assert_snapshot!(shown(&entries, false), @r"
        --unshare-user
        --uid 0
        --gid 0
        --unshare-ipc
        --unshare-pid
        --unshare-net
        --unshare-uts
        --unshare-cgroup
        --hostname cofferdam
        --die-with-parent
        --new-session
        --as-pid-1
        --cap-add CAP_SYS_ADMIN
        --cap-add CAP_SYS_RESOURCE
        --cap-add CAP_SETUID
        --cap-add CAP_SETGID
        --cap-add CAP_SETFCAP
        --cap-add CAP_CHOWN
        --cap-add CAP_DAC_OVERRIDE
        --proc /proc
        --dev /dev
        --perms 1777
        --size 1048576
        --tmpfs /tmp
        --ro-bind /usr /usr
        --symlink usr/bin /bin
        --bind /srv/work /srv/work
        ");
    }

    #[test]
    fn a_root_server_enters_a_namespace_that_it_has_made() {
        let entries = [Entry::Directory("/srv/work".into())];
        let shown = shown(&entries, true);
        assert!(shown.starts_with("--userns 9\n--unshare-ipc"), "{shown}");
        assert!(shown.ends_with("--perms 0755\n--dir /srv/work"), "{shown}");
        assert!(!shown.contains("--unshare-user"), "{shown}");
    }
}
