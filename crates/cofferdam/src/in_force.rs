//! What a server goes by, kept in its private folder for the worker that takes over from one that
//! died: what was fixed when the server started, and the last good files that were in force.
//!
//! So a worker that is started again goes on as before, with the same generation, whatever has become
//! of the files meanwhile; reading those is an ordinary reload.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use cofferdam_policy::profile::{ProfileOrigin, ProfileSource, shipped};
use serde::{Deserialize, Serialize};

use crate::config::ConfigFile;

/// Its name in the server's folder.
const FILE: &str = "in_force.json";

/// What a server goes by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InForce {
    /// The configuration when the server started: some of it is read only then.
    pub(crate) first: Option<ConfigFile>,
    /// The configuration in force.
    pub(crate) config: Option<ConfigFile>,
    profiles: Vec<KeptProfile>,
    /// The generation that this is.
    pub(crate) generation: u64,
}

/// A profile of the admin's, as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptProfile {
    name: String,
    path: PathBuf,
    text: String,
}

impl InForce {
    /// Of the sources only the admin's own are kept: the others are in the program.
    pub(crate) fn new(
        first: Option<ConfigFile>,
        config: Option<ConfigFile>,
        sources: &[ProfileSource],
        generation: u64,
    ) -> Self {
        let kept = sources.iter().filter_map(|source| match &source.origin {
            ProfileOrigin::Shipped => None,
            ProfileOrigin::File(path) => Some(KeptProfile {
                name: source.name.clone(),
                path: path.clone(),
                text: source.text.clone(),
            }),
        });
        Self { first, config, profiles: kept.collect(), generation }
    }

    /// The sources of all profiles in force.
    pub(crate) fn sources(&self) -> Vec<ProfileSource> {
        let kept = self.profiles.iter().cloned().map(|profile| ProfileSource {
            name: profile.name,
            text: profile.text,
            origin: ProfileOrigin::File(profile.path),
        });
        shipped().chain(kept).collect()
    }

    /// What an earlier worker of the server with that folder kept, if there was one.
    ///
    /// # Errors
    /// When there is something that cannot be read.
    pub(crate) fn read(folder: &Path) -> io::Result<Option<Self>> {
        match fs::read(folder.join(FILE)) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps it for the next worker. What was kept before stays when that fails, which is logged.
    pub(crate) fn keep(&self, folder: &Path) {
        if let Err(error) = self.write(folder) {
            tracing::warn!(%error, "what is in force cannot be kept for the next worker");
        }
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        let (path, new) = (folder.join(FILE), folder.join("in_force.new"));
        let file = fs::OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&new)?;
        serde_json::to_writer(io::BufWriter::new(&file), self)?;
        fs::rename(new, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back_whole_and_replaces_what_was_kept_before() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        assert_eq!(InForce::read(folder.path())?, None);
        let file = |text: &str| ConfigFile {
            path: "/etc/cofferdam/cofferdam.toml".into(),
            named: true,
            text: text.to_owned(),
        };
        let mut sources: Vec<_> = shipped().collect();
        let shipped_ones = sources.len();
        sources.push(ProfileSource {
            name: "mine".to_owned(),
            text: "extends = \"base\"\n# \u{e9}\0\n".to_owned(),
            origin: ProfileOrigin::File("/etc/cofferdam/mine.toml".into()),
        });
        for generation in [1, 7] {
            let kept = InForce::new(Some(file("a")), Some(file("b")), &sources, generation);
            assert_eq!(kept.profiles.len(), 1);
            kept.write(folder.path())?;
            let back = InForce::read(folder.path())?.expect("it was kept");
            assert_eq!(back, kept);
            assert_eq!(back.sources().len(), shipped_ones + 1);
            assert_eq!(back.sources().last(), sources.last());
        }
        fs::write(folder.path().join(FILE), "{")?;
        assert!(InForce::read(folder.path()).is_err());
        Ok(())
    }
}
