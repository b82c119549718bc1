//! Real profiles, changed at random: read or refused, and what is read means something.
//!
//! The bounded form of the fuzz target `profile`, for every toolchain.

use proptest::{prelude::*, sample::Index};

use super::{file, printed, shipped_texts};
use crate::{
    compare::compare,
    document::{MOST_FAULTS, print},
    profile::{Profiles, shipped},
};

/// One change of a text.
#[derive(Clone, Debug)]
enum Mutation {
    DropLine(Index),
    RepeatLine(Index, Index),
    SwapLines(Index, Index),
    /// A word becomes another word of some shipped profile.
    SwapWord(Index, Index),
    Insert(Index, String),
    CutOff(Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<Index>;
    prop_oneof![
        1 => index().prop_map(Mutation::DropLine),
        1 => (index(), index()).prop_map(|(line, at)| Mutation::RepeatLine(line, at)),
        1 => (index(), index()).prop_map(|(one, other)| Mutation::SwapLines(one, other)),
        4 => (index(), index()).prop_map(|(word, by)| Mutation::SwapWord(word, by)),
        2 => (index(), "[\\[\\]{}=\"',.#\n0-9a-z*-]{1,4}|\\PC{1,3}")
            .prop_map(|(at, text)| Mutation::Insert(at, text)),
        1 => index().prop_map(Mutation::CutOff),
    ]
}

fn words(text: &str) -> Vec<&str> {
    text.split([' ', '\n']).filter(|word| !word.is_empty()).collect()
}

/// The nearest place before `at` where a text can be cut.
fn boundary(text: &str, at: &Index) -> usize {
    let at = at.index(text.len() + 1);
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn mutated(text: &str, mutation: &Mutation, pool: &[&str]) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return text.to_owned();
    }
    match mutation {
        Mutation::DropLine(line) => {
            lines.remove(line.index(lines.len()));
        }
        Mutation::RepeatLine(line, at) => {
            let line = lines[line.index(lines.len())];
            lines.insert(at.index(lines.len() + 1), line);
        }
        Mutation::SwapLines(one, other) => {
            let (one, other) = (one.index(lines.len()), other.index(lines.len()));
            lines.swap(one, other);
        }
        Mutation::SwapWord(word, by) => {
            let all = words(text);
            if all.is_empty() {
                return text.to_owned();
            }
            let (word, by) = (all[word.index(all.len())], pool[by.index(pool.len())]);
            return text.replacen(word, by, 1);
        }
        Mutation::Insert(at, inserted) => {
            let mut text = text.to_owned();
            text.insert_str(boundary(&text, at), inserted);
            return text;
        }
        Mutation::CutOff(at) => return text[..boundary(text, at)].to_owned(),
    }
    lines.join("\n")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_real_profile_that_was_changed_is_read_or_refused_and_means_something(
        which in 0_usize..8, mutations in prop::collection::vec(mutation(), 1..8),
    ) {
        let texts = shipped_texts();
        let pool: Vec<_> = texts.iter().flat_map(|(_, text)| words(text)).collect();
        let text = mutations
            .iter()
            .fold(texts[which].1.clone(), |text, mutation| mutated(&text, mutation, &pool));
        let base = || shipped().filter(|source| source.name == "base");
        let (profiles, broken) = Profiles::load_each(base().chain([file("any", &text)]));
        let strict = Profiles::load(base().chain([file("any", &text)]));
        prop_assert_eq!(strict.is_ok(), broken.is_empty());
        for problem in broken.iter().flat_map(|broken| &broken.problems) {
            let message = printed(problem);
            let lines = message.lines().count();
            prop_assert!((2..=3).contains(&lines), "{}", message);
            prop_assert!(!message.replace('\n', "").chars().any(char::is_control), "{}", message);
        }
        prop_assert!(broken.iter().all(|broken| (1..=MOST_FAULTS).contains(&broken.problems.len())));
        if let Ok(loaded) = profiles.loaded("any") {
            let again = print(&loaded.profile.entries(), |key| Some(key.to_owned()));
            let again = Profiles::load([file("any", &again)]);
            let again = again.map_err(|error| TestCaseError::fail(printed(&error)))?;
            prop_assert_eq!(again.get("any"), Ok(&loaded.profile));
            prop_assert!(compare(&loaded.profile, &loaded.profile).is_empty());
        }
    }
}
