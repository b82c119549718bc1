//! Whether a repository's configuration, made by a run, is plain: no hooks and nothing that makes
//! git execute a program or read a file that it names.
//!
//! Reads bytes of a hostile workspace, bounded; runs nothing. What it does not know is not plain.

use std::{
    io::Read,
    path::{Component, Path},
};

use cofferdam_fs::{Descend, EntryKind, WalkLimits, WalkMemory, Workspace};

/// Largest configuration that is looked at.
const MOST_BYTES: u64 = 64 * 1024;

/// Keys that only say how the repository is laid out and where it came from.
const PLAIN_KEYS: [(&str, &[&str]); 3] = [
    (
        "core",
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
        ],
    ),
    ("remote", &["url", "fetch"]),
    ("branch", &["remote", "merge"]),
];

/// Whether the entry at `path` may stay: a plain `.git/config`, hooks that are all samples, or the
/// attributes file of git's template.
pub(crate) fn is_plain(workspace: &Workspace, path: &Path, kind: EntryKind) -> bool {
    let names: Vec<_> = path
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    match (names.as_slice(), kind) {
        ([.., ".git", "config"], EntryKind::File) => {
            read(workspace, path).is_some_and(|text| is_plain_config(&text))
        }
        ([.., ".git", "hooks"], EntryKind::Directory) => only_samples(workspace, path),
        _ => false,
    }
}

fn read(workspace: &Workspace, path: &Path) -> Option<String> {
    let (file, _) = workspace.open_regular(path).ok()?;
    let mut text = String::new();
    let length = file.take(MOST_BYTES + 1).read_to_string(&mut text).ok()?;
    (length as u64 <= MOST_BYTES).then_some(text)
}

fn is_plain_config(text: &str) -> bool {
    let mut allowed: Option<&[&str]> = None;
    text.lines().map(str::trim).filter(|line| !line.is_empty()).all(|line| {
        if line.starts_with(['#', ';']) {
            return true;
        }
        // A value that goes on in the next line would hide what that line is.
        if line.ends_with('\\') {
            return false;
        }
        if line.starts_with('[') {
            let name = section(line).map(str::to_ascii_lowercase);
            let known = PLAIN_KEYS.iter().find(|(known, _)| Some(*known) == name.as_deref());
            allowed = known.map(|(_, keys)| *keys);
            return allowed.is_some();
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let key = key.trim().to_ascii_lowercase();
        // `ext::` and other transports with a colon pair start programs, and quotes would hide it.
        let plain = !value.contains("::") && !value.contains(['"', '\\']);
        allowed.is_some_and(|keys| keys.contains(&key.as_str())) && plain
    })
}

/// The name of a section, of a line that is nothing else: `[core]`, `[remote "origin"]`.
fn section(line: &str) -> Option<&str> {
    let inner = line.strip_prefix('[')?.strip_suffix(']')?;
    let (name, rest) = inner.split_once(' ').unwrap_or((inner, ""));
    let sub = rest.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_sub = |sub: &str| !sub.contains(['"', '\\', '[', ']']);
    (is_name && (rest.is_empty() || sub.is_some_and(is_sub))).then_some(name)
}

fn only_samples(workspace: &Workspace, hooks: &Path) -> bool {
    let mut plain = true;
    let limits = WalkLimits { depth: 128, entries: 2_000_000 };
    let memory = &mut WalkMemory::default();
    let below = |path: &Path, _| path.starts_with(hooks);
    let walked = workspace.walk(limits, memory, below, |entry| {
        if hooks.starts_with(entry.path) {
            return Descend::Into;
        }
        if entry.path.starts_with(hooks) {
            let is_sample = entry.path.extension().is_some_and(|end| end == "sample");
            plain &= is_sample && entry.kind == EntryKind::File;
        }
        Descend::Past
    });
    plain && walked.is_ok_and(|walked| walked.complete && walked.opaque.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_clone_writes_is_plain() {
        assert!(is_plain_config(
            "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
             [remote \"origin\"]\n\turl = https://example.org/a.git\n\
             \tfetch = +refs/heads/*:refs/remotes/origin/*\n\
             [branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n"
        ));
    }

    #[test]
    fn whatever_starts_programs_is_not_plain() {
        for config in [
            "[core]\n\tfsmonitor = evil",
            "[core]\n\thooksPath = x",
            "[core]\n\tsshCommand = evil",
            "[filter \"x\"]\n\tclean = evil",
            "[remote \"o\"]\n\turl = ext::evil",
            "[remote \"o\"]\n\tuploadpack = evil",
            "[core] fsmonitor = evil",
            "[remote \"a\"] [core] fsmonitor = \"evil; false\" #]",
            "[remote \"o\"]\n\turl = \"ext:\":sh",
            "[remote \"a\\\"]\" ]",
            "[include]\n\tpath = x",
            "[remote \"o\"]\n\turl = a \\\n[core]\n\tfsmonitor = x",
            "fsmonitor = x",
        ] {
            assert!(!is_plain_config(config), "{config}");
        }
    }
}
