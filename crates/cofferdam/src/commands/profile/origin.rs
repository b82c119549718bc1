//! Where a profile or one of its values came from, as text and as JSON.

use cofferdam_policy::{
    document::Origin,
    profile::{LoadedProfile, ProfileOrigin, Profiles},
};
use serde_json::{Value, json};

/// Where the values of one profile came from.
pub(super) struct Origins<'a> {
    profiles: &'a Profiles,
    loaded: &'a LoadedProfile,
}

impl<'a> Origins<'a> {
    pub(super) fn new(profiles: &'a Profiles, loaded: &'a LoadedProfile) -> Self {
        Self { profiles, loaded }
    }

    /// As text, such as `base.toml line 12`, or `default`.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        Some(match self.loaded.origins.get(key)? {
            Origin::Line { line } => format!("{}.toml line {line}", self.loaded.profile.name),
            Origin::Inherited { from, line } => format!("{from}.toml line {line}"),
            Origin::Variable { name } | Origin::Option { name } => name.clone(),
            Origin::Default => "default".to_owned(),
        })
    }

    /// The same behind a value, if it is known.
    pub(super) fn behind(&self, key: &str) -> String {
        self.text(key).map(|text| format!(" ({text})")).unwrap_or_default()
    }

    /// As JSON.
    pub(super) fn value(&self, key: &str) -> Value {
        let line = |profile: &str, line: &usize| {
            let loaded = self.profiles.loaded(profile).ok();
            let file = loaded.and_then(|loaded| file(&loaded.origin));
            json!({ "from": "file", "profile": profile, "file": file, "line": line })
        };
        match self.loaded.origins.get(key) {
            Some(Origin::Line { line: number }) => line(&self.loaded.profile.name, number),
            Some(Origin::Inherited { from, line: number }) => line(from, number),
            Some(Origin::Variable { name } | Origin::Option { name }) => json!({ "from": name }),
            Some(Origin::Default) => json!({ "from": "default" }),
            None => Value::Null,
        }
    }
}

/// Where a profile's text came from.
pub(super) fn place(origin: &ProfileOrigin) -> String {
    file(origin).map_or_else(|| "built in".to_owned(), |path| super::plain(&path))
}

/// The file of a profile; `None` for one that is built in.
pub(super) fn file(origin: &ProfileOrigin) -> Option<String> {
    match origin {
        ProfileOrigin::Shipped => None,
        ProfileOrigin::File(path) => Some(path.to_string_lossy().into_owned()),
    }
}
