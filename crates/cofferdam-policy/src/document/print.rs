//! Resolved values as a document again: for people to read, and to be loaded once more.
//!
//! Not here: which values a document has. Who resolved it knows.

use std::fmt::Write;

use serde_json::Value;

use super::error::quoted_if_needed;

/// Longest list that is printed on one line, in characters.
const ONE_LINE: usize = 80;
/// Longest line that moves the notes of its neighbours to the right, in characters.
const ALIGNED: usize = 48;

/// One resolved value of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The table it stands in, dotted; empty at the top.
    pub table: &'static str,
    /// Its own name, not yet quoted.
    pub name: String,
    /// The value. No `null` in it: TOML has none.
    pub value: Value,
}

impl Entry {
    /// Makes one.
    pub fn new(table: &'static str, name: &str, value: impl Into<Value>) -> Self {
        Self { table, name: name.to_owned(), value: value.into() }
    }

    /// The dotted key, as it is spelled in TOML: `limits.pids`, `approval."uv_tool.*"`.
    pub fn key(&self) -> String {
        let name = quoted_if_needed(&self.name);
        if self.table.is_empty() { name } else { format!("{}.{name}", self.table) }
    }
}

/// Prints the entries as TOML, in their order: those at the top must come first, and those of one
/// table together. `note` says what stands behind a key as a comment, and behind an entry of a list
/// (`key[0]`) that has a line of its own and another note than its list.
pub fn print(entries: &[Entry], note: impl Fn(&str) -> Option<String>) -> String {
    let mut document = String::new();
    for group in entries.chunk_by(|one, other| one.table == other.table) {
        if let Some(Entry { table, .. }) = group.first().filter(|entry| !entry.table.is_empty()) {
            if !document.is_empty() {
                document.push('\n');
            }
            let _ = writeln!(document, "[{table}]");
        }
        let lines: Vec<_> = group.iter().flat_map(|entry| lines(entry, &note)).collect();
        let width = |line: &Line| line.note.as_ref().map(|_| line.text.chars().count());
        let widths = lines.iter().filter_map(width).filter(|width| *width <= ALIGNED);
        let column = widths.max().unwrap_or_default();
        for Line { text, note } in lines {
            let _ = match note {
                Some(note) => writeln!(document, "{text:column$}  # {}", one_line(&note)),
                None => writeln!(document, "{text}"),
            };
        }
    }
    document
}

struct Line {
    text: String,
    note: Option<String>,
}

fn lines(entry: &Entry, note: &impl Fn(&str) -> Option<String>) -> Vec<Line> {
    let (name, key) = (quoted_if_needed(&entry.name), entry.key());
    let whole = format!("{name} = {}", inline(&entry.value));
    let list = match &entry.value {
        Value::Array(list) if list.iter().any(Value::is_object) => list,
        Value::Array(list) if whole.chars().count() > ONE_LINE => list,
        _ => return vec![Line { text: whole, note: note(&key) }],
    };
    let of_list = note(&key);
    let of_entry = |index: usize| {
        note(&format!("{key}[{index}]")).filter(|note| Some(note) != of_list.as_ref())
    };
    let entries = list.iter().enumerate();
    let entries = entries.map(|(index, value)| Line {
        text: format!("  {},", inline(value)),
        note: of_entry(index),
    });
    let mut lines = vec![Line { text: format!("{name} = ["), note: of_list.clone() }];
    lines.extend(entries);
    lines.push(Line { text: "]".to_owned(), note: None });
    lines
}

/// A value on one line, as TOML.
pub fn inline(value: &Value) -> String {
    toml::Value::try_from(value).map_or_else(|_| value.to_string(), |value| value.to_string())
}

/// A comment ends at the end of its line, and must hold no control characters.
fn one_line(note: &str) -> String {
    let mut line = String::with_capacity(note.len());
    for character in note.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_printed_as_an_admin_would_write_it() {
        let entries = [
            Entry::new("", "description", "Says \"no\" twice."),
            Entry::new("", "backends", json!(["host"])),
            Entry::new("limits", "cpus", 1.0),
            Entry::new("limits", "memory_mib", 1024),
            Entry::new("filesystem", "write", json!([])),
            Entry::new("filesystem", "read", json!([{ "path": "/usr", "why": "programs" }])),
            Entry::new("filesystem", "deny", json!(["**/".repeat(30), "**/.env"])),
            Entry::new("uv", "subcommands", json!(["run".repeat(30)])),
            Entry::new("approval", "uv_tool.*", "always"),
        ];
        let note = |key: &str| match key {
            "filesystem.write" => None,
            "uv.subcommands[0]" => Some("of uv.subcommands".to_owned()),
            "limits.cpus" => Some("a\nnew line".to_owned()),
            key => Some(format!("of {key}")),
        };
        insta::assert_snapshot!(print(&entries, note), @r#"
        description = 'Says "no" twice.'  # of description
        backends = ["host"]               # of backends

        [limits]
        cpus = 1.0         # a\nnew line
        memory_mib = 1024  # of limits.memory_mib

        [filesystem]
        write = []
        read = [                                # of filesystem.read
          { path = "/usr", why = "programs" },  # of filesystem.read[0]
        ]
        deny = [                                # of filesystem.deny
          "**/**/**/**/**/**/**/**/**/**/**/**/**/**/**/**/**/**/**/**/**/**/**/**/**/**/**/**/**/**/",  # of filesystem.deny[0]
          "**/.env",                            # of filesystem.deny[1]
        ]

        [uv]
        subcommands = [  # of uv.subcommands
          "runrunrunrunrunrunrunrunrunrunrunrunrunrunrunrunrunrunrunrunrunrunrunrunrunrunrunrunrunrun",
        ]

        [approval]
        "uv_tool.*" = "always"  # of approval."uv_tool.*"
        "#);
    }
}
