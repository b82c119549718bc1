//! The documented configuration, changed at random: read or refused with one clear message.
//!
//! The bounded form of the fuzz target `config`, for every toolchain.

use proptest::{prelude::*, sample::Index};

use super::{DOCUMENTED, Place};

/// Other words than those that stand there.
const WORDS: &[&str] = &[
    "true",
    "8050",
    "-1",
    "1e400",
    "0x10",
    "nan",
    "\"\"",
    "\"60\"",
    "\"1h\"",
    "[]",
    "{}",
    "[[token]]",
    "[tools]",
    "port",
    "prot",
    "=",
    "1979-05-27",
    "\"\\u001b[31m\"",
    "\"\u{202e}\"",
    "'",
    "\"\"\"",
];

fn mutated(text: &str, word: &Index, by: &str) -> String {
    let words: Vec<_> = text.split_inclusive([' ', '\n']).collect();
    if words.is_empty() {
        return by.to_owned();
    }
    let at = word.index(words.len());
    let mut changed: String = words[..at].concat();
    changed.push_str(by);
    changed.push_str(if words[at].ends_with('\n') { "\n" } else { " " });
    changed.push_str(&words[at + 1..].concat());
    changed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_configuration_that_was_changed_is_read_or_refused_with_one_message(
        changes in prop::collection::vec(
            (any::<Index>(), prop_oneof![prop::sample::select(WORDS), Just("")]), 1..4),
    ) {
        let place = Place::new();
        let text = changes
            .iter()
            .fold(DOCUMENTED.to_owned(), |text, (word, by)| mutated(&text, word, by));
        place.write("work/cofferdam.toml", &text);
        match place.load(&[]) {
            Ok(config) => {
                let keys: Vec<_> = config.entries().iter().map(|entry| entry.key()).collect();
                prop_assert!(keys.iter().all(|key| config.origin_text(key).is_some()), "{:?}", keys);
            }
            Err(error) => {
                let message = place.printed(&error);
                prop_assert!((2..=3).contains(&message.lines().count()), "{}", message);
                let plain = !message.replace('\n', "").chars().any(char::is_control);
                prop_assert!(plain, "{}", message);
            }
        }
    }
}
