//! The schema says all there is to say, and the reader agrees with it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{parse, printed, profile_schema, profiles, resolved};

/// The example of the design's own document.
const DOCUMENTED: &str = r#"
description = "Run code on the workspace, with no way out."
backends = ["bubblewrap", "container", "host"]
require = { files = "full", network = "full", processes = "full", privileges = "full", limits = "partial" }

[filesystem]
workspace = "write"
read = [ { path = "/usr", why = "interpreters and libraries" } ]
write = []
protect = [ "**/.git/config", "**/.git/hooks", "**/.git/info/attributes", "**/.vscode", "**/.mcp.json" ]
deny = [ "**/.env", "**/.ssh" ]
allow_new_repositories = true
tmp_mib = 256
scratch_home = true

[network]
mode = "allowlist"
allow = ["example.org:443", "*.example.org:443", "@python-index"]
deny_private = true

[environment]
pass = ["LANG", "TZ"]
set = { PYTHONUNBUFFERED = "1" }

[limits]
timeout = "60s"
timeout_max = "15m"
grace = "100ms"
memory_mib = 1024
pids = 128
cpus = 1
file_size_mib = 512
open_files = 512
output_kib = 64
output_file_mib = 64
disk_mib = 1024

[container]
image = "cofferdam/python@sha256:0123456789abcdef"
runtime = "runc"
user = "65534:65534"

[host]
confinement = "landlock"

[python]
interpreter = "auto"

[uv]
subcommands = ["run", "add", "remove", "sync", "lock", "venv", "pip", "tree", "python", "init"]

[pool]
warm = 1
idle = "2m"

[approval]
"uv_tool.*" = "always"
"*" = "unsandboxed"
"#;

/// Each key that holds a value, by dotted path, with its part of the schema.
fn leaves(schema: &Value) -> Vec<(String, &Value)> {
    let mut leaves = Vec::new();
    for (name, part) in properties(schema, schema) {
        let inner: Vec<_> = properties(schema, part).collect();
        if inner.is_empty() {
            leaves.push((name.clone(), part));
        }
        leaves.extend(inner.into_iter().map(|(key, part)| (format!("{name}.{key}"), part)));
    }
    leaves
}

fn followed<'a>(root: &'a Value, part: &'a Value) -> &'a Value {
    match part.get("$ref").and_then(Value::as_str) {
        Some(pointer) => root.pointer(pointer.trim_start_matches('#')).expect("a definition"),
        None => part,
    }
}

fn properties<'a>(
    root: &'a Value,
    part: &'a Value,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    followed(root, part).get("properties").and_then(Value::as_object).into_iter().flatten()
}

#[test]
fn the_documented_profile_is_accepted() {
    let profile = resolved(DOCUMENTED).unwrap_or_else(|error| panic!("{}", printed(&error)));
    assert_eq!(profile.approval.len(), 2);
    assert_eq!(profile.limits.cpus, 1.0);
}

#[test]
fn the_documented_profile_names_every_key() {
    let (_, lines) =
        crate::document::read::<super::super::RawProfile>(DOCUMENTED, &profile_schema())
            .expect("the documented profile");
    let lines = format!("{lines:?}");
    for (key, _) in leaves(&profile_schema()) {
        assert!(key == "extends" || lines.contains(&format!("\"{key}\"")), "{key}");
    }
}

#[test]
fn every_key_of_the_schema_is_resolved_and_has_an_origin() {
    let set = profiles(&[("a", "backends = [\"host\"]")]).expect("a profile");
    let resolved: BTreeSet<_> = set.loaded("a").expect("it").origins.keys().cloned().collect();
    let schema = profile_schema();
    let keys: BTreeSet<_> = leaves(&schema)
        .into_iter()
        .map(|(key, _)| key)
        // The one decides where the others come from; the others are maps, empty here.
        .filter(|key| !["extends", "environment.set", "approval"].contains(&key.as_str()))
        .chain(["approval.\"*\"".to_owned()])
        .collect();
    assert_eq!(resolved, keys);
}

#[test]
fn every_key_has_a_description_and_what_is_free_has_an_example() {
    let schema = profile_schema();
    for (key, part) in leaves(&schema) {
        assert!(part["description"].is_string(), "{key} has no description");
        let chosen = followed(&schema, part).get("oneOf").is_some() || part["type"] == "boolean";
        assert!(chosen || part["examples"][0] != Value::Null, "{key} has no example");
        if part["type"] == "integer" {
            assert!(part["minimum"].is_number() && part["maximum"].is_number(), "{key}");
        }
    }
}

#[test]
fn every_example_of_the_schema_is_accepted() {
    for (key, part) in leaves(&profile_schema()) {
        let Some(example) = part.get("examples").and_then(|examples| examples.get(0)) else {
            continue;
        };
        let example = toml::Value::try_from(example).expect("an example that TOML can say");
        let text = format!("backends = [\"host\"]\n{key} = {example}");
        let text = if key == "backends" { format!("{key} = {example}") } else { text };
        let parsed = parse("example", &text).unwrap_or_else(|error| panic!("{}", printed(&error)));
        if key != "extends" {
            let resolved = super::resolve("example", &parsed, None);
            assert!(resolved.is_ok(), "{}", printed(&resolved.expect_err(&key)));
        }
    }
}

#[test]
fn no_name_of_a_rust_type_and_no_null_shows_in_the_schema() {
    let text = profile_schema().to_string();
    for word in ["Raw", "uint", "double", "null", "super::"] {
        assert!(!text.contains(word), "`{word}` in {text}");
    }
}
