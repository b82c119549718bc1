//! What can be used when something else cannot, and all that is wrong with what cannot.

use super::{file, printed};
use crate::profile::{BrokenProfile, Profiles, shipped};

fn load_each(files: &[(&str, &str)]) -> (Profiles, Vec<BrokenProfile>) {
    Profiles::load_each(files.iter().map(|(name, text)| file(name, text)))
}

/// Everything that is wrong with one profile, as the command line prints it.
fn all_of(text: &str) -> String {
    let (_, broken) = load_each(&[("offline", text)]);
    let problems = &broken.first().expect("a broken profile").problems;
    problems.iter().map(printed).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_broken_file_takes_nothing_away_from_the_others() {
    let (profiles, broken) =
        load_each(&[("good", "backends = [\"host\"]"), ("bad", "backend = [\"host\"]")]);
    assert_eq!(profiles.names().collect::<Vec<_>>(), ["good"]);
    assert_eq!(broken.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["bad"]);
    assert!(Profiles::load([file("bad", "backend = [\"host\"]")]).is_err());
}

#[test]
fn all_that_is_wrong_with_the_form_is_told_at_once() {
    insta::assert_snapshot!(all_of(
        "backend = [\"host\"]\n[limits]\nmemory_mb = 1\npids = \"many\"\n[filesystem]\n\
         read = [{ path = \"/usr\" }, { path = 1, why = \"x\" }]\nworkspace = \"wirte\""
    ), @r#"
    error: failed to load profile `offline`
      caused by: unknown key `backend` at line 1
    hint: did you mean `backends`?
    error: failed to load profile `offline`
      caused by: unknown key `memory_mb` in `[limits]` at line 3
    hint: did you mean `memory_mib`?
    error: failed to load profile `offline`
      caused by: `pids` in `[limits]` at line 4 must be a whole number from 1 to 4194304, not the string `"many"`
    hint: for example `pids = 128`
    error: failed to load profile `offline`
      caused by: missing key `why` in entry 1 of `filesystem.read` at line 6
    hint: for example `why = "interpreters and libraries"`
    error: failed to load profile `offline`
      caused by: `path` in entry 2 of `filesystem.read` at line 6 must be a string, not `1`
    hint: for example `path = "/usr"`
    error: failed to load profile `offline`
      caused by: `workspace` in `[filesystem]` at line 7 must be `"read"` or `"write"`, not the string `"wirte"`
    hint: did you mean `"write"`?
    "#);
}

#[test]
fn all_that_is_wrong_with_the_meaning_is_told_at_once() {
    insta::assert_snapshot!(all_of(
        "backends = [\"host\", \"host\"]\n[filesystem]\nread = [{ path = \"usr\", why = \" \" }]\n\
         deny = [\"/etc\", \"**/.env\", \"[\"]\n[limits]\ntimeout = \"60\"\ngrace = \"2m\"\n\
         [container]\nuser = \"root\"\n[approval]\n\"[\" = \"never\""
    ), @r#"
    error: failed to load profile `offline`
      caused by: entry 2 of `backends` at line 1 names `host` a second time
    hint: the first place decides the order; remove the other
    error: failed to load profile `offline`
      caused by: `path` in entry 1 of `filesystem.read` at line 3 must be an absolute path, not `usr`
    hint: for example `path = "/usr"`
    error: failed to load profile `offline`
      caused by: `why` in entry 1 of `filesystem.read` at line 3 must not be empty
    hint: for example `why = "interpreters and libraries"`
    error: failed to load profile `offline`
      caused by: entry 1 of `deny` in `[filesystem]` at line 4 must be a glob below a granted root, without `/` at either end, not `/etc`
    hint: for example `deny = ["**/.env"]`
    error: failed to load profile `offline`
      caused by: entry 3 of `deny` in `[filesystem]` at line 4 must be a glob, not `[`: unclosed character class; missing ']'
    hint: for example `deny = ["**/.env"]`
    error: failed to load profile `offline`
      caused by: `timeout` in `[limits]` at line 6 must be a duration with its unit, not `60`
    hint: for example `timeout = "60s"`
    error: failed to load profile `offline`
      caused by: `grace` in `[limits]` at line 7 must be at most 60s, not `2m`
    hint: for example `grace = "100ms"`
    error: failed to load profile `offline`
      caused by: `user` in `[container]` at line 9 must be `uid:gid` in numbers, not `root`
    hint: for example `user = "65534:65534"`
    error: failed to load profile `offline`
      caused by: `[` in `[approval]` at line 11 must be a glob, not `[`: unclosed character class; missing ']'
    hint: for example `"uv_tool.*" = "always"`
    "#);
}

#[test]
fn a_child_of_a_broken_profile_says_so_and_the_reason_is_told_with_the_parent() {
    let files = [("child", "extends = \"parent\""), ("parent", "backends = 1")];
    let (_, broken) = load_each(&files);
    let child = broken.iter().find(|one| one.name == "child").expect("the child");
    insta::assert_snapshot!(printed(&child.problems[0]), @"
    error: failed to load profile `child`
      caused by: it extends `parent`, which cannot be read
    hint: put `parent` right first
    ");
    let first = Profiles::load(files.iter().map(|(name, text)| file(name, text)));
    insta::assert_snapshot!(printed(&first.expect_err("a broken parent")), @r#"
    error: failed to load profile `parent`
      caused by: `backends` at line 1 must be a list, not `1`
    hint: for example `backends = ["bubblewrap"]`
    "#);
}

#[test]
fn of_two_files_with_one_name_neither_is_used() {
    let sources = || {
        let mut other = file("mine", "backends = [\"container\"]");
        other.origin = crate::profile::ProfileOrigin::File("/srv/mine.toml".into());
        shipped().chain([file("mine", "backends = [\"host\"]"), other])
    };
    let (profiles, broken) = Profiles::load_each(sources());
    assert!(profiles.get("mine").is_err() && profiles.get("base").is_ok());
    assert_eq!(broken.len(), 1);
    assert!(Profiles::load(sources()).is_err());
}

#[test]
fn a_mistake_made_on_every_line_is_told_a_hundred_times_and_no_more() {
    let rule = |index: usize| format!("\"[{index}\" = \"always\"\n");
    let rules: String = (0..1000).map(rule).collect();
    let (_, broken) =
        load_each(&[("mine", &format!("backends = [\"host\"]\n[approval]\n{rules}"))]);
    assert_eq!(broken[0].problems.len(), crate::document::MOST_FAULTS);
    let keys: String = (0..1000).map(|index| format!("key{index} = 1\n")).collect();
    let (_, broken) = load_each(&[("mine", &keys)]);
    assert_eq!(broken[0].problems.len(), crate::document::MOST_FAULTS);
}

/// Of each kind of list that an admin may let a program write.
#[test]
fn a_hundred_thousand_rules_are_resolved_and_decide() {
    const MANY: usize = 100_000;
    let list = |line: &dyn Fn(usize) -> String| (0..MANY).map(line).collect::<String>();
    let rules = list(&|index| format!("\"tool_{index}.*\" = \"always\"\n"));
    let deny = list(&|index| format!("  \"**/secret_{index}\",\n"));
    let allow = list(&|index| format!("  \"host-{index}.example.org:443\",\n"));
    let text = format!(
        "backends = [\"host\"]\n[filesystem]\ndeny = [\n{deny}]\n[network]\nmode = \"allowlist\"\n\
         allow = [\n{allow}]\n[approval]\n{rules}\"*\" = \"never\"\n"
    );
    let profiles = Profiles::load([file("mine", &text)]).expect("a large profile");
    let profile = profiles.get("mine").expect("it");
    let last = MANY - 1;
    let explained =
        crate::explain::tool(&format!("tool_{last}.run"), profile, std::path::Path::new("/w"));
    assert_eq!(explained.rule, Some(last));
    let secret = profile.carve_outs.decide(std::path::Path::new("a/secret_77777/b"));
    assert_eq!(secret.map(|(_, glob)| glob), Some("**/secret_77777"));
    let host = crate::hosts::HostPort::parse(&format!("host-{last}.example.org:443"));
    assert_eq!(
        crate::explain::host(&host.expect("a host"), profile),
        crate::explain::HostExplanation::Listed { index: last }
    );
}
