//! What a file of the wrong form is answered, word for word.

use super::{file, printed, profiles, refusal, with};
use crate::profile::{Profiles, shipped};

const HEAD: &str = "backends = [\"host\"]\n";

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest_known_key() {
    insta::assert_snapshot!(
        with("\n\n[limits]\npids = 3\n\n\nmemory_mb = 12"),
        @"
    error: failed to load profile `offline`
      caused by: unknown key `memory_mb` in `[limits]` at line 8
    hint: did you mean `memory_mib`?
    "
    );
}

#[test]
fn an_unknown_key_that_is_near_nothing_lists_what_is_known() {
    insta::assert_snapshot!(with("[host]\ncolour = 1"), @"
    error: failed to load profile `offline`
      caused by: unknown key `colour` in `[host]` at line 3
    hint: known here: `confinement`
    ");
}

#[test]
fn a_key_in_the_wrong_table_is_shown_the_right_one() {
    insta::assert_snapshot!(with("[network]\nmemory_mib = 12"), @"
    error: failed to load profile `offline`
      caused by: unknown key `memory_mib` in `[network]` at line 3
    hint: `memory_mib` belongs in `[limits]`
    ");
    insta::assert_snapshot!(with("timeout = \"3s\""), @"
    error: failed to load profile `offline`
      caused by: unknown key `timeout` at line 2
    hint: `timeout` belongs in `[limits]`
    ");
    insta::assert_snapshot!(with("[limits]\ndescription = \"x\""), @"
    error: failed to load profile `offline`
      caused by: unknown key `description` in `[limits]` at line 3
    hint: `description` belongs at the top of the file, before the first `[table]`
    ");
}

#[test]
fn an_unknown_key_of_a_grant_names_the_grant() {
    insta::assert_snapshot!(
        with("[filesystem]\nread = [\n  { path = \"/usr\", why = \"x\" },\n  { path = \"/lib\", because = \"x\" },\n]"),
        @"
    error: failed to load profile `offline`
      caused by: unknown key `because` in entry 2 of `filesystem.read` at line 5
    hint: known here: `path`, `why`
    "
    );
}

#[test]
fn a_grant_without_a_why_is_refused() {
    insta::assert_snapshot!(with("[filesystem]\nwrite = [{ path = \"/srv/x\" }]"), @r#"
    error: failed to load profile `offline`
      caused by: missing key `why` in entry 1 of `filesystem.write` at line 3
    hint: for example `why = "interpreters and libraries"`
    "#);
    insta::assert_snapshot!(
        with("[filesystem]\nwrite = [{ path = \"/srv/x\", why = \" \" }]"),
        @r#"
    error: failed to load profile `offline`
      caused by: `why` in entry 1 of `filesystem.write` at line 3 must not be empty
    hint: for example `why = "interpreters and libraries"`
    "#
    );
    insta::assert_snapshot!(with("[filesystem]\nread = [\"/usr\"]"), @r#"
    error: failed to load profile `offline`
      caused by: entry 1 of `read` in `[filesystem]` at line 3 must be a table, not the string `"/usr"`
    hint: for example `read = [{ path = "/usr", why = "interpreters and libraries" }]`
    "#);
}

#[test]
fn a_wrong_type_names_the_key_the_line_what_was_expected_and_an_example() {
    insta::assert_snapshot!(with("[limits]\nmemory_mib = \"1 GiB\""), @r#"
    error: failed to load profile `offline`
      caused by: `memory_mib` in `[limits]` at line 3 must be a whole number from 1 to 16777216, not the string `"1 GiB"`
    hint: for example `memory_mib = 1024`
    "#);
    insta::assert_snapshot!(with("[limits]\ntimeout = 60"), @r#"
    error: failed to load profile `offline`
      caused by: `timeout` in `[limits]` at line 3 must be a string, not `60`
    hint: for example `timeout = "60s"`
    "#);
    insta::assert_snapshot!(with("[limits]\ncpus = true"), @"
    error: failed to load profile `offline`
      caused by: `cpus` in `[limits]` at line 3 must be a number from 0.01 to 4096, not `true`
    hint: for example `cpus = 1.0`
    ");
    insta::assert_snapshot!(with("[filesystem]\nscratch_home = \"yes\""), @r#"
    error: failed to load profile `offline`
      caused by: `scratch_home` in `[filesystem]` at line 3 must be `true` or `false`, not the string `"yes"`
    "#);
    insta::assert_snapshot!(with("limits = 3"), @"
    error: failed to load profile `offline`
      caused by: `limits` at line 2 must be a table, not `3`
    ");
    insta::assert_snapshot!(with("[filesystem]\ndeny = \"**/.env\""), @r#"
    error: failed to load profile `offline`
      caused by: `deny` in `[filesystem]` at line 3 must be a list, not the string `"**/.env"`
    hint: for example `deny = ["**/.env"]`
    "#);
    insta::assert_snapshot!(with("[environment]\nset = { A = 1 }"), @r#"
    error: failed to load profile `offline`
      caused by: `A` in `[environment.set]` at line 3 must be a string, not `1`
    hint: for example `A = "1"`
    "#);
    insta::assert_snapshot!(with("description = 2026-01-01"), @r#"
    error: failed to load profile `offline`
      caused by: `description` at line 2 must be a string, not a date
    hint: for example `description = "Run code on the workspace, with no way out."`
    "#);
}

#[test]
fn a_number_out_of_bounds_is_told_the_bounds() {
    insta::assert_snapshot!(with("[limits]\npids = 0"), @"
    error: failed to load profile `offline`
      caused by: `pids` in `[limits]` at line 3 must be a whole number from 1 to 4194304, not `0`
    hint: for example `pids = 128`
    ");
    insta::assert_snapshot!(with("[limits]\nmemory_mib = -1"), @"
    error: failed to load profile `offline`
      caused by: `memory_mib` in `[limits]` at line 3 must be a whole number from 1 to 16777216, not `-1`
    hint: for example `memory_mib = 1024`
    ");
    insta::assert_snapshot!(with("[limits]\noutput_kib = 4097"), @"
    error: failed to load profile `offline`
      caused by: `output_kib` in `[limits]` at line 3 must be a whole number from 1 to 4096, not `4097`
    hint: for example `output_kib = 64`
    ");
    insta::assert_snapshot!(with("[limits]\nopen_files = 1.0"), @"
    error: failed to load profile `offline`
      caused by: `open_files` in `[limits]` at line 3 must be a whole number from 16 to 1048576, not `1.0`
    hint: for example `open_files = 512`
    ");
    insta::assert_snapshot!(with("[limits]\ncpus = nan"), @"
    error: failed to load profile `offline`
      caused by: `cpus` in `[limits]` at line 3 must be a number from 0.01 to 4096, not `nan`
    hint: for example `cpus = 1.0`
    ");
    insta::assert_snapshot!(with("[limits]\ncpus = inf"), @"
    error: failed to load profile `offline`
      caused by: `cpus` in `[limits]` at line 3 must be a number from 0.01 to 4096, not `inf`
    hint: for example `cpus = 1.0`
    ");
    insta::assert_snapshot!(with("[limits]\ncpus = 0"), @"
    error: failed to load profile `offline`
      caused by: `cpus` in `[limits]` at line 3 must be a number from 0.01 to 4096, not `0`
    hint: for example `cpus = 1.0`
    ");
    insta::assert_snapshot!(
        with("[pool]\nwarm = 999999999999999999999999999999999999999999999999999999999999999"),
        @"
    error: failed to load profile `offline`
      caused by: `warm` in `[pool]` at line 3 must be a whole number from 0 to 64, not `999999999999999999999999999999999999999999999999999999999999…`
    hint: for example `warm = 1`
    "
    );
}

#[test]
fn a_word_that_is_none_of_the_choices_is_told_the_choices() {
    insta::assert_snapshot!(refusal("backends = [\"bublewrap\"]"), @r#"
    error: failed to load profile `offline`
      caused by: entry 1 of `backends` at line 1 must be `"bubblewrap"`, `"container"` or `"host"`, not the string `"bublewrap"`
    hint: did you mean `"bubblewrap"`?
    "#);
    insta::assert_snapshot!(with("[network]\nmode = \"open\""), @r#"
    error: failed to load profile `offline`
      caused by: `mode` in `[network]` at line 3 must be `"none"`, `"allowlist"` or `"full"`, not the string `"open"`
    "#);
    insta::assert_snapshot!(with("require = { files = true }"), @r#"
    error: failed to load profile `offline`
      caused by: `files` in `[require]` at line 2 must be `"none"`, `"partial"` or `"full"`, not `true`
    "#);
    insta::assert_snapshot!(with("[approval]\n\"uv_tool.*\" = \"allways\""), @r#"
    error: failed to load profile `offline`
      caused by: `uv_tool.*` in `[approval]` at line 3 must be `"never"`, `"unsandboxed"`, `"outside"` or `"always"`, not the string `"allways"`
    hint: did you mean `"always"`?
    "#);
}

#[test]
fn a_profile_needs_a_backend() {
    insta::assert_snapshot!(refusal("description = \"none\""), @r#"
    error: failed to load profile `offline`
      caused by: missing key `backends`
    hint: for example `backends = ["bubblewrap"]`
    "#);
    insta::assert_snapshot!(refusal("backends = []"), @r#"
    error: failed to load profile `offline`
      caused by: `backends` at line 1 must name at least one backend
    hint: for example `backends = ["bubblewrap"]`
    "#);
    insta::assert_snapshot!(refusal("backends = [\"host\", \"container\", \"host\"]"), @"
    error: failed to load profile `offline`
      caused by: entry 3 of `backends` at line 1 names `host` a second time
    hint: the first place decides the order; remove the other
    ");
}

#[test]
fn text_that_is_no_toml_is_told_the_line() {
    insta::assert_snapshot!(with("[limits\npids = 1"), @"
    error: failed to load profile `offline`
      caused by: not valid TOML at line 2: unclosed table, expected `]`
    ");
    insta::assert_snapshot!(with("[limits]\npids = 1\npids = 2"), @"
    error: failed to load profile `offline`
      caused by: not valid TOML at line 4: duplicate key
    ");
    insta::assert_snapshot!(with("description = \"open"), @r#"
    error: failed to load profile `offline`
      caused by: not valid TOML at line 2: invalid basic string, expected `"`
    "#);
}

#[test]
fn what_a_hostile_file_says_is_shown_escaped_and_short() {
    let key = format!("\"\\u001b[2J{}\"", "x".repeat(500));
    insta::assert_snapshot!(with(&format!("[limits]\n{key} = 1")), @r"
    error: failed to load profile `offline`
      caused by: unknown key `\u{1b}[2Jxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…` in `[limits]` at line 3
    hint: known here: `timeout`, `timeout_max`, `grace`, `memory_mib`, `pids`, `cpus`, `file_size_mib`, `open_files`, `output_kib`, `output_file_mib`, `disk_mib`
    ");
}

#[test]
fn extending_goes_one_level() {
    let set = |files: &[(&str, &str)]| printed(&profiles(files).expect_err("no such parent"));
    insta::assert_snapshot!(set(&[("a", HEAD), ("b", "extends = \"A\"")]), @"
    error: failed to load profile `b`
      caused by: it extends `A`, which does not exist
    hint: did you mean `a`? The profiles are `a`
    ");
    insta::assert_snapshot!(set(&[("a", "extends = \"a\"")]), @"
    error: failed to load profile `a`
      caused by: it extends itself
    hint: remove `extends`, or name another profile
    ");
    insta::assert_snapshot!(
        set(&[("a", HEAD), ("b", "extends = \"a\""), ("c", "extends = \"b\"")]),
        @"
    error: failed to load profile `c`
      caused by: it extends `b`, which extends `a` itself
    hint: one level only: extend `a` directly
    "
    );
}

#[test]
fn a_fault_of_the_parent_is_the_parents() {
    let set = profiles(&[
        ("parent", &format!("{HEAD}[limits]\ntimeout = \"60s\"")),
        ("child", "extends = \"parent\"\n[limits]\ntimeout_max = \"1s\""),
    ]);
    insta::assert_snapshot!(printed(&set.expect_err("too short")), @"
    error: failed to load profile `child`
      caused by: `timeout` in `[limits]` at line 3 of `parent` is longer than `timeout_max`, 1s
    hint: shorten `timeout` or raise `timeout_max`
    ");
}

#[test]
fn names_of_files_are_checked() {
    insta::assert_snapshot!(printed(&profiles(&[("My Profile", HEAD)]).expect_err("a space")), @"
    error: failed to load profile `My Profile`
      caused by: `My Profile` cannot be the name of a profile
    hint: use lower-case letters, digits, `-` and `_`, at most 64, a letter or digit first
    ");
    let twice = Profiles::load([file("a", HEAD), file("a", HEAD)]);
    insta::assert_snapshot!(printed(&twice.expect_err("twice")), @"
    error: failed to load profile `a`
      caused by: two files define it: `/etc/cofferdam/sandbox-profiles/a.toml` and `/etc/cofferdam/sandbox-profiles/a.toml`
    hint: rename or remove one of them
    ");
}

#[test]
fn asking_for_an_unknown_profile_lists_what_there_is() {
    let all = Profiles::load(shipped()).expect("every shipped profile loads");
    insta::assert_snapshot!(printed(&all.get("ofline-strict").expect_err("misspelt")), @"
    error: there is no profile `ofline-strict`
    hint: did you mean `offline-strict`? The profiles are `base`, `container`, `default`, `gvisor`, `host-guarded`, `host-unconfined`, `offline-strict`, `uv`
    ");
    insta::assert_snapshot!(printed(&all.get("../x\n").expect_err("hostile")), @r"
    error: there is no profile `../x\n`
    hint: the profiles are `base`, `container`, `default`, `gvisor`, `host-guarded`, `host-unconfined`, `offline-strict`, `uv`
    ");
}
