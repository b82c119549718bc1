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
mod print;
mod schema;
#[cfg(test)]
mod tests;
mod values;

pub use check::{Lines, MOST_FAULTS, read, read_to_the_end, read_variable};
pub use error::{DocumentError, Location, Origin};
pub use layers::{Layer, Layers, Picked, Place, Source};
pub use print::{Entry, inline, print};
pub use schema::schema_for;
pub use values::{absolute_path, duration, shown, shown_duration};

/// The nearest of `known` to a word that is not among them, if one is near enough to be meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // clap asks the same question with 0.7; keys here share endings such as `_mib`, which makes
    // strangers look alike.
    const NEAR: f64 = 0.8;
    known
        .into_iter()
        .map(|name| (likeness(word, name), name))
        .filter(|(likeness, _)| *likeness >= NEAR)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, name)| name)
}

/// How alike two keys are, from 0 to 1, whatever their case, dashes and order of words.
fn likeness(one: &str, other: &str) -> f64 {
    let plain = |key: &str| key.to_lowercase().replace('-', "_");
    let sorted = |key: &str| {
        let mut words: Vec<_> = key.split('_').collect();
        words.sort_unstable();
        words.join("_")
    };
    let (one, other) = (plain(one), plain(other));
    strsim::jaro_winkler(&one, &other).max(strsim::jaro_winkler(&sorted(&one), &sorted(&other)))
}
