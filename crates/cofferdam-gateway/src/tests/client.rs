//! The client's promises about the worker's socket.

use cofferdam_protocol::{
    Endpoint, ErrorCode, Failure, FromWorker, Health, Hello, PROTOCOL_VERSION, Progress, ToWorker,
    ToolCall, ToolReply,
    tool::{AttributePayload, BashExecute},
};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::fake_worker::{FakeWorker, Peer};
use crate::client::{ConnectError, WorkerClient};

fn bash(code: &str) -> ToolCall {
    ToolCall::Bash(BashExecute { code: code.to_owned(), ..Default::default() })
}

fn unwatched() -> mpsc::Sender<Progress> {
    mpsc::channel(1).0
}

/// Begins a call that runs beside the test.
fn begin(
    client: &WorkerClient,
    call: ToolCall,
    cancel: &CancellationToken,
) -> tokio::task::JoinHandle<ToolReply> {
    let (client, cancel) = (client.clone(), cancel.clone());
    tokio::spawn(async move { client.call("s", call, unwatched(), cancel).await })
}

async fn connected() -> (FakeWorker, WorkerClient, Peer) {
    let worker = FakeWorker::listen();
    let (client, peer) =
        tokio::join!(WorkerClient::connect(worker.endpoint(), None), worker.accept());
    (worker, client.unwrap(), peer)
}

async fn refused_handshake(answer: &str) -> ConnectError {
    let worker = FakeWorker::listen();
    let handshake = async {
        let mut peer = worker.accept_raw().await;
        peer.receive().await;
        peer.send_raw(answer.as_bytes()).await;
    };
    let (client, ()) = tokio::join!(WorkerClient::connect(worker.endpoint(), None), handshake);
    client.unwrap_err()
}

fn failure(reply: ToolReply) -> Failure {
    match reply {
        ToolReply::Failed(failure) => failure,
        other => panic!("expected a failure, got {other:?}"),
    }
}

#[tokio::test]
async fn the_handshake_carries_version_and_token() {
    let worker = FakeWorker::listen();
    let token = Some("secret".to_owned());
    let handshake = async {
        let mut peer = worker.accept_raw().await;
        let hello = peer.receive().await.unwrap();
        peer.send(FromWorker::Hello(Hello { version: PROTOCOL_VERSION, token: None })).await;
        hello
    };
    let (client, hello) = tokio::join!(WorkerClient::connect(worker.endpoint(), token), handshake);
    client.unwrap();
    assert_eq!(
        hello,
        ToWorker::Hello(Hello { version: PROTOCOL_VERSION, token: Some("secret".to_owned()) })
    );
}

#[tokio::test]
async fn a_worker_of_another_version_is_refused_whatever_the_shape_of_its_hello() {
    for answer in [
        r#"{"type":"hello","version":99,"token":null}"#,
        r#"{"type":"hello","version":99,"features":["new"]}"#,
    ] {
        let error = refused_handshake(answer).await;
        assert!(matches!(error, ConnectError::VersionMismatch { theirs: 99, .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_peer_that_is_no_worker_is_refused() {
    for answer in ["HTTP/1.1 400 Bad Request", r#"{"type":"tools","id":1,"names":[]}"#] {
        let error = refused_handshake(answer).await;
        assert!(matches!(error, ConnectError::NotAWorker(_)), "{error:?}");
    }
}

#[tokio::test]
async fn a_refusal_of_the_worker_is_passed_on() {
    let answer = r#"{"type":"refused","code":"peer_refused","message":"wrong token"}"#;
    let error = refused_handshake(answer).await;
    assert_eq!(error.to_string(), "the worker refused the connection: wrong token");
}

#[tokio::test]
async fn a_worker_that_is_not_there_is_an_error_that_names_the_endpoint() {
    let endpoint = Endpoint::Unix("/nonexistent/worker.sock".into());
    let error = WorkerClient::connect(endpoint, None).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot connect to `unix:/nonexistent/worker.sock`");
}

#[tokio::test]
async fn answers_find_their_calls_in_any_order() {
    let (_worker, client, mut peer) = connected().await;
    let never = CancellationToken::new();
    let first = begin(&client, bash("first"), &never);
    let (first_id, session, _) = peer.receive_call().await;
    let second = begin(&client, bash("second"), &never);
    let (second_id, _, call) = peer.receive_call().await;
    assert_eq!((session.as_str(), call), ("s", bash("second")));
    for (id, text) in [(second_id, "2"), (first_id, "1")] {
        let reply = ToolReply::Done { value: json!({ "stdout": text }) };
        peer.send(FromWorker::Reply { id, reply }).await;
    }
    assert_eq!(first.await.unwrap(), ToolReply::Done { value: json!({ "stdout": "1" }) });
    assert_eq!(second.await.unwrap(), ToolReply::Done { value: json!({ "stdout": "2" }) });
}

#[tokio::test]
async fn a_cancel_reaches_the_worker_and_its_answer_still_counts() {
    let (_worker, client, mut peer) = connected().await;
    let cancel = CancellationToken::new();
    let call = begin(&client, bash("sleep"), &cancel);
    let (id, _, _) = peer.receive_call().await;
    cancel.cancel();
    assert_eq!(peer.receive().await, Some(ToWorker::Cancel { id }));
    let reply = ToolReply::Done { value: json!({ "verdict": "cancelled" }) };
    peer.send(FromWorker::Reply { id, reply: reply.clone() }).await;
    assert_eq!(call.await.unwrap(), reply);
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_at_the_worker() {
    let (_worker, client, mut peer) = connected().await;
    let call = begin(&client, bash("sleep"), &CancellationToken::new());
    let (id, _, _) = peer.receive_call().await;
    call.abort();
    assert_eq!(peer.receive().await, Some(ToWorker::Cancel { id }));
}

#[tokio::test]
async fn progress_is_passed_on_and_what_nobody_takes_is_dropped() {
    let (_worker, client, mut peer) = connected().await;
    let (sender, mut updates) = mpsc::channel(2);
    let call = tokio::spawn(async move {
        client.call("s", bash("work"), sender, CancellationToken::new()).await
    });
    let (id, _, _) = peer.receive_call().await;
    for elapsed_ms in 1..=5 {
        let progress = Progress { elapsed_ms, ..Default::default() };
        peer.send(FromWorker::Progress { id, progress }).await;
    }
    let reply = ToolReply::Done { value: json!({}) };
    peer.send(FromWorker::Reply { id, reply }).await;
    call.await.unwrap();
    let mut seen = Vec::new();
    while let Some(update) = updates.recv().await {
        seen.push(update.elapsed_ms);
    }
    assert_eq!(seen, [1, 2]);
}

#[tokio::test]
async fn the_death_of_the_worker_answers_every_open_call_and_the_next_call_reconnects() {
    let (worker, client, mut peer) = connected().await;
    let never = CancellationToken::new();
    let calls: Vec<_> = (0..20).map(|n| begin(&client, bash(&n.to_string()), &never)).collect();
    for _ in 0..20 {
        peer.receive_call().await;
    }
    let dead = worker.die();
    drop(peer);
    for call in calls {
        let failure = failure(call.await.unwrap());
        assert_eq!(failure.code, ErrorCode::WorkerUnavailable);
        assert!(failure.hint.is_some() && failure.retry_after_ms.is_some(), "{failure:?}");
    }
    let worker = dead.restart();
    let next = begin(&client, bash("again"), &never);
    let mut peer = worker.accept().await;
    let (id, _, call) = peer.receive_call().await;
    assert_eq!(call, bash("again"));
    let reply = ToolReply::Done { value: json!({}) };
    peer.send(FromWorker::Reply { id, reply: reply.clone() }).await;
    assert_eq!(next.await.unwrap(), reply);
}

#[tokio::test]
async fn a_call_waits_for_a_worker_that_is_being_restarted() {
    let (worker, client, peer) = connected().await;
    let dead = worker.die();
    drop(peer);
    client.connection_lost().await;
    client.health().await.unwrap_err();
    let call = begin(&client, bash("patient"), &CancellationToken::new());
    // On this runtime's one thread, the call's first attempt fails before the socket is back.
    tokio::task::yield_now().await;
    let worker = dead.restart();
    let mut peer = worker.accept().await;
    let (id, _, _) = peer.receive_call().await;
    peer.send(FromWorker::Reply { id, reply: ToolReply::Done { value: json!({}) } }).await;
    assert_eq!(call.await.unwrap(), ToolReply::Done { value: json!({}) });
}

#[tokio::test(start_paused = true)]
async fn calls_without_a_worker_fail_together_and_not_one_after_the_other() {
    let (worker, client, peer) = connected().await;
    let _dead = worker.die();
    drop(peer);
    client.connection_lost().await;
    let began = tokio::time::Instant::now();
    let never = CancellationToken::new();
    let calls: Vec<_> = (0..50).map(|_| begin(&client, bash("x"), &never)).collect();
    for call in calls {
        assert_eq!(failure(call.await.unwrap()).code, ErrorCode::WorkerUnavailable);
    }
    // On the paused clock, where one round of attempts takes exactly two seconds.
    assert!(began.elapsed() <= std::time::Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_call_that_is_too_long_is_refused_before_anything_is_sent() {
    let (_worker, client, mut peer) = connected().await;
    // 10 MiB that JSON writes six times as long.
    let code = "\u{1}".repeat(10 * 1024 * 1024);
    let reply = client.call("s", bash(&code), unwatched(), CancellationToken::new()).await;
    let failure = failure(reply);
    assert_eq!(failure.code, ErrorCode::FrameTooLarge);
    assert!(failure.message.contains("the limit is 50331648 bytes"), "{}", failure.message);
    let _next = begin(&client, bash("next"), &CancellationToken::new());
    assert_eq!(peer.receive_call().await.2, bash("next"));
}

#[tokio::test]
async fn a_message_that_cannot_be_read_ends_the_connection_and_its_calls() {
    let (_worker, client, mut peer) = connected().await;
    let call = begin(&client, bash("x"), &CancellationToken::new());
    peer.receive_call().await;
    peer.send_raw(br#"{"type":"reply","id":1,"surprise":true}"#).await;
    assert_eq!(failure(call.await.unwrap()).code, ErrorCode::WorkerUnavailable);
}

#[tokio::test]
async fn an_answer_to_a_call_that_was_given_up_is_ignored() {
    let (_worker, client, mut peer) = connected().await;
    let call = begin(&client, bash("x"), &CancellationToken::new());
    let (id, _, _) = peer.receive_call().await;
    call.abort();
    peer.receive().await;
    peer.send(FromWorker::Reply { id, reply: ToolReply::Done { value: json!({}) } }).await;
    let question = tokio::spawn(async move { client.list_tools().await });
    let Some(ToWorker::ListTools { id }) = peer.receive().await else { panic!("no question") };
    peer.send(FromWorker::Tools { id, names: vec!["a".to_owned()] }).await;
    assert_eq!(question.await.unwrap().unwrap(), ["a"]);
}

#[tokio::test]
async fn health_and_the_end_of_a_session_cross_the_socket() {
    let (_worker, client, mut peer) = connected().await;
    let health = Health {
        pid: 7,
        running: 1,
        queued: 2,
        generation: 3,
        reload_error: Some("no".to_owned()),
    };
    let question = tokio::spawn({
        let client = client.clone();
        async move { client.health().await }
    });
    let Some(ToWorker::Health { id }) = peer.receive().await else { panic!("no question") };
    peer.send(FromWorker::Health { id, health: health.clone() }).await;
    assert_eq!(question.await.unwrap().unwrap(), health);
    client.close_session("s-1").await;
    assert_eq!(peer.receive().await, Some(ToWorker::CloseSession { session: "s-1".to_owned() }));
}

#[tokio::test]
async fn an_answer_of_another_kind_is_a_fault_and_not_a_result() {
    let (_worker, client, mut peer) = connected().await;
    let attribute = ToolCall::Attribute(AttributePayload { name: "limits".to_owned() });
    let call = begin(&client, attribute, &CancellationToken::new());
    let (id, _, _) = peer.receive_call().await;
    peer.send(FromWorker::Tools { id, names: Vec::new() }).await;
    assert_eq!(failure(call.await.unwrap()).code, ErrorCode::Internal);
}
