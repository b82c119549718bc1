//! Strict TOML: a document is held against a JSON Schema before it becomes a value.
//!
//! Profiles and the server's configuration are both read through [`read`], so both answer a wrong
//! key, a wrong type or a number out of bounds in the same words: the key, the line, what was
//! expected. The schema, generated from the raw types, is the only list of known keys.
//!
//! Not here: what a value means. That is decided once, between the raw and the resolved shape.

mod check;
mod error;
mod layers;
mod schema;
mod values;

pub use check::{Lines, read};
pub use error::{DocumentError, Location, Origin};
pub use layers::{Layer, Layers, Picked, Place, Source};
pub use schema::schema_for;
pub use values::{duration, shown};

/// The nearest of `known` to a word that is not among them, if one is near enough to be meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The value that clap uses for the same question is 0.7; keys here are longer and share
    // endings such as `_mib`, which makes strangers look alike.
    const NEAR: f64 = 0.8;
    let word = word.to_lowercase().replace('-', "_");
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&word, &name.to_lowercase().replace('-', "_")), name))
        .filter(|(likeness, _)| *likeness >= NEAR)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, name)| name)
}
