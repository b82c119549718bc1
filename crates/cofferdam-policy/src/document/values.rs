//! Values that both kinds of file hold, and how foreign text is shown in a message.

use std::{
    path::{Component, Path, PathBuf},
    time::Duration,
};

/// The longest duration that any key takes: thirty days. Adding it to a clock cannot overflow.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Reads a duration with its unit: `500ms`, `30s`, `1h 30m`. Zero is a duration.
///
/// # Errors
/// What was wrong, to be put behind the name of the key.
pub fn duration(text: &str) -> Result<Duration, String> {
    let length = humantime::parse_duration(text.trim())
        .map_err(|_| format!("must be a duration with its unit, not `{}`", shown(text)))?;
    if length > LONGEST {
        return Err(format!("must be at most 30d, not `{}`", shown(text)));
    }
    Ok(length)
}

/// A duration as it is written: what [`duration`] reads again as the same.
pub fn shown_duration(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// Reads an absolute path without `.` or `..`.
///
/// # Errors
/// What was wrong, to be put behind the name of the key.
pub fn absolute_path(text: &str) -> Result<PathBuf, String> {
    let wrong =
        |reason: &str| Err(format!("must be an absolute path, not `{}`{reason}", shown(text)));
    let path = Path::new(text);
    if !path.is_absolute() {
        return wrong("");
    }
    if text.contains('\0') {
        return wrong(", which has a NUL");
    }
    if text.split('/').any(|part| part == "." || part == "..") {
        return wrong(", which has `.` or `..`");
    }
    // Collected again, so that `/usr/` and `/usr` are the same grant.
    Ok(path.components().filter(|part| !matches!(part, Component::CurDir)).collect())
}

/// Foreign text for a message: at most 60 characters, control characters escaped.
pub fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut shown: String = text
        .chars()
        .take(LONGEST)
        .map(|character| match character {
            // Also what reorders or hides text on a terminal.
            '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}' => character.escape_unicode().to_string(),
            character if character.is_control() => character.escape_default().to_string(),
            character => character.to_string(),
        })
        .collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}
