//! Any text as a profile: it is read or refused, and what is read can be printed, explained, compared
//! and read again as the same.

#![no_main]

use std::path::Path;

use cofferdam_policy::{
    Profiles,
    compare::compare,
    document::{MOST_FAULTS, print},
    explain,
    hosts::HostPort,
    profile::{ProfileOrigin, ProfileSource, shipped},
};
use libfuzzer_sys::fuzz_target;

fn source(text: &str) -> ProfileSource {
    ProfileSource {
        name: "any".to_owned(),
        text: text.to_owned(),
        origin: ProfileOrigin::File("/any.toml".into()),
    }
}

fuzz_target!(|text: &str| {
    // The one profile that others extend, so that `extends` leads somewhere; else left out, for speed.
    let extends = text.contains("extends");
    let base = || shipped().filter(|source| extends && source.name == "base");
    let (profiles, broken) = Profiles::load_each(base().chain([source(text)]));
    let strict = Profiles::load(base().chain([source(text)]));
    assert_eq!(strict.is_ok(), broken.is_empty());
    for broken in &broken {
        assert!(!broken.problems.is_empty() && broken.problems.len() <= MOST_FAULTS);
        for problem in &broken.problems {
            let cause = std::error::Error::source(problem).map(ToString::to_string);
            assert!(cause.is_some_and(|cause| !cause.chars().any(char::is_control)));
            let _ = problem.hint();
        }
    }
    let Ok(loaded) = profiles.loaded("any") else { return };
    let profile = &loaded.profile;
    let printed = print(&profile.entries(), |key| Some(key.to_owned()));
    let again = Profiles::load([source(&printed)]).expect("what is printed can be loaded");
    assert_eq!(again.get("any").expect("it"), profile);
    assert!(compare(profile, profile).is_empty());
    if let Ok(base) = profiles.get("base") {
        for difference in compare(base, profile) {
            assert!(difference.before != difference.after);
        }
    }
    let facts = explain::PathFacts {
        workspace: Path::new("/w"),
        read_whitelist: &[],
        write_whitelist: &[],
        runtime: &[],
    };
    for path in ["/w", "/w/.git/config", "/w/a/.env", "/usr/bin/env", "/"] {
        let _ = explain::path(Path::new(path), profile, &facts);
    }
    for host in ["example.org:443", "127.0.0.1:80"] {
        let _ = explain::host(&HostPort::parse(host).expect("a host"), profile);
    }
    for tool in ["run", "python_coding_tool.execute"] {
        let explained = explain::tool(tool, profile, Path::new("/w"));
        assert!(!explained.backends.is_empty() && explained.rule.is_some());
    }
});
