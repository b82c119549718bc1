//! What this program itself says: the only place that prints.
//!
//! Standard output is for results, standard error for everything else. What is printed here may
//! quote names and messages from anywhere, so control characters are escaped.

use std::{
    error::Error,
    io::{self, BufRead, IsTerminal, Read, Write},
};

use serde_json::Value;

use crate::exit::Exit;

/// The longest answer to a question that is read, in bytes.
const LONGEST_ANSWER: u64 = 1024;

/// Prints an error: what failed, the causes, the advice.
pub(crate) fn error(error: &dyn Error, hint: Option<&str>) {
    let mut text = format!("error: {}\n", printable(&error.to_string()));
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!("  caused by: {}\n", printable(&cause.to_string())));
        source = cause.source();
    }
    if let Some(hint) = hint {
        text.push_str(&format!("hint: {}\n", printable(hint)));
    }
    to_stderr(&text);
}

/// Prints one line about what is going on.
pub(crate) fn notice(line: &str) {
    to_stderr(&format!("cofferdam: {}\n", printable(line)));
}

/// Asks a person at the terminal on standard error and waits for a line on standard input. Anything
/// but a yes is a no.
pub(crate) fn ask(question: &str) -> bool {
    to_stderr(&format!("{}\n\nRun it? [y/N] ", printable(question)));
    let mut line = String::new();
    let read = io::stdin().lock().take(LONGEST_ANSWER).read_line(&mut line);
    if !matches!(read, Ok(1..)) {
        // End of file: the next thing printed begins a line all the same.
        to_stderr("\n");
    }
    ["y", "yes"].iter().any(|yes| line.trim().eq_ignore_ascii_case(yes))
}

/// Prints a result.
///
/// # Errors
/// When standard output cannot take it. A reader that went away is [`Exit::BROKEN_PIPE`]; ask
/// [`quiet_exit`].
pub(crate) fn result(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Prints a JSON result: indented for a person at a terminal, one line for a program.
///
/// # Errors
/// As for [`result`].
pub(crate) fn json(value: &Value) -> io::Result<()> {
    let rendered = if io::stdout().is_terminal() {
        serde_json::to_string_pretty(value)
    } else {
        serde_json::to_string(value)
    };
    result(&(rendered.map_err(io::Error::other)? + "\n"))
}

/// What a failed write to standard output means for the exit code, when it needs no message.
pub(crate) fn quiet_exit(error: &io::Error) -> Option<Exit> {
    (error.kind() == io::ErrorKind::BrokenPipe).then_some(Exit::BROKEN_PIPE)
}

fn to_stderr(text: &str) {
    // Nobody is left to be told when standard error itself cannot be written.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// `text` with control characters escaped, so that a file's name cannot drive a terminal.
fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() && character != '\n' {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(printable("a\u{1b}[31mb\rc"), "a\\u{1b}[31mb\\rc");
    }
}
