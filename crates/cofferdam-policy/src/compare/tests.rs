//! Claims about which of two profiles allows more.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::{
    explain::{self, HostExplanation, PathAccess, PathFacts},
    hosts::HostPort,
    profile::{ProfileOrigin, ProfileSource, Profiles, shipped},
};

fn source(name: &str, text: &str) -> ProfileSource {
    ProfileSource { name: name.to_owned(), text: text.to_owned(), origin: ProfileOrigin::Shipped }
}

fn profile(text: &str) -> Profile {
    let text = format!("backends = [\"bubblewrap\", \"container\"]\n{text}");
    Profiles::load([source("mine", &text)]).expect(&text).get("mine").expect("it").clone()
}

/// The one change between two profiles that differ in one key.
#[track_caller]
fn change(before: &str, after: &str) -> (String, Change) {
    let differences = compare(&profile(before), &profile(after));
    let [Difference { key, change, .. }] = differences.as_slice() else {
        panic!("{differences:?}")
    };
    (key.clone(), *change)
}

#[test]
fn what_each_key_allows_is_told_in_both_directions() {
    let table = [
        ("[require]\nfiles = \"full\"", "[require]\nfiles = \"none\""),
        ("[filesystem]\nworkspace = \"read\"", "[filesystem]\nworkspace = \"write\""),
        ("", "[filesystem]\nread = [{ path = \"/usr\", why = \"x\" }]"),
        ("", "[filesystem]\nwrite = [{ path = \"/srv\", why = \"x\" }]"),
        ("[filesystem]\nprotect = [\"a\"]", ""),
        ("[filesystem]\ndeny = [\"a\", \"b\"]", "[filesystem]\ndeny = [\"b\"]"),
        ("", "[filesystem]\nallow_new_repositories = true"),
        ("", "[filesystem]\ntmp_mib = 257"),
        ("[filesystem]\nscratch_home = false", ""),
        ("[network]\nmode = \"none\"", "[network]\nmode = \"allowlist\""),
        ("[network]\nmode = \"allowlist\"", "[network]\nmode = \"full\""),
        ("", "[network]\nallow = [\"a.example:443\"]"),
        ("[network]\nallow = [\"a.example:443\"]", "[network]\nallow = [\"*.example:443\"]"),
        ("", "[network]\ndeny_private = false"),
        ("", "[environment]\npass = [\"LANG\"]"),
        ("", "[limits]\ntimeout = \"61s\""),
        ("", "[limits]\ntimeout_max = \"1h\""),
        ("", "[limits]\ngrace = \"1s\""),
        ("", "[limits]\nmemory_mib = 1025"),
        ("", "[limits]\npids = 129"),
        ("", "[limits]\ncpus = 1.5"),
        ("", "[limits]\nfile_size_mib = 513"),
        ("", "[limits]\nopen_files = 513"),
        ("", "[limits]\noutput_kib = 65"),
        ("", "[limits]\noutput_file_mib = 65"),
        ("", "[limits]\ndisk_mib = 1025"),
        ("", "[host]\nconfinement = \"none\""),
        ("[uv]\nsubcommands = [\"run\"]", "[uv]\nsubcommands = [\"add\", \"run\"]"),
        ("[approval]\n\"*\" = \"always\"", "[approval]\n\"*\" = \"outside\""),
        ("[approval]\n\"*\" = \"outside\"", ""),
        ("", "[approval]\n\"*\" = \"never\""),
        ("[approval]\n\"a\" = \"always\"", ""),
    ];
    for (narrow, wide) in table {
        let (key, there) = change(narrow, wide);
        assert_eq!(there, Change::Wider, "{key}: {narrow} → {wide}");
        assert_eq!(change(wide, narrow).1, Change::Tighter, "{key}: {wide} → {narrow}");
    }
}

#[test]
fn what_cannot_be_ordered_is_unclear_and_what_grants_nothing_is_neutral() {
    for (before, after, expected) in [
        ("[container]\nimage = \"a\"", "[container]\nimage = \"b\"", Change::Unclear),
        ("[container]\nruntime = \"runc\"", "[container]\nruntime = \"runsc\"", Change::Unclear),
        (
            "[host]\nconfinement = \"landlock\"",
            "[host]\nconfinement = \"birdcage\"",
            Change::Unclear,
        ),
        ("", "[python]\ninterpreter = \"/opt/python3\"", Change::Unclear),
        // One name could be matched by both.
        (
            "[approval]\n\"a*\" = \"always\"\n\"*\" = \"never\"",
            "[approval]\n\"*b\" = \"never\"\n\"a*\" = \"always\"\n\"*\" = \"never\"",
            Change::Unclear,
        ),
        ("description = \"a\"", "description = \"b\"", Change::Neutral),
        ("", "[environment.set]\nA = \"1\"", Change::Neutral),
        ("[environment.set]\nA = \"1\"", "", Change::Neutral),
        ("", "[pool]\nwarm = 0", Change::Neutral),
        (
            "[filesystem]\nread = [{ path = \"/usr\", why = \"a\" }]",
            "[filesystem]\nread = [{ path = \"/usr\", why = \"b\" }]",
            Change::Neutral,
        ),
        (
            "[filesystem]\nread = [{ path = \"/usr\", why = \"a\" }]",
            "[filesystem]\nread = [{ path = \"/opt\", why = \"a\" }]",
            Change::Both,
        ),
        // A folder below a granted one is granted already.
        (
            "[filesystem]\nread = [{ path = \"/usr\", why = \"a\" }]",
            "[filesystem]\nread = [{ path = \"/usr/lib\", why = \"a\" }]",
            Change::Tighter,
        ),
    ] {
        assert_eq!(change(before, after).1, expected, "{before} → {after}");
    }
}

#[test]
fn another_order_of_backends_is_unclear() {
    let of = |text: &str| Profiles::load([source("mine", text)]).expect(text);
    let (one, other) =
        (of("backends = [\"bubblewrap\", \"host\"]"), of("backends = [\"host\", \"bubblewrap\"]"));
    let differences = compare(one.get("mine").expect("it"), other.get("mine").expect("it"));
    assert_eq!(differences[0].change, Change::Unclear);
}

#[test]
fn a_profile_does_not_differ_from_itself() {
    let all = Profiles::load(shipped()).expect("what is shipped");
    for name in all.names() {
        let profile = all.get(name).expect("a name of the set");
        assert_eq!(compare(profile, profile), []);
    }
}

#[test]
fn the_entries_that_a_list_got_and_lost_are_told() {
    let differences = compare(
        &profile("[network]\nallow = [\"a.example:1\", \"b.example:1\"]"),
        &profile("[network]\nallow = [\"c.example:1\", \"b.example:1\"]"),
    );
    let (added, removed) = differences[0].entries().expect("lists");
    assert_eq!((added, removed), (vec![&json!("c.example:1")], vec![&json!("a.example:1")]));
}

/// One table of a profile, with values of which some allow more than others.
fn area() -> impl Strategy<Value = (&'static str, String)> {
    let some = |all: &[&'static str]| {
        let all = all.to_vec();
        let many = 0..=all.len();
        prop::sample::subsequence(all, many).prop_shuffle()
    };
    let one = |all: &[&'static str]| prop::sample::select(all.to_vec());
    let grants = |paths: Vec<&str>| {
        let grants = paths.iter().map(|path| format!("{{ path = \"{path}\", why = \"x\" }}"));
        grants.collect::<Vec<_>>().join(", ")
    };
    let folders = ["/srv/a", "/srv/a/b", "/srv/c", "/usr"];
    let filesystem = (
        one(&["read", "write"]),
        some(&folders),
        some(&folders),
        some(&["**/.env", "*.pem", "a", "a/b"]),
        some(&["**/.env", "*.pem", "a", "a/b"]),
    )
        .prop_map(move |(workspace, read, write, protect, deny)| {
            let text = format!(
                "workspace = \"{workspace}\"\nread = [{}]\nwrite = [{}]\nprotect = {protect:?}\n\
                 deny = {deny:?}",
                grants(read),
                grants(write),
            );
            ("filesystem", text)
        });
    let network = (
        one(&["none", "allowlist", "full"]),
        some(&[
            "example.org:443",
            "*.example.org:443",
            "a.example.org:443",
            "10.0.0.1:80",
            "@python-index",
        ]),
        any::<bool>(),
    )
        .prop_map(|(mode, allow, deny_private)| {
            let text =
                format!("mode = \"{mode}\"\nallow = {allow:?}\ndeny_private = {deny_private}");
            ("network", text)
        });
    let approval = prop::collection::vec(
        (
            one(&["*", "a*", "*b", "ab", "b?", "?b"]),
            one(&["never", "unsandboxed", "outside", "always"]),
        ),
        0..5,
    )
    .prop_map(|rules| {
        let mut text = String::new();
        for (index, (tool, when)) in rules.iter().enumerate() {
            if !rules[..index].iter().any(|(other, _)| other == tool) {
                text.push_str(&format!("\"{tool}\" = \"{when}\"\n"));
            }
        }
        ("approval", text)
    });
    let limits = (1u32..4, 1u32..4)
        .prop_map(|(pids, cpus)| ("limits", format!("pids = {pids}\ncpus = {cpus}")));
    let require = (one(&["none", "partial", "full"]), one(&["none", "partial", "full"])).prop_map(
        |(files, limits)| ("require", format!("files = \"{files}\"\nlimits = \"{limits}\"")),
    );
    prop_oneof![filesystem, network, approval, limits, require]
}

/// Everything that can be asked of a profile, as numbers of which the greater allows more.
fn allowances(profile: &Profile) -> Vec<u64> {
    let facts = PathFacts {
        workspace: Path::new("/w"),
        read_whitelist: &[],
        write_whitelist: &[],
        runtime: &[],
    };
    let paths = [
        "/w",
        "/w/a",
        "/w/a/b",
        "/w/a/c",
        "/w/.env",
        "/w/x/.env",
        "/w/k.pem",
        "/srv/a",
        "/srv/a/x",
        "/srv/a/b/x",
        "/srv/c",
        "/usr/bin",
        "/etc",
    ];
    let mut allowed: Vec<u64> = paths
        .iter()
        .map(|path| match explain::path(Path::new(path), profile, &facts).access {
            PathAccess::None => 0,
            PathAccess::Read => 1,
            PathAccess::Write => 2,
        })
        .collect();
    let hosts = [
        "example.org:443",
        "a.example.org:443",
        "b.a.example.org:443",
        "other.org:443",
        "10.0.0.1:80",
        "10.0.0.2:80",
    ];
    allowed.extend(hosts.iter().map(|host| {
        match explain::host(&HostPort::parse(host).expect(host), profile) {
            HostExplanation::NoNetwork
            | HostExplanation::NotListed
            | HostExplanation::Private { .. } => 0,
            HostExplanation::PerhapsInGroup { .. } => 1,
            HostExplanation::Listed { .. } => 2,
            HostExplanation::EveryHost | HostExplanation::Unconfined => 3,
        }
    }));
    allowed.extend(["a", "b", "ab", "bb", "abb", "c"].iter().map(|tool| {
        let rule = explain::tool(tool, profile, Path::new("/w")).rule.expect("a rule");
        u64::from(3 - strictness(profile.approval[rule].when))
    }));
    allowed.extend(Dimension::ALL.map(|dimension| 2 - profile.require.get(dimension) as u64));
    allowed.extend([profile.limits.pids, profile.limits.cpus as u64]);
    allowed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// `extends` cannot widen silently: whatever a child allows and its parent does not is noted, and
    /// nothing is called tighter that allows more.
    #[test]
    fn a_child_that_allows_more_than_its_parent_is_noted(
        (table, before) in area(), (other, after) in area(),
    ) {
        let parent = format!("backends = [\"bubblewrap\"]\n[{table}]\n{before}");
        let child = format!("extends = \"parent\"\n[{other}]\n{after}");
        let set = Profiles::load([source("parent", &parent), source("child", &child)])
            .expect("two profiles");
        let (parent, child) = (set.get("parent").expect("it"), set.get("child").expect("it"));
        let (was, is) = (allowances(parent), allowances(child));
        let more = was.iter().zip(&is).any(|(was, is)| is > was);
        let less = was.iter().zip(&is).any(|(was, is)| is < was);
        let notes = widened(parent, child);
        prop_assert!(!more || !notes.is_empty(), "{parent:?} {child:?}");
        let differences = compare(parent, child);
        let all = |change| !differences.is_empty()
            && differences.iter().all(|difference| difference.change == change);
        prop_assert!(!(more && all(Change::Tighter)), "{differences:?}");
        prop_assert!(!(less && all(Change::Wider)), "{differences:?}");
    }
}
