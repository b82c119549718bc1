//! One record as people and programs are shown it.

use std::fmt::Write;

use cofferdam_worker::audit::Record;
use serde_json::Value;

/// The most characters of one value that people are shown.
const MOST_CHARACTERS: usize = 120;

/// What a row says of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// What it says itself.
    Itself,
    /// That the call which begins with it did not end.
    Unfinished,
}

/// The record as one line of text, its newline included.
pub(super) fn text(record: &Record, row: Row) -> String {
    let what = match row {
        Row::Itself => what(record),
        Row::Unfinished => "unfinished".to_owned(),
    };
    let time = value(record.fields.get("time"));
    let mut line = format!("{time}  {:<6} {what:<18}", record.seq);
    for (name, key) in
        [("", "tool"), ("session ", "session"), ("approved by ", "approval"), ("", "workspace")]
    {
        if let Some(said) = record.fields.get(key) {
            let _ = write!(line, "  {name}{}", value(Some(said)));
        }
    }
    if let Some(profile) = record.fields.get("profile") {
        let generation = value(record.fields.get("generation"));
        let _ = write!(line, "  profile {}/{generation}", value(Some(profile)));
    }
    if let Some(Value::Object(run)) = record.fields.get("run") {
        let _ = write!(line, "  {}", value(run.get("backend")));
        let _ = write!(line, "  {} ms", value(run.get("duration_ms")));
        let held = run.get("enforcement").and_then(Value::as_object).into_iter().flatten();
        let weak: Vec<_> = held
            .filter(|(_, strength)| strength.as_str() != Some("full"))
            .map(|(dimension, strength)| {
                format!("{} {}", escaped(dimension), value(Some(strength)))
            })
            .collect();
        if !weak.is_empty() {
            let _ = write!(line, "  ({})", weak.join(", "));
        }
        match run.get("quarantined").and_then(Value::as_u64) {
            None | Some(0) => {}
            Some(count) => {
                let _ = write!(line, "  {count} quarantined");
            }
        }
    }
    if let Some(call) = record.fields.get("call") {
        let _ = write!(line, "  call {}", value(Some(call)));
    }
    line.trim_end().to_owned() + "\n"
}

fn what(record: &Record) -> String {
    let said = |key| value(record.fields.get(key));
    match record.text("event") {
        Some("start") => "server started".to_owned(),
        Some("stop") => "server stopped".to_owned(),
        Some("begin") => "begins".to_owned(),
        Some("recovered") => "torn line before".to_owned(),
        Some("end") => match (record.text("result"), record.fields.get("run")) {
            (Some("failed"), _) => said("code"),
            (Some("needs_approval"), _) => "asks a person".to_owned(),
            (_, Some(run)) => match run.get("verdict").and_then(Value::as_str) {
                Some("exit") => format!("exit {}", value(run.get("returncode"))),
                Some("signal") => format!("signal {}", value(run.get("returncode"))),
                _ => value(run.get("verdict")),
            },
            (_, None) => said("result"),
        },
        _ => said("event"),
    }
}

/// The record as one line of JSON, its newline included: what it says, with whatever could drive a
/// terminal written as `\u`.
pub(super) fn json(record: &Record) -> String {
    // Only maps whose keys are no strings cannot be written.
    let written = serde_json::to_string(&record.fields).unwrap_or_default();
    let mut line = String::with_capacity(written.len() + 1);
    for character in written.chars() {
        if is_deceptive(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(line, "\\u{unit:04x}");
            }
        } else {
            line.push(character);
        }
    }
    line + "\n"
}

/// A value of a record for people: one line, bounded, escaped.
fn value(value: Option<&Value>) -> String {
    match value {
        None => "?".to_owned(),
        Some(Value::String(text)) => escaped(text),
        Some(other) => escaped(&other.to_string()),
    }
}

/// Foreign text on one line, bounded.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for (index, character) in text.chars().enumerate() {
        if index == MOST_CHARACTERS {
            escaped.push('…');
            break;
        }
        if is_deceptive(character) {
            escaped.extend(character.escape_default());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Whether a character drives a terminal, or changes the order or the look of what stands around it.
fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use cofferdam_worker::audit::Hash;
    use serde_json::{Map, json};

    use super::*;

    fn record(fields: Value) -> Record {
        let Value::Object(fields) = fields else { return record(json!({})) };
        let seq = fields.get("seq").and_then(Value::as_u64).unwrap_or_default();
        let nothing = Hash::NOTHING;
        Record { seq, prev: nothing, hash: nothing, intact: true, line_hash: nothing, fields }
    }

    fn run() -> Value {
        json!({
            "seq": 12, "time": "2026-11-30T00:53:20.123Z", "event": "end", "call": "4f-3",
            "session": "stdio", "tool": "bash_coding_tool.execute", "result": "done",
            "profile": "default", "generation": 2, "approval": "admin",
            "run": { "backend": "bubblewrap", "verdict": "exit", "returncode": 4,
                     "duration_ms": 47.1, "quarantined": 1,
                     "enforcement": { "files": "full", "limits": "partial" } },
        })
    }

    #[test]
    fn a_row_says_who_what_how_and_what_came_of_it() {
        insta::assert_snapshot!(text(&record(run()), Row::Itself), @"2026-11-30T00:53:20.123Z  12     exit 4              bash_coding_tool.execute  session stdio  approved by admin  profile default/2  bubblewrap  47.1 ms  (limits partial)  1 quarantined  call 4f-3");
        let begin =
            json!({ "seq": 3, "time": "t", "event": "begin", "call": "4f-1", "tool": "run" });
        insta::assert_snapshot!(text(&record(begin.clone()), Row::Itself), @"t  3      begins              run  call 4f-1");
        insta::assert_snapshot!(text(&record(begin), Row::Unfinished), @"t  3      unfinished          run  call 4f-1");
        let refused =
            json!({ "seq": 4, "time": "t", "event": "end", "result": "failed", "code": "denied" });
        insta::assert_snapshot!(text(&record(refused), Row::Itself), @"t  4      denied");
        let start = json!({ "seq": 1, "time": "t", "event": "start", "workspace": "/w" });
        insta::assert_snapshot!(text(&record(start), Row::Itself), @"t  1      server started      /w");
    }

    #[test]
    fn nothing_of_a_record_drives_a_terminal() {
        let hostile = "\u{1b}]0;title\u{7}\r\n\u{9b}31m\u{202e}\u{e0041}\u{200b}";
        let texts =
            ["time", "event", "call", "session", "tool", "profile", "workspace", "approval"];
        let mut fields: Map<_, _> =
            texts.into_iter().map(|key| (key.to_owned(), json!(hostile))).collect();
        fields.insert("generation".to_owned(), json!([hostile]));
        fields.insert(hostile.to_owned(), json!({ hostile: hostile }));
        let run = json!({ "backend": hostile, "verdict": hostile, "duration_ms": { hostile: hostile },
            "enforcement": { hostile: hostile } });
        fields.insert("run".to_owned(), run);
        for event in ["end", "begin", "start", hostile] {
            fields.insert("event".to_owned(), json!(event));
            let record = record(Value::Object(fields.clone()));
            for shown in [text(&record, Row::Itself), text(&record, Row::Unfinished), json(&record)]
            {
                let shown = shown.strip_suffix('\n').expect("one line");
                assert!(!shown.contains(is_deceptive), "{shown:?}");
            }
            let read: Value = serde_json::from_str(&json(&record)).expect("JSON");
            assert_eq!(read, Value::Object(record.fields), "it still says the same");
        }
    }

    #[test]
    fn a_record_of_anything_is_shown() {
        for fields in [json!({}), json!({ "event": 3, "run": [], "profile": null, "tool": {} })] {
            assert!(text(&record(fields), Row::Itself).ends_with('\n'));
        }
        let long = json!({ "tool": "x".repeat(5000) });
        assert!(text(&record(long), Row::Itself).len() < 300);
    }
}
