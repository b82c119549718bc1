//! What clients over HTTP see, by raw requests: sessions, eras, bounds, and the order of stopping.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use cofferdam_protocol::{Endpoint, ToWorker};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::fake_worker::FakeWorker;
use crate::{Gateway, GatewayError, GatewaySettings, ResultForm, ToolNames, Transport};

const PYTHON: &str = "python_coding_tool.execute";
const MODERN: &str = "2026-07-28";

/// A gateway that serves on loopback, and its worker's reports.
struct Server {
    address: SocketAddr,
    worker: mpsc::Receiver<ToWorker>,
    stop: CancellationToken,
    serving: JoinHandle<Result<(), GatewayError>>,
}

struct Answer {
    status: StatusCode,
    headers: http::HeaderMap,
    body: String,
}

impl Answer {
    /// The last message of an event stream, or the body itself.
    fn message(&self) -> Value {
        let last = self.body.lines().rev().find_map(|line| line.strip_prefix("data: "));
        serde_json::from_str(last.unwrap_or(&self.body))
            .unwrap_or_else(|error| panic!("{error} in {} {:?}", self.status, self.body))
    }
}

fn settings(worker: Endpoint, listener: std::net::TcpListener) -> GatewaySettings {
    GatewaySettings {
        worker,
        worker_token: None,
        request_timeout: None,
        transport: Transport::Http {
            listener,
            path: "/mcp".to_owned(),
            allowed_hosts: vec!["tools.example".to_owned()],
        },
        tool_names: ToolNames::Dotted,
        result_form: ResultForm::Wrapped,
        inline_images: false,
        drain: Duration::from_secs(600),
    }
}

async fn start() -> Server {
    let (endpoint, worker) = FakeWorker::listen().serve();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let gateway = Gateway::start(settings(endpoint, listener)).await.unwrap();
    let stop = CancellationToken::new();
    let serving = tokio::spawn(gateway.serve(stop.clone()));
    Server { address, worker, stop, serving }
}

impl Server {
    /// Sends a request on a connection of its own and waits for the head of the answer.
    async fn head(&self, request: Request<Full<Bytes>>) -> hyper::Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Answer {
        let (head, body) = self.head(request).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        Answer { status: head.status, headers: head.headers, body }
    }

    fn post(&self, headers: &[(&str, &str)], body: &str) -> Request<Full<Bytes>> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri("/mcp")
            .header("host", self.address.to_string())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        for (name, value) in headers {
            if *name == "host" {
                request.headers_mut().unwrap().remove("host");
            }
            request = request.header(*name, *value);
        }
        request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap()
    }

    fn request(&self, method: Method, path: &str, session: Option<&str>) -> Request<Full<Bytes>> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.address.to_string())
            .header("accept", "text/event-stream");
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        request.body(Full::default()).unwrap()
    }

    /// Opens a legacy session; its id, or the refusal.
    async fn open_session(&self) -> Result<String, Answer> {
        let body = request(
            0,
            "initialize",
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" }
            }),
        );
        let answer = self.send(self.post(&[], &body)).await;
        match answer.headers.get("mcp-session-id") {
            Some(id) => Ok(id.to_str().unwrap().to_owned()),
            None => Err(answer),
        }
    }

    fn legacy_call(&self, session: &str, id: u64, code: &str) -> Request<Full<Bytes>> {
        self.post(&[("mcp-session-id", session)], &request(id, "tools/call", call(code)))
    }

    fn modern_call(&self, code: &str, extra: &[(&str, &str)]) -> Request<Full<Bytes>> {
        let mut headers = vec![
            ("mcp-protocol-version", MODERN),
            ("mcp-method", "tools/call"),
            ("mcp-name", PYTHON),
        ];
        headers.extend(extra);
        self.post(&headers, &request(1, "tools/call", modern(call(code))))
    }

    async fn worker_gets<T>(&mut self, pick: impl Fn(ToWorker) -> Option<T>) -> T {
        loop {
            if let Some(picked) = pick(self.worker.recv().await.unwrap()) {
                return picked;
            }
        }
    }

    /// Id and session of the next call at the worker.
    async fn worker_gets_a_call(&mut self) -> (u64, String) {
        self.worker_gets(|message| match message {
            ToWorker::Call { id, request } => Some((id, request.session)),
            _ => None,
        })
        .await
    }

    async fn worker_gets_a_cancel(&mut self) -> u64 {
        self.worker_gets(|message| match message {
            ToWorker::Cancel { id } => Some(id),
            _ => None,
        })
        .await
    }
}

fn request(id: u64, method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

fn call(code: &str) -> Value {
    json!({ "name": PYTHON, "arguments": { "code": code } })
}

fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    params
}

#[tokio::test]
async fn both_eras_are_served_and_give_the_same_result() {
    let server = start().await;
    let session = server.open_session().await.unwrap_or_else(|answer| panic!("{}", answer.body));
    let legacy = server.send(server.legacy_call(&session, 1, "x")).await.message();
    let mut modern = server.send(server.modern_call("x", &[])).await.message();
    assert_eq!(modern["result"]["resultType"].take(), "complete");
    modern["result"].as_object_mut().unwrap().shift_remove("resultType");
    assert_eq!(legacy["result"], modern["result"]);
    assert_eq!(legacy["result"]["structuredContent"]["result"]["stdout"], "x");
}

#[tokio::test]
async fn a_call_belongs_to_the_session_that_it_came_through_and_to_no_other_that_it_names() {
    let mut server = start().await;
    let session = server.open_session().await.unwrap_or_else(|answer| panic!("{}", answer.body));
    server.send(server.legacy_call(&session, 1, "x")).await;
    assert_eq!(server.worker_gets_a_call().await.1, session);
    let forged = server.modern_call("x", &[("mcp-session-id", session.as_str())]);
    let answer = server.send(forged).await;
    assert_eq!(answer.message()["result"]["isError"], false);
    assert_eq!(server.worker_gets_a_call().await.1, "http");
    let unknown = server.send(server.legacy_call("no-such-session", 1, "x")).await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_foreign_origin_or_host_is_forbidden_and_nothing_reaches_the_worker() {
    let mut server = start().await;
    for header in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", "http://localhost.evil.example"),
        ("host", "evil.example"),
        ("host", "127.0.0.1.evil.example:8050"),
    ] {
        let answer = server.send(server.modern_call("evil", &[header])).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{header:?}");
    }
    for header in [
        ("origin", "http://localhost:3000"),
        ("origin", "http://[::1]:3000"),
        ("origin", "https://tools.example"),
        ("host", "tools.example"),
        ("host", "localhost:1"),
    ] {
        let answer = server.send(server.modern_call("good", &[header])).await;
        assert_eq!(answer.status, StatusCode::OK, "{header:?}");
    }
    server.worker.close();
    while let Some(message) = server.worker.recv().await {
        assert!(!format!("{message:?}").contains("evil"), "{message:?}");
    }
}

#[tokio::test]
async fn a_modern_request_without_its_headers_is_refused() {
    let server = start().await;
    let body = request(1, "tools/call", modern(call("x")));
    let version = ("mcp-protocol-version", MODERN);
    for headers in [
        vec![version],
        vec![version, ("mcp-method", "tools/call")],
        vec![version, ("mcp-method", "tools/list"), ("mcp-name", PYTHON)],
    ] {
        let answer = server.send(server.post(&headers, &body)).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{headers:?}");
        assert_eq!(answer.message()["error"]["code"], -32020, "{headers:?}");
    }
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused_and_says_what_the_limit_is() {
    let server = start().await;
    let body = "x".repeat(64 * 1024 * 1024 + 1);
    let answer = server.send(server.post(&[], &body)).await;
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(answer.body.contains("exceeds 67108864 bytes"), "{}", answer.body);
}

#[tokio::test]
async fn code_that_is_too_long_gets_the_tools_own_answer() {
    let server = start().await;
    let code = "#".repeat(50 * 1024 * 1024);
    let answer = server.send(server.modern_call(&code, &[])).await.message();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, "`code` is 52428800 bytes long, the limit is 4194304 bytes");
}

#[tokio::test]
async fn sessions_are_capped_and_a_deleted_one_makes_room() {
    let mut server = start().await;
    let mut sessions = Vec::new();
    let refusal = loop {
        match server.open_session().await {
            Ok(session) => sessions.push(session),
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(sessions.len(), 64);
    assert_eq!(refusal.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refusal.headers["retry-after"], "1");
    // Others are still served: those of the modern era, and the sessions themselves.
    assert_eq!(server.send(server.modern_call("x", &[])).await.status, StatusCode::OK);
    assert_eq!(server.send(server.legacy_call(&sessions[0], 1, "x")).await.status, StatusCode::OK);
    let leaving = sessions.pop().unwrap();
    let deleted = server.send(server.request(Method::DELETE, "/mcp", Some(&leaving))).await;
    assert_eq!(deleted.status, StatusCode::ACCEPTED);
    let closed = server.worker_gets(|message| match message {
        ToWorker::CloseSession { session } => Some(session),
        _ => None,
    });
    assert_eq!(closed.await, leaving);
    assert!(server.open_session().await.is_ok());
}

#[tokio::test]
async fn a_deleted_session_takes_its_calls_with_it() {
    let mut server = start().await;
    let session = server.open_session().await.unwrap_or_else(|answer| panic!("{}", answer.body));
    let _answer = server.head(server.legacy_call(&session, 1, "wait")).await;
    let (id, _) = server.worker_gets_a_call().await;
    server.send(server.request(Method::DELETE, "/mcp", Some(&session))).await;
    assert_eq!(server.worker_gets_a_cancel().await, id);
}

#[tokio::test]
async fn a_modern_client_that_hangs_up_cancels_its_call() {
    let mut server = start().await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let call = server.modern_call("wait", &[]);
    let answer = tokio::spawn(async move { sender.send_request(call).await.map(drop) });
    let (id, _) = server.worker_gets_a_call().await;
    answer.abort();
    connection.abort();
    assert_eq!(server.worker_gets_a_cancel().await, id);
}

#[tokio::test]
async fn a_legacy_client_that_hangs_up_does_not_cancel_its_call() {
    let mut server = start().await;
    let session = server.open_session().await.unwrap_or_else(|answer| panic!("{}", answer.body));
    drop(server.head(server.legacy_call(&session, 1, "wait")).await);
    let (first, _) = server.worker_gets_a_call().await;
    let params = json!({ "requestId": 1 });
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
    // The session lives on, and it can still cancel what it left.
    let second = server.send(server.legacy_call(&session, 2, "x")).await;
    assert_eq!(second.message()["id"], 2);
    let headers = [("mcp-session-id", session.as_str())];
    let accepted = server.send(server.post(&headers, &cancel.to_string())).await;
    assert_eq!(accepted.status, StatusCode::ACCEPTED);
    assert_eq!(server.worker_gets_a_cancel().await, first);
}

#[tokio::test]
async fn progress_comes_on_the_stream_of_its_call() {
    let mut server = start().await;
    let mut params = modern(call("progress"));
    params["_meta"]["progressToken"] = json!(7);
    let headers =
        [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", PYTHON)];
    let post = server.post(&headers, &request(1, "tools/call", params));
    let mut body = server.head(post).await.into_body();
    let mut text = String::new();
    while text.matches("notifications/progress").count() < 3 {
        let frame = body.frame().await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
    }
    assert!(text.contains(r#""progress":1.001"#) && text.contains(r#""message":"two""#), "{text}");
    let (id, _) = server.worker_gets_a_call().await;
    drop(body);
    assert_eq!(server.worker_gets_a_cancel().await, id);
}

#[tokio::test]
async fn health_pages_tell_a_living_process_from_a_useful_one() {
    let worker = FakeWorker::listen();
    let endpoint = worker.endpoint();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (gateway, peer) =
        tokio::join!(Gateway::start(settings(endpoint, listener)), worker.accept());
    let stop = CancellationToken::new();
    let serving = tokio::spawn(gateway.unwrap().serve(stop.clone()));
    let server = Server { address, worker: mpsc::channel(1).1, stop, serving };
    drop(worker.die());
    drop(peer);
    for (path, status) in
        [("/healthz", StatusCode::OK), ("/readyz", StatusCode::SERVICE_UNAVAILABLE)]
    {
        let answer = server.send(server.request(Method::GET, path, None)).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
    }
    let answer = server.send(server.request(Method::GET, "/readyz", None)).await;
    assert_eq!(answer.message()["code"], "worker_unavailable");
}

#[tokio::test]
async fn a_stop_answers_what_is_under_way_and_refuses_the_rest_meanwhile() {
    let mut server = start().await;
    let session = server.open_session().await.unwrap_or_else(|answer| panic!("{}", answer.body));
    let under_way = server.head(server.legacy_call(&session, 1, "wait")).await;
    server.worker_gets_a_call().await;
    let ready = server.send(server.request(Method::GET, "/readyz", None)).await;
    assert_eq!(ready.status, StatusCode::OK);
    server.stop.cancel();
    let draining = loop {
        let ready = server.send(server.request(Method::GET, "/readyz", None)).await;
        if ready.status != StatusCode::OK {
            break ready;
        }
    };
    assert_eq!(draining.message()["status"], "draining");
    let refused = server.send(server.modern_call("x", &[])).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers["retry-after"], "1");
    assert!(!server.serving.is_finished());
    // The client of the call that is under way ends it, which is no new call.
    let deleted = server.send(server.request(Method::DELETE, "/mcp", Some(&session))).await;
    assert_eq!(deleted.status, StatusCode::ACCEPTED);
    drop(under_way);
    server.serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_drain_deadline_ends_calls_with_an_answer() {
    let (endpoint, worker) = FakeWorker::listen().serve();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut settings = settings(endpoint, listener);
    settings.drain = Duration::from_millis(20);
    let gateway = Gateway::start(settings).await.unwrap();
    let stop = CancellationToken::new();
    let serving = tokio::spawn(gateway.serve(stop.clone()));
    let mut server = Server { address, worker, stop, serving };
    let session = server.open_session().await.unwrap_or_else(|answer| panic!("{}", answer.body));
    let legacy = server.head(server.legacy_call(&session, 1, "wait")).await;
    let (id, _) = server.worker_gets_a_call().await;
    server.stop.cancel();
    assert_eq!(server.worker_gets_a_cancel().await, id);
    let body = legacy.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8(body.to_vec()).unwrap();
    assert!(body.contains(r#""verdict":"cancelled""#), "{body}");
    server.serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_address_that_others_can_reach_is_refused() {
    let (endpoint, _worker) = FakeWorker::listen().serve();
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let error = Gateway::start(settings(endpoint, listener)).await.unwrap_err();
    assert!(matches!(error, GatewayError::NotLoopback(_)), "{error:?}");
}
