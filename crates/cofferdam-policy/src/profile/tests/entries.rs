//! A resolved profile can be printed, and is the same when it is loaded again.

use proptest::prelude::*;

use super::{file, printed, profiles, shipped_texts};
use crate::{
    document::print,
    profile::{LoadedProfile, Profiles, shipped},
};

/// What is printed of a profile, each value with its key behind it.
fn text(loaded: &LoadedProfile) -> String {
    print(&loaded.profile.entries(), |key| Some(key.to_owned()))
}

/// Prints, loads again, and claims that nothing changed.
#[track_caller]
fn survives(loaded: &LoadedProfile) {
    let text = text(loaded);
    let again = profiles(&[(&loaded.profile.name, &text)])
        .unwrap_or_else(|error| panic!("{}\n{text}", printed(&error)));
    assert_eq!(again.get(&loaded.profile.name).expect("it"), &loaded.profile, "{text}");
}

#[test]
fn every_shipped_profile_is_the_same_when_it_is_printed_and_loaded_again() {
    let all = Profiles::load(shipped()).expect("what is shipped");
    for name in all.names() {
        survives(all.loaded(name).expect("a name of the set"));
    }
}

#[test]
fn every_value_that_is_printed_has_an_origin_and_every_origin_a_value() {
    let text =
        "backends = [\"host\"]\n[environment.set]\nA = \"1\"\n[approval]\n\"a.*\" = \"never\"";
    let set = profiles(&[("mine", text)]).expect("a profile");
    let loaded = set.loaded("mine").expect("it");
    let keys: Vec<_> = loaded.profile.entries().iter().map(|entry| entry.key()).collect();
    for key in &keys {
        assert!(loaded.origins.contains_key(key), "{key}");
    }
    for key in loaded.origins.keys().filter(|key| !key.ends_with(']')) {
        assert!(keys.contains(key), "{key}");
    }
}

#[test]
fn the_entry_of_a_list_knows_its_line() {
    let text =
        "backends = [\"host\"]\n[network]\nallow = [\n  \"a.example:1\",\n  \"b.example:1\",\n]";
    let set = profiles(&[("parent", text), ("mine", "extends = \"parent\"")]).expect("profiles");
    let origins = &set.loaded("mine").expect("it").origins;
    let line = |key: &str| format!("{:?}", origins[key]);
    assert_eq!(line("network.allow"), "Inherited { from: \"parent\", line: 3 }");
    assert_eq!(line("network.allow[1]"), "Inherited { from: \"parent\", line: 5 }");
}

/// A text for any place that takes one.
fn strange() -> impl Strategy<Value = String> {
    prop_oneof![Just("plain".to_owned()), "[ -~äß\"'\\\\#\u{202e}]{1,20}", "\\PC{1,20}"]
}

proptest! {
    #[test]
    fn a_profile_is_the_same_when_it_is_printed_and_loaded_again(
        description in strange(),
        why in strange(),
        folder in "[a-zA-Z0-9 äß.'\"#-]{1,12}",
        value in strange(),
        tool in "[a-z*?.]{1,8}",
        milliseconds in 1_u64..100_000,
        cpus in 0.01..64.0_f64,
        pids in 1_u64..4_000_000,
        which in 0_usize..8,
    ) {
        prop_assume!(!matches!(folder.as_str(), "." | "..") && !why.trim().is_empty());
        let (parent, _) = &shipped_texts()[which];
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let child = format!(
            "description = {}\n{}\n[filesystem]\nwrite = [{{ path = {}, why = {} }}]\n\
             [environment.set]\nA = {}\n[limits]\ngrace = \"{milliseconds}ms\"\ncpus = {cpus:?}\n\
             pids = {pids}\ntimeout_max = \"2h\"\n[approval]\n{} = \"always\"",
            quoted(&description),
            if parent == "base" { "extends = \"base\"" } else { "backends = [\"host\"]" },
            quoted(&format!("/srv/{folder}")),
            quoted(&why),
            quoted(&value),
            quoted(&tool),
        );
        prop_assume!(milliseconds <= 60_000);
        let set = Profiles::load(shipped().chain([file("mine", &child)]));
        let set = match set {
            Ok(set) => set,
            Err(error) => return Err(TestCaseError::reject(printed(&error))),
        };
        survives(set.loaded("mine").expect("it"));
    }
}
