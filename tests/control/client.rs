//! The smallest MCP clients that can be told of changes: JSON lines over pipes and streamable HTTP, in
//! both eras.

use std::{
    io::{BufRead, BufReader, Write},
    process::ChildStdin,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Instant,
};

use serde_json::{Value, json};

use crate::support::PATIENCE;

/// The protocol's two generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

const VERSION: &str = "2026-07-28";
const LEGACY_VERSION: &str = "2025-11-25";
const CHANGED: &str = "notifications/tools/list_changed";

/// One client.
pub(crate) struct Client {
    era: Era,
    connection: Connection,
    inbox: Receiver<Value>,
    unread: Vec<Value>,
    next_id: u64,
}

enum Connection {
    Pipe(Option<ChildStdin>),
    Http { url: String, session: Option<String>, arrived: Sender<Value> },
}

impl Client {
    /// A client at the other end of a server's pipes.
    pub(crate) fn at_pipes(
        era: Era,
        to: ChildStdin,
        from: impl std::io::Read + Send + 'static,
    ) -> Self {
        let (sender, inbox) = channel();
        thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).expect("standard output is MCP only");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self::new(era, Connection::Pipe(Some(to)), inbox)
    }

    /// A client over HTTP. One of the legacy era opens the stream on which it is told things.
    pub(crate) fn at_url(era: Era, url: &str) -> Self {
        let (arrived, inbox) = channel();
        let connection = Connection::Http { url: url.to_owned(), session: None, arrived };
        Self::new(era, connection, inbox)
    }

    fn new(era: Era, connection: Connection, inbox: Receiver<Value>) -> Self {
        let mut client = Self { era, connection, inbox, unread: Vec::new(), next_id: 1 };
        if era == Era::Legacy {
            client.initialize();
        }
        client
    }

    fn initialize(&mut self) {
        let params = json!({
            "protocolVersion": LEGACY_VERSION, "capabilities": {},
            "clientInfo": { "name": "control-tests", "version": "0" }
        });
        let id = self.request("initialize", params);
        let answer = self.answer(id);
        let tools = &answer["result"]["capabilities"]["tools"];
        assert_eq!(tools["listChanged"], true, "{answer}");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        if let Connection::Http { url, session, arrived } = &self.connection {
            let session = session.as_deref().expect("a legacy session");
            let response = ureq::get(url)
                .header("Accept", "text/event-stream")
                .header("Mcp-Session-Id", session)
                .header("MCP-Protocol-Version", LEGACY_VERSION)
                .call()
                .expect("the stream opens");
            forward(response, arrived.clone());
        }
    }

    /// Asks to be told of changes, where the era needs that, and waits until that is acknowledged. The
    /// id of the stream.
    #[track_caller]
    pub(crate) fn listen(&mut self) -> Option<u64> {
        if self.era == Era::Legacy {
            return None;
        }
        let filter = json!({ "notifications": { "toolsListChanged": true } });
        let id = self.request("subscriptions/listen", filter);
        let acknowledged = self.receive("the acknowledgement", |message| {
            message["method"] == "notifications/subscriptions/acknowledged"
                && subscription(message) == Some(id)
        });
        let accepted = &acknowledged["params"]["notifications"];
        assert_eq!(*accepted, json!({ "toolsListChanged": true }), "{acknowledged}");
        Some(id)
    }

    /// Waits until it is told that the list has changed, on that stream in the modern era.
    #[track_caller]
    pub(crate) fn expect_change(&mut self, stream: Option<u64>) {
        self.receive("news of a change", |message| {
            message["method"] == CHANGED && subscription(message) == stream
        });
    }

    /// Whether it has been told of a change that nobody waited for, as far as it has been read.
    pub(crate) fn was_told(&mut self) -> bool {
        self.unread.extend(self.inbox.try_iter());
        self.unread.iter().any(|message| message["method"] == CHANGED)
    }

    /// The names of the listed tools.
    #[track_caller]
    pub(crate) fn tools(&mut self) -> Vec<String> {
        let id = self.request("tools/list", json!({}));
        let answer = self.answer(id);
        let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
        tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    }

    /// Calls a tool; the answer to the request.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.send_call(tool, arguments);
        self.answer(id)
    }

    /// Begins a call; its id.
    pub(crate) fn send_call(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Waits for the answer to a request.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        self.receive(&format!("the answer to {id}"), |message| {
            message["id"] == id && message.get("method").is_none()
        })
    }

    /// Leaves: a server at pipes reads end of file.
    pub(crate) fn close(&mut self) {
        if let Connection::Pipe(pipe) = &mut self.connection {
            *pipe = None;
        }
    }

    #[track_caller]
    fn receive(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            if let Some(at) = self.unread.iter().position(&wanted) {
                return self.unread.remove(at);
            }
            match self.inbox.recv_timeout(PATIENCE.saturating_sub(begun.elapsed())) {
                Ok(message) => self.unread.push(message),
                Err(_) => panic!("{what} did not come: {:#?}", self.unread),
            }
        }
    }

    fn request(&mut self, method: &str, mut params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        if self.era == Era::Modern {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": VERSION,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": { "name": "control-tests", "version": "0" }
            });
        }
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn send(&mut self, message: &Value) {
        let era = self.era;
        match &mut self.connection {
            Connection::Pipe(pipe) => {
                let pipe = pipe.as_mut().expect("the pipe is open");
                writeln!(pipe, "{message}").expect("the server reads");
            }
            Connection::Http { url, session, arrived } => {
                let (url, message) = (url.clone(), message.clone());
                let arrived = arrived.clone();
                if era == Era::Legacy && session.is_none() {
                    let response = post(&url, era, None, &message);
                    let id = response.headers().get("mcp-session-id").expect("a session");
                    *session = Some(id.to_str().expect("text").to_owned());
                    forward(response, arrived);
                    return;
                }
                let session = session.clone();
                if message.get("id").is_none() {
                    // In order with what follows.
                    forward(post(&url, era, session.as_deref(), &message), arrived);
                    return;
                }
                thread::spawn(move || {
                    forward(post(&url, era, session.as_deref(), &message), arrived);
                });
            }
        }
    }
}

/// The stream that a message belongs to.
fn subscription(message: &Value) -> Option<u64> {
    message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].as_u64()
}

type Response = ureq::http::Response<ureq::Body>;

fn post(url: &str, era: Era, session: Option<&str>, message: &Value) -> Response {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let mut request = agent
        .post(url)
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream");
    if let Some(session) = session {
        request = request
            .header("Mcp-Session-Id", session)
            .header("MCP-Protocol-Version", LEGACY_VERSION);
    }
    if era == Era::Modern {
        request = request
            .header("MCP-Protocol-Version", VERSION)
            .header("Mcp-Method", message["method"].as_str().unwrap_or_default());
        if let Some(tool) = message["params"]["name"].as_str() {
            request = request.header("Mcp-Name", tool);
        }
    }
    request.send(message.to_string()).expect("the server answers")
}

/// Puts every message of a response into the inbox, for as long as it lasts.
fn forward(response: Response, arrived: Sender<Value>) {
    thread::spawn(move || {
        let lines = BufReader::new(response.into_body().into_reader()).lines();
        for line in lines.map_while(Result::ok) {
            let text = line.strip_prefix("data:").unwrap_or(&line).trim();
            if let Ok(message) = serde_json::from_str(text)
                && arrived.send(message).is_err()
            {
                return;
            }
        }
    });
}

/// The bare message of a call that was refused, and its code.
#[track_caller]
pub(crate) fn refusal(answer: &Value) -> (&str, &str) {
    let result = &answer["result"];
    assert_eq!(result["isError"], true, "{answer}");
    let text = result["content"][0]["text"].as_str().expect("a text");
    (text, result["_meta"]["cofferdam"]["code"].as_str().expect("a code"))
}
