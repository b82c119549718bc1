//! What a profile takes from the one it extends, and in which order rules are read.

use std::time::Duration;

use super::{super::ApprovalWhen, file, printed, profiles};
use crate::{
    Strength,
    document::Origin,
    profile::{ApprovalRule, ProfileOrigin, ProfileSource, Profiles},
};

const PARENT: &str = r#"
description = "Parent."
backends = ["bubblewrap", "container"]
require = { files = "partial", limits = "none" }

[filesystem]
workspace = "write"
read = [{ path = "/usr", why = "programs" }, { path = "/lib", why = "libraries" }]

[environment]
pass = ["LANG"]
set = { A = "1", B = "1" }

[limits]
timeout = "10s"
memory_mib = 64
"#;

fn child(text: &str) -> Profiles {
    profiles(&[("parent", PARENT), ("child", &format!("extends = \"parent\"\n{text}"))])
        .unwrap_or_else(|error| panic!("{}", printed(&error)))
}

#[test]
fn a_key_replaces_the_same_key_and_leaves_its_neighbours() {
    let set = child("[require]\nlimits = \"full\"\n[limits]\nmemory_mib = 128");
    let profile = set.get("child").expect("the child");
    assert_eq!(profile.limits.memory_mib, 128);
    assert_eq!(profile.limits.timeout, Duration::from_secs(10));
    assert_eq!(profile.require.limits, Strength::Full);
    assert_eq!(profile.require.files, Strength::Partial);
    assert_eq!(profile.description, "Parent.");
}

#[test]
fn a_list_is_replaced_whole() {
    let set = child(
        "backends = [\"host\"]\n[filesystem]\nread = [{ path = \"/opt/x\", why = \"our tools\" }]",
    );
    let profile = set.get("child").expect("the child");
    let paths: Vec<_> = profile.filesystem.read.iter().map(|grant| grant.path.as_path()).collect();
    assert_eq!(paths, [std::path::Path::new("/opt/x")]);
    assert_eq!(profile.backends, [crate::BackendKind::Host]);
}

#[test]
fn an_empty_list_takes_every_grant_away() {
    let set = child("[filesystem]\nread = []");
    assert_eq!(set.get("child").expect("the child").filesystem.read, []);
}

#[test]
fn variables_are_joined_by_name_and_one_that_is_set_is_not_passed_on() {
    let set = child("[environment.set]\nB = \"2\"\nLANG = \"C\"");
    let environment = &set.get("child").expect("the child").environment;
    let set: Vec<_> =
        environment.set.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(set, [("A", "1"), ("B", "2"), ("LANG", "C")]);
    assert!(environment.pass.is_empty());
}

#[test]
fn the_parent_is_not_changed_by_its_child() {
    let alone = profiles(&[("parent", PARENT)]).expect("the parent alone");
    let set = child("[limits]\nmemory_mib = 1");
    assert_eq!(alone.loaded("parent").ok(), set.loaded("parent").ok());
}

#[test]
fn approval_rules_keep_the_order_of_the_file() {
    let set = profiles(&[(
        "ordered",
        r#"
            backends = ["host"]
            [approval]
            "uv_tool.*" = "always"
            "a" = "never"
            "*_tool.*" = "outside"
            "*" = "unsandboxed"
            "0" = "never"
        "#,
    )])
    .expect("a profile with rules");
    let rules = &set.get("ordered").expect("it").approval;
    let tools: Vec<_> = rules.iter().map(|rule| rule.tool.as_str()).collect();
    assert_eq!(tools, ["uv_tool.*", "a", "*_tool.*", "*", "0"]);
}

#[test]
fn a_profiles_own_approval_rules_are_read_before_the_inherited_ones() {
    let set = profiles(&[
        (
            "parent",
            "backends = [\"host\"]\n[approval]\n\"uv_tool.*\" = \"always\"\n\"*\" = \"never\"\n",
        ),
        ("child", "extends = \"parent\"\n[approval]\n\"b\" = \"always\"\n\"*\" = \"outside\"\n"),
    ])
    .expect("two profiles");
    let rule = |tool: &str, when| ApprovalRule { tool: tool.parse().expect(tool), when };
    assert_eq!(
        set.get("child").expect("the child").approval[..],
        [
            rule("b", ApprovalWhen::Always),
            rule("*", ApprovalWhen::Outside),
            rule("uv_tool.*", ApprovalWhen::Always),
        ]
    );
}

#[test]
fn without_a_rule_for_everything_an_unsandboxed_call_is_asked_about() {
    let set = profiles(&[("plain", "backends = [\"host\"]")]).expect("a profile");
    let last = set.get("plain").expect("it").approval.last().cloned();
    let tool = "*".parse().expect("a pattern");
    let rule = ApprovalRule { tool, when: ApprovalWhen::Unsandboxed };
    assert_eq!(last, Some(rule));
}

#[test]
fn each_value_knows_where_it_came_from() {
    let set = child("[limits]\nmemory_mib = 128\n[environment.set]\nB = \"2\"");
    let origins = &set.loaded("child").expect("the child").origins;
    let inherited = |line| Origin::Inherited { from: "parent".to_owned(), line };
    assert_eq!(origins["limits.memory_mib"], Origin::Line { line: 3 });
    assert_eq!(origins["limits.timeout"], inherited(15));
    assert_eq!(origins["filesystem.read"], inherited(8));
    assert_eq!(origins["environment.set.A"], inherited(12));
    assert_eq!(origins["environment.set.B"], Origin::Line { line: 5 });
    assert_eq!(origins["limits.pids"], Origin::Default);
    assert_eq!(origins["approval.\"*\""], Origin::Default);
}

#[test]
fn a_file_takes_the_place_of_a_shipped_profile_whatever_comes_first() {
    let shipped = ProfileSource {
        name: "base".to_owned(),
        text: "backends = [\"host\"]\ndescription = \"shipped\"".to_owned(),
        origin: ProfileOrigin::Shipped,
    };
    let own = file("base", "backends = [\"host\"]\ndescription = \"own\"");
    let heir = file("heir", "extends = \"base\"");
    for sources in [[shipped.clone(), own.clone(), heir.clone()], [heir, own.clone(), shipped]] {
        let set = Profiles::load(sources).expect("three sources");
        assert_eq!(set.get("heir").expect("the heir").description, "own");
        assert_eq!(set.loaded("base").expect("the base").origin, own.origin);
    }
}

#[test]
fn a_set_is_the_first_generation_unless_it_is_numbered_otherwise() {
    let first = profiles(&[("a", "backends = [\"host\"]")]).expect("a profile");
    assert_eq!(first.generation(), 1);
    let later = first.clone().numbered(7);
    assert_eq!(later.generation(), 7);
    assert_eq!(later.loaded("a").expect("it"), first.loaded("a").expect("it"));
}
