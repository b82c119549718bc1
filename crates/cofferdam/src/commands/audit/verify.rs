//! `cofferdam audit verify`: whether the log is what was written.

use std::path::PathBuf;

use cofferdam_worker::audit::{Fault, FaultKind, LinePlace, LogPart, Summary, verify as check};
use serde_json::{Value, json};

use super::{
    AuditReadError,
    line::{self, Row},
};
use crate::{cli::AuditVerifyArgs, error::CommandError, exit::Exit, output};

/// Most unfinished calls that are listed.
const MOST_LISTED: usize = 20;

pub(super) fn verify(arguments: AuditVerifyArgs, parts: &[LogPart]) -> Result<Exit, CommandError> {
    let found = check(parts, arguments.expect).map_err(AuditReadError::Read)?;
    let printed = match (&found, arguments.json) {
        (Ok(summary), false) => output::result(&summary_text(summary, parts)),
        (Ok(summary), true) => output::json(&summary_value(summary, parts)),
        (Err(fault), false) => {
            output::result(&format!("{}: {}\n", place_text(fault.place, parts), fault.kind))
        }
        (Err(fault), true) => output::json(&fault_value(fault, parts)),
    };
    printed.map_err(CommandError::Output)?;
    Ok(if found.is_ok() { Exit::Success } else { Exit::Failed })
}

/// Files that were named, in the order in which they were written: a shell lists `.10` before `.2`.
pub(super) fn in_order(files: &[PathBuf]) -> Result<Vec<LogPart>, CommandError> {
    let mut parts = Vec::new();
    for file in files {
        let part = LogPart::open(file).map_err(AuditReadError::Open)?;
        let first = part.lines().next().transpose().map_err(AuditReadError::Read)?;
        let number = first.and_then(|line| line.record()).map(|record| record.seq);
        // One that does not begin with a record is left where it was named, after the others.
        parts.push((number.unwrap_or(u64::MAX), part));
    }
    parts.sort_by_key(|(number, _)| *number);
    Ok(parts.into_iter().map(|(_, part)| part).collect())
}

fn place_text(place: LinePlace, parts: &[LogPart]) -> String {
    let file = parts.get(place.file).map(|part| part.path().to_string_lossy()).unwrap_or_default();
    format!("{}:{}", line::escaped(&file), place.line)
}

fn place_value(place: LinePlace, parts: &[LogPart]) -> Value {
    let file = parts.get(place.file).map(|part| part.path().to_string_lossy());
    json!({ "file": file, "line": place.line })
}

fn summary_text(summary: &Summary, parts: &[LogPart]) -> String {
    let Summary { records, first, last, unfinished, without_begin, not_stopped, recovered } =
        summary;
    let (Some(first), Some((last, hash))) = (first, last) else {
        return "unbroken: no records\n".to_owned();
    };
    let files = if parts.len() == 1 { "1 file" } else { &format!("{} files", parts.len()) };
    let mut text = format!("unbroken: {records} records, {first} to {last}, in {files}\n");
    if *first > 1 {
        text.push_str(&format!(
            "begins at record {first}: those before it were rotated away, or cut off\n"
        ));
    }
    if *without_begin > 0 {
        text.push_str(&format!("ends of calls whose beginning is not here: {without_begin}\n"));
    }
    for place in recovered {
        let place = place_text(*place, parts);
        text.push_str(&format!("torn by a crash, as the next record says: {place}\n"));
    }
    if *not_stopped > 0 {
        text.push_str(&format!("servers that run, or were killed: {not_stopped}\n"));
    }
    if !unfinished.is_empty() {
        text.push_str(&format!("unfinished calls, under way or killed: {}\n", unfinished.len()));
    }
    for call in unfinished.iter().take(MOST_LISTED) {
        let place = place_text(call.place, parts);
        text.push_str(&format!("  {place}: {}", line::text(&call.begin, Row::Unfinished)));
    }
    text + &format!("last record: {last} {hash}\n")
}

fn summary_value(summary: &Summary, parts: &[LogPart]) -> Value {
    let places = |places: &[LinePlace]| -> Value {
        places.iter().map(|place| place_value(*place, parts)).collect()
    };
    let unfinished = summary.unfinished.iter().map(|call| {
        let mut value = place_value(call.place, parts);
        value["seq"] = call.begin.seq.into();
        for key in ["time", "call", "tool", "session"] {
            value[key] = call.begin.fields.get(key).cloned().unwrap_or_default();
        }
        value
    });
    json!({
        "unbroken": true,
        "records": summary.records,
        "first": summary.first,
        "last": summary.last.map(|(seq, _)| seq),
        "hash": summary.last.map(|(_, hash)| hash.to_string()),
        "unfinished": unfinished.collect::<Value>(),
        "without_begin": summary.without_begin,
        "not_stopped": summary.not_stopped,
        "recovered": places(&summary.recovered),
    })
}

fn fault_value(fault: &Fault, parts: &[LogPart]) -> Value {
    let kind = match fault.kind {
        FaultKind::Altered { .. } | FaultKind::Replaced { .. } => "altered",
        FaultKind::Torn => "torn",
        FaultKind::Missing { .. } | FaultKind::Expected { .. } => "missing",
        FaultKind::Reordered { .. } => "reordered",
    };
    let mut value = place_value(fault.place, parts);
    value["unbroken"] = false.into();
    value["fault"] = kind.into();
    value["message"] = fault.kind.to_string().into();
    value
}
