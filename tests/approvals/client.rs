//! The smallest MCP clients that can be asked: JSON lines over pipes and streamable HTTP, in both eras.
//!
//! They say exactly what a test has them say, also what no honest client would.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    process::{ChildStdin, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::Instant,
};

use serde_json::{Value, json};

use crate::{
    ask,
    support::{PATIENCE, World, server::Server},
};

/// The protocol's two generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// How a client reaches a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Stdio,
    Http,
}

/// The four ways in.
pub(crate) const WAYS: [(Transport, Era); 4] = [
    (Transport::Stdio, Era::Legacy),
    (Transport::Stdio, Era::Modern),
    (Transport::Http, Era::Legacy),
    (Transport::Http, Era::Modern),
];

const VERSION: &str = "2026-07-28";
const LEGACY_VERSION: &str = "2025-11-25";

/// A client that can say that it can ask its person.
pub(crate) struct Client {
    pub(crate) era: Era,
    capabilities: Value,
    connection: Connection,
    inbox: Receiver<Value>,
    unread: Vec<Value>,
    next_id: u64,
}

enum Connection {
    Pipe(ChildStdin),
    Http { url: String, session: Option<String>, arrived: Sender<Value> },
}

/// A server that runs, ended with its client.
pub(crate) struct Served {
    pub(crate) server: Server,
    /// Where it serves HTTP.
    pub(crate) url: Option<String>,
}

/// What a client that can ask its person declares.
pub(crate) fn can_ask() -> Value {
    json!({ "elicitation": {} })
}

/// Starts a server of this world and a client of it.
pub(crate) fn start(
    world: &World,
    (transport, era): (Transport, Era),
    capabilities: &Value,
) -> (Served, Client) {
    match transport {
        Transport::Stdio => {
            let (server, connection, inbox) = stdio(world);
            let client = Client::new(era, capabilities, connection, inbox);
            (Served { server, url: None }, client)
        }
        Transport::Http => {
            let served = serve(world);
            let client = connect(&served, era, capabilities);
            (served, client)
        }
    }
}

/// `cofferdam serve` of this world.
pub(crate) fn serve(world: &World) -> Served {
    let mut command = ask::cofferdam(world);
    command.args(["serve", "--mcp-port", "0"]).args(ask::options(world)).stdin(Stdio::null());
    let mut server = Server::start(command);
    let url = server.ready().address;
    Served { server, url: Some(url) }
}

/// A client of a server that serves HTTP.
pub(crate) fn connect(served: &Served, era: Era, capabilities: &Value) -> Client {
    let url = served.url.clone().expect("it serves HTTP");
    let (arrived, inbox) = channel();
    let connection = Connection::Http { url, session: None, arrived };
    Client::new(era, capabilities, connection, inbox)
}

fn stdio(world: &World) -> (Server, Connection, Receiver<Value>) {
    let mut command = ask::cofferdam(world);
    command.arg("stdio").args(ask::options(world));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let (mut server, to, from) = Server::start_piped(command);
    server.ready();
    let (sender, inbox) = channel();
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let message = serde_json::from_str(&line).expect("standard output is MCP only");
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    (server, Connection::Pipe(to), inbox)
}

impl Client {
    fn new(era: Era, capabilities: &Value, connection: Connection, inbox: Receiver<Value>) -> Self {
        let capabilities = capabilities.clone();
        let unread = Vec::new();
        let mut client = Self { era, capabilities, connection, inbox, unread, next_id: 1 };
        if era == Era::Legacy {
            client.initialize();
        }
        client
    }

    fn initialize(&mut self) {
        let params = json!({
            "protocolVersion": LEGACY_VERSION, "capabilities": self.capabilities,
            "clientInfo": { "name": "approval-tests", "version": "0" }
        });
        let id = self.request("initialize", params);
        let answer = self.answer(id);
        assert_eq!(answer["result"]["protocolVersion"], LEGACY_VERSION, "{answer}");
        self.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    /// Begins a call; its id.
    pub(crate) fn send_call(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.send_call_with(tool, arguments, &json!({}))
    }

    /// Begins a call with further parameters; its id.
    pub(crate) fn send_call_with(&mut self, tool: &str, arguments: &Value, more: &Value) -> u64 {
        let mut params = json!({ "name": tool, "arguments": arguments });
        for (key, value) in more.as_object().expect("an object") {
            params[key] = value.clone();
        }
        self.request("tools/call", params)
    }

    /// Makes the call again that was answered by a question, with what the client says.
    pub(crate) fn send_again(
        &mut self,
        tool: &str,
        arguments: &Value,
        question: &Value,
        response: &Value,
    ) -> u64 {
        let state = &question["result"]["requestState"];
        let more = json!({ "requestState": state, "inputResponses": { "approval": response } });
        self.send_call_with(tool, arguments, &more)
    }

    /// Begins a call and waits until the client's person is asked: the message that they see, and what
    /// is needed to answer.
    #[track_caller]
    pub(crate) fn call_until_asked(&mut self, tool: &str, arguments: &Value) -> Asked {
        let id = self.send_call(tool, arguments);
        let (question, elicitation) = match self.era {
            Era::Legacy => {
                let question = self.elicitation();
                let elicitation = question["params"].clone();
                (question, elicitation)
            }
            Era::Modern => {
                let question = self.answer(id);
                assert_eq!(question["result"]["resultType"], "input_required", "{question}");
                let request = &question["result"]["inputRequests"]["approval"];
                assert_eq!(request["method"], "elicitation/create", "{question}");
                let elicitation = request["params"].clone();
                (question, elicitation)
            }
        };
        let (tool, arguments) = (tool.to_owned(), arguments.clone());
        Asked { call: id, tool, arguments, question, elicitation }
    }

    /// Gives the person's answer; the answer to the call.
    #[track_caller]
    pub(crate) fn respond(&mut self, asked: &Asked, response: &Value) -> Value {
        match self.era {
            Era::Legacy => {
                self.send_response(&asked.question, response);
                self.answer(asked.call)
            }
            Era::Modern => {
                let id = self.send_again(&asked.tool, &asked.arguments, &asked.question, response);
                self.answer(id)
            }
        }
    }

    /// Answers a request of the server.
    pub(crate) fn send_response(&mut self, request: &Value, result: &Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
    }

    /// Says that a request of the server cannot be done.
    pub(crate) fn send_error(&mut self, request: &Value) {
        let error = json!({ "code": -32601, "message": "no such method" });
        self.send(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }));
    }

    /// Waits for the server's request to ask the person.
    #[track_caller]
    pub(crate) fn elicitation(&mut self) -> Value {
        self.receive("a request to ask", |message| message["method"] == "elicitation/create")
    }

    /// Waits for the answer to a request.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        self.receive(&format!("the answer to {id}"), |message| {
            message["id"] == id && message.get("method").is_none()
        })
    }

    /// Takes a call back.
    pub(crate) fn cancel(&mut self, id: u64) {
        let params = json!({ "requestId": id, "reason": "a test" });
        self.send(json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params
        }));
    }

    /// Ends the session of a legacy client over HTTP.
    pub(crate) fn end_session(&self) {
        let Connection::Http { url, session: Some(session), .. } = &self.connection else {
            panic!("there is no session to end")
        };
        ureq::delete(url).header("Mcp-Session-Id", session).call().expect("the session ends");
    }

    /// Begins a call over HTTP and reads nothing: who drops the stream hangs up.
    pub(crate) fn hang_on(&self, tool: &str, arguments: &Value) -> TcpStream {
        let Connection::Http { url, .. } = &self.connection else { panic!("not over HTTP") };
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": { "name": tool, "arguments": arguments, "_meta": self.meta() }
        })
        .to_string();
        let (host, path) =
            url.trim_start_matches("http://").split_once('/').expect("a path after the host");
        let mut stream = TcpStream::connect(host).expect("the server listens");
        let head = format!(
            "POST /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {VERSION}\r\n\
             Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("the server reads");
        stream
    }

    fn meta(&self) -> Value {
        json!({
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            "io.modelcontextprotocol/clientInfo": { "name": "approval-tests", "version": "0" }
        })
    }

    /// Whether the server has ever asked anything of this client, as far as it has been read.
    pub(crate) fn was_asked(&mut self) -> bool {
        self.unread.extend(self.inbox.try_iter());
        self.unread.iter().any(|message| message["method"] == "elicitation/create")
    }

    /// Waits for a message; the others are kept.
    #[track_caller]
    pub(crate) fn receive(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            if let Some(at) = self.unread.iter().position(&wanted) {
                return self.unread.remove(at);
            }
            match self.inbox.recv_timeout(PATIENCE.saturating_sub(begun.elapsed())) {
                Ok(message) => self.unread.push(message),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("{what} did not come: {:#?}", self.unread)
                }
            }
        }
    }

    fn request(&mut self, method: &str, mut params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        if self.era == Era::Modern {
            params["_meta"] = self.meta();
        }
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn send(&mut self, message: Value) {
        let era = self.era;
        match &mut self.connection {
            Connection::Pipe(pipe) => writeln!(pipe, "{message}").expect("the server reads"),
            Connection::Http { url, session, arrived } => {
                if message["method"] != "tools/call" {
                    let (id, answers) = post(url, era, session.as_deref(), &message);
                    *session = session.take().or(id);
                    answers.for_each(|answer| drop(arrived.send(answer)));
                    return;
                }
                let (url, session, arrived) = (url.clone(), session.clone(), arrived.clone());
                // What comes back comes when it comes: the call may wait for a person.
                thread::spawn(move || {
                    let (_, answers) = post(&url, era, session.as_deref(), &message);
                    answers.for_each(|answer| drop(arrived.send(answer)));
                });
            }
        }
    }
}

/// A call about which the client's person was asked.
pub(crate) struct Asked {
    pub(crate) call: u64,
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    /// The server's request, or its result that asks for input.
    pub(crate) question: Value,
    /// What is to be asked.
    pub(crate) elicitation: Value,
}

/// Posts a message; the session that was made for it, and the messages that come back.
fn post(
    url: &str,
    era: Era,
    session: Option<&str>,
    message: &Value,
) -> (Option<String>, impl Iterator<Item = Value> + use<>) {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .http_status_as_error(false)
        .build()
        .into();
    let mut request = agent
        .post(url)
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream");
    if let Some(session) = session {
        request = request.header("Mcp-Session-Id", session);
    }
    if era == Era::Modern {
        request = request
            .header("MCP-Protocol-Version", VERSION)
            .header("Mcp-Method", message["method"].as_str().unwrap_or_default());
        if let Some(tool) = message["params"]["name"].as_str() {
            request = request.header("Mcp-Name", tool);
        }
    } else if session.is_some() {
        request = request.header("MCP-Protocol-Version", LEGACY_VERSION);
    }
    let response = request.send(message.to_string()).expect("the server answers");
    let session =
        response.headers().get("mcp-session-id").and_then(|id| id.to_str().ok().map(str::to_owned));
    let lines = BufReader::new(response.into_body().into_reader()).lines().map_while(Result::ok);
    let messages = lines.filter_map(|line| {
        serde_json::from_str::<Value>(line.strip_prefix("data:").unwrap_or(&line).trim()).ok()
    });
    (session, messages)
}

/// The bare message of a call that was refused.
#[track_caller]
pub(crate) fn refusal(answer: &Value) -> &str {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["content"][0]["text"].as_str().expect("a text")
}

/// The machine-readable code of a call that was refused.
#[track_caller]
pub(crate) fn code(answer: &Value) -> &str {
    answer.pointer("/result/_meta/cofferdam/code").and_then(Value::as_str).expect("a code")
}
