//! A profile as it is enforced: every value decided, every default filled in.
//!
//! The raw form, as an admin writes it, and the validation between the two are in the modules
//! beside this one. No `Option` here means "default".

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{carve_outs::CarveOuts, enforcement::Enforcement, tool_rules::ToolPattern};

/// A place where code can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// bubblewrap: namespaces around a process of this machine.
    Bubblewrap,
    /// A container engine.
    Container,
    /// This machine itself, confined by what its kernel offers.
    Host,
}

impl BackendKind {
    /// The name used in profiles, arguments and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Container => "container",
            Self::Host => "host",
        }
    }
}

/// One sandbox profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name: the file's name without `.toml`.
    pub name: String,
    /// One sentence for people.
    pub description: String,
    /// Which backends may be used, most wanted first.
    pub backends: Vec<BackendKind>,
    /// The least that a backend must hold.
    pub require: Enforcement,
    /// What exists for a run.
    pub filesystem: Filesystem,
    /// `filesystem.protect` and `filesystem.deny`, ready to be asked.
    pub carve_outs: CarveOuts,
    /// What a run can reach.
    pub network: Network,
    /// The run's environment variables.
    pub environment: Environment,
    /// What a run may use.
    pub limits: Limits,
    /// Settings of the container backend.
    pub container: Container,
    /// Settings of the host backend.
    pub host: Host,
    /// Which Python is used.
    pub python: Python,
    /// Settings of the uv tool.
    pub uv: Uv,
    /// Settings of the warm pool.
    pub pool: Pool,
    /// When a person must agree, by tool glob; the first match decides.
    // Shared: there may be very many, and each grant holds its profile.
    pub approval: Arc<[ApprovalRule]>,
}

/// What exists for a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Filesystem {
    /// Whether a run may change the workspace.
    pub workspace: Access,
    /// Paths that programs need, visible read-only.
    pub read: Vec<PathGrant>,
    /// Further paths that a run may change.
    pub write: Vec<PathGrant>,
    /// Globs of what a run may read but never change, rename away or create.
    pub protect: Vec<String>,
    /// Globs of what a run may neither read nor write.
    pub deny: Vec<String>,
    /// Plain repositories without hooks may be created by a run.
    pub allow_new_repositories: bool,
    /// Size of the private `/tmp`, in MiB.
    pub tmp_mib: u64,
    /// Whether a run has a home directory of its own, in memory.
    pub scratch_home: bool,
}

/// Whether something may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Only read.
    Read,
    /// Read and changed.
    Write,
}

/// A path that is granted, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathGrant {
    /// Absolute path.
    pub path: PathBuf,
    /// Why it is granted.
    pub why: String,
}

/// What a run can reach.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// See [`NetworkMode`].
    pub mode: NetworkMode,
    /// `host:port`, `*.domain:port` or `@group`.
    pub allow: Vec<String>,
    /// Refuse loopback, link-local, metadata and private addresses after resolution.
    pub deny_private: bool,
}

/// How much network there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkMode {
    /// No route at all.
    None,
    /// Only the hosts that are listed.
    Allowlist,
    /// The host's network.
    Full,
}

/// The run's environment variables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Environment {
    /// Names that are passed on from the server's environment when set there.
    pub pass: Vec<String>,
    /// Names that are set.
    pub set: BTreeMap<String, String>,
}

/// What a run may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Deadline when the caller names none.
    pub timeout: Duration,
    /// The longest deadline a caller can have.
    pub timeout_max: Duration,
    /// Time between the polite and the forceful end.
    pub grace: Duration,
    /// Memory of the whole tree, in MiB.
    pub memory_mib: u64,
    /// Processes and threads of the whole tree.
    pub pids: u64,
    /// Processors, as a fraction.
    pub cpus: f64,
    /// Largest file, in MiB.
    pub file_size_mib: u64,
    /// Open descriptors per process.
    pub open_files: u64,
    /// Output kept per stream in the reply, in KiB.
    pub output_kib: u64,
    /// Output spilled to a file per stream, in MiB.
    pub output_file_mib: u64,
    /// Growth of the workspace by one run, in MiB.
    pub disk_mib: u64,
}

/// Settings of the container backend.
#[derive(Clone, Debug, PartialEq)]
pub struct Container {
    /// Image reference.
    pub image: String,
    /// OCI runtime.
    pub runtime: String,
    /// `uid:gid` inside.
    pub user: String,
}

/// Settings of the host backend.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// How the host backend confines.
    pub confinement: Confinement,
}

/// How the host backend confines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Confinement {
    /// Landlock, seccomp and, where the kernel allows, own namespaces.
    Landlock,
    /// The separate birdcage helper.
    Birdcage,
    /// Nothing; every call must be approved.
    None,
}

/// Which Python is used.
#[derive(Clone, Debug, PartialEq)]
pub struct Python {
    /// `None` is `auto`: the workspace's `.venv`, else `python3` as the server's `PATH` finds it.
    pub interpreter: Option<PathBuf>,
}

/// Settings of the uv tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Uv {
    /// Subcommands that may be called.
    pub subcommands: Vec<String>,
}

/// Settings of the warm pool.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// One-use sandboxes kept started per active workspace; 0 is off.
    pub warm: u32,
    /// How long an unused one is kept.
    pub idle: Duration,
}

/// One line of `[approval]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRule {
    /// About which tools.
    pub tool: ToolPattern,
    /// When a person must agree.
    pub when: ApprovalWhen,
}

/// When a person must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalWhen {
    /// Never.
    Never,
    /// When the run would not be sandboxed.
    Unsandboxed,
    /// When a path outside the allowed roots is touched.
    Outside,
    /// Every time.
    Always,
}

impl ApprovalWhen {
    /// The name used in profiles and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Unsandboxed => "unsandboxed",
            Self::Outside => "outside",
            Self::Always => "always",
        }
    }
}
