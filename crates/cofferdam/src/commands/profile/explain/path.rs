//! What a run may do with a path.

use std::path::{Path, PathBuf};

use cofferdam_policy::{
    BackendKind, CarveOut, Dimension,
    explain::{self, CarvedOut, PathAccess, PathExplanation, PathFacts, PathRule},
    profile::Access,
};
use serde_json::{Value, json};

use super::{super::plain, Subject, shown};

/// What was found about a path.
pub(super) struct ExplainedPath {
    path: PathBuf,
    explained: PathExplanation,
}

pub(super) fn explain(path: &Path, subject: &Subject<'_>) -> ExplainedPath {
    let path = subject.workspace.join(path);
    let facts = PathFacts {
        workspace: &subject.workspace,
        read_whitelist: &subject.config.workspace.read_whitelist_paths,
        write_whitelist: &subject.config.workspace.write_whitelist_paths,
        // Which interpreter a run uses is found out when it starts.
        runtime: &[],
    };
    let explained = explain::path(&path, &subject.loaded.profile, &facts);
    ExplainedPath { path, explained }
}

impl ExplainedPath {
    pub(super) fn text(&self, subject: &Subject<'_>) -> String {
        let verdict = match (self.explained.access, self.explained.granted) {
            (_, Some(PathRule::Own)) => "is each run's own, in memory: it is not this machine's",
            (_, Some(PathRule::Unconfined)) => "is as open to a run as to the server itself",
            (PathAccess::None, _) => "can be neither read nor changed by a run",
            (PathAccess::Read, _) => "can be read by a run, and not changed",
            (PathAccess::Write, _) => "can be read and changed by a run",
        };
        let mut text = format!("`{}` {verdict}.\n", shown(&self.path));
        match self.explained.granted {
            Some(PathRule::Own) => {}
            Some(rule) => text.push_str(&format!("  granted    {}\n", granted(rule, subject))),
            None => text.push_str(
                "  granted    by nothing: it lies neither in the workspace nor in what the profile \
                 or a whitelist grants\n",
            ),
        }
        if let Some(carved) = &self.explained.carved_out {
            text.push_str(&format!("  carved out {}\n", carved_out(carved, subject)));
        }
        if self.explained.granted.is_none() {
            text.push_str(
                "note: what the tool's own interpreter needs is granted beside this when a run \
                 starts\n",
            );
            if subject.loaded.profile.backends.contains(&BackendKind::Container) {
                text.push_str("note: a container's image has files of its own at any path\n");
            }
        }
        text.push_str(&subject.how_it_is_held(Dimension::Files));
        if self.explained.granted.is_none() {
            let entry = format!(
                "`{{ path = \"{}\", why = \"…\" }}` to `filesystem.read` or `filesystem.write`",
                shown(&self.path)
            );
            text.push_str(&subject.how_to_add(&entry));
        }
        text.extend(match self.explained.granted {
            Some(PathRule::ReadWhitelist(_)) => {
                subject.not_enforced(&["workspace.read_whitelist_paths"])
            }
            Some(PathRule::WriteWhitelist(_)) => {
                subject.not_enforced(&["workspace.write_whitelist_paths"])
            }
            _ => None,
        });
        text
    }

    pub(super) fn value(&self, subject: &Subject<'_>) -> Value {
        let access = match self.explained.access {
            PathAccess::None => "none",
            PathAccess::Read => "read",
            PathAccess::Write => "write",
        };
        let granted = self.explained.granted.map(|rule| {
            let (by, entry) = entry(rule, subject);
            let origin = key(rule).map(|key| subject.origins.value(&key));
            json!({ "by": by, "entry": entry, "origin": origin })
        });
        let carved = self.explained.carved_out.as_ref().map(|carved| {
            let origin = carved_key(carved).map(|key| subject.origins.value(&key));
            json!({ "by": list(carved), "glob": carved.glob, "origin": origin })
        });
        json!({
            "path": self.path.to_string_lossy(),
            "access": access,
            "granted": granted,
            "carved_out": carved,
        })
    }
}

/// Name of the list, and the entry of it.
fn entry(rule: PathRule, subject: &Subject<'_>) -> (&'static str, Option<String>) {
    let filesystem = &subject.loaded.profile.filesystem;
    let workspace = &subject.config.workspace;
    let shown = |path: &PathBuf| path.to_string_lossy().into_owned();
    match rule {
        PathRule::Workspace => ("workspace", Some(shown(&subject.workspace))),
        PathRule::Write(index) => {
            ("filesystem.write", filesystem.write.get(index).map(|grant| shown(&grant.path)))
        }
        PathRule::Read(index) => {
            ("filesystem.read", filesystem.read.get(index).map(|grant| shown(&grant.path)))
        }
        PathRule::WriteWhitelist(index) => {
            let entry = workspace.write_whitelist_paths.get(index);
            ("workspace.write_whitelist_paths", entry.map(shown))
        }
        PathRule::ReadWhitelist(index) => {
            let entry = workspace.read_whitelist_paths.get(index);
            ("workspace.read_whitelist_paths", entry.map(shown))
        }
        PathRule::Runtime(_) => ("runtime", None),
        PathRule::Own => ("own", None),
        PathRule::Unconfined => ("host.confinement", None),
    }
}

/// Key of a rule of the profile, as origins spell it.
fn key(rule: PathRule) -> Option<String> {
    match rule {
        PathRule::Workspace => Some("filesystem.workspace".to_owned()),
        PathRule::Write(index) => Some(format!("filesystem.write[{index}]")),
        PathRule::Read(index) => Some(format!("filesystem.read[{index}]")),
        PathRule::Unconfined => Some("host.confinement".to_owned()),
        PathRule::WriteWhitelist(_)
        | PathRule::ReadWhitelist(_)
        | PathRule::Runtime(_)
        | PathRule::Own => None,
    }
}

fn granted(rule: PathRule, subject: &Subject<'_>) -> String {
    let filesystem = &subject.loaded.profile.filesystem;
    let origin = key(rule).map(|key| subject.origins.behind(&key)).unwrap_or_default();
    let (list, entry) = entry(rule, subject);
    let entry = plain(&entry.unwrap_or_default());
    match rule {
        PathRule::Workspace => {
            let access = match filesystem.workspace {
                Access::Read => "read",
                Access::Write => "write",
            };
            format!("in the workspace `{entry}`: `filesystem.workspace` = {access}{origin}")
        }
        PathRule::Write(index) | PathRule::Read(index) => {
            let grants = if matches!(rule, PathRule::Write(_)) {
                &filesystem.write
            } else {
                &filesystem.read
            };
            let why = grants.get(index).map(|grant| plain(&grant.why)).unwrap_or_default();
            format!("`{list}` entry {}, `{entry}`{origin}: {why}", index + 1)
        }
        PathRule::WriteWhitelist(index) | PathRule::ReadWhitelist(index) => {
            format!("`{list}` entry {}, `{entry}` (cofferdam.toml)", index + 1)
        }
        PathRule::Runtime(_) => "the tool's own interpreter needs it".to_owned(),
        PathRule::Own => "every run has its own".to_owned(),
        PathRule::Unconfined => {
            format!("`host.confinement` = none{origin}: nothing confines a run")
        }
    }
}

fn list(carved: &CarvedOut) -> &'static str {
    match (carved.kind, carved.index) {
        (_, None) => "quarantine",
        (CarveOut::Protect, Some(_)) => "filesystem.protect",
        (CarveOut::Deny, Some(_)) => "filesystem.deny",
    }
}

fn carved_key(carved: &CarvedOut) -> Option<String> {
    carved.index.map(|index| format!("{}[{index}]", list(carved)))
}

fn carved_out(carved: &CarvedOut, subject: &Subject<'_>) -> String {
    let origin = carved_key(carved).map(|key| subject.origins.behind(&key)).unwrap_or_default();
    let what = match carved.kind {
        CarveOut::Protect => "may be read, never changed, renamed away or created",
        CarveOut::Deny => "may be neither read nor changed",
    };
    match carved.index {
        None => format!("`{}` holds what was moved out of place: {what}", plain(&carved.glob)),
        Some(_) => format!("`{}` `{}`{origin}: {what}", list(carved), plain(&carved.glob)),
    }
}
