//! What is explained is what is decided.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;
use crate::profile::{ProfileOrigin, ProfileSource, Profiles};

fn profile(text: &str) -> Profile {
    let source = ProfileSource {
        name: "mine".to_owned(),
        text: text.to_owned(),
        origin: ProfileOrigin::Shipped,
    };
    Profiles::load([source]).expect(text).get("mine").expect("it").clone()
}

const RULES: &str = r#"
backends = ["bubblewrap", "host"]
[filesystem]
workspace = "write"
read = [{ path = "/usr", why = "programs" }, { path = "/srv", why = "data" }]
write = [{ path = "/srv/out", why = "results" }]
protect = ["**/.git/config", "**/secrets"]
deny = ["**/.env", "**/secrets/key"]
"#;

fn facts() -> PathFacts<'static> {
    PathFacts {
        workspace: Path::new("/w"),
        read_whitelist: &[],
        write_whitelist: &[],
        runtime: &[],
    }
}

#[test]
fn a_path_is_granted_by_the_first_of_workspace_folders_and_programs() {
    let (read, write) = ([PathBuf::from("/data")], [PathBuf::from("/data/out")]);
    let runtime = [PathBuf::from("/opt/python")];
    let facts =
        PathFacts { read_whitelist: &read, write_whitelist: &write, runtime: &runtime, ..facts() };
    let profile = profile(RULES);
    for (text, granted, access) in [
        ("/w", Some(PathRule::Workspace), PathAccess::Write),
        ("/w/a", Some(PathRule::Workspace), PathAccess::Write),
        ("/work", None, PathAccess::None),
        ("/srv/out/a", Some(PathRule::Write(0)), PathAccess::Write),
        ("/srv/output", Some(PathRule::Read(1)), PathAccess::Read),
        ("/data/out/a", Some(PathRule::WriteWhitelist(0)), PathAccess::Write),
        ("/data/a", Some(PathRule::ReadWhitelist(0)), PathAccess::Read),
        ("/usr/bin/env", Some(PathRule::Read(0)), PathAccess::Read),
        ("/opt/python/bin", Some(PathRule::Runtime(0)), PathAccess::Read),
        ("/tmp/a", Some(PathRule::Own), PathAccess::Write),
        ("/etc/shadow", None, PathAccess::None),
        ("/", None, PathAccess::None),
    ] {
        let explained = path(Path::new(text), &profile, &facts);
        assert_eq!((explained.granted, explained.access), (granted, access), "{text}");
        assert_eq!(explained.carved_out, None, "{text}");
    }
}

#[test]
fn a_read_only_workspace_is_read_only_also_below_a_writable_folder_in_it() {
    let text = "backends = [\"host\"]\n[filesystem]\nwrite = [{ path = \"/w/out\", why = \"x\" }]";
    let explained = path(Path::new("/w/out/a"), &profile(text), &facts());
    assert_eq!(explained.granted, Some(PathRule::Workspace));
    assert_eq!(explained.access, PathAccess::Read);
}

#[test]
fn a_carve_out_is_named_with_the_list_it_stands_in() {
    let profile = profile(RULES);
    let explain = |text: &str| path(Path::new(text), &profile, &facts());
    let carved = |text: &str| explain(text).carved_out.map(|rule| (rule.kind, rule.index));
    assert_eq!(carved("/w/a/.git/config"), Some((CarveOut::Protect, Some(0))));
    assert_eq!(carved("/w/secrets/other"), Some((CarveOut::Protect, Some(1))));
    assert_eq!(carved("/w/secrets/key"), Some((CarveOut::Deny, Some(1))));
    assert_eq!(carved("/srv/out/.env"), Some((CarveOut::Deny, Some(0))));
    assert_eq!(carved("/w/.tmp/quarantine/1/a"), Some((CarveOut::Deny, None)));
    assert_eq!(explain("/w/.git/config").access, PathAccess::Read);
    assert_eq!(explain("/w/.env").access, PathAccess::None);
    // Programs are not carved: only what code works on is.
    assert_eq!(carved("/usr/.env"), None);
}

#[test]
fn nothing_is_said_to_be_held_where_nothing_confines_a_run() {
    let unconfined = |backends: &str| {
        profile(&format!("backends = [{backends}]\n[host]\nconfinement = \"none\""))
    };
    let wanted = HostPort::parse("example.org:443").expect("a host");
    let only = unconfined("\"host\"");
    let explained = path(Path::new("/etc/shadow"), &only, &facts());
    assert_eq!(explained.granted, Some(PathRule::Unconfined));
    assert_eq!(explained.access, PathAccess::Write);
    assert_eq!(host(&wanted, &only), HostExplanation::Unconfined);
    let either = unconfined("\"bubblewrap\", \"host\"");
    assert_eq!(path(Path::new("/etc/shadow"), &either, &facts()).access, PathAccess::None);
    assert_eq!(host(&wanted, &either), HostExplanation::NoNetwork);
    assert!(is_unconfined(BackendKind::Host, &either));
}

#[test]
fn a_host_is_explained_by_the_mode_and_then_by_the_list() {
    let text = |mode: &str, deny_private: bool| {
        format!(
            "backends = [\"host\"]\n[network]\nmode = \"{mode}\"\ndeny_private = {deny_private}\n\
             allow = [\"example.org:443\", \"@python-index\", \"*.example.org:443\", \"10.0.0.1:80\"]"
        )
    };
    let explain = |mode: &str, deny_private: bool, wanted: &str| {
        host(&HostPort::parse(wanted).expect(wanted), &profile(&text(mode, deny_private)))
    };
    use HostExplanation::*;
    for (mode, deny_private, wanted, expected) in [
        ("none", true, "example.org:443", NoNetwork),
        ("full", true, "10.0.0.1:80", EveryHost),
        ("allowlist", true, "example.org:443", Listed { index: 0 }),
        ("allowlist", true, "a.example.org:443", Listed { index: 2 }),
        ("allowlist", true, "other.org:443", PerhapsInGroup { index: 1 }),
        ("allowlist", true, "10.0.0.1:80", Private { index: Some(3) }),
        ("allowlist", true, "10.0.0.2:80", Private { index: None }),
        ("allowlist", false, "10.0.0.1:80", Listed { index: 3 }),
    ] {
        assert_eq!(explain(mode, deny_private, wanted), expected, "{mode} {wanted}");
    }
    let plain = "backends = [\"host\"]\n[network]\nmode = \"allowlist\"";
    let wanted = HostPort::parse("example.org:443").expect("a host");
    assert_eq!(host(&wanted, &profile(plain)), NotListed);
}

fn word() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", ".env", ".git", "config", "secrets", "key"])
}

fn below() -> impl Strategy<Value = String> {
    prop::collection::vec(word(), 1..5).prop_map(|words| words.join("/"))
}

fn glob() -> impl Strategy<Value = String> {
    (any::<bool>(), prop::collection::vec(prop_oneof![word(), Just("*")], 1..3)).prop_map(
        |(anywhere, words)| format!("{}{}", if anywhere { "**/" } else { "" }, words.join("/")),
    )
}

fn approval() -> impl Strategy<Value = String> {
    let rule = (
        prop::sample::select(vec!["bash_*", "*.execute", "python_coding_tool.execute", "run"]),
        prop::sample::select(vec!["always", "unsandboxed"]),
    );
    prop::collection::btree_map(rule.0, rule.1, 0..4).prop_map(|rules| {
        let line = |(tool, when): (&str, &str)| format!("\"{tool}\" = \"{when}\"\n");
        rules.into_iter().map(line).collect()
    })
}

proptest! {
    /// For whichever backends work on a machine.
    #[test]
    fn what_is_explained_of_a_tool_is_what_authorize_decides(
        rules in approval(),
        backends in prop::sample::subsequence(vec!["bubblewrap", "container", "host"], 1..4)
            .prop_shuffle(),
        confinement in prop::sample::select(vec!["none", "landlock"]),
        name in prop::sample::select(vec!["bash_coding_tool.execute", "run", "other"]),
        usable in prop::sample::subsequence(
            vec![BackendKind::Bubblewrap, BackendKind::Container, BackendKind::Host], 0..4),
    ) {
        let profile = profile(&format!(
            "backends = {backends:?}\n[host]\nconfinement = \"{confinement}\"\n[approval]\n{rules}"
        ));
        let explained = tool(name, &profile, Path::new("/w"));
        let chosen = explained.backends.iter().find(|(kind, _)| usable.contains(kind));
        let (chosen, reason) = chosen.unwrap_or(&explained.backends[0]).clone();
        let plan = CommandPlan {
            tool: name.to_owned(),
            program: Program::Command(vec!["true".into()]),
            working_directory: "/w".into(),
            workspace: "/w".into(),
            runtime: vec![],
            runtime_path: vec![],
            runtime_environment: vec![],
            timeout: None,
            without_deadline: false,
            backend: None,
        };
        match authorize(plan, &profile, 1, &usable).expect("no refusal") {
            Decision::Granted(grant) => {
                prop_assert_eq!(reason, None);
                let unasked: Vec<_> = explained.backends.iter()
                    .filter(|(_, reason)| reason.is_none()).map(|(kind, _)| *kind).collect();
                prop_assert_eq!(grant.backends(), &unasked[..]);
            }
            Decision::NeedsApproval(pending) => {
                prop_assert_eq!(Some(pending.reason()), reason.as_ref());
                prop_assert_eq!(pending.backends(), [chosen]);
            }
        }
        let deciding = explained.rule.map(|index| &profile.approval[index]);
        prop_assert!(deciding.is_some_and(|rule| rule.tool.matches(name)));
    }

    #[test]
    fn what_is_explained_of_a_path_is_what_the_carve_outs_decide(
        protect in prop::collection::vec(glob(), 0..4),
        deny in prop::collection::vec(glob(), 0..4),
        relative in below(),
        write in any::<bool>(),
    ) {
        let access = if write { "write" } else { "read" };
        let profile = profile(&format!(
            "backends = [\"host\"]\n[filesystem]\nworkspace = \"{access}\"\n\
             protect = {protect:?}\ndeny = {deny:?}"
        ));
        let explained = path(&Path::new("/w").join(&relative), &profile, &facts());
        let decided = profile.carve_outs.decide(Path::new(&relative));
        let named = explained.carved_out.as_ref();
        prop_assert_eq!(named.map(|rule| (rule.kind, rule.glob.as_str())), decided);
        let expected = match (decided, write) {
            (Some((CarveOut::Deny, _)), _) => PathAccess::None,
            (Some((CarveOut::Protect, _)), _) | (None, false) => PathAccess::Read,
            (None, true) => PathAccess::Write,
        };
        prop_assert_eq!(explained.access, expected);
        if let Some(rule) = named {
            let list = if rule.kind == CarveOut::Deny { &deny } else { &protect };
            prop_assert_eq!(rule.index.map(|index| &list[index]), Some(&rule.glob));
        }
    }
}
