//! What holds for any text.

use proptest::prelude::*;

use super::{file, parse, profiles, resolve, shipped_texts};
use crate::{
    document::DocumentError,
    profile::{ProfileError, ProfileProblem, Profiles},
};

/// Tables and keys, known and unknown.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "description",
            "extends",
            "backends",
            "require",
            "require.files",
            "filesystem.read",
            "filesystem.deny",
            "network.mode",
            "network.allow",
            "environment.set",
            "environment.set.A",
            "limits",
            "limits.timeout",
            "limits.cpus",
            "limits.pids",
            "container.user",
            "pool.warm",
            "approval",
            "approval.\"*\"",
            "host.confinement",
        ])
        .prop_map(str::to_owned),
        "[a-z_.]{1,12}",
    ]
}

/// Values of every type.
fn value() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        any::<i128>().prop_map(|number| number.to_string()),
        any::<i8>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| format!("{number:?}").replace("NaN", "nan")),
        any::<bool>().prop_map(|value| value.to_string()),
        "[ -~äß\u{202e}]{0,20}".prop_map(|text| toml::Value::from(text).to_string()),
        prop::sample::select(vec!["\"none\"", "\"full\"", "\"60s\"", "\"host\"", "2026-01-01"])
            .prop_map(str::to_owned),
    ];
    scalar.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3)
                .prop_map(|values| format!("[{}]", values.join(", "))),
            inner.prop_map(|value| format!("{{ path = {value}, why = {value} }}")),
        ]
    })
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in ".{0,200}") {
        let _ = parse("any", &text).and_then(|raw| resolve("any", &raw, None));
    }

    #[test]
    fn no_text_that_looks_like_toml_makes_the_parser_panic(
        text in "([a-z]{1,6}|\\[{1,2}limits\\]{1,2}|[=\\[\\]{}\",.#]|\n| |[0-9]|\"\"\"){0,60}",
    ) {
        let _ = parse("any", &text).and_then(|raw| resolve("any", &raw, None));
    }

    /// What the schema lets pass, the type takes: a wrong value is always told its key.
    #[test]
    fn a_wrong_value_is_never_blamed_on_the_syntax(key in key(), value in value()) {
        let text = format!("{key} = {value}");
        prop_assume!(text.parse::<toml::Table>().is_ok());
        if let Err(ProfileError::Load { source, .. }) =
            parse("any", &text).and_then(|raw| resolve("any", &raw, None))
        {
            prop_assert!(
                !matches!(*source, ProfileProblem::Document(DocumentError::Syntax { .. })),
                "{text}: {source}"
            );
        }
    }

    #[test]
    fn a_shipped_profile_with_a_byte_changed_is_read_or_refused(
        which in 0usize..8, at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let (name, text) = &shipped_texts()[which];
        let mut bytes = text.clone().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = Profiles::load([file(name, &String::from_utf8_lossy(&bytes))]);
    }

    /// Whatever a child leaves out is its parent's; whatever it writes is its own.
    #[test]
    fn a_child_is_its_parent_but_for_what_it_writes(
        parent in prop::option::of(1u64..1000), child in prop::option::of(1u64..1000),
    ) {
        let limit = |value: Option<u64>| {
            value.map_or(String::new(), |value| format!("[limits]\npids = {value}\n"))
        };
        let set = profiles(&[
            ("parent", &format!("backends = [\"host\"]\n{}", limit(parent))),
            ("child", &format!("extends = \"parent\"\n{}", limit(child))),
        ])
        .expect("two profiles");
        let (mut heir, expected) =
            (set.get("child").expect("it").clone(), set.get("parent").expect("it").clone());
        prop_assert_eq!(heir.limits.pids, child.or(parent).unwrap_or(128));
        heir.limits.pids = expected.limits.pids;
        heir.name = expected.name.clone();
        prop_assert_eq!(heir, expected);
    }
}
