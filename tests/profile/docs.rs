//! What `docs/` says of keys, defaults and examples is what the program does.

use serde_json::Value;

use crate::support::World;

const PROFILES: &str = include_str!("../../docs/profiles.md");
const CONFIGURATION: &str = include_str!("../../docs/configuration.md");

/// The rows `| key | default | meaning |` of a page, by key.
fn row<'a>(page: &'a str, key: &str) -> Option<&'a str> {
    page.lines().find(|line| line.starts_with(&format!("| `{key}` |")))
}

/// A value as the pages write it.
fn written(value: &Value) -> String {
    match value {
        Value::Array(list) => {
            let entries: Vec<_> = list.iter().map(Value::to_string).collect();
            format!("`[{}]`", entries.join(", "))
        }
        value => format!("`{value}`"),
    }
}

/// Claims that each value has a row with its default, but for those that depend on more.
#[track_caller]
fn are_documented(page: &str, values: &Value, but: &[&str]) {
    for (key, value) in values.as_object().expect("values") {
        if key.starts_with("approval.\"") {
            continue;
        }
        let row = row(page, key).unwrap_or_else(|| panic!("`{key}` is not on the page"));
        let default = written(&value["value"]);
        let shown = row.contains(&format!("| {default} |"));
        assert!(shown || but.contains(&key.as_str()), "{default} is not in: {row}");
    }
}

#[test]
fn every_key_of_a_profile_is_documented_with_its_default() {
    let world = World::with("", &[("plain", "backends = [\"host\"]")]);
    let json = world.run(&["profile", "show", "plain", "--json"]).json();
    are_documented(PROFILES, &json["values"], &["backends"]);
    for key in ["extends", "environment.set"] {
        assert!(row(PROFILES, key).is_some(), "{key}");
    }
}

#[test]
fn every_key_of_the_configuration_is_documented_with_its_default() {
    let json = World::new().run(&["config", "show", "--json"]).json();
    let depend = ["workspace.root", "execution.profile_dirs", "audit.path"];
    are_documented(CONFIGURATION, &json["values"], &depend);
}

/// The examples of a page that are files of that kind, by name.
fn examples<'a>(page: &'a str, folder: &str) -> Vec<(&'a str, &'a str)> {
    let blocks = page.split("```toml\n# ").skip(1);
    let blocks = blocks.filter_map(|block| block.split_once("```")?.0.split_once('\n'));
    blocks.filter_map(|(name, text)| Some((name.strip_prefix(folder)?, text))).collect()
}

#[test]
fn every_example_of_a_profile_can_be_used() {
    let world = World::new();
    let examples = examples(PROFILES, "sandbox-profiles/");
    assert!(examples.len() >= 2);
    for (name, text) in examples {
        world.write(&format!("work/{name}"), text);
        let checked = world.run(&["profile", "check", name]);
        assert!(checked.text().starts_with(&format!("{name}: ok\n")), "{checked:?}");
    }
}

#[test]
fn every_example_of_a_configuration_can_be_used() {
    let examples = examples(CONFIGURATION, "cofferdam.toml");
    assert!(!examples.is_empty());
    for (_, text) in examples {
        World::with(text, &[]).run(&["config", "show"]).text();
    }
}
