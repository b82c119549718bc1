//! From an outcome to the object that an agent sees. The one place that decides this.
//!
//! The keys and their order are the tool contract. Everything in here is fact: what was written is
//! data, whatever it looks like, and how a run ended comes from the kernel.

mod picture;
mod streams;

use std::{
    hash::{BuildHasher, RandomState},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use cofferdam_backend::{Ending, Outcome, Usage};
use cofferdam_fs::Workspace;
use cofferdam_policy::{Dimension, Grant};
use serde_json::{Map, Value, json};

use crate::shown::{measured, python_seconds};
use streams::StreamLimits;

/// A finished run and what is needed to show it.
#[derive(Debug)]
pub(crate) struct Finished<'a> {
    pub(crate) outcome: Outcome,
    pub(crate) grant: &'a Grant,
    pub(crate) workspace: &'a Workspace,
    pub(crate) notes: Notes,
}

/// What the plan knows about a run beside the command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notes {
    /// The caller asked for the picture that the last line names.
    pub(crate) picture: bool,
    /// Typographic quotes were repaired after a syntax error.
    pub(crate) repaired: bool,
    /// The interpreter that was used.
    pub(crate) interpreter: Option<String>,
    /// Why it was not another one.
    pub(crate) interpreter_note: Option<String>,
}

/// The object that an agent sees. Writes the streams' files; may block on the disk.
pub(crate) fn normalize(finished: Finished<'_>) -> Value {
    let Finished { mut outcome, grant, workspace, notes } = finished;
    let limits = &grant.profile().limits;
    let picture = notes.picture.then(|| {
        let rules = &grant.profile().carve_outs;
        picture::find(&outcome, workspace, &grant.plan().working_directory, rules)
            .map_err(|error| error.reason())
    });

    let stream_limits = StreamLimits {
        shown: usize::try_from(limits.output_kib.saturating_mul(1024)).unwrap_or(usize::MAX),
        spilled_mib: limits.output_file_mib,
    };
    let id = unique_name();
    let stdout = std::mem::take(&mut outcome.stdout);
    let stdout = streams::show(stdout, stream_limits, workspace, &format!("{id}-stdout.txt"));
    let stderr = std::mem::take(&mut outcome.stderr);
    let stderr = streams::show(stderr, stream_limits, workspace, &format!("{id}-stderr.txt"));
    let truncated = stdout.dropped > 0 || stderr.dropped > 0;

    let mut shown = Map::new();
    let mut put = |key: &str, value: Value| shown.insert(key.to_owned(), value);
    put("stdout", stdout.text.into());
    put("stderr", stderr.text.into());
    put("returncode", returncode(&outcome.ending));
    put("timeout", matches!(outcome.ending, Ending::TimedOut { .. }).into());
    if let Some(error) = error(&outcome.ending) {
        put("error", error.into());
    }
    match picture {
        Some(Ok(path)) => put("img_path", path.into()),
        Some(Err(reason)) => put("img_path_error", reason.into()),
        None => None,
    };
    put("verdict", verdict(&outcome.ending).into());
    put("limits_hit", limits_hit(&outcome, truncated, limits.output_kib));
    put("truncated", truncated.into());
    if notes.repaired {
        put("repaired", true.into());
    }
    if grant.timeout_capped() {
        put("timeout_capped", capped(grant));
    }
    for (key, file) in [("stdout_file", &stdout.file), ("stderr_file", &stderr.file)] {
        if let Some(path) = file {
            put(key, path.to_string_lossy().into());
        }
    }
    if !outcome.quarantined.is_empty() {
        put("quarantined", quarantined(&outcome));
    }
    put("duration_ms", duration_ms(outcome.duration));
    put("usage", usage(&outcome.usage));
    put("sandbox", sandbox(&outcome, grant, &notes));
    Value::Object(shown)
}

pub(crate) fn duration_ms(duration: Duration) -> Value {
    measured(milliseconds(duration))
}

pub(crate) fn usage(usage: &Usage) -> Value {
    json!({
        "cpu_ms": measured(milliseconds(usage.cpu)),
        "peak_memory_mib": measured(usage.peak_memory_bytes as f64 / 1_048_576.0),
    })
}

pub(crate) fn returncode(ending: &Ending) -> Value {
    match ending {
        Ending::Exited(status) => (*status).into(),
        Ending::Signaled(signal) => (-signal).into(),
        Ending::TimedOut { .. } | Ending::Cancelled | Ending::NotStarted(_) => Value::Null,
    }
}

pub(crate) fn verdict(ending: &Ending) -> &'static str {
    match ending {
        Ending::Exited(0) => "ok",
        Ending::Exited(_) => "exit",
        Ending::Signaled(_) => "signal",
        Ending::TimedOut { .. } => "timeout",
        Ending::Cancelled => "cancelled",
        Ending::NotStarted(_) => "not_started",
    }
}

fn error(ending: &Ending) -> Option<String> {
    match ending {
        Ending::TimedOut { after } => {
            Some(format!("Execution timed out after {} seconds", python_seconds(*after)))
        }
        Ending::NotStarted(reason) => Some(match &reason.hint {
            Some(hint) => format!("{}; {hint}", reason.message),
            None => reason.message.clone(),
        }),
        _ => None,
    }
}

pub(crate) fn limits_hit(outcome: &Outcome, truncated: bool, output_kib: u64) -> Value {
    let mut hit: Vec<_> = outcome.limits_hit.iter().map(|hit| (hit.limit, hit.value)).collect();
    // Bytes that are no text can be too long only once they are shown.
    if truncated && !hit.iter().any(|(limit, _)| *limit == "output") {
        hit.push(("output", output_kib));
    }
    hit.into_iter().map(|(limit, value)| json!({ "limit": limit, "value": value })).collect()
}

fn capped(grant: &Grant) -> Value {
    let seconds = |duration: Option<Duration>| duration.map(|duration| duration.as_secs_f64());
    json!({
        "requested_s": seconds(grant.plan().timeout),
        "used_s": seconds(grant.timeout()),
    })
}

/// Names that the run chose, as text: data, never used as paths again.
fn quarantined(outcome: &Outcome) -> Value {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    outcome
        .quarantined
        .iter()
        .map(|entry| {
            json!({
                "path": text(&entry.path),
                "rule": entry.rule,
                "kept_as": entry.kept_as.as_deref().map(text),
            })
        })
        .collect()
}

fn sandbox(outcome: &Outcome, grant: &Grant, notes: &Notes) -> Value {
    let mut shown = Map::new();
    let mut put = |key: &str, value: Value| shown.insert(key.to_owned(), value);
    put("backend", outcome.backend.as_str().into());
    put("profile", grant.profile().name.clone().into());
    put("profile_generation", grant.generation().into());
    if let Some(interpreter) = &notes.interpreter {
        put("interpreter", interpreter.clone().into());
    }
    if let Some(note) = &notes.interpreter_note {
        put("interpreter_note", note.clone().into());
    }
    let held: Map<String, Value> = Dimension::ALL
        .into_iter()
        .map(|dimension| {
            let strength = outcome.report.enforcement.get(dimension);
            (dimension.as_str().to_owned(), strength.as_str().into())
        })
        .collect();
    put("enforcement", held.into());
    put("not_armed", outcome.report.not_armed.clone().into());
    Value::Object(shown)
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// A name that no other run uses: the time, and a number that nobody else draws.
fn unique_name() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Every RandomState has keys of its own.
    let drawn = RandomState::new().hash_one(since) & 0xffff_ffff;
    format!("{}-{drawn:08x}", since.as_millis())
}

#[cfg(test)]
mod tests;
