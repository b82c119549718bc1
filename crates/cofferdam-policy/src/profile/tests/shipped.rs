//! What is shipped can be used, and grants no more than it says.

use std::path::Path;

use super::super::{
    Access, ApprovalWhen, BackendKind, Confinement, NetworkMode, Profiles, shipped,
};
use crate::{Dimension, Enforcement, Strength};

fn all() -> Profiles {
    Profiles::load(shipped()).expect("every shipped profile loads")
}

#[test]
fn every_shipped_profile_parses_and_resolves() {
    let all = all();
    let names: Vec<_> = all.names().collect();
    let expected = [
        "base",
        "container",
        "default",
        "gvisor",
        "host-guarded",
        "host-unconfined",
        "offline-strict",
        "uv",
    ];
    assert_eq!(names, expected);
}

#[test]
fn every_file_in_the_folder_is_shipped() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sandbox-profiles");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .expect("the folder of shipped profiles")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    files.sort();
    let names: Vec<_> = all().names().map(|name| format!("{name}.toml")).collect();
    assert_eq!(files, names);
}

#[test]
fn every_allowance_of_a_shipped_profile_has_a_why() {
    let all = all();
    for name in all.names() {
        let filesystem = &all.get(name).expect("a name of the set").filesystem;
        for grant in filesystem.read.iter().chain(&filesystem.write) {
            assert!(grant.why.split(' ').count() > 2, "{name}: {}", grant.path.display());
        }
    }
}

#[test]
fn no_shipped_profile_shows_accounts_homes_or_sockets() {
    let hidden = [
        "/etc/passwd",
        "/etc/shadow",
        "/etc/group",
        "/etc/hosts",
        "/etc/resolv.conf",
        "/etc/nsswitch.conf",
        "/etc/ssh",
        "/etc/ssl/private",
        "/etc/pki/tls/private",
        "/home/a",
        "/root/.ssh",
        "/var/run/docker.sock",
        "/run/docker.sock",
        "/opt/secret",
    ];
    let all = all();
    for name in all.names() {
        let filesystem = &all.get(name).expect("a name of the set").filesystem;
        for grant in filesystem.read.iter().chain(&filesystem.write) {
            for path in hidden {
                assert!(!Path::new(path).starts_with(&grant.path), "{name} shows {path}");
            }
        }
    }
}

#[test]
fn only_the_unconfined_profile_goes_without_a_sandbox_and_it_always_asks() {
    let all = all();
    for name in all.names() {
        let profile = all.get(name).expect("a name of the set");
        let unconfined = profile.host.confinement == Confinement::None
            || profile.network.mode == NetworkMode::Full
            || Dimension::ALL
                .into_iter()
                .any(|dimension| profile.require.get(dimension) == Strength::None);
        assert_eq!(unconfined, name == "host-unconfined", "{name}");
        if unconfined {
            assert_eq!(profile.backends, [BackendKind::Host]);
            assert_eq!(profile.approval.first().map(|rule| rule.when), Some(ApprovalWhen::Always));
        }
    }
}

#[test]
fn the_default_profile_writes_the_workspace_and_reaches_nothing() {
    let all = all();
    let profile = all.get("default").expect("the default profile");
    assert_eq!(profile.filesystem.workspace, Access::Write);
    assert_eq!(profile.filesystem.write, []);
    assert_eq!(profile.network.mode, NetworkMode::None);
    assert_eq!(
        profile.backends,
        [BackendKind::Bubblewrap, BackendKind::Container, BackendKind::Host]
    );
    let full = Enforcement::uniform(Strength::Full);
    assert_eq!(profile.require, Enforcement { limits: Strength::Partial, ..full });
    assert!(profile.filesystem.read.iter().any(|grant| grant.path == Path::new("/usr")));
}

#[test]
fn the_strict_profile_changes_nothing_and_takes_no_less_than_full() {
    let all = all();
    let profile = all.get("offline-strict").expect("the strict profile");
    assert_eq!(profile.filesystem.workspace, Access::Read);
    assert_eq!(profile.filesystem.write, []);
    assert_eq!(profile.require, Enforcement::uniform(Strength::Full));
}
