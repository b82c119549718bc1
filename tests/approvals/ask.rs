//! A world in which calls are asked about.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::World;

pub(crate) const BASH: &str = "bash_coding_tool.execute";

/// Asks about every call.
const ASK: &str = "\
description = \"Asks about every call.\"
extends = \"base\"
[filesystem]
workspace = \"write\"
[approval]
\"*\" = \"always\"
";

/// A world whose default profile asks about every call; `configuration` is added to the
/// configuration file, which begins in its `[execution]` table.
pub(crate) fn world(configuration: &str) -> World {
    let world = World::new();
    let profiles = world.outside("sandbox-profiles");
    std::fs::create_dir(&profiles).expect("a folder can be made");
    std::fs::write(profiles.join("ask.toml"), ASK).expect("a file can be written");
    let text = format!("[execution]\ndefault_profile = \"ask\"\n{configuration}");
    std::fs::write(config(&world), text).expect("a file can be written");
    world
}

pub(crate) fn config(world: &World) -> PathBuf {
    world.outside("cofferdam.toml")
}

/// The options that make a command use that configuration.
pub(crate) fn options(world: &World) -> [String; 2] {
    let config = config(world);
    ["--config".to_owned(), config.to_str().expect("UTF-8").to_owned()]
}

/// A call that leaves a line in `runs` each time it runs.
pub(crate) fn counted() -> Value {
    json!({ "code": "echo run >> runs; echo ran" })
}

/// How often [`counted`] has run.
pub(crate) fn runs(world: &World) -> usize {
    let found = std::fs::read_to_string(world.workspace().join("runs")).unwrap_or_default();
    found.lines().count()
}
