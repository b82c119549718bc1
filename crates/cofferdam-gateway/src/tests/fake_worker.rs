//! A worker for tests: it speaks the protocol over a real Unix socket and is led by its caller, or
//! by the code that it is given to run ([`FakeWorker::serve`]).

use std::path::PathBuf;

use cofferdam_protocol::{
    Endpoint, ErrorCode, Failure, FromWorker, Health, Hello, PROTOCOL_VERSION, Progress, ToWorker,
    ToolCall, ToolReply, frame,
};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::mpsc,
};
use tokio_util::codec::{Framed, LengthDelimitedCodec};

/// Messages that a test may leave unread.
const QUEUE: usize = 4_096;

pub(crate) struct FakeWorker {
    directory: tempfile::TempDir,
    listener: UnixListener,
}

/// One connection to a gateway, after the handshake or before it.
pub(crate) struct Peer {
    frames: Framed<UnixStream, LengthDelimitedCodec>,
}

impl FakeWorker {
    pub(crate) fn listen() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(socket(&directory)).unwrap();
        Self { directory, listener }
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::Unix(socket(&self.directory))
    }

    /// Stops listening, as a worker that has died does.
    pub(crate) fn die(self) -> DeadWorker {
        DeadWorker { directory: self.directory }
    }

    /// Accepts a connection and leaves the handshake to the test.
    pub(crate) async fn accept_raw(&self) -> Peer {
        let (stream, _) = self.listener.accept().await.unwrap();
        Peer { frames: Framed::new(stream, frame::codec()) }
    }

    /// Accepts a connection and shakes hands.
    pub(crate) async fn accept(&self) -> Peer {
        let mut peer = self.accept_raw().await;
        let hello = peer.receive().await;
        assert!(matches!(hello, Some(ToWorker::Hello(_))), "{hello:?}");
        peer.send(FromWorker::Hello(Hello { version: PROTOCOL_VERSION, token: None })).await;
        peer
    }

    /// Serves every connection by itself: see [`answer`]. What arrives is reported too.
    pub(crate) fn serve(self) -> (Endpoint, mpsc::Receiver<ToWorker>) {
        let (report, reports) = mpsc::channel(QUEUE);
        let endpoint = self.endpoint();
        tokio::spawn(async move {
            loop {
                let peer = self.accept().await;
                tokio::spawn(answer(peer, report.clone()));
            }
        });
        (endpoint, reports)
    }
}

/// The place where a worker was.
pub(crate) struct DeadWorker {
    directory: tempfile::TempDir,
}

impl DeadWorker {
    pub(crate) fn restart(self) -> FakeWorker {
        std::fs::remove_file(socket(&self.directory)).unwrap();
        let listener = UnixListener::bind(socket(&self.directory)).unwrap();
        FakeWorker { directory: self.directory, listener }
    }
}

fn socket(directory: &tempfile::TempDir) -> PathBuf {
    directory.path().join("worker.sock")
}

impl Peer {
    pub(crate) async fn receive(&mut self) -> Option<ToWorker> {
        let payload = self.frames.next().await?.ok()?;
        Some(frame::decode(&payload).unwrap())
    }

    pub(crate) async fn send(&mut self, message: FromWorker) {
        // A gateway that has gone is the test's business.
        let _ = self.frames.send(frame::encode(&message).unwrap()).await;
    }

    pub(crate) async fn send_raw(&mut self, payload: &[u8]) {
        self.frames.send(bytes::Bytes::copy_from_slice(payload)).await.unwrap();
    }

    /// The next message, which must be a call.
    pub(crate) async fn receive_call(&mut self) -> (u64, String, ToolCall) {
        match self.receive().await {
            Some(ToWorker::Call { id, request }) => (id, request.session, request.call),
            other => panic!("expected a call, got {other:?}"),
        }
    }
}

/// The normalized object of a finished run that printed `stdout`.
pub(crate) fn finished(stdout: &str) -> Value {
    json!({ "stdout": stdout, "stderr": "", "returncode": 0, "timeout": false })
}

/// Answers by the code that it is given: `progress` reports progress and then waits, `wait` waits,
/// both until they are cancelled; `die` ends the connection; `refuse` refuses; all other code is
/// printed.
async fn answer(mut peer: Peer, report: mpsc::Sender<ToWorker>) {
    while let Some(message) = peer.receive().await {
        let _ = report.try_send(message.clone());
        match message {
            ToWorker::Hello(_) | ToWorker::CloseSession { .. } | ToWorker::Answer { .. } => {}
            ToWorker::Call { id, request } => match code(&request.call) {
                "wait" => {}
                "progress" => report_progress(&mut peer, id).await,
                "die" => return,
                "refuse" => {
                    let refused = Failure::new(ErrorCode::Denied, "no").with_hint("ask");
                    peer.send(FromWorker::Reply { id, reply: refused.into() }).await;
                }
                text => {
                    let reply = ToolReply::Done { value: finished(text) };
                    peer.send(FromWorker::Reply { id, reply }).await;
                }
            },
            ToWorker::Cancel { id } => {
                let mut value = finished("");
                value["verdict"] = json!("cancelled");
                peer.send(FromWorker::Reply { id, reply: ToolReply::Done { value } }).await;
            }
            ToWorker::ListTools { id } => {
                let names = ["python_coding_tool.execute", "executor.get_attribute_payload"];
                peer.send(FromWorker::Tools { id, names: names.map(str::to_owned).to_vec() }).await;
            }
            ToWorker::Health { id } => {
                let health =
                    Health { pid: 1, running: 0, queued: 0, generation: 1, reload_error: None };
                peer.send(FromWorker::Health { id, health }).await;
            }
        }
    }
}

fn code(call: &ToolCall) -> &str {
    match call {
        ToolCall::Python(python) => &python.code,
        ToolCall::Bash(bash) => &bash.code,
        ToolCall::Attribute(attribute) => &attribute.name,
    }
}

/// Three reports, of which the second does not advance and the last has no output yet.
async fn report_progress(peer: &mut Peer, id: u64) {
    for (elapsed_ms, last_line) in [(1_000, Some("one")), (1_000, Some("two")), (2_500, None)] {
        let progress =
            Progress { elapsed_ms, output_bytes: 3, last_line: last_line.map(str::to_owned) };
        peer.send(FromWorker::Progress { id, progress }).await;
    }
}
