//! `cofferdam profile explain`: which rule of which file decides, and why.

mod host;
mod path;
mod tool;

use std::path::{Path, PathBuf};

use cofferdam_fs::Workspace;
use cofferdam_policy::{BackendKind, Dimension, Strength, explain, profile::LoadedProfile};
use serde_json::json;

use super::{answer, origin::Origins};
use crate::{
    cli::ExplainArgs,
    config::{Config, KnownProfiles},
    error::CommandError,
    exit::Exit,
    settings,
};

/// What explanations look at.
struct Subject<'a> {
    config: &'a Config,
    loaded: &'a LoadedProfile,
    origins: Origins<'a>,
    /// Without links where it exists: what runs see.
    workspace: PathBuf,
}

impl Subject<'_> {
    /// A key of the configuration that is about the answer and not enforced yet, as a line.
    fn not_enforced(&self, keys: &[&str]) -> Option<String> {
        let not_armed = self.config.not_armed();
        let key = keys.iter().find(|key| not_armed.contains(key))?;
        Some(format!("note: `{key}` is configured and not enforced yet\n"))
    }

    /// What must be known beside an answer: that a backend may be used which does not hold it all.
    fn how_it_is_held(&self, dimension: Dimension) -> String {
        let profile = &self.loaded.profile;
        let unconfined = |kind: &BackendKind| explain::is_unconfined(*kind, profile);
        if profile.backends.iter().any(unconfined) && profile.backends.len() > 1 {
            let origin = self.origins.behind("host.confinement");
            return format!(
                "note: `host.confinement` = none{origin}: on `host` nothing confines a run\n"
            );
        }
        let (name, required) = (dimension.as_str(), profile.require.get(dimension));
        if required == Strength::Full || profile.backends.iter().all(unconfined) {
            return String::new();
        }
        let origin = self.origins.behind(&format!("require.{name}"));
        format!(
            "note: `require.{name}` = {}{origin}: a backend that does not hold all of this may be \
             used; each reply says what was held\n",
            required.as_str()
        )
    }

    /// How a rule is added to this profile.
    fn how_to_add(&self, what: &str) -> String {
        let name = &self.loaded.profile.name;
        match super::origin::file(&self.loaded.origin) {
            Some(file) => format!("hint: to grant it, add {what} in {}\n", super::plain(&file)),
            None => format!(
                "hint: to grant it, add {what} in a profile of your own; `cofferdam profile show {name}` prints \
                 one to begin with\n"
            ),
        }
    }
}

pub(super) fn explain(arguments: ExplainArgs, config: &Config) -> Result<Exit, CommandError> {
    let known = config.known_profiles(Vec::new());
    let subject = subject(&known, &arguments, config)?;
    let tool = tool::explain(&arguments.tool, &subject);
    let paths: Vec<_> = arguments.paths.iter().map(|path| path::explain(path, &subject)).collect();
    let hosts: Vec<_> = arguments.hosts.iter().map(|host| host::explain(host, &subject)).collect();
    let json = || {
        json!({
            "profile": subject.loaded.profile.name,
            "file": super::origin::file(&subject.loaded.origin),
            "generation": known.profiles.generation(),
            "workspace": subject.workspace.to_string_lossy(),
            "tool": tool.value(&subject),
            "paths": paths.iter().map(|path| path.value(&subject)).collect::<Vec<_>>(),
            "hosts": hosts.iter().map(|host| host.value(&subject)).collect::<Vec<_>>(),
        })
    };
    let text = || {
        let mut texts = vec![tool.text(&subject)];
        texts.extend(paths.iter().map(|path| path.text(&subject)));
        texts.extend(hosts.iter().map(|host| host.text(&subject)));
        texts.join("\n")
    };
    answer(arguments.form, json, text)
}

fn subject<'a>(
    known: &'a KnownProfiles,
    arguments: &ExplainArgs,
    config: &'a Config,
) -> Result<Subject<'a>, CommandError> {
    let loaded = known.loaded(&arguments.name)?;
    let workspace = match &arguments.workspace {
        Some(workspace) => settings::absolute(workspace)?,
        None => config.workspace.root.clone(),
    };
    // As a run would open it; one that cannot be opened is explained as it is spelled.
    let held = Workspace::open(&workspace, &[]).map(|held| held.path().to_owned());
    let workspace = held.unwrap_or(workspace);
    let origins = Origins::new(&known.profiles, loaded);
    Ok(Subject { config, loaded, origins, workspace })
}

/// A path for people.
fn shown(path: &Path) -> String {
    super::plain(&path.to_string_lossy())
}
