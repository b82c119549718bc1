//! One live connection: requests multiplexed by id over two tasks, one that writes and one that
//! reads.
//!
//! A connection is used until it breaks and is never repaired: the client makes a new one.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use cofferdam_protocol::{Endpoint, FromWorker, Health, Progress, ToWorker, ToolReply, frame};
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{
    Question,
    handshake::{self, ConnectError, Frames},
};

/// Messages that may wait to be written. Calls under way are bounded elsewhere.
const WRITE_QUEUE: usize = 64;
/// How long the worker may refuse to read before it counts as gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// What the worker answers.
#[derive(Debug)]
pub(super) enum Answer {
    Reply(ToolReply),
    Tools(Vec<String>),
    Health(Health),
}

#[derive(Debug)]
pub(super) struct Connection {
    outgoing: mpsc::Sender<Bytes>,
    open: Arc<OpenRequests>,
    next_id: AtomicU64,
}

#[derive(Debug)]
struct OpenRequests {
    /// None once the connection is lost, so that nothing can be added that nobody would answer.
    by_id: Mutex<Option<HashMap<u64, OpenRequest>>>,
    /// Ids to cancel. Not in the queue of messages, because a cancel is asked for by `drop` too,
    /// where nothing can wait for room. At most one per open call.
    to_cancel: Mutex<Vec<u64>>,
    cancel_wanted: Notify,
    lost: CancellationToken,
    /// Counts what may have changed the list of tools.
    tools_changed: watch::Sender<u64>,
}

#[derive(Debug)]
struct OpenRequest {
    answer: oneshot::Sender<Answer>,
    listeners: Option<Listeners>,
}

/// Who hears of a call before its answer.
#[derive(Clone, Debug)]
struct Listeners {
    progress: mpsc::Sender<Progress>,
    questions: mpsc::Sender<Question>,
}

/// One request that waits for its answer. Dropping it unanswered cancels the call at the worker.
#[derive(Debug)]
pub(super) struct Waiting {
    id: u64,
    answer: oneshot::Receiver<Answer>,
    open: Arc<OpenRequests>,
    cancel_on_drop: bool,
}

impl Connection {
    pub(super) async fn open(
        endpoint: &Endpoint,
        token: Option<&str>,
        tools_changed: watch::Sender<u64>,
    ) -> Result<Arc<Self>, ConnectError> {
        let frames = handshake::open(endpoint, token).await?;
        let (sink, stream) = frames.split();
        let (outgoing, queue) = mpsc::channel(WRITE_QUEUE);
        let open = Arc::new(OpenRequests {
            by_id: Mutex::new(Some(HashMap::new())),
            to_cancel: Mutex::default(),
            cancel_wanted: Notify::new(),
            lost: CancellationToken::new(),
            tools_changed,
        });
        // Detached on purpose: both end with the connection, which ends when either does or when
        // the last handle to it is dropped.
        tokio::spawn(write(sink, queue, open.clone()));
        tokio::spawn(read(stream, open.clone()));
        Ok(Arc::new(Self { outgoing, open, next_id: AtomicU64::new(1) }))
    }

    pub(super) fn is_open(&self) -> bool {
        !self.open.lost.is_cancelled()
    }

    /// Ends when the connection is lost.
    pub(super) async fn lost(&self) {
        self.open.lost.cancelled().await;
    }

    pub(super) fn register_call(
        &self,
        progress: mpsc::Sender<Progress>,
        questions: mpsc::Sender<Question>,
    ) -> Option<Waiting> {
        self.register(Some(Listeners { progress, questions }))
    }

    pub(super) fn register_question(&self) -> Option<Waiting> {
        self.register(None)
    }

    fn register(&self, listeners: Option<Listeners>) -> Option<Waiting> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.open.lock().as_mut()?.insert(id, OpenRequest { answer: sender, listeners });
        Some(Waiting { id, answer, open: self.open.clone(), cancel_on_drop: false })
    }

    /// Queues one message. Waits while the queue is full; fails when the connection is lost.
    pub(super) async fn send(&self, payload: Bytes) -> Result<(), mpsc::error::SendError<Bytes>> {
        self.outgoing.send(payload).await
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.open.lose();
    }
}

impl Waiting {
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// From now on the worker knows of the call.
    pub(super) fn sent(&mut self) {
        self.cancel_on_drop = true;
    }

    /// Asks the worker to end the call; it is still answered.
    pub(super) fn cancel(&mut self) {
        self.cancel_on_drop = false;
        self.open.cancel(self.id);
    }

    /// The answer, or None when the connection is lost. Safe to drop and call again.
    pub(super) async fn answer(&mut self) -> Option<Answer> {
        let answer = (&mut self.answer).await.ok();
        self.cancel_on_drop = false;
        answer
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(by_id) = self.open.lock().as_mut() {
            by_id.remove(&self.id);
        }
        if self.cancel_on_drop {
            self.open.cancel(self.id);
        }
    }
}

impl OpenRequests {
    fn lock(&self) -> MutexGuard<'_, Option<HashMap<u64, OpenRequest>>> {
        // The map is whole even if a holder panicked: every change to it is one call.
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cancel(&self, id: u64) {
        self.to_cancel.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        self.cancel_wanted.notify_one();
    }

    fn take_cancels(&self) -> Vec<u64> {
        std::mem::take(&mut *self.to_cancel.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the connection: every open request learns it by its dropped sender.
    fn lose(&self) {
        self.lost.cancel();
        drop(self.lock().take());
    }

    fn answer(&self, id: u64, answer: Answer) {
        let request = self.lock().as_mut().and_then(|by_id| by_id.remove(&id));
        // An id that is not open belongs to a call that was given up.
        if let Some(request) = request {
            let _ = request.answer.send(answer);
        }
    }

    fn progress(&self, id: u64, progress: Progress) {
        if let Some(listeners) = self.listeners(id) {
            // Progress that nobody takes is worth nothing later.
            let _ = listeners.progress.try_send(progress);
        }
    }

    fn question(&self, id: u64, question: Question) {
        if let Some(listeners) = self.listeners(id) {
            // There is room for all that a call can be asked; one that is gone needs no answer.
            let _ = listeners.questions.try_send(question);
        }
    }

    fn listeners(&self, id: u64) -> Option<Listeners> {
        self.lock().as_ref()?.get(&id)?.listeners.clone()
    }
}

async fn write(
    sink: SplitSink<Frames, Bytes>,
    queue: mpsc::Receiver<Bytes>,
    open: Arc<OpenRequests>,
) {
    tokio::select! {
        () = open.lost.cancelled() => {}
        () = write_until_it_fails(sink, queue, &open) => open.lose(),
    }
}

async fn write_until_it_fails(
    mut sink: SplitSink<Frames, Bytes>,
    mut queue: mpsc::Receiver<Bytes>,
    open: &OpenRequests,
) {
    loop {
        // Calls first: a cancel is asked for after its call was queued, and must arrive after it.
        let payloads = tokio::select! {
            biased;
            Some(payload) = queue.recv() => vec![payload],
            () = open.cancel_wanted.notified() => open
                .take_cancels()
                .into_iter()
                .filter_map(|id| frame::encode(&ToWorker::Cancel { id }).ok())
                .collect(),
        };
        for payload in payloads {
            match tokio::time::timeout(WRITE_TIMEOUT, sink.send(payload)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%error, "cannot write to the worker");
                    return;
                }
                Err(_) => {
                    tracing::warn!("the worker does not read");
                    return;
                }
            }
        }
    }
}

async fn read(mut stream: SplitStream<Frames>, open: Arc<OpenRequests>) {
    loop {
        let received = tokio::select! {
            () = open.lost.cancelled() => break,
            received = stream.next() => received,
        };
        let payload = match received {
            Some(Ok(payload)) => payload,
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot read from the worker");
                break;
            }
            None => {
                tracing::warn!("the worker closed the connection");
                break;
            }
        };
        match frame::decode(&payload) {
            Ok(FromWorker::Progress { id, progress }) => open.progress(id, progress),
            Ok(FromWorker::Ask { id, approval }) => open.question(id, Question::Asked(approval)),
            Ok(FromWorker::Settled { id }) => open.question(id, Question::Settled),
            Ok(FromWorker::Reply { id, reply }) => open.answer(id, Answer::Reply(reply)),
            Ok(FromWorker::ToolsChanged) => open.tools_changed.send_modify(|count| *count += 1),
            Ok(FromWorker::Tools { id, names }) => open.answer(id, Answer::Tools(names)),
            Ok(FromWorker::Health { id, health }) => open.answer(id, Answer::Health(health)),
            Ok(FromWorker::Hello(_) | FromWorker::Refused(_)) => {
                tracing::warn!("the worker repeats the handshake");
                break;
            }
            Err(error) => {
                tracing::warn!(%error, "the worker sent a message that cannot be read");
                break;
            }
        }
    }
    open.lose();
}
