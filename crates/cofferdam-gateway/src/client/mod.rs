//! The worker, seen from the gateway: one connection, shared by every call, made again when lost.
//!
//! Not here: MCP, and deciding anything about a call. What the worker says is passed on.

mod connection;
mod handshake;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use cofferdam_protocol::{
    ApprovalAnswer, Endpoint, ErrorCode, Failure, Health, Progress, ToWorker, ToolCall, ToolReply,
    ToolRequest,
    admin::WaitingApproval,
    frame::{self, FrameError, MAX_FRAME_BYTES},
};
use tokio::sync::{Mutex, mpsc, watch};
use tokio_util::sync::CancellationToken;

pub use handshake::ConnectError;

use connection::{Answer, Connection};

/// How long the worker may take to answer a question about itself.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a cancelled call is waited for before it is given up.
const CANCEL_GRACE: Duration = Duration::from_secs(10);
/// A call is asked about once, and that is settled once.
const QUESTION_QUEUE: usize = 2;
/// Pauses between attempts to reach a worker that is being restarted: about two seconds in all.
const RECONNECT_PAUSES_MS: [u64; 6] = [0, 50, 150, 300, 600, 900];
/// After a failed round of attempts, calls fail at once for this long.
const RECONNECT_REST: Duration = Duration::from_millis(500);

/// What the worker wants asked while a call waits.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// Ask the client's person.
    Asked(Box<WaitingApproval>),
    /// No answer is needed any more.
    Settled,
}

/// The worker's end of the questions about one call.
#[derive(Debug)]
pub struct Dialogue {
    questions: mpsc::Sender<Question>,
    answers: mpsc::Receiver<ApprovalAnswer>,
}

impl Dialogue {
    /// The dialogue, and the other end of it. When the call has ended, no more questions come.
    pub fn new() -> (Self, mpsc::Receiver<Question>, mpsc::Sender<ApprovalAnswer>) {
        let (questions, asked) = mpsc::channel(QUESTION_QUEUE);
        let (answered, answers) = mpsc::channel(QUESTION_QUEUE);
        (Self { questions, answers }, asked, answered)
    }
}

/// A handle to the worker. Clones share one connection.
#[derive(Clone, Debug)]
pub struct WorkerClient {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    endpoint: Endpoint,
    token: Option<String>,
    link: Mutex<Link>,
    tools_changed: watch::Sender<u64>,
}

#[derive(Debug)]
struct Link {
    connection: Option<Arc<Connection>>,
    last_failure: Option<(Instant, Failure)>,
}

impl WorkerClient {
    /// Connects and shakes hands.
    ///
    /// On a Unix socket the peer must run as our own user, by the kernel's word.
    ///
    /// # Errors
    /// See [`ConnectError`]. One attempt is made.
    pub async fn connect(endpoint: Endpoint, token: Option<String>) -> Result<Self, ConnectError> {
        let tools_changed = watch::Sender::new(0);
        let connection =
            Connection::open(&endpoint, token.as_deref(), tools_changed.clone()).await?;
        let link = Mutex::new(Link { connection: Some(connection), last_failure: None });
        Ok(Self { shared: Arc::new(Shared { endpoint, token, link, tools_changed }) })
    }

    /// Makes one call and waits for its answer.
    ///
    /// Progress is passed on when there is room in `progress`, else dropped. Cancelling `cancel`
    /// ends the call at the worker; its answer is then waited for up to ten seconds. Dropping the
    /// returned future ends the call at the worker too.
    ///
    /// Never fails otherwise than by [`ToolReply::Failed`]: `frame_too_large` before anything is
    /// sent, `worker_unavailable` when the worker is away or goes away during the call.
    pub async fn call(
        &self,
        session: &str,
        call: ToolCall,
        progress: mpsc::Sender<Progress>,
        cancel: CancellationToken,
    ) -> ToolReply {
        // Nobody is asked, so nobody need listen.
        let (dialogue, _questions, _answers) = Dialogue::new();
        let request = ToolRequest::new(session, call);
        self.call_asking(request, progress, dialogue, cancel).await
    }

    /// The same for a request that says how its person can be asked. With
    /// [`Elicitation::Push`](cofferdam_protocol::Elicitation::Push) the worker's questions arrive, and
    /// their answers are taken, by `dialogue`.
    pub async fn call_asking(
        &self,
        request: ToolRequest,
        progress: mpsc::Sender<Progress>,
        dialogue: Dialogue,
        cancel: CancellationToken,
    ) -> ToolReply {
        match self.try_call(request, progress, dialogue, &cancel).await {
            Ok(reply) => reply,
            Err(failure) => failure.into(),
        }
    }

    async fn try_call(
        &self,
        request: ToolRequest,
        progress: mpsc::Sender<Progress>,
        dialogue: Dialogue,
        cancel: &CancellationToken,
    ) -> Result<ToolReply, Failure> {
        let connection = tokio::select! {
            connection = self.connection() => connection?,
            () = cancel.cancelled() => return Err(cancelled_early()),
        };
        let Dialogue { questions, mut answers } = dialogue;
        let mut waiting = connection.register_call(progress, questions).ok_or_else(lost)?;
        let id = waiting.id();
        let payload = frame::encode(&ToWorker::Call { id, request: Box::new(request) })
            .map_err(|error| unsendable(&error))?;
        tokio::select! {
            sent = connection.send(payload) => sent.map_err(|_| lost())?,
            () = cancel.cancelled() => return Err(cancelled_early()),
        }
        waiting.sent();
        let answer = loop {
            tokio::select! {
                answer = waiting.answer() => break answer,
                Some(answer) = answers.recv() => {
                    let payload = frame::encode(&ToWorker::Answer { id, answer })
                        .map_err(|error| unsendable(&error))?;
                    connection.send(payload).await.map_err(|_| lost())?;
                }
                () = cancel.cancelled() => {
                    waiting.cancel();
                    break tokio::time::timeout(CANCEL_GRACE, waiting.answer())
                        .await
                        .map_err(|_| cancelled_without_answer())?;
                }
            }
        };
        match answer.ok_or_else(lost)? {
            Answer::Reply(reply) => Ok(reply),
            Answer::Tools(_) | Answer::Health(_) => Err(confused()),
        }
    }

    /// The tools that may be used now, by canonical name, in catalogue order.
    ///
    /// # Errors
    /// `worker_unavailable`, or the reason why the worker cannot be used.
    pub async fn list_tools(&self) -> Result<Vec<String>, Failure> {
        let connection = self.connection().await?;
        match ask(&connection, |id| ToWorker::ListTools { id }).await? {
            Answer::Tools(names) => Ok(names),
            Answer::Reply(_) | Answer::Health(_) => Err(confused()),
        }
    }

    /// Told whenever the tools that may be used may have changed. Changes that come together may be
    /// told as one.
    ///
    /// Only while [`stay_connected`](Self::stay_connected) runs is every change told.
    pub fn tools_changed(&self) -> watch::Receiver<u64> {
        self.shared.tools_changed.subscribe()
    }

    /// Keeps a connection also while nobody calls, so that what the worker says unasked arrives.
    /// Never ends.
    pub async fn stay_connected(&self) {
        loop {
            match self.connection().await {
                Ok(connection) => connection.lost().await,
                Err(_) => tokio::time::sleep(RECONNECT_REST).await,
            }
        }
    }

    /// Asks the worker how it is.
    ///
    /// # Errors
    /// `worker_unavailable`, or the reason why the worker cannot be used. When the connection is
    /// lost, one attempt is made to restore it.
    pub async fn health(&self) -> Result<Health, Failure> {
        let connection = self.connection_after(&RECONNECT_PAUSES_MS[..1]).await?;
        match ask(&connection, |id| ToWorker::Health { id }).await? {
            Answer::Health(health) => Ok(health),
            Answer::Reply(_) | Answer::Tools(_) => Err(confused()),
        }
    }

    /// Tells the worker that a client session is over. A worker that is away has nothing to drop.
    pub async fn close_session(&self, session: &str) {
        let connection = self.shared.link.lock().await.connection.clone();
        let message = ToWorker::CloseSession { session: session.to_owned() };
        if let (Some(connection), Ok(payload)) = (connection, frame::encode(&message)) {
            let _ = tokio::time::timeout(QUESTION_TIMEOUT, connection.send(payload)).await;
        }
    }

    /// Ends when the loss of the connection has been noticed.
    #[cfg(test)]
    pub(crate) async fn connection_lost(&self) {
        let connection = self.shared.link.lock().await.connection.clone();
        if let Some(connection) = connection {
            connection.lost().await;
        }
    }

    async fn connection(&self) -> Result<Arc<Connection>, Failure> {
        self.connection_after(&RECONNECT_PAUSES_MS).await
    }

    /// The live connection, or a new one after at most as many attempts as there are pauses.
    async fn connection_after(&self, pauses_ms: &[u64]) -> Result<Arc<Connection>, Failure> {
        let arrived = Instant::now();
        let mut link = self.shared.link.lock().await;
        if let Some(connection) = link.connection.as_ref().filter(|one| one.is_open()) {
            return Ok(connection.clone());
        }
        link.connection = None;
        if let Some((at, failure)) = &link.last_failure {
            // Who waited for the lock while a round failed must not start the next one: a queue of
            // calls would otherwise fail one after the other, two seconds each.
            if *at > arrived || at.elapsed() < RECONNECT_REST {
                return Err(failure.clone());
            }
        }
        let mut failure = lost();
        for pause in pauses_ms {
            tokio::time::sleep(Duration::from_millis(*pause)).await;
            let Shared { endpoint, token, tools_changed, .. } = &*self.shared;
            match Connection::open(endpoint, token.as_deref(), tools_changed.clone()).await {
                Ok(connection) => {
                    tracing::info!(%endpoint, "reconnected to the worker");
                    // What it said meanwhile was said to nobody.
                    tools_changed.send_modify(|count| *count += 1);
                    link.connection = Some(connection.clone());
                    link.last_failure = None;
                    return Ok(connection);
                }
                Err(error) => {
                    failure = error.to_failure();
                    if !error.may_pass() {
                        break;
                    }
                }
            }
        }
        tracing::warn!(endpoint = %self.shared.endpoint, code = %failure.code, "no worker");
        // A hasty look, as a probe takes it, must not stop those who would have waited.
        if pauses_ms.len() == RECONNECT_PAUSES_MS.len() {
            link.last_failure = Some((Instant::now(), failure.clone()));
        }
        Err(failure)
    }
}

async fn ask(
    connection: &Arc<Connection>,
    question: impl FnOnce(u64) -> ToWorker,
) -> Result<Answer, Failure> {
    let mut waiting = connection.register_question().ok_or_else(lost)?;
    let payload = frame::encode(&question(waiting.id())).map_err(|error| unsendable(&error))?;
    let exchange = async {
        connection.send(payload).await.map_err(|_| lost())?;
        waiting.answer().await.ok_or_else(lost)
    };
    tokio::time::timeout(QUESTION_TIMEOUT, exchange)
        .await
        .unwrap_or_else(|_| Err(unavailable("the worker does not answer".to_owned())))
}

fn lost() -> Failure {
    unavailable("the worker process ended during the call".to_owned())
}

fn unavailable(message: String) -> Failure {
    let mut failure = Failure::new(ErrorCode::WorkerUnavailable, message).with_hint(
        "the worker is started again by itself; try again in a moment, and check first what a call \
         that was under way has changed",
    );
    failure.retry_after_ms = Some(1_000);
    failure
}

fn cancelled_early() -> Failure {
    Failure::new(ErrorCode::Cancelled, "the call was cancelled before it began")
}

fn cancelled_without_answer() -> Failure {
    Failure::new(
        ErrorCode::Cancelled,
        "the call was cancelled; the worker has not confirmed its end",
    )
}

fn confused() -> Failure {
    Failure::new(ErrorCode::Internal, "the worker's answer does not fit the question")
}

fn unsendable(error: &FrameError) -> Failure {
    match error {
        FrameError::TooLarge { bytes } => Failure::new(
            ErrorCode::FrameTooLarge,
            format!("the call is {bytes} bytes long, the limit is {MAX_FRAME_BYTES} bytes"),
        )
        .with_hint("write large code or data to a file in the workspace and name that file"),
        FrameError::Malformed(_) => {
            Failure::new(ErrorCode::Internal, "the call cannot be written as a message")
        }
    }
}
