//! `cofferdam audit`: what is asked of the audit log. Changes nothing in it.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

use clap::{Args, Subcommand};
use cofferdam_policy::ToolPattern;
use cofferdam_worker::audit::Hash;

const ABOUT: &str = "\
Examples:
  cofferdam audit show --since 1h
  cofferdam audit verify
  cofferdam audit tail -f

The log is where `audit.path` of the configuration says, else cofferdam/audit.jsonl in \
$XDG_STATE_HOME or ~/.local/state; rotated files beside it belong to it.";

const SHOW: &str = "\
Examples:
  cofferdam audit show -n 20
  cofferdam audit show --since 2h --tool 'bash_*'
  cofferdam audit show --since 2026-11-30 --session command-line
  cofferdam audit show --json | jq -r 'select(.code == \"denied\") | .digest'

One line for each call that ended or did not, and for each start and stop of a server. With --json the \
records themselves, those of beginnings too. Nothing is verified here.";

const VERIFY: &str = "\
Examples:
  cofferdam audit verify
  cofferdam audit verify --expect \"$(cat /mnt/elsewhere/last-hash)\"
  cofferdam audit verify copy/audit.jsonl*

Names the first line that was altered, is missing, reordered or torn. A call that began and did not end \
is told, but is no fault. Lines cut off at the end are found only with --expect: keep the hash that this \
command prints, or that the server logs at its start and stop, somewhere else.

Exit codes:
  0  the chain is unbroken
  1  it is not, or a file cannot be read
  2  the command line is wrong";

const TAIL: &str = "\
Examples:
  cofferdam audit tail
  cofferdam audit tail -f
  cofferdam audit tail -f --json | jq -r .tool

Each record, beginnings too. With -f it goes on until it is interrupted.";

/// As written.
#[derive(Debug, Args)]
#[command(after_help = ABOUT, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    pub(crate) command: AuditCommand,
}

/// The questions.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Show what was called and what came of it
    #[command(after_help = SHOW)]
    Show(AuditShowArgs),
    /// Check that nothing was altered, removed or reordered
    #[command(after_help = VERIFY)]
    Verify(AuditVerifyArgs),
    /// Show the last records, and those that come
    #[command(after_help = TAIL)]
    Tail(AuditTailArgs),
}

/// `cofferdam audit show`
#[derive(Debug, Args)]
pub(crate) struct AuditShowArgs {
    /// Only from this time on: 2026-11-30, 2026-11-30T12:00:00Z, or so long ago: 30m, 2h, 7d
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub(crate) since: Option<SystemTime>,
    /// Only calls of tools whose name matches this shell-style glob
    #[arg(long, value_name = "GLOB", value_parser = glob)]
    pub(crate) tool: Option<ToolPattern>,
    /// Only calls of this session
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// The records as JSON, one on each line
    #[arg(long)]
    pub(crate) json: bool,
    /// Only the last N lines
    #[arg(short = 'n', long = "lines", value_name = "N")]
    pub(crate) lines: Option<usize>,
}

/// `cofferdam audit verify`
#[derive(Debug, Args)]
pub(crate) struct AuditVerifyArgs {
    /// A hash that one of the records must have
    #[arg(long, value_name = "HASH")]
    pub(crate) expect: Option<Hash>,
    /// As a JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// The files of one log, in any order [default: the configured log with its rotated files]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// `cofferdam audit tail`
#[derive(Debug, Args)]
pub(crate) struct AuditTailArgs {
    /// Go on with what is added
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// How many of the last records
    #[arg(short = 'n', long = "lines", value_name = "N", default_value_t = 10)]
    pub(crate) lines: usize,
    /// The records as JSON, one on each line
    #[arg(long)]
    pub(crate) json: bool,
}

fn glob(text: &str) -> Result<ToolPattern, String> {
    text.parse().map_err(|error: cofferdam_policy::tool_rules::PatternError| error.to_string())
}

fn since(text: &str) -> Result<SystemTime, String> {
    at(text, SystemTime::now())
        .ok_or_else(|| "expected a time such as 2026-11-30T12:00:00Z, or 30m, 2h, 7d".to_owned())
}

/// A time, or so long before `now`.
fn at(text: &str, now: SystemTime) -> Option<SystemTime> {
    if let Ok(ago) = humantime::parse_duration(text) {
        let time = now.checked_sub(ago).filter(|time| *time >= SystemTime::UNIX_EPOCH);
        return time.filter(|_| ago > Duration::ZERO);
    }
    let text = text.trim();
    let time = if text.contains(':') { text.to_owned() } else { format!("{text}T00:00:00Z") };
    humantime::parse_rfc3339_weak(&time).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_times_and_durations() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_000_000);
        let read =
            |text| at(text, now).map(|time| humantime::format_rfc3339_seconds(time).to_string());
        for (text, expected) in [
            ("2026-11-30", "2026-11-30T00:00:00Z"),
            ("2026-11-30T12:30:00Z", "2026-11-30T12:30:00Z"),
            ("2026-11-30T12:30:00.5Z", "2026-11-30T12:30:00Z"),
            ("2026-11-30 12:30:00", "2026-11-30T12:30:00Z"),
            ("2h", "2026-11-29T22:53:20Z"),
            ("1h 30m", "2026-11-29T23:23:20Z"),
            ("7d", "2026-11-23T00:53:20Z"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["", "soon", "0s", "2026-13-01", "12:30", "-1h", "99999999y"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
