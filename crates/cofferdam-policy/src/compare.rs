//! How two profiles differ, value by value, and which of them allows more.
//!
//! Compared are resolved values, so it does not matter how they were written. "Tighter" is claimed
//! only where nothing can have become allowed, "wider" only where nothing can have become forbidden.
//! What cannot be ordered is said to be unclear, and counts as wider where somebody is to be warned.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use indexmap::IndexMap;
use serde_json::{Value, json};

use crate::{
    document::Entry,
    enforcement::Dimension,
    hosts::HostPattern,
    profile::{Access, ApprovalRule, ApprovalWhen, Confinement, NetworkMode, PathGrant, Profile},
};

/// One key whose values differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The dotted key.
    pub key: String,
    /// The value before; `None` when the key is new.
    pub before: Option<Value>,
    /// The value after; `None` when the key is gone.
    pub after: Option<Value>,
    /// What the change means for what code may do.
    pub change: Change,
}

/// What a change means for what code may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// More is allowed.
    Wider,
    /// Less is allowed.
    Tighter,
    /// More in one way and less in another.
    Both,
    /// It matters, and neither can be said.
    Unclear,
    /// It does not matter for what code may do.
    Neutral,
}

impl Change {
    /// The name used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wider => "wider",
            Self::Tighter => "tighter",
            Self::Both => "wider and tighter",
            Self::Unclear => "unclear",
            Self::Neutral => "neutral",
        }
    }

    /// Whether something may have become allowed that was not.
    pub fn may_allow_more(self) -> bool {
        matches!(self, Self::Wider | Self::Both | Self::Unclear)
    }

    fn of(wider: bool, tighter: bool) -> Self {
        match (wider, tighter) {
            (true, true) => Self::Both,
            (true, false) => Self::Wider,
            (false, true) => Self::Tighter,
            (false, false) => Self::Neutral,
        }
    }

    /// Of values of which the greater one allows more.
    fn growing<T: PartialOrd>(before: T, after: T) -> Self {
        Self::of(after > before, after < before)
    }
}

impl Difference {
    /// The entries that a list got and lost, when both values are lists.
    pub fn entries(&self) -> Option<(Vec<&Value>, Vec<&Value>)> {
        let (before, after) = (self.before.as_ref()?.as_array()?, self.after.as_ref()?.as_array()?);
        // Texts, so that long lists need not be compared each with each.
        let texts = |list: &[Value]| list.iter().map(Value::to_string).collect();
        let (had, has): (HashSet<String>, HashSet<String>) = (texts(before), texts(after));
        let added = after.iter().filter(|entry| !had.contains(&entry.to_string())).collect();
        let removed = before.iter().filter(|entry| !has.contains(&entry.to_string())).collect();
        Some((added, removed))
    }
}

/// All keys whose values differ, in the order of the file. Names are not compared.
pub fn compare(before: &Profile, after: &Profile) -> Vec<Difference> {
    let (was, is) = (before.entries(), after.entries());
    let mut differences = Vec::new();
    // `[approval]` is one value: its rules mean something only together and in order.
    let single = |entries: &[Entry]| -> IndexMap<String, Value> {
        let entries = entries.iter().filter(|entry| entry.table != APPROVAL);
        entries.map(|entry| (entry.key(), entry.value.clone())).collect()
    };
    let (mut was, is) = (single(&was), single(&is));
    for (key, value) in is {
        let old = was.shift_remove(&key);
        if old.as_ref() != Some(&value) {
            let change = change(&key, before, after);
            differences.push(Difference { key, before: old, after: Some(value), change });
        }
    }
    differences.extend(was.into_iter().map(|(key, value)| {
        let change = change(&key, before, after);
        Difference { key, before: Some(value), after: None, change }
    }));
    if before.approval != after.approval {
        let rules = |profile: &Profile| {
            let rule = |rule: &ApprovalRule| json!({ rule.tool.as_str(): rule.when.as_str() });
            Some(profile.approval.iter().map(rule).collect())
        };
        differences.push(Difference {
            key: APPROVAL.to_owned(),
            before: rules(before),
            after: rules(after),
            change: approval(&before.approval, &after.approval),
        });
    }
    differences
}

/// The values by which a profile may allow more than the one it extends.
pub fn widened(parent: &Profile, child: &Profile) -> Vec<Difference> {
    let mut differences = compare(parent, child);
    differences.retain(|difference| difference.change.may_allow_more());
    differences
}

const APPROVAL: &str = "approval";

fn change(key: &str, before: &Profile, after: &Profile) -> Change {
    let (files, new_files) = (&before.filesystem, &after.filesystem);
    let (limits, new_limits) = (&before.limits, &after.limits);
    match key {
        "backends" => {
            let names = |profile: &Profile| -> Vec<_> {
                profile.backends.iter().map(|kind| kind.as_str()).collect()
            };
            match words(&names(before), &names(after)) {
                // Another order: another one may be chosen first.
                Change::Neutral => Change::Unclear,
                change => change,
            }
        }
        "filesystem.workspace" => {
            let writes = |access| access == Access::Write;
            Change::growing(writes(files.workspace), writes(new_files.workspace))
        }
        "filesystem.read" => grants(&files.read, &new_files.read),
        "filesystem.write" => grants(&files.write, &new_files.write),
        // The more rules, the less is allowed.
        "filesystem.protect" => words(&new_files.protect, &files.protect),
        "filesystem.deny" => words(&new_files.deny, &files.deny),
        "filesystem.allow_new_repositories" => {
            Change::growing(files.allow_new_repositories, new_files.allow_new_repositories)
        }
        "filesystem.tmp_mib" => Change::growing(files.tmp_mib, new_files.tmp_mib),
        "filesystem.scratch_home" => Change::growing(files.scratch_home, new_files.scratch_home),
        "network.mode" => {
            let reach = |mode| match mode {
                NetworkMode::None => 0,
                NetworkMode::Allowlist => 1,
                NetworkMode::Full => 2,
            };
            Change::growing(reach(before.network.mode), reach(after.network.mode))
        }
        "network.allow" => hosts(&before.network.allow, &after.network.allow),
        "network.deny_private" => {
            Change::growing(!before.network.deny_private, !after.network.deny_private)
        }
        "environment.pass" => words(&before.environment.pass, &after.environment.pass),
        "limits.timeout" => Change::growing(limits.timeout, new_limits.timeout),
        "limits.timeout_max" => Change::growing(limits.timeout_max, new_limits.timeout_max),
        "limits.grace" => Change::growing(limits.grace, new_limits.grace),
        "limits.memory_mib" => Change::growing(limits.memory_mib, new_limits.memory_mib),
        "limits.pids" => Change::growing(limits.pids, new_limits.pids),
        "limits.cpus" => Change::growing(limits.cpus, new_limits.cpus),
        "limits.file_size_mib" => Change::growing(limits.file_size_mib, new_limits.file_size_mib),
        "limits.open_files" => Change::growing(limits.open_files, new_limits.open_files),
        "limits.output_kib" => Change::growing(limits.output_kib, new_limits.output_kib),
        "limits.output_file_mib" => {
            Change::growing(limits.output_file_mib, new_limits.output_file_mib)
        }
        "limits.disk_mib" => Change::growing(limits.disk_mib, new_limits.disk_mib),
        "host.confinement" => {
            // What either of the two holds, the other need not.
            let loose = |confinement| confinement == Confinement::None;
            match Change::growing(loose(before.host.confinement), loose(after.host.confinement)) {
                Change::Neutral => Change::Unclear,
                change => change,
            }
        }
        "uv.subcommands" => words(&before.uv.subcommands, &after.uv.subcommands),
        "description" | "pool.warm" | "pool.idle" => Change::Neutral,
        key if key.starts_with("environment.set.") => Change::Neutral,
        key => match key.strip_prefix("require.") {
            Some(name) => {
                let dimension = Dimension::ALL.into_iter().find(|one| one.as_str() == name);
                dimension.map_or(Change::Unclear, |dimension| {
                    // Less required is more allowed.
                    let required = |profile: &Profile| profile.require.get(dimension);
                    Change::growing(required(after), required(before))
                })
            }
            // Another image, runtime, user or interpreter is another world.
            None => Change::Unclear,
        },
    }
}

/// Of lists that allow what they name, in whatever order.
fn words<T: AsRef<str>>(before: &[T], after: &[T]) -> Change {
    let set = |list| -> HashSet<&str> { texts(list).collect() };
    let (was, is) = (set(before), set(after));
    Change::of(!is.is_subset(&was), !was.is_subset(&is))
}

fn texts<T: AsRef<str>>(list: &[T]) -> impl Iterator<Item = &str> {
    list.iter().map(AsRef::as_ref)
}

/// Of grants, each of which is about everything below its path.
fn grants(before: &[PathGrant], after: &[PathGrant]) -> Change {
    let set = |list: &[PathGrant]| -> HashSet<_> {
        list.iter().map(|grant| grant.path.clone()).collect()
    };
    let covered = |by: &HashSet<PathBuf>, grant: &PathGrant| {
        grant.path.ancestors().any(|path: &Path| by.contains(path))
    };
    let (was, is) = (set(before), set(after));
    Change::of(
        !after.iter().all(|grant| covered(&was, grant)),
        !before.iter().all(|grant| covered(&is, grant)),
    )
}

/// Of `network.allow`.
fn hosts(before: &[String], after: &[String]) -> Change {
    let (was, is): (HashSet<&str>, HashSet<&str>) =
        (texts(before).collect(), texts(after).collect());
    let covered = |by: &HashSet<&str>, entry: &String| {
        by.contains(entry.as_str())
            || HostPattern::parse(entry)
                .is_some_and(|pattern| pattern.wider().any(|wider| by.contains(wider.as_str())))
    };
    Change::of(
        !after.iter().all(|entry| covered(&was, entry)),
        !before.iter().all(|entry| covered(&is, entry)),
    )
}

/// Of lists of rules of which the first match decides.
fn approval(before: &[ApprovalRule], after: &[ApprovalRule]) -> Change {
    if never_asks_less(before, after) {
        return Change::Tighter;
    }
    if never_asks_less(after, before) {
        return Change::Wider;
    }
    Change::Unclear
}

/// Whether `after` is `before` with rules that became stricter, and with others put between them that
/// ask at least as much as any that was there. Then no tool can be asked about less.
fn never_asks_less(before: &[ApprovalRule], after: &[ApprovalRule]) -> bool {
    let strictest = before.iter().map(|rule| strictness(rule.when)).max();
    // What no rule is about is asked about as if by this one.
    let strictest = strictest.max(Some(strictness(ApprovalWhen::Unsandboxed)));
    let mut before = before.iter().peekable();
    for rule in after {
        let same = before
            .next_if(|old| old.tool == rule.tool && strictness(old.when) <= strictness(rule.when));
        if same.is_none() && Some(strictness(rule.when)) < strictest {
            return false;
        }
    }
    before.next().is_none()
}

/// Each asks whenever those below it do.
fn strictness(when: ApprovalWhen) -> u8 {
    match when {
        ApprovalWhen::Never => 0,
        ApprovalWhen::Unsandboxed => 1,
        ApprovalWhen::Outside => 2,
        ApprovalWhen::Always => 3,
    }
}

#[cfg(test)]
mod tests;
