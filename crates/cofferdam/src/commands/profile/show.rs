//! `cofferdam profile show`: every value of a profile, as a file that can be loaded again.

use cofferdam_policy::{
    document::print,
    profile::{LoadedProfile, Profiles},
};
use serde_json::{Map, Value, json};

use super::{
    answer,
    origin::{Origins, file, place},
};
use crate::{cli::Form, config::Config, error::CommandError, exit::Exit};

pub(super) fn show(name: &str, form: Form, config: &Config) -> Result<Exit, CommandError> {
    let known = config.known_profiles(Vec::new());
    let loaded = known.loaded(name)?;
    let profiles = &known.profiles;
    answer(form, || value(profiles, loaded), || text(profiles, loaded))
}

fn text(profiles: &Profiles, loaded: &LoadedProfile) -> String {
    let mut text = format!("# {}.toml: {}\n", loaded.profile.name, place(&loaded.origin));
    let parent = loaded.extends.as_ref().and_then(|parent| profiles.loaded(parent).ok());
    if let Some(parent) = parent {
        let (name, place) = (&parent.profile.name, place(&parent.origin));
        text.push_str(&format!("# {name}.toml, which it extends: {place}\n"));
    }
    let origins = Origins::new(profiles, loaded);
    text + "\n" + &print(&loaded.profile.entries(), |key| origins.text(key))
}

fn value(profiles: &Profiles, loaded: &LoadedProfile) -> Value {
    let origins = Origins::new(profiles, loaded);
    let mut values = Map::new();
    for entry in loaded.profile.entries() {
        let key = entry.key();
        let origin = origins.value(&key);
        values.insert(key, json!({ "value": entry.value, "origin": origin }));
    }
    json!({
        "name": loaded.profile.name,
        "file": file(&loaded.origin),
        "extends": loaded.extends,
        "generation": profiles.generation(),
        "values": values,
    })
}
