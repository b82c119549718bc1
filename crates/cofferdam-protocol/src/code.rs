//! The machine-readable codes of everything that can be refused or go wrong.
//!
//! People read the message, machines read the code: a code never changes its meaning. A program
//! that failed inside a sandbox is *not* here: that is a finished call.

use serde::{Deserialize, Serialize};

/// Why a call was refused or could not be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorCode {
    /// No tool of that name.
    UnknownTool,
    /// An argument is missing, unknown, of the wrong type or out of bounds.
    InvalidArguments,
    /// The tool is switched off by the configuration.
    ToolInactive,
    /// Policy says no.
    Denied,
    /// Policy says that a person must agree first, and nobody could be asked.
    ApprovalRequired,
    /// No profile of that name, or this caller may not use it.
    ProfileUnknown,
    /// A path leads outside what the call may touch.
    PathOutsideWorkspace,
    /// The workspace is missing, not a directory, or a place that must never be one.
    WorkspaceInvalid,
    /// No backend that the profile allows can be used here.
    BackendUnavailable,
    /// A backend could be used, but would hold less strongly than the profile requires.
    EnforcementTooWeak,
    /// The sandbox could not be started.
    StartFailed,
    /// The call was ended by the caller.
    Cancelled,
    /// Too many calls wait already.
    Busy,
    /// The worker process cannot be reached or died during the call.
    WorkerUnavailable,
    /// A message was larger than the protocol allows.
    FrameTooLarge,
    /// The two processes are of different builds.
    VersionMismatch,
    /// The peer of a connection is not who it must be.
    PeerRefused,
    /// `get_attribute_payload` was asked for a name that is not on its list.
    UnknownAttribute,
    /// The call cannot be recorded in the audit log, so it was not run.
    AuditUnavailable,
    /// A fault of Cofferdam's own.
    Internal,
}

impl ErrorCode {
    /// The code as it is written on the wire, for example `invalid_arguments`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnknownTool => "unknown_tool",
            Self::InvalidArguments => "invalid_arguments",
            Self::ToolInactive => "tool_inactive",
            Self::Denied => "denied",
            Self::ApprovalRequired => "approval_required",
            Self::ProfileUnknown => "profile_unknown",
            Self::PathOutsideWorkspace => "path_outside_workspace",
            Self::WorkspaceInvalid => "workspace_invalid",
            Self::BackendUnavailable => "backend_unavailable",
            Self::EnforcementTooWeak => "enforcement_too_weak",
            Self::StartFailed => "start_failed",
            Self::Cancelled => "cancelled",
            Self::Busy => "busy",
            Self::WorkerUnavailable => "worker_unavailable",
            Self::FrameTooLarge => "frame_too_large",
            Self::VersionMismatch => "version_mismatch",
            Self::PeerRefused => "peer_refused",
            Self::UnknownAttribute => "unknown_attribute",
            Self::AuditUnavailable => "audit_unavailable",
            Self::Internal => "internal",
        }
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
