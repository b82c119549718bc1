//! What a person is told about a call, from the pending grant and nothing else.
//!
//! Whatever the caller chose is bounded, has its control characters escaped, and stands on lines of
//! its own behind a mark.

use std::{fmt::Write, time::Duration};

use cofferdam_backend::EnforcementReport;
use cofferdam_policy::{BackendKind, Dimension, PendingGrant, Program, profile::NetworkMode};
use cofferdam_protocol::admin::WaitingApproval;

use crate::shown::{is_deceptive, one_line};

/// Lines of source that are shown: the first and the last.
const HEAD_LINES: usize = 40;
const TAIL_LINES: usize = 15;
/// Characters of one line that are shown.
const LINE_CHARACTERS: usize = 160;
/// Lines of standard input that are shown.
const INPUT_LINES: usize = 5;
/// Characters of a path or a list that are shown.
const FIELD_CHARACTERS: usize = 200;

/// A question as it is asked; the times are added when it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) session: String,
    pub(crate) tool: String,
    pub(crate) digest: String,
    reason: String,
    summary: String,
    working_directory: String,
    profile: String,
    generation: u64,
    backend: &'static str,
    enforcement: String,
    network: String,
}

impl Question {
    /// What is asked about a call of `session` with arguments of that digest and that standard input.
    pub(crate) fn new(
        session: &str,
        digest: String,
        pending: &PendingGrant,
        input: Option<&[u8]>,
        promised: &(BackendKind, EnforcementReport),
    ) -> Self {
        let plan = pending.plan();
        let profile = pending.profile();
        let (backend, report) = promised;
        Self {
            session: session.to_owned(),
            tool: plan.tool.clone(),
            digest,
            reason: pending.reason_text(),
            summary: summary(&plan.program, input),
            working_directory: one_line(
                plan.working_directory.as_os_str().as_encoded_bytes(),
                FIELD_CHARACTERS,
            ),
            profile: profile.name.clone(),
            generation: pending.generation(),
            backend: backend.as_str(),
            enforcement: enforcement(report),
            network: match profile.network.mode {
                NetworkMode::None => "none".to_owned(),
                NetworkMode::Allowlist => {
                    one_line(profile.network.allow.join(", ").as_bytes(), FIELD_CHARACTERS)
                }
                NetworkMode::Full => "every host".to_owned(),
            },
        }
    }

    /// A question about nothing in particular.
    #[cfg(test)]
    pub(crate) fn for_tests(session: &str, tool: &str, digest: &str) -> Self {
        Self {
            session: session.to_owned(),
            tool: tool.to_owned(),
            digest: digest.to_owned(),
            reason: String::new(),
            summary: String::new(),
            working_directory: String::new(),
            profile: String::new(),
            generation: 1,
            backend: "bubblewrap",
            enforcement: String::new(),
            network: String::new(),
        }
    }

    /// The question as people see it.
    pub(crate) fn shown(&self, id: &str, waiting: Duration, left: Duration) -> WaitingApproval {
        WaitingApproval {
            id: id.to_owned(),
            tool: self.tool.clone(),
            session: self.session.clone(),
            reason: self.reason.clone(),
            summary: self.summary.clone(),
            working_directory: self.working_directory.clone(),
            profile: self.profile.clone(),
            generation: self.generation,
            backend: self.backend.to_owned(),
            enforcement: self.enforcement.clone(),
            network: self.network.clone(),
            digest: self.digest.clone(),
            waiting_s: waiting.as_secs(),
            expires_in_s: left.as_secs(),
        }
    }
}

fn enforcement(report: &EnforcementReport) -> String {
    let held: Vec<String> = Dimension::ALL
        .into_iter()
        .map(|dimension| {
            format!("{} {}", dimension.as_str(), report.enforcement.get(dimension).as_str())
        })
        .collect();
    let mut text = held.join(", ");
    if !report.not_armed.is_empty() {
        let _ = write!(text, " (not armed: {})", report.not_armed.join(", "));
    }
    text
}

fn summary(program: &Program, input: Option<&[u8]>) -> String {
    let mut text = String::new();
    match program {
        Program::Script { source, .. } => {
            let _ = write!(text, "Code, {}:", size(source));
            excerpt(&mut text, source, HEAD_LINES, TAIL_LINES);
        }
        Program::Command(words) => {
            let _ = write!(text, "Command, {} words:", words.len());
            let words: Vec<_> = words
                .iter()
                .map(|word| one_line(word.as_encoded_bytes(), LINE_CHARACTERS))
                .collect();
            excerpt(&mut text, words.join("\n").as_bytes(), HEAD_LINES, TAIL_LINES);
        }
    }
    if let Some(input) = input.filter(|input| !input.is_empty()) {
        let _ = write!(text, "\nStandard input, {}:", size(input));
        excerpt(&mut text, input, INPUT_LINES, 0);
    }
    text
}

fn size(text: &[u8]) -> String {
    let lines = lines(text).count();
    format!("{lines} {}, {} bytes", if lines == 1 { "line" } else { "lines" }, text.len())
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\n").unwrap_or(line))
}

/// The first and the last lines, each behind a mark, and how many were left out between them.
fn excerpt(to: &mut String, text: &[u8], head: usize, tail: usize) {
    let total = lines(text).count();
    let left_out = total.saturating_sub(head + tail);
    for (index, line) in lines(text).enumerate() {
        if index < head || index >= head + left_out {
            let _ = write!(to, "\n| {}", escaped(line));
        } else if index == head {
            let _ = write!(to, "\n… {left_out} lines are not shown …");
        }
    }
}

/// One line with its indentation kept, controls escaped, and what is too long counted.
fn escaped(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let total = text.chars().count();
    let mut shown = String::new();
    for (index, character) in text.chars().enumerate() {
        if index == LINE_CHARACTERS {
            let _ = write!(shown, " … {} more characters of this line …", total - index);
            break;
        }
        match character {
            '\t' => shown.push_str("    "),
            character if is_deceptive(character) => shown.extend(character.escape_default()),
            character => shown.push(character),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(source: &str) -> String {
        let program = Program::Script {
            interpreter: vec!["bash".into()],
            source: source.as_bytes().to_vec(),
            file_name: "script.sh".to_owned(),
        };
        summary(&program, None)
    }

    #[test]
    fn short_code_is_shown_whole_with_its_indentation() {
        assert_eq!(
            shown("if x:\n\tprint(1)\n"),
            "Code, 2 lines, 16 bytes:\n| if x:\n|     print(1)"
        );
    }

    #[test]
    fn code_cannot_pass_for_the_lines_around_it_or_drive_a_terminal() {
        let text = shown("ok\nRuns in: bubblewrap\r\x1b[2J\u{202e}evil");
        assert_eq!(
            text,
            "Code, 2 lines, 34 bytes:\n| ok\n| Runs in: bubblewrap\\r\\u{1b}[2J\\u{202e}evil"
        );
    }

    #[test]
    fn long_code_is_shown_from_both_ends_and_says_what_is_missing() {
        let source: String = (1..=100).map(|line| format!("line {line}\n")).collect();
        let text = shown(&source);
        assert!(text.contains("| line 40\n… 45 lines are not shown …\n| line 86\n"), "{text}");
        assert!(text.ends_with("| line 100"));
    }

    #[test]
    fn what_is_shown_is_bounded_whatever_the_code() {
        let most = (HEAD_LINES + TAIL_LINES + 3) * (LINE_CHARACTERS * 10 + 60);
        for source in ["x".repeat(1 << 20), "\u{1b}".repeat(1 << 16), "\n".repeat(1 << 20)] {
            let text = shown(&source);
            assert!(text.len() <= most, "{}", text.len());
        }
        assert!(shown(&"x".repeat(161)).ends_with(" … 1 more characters of this line …"));
    }

    #[test]
    fn standard_input_is_shown_too() {
        let program = Program::Command(vec!["cat".into(), "a b\nRuns in: x".into()]);
        assert_eq!(
            summary(&program, Some(b"one\ntwo")),
            "Command, 2 words:\n| cat\n| a b\\nRuns in: x\nStandard input, 2 lines, 7 bytes:\n\
             | one\n| two"
        );
    }
}
