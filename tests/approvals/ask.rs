//! A world in which calls are asked about.

use std::{path::PathBuf, process::Command};

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
    std::fs::create_dir(profiles(&world)).expect("a folder can be made");
    profile(&world, "");
    let text = format!("[execution]\ndefault_profile = \"ask\"\n{configuration}");
    std::fs::write(config(&world), text).expect("a file can be written");
    world
}

/// The program in this world, where it finds no server but those of this world.
pub(crate) fn cofferdam(world: &World) -> Command {
    let mut command = world.cofferdam();
    command.env("COFFERDAM_RUNTIME_DIR", world.outside("servers"));
    command
}

/// Writes the profile that asks about every call, with more at its end.
pub(crate) fn profile(world: &World, more: &str) {
    std::fs::write(profiles(world).join("ask.toml"), format!("{ASK}{more}"))
        .expect("a file can be written");
}

fn profiles(world: &World) -> PathBuf {
    world.outside("sandbox-profiles")
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
