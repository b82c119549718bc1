//! Reads a document: syntax, then the schema, then the type.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    DocumentError, Location, Origin,
    error::{Step, quoted_if_needed, spelled},
    nearest,
    schema::{Kind, Node},
    shown,
};

/// On which line each key of a document stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines(BTreeMap<String, usize>);

impl Lines {
    /// The line of a path, or of the nearest table around it.
    pub(super) fn of(&self, path: &[Step]) -> usize {
        (0..=path.len())
            .rev()
            .find_map(|length| self.0.get(&spelled(&path[..length])).copied())
            .unwrap_or(1)
    }
}

/// The most faults that are told of one document. One mistake can be made on every line of it.
pub const MOST_FAULTS: usize = 100;

/// Reads `text` as a value of `R`, whose schema is `schema`.
///
/// # Errors
/// [`DocumentError`] for text that is no TOML, and for the first key that the schema does not
/// know, lacks, or gives another type or other bounds.
pub fn read<R: DeserializeOwned>(text: &str, schema: &Value) -> Result<(R, Lines), DocumentError> {
    read_to_the_end(text, schema).map_err(|(first, _)| first)
}

/// As [`read`], for whoever wants to know all that is wrong.
///
/// # Errors
/// The first fault and those after it, in the order of the text's keys, at most [`MOST_FAULTS`].
/// Text that is no TOML has one.
pub fn read_to_the_end<R: DeserializeOwned>(
    text: &str,
    schema: &Value,
) -> Result<(R, Lines), (DocumentError, Vec<DocumentError>)> {
    let counter = LineCounter::new(text);
    let refused = |error: toml::de::Error| DocumentError::Syntax {
        origin: Origin::Line { line: error.span().map_or(1, |span| counter.line(span.start)) },
        message: error.message().lines().map(shown).collect::<Vec<_>>().join(", "),
    };
    let table = DeTable::parse(text).map_err(|error| (refused(error), Vec::new()))?;
    let mut check = Check {
        counter: &counter,
        root: Node::root(schema),
        lines: Lines::default(),
        faults: Vec::new(),
    };
    check.table(&mut Vec::new(), table.get_ref(), table.span().start, check.root);
    let Check { lines, faults, .. } = check;
    let mut faults = faults.into_iter();
    if let Some(first) = faults.next() {
        return Err((first, faults.collect()));
    }
    let raw = R::deserialize(toml::de::Deserializer::from(table))
        .map_err(|error| (refused(error), Vec::new()))?;
    Ok((raw, lines))
}

/// Reads one value of `R` from the environment variable `name`; `path` are the keys that lead to it.
///
/// Where the schema has text, the value is that text as it stands; elsewhere it is written as in
/// TOML: `8050`, `true`, `["a", "b"]`.
///
/// # Errors
/// [`DocumentError`] as from [`read`], with the variable in the place of the line.
pub fn read_variable<R: DeserializeOwned>(
    name: &str,
    path: &[&str],
    value: &str,
    schema: &Value,
) -> Result<R, DocumentError> {
    let node = path.iter().try_fold(Node::root(schema), |node, key| node.key(key));
    let literal = match node.map(Node::kind) {
        Some(Kind::Text | Kind::OneOf(_)) | None => None,
        // Parsed alone and written anew, so that no value can bring keys of its own.
        Some(_) => value.trim().parse::<toml::Value>().ok(),
    };
    let literal = literal.unwrap_or_else(|| toml::Value::from(value));
    let keys: Vec<_> = path.iter().map(|key| quoted_if_needed(key)).collect();
    read(&format!("{} = {literal}", keys.join(".")), schema)
        .map(|(raw, _)| raw)
        .map_err(|error| error.found_in(Origin::Variable { name: shown(name) }))
}

/// Turns byte offsets into line numbers.
struct LineCounter(Vec<usize>);

impl LineCounter {
    fn new(text: &str) -> Self {
        Self(
            text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect(),
        )
    }

    fn line(&self, offset: usize) -> usize {
        self.0.partition_point(|newline| *newline < offset) + 1
    }
}

struct Check<'a> {
    counter: &'a LineCounter,
    root: Node<'a>,
    lines: Lines,
    faults: Vec<DocumentError>,
}

/// The nearest key around a value, for an example.
#[derive(Clone, Copy)]
struct Named<'a> {
    key: &'a str,
    node: Node<'a>,
}

impl Named<'_> {
    fn hint(self) -> Option<String> {
        let example = self.node.example()?;
        Some(format!("for example `{} = {example}`", quoted_if_needed(self.key)))
    }
}

impl Check<'_> {
    fn fault(&mut self, fault: DocumentError) {
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(fault);
        }
    }

    fn table(&mut self, path: &mut Vec<Step>, table: &DeTable<'_>, offset: usize, node: Node<'_>) {
        for (key, value) in table {
            let name: &str = key.get_ref();
            path.push(Step::Key(name.to_owned()));
            let line = self.counter.line(key.span().start);
            self.lines.0.insert(spelled(path), line);
            match node.key(name) {
                Some(inner) => {
                    self.value(path, value, inner, Named { key: name, node: inner }, line);
                }
                None => {
                    let hint = self.unknown(path.len() == 1, name, node);
                    let location = Location::new(path, Origin::Line { line });
                    self.fault(DocumentError::UnknownKey { location, hint });
                }
            }
            path.pop();
        }
        for required in node.required() {
            if !table.contains_key(required) {
                path.push(Step::Key(required.to_owned()));
                let line = self.counter.line(offset);
                let named = node.key(required).map(|inner| Named { key: required, node: inner });
                self.fault(DocumentError::MissingKey {
                    location: Location::new(path, Origin::Line { line }),
                    hint: named.and_then(Named::hint),
                });
                path.pop();
            }
        }
    }

    fn value(
        &mut self,
        path: &mut Vec<Step>,
        value: &Spanned<DeValue<'_>>,
        node: Node<'_>,
        named: Named<'_>,
        line: usize,
    ) {
        let expected = match (node.kind(), value.get_ref()) {
            (Kind::Table, DeValue::Table(table)) => {
                return self.table(path, table, value.span().start, node);
            }
            (Kind::Map(values), DeValue::Table(table)) => {
                for (key, value) in table {
                    let name: &str = key.get_ref();
                    path.push(Step::Key(name.to_owned()));
                    let line = self.counter.line(key.span().start);
                    self.lines.0.insert(spelled(path), line);
                    self.value(path, value, values, Named { key: name, node: values }, line);
                    path.pop();
                }
                return;
            }
            (Kind::List(items), DeValue::Array(list)) => {
                for (index, item) in list.iter().enumerate() {
                    path.push(Step::Entry(index));
                    let line = self.counter.line(item.span().start);
                    self.lines.0.insert(spelled(path), line);
                    self.value(path, item, items, named, line);
                    path.pop();
                }
                return;
            }
            (Kind::OneOf(words), found) => {
                let word = found.as_str();
                if word.is_some_and(|word| words.contains(&word)) {
                    return;
                }
                let near = word.and_then(|word| nearest(word, words.iter().copied()));
                return self.fault(DocumentError::WrongValue {
                    location: Location::new(path, Origin::Line { line }),
                    expected: one_of(&words),
                    found: self::found(found),
                    hint: near.map(|word| format!("did you mean `\"{word}\"`?")),
                });
            }
            (kind, found) => match unexpected(&kind, node, found) {
                Some(expected) => expected,
                None => return,
            },
        };
        self.fault(DocumentError::WrongValue {
            location: Location::new(path, Origin::Line { line }),
            expected,
            found: found(value.get_ref()),
            hint: named.hint(),
        });
    }

    /// The next step for a key that `node` does not know: its right table, its right spelling, or
    /// all that is known.
    fn unknown(&self, at_top: bool, name: &str, node: Node<'_>) -> String {
        if !at_top && self.root.key(name).is_some() {
            return format!("`{name}` belongs at the top of the file, before the first `[table]`");
        }
        let elsewhere = self
            .root
            .keys()
            .find(|(_, table)| matches!(table.kind(), Kind::Table) && table.key(name).is_some());
        if let Some((table, _)) = elsewhere {
            return format!("`{name}` belongs in `[{table}]`");
        }
        match nearest(name, node.keys().map(|(known, _)| known)) {
            Some(known) => format!("did you mean `{known}`?"),
            None => {
                let known: Vec<_> = node.keys().map(|(known, _)| format!("`{known}`")).collect();
                format!("known here: {}", known.join(", "))
            }
        }
    }
}

/// What was expected of a value that is no table, map or list, unless that is what was found.
fn unexpected(kind: &Kind<'_>, node: Node<'_>, found: &DeValue<'_>) -> Option<String> {
    // Bounds in our schemas are far below 2⁵³, where a float still holds every integer.
    let number = match found {
        DeValue::Integer(number) => {
            i128::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number as f64)
        }
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    };
    let fits = number.is_some_and(|number: f64| number.is_finite() && within(node, number));
    match (kind, found) {
        (Kind::Text, DeValue::String(_)) | (Kind::Boolean, DeValue::Boolean(_)) => None,
        (Kind::Whole, DeValue::Integer(_)) | (Kind::Number, _) if fits => None,
        (Kind::Text, _) => Some("a string".to_owned()),
        (Kind::Boolean, _) => Some("`true` or `false`".to_owned()),
        (Kind::Whole, _) => Some(bounded("a whole number", node)),
        (Kind::Number, _) => Some(bounded("a number", node)),
        (Kind::Table | Kind::Map(_), _) => Some("a table".to_owned()),
        (Kind::List(_), _) => Some("a list".to_owned()),
        (Kind::OneOf(_) | Kind::Other, _) => None,
    }
}

fn within(node: Node<'_>, number: f64) -> bool {
    node.minimum().is_none_or(|minimum| number >= minimum)
        && node.maximum().is_none_or(|maximum| number <= maximum)
}

fn bounded(what: &str, node: Node<'_>) -> String {
    match (node.minimum(), node.maximum()) {
        (Some(minimum), Some(maximum)) => format!("{what} from {minimum} to {maximum}"),
        (Some(minimum), None) => format!("{what} of at least {minimum}"),
        (None, Some(maximum)) => format!("{what} of at most {maximum}"),
        (None, None) => what.to_owned(),
    }
}

fn one_of(words: &[&str]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
    match words.as_slice() {
        [] | [_] => words.concat(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the string `\"{}\"`", shown(text)),
        DeValue::Integer(number) => format!("`{}`", shown(&number.to_string())),
        DeValue::Float(number) => format!("`{}`", shown(number.as_str())),
        DeValue::Boolean(value) => format!("`{value}`"),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
