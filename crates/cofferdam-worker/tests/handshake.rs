//! Who is let in at the socket, and what a peer can break.

#![allow(clippy::unwrap_used)]

mod support;

use bytes::{BufMut, Bytes, BytesMut};
use cofferdam_protocol::{
    ErrorCode, FromWorker, Hello, PROTOCOL_VERSION, ToWorker, ToolCall,
    frame::{self, MAX_FRAME_BYTES},
};
use cofferdam_worker::{Auth, Listener, serve};
use futures_util::SinkExt;
use serde_json::json;
use support::{
    Place, bash,
    client::{Client, PATIENT, Server, uid},
    request,
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
};
use tokio_util::{either::Either, sync::CancellationToken};

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
