//! The MCP server: one handler for both transports and both protocol eras.
//!
//! Stage 1 and 2 of a call: from MCP's parameters to a checked [`ToolCall`], and the worker's reply
//! back. Not here: transports, sessions' lives, and any decision about a call.

use std::{pin::pin, sync::Arc, time::Duration};

use cofferdam_protocol::{ErrorCode, Failure, Progress, ToolCall, ToolReply, ToolRequest, tool};
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult,
        Implementation, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
        ProgressToken, ProtocolVersion, ServerCapabilities, ServerConfig, SubscriptionFilter,
    },
    service::{NotificationContext, Peer, RequestContext, SubscriptionContext},
};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    approval::{self, ApprovalStates},
    calls::Calls,
    client::{Dialogue, WorkerClient},
    http::SessionHandle,
    settings::{ResultForm, ToolNames},
    subscriptions::Subscriptions,
    translate::{self, ListedTool},
};

/// Shown to models by clients, which cut it at 2 KB; the first sentence says when to come here.
const INSTRUCTIONS: &str = "\
Use this server to run Python or Bash code on the user's workspace without risk to the machine: \
every run is held in a sandbox. Files written in the workspace stay; everything else a run leaves \
behind is gone when it ends. A program that fails, is killed or runs out of time is a normal result: \
look at `returncode`, `timeout`, `verdict` and `stderr`. `sandbox` says how strongly the run was \
held. A call that is refused says why, and what to do instead.";
/// How long clients of the modern era may keep a list of tools.
const TOOL_LIST_TTL_MS: u64 = 30_000;
/// Characters of a tool's name that are repeated in a refusal: as many as a name may have.
const SHOWN_NAME_CHARACTERS: usize = 128;
/// Progress that may wait for a slow client; more is dropped.
const PROGRESS_QUEUE: usize = 8;
/// How long a result waits for a progress notification that is being written before it.
const LAST_PROGRESS_GRACE: Duration = Duration::from_secs(1);
/// Session of clients that have none of their own.
const STDIO_SESSION: &str = "stdio";
const HTTP_SESSION: &str = "http";

/// Answers MCP requests. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct GatewayServer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    worker: WorkerClient,
    calls: Arc<Calls>,
    tools: Vec<ListedTool>,
    form: ResultForm,
    config: ServerConfig,
    approvals: ApprovalStates,
    subscriptions: Subscriptions,
}

/// Why a call ended before its answer.
enum EndedEarly {
    ByClient,
    ByTimeout(Duration),
}

impl GatewayServer {
    pub(crate) fn new(
        worker: WorkerClient,
        calls: Arc<Calls>,
        names: ToolNames,
        form: ResultForm,
        approvals: ApprovalStates,
    ) -> Self {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        let about = Implementation::new("cofferdam", env!("CARGO_PKG_VERSION"))
            .with_title("Cofferdam")
            .with_description("Runs code that an agent wrote where it can do no harm.");
        let config =
            ServerConfig::new(capabilities).with_server_info(about).with_instructions(INSTRUCTIONS);
        let tools = translate::listed_tools(names, form);
        let subscriptions = Subscriptions::new(calls.end_subscriptions().clone());
        let shared = Shared { worker, calls, tools, form, config, approvals, subscriptions };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn worker(&self) -> &WorkerClient {
        &self.shared.worker
    }

    pub(crate) fn calls(&self) -> &Arc<Calls> {
        &self.shared.calls
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let _in_progress = match self.shared.calls.begin() {
            Ok(in_progress) => in_progress,
            Err(busy) => return Ok(translate::failure(&busy).into()),
        };
        let arguments = request.arguments.unwrap_or_default();
        let call = match ToolCall::parse(&shown_name(&request.name), arguments) {
            Ok(call) => call,
            Err(refused) => return Ok(translate::failure(&refused).into()),
        };
        let session = context.extensions.get::<SessionHandle>().cloned();
        let session_name = session_name(session.as_ref(), &context).to_owned();
        let states = &self.shared.approvals;
        let answer = match &request.request_state {
            Some(state) => {
                let responses = request.input_responses.as_ref();
                Some(states.answer(state, responses, &session_name, &call)?)
            }
            None => None,
        };
        let wrapped = self.is_wrapped(&call);
        let elicitation =
            approval::elicitation(context.client_capabilities().as_ref(), is_modern(&context));
        let request = ToolRequest { session: session_name.clone(), call, elicitation, answer };
        match self.pass_on(request, context, session).await {
            ToolReply::NeedsApproval { approval } => {
                Ok(states.ask(&approval, &session_name)?.into())
            }
            ToolReply::Done { value } => Ok(translate::done(value, wrapped).into()),
            ToolReply::Failed(refused) => Ok(translate::failure(&refused).into()),
        }
    }

    fn is_wrapped(&self, call: &ToolCall) -> bool {
        let canonical = call.tool_name();
        self.shared.form == ResultForm::Wrapped
            && self
                .shared
                .tools
                .iter()
                .any(|listed| listed.canonical == canonical && listed.tool.output_schema.is_some())
    }

    /// Hands a checked call to the worker, forwards its progress, and ends it when the client, the
    /// session, the drain or the request timeout says so.
    async fn pass_on(
        &self,
        request: ToolRequest,
        context: RequestContext<RoleServer>,
        session: Option<SessionHandle>,
    ) -> ToolReply {
        let _running = session.as_ref().map(SessionHandle::run);
        let cancel = CancellationToken::new();
        let (progress, updates) = mpsc::channel(PROGRESS_QUEUE);
        let (dialogue, questions, answers) = Dialogue::new();
        let worker = &self.shared.worker;
        let mut answer = pin!(worker.call_asking(request, progress, dialogue, cancel.clone()));
        let token = context.meta.get_progress_token();
        let mut forwarding = pin!(forward_progress(context.peer.clone(), token, updates));
        let mut forwarded = false;
        let mut conversing = pin!(approval::converse(&context.peer, questions, answers));
        let mut conversed = false;
        let mut early = pin!(self.ended_early(&context.ct, session.as_ref()));
        let mut ended = None;
        let reply = loop {
            tokio::select! {
                biased;
                reply = &mut answer => break reply,
                why = &mut early, if ended.is_none() => {
                    cancel.cancel();
                    ended = Some(why);
                }
                () = &mut forwarding, if !forwarded => forwarded = true,
                () = &mut conversing, if !conversed => conversed = true,
            }
        };
        if !conversed {
            // A dialogue that is still shown is taken back.
            let _ = tokio::time::timeout(LAST_PROGRESS_GRACE, conversing).await;
        }
        if !forwarded {
            // A progress notification must not follow the result: let one that is on its way pass.
            let _ = tokio::time::timeout(LAST_PROGRESS_GRACE, forwarding).await;
        }
        match ended {
            Some(EndedEarly::ByTimeout(limit)) => timed_out(limit).into(),
            Some(EndedEarly::ByClient) | None => reply,
        }
    }

    async fn ended_early(
        &self,
        request: &CancellationToken,
        session: Option<&SessionHandle>,
    ) -> EndedEarly {
        let session_closed = async {
            match session {
                Some(session) => session.closed().await,
                None => std::future::pending().await,
            }
        };
        let timed_out = async {
            match self.shared.calls.request_timeout() {
                Some(limit) => {
                    tokio::time::sleep(limit).await;
                    limit
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = request.cancelled() => EndedEarly::ByClient,
            () = self.shared.calls.cancel_all().cancelled() => EndedEarly::ByClient,
            () = session_closed => EndedEarly::ByClient,
            limit = timed_out => EndedEarly::ByTimeout(limit),
        }
    }
}

impl ServerHandler for GatewayServer {
    fn get_info(&self) -> ServerConfig {
        self.shared.config.clone()
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if request.is_some_and(|page| page.cursor.is_some()) {
            return Err(ErrorData::invalid_params("the list of tools has one page only", None));
        }
        let active = self.shared.worker.list_tools().await.map_err(|failure| {
            let about = serde_json::json!({ "code": failure.code.as_str(), "hint": failure.hint });
            ErrorData::internal_error(failure.message, Some(about))
        })?;
        let tools = self
            .shared
            .tools
            .iter()
            .filter(|listed| active.iter().any(|name| name == listed.canonical))
            .map(|listed| listed.tool.clone())
            .collect();
        let mut result = ListToolsResult::with_all_items(tools);
        if is_modern(&context) {
            result.ttl_ms = Some(TOOL_LIST_TTL_MS);
            result.cache_scope = Some(CacheScope::Private);
        }
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(request, context).await
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.shared.subscriptions.push(context);
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(Subscriptions::accepted(requested))
    }

    async fn listen(&self, stream: SubscriptionContext) -> Result<(), ErrorData> {
        self.shared.subscriptions.serve(stream).await
    }

    /// A `tools/call` whose parameters have the wrong shape arrives here: that is an argument error
    /// like others, which the model should see, and not an unknown method.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if request.method != "tools/call" {
            return Err(ErrorData::new(
                rmcp::model::ErrorCode::METHOD_NOT_FOUND,
                request.method,
                None,
            ));
        }
        let refused = Failure::new(
            ErrorCode::InvalidArguments,
            "`name` must be a string and `arguments` an object",
        )
        .with_hint("give the arguments as a JSON object, one key per argument");
        let mut result = translate::failure(&refused);
        if !is_modern(&context) {
            result.result_type = None;
        }
        serde_json::to_value(result)
            .map(CustomResult)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None::<Value>))
    }
}

/// Whose call it is, as far as the transport tells.
fn session_name<'a>(
    session: Option<&'a SessionHandle>,
    context: &RequestContext<RoleServer>,
) -> &'a str {
    match session {
        Some(session) => session.id(),
        None if context.extensions.get::<http::request::Parts>().is_some() => HTTP_SESSION,
        None => STDIO_SESSION,
    }
}

fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// The name as given, or as much of it as a refusal may repeat.
fn shown_name(name: &str) -> String {
    if tool::canonical_name(name).is_some() {
        return name.to_owned();
    }
    name.chars().take(SHOWN_NAME_CHARACTERS).collect()
}

fn timed_out(limit: Duration) -> Failure {
    Failure::new(
        ErrorCode::Cancelled,
        format!("the call was ended after the request timeout of {} s", limit.as_secs_f64()),
    )
    .with_hint("give the call a shorter `timeout` to keep its output, or raise the server's limit")
}

/// Sends what comes from `updates` to the client that asked for it, until there is no more.
async fn forward_progress(
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    mut updates: mpsc::Receiver<Progress>,
) {
    let mut last_seconds = 0.0;
    while let Some(update) = updates.recv().await {
        let Some(token) = &token else { continue };
        // The specification wants the value to rise with every notification.
        let mut seconds = update.elapsed_ms as f64 / 1_000.0;
        if seconds <= last_seconds {
            seconds = last_seconds + 0.001;
        }
        last_seconds = seconds;
        let message = update.last_line.unwrap_or_else(|| "running, no output yet".to_owned());
        let notification =
            ProgressNotificationParam::new(token.clone(), seconds).with_message(message);
        if peer.notify_progress(notification).await.is_err() {
            // The client is gone; what that means for the call is decided elsewhere.
            return;
        }
    }
}
