//! One record: what it says, and the line that it is.
//!
//! A line is a JSON object without spaces, its keys in the order below. It carries two hashes: `prev`
//! is the sha256 of the bytes of the line before (without its newline), and `hash`, always the last
//! key, is the sha256 of the line without `,"hash":"…"`. No file and no clock is used here.

use std::time::SystemTime;

use serde::Serialize;
use serde_json::{Map, Value};

use super::hash::{DIGITS, Hash};

/// The longest line, in bytes, its newline not counted. What could be longer is cut.
pub const MOST_LINE_BYTES: usize = 32 * 1024;

/// The most characters of one text in a record.
const MOST_CHARACTERS: usize = 256;
/// The most entries of one list in a record.
const MOST_ENTRIES: usize = 32;

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// A server began to serve.
    Start(Start),
    /// It ended in order.
    Stop {
        /// That of its start.
        instance: String,
    },
    /// A call arrived; nothing of it has been done.
    Begin(Begin),
    /// A call was answered.
    End(Box<End>),
    /// The line before is torn: whoever wrote it was killed, or the machine was, in mid write.
    Recovered {
        /// Length of what is left of it.
        torn_bytes: u64,
    },
}

/// The beginning of a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Start {
    /// Begins the id of each of its calls.
    pub(crate) instance: String,
    pub(crate) version: &'static str,
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    /// Lossy where it is not UTF-8.
    pub(crate) workspace: String,
}

/// Whose call it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Caller {
    pub(crate) via: Via,
    /// User of this process, which is that of every caller.
    pub(crate) uid: u32,
}

/// How a call came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// Over the socket of a worker process.
    Socket,
    /// From the command line, in this process.
    CommandLine,
}

/// What is known of a call when it arrives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Begin {
    /// Unique.
    pub(crate) call: String,
    pub(crate) session: String,
    pub(crate) caller: Caller,
    /// Canonical name.
    pub(crate) tool: String,
    /// sha256 of the arguments as canonical JSON (RFC 8785), in hexadecimal.
    pub(crate) digest: String,
}

/// What is known of a call when it has been answered. Says all that its beginning says once more, so
/// that it can be read alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct End {
    pub(crate) call: String,
    pub(crate) session: String,
    pub(crate) caller: Caller,
    pub(crate) tool: String,
    pub(crate) digest: String,
    pub(crate) result: CallResult,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<&'static str>,
    /// Profile that it was decided by, once it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) profile: Option<String>,
    /// Generation of that profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) generation: Option<u64>,
    /// How a person agreed, if one had to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) approval: Option<&'static str>,
    /// What was run for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<Run>,
    /// From its arrival to this, in milliseconds, waiting included.
    pub(crate) elapsed_ms: u64,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallResult {
    /// It finished. A program that failed is a finished call.
    Done,
    /// It was refused or could not be carried out.
    Failed,
    /// Nothing was done: the caller was told to ask its person and come back.
    NeedsApproval,
}

/// One run, as facts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Run {
    pub(crate) backend: &'static str,
    pub(crate) verdict: &'static str,
    /// Exit status, negative signal, or null.
    pub(crate) returncode: Value,
    pub(crate) duration_ms: Value,
    pub(crate) usage: Value,
    pub(crate) limits_hit: Value,
    /// How many entries were moved out of place.
    pub(crate) quarantined: usize,
    /// Strength per dimension.
    pub(crate) enforcement: Value,
    pub(crate) not_armed: Vec<String>,
}

/// Where a record goes in the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// 1 for the first ever, then one more each.
    pub(crate) seq: u64,
    /// Hash of the bytes of the line before.
    pub(crate) prev: Hash,
    pub(crate) time: SystemTime,
}

/// A line, and what the next one needs to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// With its newline.
    pub(crate) bytes: Vec<u8>,
    /// The record's own hash.
    pub(crate) hash: Hash,
    /// Hash of the line's bytes, the next one's `prev`.
    pub(crate) line_hash: Hash,
}

impl Event {
    /// The line of this record.
    ///
    /// # Errors
    /// When it cannot be written as JSON, or is longer than [`MOST_LINE_BYTES`]; records made of
    /// bounded texts are neither.
    pub(crate) fn line(&self, place: Place) -> Result<Line, serde_json::Error> {
        let mut record = Map::new();
        record.insert("seq".to_owned(), place.seq.into());
        let time = humantime::format_rfc3339_millis(place.time).to_string();
        record.insert("time".to_owned(), time.into());
        if let Value::Object(said) = serde_json::to_value(self)? {
            record.extend(said);
        }
        record.insert("prev".to_owned(), place.prev.to_string().into());
        let mut bytes = serde_json::to_vec(&record)?;
        let hash = Hash::of(&bytes);
        bytes.pop();
        bytes.extend_from_slice(format!("{HASH_KEY}{hash}\"}}").as_bytes());
        if bytes.len() > MOST_LINE_BYTES {
            return Err(serde::ser::Error::custom("the record is too long"));
        }
        let line_hash = Hash::of(&bytes);
        bytes.push(b'\n');
        Ok(Line { bytes, hash, line_hash })
    }
}

/// A record as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its number.
    pub seq: u64,
    /// What it says the hash of the line before is.
    pub prev: Hash,
    /// What it says its own hash is.
    pub hash: Hash,
    /// Whether that is its hash.
    pub intact: bool,
    /// Hash of the line's bytes.
    pub line_hash: Hash,
    /// All that it says, the three above included.
    pub fields: Map<String, Value>,
}

/// Comes before the digits of a record's own hash.
const HASH_KEY: &str = ",\"hash\":\"";
/// Bytes of the last key, its value and the end of the object.
const HASH_BYTES: usize = HASH_KEY.len() + DIGITS + 2;

impl Record {
    /// Reads a line, without its newline; `None` when it is none of ours.
    ///
    /// Whether the record is what was written is told by `intact`, and whether it stands where it was
    /// written by [`Verifier`](super::Verifier).
    pub fn read(line: &[u8]) -> Option<Self> {
        if line.len() > MOST_LINE_BYTES {
            return None;
        }
        let (body, end) = line.split_at_checked(line.len().checked_sub(HASH_BYTES)?)?;
        let digits = end.strip_prefix(HASH_KEY.as_bytes())?.strip_suffix(b"\"}")?;
        let hash: Hash = std::str::from_utf8(digits).ok()?.parse().ok()?;
        let Ok(Value::Object(fields)) = serde_json::from_slice(line) else { return None };
        let seq = fields.get("seq")?.as_u64()?;
        let prev = fields.get("prev")?.as_str()?.parse().ok()?;
        let hashed = [body, b"}"].concat();
        let intact = Hash::of(&hashed) == hash;
        Some(Self { seq, prev, hash, intact, line_hash: Hash::of(line), fields })
    }

    /// A text that it says.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.fields.get(key)?.as_str()
    }
}

/// At most [`MOST_CHARACTERS`] of a text that others chose.
pub(crate) fn bounded(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARACTERS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// At most [`MOST_ENTRIES`] of a list, and that there were more.
pub(crate) fn bounded_list<T>(list: Vec<T>, more: impl FnOnce(usize) -> T) -> Vec<T> {
    let left_out = list.len().saturating_sub(MOST_ENTRIES);
    let mut list = list;
    list.truncate(MOST_ENTRIES);
    if left_out > 0 {
        list.push(more(left_out));
    }
    list
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn place() -> Place {
        let time = UNIX_EPOCH + Duration::from_millis(1_796_000_000_123);
        Place { seq: 7, prev: Hash::NOTHING, time }
    }

    fn begin(session: &str) -> Event {
        Event::Begin(Begin {
            call: "4f-1".to_owned(),
            session: session.to_owned(),
            caller: Caller { via: Via::Socket, uid: 1000 },
            tool: "bash_coding_tool.execute".to_owned(),
            digest: "ab".to_owned(),
        })
    }

    #[test]
    fn a_line_reads_as_documented() {
        let line = begin("stdio").line(place()).unwrap();
        let text = String::from_utf8(line.bytes).unwrap();
        insta::assert_snapshot!(text, @r#"{"seq":7,"time":"2026-11-30T00:53:20.123Z","event":"begin","call":"4f-1","session":"stdio","caller":{"via":"socket","uid":1000},"tool":"bash_coding_tool.execute","digest":"ab","prev":"0000000000000000000000000000000000000000000000000000000000000000","hash":"51a3c06684d2cd4907eb74de2ac30a081cf147dee0b32e9418b9945635b2e9d2"}"#);
    }

    #[test]
    fn both_hashes_can_be_worked_out_from_the_bytes() {
        let line = begin("stdio").line(place()).unwrap();
        let text = std::str::from_utf8(&line.bytes).unwrap().trim_end();
        let without = text.replace(&format!(",\"hash\":\"{}\"", line.hash), "");
        assert_eq!(Hash::of(without.as_bytes()), line.hash);
        assert_eq!(Hash::of(text.as_bytes()), line.line_hash);
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let line = begin("a \"session\" \u{1b}[31m\u{202e}").line(place()).unwrap();
        let record = Record::read(line.bytes.trim_ascii_end()).unwrap();
        assert_eq!((record.seq, record.prev, record.hash), (7, Hash::NOTHING, line.hash));
        assert!(record.intact);
        assert_eq!(record.line_hash, line.line_hash);
        assert_eq!(record.text("session"), Some("a \"session\" \u{1b}[31m\u{202e}"));
        assert!(!line.bytes.contains(&0x1b), "JSON escapes it");
    }

    #[test]
    fn what_is_no_record_is_not_read() {
        let line = begin("stdio").line(place()).unwrap();
        let line = line.bytes.trim_ascii_end();
        let long = [b"{\"seq\":1,\"x\":\"", "x".repeat(MOST_LINE_BYTES).as_bytes(), line].concat();
        for other in [b"".as_slice(), b"{}", b"null", &line[..line.len() - 1], &line[1..], &long] {
            assert_eq!(Record::read(other), None, "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn texts_and_lists_are_bounded() {
        assert_eq!(bounded("short"), "short");
        assert_eq!(bounded(&"ä".repeat(256)), "ä".repeat(256));
        assert_eq!(bounded(&"ä".repeat(257)), "ä".repeat(256) + "…");
        let more = |left_out| format!("{left_out} more");
        let list = |length| vec![String::new(); length];
        assert_eq!(bounded_list(list(32), more).len(), 32);
        assert_eq!(bounded_list(list(40), more).last().unwrap(), "8 more");
    }

    #[test]
    fn the_longest_record_fits_into_a_line() {
        // Each character may be six bytes, when it is one that JSON escapes.
        let text = || bounded(&"\u{1}".repeat(1000));
        let limit = serde_json::json!({ "limit": "file_size", "value": u64::MAX });
        let end = Event::End(Box::new(End {
            call: text(),
            session: text(),
            caller: Caller { via: Via::CommandLine, uid: u32::MAX },
            tool: text(),
            digest: text(),
            result: CallResult::NeedsApproval,
            code: Some("path_outside_workspace"),
            profile: Some(text()),
            generation: Some(u64::MAX),
            approval: Some("command_line"),
            run: Some(Run {
                backend: "bubblewrap",
                verdict: "not_started",
                returncode: Value::Null,
                duration_ms: f64::MAX.into(),
                usage: serde_json::json!({ "cpu_ms": f64::MAX, "peak_memory_mib": f64::MAX }),
                limits_hit: vec![limit; 12].into(),
                quarantined: usize::MAX,
                enforcement: Value::Null,
                not_armed: vec!["limits.file_size_mib".to_owned(); 33],
            }),
            elapsed_ms: u64::MAX,
        }));
        assert!(end.line(place()).is_ok());
    }
}
