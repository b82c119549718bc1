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
pub(super) fn parse(text: &str) -> Result<RawProfile, ProfileProblem> {
    let (mut raw, lines) = document::read::<RawProfile>(text, schema())?;
    raw.lines = lines;
    Ok(raw)
}
