//! `cofferdam profile list`: what there is, and what cannot be used.

use cofferdam_policy::profile::LoadedProfile;
use cofferdam_protocol::admin::ServerStatus;
use serde_json::{Value, json};

use super::{
    answer, in_one_line,
    origin::{file, place},
    plain,
};
use crate::{
    cli::Form,
    config::{Config, KnownProfiles},
    error::CommandError,
    exit::Exit,
    owner,
};

pub(super) fn list(form: Form, config: &Config) -> Result<Exit, CommandError> {
    let known = config.known_profiles(Vec::new());
    // Where it cannot be told which servers run, none is known.
    let servers = owner::statuses().unwrap_or_default();
    let servers: Vec<_> =
        servers.into_iter().filter_map(|(server, status)| Some((server.pid, status?))).collect();
    answer(form, || value(config, &known, &servers), || text(config, &known) + &in_force(&servers))
}

/// What the owner's running servers have in force: they may have begun with other files.
fn in_force(servers: &[(u32, ServerStatus)]) -> String {
    let mut text = String::new();
    for (pid, status) in servers {
        text.push_str(&format!(
            "The server {pid} on {} has generation {}",
            plain(&status.workspace),
            status.generation
        ));
        match &status.reload_error {
            Some(error) => text.push_str(&format!(
                " and does not take the newest files: {}\n",
                plain(&error.replace('\n', ": "))
            )),
            None => text.push_str(".\n"),
        }
    }
    text
}

fn loaded(known: &KnownProfiles) -> impl Iterator<Item = &LoadedProfile> {
    known.profiles.names().filter_map(|name| known.profiles.loaded(name).ok())
}

fn backends(loaded: &LoadedProfile) -> Vec<&'static str> {
    loaded.profile.backends.iter().map(|kind| kind.as_str()).collect()
}

fn text(config: &Config, known: &KnownProfiles) -> String {
    let names = known.profiles.names().chain(known.broken.iter().map(|one| one.name.as_str()));
    let width = names.map(|name| plain(name).chars().count()).max().unwrap_or_default();
    let mut text = String::new();
    for loaded in loaded(known) {
        let profile = &loaded.profile;
        let extends = loaded.extends.as_ref();
        let extends = extends.map(|parent| format!(", extends {parent}")).unwrap_or_default();
        text.push_str(&format!(
            "{:width$}  {}\n{:width$}  {}{extends}; {}\n",
            profile.name,
            plain(&profile.description),
            "",
            place(&loaded.origin),
            backends(loaded).join(", "),
        ));
    }
    for broken in &known.broken {
        for problem in &broken.problems {
            let cause = std::error::Error::source(problem).map(in_one_line);
            let cause = cause.unwrap_or_else(|| in_one_line(problem));
            let name = plain(&broken.name);
            text.push_str(&format!("{name:width$}  cannot be used: {cause}\n"));
        }
        text.push_str(&format!("{:width$}  {}\n", "", place(&broken.origin)));
    }
    for error in &known.unreadable {
        text.push_str(&format!("{:width$}  cannot be read: {}\n", "", in_one_line(error)));
    }
    let default = &config.execution.default_profile;
    let there = if known.profiles.get(default).is_ok() { "" } else { ", which cannot be had" };
    text.push_str(&format!("\nCalls that name none get `{}`{there}.\n", plain(default)));
    if !(known.broken.is_empty() && known.unreadable.is_empty()) {
        text.push_str("A server does not start on these files, and one that runs keeps its last generation.\n");
    }
    text
}

fn value(config: &Config, known: &KnownProfiles, servers: &[(u32, ServerStatus)]) -> Value {
    let profiles = loaded(known).map(|loaded| {
        json!({
            "name": loaded.profile.name,
            "description": loaded.profile.description,
            "file": file(&loaded.origin),
            "extends": loaded.extends,
            "backends": backends(loaded),
        })
    });
    let broken = known.broken.iter().map(|broken| {
        let problems: Vec<_> = broken.problems.iter().map(|one| in_one_line(one)).collect();
        json!({ "name": broken.name, "file": file(&broken.origin), "problems": problems })
    });
    let unreadable: Vec<_> = known.unreadable.iter().map(|one| in_one_line(one)).collect();
    let servers = servers.iter().map(|(pid, status)| {
        json!({
            "server": pid,
            "workspace": status.workspace,
            "generation": status.generation,
            "reload_error": status.reload_error,
        })
    });
    json!({
        "generation": known.profiles.generation(),
        "servers": servers.collect::<Vec<_>>(),
        "default": config.execution.default_profile,
        "profiles": profiles.collect::<Vec<_>>(),
        "broken": broken.collect::<Vec<_>>(),
        "unreadable": unreadable,
    })
}
