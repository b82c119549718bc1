//! `cofferdam audit tail`: the last records, and those that come.

use std::{collections::VecDeque, path::Path, time::Duration};

use cofferdam_worker::audit::{Follower, LogPart, RawLine};

use super::{
    AuditReadError,
    line::{self, Row},
};
use crate::{cli::AuditTailArgs, error::CommandError, exit::Exit, output};

/// How often is looked whether something was added.
const PAUSE: Duration = Duration::from_millis(250);

pub(super) fn tail(
    arguments: AuditTailArgs,
    path: &Path,
    parts: Vec<LogPart>,
) -> Result<Exit, CommandError> {
    let AuditTailArgs { follow, lines, json } = arguments;
    let mut last = VecDeque::new();
    // The newest files first, until there are enough.
    for part in parts.iter().rev() {
        let mut of_part = VecDeque::new();
        for line in part.lines() {
            of_part.push_back(line.map_err(AuditReadError::Read)?);
            if of_part.len() > lines {
                of_part.pop_front();
            }
        }
        while last.len() < lines
            && let Some(line) = of_part.pop_back()
        {
            last.push_front(line);
        }
        if last.len() == lines {
            break;
        }
    }
    print(last, json)?;
    if !follow {
        return Ok(Exit::Success);
    }
    let mut follower = Follower::after(path, parts);
    loop {
        print(follower.news().map_err(AuditReadError::Open)?, json)?;
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "nothing announces what other processes add")]
fn pause() {
    std::thread::sleep(PAUSE);
}

fn print(lines: impl IntoIterator<Item = RawLine>, json: bool) -> Result<(), CommandError> {
    let shown = lines.into_iter().map(|raw| match raw.record() {
        Some(record) if json => line::json(&record),
        Some(record) => line::text(&record, Row::Itself),
        // A program that reads JSON can do nothing with it.
        None if json => String::new(),
        None => {
            format!("no record: {}\n", line::escaped(&String::from_utf8_lossy(&raw.bytes)))
        }
    });
    let shown: String = shown.collect();
    if shown.is_empty() {
        return Ok(());
    }
    output::result(&shown).map_err(CommandError::Output)
}
