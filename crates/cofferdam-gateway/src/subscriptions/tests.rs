//! Changes in the gap between what rmcp says and when it hands over: the client's pipe is kept full, so
//! that the gap is as long as the test wants.

use std::{sync::Arc, time::Duration};

use cofferdam_protocol::{
    Endpoint, FromWorker, Hello, PROTOCOL_VERSION, ToWorker,
    frame::{self, codec},
};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, duplex},
    net::{UnixListener, UnixStream},
};
use tokio_util::{
    codec::{Framed, LengthDelimitedCodec},
    sync::CancellationToken,
};

use crate::{
    approval::ApprovalStates,
    calls::Calls,
    client::WorkerClient,
    server::GatewayServer,
    settings::{ResultForm, ToolNames},
    stdio,
};

/// How long a message may take before a test gives up. Never a measure of speed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client whose pipe holds one byte, and the worker behind the gateway.
struct Scene {
    to: DuplexStream,
    from: Lines<BufReader<DuplexStream>>,
    worker: Framed<UnixStream, LengthDelimitedCodec>,
    client: WorkerClient,
}

impl Scene {
    async fn set() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("worker.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let (client, worker) =
            tokio::join!(WorkerClient::connect(Endpoint::Unix(path), None), shake_hands(&listener));
        let client = client.unwrap();
        let (to, stdin) = duplex(4096);
        let (stdout, from) = duplex(1);
        let server = GatewayServer::new(
            client.clone(),
            Arc::new(Calls::new(None)),
            ToolNames::Dotted,
            ResultForm::Wrapped,
            ApprovalStates::new().unwrap(),
        );
        let drain = Duration::from_secs(60);
        tokio::spawn(stdio::serve(stdin, stdout, server, drain, CancellationToken::new()));
        Self { to, from: BufReader::new(from).lines(), worker, client }
    }

    async fn send(&mut self, message: &Value) {
        self.to.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.from.next_line()).await.expect("in time");
        let line = line.unwrap().expect("the gateway serves");
        serde_json::from_str(&line).unwrap()
    }

    /// The worker says that the tools have changed, and the gateway has heard it.
    async fn change(&mut self) {
        let mut changes = self.client.tools_changed();
        self.worker.send(frame::encode(&FromWorker::ToolsChanged).unwrap()).await.unwrap();
        changes.changed().await.unwrap();
    }
}

async fn shake_hands(listener: &UnixListener) -> Framed<UnixStream, LengthDelimitedCodec> {
    let (stream, _) = listener.accept().await.unwrap();
    let mut frames = Framed::new(stream, codec());
    let hello = frames.next().await.unwrap().unwrap();
    assert!(matches!(frame::decode(&hello), Ok(ToWorker::Hello(_))));
    let answer = FromWorker::Hello(Hello { version: PROTOCOL_VERSION, token: None });
    frames.send(frame::encode(&answer).unwrap()).await.unwrap();
    frames
}

fn listen(id: u64) -> Value {
    json!({
        "jsonrpc": "2.0", "id": id, "method": "subscriptions/listen",
        "params": {
            "notifications": { "toolsListChanged": true, "promptsListChanged": true },
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}
            }
        }
    })
}

#[tokio::test]
async fn a_change_between_the_acknowledgement_and_the_stream_is_told() {
    let mut scene = Scene::set().await;
    scene.send(&listen(1)).await;
    // Its first byte is there, so it is being written; the rest waits until it is read.
    scene.from.get_mut().fill_buf().await.unwrap();
    scene.change().await;
    let acknowledged = scene.receive().await;
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let accepted = &acknowledged["params"]["notifications"];
    assert_eq!(*accepted, json!({ "toolsListChanged": true }), "only what there is");
    let told = scene.receive().await;
    assert_eq!(told["method"], "notifications/tools/list_changed", "{told}");
    let stream = &told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(*stream, 1, "{told}");
}

#[tokio::test]
async fn a_change_between_a_legacy_clients_initialize_and_its_last_word_is_told() {
    let mut scene = Scene::set().await;
    let initialize = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "test", "version": "0" }
        }
    });
    scene.send(&initialize).await;
    let answer = scene.receive().await;
    assert_eq!(answer["result"]["capabilities"]["tools"]["listChanged"], true, "{answer}");
    scene.change().await;
    scene.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    let told = scene.receive().await;
    assert_eq!(told["method"], "notifications/tools/list_changed", "{told}");
    assert_eq!(told["params"], Value::Null, "{told}");
}

#[tokio::test]
async fn changes_that_a_slow_client_has_not_read_are_told_as_few_and_the_last_one_always() {
    let mut scene = Scene::set().await;
    scene.send(&listen(1)).await;
    scene.receive().await;
    for _ in 0..100 {
        scene.change().await;
    }
    let mut told = 0;
    scene.send(&listen(2)).await;
    loop {
        let message = scene.receive().await;
        if message["method"] == "notifications/subscriptions/acknowledged" {
            break;
        }
        told += 1;
    }
    assert!((1..=3).contains(&told), "told {told} times of changes that nobody read");
    scene.change().await;
    let streams = [scene.receive().await, scene.receive().await]
        .map(|told| told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone());
    assert!(streams.contains(&json!(1)) && streams.contains(&json!(2)), "{streams:?}");
}
