//! Why a tool may run, a path be touched, a host be reached: which rule decides, and what it says.
//!
//! Facts in, an explanation out, made by the same decisions that calls go through; where the rules
//! are written is known by whoever read them, so rules are named by key and index. Nothing is looked
//! up: whether a path exists, or where a name leads, is not asked.

use std::path::{Path, PathBuf};

use crate::{
    approval::ApprovalReason,
    carve_outs::{CarveOut, QUARANTINE},
    grant::{CommandPlan, Decision, Program, authorize},
    hosts::{HostPattern, HostPort},
    profile::{Access, BackendKind, Confinement, NetworkMode, Profile},
};

/// What is decided about a tool under a profile, once it is served at all
/// ([`ToolRules::decide`](crate::ToolRules::decide)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolExplanation {
    /// Index of the rule of `[approval]` that decides; `None` when there is none for it.
    pub rule: Option<usize>,
    /// The backends that may be used, most wanted first, each with why a person would have to agree.
    pub backends: Vec<(BackendKind, Option<ApprovalReason>)>,
}

/// Explains what is decided about a run of a tool that starts in the workspace.
pub fn tool(tool: &str, profile: &Profile, workspace: &Path) -> ToolExplanation {
    let plan = CommandPlan {
        tool: tool.to_owned(),
        program: Program::Command(Vec::new()),
        working_directory: workspace.to_owned(),
        workspace: workspace.to_owned(),
        runtime: Vec::new(),
        runtime_path: Vec::new(),
        runtime_environment: Vec::new(),
        timeout: None,
        without_deadline: false,
        backend: None,
    };
    let reason = |kind: BackendKind| {
        let plan = CommandPlan { backend: Some(kind.as_str().to_owned()), ..plan.clone() };
        match authorize(plan, profile, 0, &[kind]) {
            Ok(Decision::NeedsApproval(pending)) => Some(pending.reason().clone()),
            // A backend that the profile lists is not refused.
            Ok(Decision::Granted(_)) | Err(_) => None,
        }
    };
    ToolExplanation {
        rule: profile.approval.iter().position(|rule| rule.tool.matches(tool)),
        backends: profile.backends.iter().map(|kind| (*kind, reason(*kind))).collect(),
    }
}

/// What else is known of the folders that runs see. All paths are absolute.
#[derive(Clone, Copy, Debug)]
pub struct PathFacts<'a> {
    /// The workspace.
    pub workspace: &'a Path,
    /// `workspace.read_whitelist_paths` of the configuration.
    pub read_whitelist: &'a [PathBuf],
    /// `workspace.write_whitelist_paths` of the configuration.
    pub write_whitelist: &'a [PathBuf],
    /// What the program's own runtime needs.
    pub runtime: &'a [PathBuf],
}

/// What a run may do with a path, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathExplanation {
    /// What it may do in the end.
    pub access: PathAccess,
    /// What grants it.
    pub granted: Option<PathRule>,
    /// What takes it away again, inside what is granted.
    pub carved_out: Option<CarvedOut>,
}

/// What a run may do with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathAccess {
    /// Nothing.
    None,
    /// Read it.
    Read,
    /// Read and change it.
    Write,
}

/// What grants a path. Lists are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathRule {
    /// It lies in the workspace: `filesystem.workspace`.
    Workspace,
    /// An entry of `filesystem.write`.
    Write(usize),
    /// An entry of `workspace.write_whitelist_paths`.
    WriteWhitelist(usize),
    /// An entry of `workspace.read_whitelist_paths`.
    ReadWhitelist(usize),
    /// An entry of `filesystem.read`.
    Read(usize),
    /// The program's own runtime.
    Runtime(usize),
    /// Every run has its own there, in memory; it is not this machine's.
    Own,
    /// Nothing confines a run: `host.confinement` is `none`, and there is no other backend.
    Unconfined,
}

/// What takes a path away inside what is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarvedOut {
    /// What the rule does.
    pub kind: CarveOut,
    /// Index in `filesystem.protect` or `filesystem.deny`; `None` for the built-in rule about what
    /// was quarantined.
    pub index: Option<usize>,
    /// The glob.
    pub glob: String,
}

/// Where every run has its own: the machine's is not there.
const OWN: [&str; 4] = ["/tmp", "/var/tmp", "/dev", "/proc"];

/// Whether a run on this backend is confined by nothing at all.
pub fn is_unconfined(backend: BackendKind, profile: &Profile) -> bool {
    backend == BackendKind::Host && profile.host.confinement == Confinement::None
}

fn always_unconfined(profile: &Profile) -> bool {
    profile.backends.iter().all(|backend| is_unconfined(*backend, profile))
}

/// Explains what a run may do with an absolute path, as it is spelled.
pub fn path(path: &Path, profile: &Profile, facts: &PathFacts<'_>) -> PathExplanation {
    if always_unconfined(profile) {
        return PathExplanation {
            access: PathAccess::Write,
            granted: Some(PathRule::Unconfined),
            carved_out: None,
        };
    }
    let filesystem = &profile.filesystem;
    let position = |paths: &[PathBuf]| paths.iter().position(|root| path.starts_with(root));
    let grants = |grants: &[crate::profile::PathGrant]| {
        grants.iter().position(|grant| path.starts_with(&grant.path))
    };
    // Folders are mounted over what is only read, and the workspace over everything.
    let granted = path
        .starts_with(facts.workspace)
        .then_some(PathRule::Workspace)
        .or_else(|| grants(&filesystem.write).map(PathRule::Write))
        .or_else(|| position(facts.write_whitelist).map(PathRule::WriteWhitelist))
        .or_else(|| position(facts.read_whitelist).map(PathRule::ReadWhitelist))
        .or_else(|| grants(&filesystem.read).map(PathRule::Read))
        .or_else(|| position(facts.runtime).map(PathRule::Runtime))
        .or_else(|| OWN.iter().any(|own| path.starts_with(own)).then_some(PathRule::Own));
    let access = match granted {
        None => PathAccess::None,
        Some(PathRule::Workspace) if filesystem.workspace == Access::Read => PathAccess::Read,
        Some(PathRule::Workspace | PathRule::Write(_) | PathRule::WriteWhitelist(_)) => {
            PathAccess::Write
        }
        Some(PathRule::ReadWhitelist(_) | PathRule::Read(_) | PathRule::Runtime(_)) => {
            PathAccess::Read
        }
        Some(PathRule::Own | PathRule::Unconfined) => PathAccess::Write,
    };
    let carved_out = match granted {
        Some(
            PathRule::Workspace
            | PathRule::Write(_)
            | PathRule::WriteWhitelist(_)
            | PathRule::ReadWhitelist(_),
        ) => carved_out(path, profile, facts),
        _ => None,
    };
    let left = match carved_out.as_ref().map(|carved| carved.kind) {
        None => PathAccess::Write,
        Some(CarveOut::Protect) => PathAccess::Read,
        Some(CarveOut::Deny) => PathAccess::None,
    };
    PathExplanation { access: access.min(left), granted, carved_out }
}

/// The strongest rule about a path, in whichever of the granted folders it lies.
fn carved_out(path: &Path, profile: &Profile, facts: &PathFacts<'_>) -> Option<CarvedOut> {
    let filesystem = &profile.filesystem;
    if profile.carve_outs.is_empty() {
        return None;
    }
    let write = filesystem.write.iter().map(|grant| grant.path.as_path());
    let listed = facts.write_whitelist.iter().chain(facts.read_whitelist);
    let roots = std::iter::once(facts.workspace).chain(write).chain(listed.map(PathBuf::as_path));
    let within = roots.filter_map(|root| path.strip_prefix(root).ok());
    let rules = within.filter_map(|relative| {
        if relative.starts_with(QUARANTINE) {
            let glob = QUARANTINE.to_owned();
            return Some(CarvedOut { kind: CarveOut::Deny, index: None, glob });
        }
        let (kind, glob) = profile.carve_outs.decide(relative)?;
        let list = match kind {
            CarveOut::Protect => &filesystem.protect,
            CarveOut::Deny => &filesystem.deny,
        };
        let index = list.iter().position(|one| one == glob);
        Some(CarvedOut { kind, index, glob: glob.to_owned() })
    });
    rules.max_by_key(|rule| rule.kind)
}

/// Whether a run may reach a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostExplanation {
    /// No: `network.mode` is `none`.
    NoNetwork,
    /// Yes: `network.mode` is `full`.
    EveryHost,
    /// Yes: nothing confines a run, `host.confinement` is `none`, and there is no other backend.
    Unconfined,
    /// Yes, unless its name leads to a private address and `network.deny_private` is set.
    Listed {
        /// Index in `network.allow`.
        index: usize,
    },
    /// Only if it turns out to be one of a group's when the run starts.
    PerhapsInGroup {
        /// Index of the first group in `network.allow`.
        index: usize,
    },
    /// No: it is a private address by its very name, and `network.deny_private` is set.
    Private {
        /// Index in `network.allow` of what would allow it otherwise.
        index: Option<usize>,
    },
    /// No: nothing in `network.allow` is about it.
    NotListed,
}

/// Explains whether a run may reach a host.
pub fn host(host: &HostPort, profile: &Profile) -> HostExplanation {
    if always_unconfined(profile) {
        return HostExplanation::Unconfined;
    }
    let network = &profile.network;
    match network.mode {
        NetworkMode::None => return HostExplanation::NoNetwork,
        NetworkMode::Full => return HostExplanation::EveryHost,
        NetworkMode::Allowlist => {}
    }
    let patterns = || network.allow.iter().map(|text| HostPattern::parse(text));
    let listed = patterns().position(|one| one.is_some_and(|one| one.matches(host)));
    let group = patterns().position(|one| matches!(one, Some(HostPattern::Group(_))));
    let may_be = listed.or(group).is_some();
    match (listed, group) {
        _ if may_be && network.deny_private && host.is_private() => {
            HostExplanation::Private { index: listed }
        }
        (Some(index), _) => HostExplanation::Listed { index },
        (None, Some(index)) => HostExplanation::PerhapsInGroup { index },
        (None, None) => HostExplanation::NotListed,
    }
}

#[cfg(test)]
mod tests;
