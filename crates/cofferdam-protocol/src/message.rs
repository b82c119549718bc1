//! The messages themselves: one enum for each direction, one `match` at each end.
//!
//! A connection begins with [`ToWorker::Hello`], answered by [`FromWorker::Hello`] or by
//! [`FromWorker::Refused`] and the end of the connection. After that, requests are multiplexed by
//! `id`, which the sender chooses and does not reuse while the request is open.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ErrorCode,
    admin::WaitingApproval,
    approval::{ApprovalAnswer, Elicitation},
    tool::ToolCall,
};

/// Version of this protocol. Both sides must be equal: they are installed together.
pub const PROTOCOL_VERSION: u32 = 1;

/// The first message on a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// [`PROTOCOL_VERSION`] of the sender.
    pub version: u32,
    /// Shared secret; needed only on TCP endpoints, where the peer's user cannot be asked of the
    /// kernel. Never logged.
    #[serde(default)]
    pub token: Option<String>,
}

/// One tool call, ready to be planned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRequest {
    /// Which client session this call belongs to: calls of one session keep their order.
    pub session: String,
    /// The call.
    pub call: ToolCall,
    /// How the person behind the client can be asked.
    #[serde(default)]
    pub elicitation: Elicitation,
    /// The answer to a [`ToolReply::NeedsApproval`] that this very call got before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<ApprovalAnswer>,
}

impl ToolRequest {
    /// A call of a client that cannot ask anybody.
    pub fn new(session: impl Into<String>, call: ToolCall) -> Self {
        Self { session: session.into(), call, elicitation: Elicitation::None, answer: None }
    }
}

/// From the gateway to the worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ToWorker {
    /// First message.
    Hello(Hello),
    /// Do this. Answered by any number of [`FromWorker::Progress`], at most one [`FromWorker::Ask`]
    /// and one [`FromWorker::Reply`].
    Call {
        /// Chosen by the sender.
        id: u64,
        /// What to do.
        request: Box<ToolRequest>,
    },
    /// What came back to a [`FromWorker::Ask`].
    Answer {
        /// Id of the call.
        id: u64,
        /// The answer.
        answer: ApprovalAnswer,
    },
    /// End that call now. It is still answered, with what there is.
    Cancel {
        /// Id of the call.
        id: u64,
    },
    /// Which tools may be used now? Answered by [`FromWorker::Tools`].
    ListTools {
        /// Chosen by the sender.
        id: u64,
    },
    /// Are you well? Answered by [`FromWorker::Health`].
    Health {
        /// Chosen by the sender.
        id: u64,
    },
    /// That client session is over: what was kept for it can be dropped.
    CloseSession {
        /// The session.
        session: String,
    },
}

/// From the worker to the gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum FromWorker {
    /// The handshake succeeded.
    Hello(Hello),
    /// The handshake failed; the connection ends after this.
    Refused(Failure),
    /// A call goes on.
    Progress {
        /// Id of the call.
        id: u64,
        /// How far it is.
        progress: Progress,
    },
    /// The call waits until a person has agreed: ask the client's. Only for a call with
    /// [`Elicitation::Push`], answered by [`ToWorker::Answer`].
    Ask {
        /// Id of the call.
        id: u64,
        /// The question.
        approval: Box<WaitingApproval>,
    },
    /// The question of that call needs no answer any more: it was decided elsewhere, or nobody
    /// answered in time.
    Settled {
        /// Id of the call.
        id: u64,
    },
    /// A call has ended.
    Reply {
        /// Id of the call.
        id: u64,
        /// Its answer.
        reply: ToolReply,
    },
    /// Other tools may be used than before: ask which. Sent unasked; several changes may be told as
    /// one, the last one always is.
    ToolsChanged,
    /// The tools that may be used now, by canonical name, in catalogue order.
    Tools {
        /// Id of the question.
        id: u64,
        /// Canonical names.
        names: Vec<String>,
    },
    /// The worker is well.
    Health {
        /// Id of the question.
        id: u64,
        /// How it is.
        health: Health,
    },
}

/// How far a run is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Milliseconds since the run began.
    pub elapsed_ms: u64,
    /// Bytes written so far to both streams.
    pub output_bytes: u64,
    /// The last line of output so far: at most 200 characters, control characters escaped.
    pub last_line: Option<String>,
}

/// State of the worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Health {
    /// Process id of the worker.
    pub pid: u32,
    /// Calls under way.
    pub running: u32,
    /// Calls that wait for their turn.
    pub queued: u32,
    /// Generation of configuration and profiles in force.
    pub generation: u64,
    /// Why the newest files are not in force, when they are not.
    pub reload_error: Option<String>,
}

/// The answer to one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case", deny_unknown_fields)]
pub enum ToolReply {
    /// The call finished. `value` is the normalized object that the agent sees.
    Done {
        /// Always a JSON object.
        value: Value,
    },
    /// The call was refused or could not be carried out.
    Failed(Failure),
    /// Nothing has run: ask the client's person, and make the same call again with the answer. Only
    /// for a call with [`Elicitation::InputRequired`].
    NeedsApproval {
        /// The question.
        approval: Box<WaitingApproval>,
    },
}

/// A refusal or a failure, for people and for machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// For machines.
    pub code: ErrorCode,
    /// For people: what was wrong, and the limit if there is one. One line, no final period needed.
    pub message: String,
    /// The next step, if there is one to name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// When trying again may help: after how long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, retry_after_ms: None }
    }

    /// The same with a next step.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<Failure> for ToolReply {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}
