//! Finds out whose message a line was that is too long to be read.
//!
//! rmcp drops such a line without an answer, and its client waits for ever. Every byte passes
//! through here on its way to rmcp; of a line only the `id` and the `method` are remembered, so that
//! an answer can be given although the message itself is never held in memory.
//!
//! Not a JSON parser: of text that is not JSON, nothing useful is remembered, and nothing is lost.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use rmcp::model::RequestId;
use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::mpsc,
};

/// Longest key or value that is remembered, in bytes.
const MAX_TOKEN_BYTES: usize = 256;
/// Refusals that may wait to be written; more are not given.
const QUEUE: usize = 16;

/// A line that was too long.
#[derive(Debug, PartialEq)]
pub(super) struct Oversized {
    /// How long it was, in bytes.
    pub(super) bytes: usize,
    /// The request's id, if it has one.
    pub(super) id: Option<RequestId>,
    /// Whether its method is `tools/call`.
    pub(super) is_tool_call: bool,
}

/// Passes bytes on unchanged and reports the lines that are longer than the limit.
#[derive(Debug)]
pub(super) struct WatchedLines<R> {
    inner: R,
    limit: usize,
    line: Line,
    report: mpsc::Sender<Oversized>,
}

impl<R> WatchedLines<R> {
    pub(super) fn new(inner: R, limit: usize) -> (Self, mpsc::Receiver<Oversized>) {
        let (report, oversized) = mpsc::channel(QUEUE);
        (Self { inner, limit, line: Line::default(), report }, oversized)
    }

    fn watch(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.line.take(*byte);
            if *byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                if line.bytes > self.limit && self.report.try_send(line.finish()).is_err() {
                    tracing::warn!("too many messages are too long to answer them all");
                }
            }
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for WatchedLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        self.watch(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

/// What is remembered of the line that is being read.
#[derive(Debug, Default)]
struct Line {
    bytes: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Key of the member of the outermost object that is being read, quotes included.
    key: Vec<u8>,
    /// What has been read since, on the level of the outermost object.
    token: Vec<u8>,
    id: Option<Vec<u8>>,
    method: Option<Vec<u8>>,
}

impl Line {
    fn take(&mut self, byte: u8) {
        self.bytes += 1;
        if self.in_string {
            self.remember(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.remember(byte);
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                if self.depth == 1 {
                    self.end_member();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => self.key = std::mem::take(&mut self.token),
            b',' if self.depth == 1 => self.end_member(),
            _ if byte.is_ascii_whitespace() => {}
            _ => self.remember(byte),
        }
    }

    fn remember(&mut self, byte: u8) {
        // One byte more than may be kept marks a token that was cut.
        if self.depth == 1 && self.token.len() <= MAX_TOKEN_BYTES {
            self.token.push(byte);
        }
    }

    fn end_member(&mut self) {
        let value = std::mem::take(&mut self.token);
        match self.key.as_slice() {
            b"\"id\"" => self.id = Some(value),
            b"\"method\"" => self.method = Some(value),
            _ => {}
        }
        self.key.clear();
    }

    fn finish(self) -> Oversized {
        let id = self
            .id
            .filter(|id| id.len() <= MAX_TOKEN_BYTES)
            .and_then(|id| serde_json::from_slice(&id).ok());
        let is_tool_call = self.method.as_deref() == Some(b"\"tools/call\"");
        Oversized { bytes: self.bytes, id, is_tool_call }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    async fn oversized(text: &str, limit: usize) -> Vec<Oversized> {
        let (mut lines, mut reports) = WatchedLines::new(text.as_bytes(), limit);
        let mut passed = String::new();
        lines.read_to_string(&mut passed).await.unwrap();
        assert_eq!(passed, text);
        drop(lines);
        let mut all = Vec::new();
        while let Some(report) = reports.recv().await {
            all.push(report);
        }
        all
    }

    #[tokio::test]
    async fn a_line_within_the_limit_is_not_reported() {
        assert_eq!(oversized("{\"id\":1}\n{\"id\":2}\n", 9).await, []);
    }

    #[tokio::test]
    async fn the_id_is_found_wherever_it_stands_and_not_inside_the_arguments() {
        let call = r#"{"method": "tools/call", "params": {"id": 7, "arguments": {"code": "\"id\":8,{[\\"}}, "jsonrpc":"2.0", "id" : "a-9" }"#;
        let reports = oversized(&format!("{{}}\n{call}\n{{}}\n"), 50).await;
        assert_eq!(
            reports,
            [Oversized {
                bytes: call.len() + 1,
                id: Some(RequestId::String("a-9".into())),
                is_tool_call: true
            }]
        );
    }

    #[tokio::test]
    async fn an_id_that_is_too_long_or_text_that_is_no_json_gives_no_id() {
        let long = format!("{{\"id\":\"{}\"}}\n", "x".repeat(300));
        let noise = format!("}}}}]]{}\n", "\"".repeat(101));
        for text in [long, noise] {
            let reports = oversized(&text, 50).await;
            assert_eq!(reports.len(), 1);
            assert_eq!((&reports[0].id, reports[0].is_tool_call), (&None, false));
        }
    }

    #[tokio::test]
    async fn other_methods_are_told_from_tool_calls() {
        let reports = oversized("{\"method\":\"tools/list\",\"id\":3}\n", 5).await;
        assert_eq!(
            reports,
            [Oversized { bytes: 31, id: Some(RequestId::Number(3)), is_tool_call: false }]
        );
    }
}
