//! `cofferdam call`: one tool call, in this process, answered as an agent would be.

use cofferdam_protocol::{Failure, ToolCall, ToolReply, ToolRequest};
use cofferdam_worker::Executor;
use serde_json::{Value, json};

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
    };
    output::json(&value).map_err(CommandError::Output)?;
    Ok(if ending.signal().is_some() { ending.exit() } else { exit })
}

async fn reply(call: Call, ending: &Ending) -> ToolReply {
    let executor = match Executor::new(call.settings) {
        Ok(executor) => executor,
        Err(failure) => return failure.into(),
    };
    match ToolCall::parse(&call.tool, call.arguments) {
        Ok(parsed) => {
            let request = ToolRequest { session: SESSION.to_owned(), call: parsed };
            executor.call(request, None, ending.requests().stop).await
        }
        Err(failure) => failure.into(),
    }
}

/// A failure as a program reads it: always the same keys.
pub(super) fn shown(failure: Failure) -> Value {
    json!({ "error": failure.message, "code": failure.code, "hint": failure.hint })
}
