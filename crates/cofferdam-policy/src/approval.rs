//! When a person must agree before a plan may run, and what became of the question.
//!
//! Decided on the plan and not on the tool's name alone: where it would run, what it touches and
//! what it can reach. Not here: asking anybody (the worker) and the rules' own syntax (profiles).

use std::path::{Path, PathBuf};

use crate::{
    document::shown,
    grant::{CommandPlan, Grant},
    profile::{ApprovalRule, ApprovalWhen, BackendKind, Confinement, NetworkMode, Profile},
};

/// Why a person must agree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApprovalReason {
    /// The rule asks every time.
    Always,
    /// The run would have no sandbox.
    Unsandboxed,
    /// The run would work outside the allowed roots.
    OutsidePath(PathBuf),
    /// The run could reach every host.
    EveryHost,
}

/// A plan that may run once a person has agreed, and what it would then be.
///
/// Only [`authorize`](crate::authorize) makes one. It holds the very plan and profile that the
/// [`Grant`] will hold, so that what is approved is what runs. Not `Clone`: one approval is good for
/// one run.
#[derive(Debug)]
#[must_use]
pub struct PendingGrant {
    grant: Grant,
    reason: ApprovalReason,
    rule: Option<String>,
}

/// That a person has agreed, and how they were reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// Through the caller's own client.
    Elicitation,
    /// The owner of the server, over its admin socket.
    Admin,
    /// Whoever typed the command.
    CommandLine,
}

impl Approval {
    /// The name used in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation",
            Self::Admin => "admin",
            Self::CommandLine => "command_line",
        }
    }
}

impl PendingGrant {
    pub(crate) fn new(grant: Grant, reason: ApprovalReason, rule: Option<String>) -> Self {
        Self { grant, reason, rule }
    }

    /// Holds it to the working directory with that device and inode: what has come in its place when
    /// it runs is not entered.
    pub fn held_at(self, directory: (u64, u64)) -> Self {
        Self { grant: self.grant.held_at(directory), ..self }
    }

    /// The working directory that it is held to.
    pub fn directory(&self) -> Option<(u64, u64)> {
        self.grant.directory()
    }

    /// Turns it into permission: the same plan, profile, generation and backend.
    pub fn approve(self, approval: Approval) -> Grant {
        self.grant.approved(approval)
    }

    /// What would run.
    pub fn plan(&self) -> &CommandPlan {
        self.grant.plan()
    }

    /// The profile under which it would run.
    pub fn profile(&self) -> &Profile {
        self.grant.profile()
    }

    /// Which generation of the profiles that is.
    pub fn generation(&self) -> u64 {
        self.grant.generation()
    }

    /// The one backend that would be used, as a list.
    pub fn backends(&self) -> &[BackendKind] {
        self.grant.backends()
    }

    /// Why a person must agree.
    pub fn reason(&self) -> &ApprovalReason {
        &self.reason
    }

    /// The same for people, on one line.
    pub fn reason_text(&self) -> String {
        let profile = &self.profile().name;
        let what = match &self.reason {
            ApprovalReason::Always => "every call is asked about".to_owned(),
            ApprovalReason::Unsandboxed => "it would run without any sandbox".to_owned(),
            ApprovalReason::OutsidePath(path) => {
                format!("it would work in `{}`, outside the allowed folders", shown_path(path))
            }
            ApprovalReason::EveryHost => "it could reach every host of the network".to_owned(),
        };
        match &self.rule {
            Some(rule) => format!("{what} (rule `{}` of profile `{profile}`)", shown(rule)),
            None => format!("{what} (profile `{profile}`)"),
        }
    }
}

/// The rule that decides about a plan's tool: the first that matches.
pub(crate) fn deciding_rule<'a>(
    plan: &CommandPlan,
    profile: &'a Profile,
) -> Option<&'a ApprovalRule> {
    profile.approval.iter().find(|rule| rule.tool.matches(&plan.tool))
}

/// Why that plan must be asked about on that backend, if it must.
///
/// Each mode asks whenever the one before it does: `never`, `unsandboxed`, `outside`, `always`. A run
/// that nothing confines is asked about whatever the rule says.
pub(crate) fn reason(
    when: ApprovalWhen,
    plan: &CommandPlan,
    profile: &Profile,
    backend: BackendKind,
) -> Option<ApprovalReason> {
    if backend == BackendKind::Host && profile.host.confinement == Confinement::None {
        return Some(ApprovalReason::Unsandboxed);
    }
    match when {
        ApprovalWhen::Never | ApprovalWhen::Unsandboxed => None,
        ApprovalWhen::Always => Some(ApprovalReason::Always),
        ApprovalWhen::Outside if !is_inside(&plan.working_directory, plan, profile) => {
            Some(ApprovalReason::OutsidePath(plan.working_directory.clone()))
        }
        ApprovalWhen::Outside if profile.network.mode == NetworkMode::Full => {
            Some(ApprovalReason::EveryHost)
        }
        ApprovalWhen::Outside => None,
    }
}

/// Whether a resolved path lies in the workspace or in a folder that the profile lets runs change.
fn is_inside(path: &Path, plan: &CommandPlan, profile: &Profile) -> bool {
    path.starts_with(&plan.workspace)
        || profile.filesystem.write.iter().any(|grant| path.starts_with(&grant.path))
}

fn shown_path(path: &Path) -> String {
    shown(&path.to_string_lossy())
}

#[cfg(test)]
mod tests;
