//! What the owner of a running server says to it over its admin socket, and what it answers.
//!
//! A Unix socket in the server's private folder, for the same user only. One request, one reply,
//! framed as everything else; a connection may carry several after the handshake of
//! [`crate::message`].

use serde::{Deserialize, Serialize};

use crate::Failure;

/// A request of the owner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum AdminRequest {
    /// How is the server? Answered by [`AdminReply::Status`].
    Status,
    /// Read configuration and profiles again now.
    Reload,
    /// Which tool rules hold? Answered by [`AdminReply::ToolRules`].
    ToolRules,
    /// Switch tools on or off at run time, before every rule of the configuration.
    SetTools {
        /// Shell-style glob over the whole name.
        pattern: String,
        /// On or off.
        active: bool,
        /// Forget it again after so many seconds.
        expires_after_s: Option<u64>,
    },
    /// Forget a pattern that was set at run time.
    ForgetTools {
        /// The pattern as it was given.
        pattern: String,
    },
    /// Which calls wait for a person? Answered by [`AdminReply::Approvals`].
    ListApprovals,
    /// Agree to a waiting call, or refuse it.
    DecideApproval {
        /// Its id.
        id: String,
        /// Agree.
        allow: bool,
    },
}

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum AdminReply {
    /// It is done; one line for people.
    Done {
        /// What was done.
        message: String,
    },
    /// How the server is.
    Status(ServerStatus),
    /// The rules that hold, in the order in which they are asked.
    ToolRules {
        /// The rules.
        rules: Vec<ToolRule>,
    },
    /// Calls that wait for a person, the oldest first.
    Approvals {
        /// The calls.
        waiting: Vec<WaitingApproval>,
    },
    /// It could not be done.
    Failed(Failure),
}

impl From<Failure> for AdminReply {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// How a server is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerStatus {
    /// Process id of the worker.
    pub pid: u32,
    /// Absolute path of the workspace, lossy where it is not UTF-8.
    pub workspace: String,
    /// Generation of configuration and profiles in force.
    pub generation: u64,
    /// Why the newest files are not in force, when they are not.
    pub reload_error: Option<String>,
    /// Calls under way.
    pub running: u32,
    /// Calls that wait for their turn.
    pub queued: u32,
}

/// One rule about which tools are served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRule {
    /// Shell-style glob over the whole name.
    pub pattern: String,
    /// On or off.
    pub active: bool,
    /// Where it comes from: `run time`, or the configuration file and line.
    pub origin: String,
    /// Seconds until it is forgotten.
    pub expires_in_s: Option<u64>,
}

/// A call that waits for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitingApproval {
    /// Unguessable.
    pub id: String,
    /// Canonical name of the tool.
    pub tool: String,
    /// Whose call it is.
    pub session: String,
    /// Why a person is asked.
    pub reason: String,
    /// What would run, for people: bounded, control characters escaped.
    pub summary: String,
    /// Where it would start, control characters escaped.
    pub working_directory: String,
    /// Profile under which it would run.
    pub profile: String,
    /// Generation of that profile.
    pub generation: u64,
    /// Backend that would be used.
    pub backend: String,
    /// How strongly that backend promises to hold it, per dimension, and what it would not arm.
    pub enforcement: String,
    /// What it could reach.
    pub network: String,
    /// sha256 of the arguments, in hexadecimal.
    pub digest: String,
    /// For how long it has waited, in seconds.
    pub waiting_s: u64,
    /// After how many more seconds it is refused.
    pub expires_in_s: u64,
}
