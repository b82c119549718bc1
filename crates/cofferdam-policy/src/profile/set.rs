//! The set of all profiles that a server knows.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    path::PathBuf,
};

use super::{Profile, ProfileError, ProfileProblem, raw::RawProfile, resolve};
use crate::{carve_outs::CarveOuts, document::Origin};

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
    /// Name of the profile that it extends.
    pub extends: Option<String>,
    /// Where each value came from, by dotted key: `limits.memory_mib`. The entries of a list are
    /// there too, counted from 0: `filesystem.read[0]`.
    pub origins: BTreeMap<String, Origin>,
}

/// A profile that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenProfile {
    /// Its name.
    pub name: String,
    /// Where its text came from.
    pub origin: ProfileOrigin,
    /// What is wrong, in the order of the file: at least one problem.
    pub problems: Vec<ProfileError>,
}

impl Profiles {
    /// Reads and resolves all of them, as generation 1. The order of the sources does not matter.
    ///
    /// # Errors
    /// [`ProfileError::Load`] for the first, by name, that is wrong, also when it extends what
    /// does not exist, or when two files have the same name. One wrong profile refuses the set.
    pub fn load(sources: impl IntoIterator<Item = ProfileSource>) -> Result<Self, ProfileError> {
        let (profiles, broken) = Self::load_each(sources);
        let mut problems = broken.into_iter().flat_map(|broken| broken.problems);
        // A profile that only suffers from another one is not what has to be put right.
        problems.find(|problem| !problem.is_of_the_parent()).map_or(Ok(profiles), Err)
    }

    /// Reads and resolves each for itself, as generation 1: those that can be used, and by name
    /// those that cannot, each with all that is wrong with it.
    ///
    /// For whoever looks at profiles, never for whoever enforces them: a profile that an admin wrote
    /// and that is missing could have been a tighter one.
    pub fn load_each(
        sources: impl IntoIterator<Item = ProfileSource>,
    ) -> (Self, Vec<BrokenProfile>) {
        let (sources, twice) = by_name(sources);
        let mut wrong = Vec::new();
        let ambiguous: BTreeSet<_> = twice.iter().map(|(name, ..)| name.clone()).collect();
        for (name, problem, origin) in twice {
            let problems = vec![problem.of(&name)];
            wrong.push((name, origin, problems));
        }
        let mut written = BTreeMap::new();
        for (name, source) in sources.iter().filter(|(name, _)| !ambiguous.contains(*name)) {
            match super::parse_to_the_end(name, &source.text) {
                Ok(raw) => {
                    written.insert(name.as_str(), raw);
                }
                Err(problems) => wrong.push((name.clone(), source.origin.clone(), problems)),
            }
        }
        let mut profiles = BTreeMap::new();
        for (name, raw) in &written {
            let Some(ProfileSource { origin, .. }) = sources.get(*name) else { continue };
            match resolve_among(name, raw, &written, &sources) {
                Ok((profile, origins)) => {
                    let (origin, extends) = (origin.clone(), raw.extends.clone());
                    let loaded = LoadedProfile { profile, origin, extends, origins };
                    profiles.insert((*name).to_owned(), loaded);
                }
                Err(problems) => wrong.push(((*name).to_owned(), origin.clone(), problems)),
            }
        }
        wrong.sort_by(|one, other| one.0.cmp(&other.0));
        let broken = wrong.into_iter();
        let broken =
            broken.map(|(name, origin, problems)| BrokenProfile { name, origin, problems });
        (Self { profiles, generation: 1 }, broken.collect())
    }

    /// The same profiles as that generation: they were read again, or by a process that goes on where
    /// another one ended.
    #[must_use]
    pub fn numbered(self, generation: u64) -> Self {
        Self { generation, ..self }
    }

    /// The same profiles, each of which protects `globs` too.
    ///
    /// For what the server itself reads and finds in a workspace: code could loosen the next start.
    ///
    /// # Errors
    /// [`ProfileError::Load`] when one of them is no glob.
    pub fn protecting(mut self, globs: &[String]) -> Result<Self, ProfileError> {
        for (name, loaded) in &mut self.profiles {
            let profile = &mut loaded.profile;
            profile.filesystem.protect.extend_from_slice(globs);
            profile.carve_outs = CarveOuts::new(&profile.filesystem)
                .map_err(|error| ProfileProblem::AddedGlob(error).of(name))?;
        }
        Ok(self)
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

    /// Which generation this is: 1 unless it was [numbered](Self::numbered).
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

/// A name that two files have, and one of the files.
type Twice = (String, ProfileProblem, ProfileOrigin);

/// One source per name: a file before what is shipped.
fn by_name(
    sources: impl IntoIterator<Item = ProfileSource>,
) -> (BTreeMap<String, ProfileSource>, Vec<Twice>) {
    let mut named = BTreeMap::new();
    let mut twice = Vec::new();
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
                    twice.push((source.name, problem, source.origin));
                }
            },
        }
    }
    (named, twice)
}

/// Resolves one of the profiles that could be read.
fn resolve_among(
    name: &str,
    raw: &RawProfile,
    written: &BTreeMap<&str, RawProfile>,
    sources: &BTreeMap<String, ProfileSource>,
) -> Result<resolve::Resolved, Vec<ProfileError>> {
    let parent = raw.extends.as_deref().and_then(|parent| written.get(parent));
    resolve::resolve(name, raw, parent).map_err(|(first, more)| {
        let known = || {
            let others = sources.keys().filter(|other| *other != name);
            others.cloned().collect()
        };
        let first = match first {
            ProfileProblem::NoParent { parent, .. } if sources.contains_key(&parent) => {
                ProfileProblem::BrokenParent { parent }
            }
            ProfileProblem::NoParent { parent, .. } => {
                ProfileProblem::NoParent { parent, known: known() }
            }
            problem => problem,
        };
        std::iter::once(first).chain(more).map(|problem| problem.of(name)).collect()
    })
}
