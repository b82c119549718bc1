//! One connection after its handshake: requests multiplexed by id until either end goes.
//!
//! One task reads, one writes, one more for each call. When the peer goes, its calls are killed;
//! when the server stops, the connection lives until the calls it has are answered.

use std::{collections::HashMap, pin::pin, time::Duration};

use bytes::Bytes;
use cofferdam_policy::Approval;
use cofferdam_protocol::{
    ErrorCode, Failure, FromWorker, ToWorker, ToolReply, ToolRequest,
    frame::{self, FrameError},
};
use futures_util::{Sink, SinkExt, StreamExt};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use super::handshake::Frames;
use crate::{ApprovalEvent, Executor, failure::chain};

/// Messages that wait to be written.
const WRITE_QUEUE: usize = 64;
/// How long the peer may refuse to read before it counts as gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Reports of one call that wait to be written.
const PROGRESS_QUEUE: usize = 4;
/// Questions of one call that wait to be written: one, and that it is settled.
const QUESTION_QUEUE: usize = 2;
/// Calls that one connection may have under way. The executor's own bounds are below that.
const MOST_CALLS: usize = 1024;

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("the peer went away")]
    Gone,
    #[error("the peer does not read")]
    Deaf,
    #[error("the server stops")]
    Stopped,
    #[error("reading from the peer")]
    Broken(#[source] std::io::Error),
    #[error("the peer sent something that is no message")]
    Malformed(#[source] FrameError),
    #[error("the peer broke the protocol: {0}")]
    Protocol(&'static str),
}

/// Serves the connection to its end. Nothing of its calls is left then.
pub(super) async fn serve(
    frames: Frames,
    executor: Executor,
    stop: CancellationToken,
    kill: CancellationToken,
) {
    let (sink, mut stream) = frames.split();
    let (outbox, queue) = mpsc::channel(WRITE_QUEUE);
    let deaf = CancellationToken::new();
    let writer = tokio::spawn(write(sink, queue, deaf.clone()));
    let mut connection = Connection {
        executor,
        outbox,
        stop: stop.clone(),
        // Killing the calls of this connection, or those of all.
        kill: kill.child_token(),
        cancels: HashMap::new(),
        calls: JoinSet::new(),
    };
    let mut tools_changed = connection.executor.tools_changed();
    let ended = loop {
        let is_idle = connection.calls.is_empty();
        tokio::select! {
            biased;
            () = deaf.cancelled() => break Ended::Deaf,
            () = stop.cancelled(), if is_idle => break Ended::Stopped,
            Some(finished) = connection.calls.join_next(), if !is_idle => {
                if let Ok(id) = finished {
                    connection.cancels.remove(&id);
                }
            }
            Ok(()) = tools_changed.changed() => {
                connection.answer(&FromWorker::ToolsChanged).await;
            }
            received = stream.next() => {
                let handled = match received {
                    None => Err(Ended::Gone),
                    Some(Err(error)) => Err(Ended::Broken(error)),
                    Some(Ok(payload)) => match frame::decode(&payload) {
                        Ok(message) => connection.handle(message).await,
                        Err(error) => Err(Ended::Malformed(error)),
                    },
                };
                if let Err(ended) = handled {
                    break ended;
                }
            }
        }
    };
    match &ended {
        Ended::Gone | Ended::Stopped => tracing::debug!("a connection ended: {ended}"),
        Ended::Deaf | Ended::Broken(_) | Ended::Malformed(_) | Ended::Protocol(_) => {
            tracing::warn!(error = chain(&ended), "ending a connection");
        }
    }
    connection.kill.cancel();
    while connection.calls.join_next().await.is_some() {}
    drop(connection);
    // Ends once the queue is empty: the last sender is gone.
    let _ = writer.await;
}

/// What one connection has under way.
struct Connection {
    executor: Executor,
    outbox: mpsc::Sender<Bytes>,
    stop: CancellationToken,
    kill: CancellationToken,
    cancels: HashMap<u64, CancellationToken>,
    /// Each yields the id of its call.
    calls: JoinSet<u64>,
}

impl Connection {
    async fn handle(&mut self, message: ToWorker) -> Result<(), Ended> {
        match message {
            ToWorker::Hello(_) => return Err(Ended::Protocol("a second hello")),
            ToWorker::Call { id, request } => return self.start(id, *request).await,
            ToWorker::Cancel { id } => {
                // One that is not open has been answered meanwhile.
                if let Some(cancel) = self.cancels.get(&id) {
                    cancel.cancel();
                }
            }
            ToWorker::Answer { id, answer } => {
                // One that is not open has been answered meanwhile.
                if self.cancels.contains_key(&id) {
                    self.executor.answer(&answer, Approval::Elicitation);
                }
            }
            ToWorker::ListTools { id } => {
                self.answer(&FromWorker::Tools { id, names: self.executor.tool_names() }).await;
            }
            ToWorker::Health { id } => {
                self.answer(&FromWorker::Health { id, health: self.executor.health() }).await;
            }
            ToWorker::CloseSession { session } => self.executor.close_session(&session),
        }
        Ok(())
    }

    async fn start(&mut self, id: u64, request: ToolRequest) -> Result<(), Ended> {
        if self.cancels.contains_key(&id) {
            return Err(Ended::Protocol("an id that is still open"));
        }
        let refusal = if self.stop.is_cancelled() {
            Some(
                Failure::new(ErrorCode::WorkerUnavailable, "the worker is being stopped")
                    .with_hint("try again in a moment"),
            )
        } else if self.calls.len() >= MOST_CALLS {
            Some(Failure::new(ErrorCode::Busy, "this connection has too many calls under way"))
        } else {
            None
        };
        if let Some(failure) = refusal {
            self.answer(&FromWorker::Reply { id, reply: failure.into() }).await;
            return Ok(());
        }
        let cancel = self.kill.child_token();
        self.cancels.insert(id, cancel.clone());
        let (to_progress, mut progress) = mpsc::channel(PROGRESS_QUEUE);
        let (to_questions, mut questions) = mpsc::channel(QUESTION_QUEUE);
        // Takes its place in the session's order here, where messages are read in order.
        let reply = self.executor.call_asking(request, Some(to_progress), to_questions, cancel);
        let outbox = self.outbox.clone();
        self.calls.spawn(async move {
            let mut reply = pin!(reply);
            let reply = loop {
                tokio::select! {
                    biased;
                    Some(event) = questions.recv() => send(&outbox, &question(id, event)).await,
                    reply = &mut reply => break reply,
                    Some(progress) = progress.recv() => {
                        // One that finds no room is left out: the next one says more.
                        if let Ok(payload) = frame::encode(&FromWorker::Progress { id, progress }) {
                            let _ = outbox.try_send(payload);
                        }
                    }
                }
            };
            send(&outbox, &answer(id, reply)).await;
            id
        });
        Ok(())
    }

    async fn answer(&self, message: &FromWorker) {
        send(&self.outbox, message).await;
    }
}

fn question(id: u64, event: ApprovalEvent) -> FromWorker {
    match event {
        ApprovalEvent::Asked(approval) => FromWorker::Ask { id, approval },
        ApprovalEvent::Settled => FromWorker::Settled { id },
    }
}

/// The reply, or that it is too long to be sent.
fn answer(id: u64, reply: ToolReply) -> FromWorker {
    let message = FromWorker::Reply { id, reply };
    match frame::encode(&message) {
        Err(FrameError::TooLarge { .. }) => {
            let failure =
                Failure::new(ErrorCode::FrameTooLarge, "the answer is too long to be sent")
                    .with_hint("lower `limits.output_kib` in the profile");
            FromWorker::Reply { id, reply: failure.into() }
        }
        _ => message,
    }
}

/// Queues a message. Waits while the queue is full; a peer that is gone loses it.
async fn send(outbox: &mpsc::Sender<Bytes>, message: &FromWorker) {
    match frame::encode(message) {
        Ok(payload) => {
            let _ = outbox.send(payload).await;
        }
        Err(error) => tracing::error!(error = chain(&error), "a message could not be encoded"),
    }
}

/// Writes what is queued; says so when the peer does not take it.
async fn write(
    mut sink: impl Sink<Bytes, Error = std::io::Error> + Unpin,
    mut queue: mpsc::Receiver<Bytes>,
    deaf: CancellationToken,
) {
    while let Some(payload) = queue.recv().await {
        if !matches!(timeout(WRITE_TIMEOUT, sink.send(payload)).await, Ok(Ok(()))) {
            deaf.cancel();
            return;
        }
    }
    let _ = timeout(WRITE_TIMEOUT, sink.close()).await;
}
