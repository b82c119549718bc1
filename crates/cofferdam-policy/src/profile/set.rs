//! The set of all profiles that a server knows.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    path::PathBuf,
};

use super::{Profile, ProfileError, ProfileProblem, raw::RawProfile, resolve};
use crate::document::Origin;

/// A profile's text, before anything is known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileSource {
    /// The file's name without `.toml`.
    pub name: String,
    /// What the file holds.
    pub text: String,
    /// Where the text came from.
    pub origin: ProfileOrigin,
}

/// Where a profile's text came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileOrigin {
    /// Built into the program.
    Shipped,
    /// A file of the admin's. It takes the place of a shipped profile of the same name.
    File(PathBuf),
}

/// Resolved profiles by name, all of one generation.
#[derive(Clone, Debug)]
pub struct Profiles {
    profiles: BTreeMap<String, LoadedProfile>,
    generation: u64,
}

/// A profile with where it, and each of its values, came from.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedProfile {
    /// The profile.
    pub profile: Profile,
    /// Where its text came from.
    pub origin: ProfileOrigin,
    /// Where each value came from, by dotted key: `limits.memory_mib`.
    pub origins: BTreeMap<String, Origin>,
}

impl Profiles {
    /// Reads and resolves all of them, as generation 1. The order of the sources does not matter.
    ///
    /// # Errors
    /// [`ProfileError::Load`] for the first, by name, that is wrong, also when it extends what
    /// does not exist, or when two files have the same name. One wrong profile refuses the set.
    pub fn load(sources: impl IntoIterator<Item = ProfileSource>) -> Result<Self, ProfileError> {
        let sources = by_name(sources)?;
        let mut written = BTreeMap::new();
        for (name, source) in &sources {
            written.insert(name.as_str(), super::parse(name, &source.text)?);
        }
        let mut profiles = BTreeMap::new();
        for (name, source) in &sources {
            let (profile, origins) = resolve_among(name, &written)?;
            let origin = source.origin.clone();
            profiles.insert(name.clone(), LoadedProfile { profile, origin, origins });
        }
        Ok(Self { profiles, generation: 1 })
    }

    /// Reads and resolves all of them anew, as the generation after this one.
    ///
    /// # Errors
    /// As [`load`](Self::load); this generation then stays what it is.
    pub fn reload(
        &self,
        sources: impl IntoIterator<Item = ProfileSource>,
    ) -> Result<Self, ProfileError> {
        Ok(Self { generation: self.generation + 1, ..Self::load(sources)? })
    }

    /// The same profiles, each of which protects `globs` too.
    ///
    /// For what the server itself reads and finds in a workspace: code could loosen the next start.
    #[must_use]
    pub fn protecting(mut self, globs: &[String]) -> Self {
        for loaded in self.profiles.values_mut() {
            loaded.profile.filesystem.protect.extend_from_slice(globs);
        }
        self
    }

    /// The profile of that name.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`], with the names that there are.
    pub fn get(&self, name: &str) -> Result<&Profile, ProfileError> {
        self.loaded(name).map(|loaded| &loaded.profile)
    }

    /// The profile of that name with its origins.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`], with the names that there are.
    pub fn loaded(&self, name: &str) -> Result<&LoadedProfile, ProfileError> {
        self.profiles.get(name).ok_or_else(|| ProfileError::Unknown {
            name: name.to_owned(),
            known: self.names().map(str::to_owned).collect(),
        })
    }

    /// The names of all profiles, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.profiles.keys().map(String::as_str)
    }

    /// Which generation this is: 1 at the start, one more with each reload.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

/// One source per name: a file before what is shipped.
fn by_name(
    sources: impl IntoIterator<Item = ProfileSource>,
) -> Result<BTreeMap<String, ProfileSource>, ProfileError> {
    let mut named = BTreeMap::new();
    for source in sources {
        match named.entry(source.name.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(source);
            }
            Entry::Occupied(mut entry) => match (&entry.get().origin, &source.origin) {
                (ProfileOrigin::Shipped, _) => {
                    entry.insert(source);
                }
                (ProfileOrigin::File(_), ProfileOrigin::Shipped) => {}
                (ProfileOrigin::File(first), ProfileOrigin::File(second)) => {
                    let problem = ProfileProblem::Twice {
                        first: first.display().to_string(),
                        second: second.display().to_string(),
                    };
                    return Err(problem.of(&source.name));
                }
            },
        }
    }
    Ok(named)
}

fn resolve_among(
    name: &str,
    written: &BTreeMap<&str, RawProfile>,
) -> Result<(Profile, BTreeMap<String, Origin>), ProfileError> {
    let raw = &written[name];
    let parent = raw.extends.as_deref().and_then(|parent| written.get(parent));
    resolve::resolve(name, raw, parent).map_err(|problem| {
        match problem {
            ProfileProblem::NoParent { parent, .. } => ProfileProblem::NoParent {
                parent,
                known: written
                    .keys()
                    .filter(|other| **other != name)
                    .map(|other| (*other).to_owned())
                    .collect(),
            },
            problem => problem,
        }
        .of(name)
    })
}
