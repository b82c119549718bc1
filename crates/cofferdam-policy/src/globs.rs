//! Ordered lists of globs, compiled once and asked often.
//!
//! A list can have a hundred thousand entries, so it is matched as sets and never glob by glob. What
//! a match means is said by whoever holds the list.

use std::{ops::Range, path::Path, sync::Arc};

use globset::{Candidate, Glob, GlobSet, GlobSetBuilder};

/// Globs per set. One set of everything would be fastest to ask, but globset bounds the size of the
/// automaton that a set's wildcards become, and refuses the set when it is reached.
const GLOBS_PER_SET: usize = 4096;

/// The globs of a list, in its order. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Globs {
    sets: Arc<[Set]>,
}

#[derive(Debug)]
struct Set {
    /// Index of its first glob in the list.
    first: usize,
    globs: GlobSet,
}

/// A glob that cannot be compiled even alone: it is too large.
#[derive(Debug)]
pub(crate) struct TooLarge {
    /// Its index in the list.
    pub(crate) index: usize,
    /// What the compiler says.
    pub(crate) source: globset::Error,
}

impl Globs {
    /// Compiles a list.
    ///
    /// # Errors
    /// [`TooLarge`] for the first glob that cannot be compiled even alone.
    pub(crate) fn new(globs: &[Glob]) -> Result<Self, TooLarge> {
        let mut sets = Vec::with_capacity(globs.len().div_ceil(GLOBS_PER_SET));
        for first in (0..globs.len()).step_by(GLOBS_PER_SET) {
            let end = globs.len().min(first + GLOBS_PER_SET);
            compile(globs, first..end, &mut sets)?;
        }
        Ok(Self { sets: sets.into() })
    }

    /// Index of the first glob that matches.
    pub(crate) fn first(&self, text: impl AsRef<Path>) -> Option<usize> {
        let candidate = Candidate::new(text.as_ref());
        self.sets.iter().find_map(|set| {
            let matches = set.globs.matches_candidate(&candidate);
            matches.into_iter().min().map(|index| set.first + index)
        })
    }
}

fn compile(globs: &[Glob], range: Range<usize>, sets: &mut Vec<Set>) -> Result<(), TooLarge> {
    let mut builder = GlobSetBuilder::new();
    for glob in &globs[range.clone()] {
        builder.add(glob.clone());
    }
    match builder.build() {
        Ok(compiled) => {
            sets.push(Set { first: range.start, globs: compiled });
            Ok(())
        }
        Err(source) if range.len() <= 1 => Err(TooLarge { index: range.start, source }),
        Err(_) => {
            let middle = range.start + range.len() / 2;
            compile(globs, range.start..middle, sets)?;
            compile(globs, middle..range.end, sets)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(texts: impl IntoIterator<Item = String>) -> Result<Globs, TooLarge> {
        let globs: Vec<_> =
            texts.into_iter().map(|text| Glob::new(&text).expect("a glob")).collect();
        Globs::new(&globs)
    }

    #[test]
    fn the_first_match_is_the_first_of_the_list_across_all_sets() {
        let many = (0..3 * GLOBS_PER_SET).map(|index| format!("tool_{index}.*"));
        let list = globs(many.chain(["*".to_owned(), "tool_*".to_owned()])).expect("a list");
        assert_eq!(list.first("tool_9000.run"), Some(9000));
        assert_eq!(list.first("other"), Some(3 * GLOBS_PER_SET));
        assert_eq!(globs([]).expect("nothing").first("other"), None);
    }

    #[test]
    fn globs_that_are_too_large_together_are_matched_in_smaller_sets() {
        let wide = |index: usize| format!("{}?{index}", "[a-z]".repeat(100));
        let list = globs((0..1500).map(wide)).expect("a list");
        assert!(list.sets.len() > 1);
        assert_eq!(list.first(format!("{}x7", "q".repeat(100))), Some(7));
    }

    #[test]
    fn a_glob_that_is_too_large_alone_is_named() {
        let huge = "[a-z0-9]?".repeat(200_000);
        let error = globs(["a".to_owned(), huge, "b".to_owned()]).expect_err("too large");
        assert_eq!(error.index, 1);
    }
}
