//! `cofferdam profile check`

use crate::support::World;

#[test]
fn everything_that_is_wrong_with_every_file_is_told() {
    let world = World::new();
    world.write("work/offline.toml", "extends = \"base\"\n[limits]\nmemory_mb = 1\npids = 0");
    world.write("work/time.toml", "extends = \"base\"\n[limits]\ntimeout = \"60\"\ngrace = \"2m\"");
    world.write("work/good.toml", "extends = \"base\"");
    let checked =
        world.run(&["profile", "check", "offline.toml", "time.toml", "good.toml", "none.toml"]);
    insta::assert_snapshot!(checked.all(), @r#"
    exit code 1
    offline.toml: 2 problems
    time.toml: 2 problems
    good.toml: ok
    none.toml: cannot be read
    ---
    error: failed to load profile `offline`
      caused by: unknown key `memory_mb` in `[limits]` at line 3
    hint: did you mean `memory_mib`?
    error: failed to load profile `offline`
      caused by: `pids` in `[limits]` at line 4 must be a whole number from 1 to 4194304, not `0`
    hint: for example `pids = 128`
    error: failed to load profile `time`
      caused by: `timeout` in `[limits]` at line 3 must be a duration with its unit, not `60`
    hint: for example `timeout = "60s"`
    error: failed to load profile `time`
      caused by: `grace` in `[limits]` at line 4 must be at most 60s, not `2m`
    hint: for example `grace = "100ms"`
    error: reading the profile `none.toml`
      caused by: No such file or directory (os error 2)
    "#);
}

#[test]
fn a_sound_file_is_ok_and_exits_with_zero() {
    let world = World::new();
    world.write("work/mine.toml", "extends = \"base\"\n[limits]\npids = 8");
    assert_eq!(world.run(&["profile", "check", "mine.toml"]).text(), "mine.toml: ok\n");
}

#[test]
fn by_what_a_profile_is_wider_than_the_one_it_extends_is_noted_and_no_error() {
    let world = World::new();
    world.write(
        "work/mine.toml",
        "extends = \"base\"\nrequire = { files = \"partial\" }\n[filesystem]\nworkspace = \"write\"\n\
         deny = []\n[limits]\npids = 8\nmemory_mib = 4096\n[python]\ninterpreter = \"/opt/python3\"\n\
         [approval]\n\"*\" = \"never\"",
    );
    insta::assert_snapshot!(world.run(&["profile", "check", "mine.toml"]).text(), @r#"
    mine.toml: ok
    note: `require.files` is wider than in `base`: "full" → "partial"
    note: `filesystem.workspace` is wider than in `base`: "read" → "write"
    note: `filesystem.deny` is wider than in `base`: ["**/.env", "**/.ssh"] → []
    note: `limits.memory_mib` is wider than in `base`: 1024 → 4096
    note: `python.interpreter` may be wider than in `base`: "auto" → "/opt/python3"
    note: `approval` is wider than in `base`: [{ "*" = "unsandboxed" }] → [{ "*" = "never" }]
    "#);
    let json = world.run(&["profile", "check", "mine.toml", "--json"]).json();
    assert_eq!(json[0]["ok"], true);
    let keys: Vec<_> = json[0]["wider_than_extended"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["key"].as_str())
        .collect();
    let expected = [
        "require.files",
        "filesystem.workspace",
        "filesystem.deny",
        "limits.memory_mib",
        "python.interpreter",
        "approval",
    ];
    assert_eq!(keys, expected);
}

#[test]
fn files_that_extend_each_other_are_checked_together_and_before_those_in_force() {
    let world = World::with("", &[("parent", "backends = [\"host\"]\nextends = \"base\"")]);
    world.write("work/new/child.toml", "extends = \"parent\"");
    world.write("work/new/parent.toml", "backends = [\"host\"]");
    let alone = world.run(&["profile", "check", "new/child.toml"]);
    assert!(alone.stderr.contains("it extends `parent`, which extends `base` itself"), "{alone:?}");
    assert_eq!(alone.code, 1);
    let both = world.run(&["profile", "check", "new/child.toml", "new/parent.toml"]);
    assert_eq!(both.text(), "new/child.toml: ok\nnew/parent.toml: ok\n");
}

#[test]
fn a_file_that_is_in_force_already_is_not_taken_for_a_second_one() {
    let world = World::with("", &[("mine", "extends = \"base\"")]);
    let file = "sandbox-profiles/mine.toml";
    assert_eq!(world.run(&["profile", "check", file]).text(), format!("{file}: ok\n"));
}

#[test]
fn two_files_of_one_name_cannot_both_be_used() {
    let world = World::new();
    world.write("work/a/mine.toml", "extends = \"base\"");
    world.write("work/b/mine.toml", "extends = \"base\"");
    let checked = world.run(&["profile", "check", "a/mine.toml", "b/mine.toml"]);
    assert_eq!(checked.code, 1);
    assert!(checked.stderr.contains("two files define it: `a/mine.toml` and `b/mine.toml`"));
}

#[test]
fn a_file_whose_name_no_profile_can_have_is_refused() {
    let world = World::new();
    world.write("work/My Profile.toml", "extends = \"base\"");
    insta::assert_snapshot!(world.run(&["profile", "check", "My Profile.toml"]).all(), @"
    exit code 1
    My Profile.toml: 1 problem
    ---
    error: failed to load profile `My Profile`
      caused by: `My Profile` cannot be the name of a profile
    hint: use lower-case letters, digits, `-` and `_`, at most 64, a letter or digit first
    ");
}

#[test]
fn json_names_every_problem_with_its_hint() {
    let world = World::new();
    world.write("work/offline.toml", "extends = \"bsae\"\n[limits]\nmemory_mb = 1\npids = 0");
    let mut check = world.cofferdam(&["profile", "check", "--json", "offline.toml"]);
    let checked = world.finish(&mut check);
    assert_eq!((checked.code, checked.stderr.as_str()), (1, ""));
    insta::assert_snapshot!(checked.stdout, @r#"[{"file":"offline.toml","ok":false,"problems":[{"message":"failed to load profile `offline`: unknown key `memory_mb` in `[limits]` at line 3","hint":"did you mean `memory_mib`?"},{"message":"failed to load profile `offline`: `pids` in `[limits]` at line 4 must be a whole number from 1 to 4194304, not `0`","hint":"for example `pids = 128`"}],"wider_than_extended":[]}]"#);
}

#[test]
fn no_file_at_all_is_a_usage_error() {
    assert_eq!(World::new().run(&["profile", "check"]).code, 2);
}

/// A server says it too: nobody may have checked the file.
#[test]
fn by_what_a_profile_is_wider_is_logged_when_it_is_put_in_force() {
    let world = World::new();
    world.write("etc/cofferdam.toml", "");
    world.write(
        "etc/sandbox-profiles/mine.toml",
        "extends = \"base\"\n[network]\nmode = \"full\"\n[limits]\npids = 1000",
    );
    let arguments = ["--config", "../etc/cofferdam.toml", "-v", "call", "-w", "../work"];
    let call = ["executor.get_attribute_payload", "{\"name\": \"limits\"}"];
    let all: Vec<_> = arguments.iter().chain(&call).copied().collect();
    let called = world.run(&all);
    assert_eq!(called.code, 0, "{called:?}");
    let line = called.stderr.lines().find(|line| line.contains("may allow more"));
    let line = line.unwrap_or_else(|| panic!("{called:?}"));
    for part in ["mine", "base", "network.mode, limits.pids"] {
        assert!(line.contains(part), "{line}");
    }
    // What is built in is what it says; only an admin's own file can surprise an admin.
    assert!(!called.stderr.contains("profile=\"uv\""), "{called:?}");
}
