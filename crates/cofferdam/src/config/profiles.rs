//! The sandbox profiles that the configuration names, from the folders of its admin.

use std::{fs, io, path::Path};

use cofferdam_policy::{
    Profiles,
    compare::{self, Difference},
    document::Origin,
    profile::{BrokenProfile, LoadedProfile, ProfileOrigin, ProfileSource, shipped},
};

use super::{Config, ConfigError, sources};

impl Config {
    /// The profiles of these sources, for this configuration, as that generation.
    ///
    /// # Errors
    /// [`ConfigError`] for the first profile that cannot be used, for two files of the same name, and
    /// when the default profile or one of a token does not exist.
    pub(crate) fn profiles(
        &self,
        sources: Vec<ProfileSource>,
        generation: u64,
    ) -> Result<Profiles, ConfigError> {
        self.checked(Profiles::load(sources)?.numbered(generation))
    }

    /// Everything that is known of profiles, for whoever looks at them and enforces nothing: one that
    /// cannot be used takes nothing away from the others. `more` are files that are not in force; each
    /// takes the place of a profile of its name.
    pub(crate) fn known_profiles(&self, more: Vec<ProfileSource>) -> KnownProfiles {
        let (mut sources, unreadable) = self.found();
        sources.retain(|known| more.iter().all(|file| file.name != known.name));
        sources.extend(more);
        let (profiles, broken) = Profiles::load_each(sources);
        KnownProfiles { profiles, broken, unreadable }
    }

    /// Reads every `*.toml` of `execution.profile_dirs` over the built-in profiles: a file takes
    /// the place of the built-in profile of the same name. Hidden files are left out.
    ///
    /// # Errors
    /// [`ConfigError`] for a folder or file that cannot be read. The folder beside the configuration
    /// file may be missing unless it is named there.
    pub(crate) fn profile_sources(&self) -> Result<Vec<ProfileSource>, ConfigError> {
        let (sources, errors) = self.found();
        errors.into_iter().next().map_or(Ok(sources), Err)
    }

    /// The sources that can be read, and why others cannot.
    fn found(&self) -> (Vec<ProfileSource>, Vec<ConfigError>) {
        let mut sources: Vec<ProfileSource> = shipped().collect();
        let mut errors = Vec::new();
        let named = self.origins.get("execution.profile_dirs") != Some(&Origin::Default);
        let unread = &self.unread_profile_dirs;
        for folder in self.execution.profile_dirs.iter().filter(|it| !unread.contains(it)) {
            match fs::read_dir(folder) {
                Ok(entries) => {
                    for entry in entries {
                        match entry.map_err(unreadable(folder)).and_then(|entry| in_folder(&entry))
                        {
                            Ok(source) => sources.extend(source),
                            Err(error) => errors.push(error),
                        }
                    }
                }
                Err(error) if !named && error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => errors.push(unreadable(folder)(error)),
            }
        }
        (sources, errors)
    }

    fn checked(&self, profiles: Profiles) -> Result<Profiles, ConfigError> {
        let default = [("execution.default_profile", &self.execution.default_profile)];
        let tokens = self.tokens.iter().filter_map(|token| token.profiles.as_ref());
        let of_tokens = tokens.flatten().map(|name| ("token.profiles", name));
        for (key, name) in default.into_iter().chain(of_tokens) {
            profiles
                .get(name)
                .map_err(|source| ConfigError::NoSuchProfile { key: key.to_owned(), source })?;
        }
        note_what_is_wider(&profiles);
        Ok(profiles)
    }
}

/// What is known of profiles.
#[derive(Debug)]
pub(crate) struct KnownProfiles {
    /// Those that can be used.
    pub(crate) profiles: Profiles,
    /// Those that cannot, by name.
    pub(crate) broken: Vec<BrokenProfile>,
    /// What could not even be read.
    pub(crate) unreadable: Vec<ConfigError>,
}

impl KnownProfiles {
    /// The profile of that name.
    ///
    /// # Errors
    /// What is wrong with it, or that there is none.
    pub(crate) fn loaded(&self, name: &str) -> Result<&LoadedProfile, ConfigError> {
        let mut broken = self.broken.iter().filter(|broken| broken.name == name);
        match broken.next().and_then(|broken| broken.problems.first()) {
            Some(problem) => Err(problem.clone().into()),
            None => Ok(self.profiles.loaded(name)?),
        }
    }
}

/// The values by which a profile may allow more than the one it extends.
pub(crate) fn widened(profiles: &Profiles, loaded: &LoadedProfile) -> Vec<Difference> {
    let parent = loaded.extends.as_ref().and_then(|parent| profiles.get(parent).ok());
    parent.map(|parent| compare::widened(parent, &loaded.profile)).unwrap_or_default()
}

/// Says by what an admin's profiles allow more than those they extend: a starting point is not a
/// bound.
fn note_what_is_wider(profiles: &Profiles) {
    for loaded in profiles.names().filter_map(|name| profiles.loaded(name).ok()) {
        if loaded.origin == ProfileOrigin::Shipped {
            continue;
        }
        let keys: Vec<_> = widened(profiles, loaded).into_iter().map(|one| one.key).collect();
        if !keys.is_empty() {
            tracing::info!(
                profile = loaded.profile.name,
                extends = loaded.extends,
                keys = keys.join(", "),
                "the profile may allow more than the one it extends"
            );
        }
    }
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> ConfigError {
    move |source| ConfigError::ReadProfiles { path: path.to_owned(), source }
}

/// The profile in an entry of a folder, if it is one.
fn in_folder(entry: &fs::DirEntry) -> Result<Option<ProfileSource>, ConfigError> {
    let path = entry.path();
    let Some(name) = profile_name(&path) else { return Ok(None) };
    // A FIFO would hold the start up for ever.
    if !fs::metadata(&path).map_err(unreadable(&path))?.is_file() {
        return Ok(None);
    }
    let text = sources::text(&path).map_err(unreadable(&path))?;
    Ok(Some(ProfileSource { name, text, origin: ProfileOrigin::File(path) }))
}

/// The profile in a file that somebody named.
///
/// # Errors
/// [`ConfigError::ReadProfile`] when it cannot be read.
pub(crate) fn profile_file(path: &Path) -> Result<ProfileSource, ConfigError> {
    let unreadable = |source| ConfigError::ReadProfile { path: path.to_owned(), source };
    let text = sources::text(path).map_err(unreadable)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".toml").unwrap_or(&name).to_owned();
    Ok(ProfileSource { name, text, origin: ProfileOrigin::File(path.to_owned()) })
}

fn profile_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy();
    let name = name.strip_suffix(".toml")?;
    (!name.starts_with('.')).then(|| name.to_owned())
}
