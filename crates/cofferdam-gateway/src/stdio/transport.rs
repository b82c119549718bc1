//! The stdio transport, with the two things that rmcp's own leaves out: messages that are too long
//! are answered, and a client that closes stdin still gets the answers to what it asked.

use std::{
    collections::HashSet,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cofferdam_protocol::{ErrorCode, Failure};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        ClientJsonRpcMessage, ClientNotification, ClientRequest, RequestId, ServerJsonRpcMessage,
        ServerResult,
    },
    transport::{Transport, async_rw::AsyncRwTransport},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{Notify, mpsc},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    MAX_LINE_BYTES,
    oversize::{Oversized, WatchedLines},
    stdout_closed,
};
use crate::{
    calls::{Calls, MAX_CALLS},
    client::WorkerClient,
    subscriptions::ChangesSince,
    translate,
};

/// Requests that may be without an answer before no more are read: more than there may be calls, so
/// that what is in the way are answers that the client does not read.
const MAX_UNANSWERED: usize = 4 * MAX_CALLS;
/// How long calls that were cancelled after stdin closed may take to be answered.
const CANCELLED_CALLS_GRACE: Duration = Duration::from_secs(5);

pub(super) struct StdioTransport<R: AsyncRead + Unpin, W: AsyncWrite> {
    inner: AsyncRwTransport<RoleServer, WatchedLines<R>, W>,
    oversized: mpsc::Receiver<Oversized>,
    unanswered: Arc<Unanswered>,
    worker: WorkerClient,
    /// The changes since the client began to introduce itself, until it has.
    introduced: Option<ChangesSince>,
    stdin_closed: CancellationToken,
    last_answers: Option<JoinHandle<()>>,
    calls: Arc<Calls>,
    drain: Duration,
    stop: CancellationToken,
}

/// Requests that the client has sent and not yet had an answer to.
#[derive(Debug, Default)]
struct Unanswered {
    ids: Mutex<HashSet<RequestId>>,
    changed: Notify,
}

impl Unanswered {
    fn change(&self, change: impl FnOnce(&mut HashSet<RequestId>)) {
        change(&mut self.ids.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_waiters();
    }

    async fn none_left(&self) {
        self.fewer_than(1).await;
    }

    async fn fewer_than(&self, count: usize) {
        loop {
            let changed = self.changed.notified();
            if self.ids.lock().unwrap_or_else(PoisonError::into_inner).len() < count {
                return;
            }
            changed.await;
        }
    }
}

impl<R, W> StdioTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new(
        reader: R,
        writer: W,
        worker: WorkerClient,
        calls: Arc<Calls>,
        drain: Duration,
        stop: CancellationToken,
    ) -> Self {
        let (lines, oversized) = WatchedLines::new(reader, MAX_LINE_BYTES);
        Self {
            inner: AsyncRwTransport::new(lines, writer).with_max_line_length(MAX_LINE_BYTES),
            oversized,
            unanswered: Arc::default(),
            worker,
            introduced: None,
            stdin_closed: CancellationToken::new(),
            last_answers: None,
            calls,
            drain,
            stop,
        }
    }

    /// Cancelled once the client has closed stdin.
    pub(super) fn stdin_closed(&self) -> CancellationToken {
        self.stdin_closed.clone()
    }

    fn note(&mut self, message: &mut ClientJsonRpcMessage) {
        match message {
            ClientJsonRpcMessage::Request(request) => {
                self.unanswered.change(|ids| {
                    ids.insert(request.id.clone());
                });
                let since_now = ChangesSince(self.worker.tools_changed());
                match &mut request.request {
                    ClientRequest::InitializeRequest(_) => self.introduced = Some(since_now),
                    ClientRequest::SubscriptionsListenRequest(listen) => {
                        listen.extensions.insert(since_now);
                    }
                    _ => {}
                }
            }
            ClientJsonRpcMessage::Notification(notification) => {
                if let ClientNotification::InitializedNotification(initialized) =
                    &mut notification.notification
                    && let Some(changes) = self.introduced.take()
                {
                    initialized.extensions.insert(changes);
                }
                // A cancelled request is never answered.
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.unanswered.change(|ids| {
                        ids.remove(id);
                    });
                }
            }
            _ => {}
        }
    }

    fn answer_oversized(&mut self, message: Oversized) {
        let refused = Failure::new(
            ErrorCode::FrameTooLarge,
            format!(
                "the message is {} bytes long, the limit is {MAX_LINE_BYTES} bytes",
                message.bytes
            ),
        )
        .with_hint("write large code or data to a file in the workspace and name that file");
        let Some(id) = message.id else { return };
        let answer = if message.is_tool_call {
            ServerJsonRpcMessage::response(
                ServerResult::CallToolResult(translate::failure(&refused)),
                id,
            )
        } else {
            ServerJsonRpcMessage::error(ErrorData::invalid_request(refused.message, None), Some(id))
        };
        // Apart, because `receive` may be dropped at any await.
        tokio::spawn(self.inner.send(answer));
    }

    /// Waits, within the drain deadline, until the client has every answer. A client that is gone
    /// altogether, or a stop on top of the closed stdin, ends the calls at once.
    fn give_last_answers(&self) -> JoinHandle<()> {
        self.calls.end_subscriptions().cancel();
        let unanswered = self.unanswered.clone();
        let calls = self.calls.clone();
        let drain = self.drain;
        let stop = self.stop.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = unanswered.none_left() => return,
                () = stdout_closed() => tracing::info!("the client is gone, its calls end"),
                () = stop.cancelled() => {}
                () = tokio::time::sleep(drain) => tracing::warn!("the drain deadline ends calls"),
            }
            calls.cancel_all().cancel();
            let _ = tokio::time::timeout(CANCELLED_CALLS_GRACE, unanswered.none_left()).await;
        })
    }
}

impl<R, W> Transport<RoleServer> for StdioTransport<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answered = match &message {
            ServerJsonRpcMessage::Response(response) => Some(response.id.clone()),
            ServerJsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        let unanswered = self.unanswered.clone();
        let sending = self.inner.send(message);
        async move {
            let sent = sending.await;
            if let Some(id) = answered {
                unanswered.change(|ids| {
                    ids.remove(&id);
                });
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        while !self.stdin_closed.is_cancelled() {
            let (inner, unanswered) = (&mut self.inner, &self.unanswered);
            let next = async {
                unanswered.fewer_than(MAX_UNANSWERED).await;
                inner.receive().await
            };
            tokio::select! {
                Some(message) = self.oversized.recv() => self.answer_oversized(message),
                received = next => match received {
                    Some(mut message) => {
                        self.note(&mut message);
                        return Some(message);
                    }
                    None => self.stdin_closed.cancel(),
                },
            }
        }
        if self.last_answers.is_none() {
            self.last_answers = Some(self.give_last_answers());
        }
        // Borrowed, not taken: this future may be dropped and made again.
        if let Some(last_answers) = &mut self.last_answers
            && !last_answers.is_finished()
            && let Err(error) = last_answers.await
        {
            tracing::error!(%error, "waiting for the last answers failed");
        }
        None
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use rmcp::model::EmptyResult;

    use super::*;
    use crate::tests::fake_worker::FakeWorker;

    #[tokio::test]
    async fn a_client_that_does_not_read_its_answers_is_not_read_either() {
        let (endpoint, _) = FakeWorker::listen().serve();
        let worker = WorkerClient::connect(endpoint, None).await.unwrap();
        let ping = |id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n");
        let pings: String = (0..=MAX_UNANSWERED).map(ping).collect();
        let calls = Arc::new(Calls::new(None));
        let (drain, stop) = (Duration::ZERO, CancellationToken::new());
        let mut transport =
            StdioTransport::new(pings.as_bytes(), tokio::io::sink(), worker, calls, drain, stop);
        for _ in 0..MAX_UNANSWERED {
            transport.receive().await.unwrap();
        }
        assert!(transport.receive().now_or_never().is_none());
        let answer = ServerResult::EmptyResult(EmptyResult {});
        transport.send(ServerJsonRpcMessage::response(answer, RequestId::Number(0))).await.unwrap();
        assert!(transport.receive().await.is_some());
    }
}
