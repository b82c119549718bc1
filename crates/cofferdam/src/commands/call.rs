//! `cofferdam call`: one tool call, in this process, answered as an agent would be.

use std::{
    io::{self, IsTerminal},
    pin::pin,
};

use cofferdam_policy::Approval;
use cofferdam_protocol::{
    ApprovalAnswer, Elicitation, ErrorCode, Failure, ToolCall, ToolReply, ToolRequest,
    admin::WaitingApproval,
};
use cofferdam_worker::{ApprovalChannel, ApprovalEvent, Executor};
use rustix::{process::getpgrp, termios::tcgetpgrp};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::ending::Ending;
use crate::{cli::Call, error::CommandError, exit::Exit, output};

/// Name of the one session that there is in this process.
const SESSION: &str = "command-line";

pub(super) fn call(call: Call) -> Result<Exit, CommandError> {
    let runtime = super::event_loop().map_err(CommandError::setup("making an event loop"))?;
    let result = runtime.block_on(carry_out(call));
    runtime.shutdown_background();
    result
}

async fn carry_out(call: Call) -> Result<Exit, CommandError> {
    let ending = Ending::by_signals().map_err(CommandError::setup("listening to signals"))?;
    let reply = tokio::select! {
        reply = reply(call, &ending) => reply,
        () = ending.abandoned() => return Ok(ending.exit()),
    };
    let (value, exit) = match reply {
        ToolReply::Done { value } => (value, Exit::Success),
        ToolReply::Failed(failure) => (shown(failure), Exit::Failed),
        // Only for callers that say they come back with the answer, which this one does not.
        ToolReply::NeedsApproval { .. } => {
            let failure = Failure::new(ErrorCode::Internal, "the call was answered by a question");
            (shown(failure), Exit::Failed)
        }
    };
    output::json(&value).map_err(CommandError::Output)?;
    Ok(if ending.signal().is_some() { ending.exit() } else { exit })
}

async fn reply(call: Call, ending: &Ending) -> ToolReply {
    let consent = Consent::of(call.approved);
    let may_be_asked = call.settings.approval.channel != ApprovalChannel::None;
    let executor = match Executor::new(call.settings) {
        Ok(executor) => executor,
        Err(failure) => return failure.into(),
    };
    let parsed = match ToolCall::parse(&call.tool, call.arguments) {
        Ok(parsed) => parsed,
        Err(failure) => return failure.into(),
    };
    let elicitation = match consent {
        Consent::CannotBeAsked => Elicitation::None,
        Consent::Given | Consent::Asked => Elicitation::Push,
    };
    let request = ToolRequest { elicitation, ..ToolRequest::new(SESSION, parsed) };
    let (to_questions, mut questions) = mpsc::channel(2);
    let mut reply = pin!(executor.call_asking(request, None, to_questions, ending.requests().stop));
    let reply = loop {
        tokio::select! {
            biased;
            Some(event) = questions.recv() => {
                if let ApprovalEvent::Asked(question) = event {
                    answer(consent, *question, executor.clone());
                }
            }
            reply = &mut reply => break reply,
        }
    };
    match reply {
        ToolReply::Failed(refused)
            if refused.code == ErrorCode::ApprovalRequired
                && may_be_asked
                && consent == Consent::CannotBeAsked =>
        {
            refused
                .with_hint("repeat it with `--approve`, or in a terminal, where you are asked")
                .into()
        }
        reply => reply,
    }
}

/// What whoever typed the command says to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Consent {
    /// Yes, beforehand.
    Given,
    /// They are asked.
    Asked,
    /// Nobody is there to read a question.
    CannotBeAsked,
}

impl Consent {
    fn of(approved: bool) -> Self {
        // Reading a terminal from the background would stop this process.
        let in_front = || tcgetpgrp(io::stdin()).ok() == Some(getpgrp());
        if approved {
            Self::Given
        } else if io::stdin().is_terminal() && io::stderr().is_terminal() && in_front() {
            Self::Asked
        } else {
            Self::CannotBeAsked
        }
    }
}

/// Answers a question, without holding up whoever waits for signals.
fn answer(consent: Consent, question: WaitingApproval, executor: Executor) {
    tokio::spawn(async move {
        let allow = match consent {
            Consent::Given => true,
            Consent::CannotBeAsked => false,
            Consent::Asked => {
                let text = question.text();
                tokio::task::spawn_blocking(move || output::ask(&text)).await.unwrap_or(false)
            }
        };
        let answer = ApprovalAnswer { id: question.id, allow: Some(allow) };
        executor.answer(&answer, Approval::CommandLine);
    });
}

/// A failure as a program reads it: always the same keys.
pub(super) fn shown(failure: Failure) -> Value {
    json!({ "error": failure.message, "code": failure.code, "hint": failure.hint })
}
