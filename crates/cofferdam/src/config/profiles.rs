//! The sandbox profiles that the configuration names, from the folders of its admin.

use std::{fs, io, path::Path};

use cofferdam_policy::{
    Profiles,
    document::Origin,
    profile::{ProfileOrigin, ProfileSource, shipped},
};

use super::{Config, ConfigError, sources};

impl Config {
    /// Reads every `*.toml` of `execution.profile_dirs` over the built-in profiles: a file takes
    /// the place of the built-in profile of the same name. Hidden files are left out.
    ///
    /// # Errors
    /// [`ConfigError`] for a folder or file that cannot be read, for the first profile that cannot
    /// be used, for two files of the same name, and when the default profile or one of a token does
    /// not exist. The folder beside the configuration file may be missing unless it is named there.
    pub(crate) fn profiles(&self) -> Result<Profiles, ConfigError> {
        self.checked(Profiles::load(self.profile_sources()?)?)
    }

    /// The same, as the generation after `before`.
    ///
    /// # Errors
    /// As [`profiles`](Self::profiles); `before` then stays what it is.
    pub(crate) fn profiles_after(&self, before: &Profiles) -> Result<Profiles, ConfigError> {
        self.checked(before.reload(self.profile_sources()?)?)
    }

    fn profile_sources(&self) -> Result<Vec<ProfileSource>, ConfigError> {
        let mut sources: Vec<ProfileSource> = shipped().collect();
        let named = self.origins.get("execution.profile_dirs") != Some(&Origin::Default);
        for folder in &self.execution.profile_dirs {
            match from_folder(folder) {
                Ok(found) => sources.extend(found),
                Err(ConfigError::ReadProfiles { source, .. })
                    if !named && source.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sources)
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
        Ok(profiles)
    }
}

fn from_folder(folder: &Path) -> Result<Vec<ProfileSource>, ConfigError> {
    let unreadable =
        |path: &Path, source| ConfigError::ReadProfiles { path: path.to_owned(), source };
    let mut sources = Vec::new();
    for entry in fs::read_dir(folder).map_err(|source| unreadable(folder, source))? {
        let path = entry.map_err(|source| unreadable(folder, source))?.path();
        let Some(name) = profile_name(&path) else { continue };
        // A FIFO would hold the start up for ever.
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => {}
            Ok(_) => continue,
            Err(source) => return Err(unreadable(&path, source)),
        }
        let text = sources::text(&path).map_err(|source| unreadable(&path, source))?;
        sources.push(ProfileSource { name, text, origin: ProfileOrigin::File(path) });
    }
    Ok(sources)
}

fn profile_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy();
    let name = name.strip_suffix(".toml")?;
    (!name.starts_with('.')).then(|| name.to_owned())
}
