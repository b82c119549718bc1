//! What a client over stdio sees, and when calls end.

use std::{sync::Arc, time::Duration};

use cofferdam_protocol::ToWorker;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    sync::mpsc,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::fake_worker::{FakeWorker, finished};
use crate::{
    GatewayError, ResultForm, ToolNames, approval::ApprovalStates, calls::Calls,
    client::WorkerClient, server::GatewayServer, stdio,
};

const PYTHON: &str = "python_coding_tool.execute";

/// A client at the other end of the pipes.
struct Client {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    /// None once stdin is closed.
    stdin: Option<WriteHalf<DuplexStream>>,
    serving: JoinHandle<Result<(), GatewayError>>,
    stop: CancellationToken,
    worker: mpsc::Receiver<ToWorker>,
}

/// How a gateway is set up where a test is not content with the usual.
struct Setup {
    names: ToolNames,
    form: ResultForm,
    request_timeout: Option<Duration>,
    drain: Duration,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            names: ToolNames::Dotted,
            form: ResultForm::Wrapped,
            request_timeout: None,
            drain: Duration::from_secs(600),
        }
    }
}

impl Client {
    /// A client that has said nothing yet.
    async fn silent(setup: Setup) -> Self {
        let (endpoint, worker) = FakeWorker::listen().serve();
        let client = WorkerClient::connect(endpoint, None).await.unwrap();
        let calls = Arc::new(Calls::new(setup.request_timeout));
        let states = ApprovalStates::new().unwrap();
        let server = GatewayServer::new(client, calls, setup.names, setup.form, states);
        // Two pipes: closing one must not close the other.
        let (stdin, server_stdin) = tokio::io::duplex(64 * 1024);
        let (stdout, server_stdout) = tokio::io::duplex(64 * 1024);
        let (_, stdin) = tokio::io::split(stdin);
        let (stdout, _) = tokio::io::split(stdout);
        let stop = CancellationToken::new();
        let serving = stdio::serve(server_stdin, server_stdout, server, setup.drain, stop.clone());
        let serving = tokio::spawn(serving);
        let lines = BufReader::new(stdout).lines();
        Self { lines, stdin: Some(stdin), serving, stop, worker }
    }

    /// A client of the legacy era that has introduced itself.
    async fn legacy(setup: Setup) -> Self {
        let mut client = Self::silent(setup).await;
        let about = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" }
        });
        client
            .send(json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about }))
            .await;
        let answer = client.next().await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        client
    }

    async fn send(&mut self, message: Value) {
        self.send_line(&message.to_string()).await;
    }

    async fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).await.unwrap();
        stdin.write_all(b"\n").await.unwrap();
    }

    async fn request(&mut self, id: u64, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
    }

    async fn call(&mut self, id: u64, tool: &str, arguments: Value) {
        self.request(id, "tools/call", json!({ "name": tool, "arguments": arguments })).await;
    }

    /// The next message that is not about the list of tools, which a reconnection changes.
    async fn next(&mut self) -> Value {
        loop {
            let line = self.lines.next_line().await.unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["method"] != "notifications/tools/list_changed" {
                return message;
            }
        }
    }

    /// Makes one call and gives its result.
    async fn result(&mut self, tool: &str, arguments: Value) -> Value {
        self.call(1, tool, arguments).await;
        let answer = self.next().await;
        assert_eq!(answer["id"], 1, "{answer}");
        answer["result"].clone()
    }

    /// What comes next must be the answer to a call made now.
    async fn result_of_second_call(&mut self) -> Value {
        self.call(2, PYTHON, json!({ "code": "x" })).await;
        let answer = self.next().await;
        assert_eq!(answer["id"], 2, "{answer}");
        answer["result"].clone()
    }

    fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// The next message that the worker gets of the kind that `pick` picks.
    async fn worker_gets<T>(&mut self, pick: impl Fn(&ToWorker) -> Option<T>) -> T {
        loop {
            if let Some(picked) = pick(&self.worker.recv().await.unwrap()) {
                return picked;
            }
        }
    }

    async fn worker_gets_a_call(&mut self) -> u64 {
        let pick = |message: &ToWorker| match message {
            ToWorker::Call { id, .. } => Some(*id),
            _ => None,
        };
        self.worker_gets(pick).await
    }

    async fn worker_gets_a_cancel(&mut self) -> u64 {
        let pick = |message: &ToWorker| match message {
            ToWorker::Cancel { id } => Some(*id),
            _ => None,
        };
        self.worker_gets(pick).await
    }
}

fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" }
    });
    params
}

#[tokio::test]
async fn a_result_is_wrapped_and_its_text_is_the_object_itself() {
    let mut client = Client::legacy(Setup::default()).await;
    let result = client.result(PYTHON, json!({ "code": "{\"messages\": []}" })).await;
    let object = finished("{\"messages\": []}");
    assert_eq!(
        result,
        json!({
            "content": [{ "type": "text", "text": object.to_string() }],
            "structuredContent": { "result": object },
            "isError": false,
            "_meta": { "fastmcp": { "wrap_result": true } }
        })
    );
}

#[tokio::test]
async fn a_plain_result_is_the_object_without_a_flag() {
    let mut client = Client::legacy(Setup { form: ResultForm::Plain, ..Setup::default() }).await;
    let result = client.result(PYTHON, json!({ "code": "x" })).await;
    assert_eq!(result["structuredContent"], finished("x"));
    assert_eq!(result.get("_meta"), None);
}

#[tokio::test]
async fn an_attribute_is_plain_in_either_form() {
    let mut client = Client::legacy(Setup::default()).await;
    let name = "executor.get_attribute_payload";
    let result = client.result(name, json!({ "name": "last_stdout" })).await;
    assert_eq!(result["structuredContent"], finished("last_stdout"));
    assert_eq!(result.get("_meta"), None);
}

#[tokio::test]
async fn a_failure_is_the_bare_message_with_code_and_hint_beside_it() {
    let mut client = Client::legacy(Setup::default()).await;
    assert_eq!(
        client.result(PYTHON, json!({ "code": "refuse" })).await,
        json!({
            "content": [{ "type": "text", "text": "no" }],
            "isError": true,
            "_meta": { "cofferdam": { "code": "denied", "hint": "ask" } }
        })
    );
}

#[tokio::test]
async fn bad_calls_are_answered_as_tool_errors_and_the_server_lives_on() {
    let mut client = Client::legacy(Setup::default()).await;
    let long_name = "x".repeat(100_000);
    let long_code = "#".repeat(5 * 1024 * 1024);
    let cases = [
        ("no_such.tool", json!({}), "unknown_tool", "Unknown tool: 'no_such.tool'"),
        (long_name.as_str(), json!({}), "unknown_tool", "Unknown tool: 'xxx"),
        (PYTHON, json!({ "code": "1", "cod": 1 }), "invalid_arguments", "unknown argument `cod`"),
        (PYTHON, json!({}), "invalid_arguments", "missing argument `code`"),
        (PYTHON, json!({ "code": 1 }), "invalid_arguments", "argument `code` must be string"),
        (PYTHON, json!({ "code": "a\0" }), "invalid_arguments", "NUL character at byte 1"),
        (PYTHON, json!({ "code": long_code }), "invalid_arguments", "the limit is 4194304 bytes"),
        (PYTHON, json!([1]), "invalid_arguments", "`arguments` an object"),
    ];
    for (tool, arguments, code, message) in cases {
        let result = client.result(tool, arguments).await;
        assert_eq!(result["isError"], true, "{message}");
        assert_eq!(result.get("structuredContent"), None);
        assert_eq!(result["_meta"]["cofferdam"]["code"], code);
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(message) && text.len() < 300, "{text}");
    }
    let hint = client.result(PYTHON, json!({ "code": "1", "cod": 1 })).await;
    assert_eq!(hint["_meta"]["cofferdam"]["hint"], "did you mean `code`?");
    assert_eq!(client.result(PYTHON, json!({ "code": "x" })).await["isError"], false);
}

#[tokio::test]
async fn a_message_beyond_the_limit_is_answered_and_the_next_one_is_read() {
    let mut client = Client::legacy(Setup::default()).await;
    let code = "#".repeat(65 * 1024 * 1024);
    client.call(7, PYTHON, json!({ "code": code })).await;
    let answer = client.next().await;
    assert_eq!(answer["id"], 7);
    assert_eq!(answer["result"]["_meta"]["cofferdam"]["code"], "frame_too_large");
    assert_eq!(client.result(PYTHON, json!({ "code": "x" })).await["isError"], false);
}

#[tokio::test]
async fn a_line_that_is_no_message_is_passed_over() {
    let mut client = Client::legacy(Setup::default()).await;
    for line in ["not json", "", "{\"half\":"] {
        client.send_line(line).await;
    }
    assert_eq!(client.result(PYTHON, json!({ "code": "x" })).await["isError"], false);
}

#[tokio::test]
async fn either_spelling_of_a_name_may_be_called_whatever_is_listed() {
    for names in [ToolNames::Dotted, ToolNames::Underscore, ToolNames::Both] {
        let mut client = Client::legacy(Setup { names, ..Setup::default() }).await;
        for name in [PYTHON, "python_coding_tool_execute"] {
            let result = client.result(name, json!({ "code": "x" })).await;
            assert_eq!(result["isError"], false, "{names:?} {name}");
        }
    }
}

#[tokio::test]
async fn only_active_tools_are_listed_and_cache_hints_are_for_the_modern_era() {
    let mut client = Client::legacy(Setup::default()).await;
    client.request(1, "tools/list", json!({})).await;
    let legacy = client.next().await["result"].clone();
    // The worker of this test has Bash switched off.
    let names = |result: &Value| -> Vec<String> {
        result["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&legacy), [PYTHON, "executor.get_attribute_payload"]);
    for key in ["ttlMs", "cacheScope", "resultType"] {
        assert_eq!(legacy.get(key), None, "{key}");
    }
    let mut client = Client::silent(Setup::default()).await;
    client.request(1, "tools/list", modern(json!({}))).await;
    let modern = client.next().await["result"].clone();
    assert_eq!(names(&modern), names(&legacy));
    assert_eq!(modern["ttlMs"], 30_000);
    assert_eq!(modern["cacheScope"], "private");
}

#[tokio::test]
async fn both_eras_are_served_on_one_pipe() {
    let mut client = Client::silent(Setup::default()).await;
    client.request(1, "server/discover", modern(json!({}))).await;
    let discovered = client.next().await["result"].clone();
    let versions = discovered["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2025-11-25")));
    assert!(discovered["instructions"].as_str().unwrap().len() < 2_048);
    let about = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" }
    });
    client.request(2, "initialize", about).await;
    assert_eq!(client.next().await["result"]["protocolVersion"], "2025-11-25");
    let call = modern(json!({ "name": PYTHON, "arguments": { "code": "x" } }));
    client.request(3, "tools/call", call).await;
    let modern = client.next().await;
    assert_eq!(modern["result"]["resultType"], "complete");
    let legacy = client.result(PYTHON, json!({ "code": "x" })).await;
    assert_eq!(legacy.get("resultType"), None);
}

#[tokio::test]
async fn progress_rises_ends_before_the_result_and_carries_the_last_line() {
    let mut client = Client::legacy(Setup::default()).await;
    let params = json!({
        "name": PYTHON,
        "arguments": { "code": "progress" },
        "_meta": { "progressToken": "token" }
    });
    client.request(1, "tools/call", params).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let update = client.next().await;
        assert_eq!(update["method"], "notifications/progress");
        assert_eq!(update["params"]["progressToken"], "token");
        seen.push((
            update["params"]["progress"].as_f64().unwrap(),
            update["params"]["message"].as_str().unwrap().to_owned(),
        ));
    }
    let expected = [(1.0, "one"), (1.001, "two"), (2.5, "running, no output yet")];
    assert_eq!(seen, expected.map(|(value, text)| (value, text.to_owned())));
    client.stop.cancel();
    client.close_stdin();
    let answer = client.next().await;
    assert_eq!(answer["id"], 1, "{answer}");
}

#[tokio::test]
async fn progress_that_was_not_asked_for_is_not_sent() {
    let mut client = Client::legacy(Setup::default()).await;
    client.call(1, PYTHON, json!({ "code": "progress" })).await;
    client.worker_gets_a_call().await;
    assert_eq!(client.result_of_second_call().await["isError"], false);
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_at_the_worker_and_not_answered() {
    let mut client = Client::legacy(Setup::default()).await;
    client.call(1, PYTHON, json!({ "code": "wait" })).await;
    let at_worker = client.worker_gets_a_call().await;
    let params = json!({ "requestId": 1, "reason": "test" });
    client
        .send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }))
        .await;
    assert_eq!(client.worker_gets_a_cancel().await, at_worker);
    assert_eq!(client.result_of_second_call().await["isError"], false);
}

#[tokio::test]
async fn the_request_timeout_cancels_at_the_worker_and_says_so() {
    let request_timeout = Some(Duration::from_millis(20));
    let mut client = Client::legacy(Setup { request_timeout, ..Setup::default() }).await;
    let result = client.result(PYTHON, json!({ "code": "wait" })).await;
    client.worker_gets_a_cancel().await;
    assert_eq!(result["_meta"]["cofferdam"]["code"], "cancelled");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, "the call was ended after the request timeout of 0.02 s");
}

#[tokio::test]
async fn the_death_of_the_worker_is_a_tool_error_with_a_hint() {
    let mut client = Client::legacy(Setup::default()).await;
    let result = client.result(PYTHON, json!({ "code": "die" })).await;
    let about = &result["_meta"]["cofferdam"];
    assert_eq!(about["code"], "worker_unavailable");
    assert!(about["hint"].is_string() && about["retry_after_ms"].is_u64(), "{about}");
    assert_eq!(client.result(PYTHON, json!({ "code": "x" })).await["isError"], false);
}

#[tokio::test]
async fn stdin_that_closes_before_any_message_is_no_error() {
    let mut client = Client::silent(Setup::default()).await;
    client.close_stdin();
    client.serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_was_asked_before_stdin_closed_is_answered() {
    let mut client = Client::legacy(Setup::default()).await;
    for id in 1..=20 {
        client.call(id, PYTHON, json!({ "code": "x" })).await;
    }
    client.close_stdin();
    let mut answered = Vec::new();
    while let Some(line) = client.lines.next_line().await.unwrap() {
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        answered.push(answer["id"].as_u64().unwrap());
    }
    answered.sort();
    assert_eq!(answered, (1..=20).collect::<Vec<_>>());
    client.serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_drain_deadline_ends_a_call_that_outlives_its_client() {
    let drain = Duration::from_millis(20);
    let mut client = Client::legacy(Setup { drain, ..Setup::default() }).await;
    client.call(1, PYTHON, json!({ "code": "wait" })).await;
    let at_worker = client.worker_gets_a_call().await;
    client.close_stdin();
    assert_eq!(client.worker_gets_a_cancel().await, at_worker);
    assert_eq!(client.next().await["id"], 1);
    client.serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stop_refuses_new_calls_and_waits_for_those_under_way() {
    let mut client = Client::legacy(Setup::default()).await;
    client.call(1, PYTHON, json!({ "code": "wait" })).await;
    let at_worker = client.worker_gets_a_call().await;
    client.stop.cancel();
    let refused = loop {
        let result = client.result_of_second_call().await;
        // The stop is noticed by another task than the call.
        if result["isError"] == true {
            break result;
        }
    };
    assert_eq!(refused["_meta"]["cofferdam"]["code"], "busy");
    assert!(!client.serving.is_finished());
    // Closing stdin too says that nothing is waited for.
    client.close_stdin();
    assert_eq!(client.worker_gets_a_cancel().await, at_worker);
    assert_eq!(client.next().await["id"], 1);
    client.serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_over_stdio_has_one_session() {
    let mut client = Client::legacy(Setup::default()).await;
    client.result(PYTHON, json!({ "code": "x" })).await;
    let pick = |message: &ToWorker| match message {
        ToWorker::Call { request, .. } => Some(request.session.clone()),
        _ => None,
    };
    assert_eq!(client.worker_gets(pick).await, "stdio");
}
