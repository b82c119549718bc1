//! A profile as an admin writes it: one field per key of the file, nothing decided.
//!
//! These types are the only list of known keys, their bounds and their examples: the JSON Schema
//! and the errors are made from them. What the values mean is decided in `resolve`.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;

use super::resolved::{Access, ApprovalWhen, BackendKind, Confinement, NetworkMode};
use crate::{document::Lines, enforcement::Strength};

/// A sandbox profile, `sandbox-profiles/<name>.toml`.
///
/// Strict: an unknown key is an error.
// Only `parse` makes one (the fields are this module's), so every value has the type and the bounds
// that the schema says.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Cofferdam sandbox profile")]
pub struct RawProfile {
    /// One sentence for people.
    #[schemars(example = &"Run code on the workspace, with no way out.")]
    pub(super) description: Option<String>,
    /// Name of a profile whose values serve where this file has none. One level only.
    #[schemars(example = &"base")]
    pub(super) extends: Option<String>,
    /// Backends that may be used, most wanted first. A call may pick only from these.
    #[schemars(example = words("bubblewrap"))]
    pub(super) backends: Option<Vec<BackendKind>>,
    /// The least that a backend must hold, per dimension.
    pub(super) require: RawRequire,
    /// What exists for a run.
    pub(super) filesystem: RawFilesystem,
    /// What a run can reach.
    pub(super) network: RawNetwork,
    /// The run's environment variables.
    pub(super) environment: RawEnvironment,
    /// What a run may use.
    pub(super) limits: RawLimits,
    /// Settings of the container backend.
    pub(super) container: RawContainer,
    /// Settings of the host backend.
    pub(super) host: RawHost,
    /// Which Python is used.
    pub(super) python: RawPython,
    /// Settings of the uv tool.
    pub(super) uv: RawUv,
    /// Settings of the warm pool.
    pub(super) pool: RawPool,
    /// When a person must agree, by tool glob. The first match decides; the lines of this file are
    /// read before those of the profile that it extends.
    #[schemars(example = example_entry("*", "unsandboxed"))]
    pub(super) approval: Option<IndexMap<String, ApprovalWhen>>,
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) lines: Lines,
}

/// The least that a backend must hold; see `SECURITY.md` for what each strength means.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Require")]
pub(super) struct RawRequire {
    /// Which files exist for the run.
    pub(super) files: Option<Strength>,
    /// What the run can reach.
    pub(super) network: Option<Strength>,
    /// What the run sees of processes, and whether its tree ends with it.
    pub(super) processes: Option<Strength>,
    /// What the kernel lets the run do.
    pub(super) privileges: Option<Strength>,
    /// How much the run may use.
    pub(super) limits: Option<Strength>,
}

/// What exists for a run.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Filesystem")]
pub(super) struct RawFilesystem {
    /// Whether a run may change the workspace.
    pub(super) workspace: Option<Access>,
    /// Paths that programs need, visible read-only. One that does not exist is left out.
    #[schemars(example = example_grants("/usr", "interpreters and libraries"))]
    pub(super) read: Option<Vec<RawPathGrant>>,
    /// Further paths that a run may change. One that does not exist is left out.
    #[schemars(example = example_grants("/srv/models", "where training leaves its results"))]
    pub(super) write: Option<Vec<RawPathGrant>>,
    /// Globs of what a run may read but never change, rename away or create.
    #[schemars(example = words("**/.git/config"))]
    pub(super) protect: Option<Vec<String>>,
    /// Globs of what a run may neither read nor write.
    #[schemars(example = words("**/.env"))]
    pub(super) deny: Option<Vec<String>>,
    /// Whether a run may leave behind new git repositories, as long as they are plain and have no
    /// hooks.
    pub(super) allow_new_repositories: Option<bool>,
    /// Size of the private `/tmp`, in MiB.
    #[schemars(range(min = 1, max = 16_777_216), example = 256)]
    pub(super) tmp_mib: Option<u64>,
    /// Whether a run has a home directory of its own, in memory.
    pub(super) scratch_home: Option<bool>,
}

/// A path that is granted, with the reason.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PathGrant")]
pub(super) struct RawPathGrant {
    /// Absolute path.
    #[schemars(example = &"/usr")]
    pub(super) path: String,
    /// Why it is granted, for whoever reviews the profile.
    #[schemars(example = &"interpreters and libraries")]
    pub(super) why: String,
}

fn example_entry(name: &str, value: &str) -> serde_json::Value {
    serde_json::json!({ name: value })
}

fn words(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}

fn example_grants(path: &str, why: &str) -> serde_json::Value {
    serde_json::json!([{ "path": path, "why": why }])
}

/// What a run can reach.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Network")]
pub(super) struct RawNetwork {
    /// How much network there is.
    pub(super) mode: Option<NetworkMode>,
    /// What may be reached in mode `allowlist`: `host:port`, `*.domain:port`, or a group.
    #[schemars(example = words("example.org:443"))]
    pub(super) allow: Option<Vec<String>>,
    /// Refuse loopback, link-local, metadata and private addresses, checked after resolution.
    pub(super) deny_private: Option<bool>,
}

/// The run's environment variables; nothing else of the server's environment is ever visible.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Environment")]
pub(super) struct RawEnvironment {
    /// Names that are passed on when the server has them.
    #[schemars(example = words("LANG"))]
    pub(super) pass: Option<Vec<String>>,
    /// Names that are set.
    #[schemars(example = example_entry("PYTHONUNBUFFERED", "1"))]
    pub(super) set: Option<IndexMap<String, String>>,
}

/// What a run may use.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Limits")]
pub(super) struct RawLimits {
    /// Deadline when the caller names none.
    #[schemars(example = &"60s")]
    pub(super) timeout: Option<String>,
    /// The longest deadline that a caller can have.
    #[schemars(example = &"15m")]
    pub(super) timeout_max: Option<String>,
    /// Time between the polite and the forceful end.
    #[schemars(example = &"100ms")]
    pub(super) grace: Option<String>,
    /// Memory of the whole tree, in MiB, memory file systems included.
    #[schemars(range(min = 1, max = 16_777_216), example = 1024)]
    pub(super) memory_mib: Option<u64>,
    /// Processes and threads of the whole tree.
    #[schemars(range(min = 1, max = 4_194_304), example = 128)]
    pub(super) pids: Option<u64>,
    /// Processors; a fraction is a share of one.
    #[schemars(range(min = 0.01, max = 4096.0), example = 1.0)]
    pub(super) cpus: Option<f64>,
    /// Largest file, in MiB.
    #[schemars(range(min = 1, max = 16_777_216), example = 512)]
    pub(super) file_size_mib: Option<u64>,
    /// Open descriptors per process.
    #[schemars(range(min = 16, max = 1_048_576), example = 512)]
    pub(super) open_files: Option<u64>,
    /// Output kept per stream in the reply, in KiB.
    #[schemars(range(min = 1, max = 4096), example = 64)]
    pub(super) output_kib: Option<u64>,
    /// Output spilled to a file per stream, in MiB. 0 spills nothing.
    #[schemars(range(min = 0, max = 1_048_576), example = 64)]
    pub(super) output_file_mib: Option<u64>,
    /// Growth of the workspace by one run, in MiB.
    #[schemars(range(min = 1, max = 16_777_216), example = 1024)]
    pub(super) disk_mib: Option<u64>,
}

/// Settings of the container backend.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Container")]
pub(super) struct RawContainer {
    /// Image reference, by digest in production. Never pulled during a call.
    #[schemars(example = &"cofferdam/python:3")]
    pub(super) image: Option<String>,
    /// Any runtime that the engine knows: `runc`, `crun`, `runsc` (gVisor), `kata`.
    #[schemars(example = &"runc")]
    pub(super) runtime: Option<String>,
    /// User and group inside, as `uid:gid`; never uid 0.
    #[schemars(example = &"65534:65534")]
    pub(super) user: Option<String>,
}

/// Settings of the host backend.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Host")]
pub(super) struct RawHost {
    /// How the host backend confines.
    pub(super) confinement: Option<Confinement>,
}

/// Which Python is used.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Python")]
pub(super) struct RawPython {
    /// `auto` (the workspace's `.venv`, else `python3` as the server's `PATH` finds it), or the
    /// absolute path of an interpreter.
    #[schemars(example = &"auto")]
    pub(super) interpreter: Option<String>,
}

/// Settings of the uv tool.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Uv")]
pub(super) struct RawUv {
    /// Subcommands that may be called.
    #[schemars(example = words("run add sync"))]
    pub(super) subcommands: Option<Vec<String>>,
}

/// Settings of the warm pool.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Pool")]
pub(super) struct RawPool {
    /// One-use sandboxes kept started per active workspace; 0 is off.
    #[schemars(range(min = 0, max = 64), example = 1)]
    pub(super) warm: Option<u32>,
    /// How long an unused one is kept.
    #[schemars(example = &"2m")]
    pub(super) idle: Option<String>,
}
