//! A server on a socket, and the other end of a connection to it.

use std::{path::PathBuf, time::Duration};

use bytes::Bytes;
use cofferdam_protocol::{
    Failure, FromWorker, Hello, PROTOCOL_VERSION, ToWorker, ToolCall, ToolReply, frame,
};
use cofferdam_worker::{Auth, Listener, ServeError, bind_unix, serve};
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::{
    net::{TcpStream, UnixStream},
    task::JoinHandle,
};
use tokio_util::{
    codec::{Framed, LengthDelimitedCodec},
    either::Either,
    sync::CancellationToken,
};

use super::{Place, bash, request};

/// Long enough for everything that a test lets finish by itself.
pub(crate) const PATIENT: Duration = Duration::from_secs(60);

pub(crate) fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A server on a socket in a folder of its own.
pub(crate) struct Server {
    pub(crate) place: Place,
    pub(crate) socket: PathBuf,
    pub(crate) stop: CancellationToken,
    serving: JoinHandle<Result<(), ServeError>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(uid(), PATIENT)
    }

    pub(crate) fn start_with(uid: u32, drain: Duration) -> Self {
        let place = Place::new();
        let socket = place.outside("run/worker.sock");
        let listener = Listener::Unix(bind_unix(&socket).unwrap());
        let stop = CancellationToken::new();
        let auth = Auth { uid, token: None };
        let executor = place.executor();
        let serving = tokio::spawn(serve(listener, executor, auth, stop.clone(), drain));
        Self { place, socket, stop, serving }
    }

    pub(crate) async fn connect(&self) -> Client {
        let stream = UnixStream::connect(&self.socket).await.unwrap();
        Client::new(Either::Left(stream))
    }

    /// A client that has shaken hands.
    pub(crate) async fn client(&self) -> Client {
        let mut client = self.connect().await;
        client.hello().await;
        client
    }

    pub(crate) async fn ended(self) {
        self.serving.await.unwrap().unwrap();
    }
}

pub(crate) struct Client {
    pub(crate) frames: Framed<Either<UnixStream, TcpStream>, LengthDelimitedCodec>,
}

impl Client {
    pub(crate) fn new(stream: Either<UnixStream, TcpStream>) -> Self {
        Self { frames: Framed::new(stream, frame::codec()) }
    }

    pub(crate) async fn hello(&mut self) {
        self.send(&ToWorker::Hello(Hello { version: PROTOCOL_VERSION, token: None })).await;
        let answer = self.receive().await.unwrap();
        assert!(matches!(answer, FromWorker::Hello(_)), "{answer:?}");
    }

    pub(crate) async fn send(&mut self, message: &ToWorker) {
        self.frames.send(frame::encode(message).unwrap()).await.unwrap();
    }

    pub(crate) async fn send_json(&mut self, message: &Value) {
        self.frames.send(Bytes::from(serde_json::to_vec(message).unwrap())).await.unwrap();
    }

    pub(crate) async fn call(&mut self, id: u64, code: &str) {
        let request = request("session", ToolCall::Bash(bash(code)));
        self.send(&ToWorker::Call { id, request: Box::new(request) }).await;
    }

    /// The next message; `None` when the connection has ended.
    pub(crate) async fn receive(&mut self) -> Option<FromWorker> {
        match self.frames.next().await {
            Some(Ok(payload)) => Some(frame::decode(&payload).unwrap()),
            _ => None,
        }
    }

    /// The reply to a call; what else arrives meanwhile is passed over.
    pub(crate) async fn reply(&mut self, wanted: u64) -> ToolReply {
        loop {
            match self.receive().await.unwrap() {
                FromWorker::Reply { id, reply } if id == wanted => return reply,
                _ => {}
            }
        }
    }

    /// Waits for a report with that last line.
    pub(crate) async fn line(&mut self, wanted: &str) {
        loop {
            if let FromWorker::Progress { progress, .. } = self.receive().await.unwrap()
                && progress.last_line.as_deref() == Some(wanted)
            {
                return;
            }
        }
    }

    pub(crate) async fn is_served(&mut self) {
        self.send(&ToWorker::Health { id: 77 }).await;
        let answer = self.receive().await.unwrap();
        assert!(matches!(answer, FromWorker::Health { id: 77, .. }), "{answer:?}");
    }

    pub(crate) async fn refusal(&mut self) -> Failure {
        match self.receive().await.unwrap() {
            FromWorker::Refused(failure) => failure,
            other => panic!("{other:?}"),
        }
    }
}
