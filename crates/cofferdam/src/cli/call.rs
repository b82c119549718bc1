//! `cofferdam call`

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

use clap::Args;
use cofferdam_protocol::frame::MAX_FRAME_BYTES;
use cofferdam_worker::WorkerSettings;
use serde_json::{Map, Value};

use super::{
    common::{SandboxArgs, UsageError},
    help,
};
use crate::{
    config::Config,
    error::CommandError,
    settings::{self, DefaultWorkspace},
};

/// As written.
#[derive(Debug, Args)]
#[command(after_help = help::CALL)]
pub(crate) struct CallArgs {
    /// Under which rules, where and on what.
    #[command(flatten)]
    sandbox: SandboxArgs,
    /// Agree beforehand to this one call, should the profile want a person to be asked
    #[arg(long)]
    approve: bool,
    /// Name of the tool, such as python_coding_tool.execute
    #[arg(value_name = "TOOL")]
    tool: String,
    /// The arguments as a JSON object, `-` for standard input, or `@FILE`
    #[arg(value_name = "JSON|-|@FILE", default_value = "{}", hide_default_value = true)]
    arguments: OsString,
}

/// Where a call's arguments come from.
#[derive(Debug, PartialEq, Eq)]
enum Source {
    /// The command line itself.
    Literal(Vec<u8>),
    /// Standard input.
    StandardInput,
    /// A file.
    File(PathBuf),
}

/// What is to be called.
#[derive(Debug)]
pub(crate) struct Call {
    /// For the executor.
    pub(crate) settings: WorkerSettings,
    /// Name of the tool, as written.
    pub(crate) tool: String,
    /// Its arguments, not yet held against its schema.
    pub(crate) arguments: Map<String, Value>,
    /// Whoever typed it agrees beforehand.
    pub(crate) approved: bool,
}

impl CallArgs {
    /// Reads the arguments. `-p` and `-b` become the session's, which is what a tool uses when its
    /// arguments `profile` and `backend` are left out.
    ///
    /// # Errors
    /// [`UsageError`] when the arguments cannot be read or are no JSON object, and as for
    /// [`settings::executor`].
    pub(crate) fn resolve(self, config: &Config) -> Result<Call, CommandError> {
        let arguments = object(&Source::from_argument(&self.arguments).read()?)?;
        let settings = settings::executor(self.sandbox.into(), DefaultWorkspace::Here, config)?;
        Ok(Call { settings, tool: self.tool, arguments, approved: self.approve })
    }
}

impl Source {
    fn from_argument(argument: &OsString) -> Self {
        match argument.as_bytes() {
            b"-" => Self::StandardInput,
            [b'@', file @ ..] => Self::File(std::ffi::OsStr::from_bytes(file).into()),
            literal => Self::Literal(literal.to_vec()),
        }
    }

    fn read(self) -> Result<Vec<u8>, UsageError> {
        match self {
            Self::Literal(text) => Ok(text),
            Self::StandardInput => bounded(io::stdin().lock(), UsageError::ReadStandardInput),
            Self::File(path) => {
                let failed = |source| UsageError::ReadArguments { path: path.clone(), source };
                bounded(File::open(&path).map_err(failed)?, failed)
            }
        }
    }
}

/// Reads to the end, but not more than could ever be sent to a worker.
fn bounded(
    reader: impl Read,
    failed: impl FnOnce(io::Error) -> UsageError,
) -> Result<Vec<u8>, UsageError> {
    let limit = MAX_FRAME_BYTES as u64;
    let mut text = Vec::new();
    let length = reader.take(limit + 1).read_to_end(&mut text).map_err(failed)?;
    if length as u64 > limit { Err(UsageError::TooLong { limit }) } else { Ok(text) }
}

fn object(text: &[u8]) -> Result<Map<String, Value>, UsageError> {
    match serde_json::from_slice(text).map_err(UsageError::NotJson)? {
        Value::Object(arguments) => Ok(arguments),
        Value::Null => Err(UsageError::NotAnObject("null")),
        Value::Bool(_) => Err(UsageError::NotAnObject("a boolean")),
        Value::Number(_) => Err(UsageError::NotAnObject("a number")),
        Value::String(_) => Err(UsageError::NotAnObject("a string")),
        Value::Array(_) => Err(UsageError::NotAnObject("an array")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_told_by_its_first_character() {
        assert_eq!(Source::from_argument(&"-".into()), Source::StandardInput);
        assert_eq!(Source::from_argument(&"@a b".into()), Source::File("a b".into()));
        assert_eq!(Source::from_argument(&"{}".into()), Source::Literal(b"{}".to_vec()));
    }
}
