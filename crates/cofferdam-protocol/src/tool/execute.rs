//! Arguments of the two tools that run code.
//!
//! The doc comments are what clients see as the parameters' descriptions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MAX_CODE_BYTES;
use crate::{ErrorCode, Failure};

/// Arguments of `python_coding_tool.execute`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PythonExecute {
    /// Python source code to execute, at most 4 MiB of UTF-8 without NUL characters.
    pub code: String,
    /// Maximum seconds to wait, a number above 0; null for the profile's default. Capped at the
    /// profile's `limits.timeout_max`.
    #[serde(default)]
    pub timeout: Option<f64>,
    /// Working directory, absolute or relative to the workspace, inside an allowed root; null for
    /// the workspace.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Text piped into standard input; null for an empty standard input.
    #[serde(default)]
    pub input_text: Option<String>,
    /// When true, the last non-blank line of standard output is taken as the path of a PNG image in
    /// the workspace and returned as `img_path`.
    #[serde(default)]
    pub last_print_is_image_path: bool,
    /// Sandbox profile to run under; null for the session's.
    #[serde(default)]
    pub profile: Option<String>,
    /// Backend to run in: bubblewrap, container or host, if the profile lists it; null for the
    /// profile's first that fits.
    #[serde(default)]
    pub backend: Option<String>,
}

/// Arguments of `bash_coding_tool.execute`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashExecute {
    /// Bash source code to execute, at most 4 MiB of UTF-8 without NUL characters.
    pub code: String,
    /// Maximum seconds to wait, a number above 0; null for the profile's default. Capped at the
    /// profile's `limits.timeout_max`.
    #[serde(default)]
    pub timeout: Option<f64>,
    /// Working directory, absolute or relative to the workspace, inside an allowed root; null for
    /// the workspace.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Text piped into standard input; null for an empty standard input.
    #[serde(default)]
    pub input_text: Option<String>,
    /// Sandbox profile to run under; null for the session's.
    #[serde(default)]
    pub profile: Option<String>,
    /// Backend to run in: bubblewrap, container or host, if the profile lists it; null for the
    /// profile's first that fits.
    #[serde(default)]
    pub backend: Option<String>,
}

/// The bounds that a type cannot say.
pub(super) fn check(
    code: &str,
    timeout: Option<f64>,
    input_text: Option<&str>,
) -> Result<(), Failure> {
    let refuse = |message: String, hint: &str| {
        Err(Failure::new(ErrorCode::InvalidArguments, message).with_hint(hint))
    };
    if code.len() > MAX_CODE_BYTES {
        return refuse(
            format!("`code` is {} bytes long, the limit is {MAX_CODE_BYTES} bytes", code.len()),
            "write the code or its data to a file in the workspace and run that",
        );
    }
    if let Some(at) = code.bytes().position(|byte| byte == 0) {
        return refuse(
            format!("`code` has a NUL character at byte {at}"),
            "write it as an escape of the language, such as \\0 or \\x00 inside a string",
        );
    }
    if let Some(text) = input_text.filter(|text| text.len() > MAX_CODE_BYTES) {
        return refuse(
            format!(
                "`input_text` is {} bytes long, the limit is {MAX_CODE_BYTES} bytes",
                text.len()
            ),
            "write the input to a file in the workspace and read that",
        );
    }
    match timeout {
        Some(seconds) if !seconds.is_finite() || seconds <= 0.0 => refuse(
            format!("`timeout` must be a finite number of seconds above 0, got {seconds}"),
            "leave `timeout` out for the profile's default",
        ),
        _ => Ok(()),
    }
}
