//! The socket: who is let in, what a peer can break, and what is left when it goes.

#![allow(clippy::unwrap_used)]

mod support;

use std::{fs, path::PathBuf, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use cofferdam_protocol::{
    ErrorCode, Failure, FromWorker, Hello, PROTOCOL_VERSION, ToWorker, ToolCall, ToolReply,
    frame::{self, MAX_FRAME_BYTES},
};
use cofferdam_worker::{Auth, Listener, ServeError, bind_unix, serve};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use support::{Place, bash, finished, request};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream, UnixStream},
    task::JoinHandle,
};
use tokio_util::{
    codec::{Framed, LengthDelimitedCodec},
    either::Either,
    sync::CancellationToken,
};

/// Long enough for everything that a test lets finish by itself.
const PATIENT: Duration = Duration::from_secs(60);

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A server on a socket in a folder of its own.
struct Server {
    place: Place,
    socket: PathBuf,
    stop: CancellationToken,
    serving: JoinHandle<Result<(), ServeError>>,
}

impl Server {
    fn start() -> Self {
        Self::start_with(uid(), PATIENT)
    }

    fn start_with(uid: u32, drain: Duration) -> Self {
        let place = Place::new();
        let socket = place.outside("run/worker.sock");
        let listener = Listener::Unix(bind_unix(&socket).unwrap());
        let stop = CancellationToken::new();
        let auth = Auth { uid, token: None };
        let executor = place.executor();
        let serving = tokio::spawn(serve(listener, executor, auth, stop.clone(), drain));
        Self { place, socket, stop, serving }
    }

    async fn connect(&self) -> Client {
        let stream = UnixStream::connect(&self.socket).await.unwrap();
        Client::new(Either::Left(stream))
    }

    /// A client that has shaken hands.
    async fn client(&self) -> Client {
        let mut client = self.connect().await;
        client.hello().await;
        client
    }

    async fn ended(self) {
        self.serving.await.unwrap().unwrap();
    }
}

struct Client {
    frames: Framed<Either<UnixStream, TcpStream>, LengthDelimitedCodec>,
}

impl Client {
    fn new(stream: Either<UnixStream, TcpStream>) -> Self {
        Self { frames: Framed::new(stream, frame::codec()) }
    }

    async fn hello(&mut self) {
        self.send(&ToWorker::Hello(Hello { version: PROTOCOL_VERSION, token: None })).await;
        let answer = self.receive().await.unwrap();
        assert!(matches!(answer, FromWorker::Hello(_)), "{answer:?}");
    }

    async fn send(&mut self, message: &ToWorker) {
        self.frames.send(frame::encode(message).unwrap()).await.unwrap();
    }

    async fn send_json(&mut self, message: &Value) {
        self.frames.send(Bytes::from(serde_json::to_vec(message).unwrap())).await.unwrap();
    }

    async fn call(&mut self, id: u64, code: &str) {
        let request = request("session", ToolCall::Bash(bash(code)));
        self.send(&ToWorker::Call { id, request: Box::new(request) }).await;
    }

    /// The next message; `None` when the connection has ended.
    async fn receive(&mut self) -> Option<FromWorker> {
        match self.frames.next().await {
            Some(Ok(payload)) => Some(frame::decode(&payload).unwrap()),
            _ => None,
        }
    }

    /// The reply to a call; what else arrives meanwhile is passed over.
    async fn reply(&mut self, wanted: u64) -> ToolReply {
        loop {
            match self.receive().await.unwrap() {
                FromWorker::Reply { id, reply } if id == wanted => return reply,
                _ => {}
            }
        }
    }

    /// Waits for a report with that last line.
    async fn line(&mut self, wanted: &str) {
        loop {
            if let FromWorker::Progress { progress, .. } = self.receive().await.unwrap()
                && progress.last_line.as_deref() == Some(wanted)
            {
                return;
            }
        }
    }

    async fn is_served(&mut self) {
        self.send(&ToWorker::Health { id: 77 }).await;
        let answer = self.receive().await.unwrap();
        assert!(matches!(answer, FromWorker::Health { id: 77, .. }), "{answer:?}");
    }

    async fn refusal(&mut self) -> Failure {
        match self.receive().await.unwrap() {
            FromWorker::Refused(failure) => failure,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_peer_of_the_same_user_and_version_is_served() {
    let server = Server::start();
    let mut client = server.client().await;
    client.is_served().await;
    client.send(&ToWorker::ListTools { id: 3 }).await;
    match client.receive().await.unwrap() {
        FromWorker::Tools { id: 3, names } => {
            assert!(names.contains(&"python_coding_tool.execute".to_owned()), "{names:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn another_version_is_refused_by_code_even_with_keys_that_are_unknown_here() {
    let server = Server::start();
    for hello in [
        json!({ "type": "hello", "version": PROTOCOL_VERSION + 1 }),
        json!({ "type": "hello", "version": 9, "build": "later", "token": null }),
    ] {
        let mut client = server.connect().await;
        client.send_json(&hello).await;
        let failure = client.refusal().await;
        assert_eq!(failure.code, ErrorCode::VersionMismatch);
        assert!(failure.hint.is_some());
        assert_eq!(client.receive().await, None, "the connection ends");
    }
}

#[tokio::test]
async fn a_process_of_another_user_is_refused() {
    let server = Server::start_with(uid() + 1, PATIENT);
    let mut client = server.connect().await;
    let failure = client.refusal().await;
    assert_eq!(failure.code, ErrorCode::PeerRefused);
    assert_eq!(client.receive().await, None);
}

#[tokio::test]
async fn nothing_is_answered_before_a_hello() {
    let server = Server::start();
    for message in [
        json!({ "type": "health", "id": 1 }),
        json!({ "type": "list_tools", "id": 1 }),
        json!("hello"),
        json!([]),
    ] {
        let mut client = server.connect().await;
        client.send_json(&message).await;
        assert_eq!(client.receive().await, None, "{message}");
    }
    server.client().await.is_served().await;
}

#[tokio::test]
async fn a_peer_that_breaks_the_protocol_loses_its_connection_and_nothing_else() {
    let server = Server::start();
    let mut other = server.client().await;
    let open_id = {
        let call = request("session", ToolCall::Bash(bash("sleep 1000")));
        serde_json::to_value(ToWorker::Call { id: 1, request: Box::new(call) }).unwrap()
    };
    for messages in [
        vec![json!({ "type": "no_such_thing" })],
        vec![json!({ "type": "health" })],
        vec![json!({ "type": "health", "id": 1, "more": 1 })],
        vec![json!({ "type": "health", "id": -1 })],
        vec![json!({ "type": "hello", "version": PROTOCOL_VERSION })],
        vec![open_id.clone(), open_id],
    ] {
        let mut client = server.client().await;
        for message in &messages {
            client.send_json(message).await;
        }
        // A call that was under way before is still answered; nothing else is.
        while let Some(answer) = client.receive().await {
            assert!(matches!(answer, FromWorker::Reply { id: 1, .. }), "{messages:?}: {answer:?}");
        }
        other.is_served().await;
    }
    let mut client = server.client().await;
    client.frames.send(Bytes::from_static(b"\xff\0 no json")).await.unwrap();
    assert_eq!(client.receive().await, None);
    other.is_served().await;
}

#[tokio::test]
async fn a_frame_that_is_too_long_is_refused_by_its_length_alone() {
    let server = Server::start();
    let mut other = server.client().await;
    // Before the handshake the bound is much lower.
    for (shaken, length) in [(true, MAX_FRAME_BYTES + 1), (true, usize::MAX >> 32), (false, 20_000)]
    {
        let mut client = if shaken { server.client().await } else { server.connect().await };
        let mut header = BytesMut::new();
        header.put_u32(u32::try_from(length).unwrap());
        client.frames.get_mut().write_all(&header).await.unwrap();
        // Nothing follows, and nothing is waited for.
        assert_eq!(client.receive().await, None, "{length}");
    }
    other.is_served().await;
}

#[tokio::test]
async fn over_tcp_only_a_peer_with_the_token_is_served() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let auth = Auth { uid: uid(), token: Some("the shared token".to_owned()) };
    assert!(!format!("{auth:?}").contains("shared"), "it could be logged");
    let stop = CancellationToken::new();
    let serving =
        tokio::spawn(serve(Listener::Tcp(listener), place.executor(), auth, stop.clone(), PATIENT));
    let connect =
        || async { Client::new(Either::Right(TcpStream::connect(address).await.unwrap())) };
    for token in [None, Some(""), Some("the shared toke"), Some("the shared token ")] {
        let mut client = connect().await;
        let token = token.map(str::to_owned);
        client.send(&ToWorker::Hello(Hello { version: PROTOCOL_VERSION, token })).await;
        assert_eq!(client.refusal().await.code, ErrorCode::PeerRefused);
        assert_eq!(client.receive().await, None);
    }
    let mut client = connect().await;
    let token = Some("the shared token".to_owned());
    client.send(&ToWorker::Hello(Hello { version: PROTOCOL_VERSION, token })).await;
    match client.receive().await.unwrap() {
        FromWorker::Hello(hello) => assert_eq!(hello.token, None, "the token is not sent back"),
        other => panic!("{other:?}"),
    }
    client.is_served().await;
    stop.cancel();
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn tcp_is_not_served_without_a_token_or_beyond_loopback() {
    let place = Place::new();
    for (address, token) in
        [("127.0.0.1:0", None), ("127.0.0.1:0", Some("")), ("0.0.0.0:0", Some("token"))]
    {
        let listener = Listener::Tcp(TcpListener::bind(address).await.unwrap());
        let auth = Auth { uid: uid(), token: token.map(str::to_owned) };
        let served =
            serve(listener, place.executor(), auth, CancellationToken::new(), PATIENT).await;
        assert!(served.is_err(), "{address} {token:?}");
    }
}

#[tokio::test]
async fn other_questions_are_answered_while_a_call_goes_on() {
    let server = Server::start();
    let mut client = server.client().await;
    client.call(1, "echo ready; until [ -e go ]; do sleep 0.02; done; echo went").await;
    client.line("ready").await;
    client.send(&ToWorker::Health { id: 2 }).await;
    loop {
        match client.receive().await.unwrap() {
            FromWorker::Health { id: 2, health } => {
                assert_eq!(health.running, 1);
                break;
            }
            FromWorker::Progress { id: 1, .. } => {}
            other => panic!("{other:?}"),
        }
    }
    server.place.write("go", "");
    let value = finished(client.reply(1).await);
    assert_eq!(value["stdout"], "ready\nwent\n");
    // The id is free again.
    client.call(1, "echo again").await;
    assert_eq!(finished(client.reply(1).await)["stdout"], "again\n");
}

#[tokio::test]
async fn a_cancelled_call_is_answered_with_what_there_was() {
    let server = Server::start();
    let mut client = server.client().await;
    client.send(&ToWorker::Cancel { id: 99 }).await;
    client.call(1, "echo before; sleep 1000").await;
    client.line("before").await;
    client.send(&ToWorker::Cancel { id: 1 }).await;
    let value = finished(client.reply(1).await);
    assert_eq!((&value["verdict"], &value["stdout"]), (&json!("cancelled"), &json!("before\n")));
    client.is_served().await;
}

#[tokio::test]
async fn the_calls_of_a_peer_that_goes_away_are_killed() {
    let server = Server::start();
    let mut client = server.client().await;
    client.call(1, "echo ready; sleep 1000").await;
    client.call(2, "touch second-call-ran").await;
    client.line("ready").await;
    drop(client);
    // The same session: this can run only when the others have gone.
    let mut next = server.client().await;
    next.call(1, "ls; echo next").await;
    assert_eq!(finished(next.reply(1).await)["stdout"], "next\n");
}

#[tokio::test]
async fn stopping_lets_calls_finish_and_refuses_new_ones() {
    let server = Server::start();
    let mut client = server.client().await;
    client.call(1, "echo ready; until [ -e go ]; do sleep 0.02; done; echo went").await;
    client.line("ready").await;
    server.stop.cancel();
    client.call(2, "echo late").await;
    match client.reply(2).await {
        ToolReply::Failed(failure) => assert_eq!(failure.code, ErrorCode::WorkerUnavailable),
        ToolReply::Done { value } => panic!("{value}"),
    }
    server.place.write("go", "");
    assert_eq!(finished(client.reply(1).await)["stdout"], "ready\nwent\n");
    assert_eq!(client.receive().await, None, "the connection ends with its last call");
    server.ended().await;
}

#[tokio::test]
async fn after_the_drain_deadline_calls_are_killed_and_still_answered() {
    let server = Server::start_with(uid(), Duration::from_millis(50));
    let mut client = server.client().await;
    client.call(1, "echo ready; sleep 1000").await;
    client.line("ready").await;
    server.stop.cancel();
    let value = finished(client.reply(1).await);
    assert_eq!((&value["verdict"], &value["stdout"]), (&json!("cancelled"), &json!("ready\n")));
    server.ended().await;
}

#[tokio::test]
async fn an_idle_server_stops_at_once_whoever_is_connected() {
    let server = Server::start();
    let mut shaken = server.client().await;
    let mut silent = server.connect().await;
    server.stop.cancel();
    assert_eq!(shaken.receive().await, None);
    assert_eq!(silent.receive().await, None);
    server.ended().await;
}

#[tokio::test]
async fn one_connection_too_many_is_closed_and_its_place_can_be_had_later() {
    let server = Server::start();
    let mut clients = Vec::new();
    for _ in 0..64 {
        clients.push(server.client().await);
    }
    assert_eq!(server.connect().await.receive().await, None);
    clients[0].is_served().await;
    drop(clients.pop());
    // The place is free as soon as the server has seen the end of the other connection.
    loop {
        let mut client = server.connect().await;
        let hello = ToWorker::Hello(Hello { version: PROTOCOL_VERSION, token: None });
        let sent = client.frames.send(frame::encode(&hello).unwrap()).await;
        if sent.is_ok() && client.receive().await.is_some() {
            break;
        }
    }
}

#[tokio::test]
async fn closing_a_session_forgets_its_last_run() {
    let server = Server::start();
    let mut client = server.client().await;
    client.call(1, "echo remembered").await;
    client.reply(1).await;
    for expected in [json!("remembered\n"), Value::Null] {
        let call = request("session", support::attribute("last_stdout"));
        client.send(&ToWorker::Call { id: 2, request: Box::new(call) }).await;
        assert_eq!(finished(client.reply(2).await), json!({ "result": expected }));
        client.send(&ToWorker::CloseSession { session: "session".to_owned() }).await;
    }
}

#[tokio::test]
async fn a_peer_that_reads_nothing_does_not_stop_the_others() {
    let server = Server::start();
    let mut deaf = server.client().await;
    // Far more answers than the queue and the socket hold.
    let question = frame::encode(&ToWorker::ListTools { id: 1 }).unwrap();
    let flood = tokio::spawn(async move {
        loop {
            if deaf.frames.send(question.clone()).await.is_err() {
                break;
            }
        }
    });
    let mut other = server.client().await;
    for _ in 0..100 {
        other.is_served().await;
    }
    other.call(1, "echo served").await;
    assert_eq!(finished(other.reply(1).await)["stdout"], "served\n");
    flood.abort();
    assert!(fs::metadata(&server.socket).is_ok());
}
