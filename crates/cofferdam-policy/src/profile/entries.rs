//! A resolved profile as the keys and values of its file, in the order of the file.

use serde_json::{Value, json};

use super::resolved::{
    ApprovalRule, Environment, Filesystem, Limits, Network, PathGrant, Pool, Profile,
};
use crate::{
    document::{Entry, shown_duration},
    enforcement::Dimension,
};

impl Profile {
    /// Every value of the profile under the key that an admin writes: each key once, none left out
    /// but its name, which is the file's. Printed as TOML and loaded again, it is the same profile.
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = vec![
            Entry::new("", "description", self.description.as_str()),
            Entry::new("", "backends", serialized(&self.backends)),
        ];
        entries.extend(Dimension::ALL.map(|dimension| {
            let strength = self.require.get(dimension).as_str();
            Entry::new("require", dimension.as_str(), strength)
        }));
        entries.extend(filesystem(&self.filesystem));
        entries.extend(network(&self.network));
        entries.extend(environment(&self.environment));
        entries.extend(limits(&self.limits));
        let interpreter = self.python.interpreter.as_ref();
        entries.extend([
            Entry::new("container", "image", self.container.image.as_str()),
            Entry::new("container", "runtime", self.container.runtime.as_str()),
            Entry::new("container", "user", self.container.user.as_str()),
            Entry::new("host", "confinement", serialized(&self.host.confinement)),
            Entry::new(
                "python",
                "interpreter",
                interpreter.map_or(json!("auto"), |path| json!(path.to_string_lossy())),
            ),
            Entry::new("uv", "subcommands", json!(self.uv.subcommands)),
        ]);
        entries.extend(pool(&self.pool));
        entries.extend(self.approval.iter().map(|ApprovalRule { tool, when }| {
            Entry::new("approval", tool.as_str(), when.as_str())
        }));
        entries
    }
}

fn filesystem(filesystem: &Filesystem) -> [Entry; 8] {
    const TABLE: &str = "filesystem";
    [
        Entry::new(TABLE, "workspace", serialized(&filesystem.workspace)),
        Entry::new(TABLE, "read", grants(&filesystem.read)),
        Entry::new(TABLE, "write", grants(&filesystem.write)),
        Entry::new(TABLE, "protect", json!(filesystem.protect)),
        Entry::new(TABLE, "deny", json!(filesystem.deny)),
        Entry::new(TABLE, "allow_new_repositories", filesystem.allow_new_repositories),
        Entry::new(TABLE, "tmp_mib", filesystem.tmp_mib),
        Entry::new(TABLE, "scratch_home", filesystem.scratch_home),
    ]
}

fn grants(grants: &[PathGrant]) -> Value {
    let grant =
        |grant: &PathGrant| json!({ "path": grant.path.to_string_lossy(), "why": grant.why });
    grants.iter().map(grant).collect()
}

fn network(network: &Network) -> [Entry; 3] {
    [
        Entry::new("network", "mode", serialized(&network.mode)),
        Entry::new("network", "allow", json!(network.allow)),
        Entry::new("network", "deny_private", network.deny_private),
    ]
}

fn environment(environment: &Environment) -> Vec<Entry> {
    let set = environment.set.iter();
    std::iter::once(Entry::new("environment", "pass", json!(environment.pass)))
        .chain(set.map(|(name, value)| Entry::new("environment.set", name, value.as_str())))
        .collect()
}

fn limits(limits: &Limits) -> [Entry; 11] {
    const TABLE: &str = "limits";
    [
        Entry::new(TABLE, "timeout", shown_duration(limits.timeout)),
        Entry::new(TABLE, "timeout_max", shown_duration(limits.timeout_max)),
        Entry::new(TABLE, "grace", shown_duration(limits.grace)),
        Entry::new(TABLE, "memory_mib", limits.memory_mib),
        Entry::new(TABLE, "pids", limits.pids),
        Entry::new(TABLE, "cpus", limits.cpus),
        Entry::new(TABLE, "file_size_mib", limits.file_size_mib),
        Entry::new(TABLE, "open_files", limits.open_files),
        Entry::new(TABLE, "output_kib", limits.output_kib),
        Entry::new(TABLE, "output_file_mib", limits.output_file_mib),
        Entry::new(TABLE, "disk_mib", limits.disk_mib),
    ]
}

fn pool(pool: &Pool) -> [Entry; 2] {
    [Entry::new("pool", "warm", pool.warm), Entry::new("pool", "idle", shown_duration(pool.idle))]
}

/// A word of a closed set, or a list of them, as it is written.
fn serialized(value: &impl serde::Serialize) -> Value {
    // Words serialize to themselves: nothing about them can fail.
    serde_json::to_value(value).unwrap_or_default()
}
