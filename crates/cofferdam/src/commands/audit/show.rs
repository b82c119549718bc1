//! `cofferdam audit show`: what was called and what came of it.

use std::{
    collections::{HashSet, VecDeque},
    time::SystemTime,
};

use cofferdam_worker::audit::{LogPart, Record};

use super::{
    AuditReadError,
    line::{self, Row},
};
use crate::{cli::AuditShowArgs, error::CommandError, exit::Exit, output};

pub(super) fn show(arguments: AuditShowArgs, parts: &[LogPart]) -> Result<Exit, CommandError> {
    let unfinished = if arguments.json { HashSet::new() } else { unfinished(parts)? };
    let mut rows = Rows { kept: VecDeque::new(), most: arguments.lines };
    let mut doubtful = 0_u64;
    for part in parts {
        for raw in part.lines() {
            let Some(record) = raw.map_err(AuditReadError::Read)?.record() else {
                doubtful += 1;
                continue;
            };
            doubtful += u64::from(!record.intact);
            if !is_wanted(&record, &arguments) {
                continue;
            }
            if arguments.json {
                rows.add(line::json(&record))?;
            } else if record.text("event") != Some("begin") {
                rows.add(line::text(&record, Row::Itself))?;
            } else if record.text("call").is_some_and(|call| unfinished.contains(call)) {
                rows.add(line::text(&record, Row::Unfinished))?;
            }
        }
    }
    rows.finish()?;
    if doubtful > 0 {
        output::notice(&format!(
            "{doubtful} lines are no records or were altered: see `cofferdam audit verify`"
        ));
    }
    Ok(Exit::Success)
}

/// The calls that began and did not end.
fn unfinished(parts: &[LogPart]) -> Result<HashSet<String>, CommandError> {
    let mut begun = HashSet::new();
    for line in parts.iter().flat_map(LogPart::lines) {
        let Some(record) = line.map_err(AuditReadError::Read)?.record() else { continue };
        match (record.text("event"), record.text("call")) {
            (Some("begin"), Some(call)) => drop(begun.insert(call.to_owned())),
            (Some("end"), Some(call)) => drop(begun.remove(call)),
            _ => {}
        }
    }
    Ok(begun)
}

fn is_wanted(record: &Record, arguments: &AuditShowArgs) -> bool {
    let AuditShowArgs { since, tool, session, .. } = arguments;
    let time = || humantime::parse_rfc3339(record.text("time")?).ok();
    since.is_none_or(|since: SystemTime| time().is_some_and(|time| time >= since))
        && tool
            .as_ref()
            .is_none_or(|tool| record.text("tool").is_some_and(|name| tool.matches(name)))
        && session.as_deref().is_none_or(|session| record.text("session") == Some(session))
}

/// What is printed: as it comes, or the last of it.
struct Rows {
    kept: VecDeque<String>,
    most: Option<usize>,
}

impl Rows {
    fn add(&mut self, row: String) -> Result<(), CommandError> {
        let Some(most) = self.most else {
            return output::result(&row).map_err(CommandError::Output);
        };
        self.kept.push_back(row);
        if self.kept.len() > most {
            self.kept.pop_front();
        }
        Ok(())
    }

    fn finish(self) -> Result<(), CommandError> {
        output::result(&self.kept.into_iter().collect::<String>()).map_err(CommandError::Output)
    }
}
