//! From text to a profile as written.

use std::sync::LazyLock;

use serde_json::Value;

use super::{error::ProfileProblem, raw::RawProfile};
use crate::document::{self, schema_for};

static SCHEMA: LazyLock<Value> = LazyLock::new(schema_for::<RawProfile>);

/// The schema of profiles, made once.
pub(super) fn schema() -> &'static Value {
    &SCHEMA
}

/// Holds the text against the schema.
///
/// # Errors
/// The first problem, and those after it.
pub(super) fn parse(text: &str) -> Result<RawProfile, (ProfileProblem, Vec<ProfileProblem>)> {
    let read = document::read_to_the_end::<RawProfile>(text, schema());
    let (mut raw, lines) =
        read.map_err(|(first, more)| (first.into(), more.into_iter().map(Into::into).collect()))?;
    raw.lines = lines;
    Ok(raw)
}
