//! The single values of a profile, from text to what is enforced.
//!
//! Each function answers what is wrong as the end of a sentence that begins with the key.

use std::path::{Path, PathBuf};

use globset::GlobBuilder;

use crate::{
    document::{absolute_path, shown},
    hosts::{host_name, port_number},
    tool_rules::ToolPattern,
};

/// An absolute path without `.` or `..`, outside what every sandbox has of its own.
pub(super) fn granted_path(text: &str) -> Result<PathBuf, String> {
    let path = absolute_path(text)?;
    if path == Path::new("/") {
        return Err("must not be `/`: grant the folders that are needed".to_owned());
    }
    // Grants of these would put the host's own in place of the private ones.
    for own in ["/proc", "/sys", "/dev", "/tmp"] {
        if path.starts_with(own) {
            return Err(format!("must not lie in `{own}`, of which every run has its own"));
        }
    }
    Ok(path)
}

/// A glob over paths below any granted root.
pub(super) fn path_glob(text: &str) -> Result<String, String> {
    if text.is_empty() || text.starts_with('/') || text.ends_with('/') {
        return Err(format!(
            "must be a glob below a granted root, without `/` at either end, not `{}`",
            shown(text)
        ));
    }
    if text.split('/').any(|part| part == "." || part == "..") {
        return Err(format!("must not have `.` or `..` as a part, as `{}` has", shown(text)));
    }
    GlobBuilder::new(text)
        .literal_separator(true)
        .build()
        .map(|_| text.to_owned())
        .map_err(|error| not_a_glob(text, &error))
}

/// Reads a glob over whole tool names: see [`ToolPattern`].
///
/// # Errors
/// What was wrong, to be put behind the name of the key.
pub fn tool_glob(text: &str) -> Result<String, String> {
    text.parse::<ToolPattern>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

pub(super) fn not_a_glob(text: &str, error: &globset::Error) -> String {
    format!("must be a glob, not `{}`: {}", shown(text), shown(&error.kind().to_string()))
}

/// `host:port`, `*.domain:port` or a known group, in lower case.
pub(super) fn network_rule(text: &str) -> Result<String, String> {
    if let Some(group) = text.strip_prefix('@') {
        return match group {
            "python-index" => Ok(text.to_owned()),
            _ => Err(format!(
                "names the group `{}`, but the groups are `@python-index`",
                shown(text)
            )),
        };
    }
    let wrong = |what: &str| {
        Err(format!("must be `host:port`, `*.domain:port` or a group, not `{}`{what}", shown(text)))
    };
    let Some((host, port)) = text.rsplit_once(':') else {
        return wrong(": the port is missing");
    };
    if port_number(port).is_none() {
        return wrong(": the port must be from 1 to 65535");
    }
    if let Err(reason) = host_name(host.strip_prefix("*.").unwrap_or(host)) {
        return wrong(reason);
    }
    Ok(text.to_ascii_lowercase())
}

/// The name of an environment variable.
pub(super) fn variable_name(text: &str) -> Result<String, String> {
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if first && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "must be the name of a variable (letters, digits and `_`), not `{}`",
            shown(text)
        ))
    }
}

/// `uid:gid`, never uid 0.
pub(super) fn user(text: &str) -> Result<String, String> {
    let number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u32>().ok()).flatten()
    };
    match text.split_once(':').map(|(uid, gid)| (number(uid), number(gid))) {
        Some((Some(0), _)) => Err("must not be root".to_owned()),
        Some((Some(uid), Some(gid))) => Ok(format!("{uid}:{gid}")),
        _ => Err(format!("must be `uid:gid` in numbers, not `{}`", shown(text))),
    }
}

/// A word that becomes an argument of another program: never empty, never an option.
pub(super) fn word(text: &str) -> Result<String, String> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@".contains(&byte);
    if !text.is_empty() && !text.starts_with('-') && text.bytes().all(good) {
        Ok(text.to_owned())
    } else {
        Err(format!("must be one word that does not begin with `-`, not `{}`", shown(text)))
    }
}

/// A sentence for people.
pub(super) fn sentence(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() { Err("must not be empty".to_owned()) } else { Ok(text.to_owned()) }
}
