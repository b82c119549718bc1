//! The report: what the first program inside a sandbox says to its launcher, record by record.
//!
//! Each record is one message on a socket that the command never holds, so nothing here can be
//! forged by what runs. Written as a word and its values, separated by spaces, for `strace`.

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// This layer is armed, and was read back from the kernel where that is possible.
    Armed(Layer),
    /// A step failed; the command was not started.
    Failed(Failed),
    /// The message carries the descriptor of the terminal's outer side.
    Terminal,
    /// The command ended, and everything inside with it.
    Ended(Ended),
}

/// A step that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Which one.
    pub step: String,
    /// The error number; 0 when a check, not a call, failed.
    pub errno: i32,
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The status as wait(2) gives it.
    pub wait_status: i32,
    /// Processor time of everything inside, in microseconds.
    pub cpu_micros: u64,
    /// Largest resident set of one process inside, in KiB.
    pub peak_kib: u64,
}

macro_rules! layers {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// One layer of protection.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Layer { $($(#[$doc])* $variant,)* }

        impl Layer {
            /// Every layer.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name used in records and reports.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

layers! {
    /// A user namespace of its own.
    UserNamespace = "user_namespace",
    /// A mount namespace of its own.
    MountNamespace = "mount_namespace",
    /// A process id namespace of its own.
    PidNamespace = "pid_namespace",
    /// A network namespace of its own, with nothing in it but `lo`.
    NetworkNamespace = "network_namespace",
    /// An IPC namespace of its own.
    IpcNamespace = "ipc_namespace",
    /// A host name of its own.
    UtsNamespace = "uts_namespace",
    /// A cgroup namespace of its own.
    CgroupNamespace = "cgroup_namespace",
    /// Every granted directory is the one the launcher opened.
    MountsVerified = "mounts_verified",
    /// Every carve-out of the order is in place.
    CarveOuts = "carve_outs",
    /// The root of the sandbox cannot be written.
    ReadOnlyRoot = "read_only_root",
    /// No further user namespace can be made.
    NestedNamespacesOff = "nested_namespaces_off",
    /// The command is an ordinary user in a user namespace with no other id in it.
    Identity = "identity",
    /// All five capability sets are empty.
    NoCapabilities = "no_capabilities",
    /// `no_new_privs` is set.
    NoNewPrivileges = "no_new_privileges",
    /// The syscall filter is installed.
    SyscallFilter = "syscall_filter",
    /// The command leads a session without a terminal, or with one of the sandbox's own.
    OwnSession = "own_session",
    /// Only descriptors 0 to 2 survive the start of the command.
    Descriptors = "descriptors",
    /// No core is written.
    NoCore = "no_core",
    /// The limit of open descriptors is set.
    OpenFiles = "open_files",
    /// The limit of a file's size is set.
    FileSize = "file_size",
}

impl Record {
    /// The record as a message.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Armed(layer) => format!("armed {}", layer.as_str()),
            Self::Failed(Failed { step, errno }) => format!("failed {errno} {step}"),
            Self::Terminal => "terminal".to_owned(),
            Self::Ended(Ended { wait_status, cpu_micros, peak_kib }) => {
                format!("ended {wait_status} {cpu_micros} {peak_kib}")
            }
        }
        .into_bytes()
    }

    /// Reads a message; `None` when it is none of ours.
    pub fn decode(message: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(message).ok()?;
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "armed" => {
                let layer = Layer::ALL.iter().find(|layer| layer.as_str() == rest)?;
                Some(Self::Armed(*layer))
            }
            "failed" => {
                let (errno, step) = rest.split_once(' ')?;
                Some(Self::Failed(Failed { step: step.to_owned(), errno: errno.parse().ok()? }))
            }
            "terminal" => Some(Self::Terminal),
            "ended" => {
                let mut values = rest.split(' ');
                Some(Self::Ended(Ended {
                    wait_status: values.next()?.parse().ok()?,
                    cpu_micros: values.next()?.parse().ok()?,
                    peak_kib: values.next()?.parse().ok()?,
                }))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_survives_the_way_out() {
        let mut records: Vec<_> = Layer::ALL.iter().copied().map(Record::Armed).collect();
        records.push(Record::Terminal);
        records.push(Record::Failed(Failed { step: "start `a b`".into(), errno: 2 }));
        records.push(Record::Ended(Ended { wait_status: 9, cpu_micros: 12, peak_kib: 34 }));
        for record in records {
            assert_eq!(Record::decode(&record.encode()), Some(record));
        }
    }

    #[test]
    fn foreign_bytes_are_no_record() {
        for message in [&b""[..], b"armed", b"armed x", b"ended 1 2", b"failed x y", b"\xff"] {
            assert_eq!(Record::decode(message), None);
        }
    }
}
