//! Approvals in MCP's words: the dialogue of the legacy era, the sealed state of the modern one.
//!
//! What an answer means for the call is decided by the worker, which keeps the call that was asked
//! about and lets it be taken out once. Not here: whether and whom to ask.

use std::time::Duration;

use cofferdam_protocol::{ApprovalAnswer, Elicitation, ToolCall, admin::WaitingApproval};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        BooleanSchema, ClientCapabilities, ClientResult, ElicitRequest, ElicitRequestParams,
        ElicitationAction, ElicitationSchema, InputRequest, InputRequests, InputRequiredResult,
        InputResponses, PrimitiveSchemaDefinition, RequestStateCodec, SealOptions, ServerRequest,
    },
    service::{Peer, PeerRequestOptions, RequestHandle},
};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::client::Question;

/// The one field of the form, and the one request of a result that asks for input.
const APPROVE: &str = "approve";
const APPROVAL: &str = "approval";
/// How much longer than the worker keeps a call its state can be opened, so that it is the worker
/// that says what became of the call.
const STATE_GRACE: Duration = Duration::from_secs(3_600);

/// How the person behind a request can be asked, by what that request or its session declared.
pub(crate) fn elicitation(capabilities: Option<&ClientCapabilities>, modern: bool) -> Elicitation {
    let Some(declared) = capabilities.and_then(|all| all.elicitation.as_ref()) else {
        return Elicitation::None;
    };
    // An empty object means forms; one that names its modes means those.
    if declared.form.is_none() && declared.url.is_some() {
        return Elicitation::None;
    }
    if modern { Elicitation::InputRequired } else { Elicitation::Push }
}

/// Asks the client whatever comes, until nothing more can. Must run in the request's own task, or the
/// dialogue would not be sent on that request's stream.
pub(crate) async fn converse(
    peer: &Peer<RoleServer>,
    mut questions: mpsc::Receiver<Question>,
    answers: mpsc::Sender<ApprovalAnswer>,
) {
    while let Some(question) = questions.recv().await {
        let Question::Asked(approval) = question else { continue };
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(form(&approval)));
        let options = PeerRequestOptions::no_options();
        let allow = match peer.send_cancellable_request(request, options).await {
            Ok(mut asked) => tokio::select! {
                allow = answer(&mut asked) => allow,
                // Decided elsewhere, out of time, or the call is over.
                _ = questions.recv() => {
                    let reason = "no answer is needed any more".to_owned();
                    // A client that is gone shows no dialogue either.
                    let _ = asked.cancel(Some(reason)).await;
                    continue;
                }
            },
            Err(error) => {
                tracing::warn!(%error, "the client could not be asked");
                None
            }
        };
        // A call that is over needs no answer.
        let _ = answers.send(ApprovalAnswer { id: approval.id, allow }).await;
    }
}

/// What the person said; `None` when the client brought no answer.
async fn answer(asked: &mut RequestHandle<RoleServer>) -> Option<bool> {
    match (&mut asked.rx).await {
        Ok(Ok(ClientResult::ElicitResult(result))) => {
            Some(allows(&result.action, result.content.as_ref()))
        }
        Ok(Ok(_)) => {
            tracing::warn!("the client's answer to an elicitation is none");
            None
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "the client did not ask");
            None
        }
        Err(_) => None,
    }
}

/// The action is the decision. The content is read leniently, since clients in the field leave it
/// out, but a box that was left unticked is a no.
fn allows(action: &ElicitationAction, content: Option<&Value>) -> bool {
    *action == ElicitationAction::Accept
        && match content.and_then(|content| content.get(APPROVE)) {
            None | Some(Value::Null) => true,
            Some(Value::Bool(approve)) => *approve,
            Some(Value::String(text)) => {
                ["true", "yes"].iter().any(|yes| text.trim().eq_ignore_ascii_case(yes))
            }
            Some(_) => false,
        }
}

fn form(approval: &WaitingApproval) -> ElicitRequestParams {
    // No default: a client that fills it in would answer for the person.
    let approve = BooleanSchema::new().title("Approve").description("Run exactly this, once");
    let approve = PrimitiveSchemaDefinition::Boolean(approve);
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: approval.text(),
        requested_schema: ElicitationSchema::builder()
            .required_property(APPROVE, approve)
            .build_unchecked(),
    }
}

/// Seals what a client of the modern era must bring back with its answer. The key lives as long as
/// this process.
#[derive(Debug)]
pub(crate) struct ApprovalStates {
    codec: RequestStateCodec,
}

/// What is sealed. Readable by the client: the id is of use only together with the seal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    id: String,
    tool: String,
    arguments: String,
}

impl ApprovalStates {
    /// With a fresh key.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub(crate) fn new() -> std::io::Result<Self> {
        let mut key = vec![0_u8; RequestStateCodec::MIN_KEY_LENGTH];
        let mut filled = 0;
        while filled < key.len() {
            filled += getrandom(&mut key[filled..], GetRandomFlags::empty())?;
        }
        let codec = RequestStateCodec::try_new(key).map_err(std::io::Error::other)?;
        Ok(Self { codec })
    }

    /// The result that asks for the answer about `approval`, with its state bound to the caller's
    /// `session`.
    pub(crate) fn ask(
        &self,
        approval: &WaitingApproval,
        session: &str,
    ) -> Result<InputRequiredResult, ErrorData> {
        let state = State {
            id: approval.id.clone(),
            tool: approval.tool.clone(),
            arguments: approval.digest.clone(),
        };
        let caller = caller(session);
        let options = SealOptions::new()
            .associated_data(&caller)
            .ttl(Duration::from_secs(approval.expires_in_s) + STATE_GRACE);
        let sealed = self
            .codec
            .seal_json_with(&state, &options)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        let request = InputRequest::Elicitation(ElicitRequest::new(form(approval)));
        let requests = InputRequests::from([(APPROVAL.to_owned(), request)]);
        Ok(InputRequiredResult::new(Some(requests), Some(sealed)))
    }

    /// What a call brings back: the question that it answers, and the answer if there is one.
    ///
    /// # Errors
    /// Invalid parameters when the state was changed, is not this caller's, is about another call or
    /// has long expired, and when what should be an answer is none.
    pub(crate) fn answer(
        &self,
        sealed: &str,
        responses: Option<&InputResponses>,
        session: &str,
        call: &ToolCall,
    ) -> Result<ApprovalAnswer, ErrorData> {
        let refuse = |what: &str| Err(ErrorData::invalid_params(what.to_owned(), None));
        let state: State = match self.codec.open_json_with(sealed, &caller(session)) {
            Ok(state) => state,
            Err(error) => {
                tracing::warn!(%error, "a request state was refused");
                return refuse(
                    "`requestState` was changed, was not given to this caller, or has expired: make \
                     the call again without it",
                );
            }
        };
        let digest =
            call.digest().map_err(|failure| ErrorData::internal_error(failure.message, None))?;
        if state.tool != call.tool_name() || state.arguments != digest {
            return refuse(
                "`requestState` is for another call: the tool or its arguments differ from those that \
                 were asked about",
            );
        }
        let response = responses.and_then(|all| all.get(APPROVAL)).filter(|one| !one.is_null());
        let allow = match response {
            None => None,
            Some(response) => {
                let Some(action) = response
                    .get("action")
                    .and_then(|action| ElicitationAction::deserialize(action).ok())
                else {
                    return refuse("`inputResponses.approval` has no `action` that is one");
                };
                Some(allows(&action, response.get("content")))
            }
        };
        Ok(ApprovalAnswer { id: state.id, allow })
    }
}

fn caller(session: &str) -> Vec<u8> {
    [b"cofferdam/approval/1\0".as_slice(), session.as_bytes()].concat()
}

#[cfg(test)]
mod tests;
