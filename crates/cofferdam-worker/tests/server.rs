//! Calls over the socket: multiplexed, cancelled, and what is left when either end goes.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use cofferdam_protocol::{ErrorCode, FromWorker, ToWorker, ToolReply, frame};
use futures_util::SinkExt;
use serde_json::{Value, json};
use support::{
    client::{Server, uid},
    finished, request,
};

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
        other => panic!("{other:?}"),
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
}
