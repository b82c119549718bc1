//! Names inside granted folders that a run may not touch: one object that runs, the file tools and
//! explanations all ask.
//!
//! Pure: it sees a path relative to a granted root, never a file.

use std::{collections::HashSet, ffi::OsString, path::Path, sync::Arc};

use globset::GlobBuilder;

use crate::{globs::Globs, profile::Filesystem};

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CarveOut {
    /// May be read, never changed, renamed away or created.
    Protect,
    /// May be neither read nor written.
    Deny,
}

/// Where the server keeps what it has moved out of place. Always denied to runs.
pub const QUARANTINE: &str = ".tmp/quarantine";

/// The rules of one profile. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct CarveOuts(Arc<Rules>);

#[derive(Debug, Default)]
struct Rules {
    globs: Globs,
    /// By index of the glob in the list.
    rules: Vec<(CarveOut, String)>,
    /// Last components of the globs, when all of them are plain names: a walk over a large tree
    /// asks about every entry, and a look-up is cheaper than a glob.
    names: Option<HashSet<OsString>>,
    allow_new_repositories: bool,
}

/// A glob of `protect` or `deny` cannot be used. The profile's validation refuses it before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{glob}` is not a glob")]
pub struct GlobError {
    /// The glob as written.
    pub glob: String,
    /// Why not.
    #[source]
    pub source: globset::Error,
}

impl CarveOuts {
    /// Makes the rules of a profile ready.
    ///
    /// # Errors
    /// [`GlobError`] on a glob that does not compile.
    pub fn new(filesystem: &Filesystem) -> Result<Self, GlobError> {
        let mut globs = Vec::new();
        let mut rules = Vec::new();
        let written = (filesystem.deny.iter().map(|glob| (CarveOut::Deny, glob)))
            .chain(filesystem.protect.iter().map(|glob| (CarveOut::Protect, glob)));
        for (kind, glob) in written {
            let compiled = GlobBuilder::new(glob)
                .literal_separator(true)
                .build()
                .map_err(|source| GlobError { glob: glob.clone(), source })?;
            globs.push(compiled);
            rules.push((kind, glob.clone()));
        }
        let globs = Globs::new(&globs).map_err(|error| GlobError {
            glob: rules.get(error.index).map(|(_, glob)| glob.clone()).unwrap_or_default(),
            source: error.source,
        })?;
        let names = rules.iter().map(|(_, glob)| plain_last_name(glob)).collect();
        let allow_new_repositories = filesystem.allow_new_repositories;
        Ok(Self(Arc::new(Rules { globs, rules, names, allow_new_repositories })))
    }

    /// Whether there is no rule at all, so that nothing has to be looked for.
    pub fn is_empty(&self) -> bool {
        self.0.rules.is_empty()
    }

    /// The rule that decides about this very path, relative to a granted root, and its glob.
    ///
    /// `Deny` is stronger than `Protect`. What lies below a matching directory is decided with the
    /// directory: see [`CarveOuts::decide`].
    pub fn matching(&self, relative: &Path) -> Option<(CarveOut, &str)> {
        if let (Some(names), Some(name)) = (&self.0.names, relative.file_name())
            && !names.contains(name)
        {
            return None;
        }
        // What is denied comes first in the list, so the first match is the strongest.
        let index = self.0.globs.first(relative)?;
        self.0.rules.get(index).map(|(kind, glob)| (*kind, glob.as_str()))
    }

    /// Whether rules are about what is in a `.git` folder. Then a `.git` that is none, a file or a
    /// link, is about them too: git follows it to a folder of any name.
    pub fn guards_repositories(&self) -> bool {
        self.0.rules.iter().any(|(_, glob)| glob.split('/').any(|part| part == ".git"))
    }

    /// The rule that decides about this path or any folder above it.
    pub fn decide(&self, relative: &Path) -> Option<(CarveOut, &str)> {
        relative
            .ancestors()
            .filter(|path| !path.as_os_str().is_empty())
            .filter_map(|path| self.matching(path))
            .max_by_key(|(kind, _)| *kind)
    }

    /// Whether a repository that a run makes may keep its plain, hook-less configuration.
    pub fn allow_new_repositories(&self) -> bool {
        self.0.allow_new_repositories
    }
}

impl PartialEq for CarveOuts {
    fn eq(&self, other: &Self) -> bool {
        self.0.rules == other.0.rules
            && self.0.allow_new_repositories == other.0.allow_new_repositories
    }
}

/// The last component of a glob, when it is a name and not a pattern.
fn plain_last_name(glob: &str) -> Option<OsString> {
    let name = glob.rsplit('/').next()?;
    (!name.is_empty() && !name.contains(['*', '?', '[', ']', '{', '}', '\\'])).then(|| name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(protect: &[&str], deny: &[&str]) -> CarveOuts {
        let owned = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
        CarveOuts::new(&Filesystem {
            workspace: crate::profile::Access::Write,
            read: Vec::new(),
            write: Vec::new(),
            protect: owned(protect),
            deny: owned(deny),
            allow_new_repositories: false,
            tmp_mib: 1,
            scratch_home: true,
        })
        .expect("globs")
    }

    fn kind(rules: &CarveOuts, path: &str) -> Option<CarveOut> {
        rules.decide(Path::new(path)).map(|(kind, _)| kind)
    }

    #[test]
    fn a_glob_matches_at_any_depth_and_below_what_it_names() {
        let rules = rules(&["**/.git/hooks", "**/.git/config"], &["**/.env", "**/.ssh"]);
        for path in [".git/hooks", "a/b/.git/hooks/pre-commit", ".git/config"] {
            assert_eq!(kind(&rules, path), Some(CarveOut::Protect), "{path}");
        }
        for path in [".env", "a/.env", ".ssh/id", "a/.ssh/deep/er"] {
            assert_eq!(kind(&rules, path), Some(CarveOut::Deny), "{path}");
        }
        for path in ["env", ".envrc", "git/config", ".git/configs", "x.env", ".git"] {
            assert_eq!(kind(&rules, path), None, "{path}");
        }
    }

    #[test]
    fn deny_is_stronger_than_protect() {
        let rules = rules(&["**/secrets"], &["**/secrets/key"]);
        assert_eq!(kind(&rules, "secrets/key"), Some(CarveOut::Deny));
        assert_eq!(kind(&rules, "secrets/other"), Some(CarveOut::Protect));
    }

    #[test]
    fn a_star_does_not_cross_a_slash() {
        let rules = rules(&[], &["*.pem"]);
        assert_eq!(kind(&rules, "a.pem"), Some(CarveOut::Deny));
        assert_eq!(kind(&rules, "a/b.pem"), None);
    }
}
