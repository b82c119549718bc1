//! `cofferdam profile check`: everything that is wrong with files, before they are put in force.

use std::path::{Path, PathBuf};

use cofferdam_policy::{
    ProfileError,
    compare::{Change, Difference},
    document::MOST_FAULTS,
    profile::ProfileSource,
};
use serde_json::{Value, json};

use super::{in_one_line, plain};
use crate::{
    cli::Form,
    config::{Config, ConfigError, KnownProfiles, profile_file, widened},
    error::CommandError,
    exit::Exit,
    output,
};

/// What was found about one file.
enum Verdict {
    /// It cannot be read.
    Unreadable(ConfigError),
    /// It cannot be used.
    Wrong(Vec<ProfileError>),
    /// It can, and may allow more than the profile of that name by these values.
    Sound { extends: Option<String>, wider: Vec<Difference> },
}

pub(super) fn check(files: &[PathBuf], form: Form, config: &Config) -> Result<Exit, CommandError> {
    let read: Vec<_> = files.iter().map(|path| (path, profile_file(path))).collect();
    let sources: Vec<ProfileSource> =
        read.iter().filter_map(|(_, source)| source.as_ref().ok().cloned()).collect();
    let known = config.known_profiles(sources);
    let verdicts: Vec<_> = read
        .into_iter()
        .map(|(path, source)| match source {
            Ok(source) => (path, verdict(&known, &source)),
            Err(error) => (path, Verdict::Unreadable(error)),
        })
        .collect();
    let printed = if form.json {
        output::json(&verdicts.iter().map(|(path, verdict)| value(path, verdict)).collect())
    } else {
        verdicts.iter().try_for_each(|(path, verdict)| tell(path, verdict))
    };
    printed.map_err(CommandError::Output)?;
    let sound = verdicts.iter().all(|(_, verdict)| matches!(verdict, Verdict::Sound { .. }));
    Ok(if sound { Exit::Success } else { Exit::Failed })
}

fn verdict(known: &KnownProfiles, source: &ProfileSource) -> Verdict {
    match known.broken.iter().find(|broken| broken.name == source.name) {
        Some(broken) => Verdict::Wrong(broken.problems.clone()),
        None => match known.profiles.loaded(&source.name) {
            Ok(loaded) => Verdict::Sound {
                extends: loaded.extends.clone(),
                wider: widened(&known.profiles, loaded),
            },
            Err(error) => Verdict::Wrong(vec![error]),
        },
    }
}

fn tell(path: &Path, verdict: &Verdict) -> std::io::Result<()> {
    let file = plain(&path.to_string_lossy());
    match verdict {
        Verdict::Unreadable(error) => {
            output::error(error, error.hint().as_deref());
            output::result(&format!("{file}: cannot be read\n"))
        }
        Verdict::Wrong(problems) => {
            for problem in problems {
                output::error(problem, problem.hint().as_deref());
            }
            let count = match problems.len() {
                1 => "1 problem".to_owned(),
                count if count >= MOST_FAULTS => {
                    format!("{count} problems, perhaps more")
                }
                count => format!("{count} problems"),
            };
            output::result(&format!("{file}: {count}\n"))
        }
        Verdict::Sound { extends, wider } => {
            let mut text = format!("{file}: ok\n");
            for difference in wider {
                let parent = extends.as_deref().unwrap_or_default();
                text.push_str(&format!("note: {}\n", note(parent, difference)));
            }
            output::result(&text)
        }
    }
}

/// By what a profile may allow more.
fn note(parent: &str, difference: &Difference) -> String {
    let key = plain(&difference.key);
    let (before, after) = super::diff::sides(difference);
    match difference.change {
        Change::Unclear => {
            format!("`{key}` may be wider than in `{parent}`: {before} → {after}")
        }
        change => format!("`{key}` is {} than in `{parent}`: {before} → {after}", change.as_str()),
    }
}

fn value(path: &Path, verdict: &Verdict) -> Value {
    let (problems, wider) = match verdict {
        Verdict::Unreadable(error) => {
            (vec![json!({ "message": in_one_line(error), "hint": error.hint() })], vec![])
        }
        Verdict::Wrong(problems) => (problems.iter().map(problem).collect(), vec![]),
        Verdict::Sound { wider, .. } => {
            (vec![], wider.iter().map(super::diff::value).collect::<Vec<_>>())
        }
    };
    json!({
        "file": path.to_string_lossy(),
        "ok": problems.is_empty(),
        "problems": problems,
        "wider_than_extended": wider,
    })
}

fn problem(problem: &ProfileError) -> Value {
    json!({ "message": in_one_line(problem), "hint": problem.hint() })
}
