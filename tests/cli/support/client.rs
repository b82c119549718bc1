//! The smallest MCP clients that can call a tool: JSON-RPC over HTTP and over pipes.
//!
//! How real clients fare is claimed in `tests/mcp`; here only the processes matter.

use std::{
    io::{BufRead, BufReader, Write},
    process::{ChildStdin, ChildStdout},
};

use serde_json::{Value, json};

use super::PATIENCE;

/// Calls a tool over HTTP; the answer to the JSON-RPC request, or why there is none.
pub(crate) fn call_over_http(url: &str, tool: &str, arguments: &Value) -> Result<Value, String> {
    let request = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": tool, "arguments": arguments, "_meta": meta() }
    });
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .http_status_as_error(false)
        .build()
        .into();
    let mut response = agent
        .post(url)
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", VERSION)
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", tool)
        .send(request.to_string())
        .map_err(|error| error.to_string())?;
    let status = response.status();
    let body = response.body_mut().read_to_string().map_err(|error| error.to_string())?;
    body.lines()
        .map(|line| line.strip_prefix("data:").unwrap_or(line))
        .filter_map(|line| serde_json::from_str::<Value>(line.trim()).ok())
        .find(|message| message.get("id") == Some(&json!(1)))
        .ok_or_else(|| format!("{status}: {body}"))
}

const VERSION: &str = "2026-07-28";

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "cli-tests", "version": "0" }
    })
}

/// A client at the other end of a server's pipes.
#[derive(Debug)]
pub(crate) struct PipeClient {
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    next_id: u64,
}

impl PipeClient {
    pub(crate) fn new(to: ChildStdin, from: ChildStdout) -> Self {
        Self { to: Some(to), from: BufReader::new(from), next_id: 1 }
    }

    /// Sends one line.
    pub(crate) fn send_line(&mut self, line: &str) {
        let to = self.to.as_mut().expect("the pipe is open");
        writeln!(to, "{line}").expect("the server reads");
    }

    /// Sends a call without waiting; its id.
    pub(crate) fn send_call(&mut self, tool: &str, arguments: &Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let request = json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": tool, "arguments": arguments, "_meta": meta() }
        });
        self.send_line(&request.to_string());
        id
    }

    /// Waits for the answer to a request.
    #[track_caller]
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        loop {
            let mut line = String::new();
            let length = self.from.read_line(&mut line).expect("the server writes text");
            assert_ne!(length, 0, "the server closed the pipe before it answered {id}");
            let message: Value = serde_json::from_str(&line)
                .unwrap_or_else(|error| panic!("{error}: stdout is not only MCP: {line:?}"));
            if message.get("id") == Some(&json!(id)) {
                return message;
            }
        }
    }

    /// Calls a tool and waits.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.send_call(tool, arguments);
        self.answer(id)
    }

    /// Leaves: the server reads end of file.
    pub(crate) fn close(&mut self) {
        self.to = None;
    }
}

/// The normalized object inside an answer to a call of a tool in EAA's form.
#[track_caller]
pub(crate) fn value(answer: &Value) -> &Value {
    answer
        .pointer("/result/structuredContent/result")
        .unwrap_or_else(|| panic!("no result: {answer}"))
}
