//! The schemas in `docs/schema` are those of the built program.
//!
//! `UPDATE_SCHEMAS=1 cargo test -p cofferdam --test profile schema` writes them anew.

use std::{fs, path::Path};

use crate::support::World;

/// Claims that a committed schema is what the program prints, or writes it.
#[track_caller]
fn is_current(command: &str, name: &str, committed: &str) {
    let json = World::new().run(&[command, "schema"]).json();
    let current = serde_json::to_string_pretty(&json).expect("JSON") + "\n";
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
        fs::write(folder.join(name), current).expect("the schema can be written");
        return;
    }
    assert!(
        committed == current,
        "docs/schema/{name} is not current: run \
         `UPDATE_SCHEMAS=1 cargo test -p cofferdam --test profile schema`"
    );
}

#[test]
fn the_committed_schema_of_profiles_is_current() {
    let committed = include_str!("../../docs/schema/profile.schema.json");
    is_current("profile", "profile.schema.json", committed);
}

#[test]
fn the_committed_schema_of_the_configuration_is_current() {
    let committed = include_str!("../../docs/schema/cofferdam.schema.json");
    is_current("config", "cofferdam.schema.json", committed);
}

/// Editors complete and check by it, so each key says what it is.
#[test]
fn every_key_of_both_schemas_has_a_description() {
    for command in ["profile", "config"] {
        let schema = World::new().run(&[command, "schema"]).json();
        let tables = schema["$defs"].as_object().expect("definitions");
        for part in tables.values().chain([&schema]) {
            for (key, value) in part["properties"].as_object().into_iter().flatten() {
                let described = value["description"].as_str().is_some_and(|text| !text.is_empty());
                assert!(described, "{command}: {key}");
            }
        }
    }
}
