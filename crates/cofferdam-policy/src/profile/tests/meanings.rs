//! What a value that cannot be meant is answered, word for word.

use super::with;

#[test]
fn a_duration_needs_its_unit_and_its_bounds() {
    insta::assert_snapshot!(with("[limits]\ntimeout = \"60\""), @r#"
    error: failed to load profile `offline`
      caused by: `timeout` in `[limits]` at line 3 must be a duration with its unit, not `60`
    hint: for example `timeout = "60s"`
    "#);
    insta::assert_snapshot!(with("[limits]\ntimeout = \"0s\""), @r#"
    error: failed to load profile `offline`
      caused by: `timeout` in `[limits]` at line 3 must be more than zero
    hint: for example `timeout = "60s"`
    "#);
    insta::assert_snapshot!(with("[limits]\ntimeout = \"-3s\""), @r#"
    error: failed to load profile `offline`
      caused by: `timeout` in `[limits]` at line 3 must be a duration with its unit, not `-3s`
    hint: for example `timeout = "60s"`
    "#);
    insta::assert_snapshot!(with("[limits]\ntimeout_max = \"1year\""), @r#"
    error: failed to load profile `offline`
      caused by: `timeout_max` in `[limits]` at line 3 must be at most 30d, not `1year`
    hint: for example `timeout_max = "15m"`
    "#);
    insta::assert_snapshot!(with("[limits]\ngrace = \"2m\""), @r#"
    error: failed to load profile `offline`
      caused by: `grace` in `[limits]` at line 3 must be at most 60s, not `2m`
    hint: for example `grace = "100ms"`
    "#);
    insta::assert_snapshot!(with("[limits]\ntimeout = \"2m\"\ntimeout_max = \"1m\""), @"
    error: failed to load profile `offline`
      caused by: `timeout` in `[limits]` at line 3 is longer than `timeout_max`, 1m
    hint: shorten `timeout` or raise `timeout_max`
    ");
    insta::assert_snapshot!(with("[limits]\ntimeout_max = \"1s\""), @"
    error: failed to load profile `offline`
      caused by: `timeout` in `[limits]` (built-in default) is longer than `timeout_max`, 1s
    hint: shorten `timeout` or raise `timeout_max`
    ");
}

#[test]
fn a_granted_path_is_absolute_and_leaves_the_sandboxs_own_alone() {
    let read =
        |path: &str| with(&format!("[filesystem]\nread = [{{ path = \"{path}\", why = \"x\" }}]"));
    insta::assert_snapshot!(read("usr"), @r#"
    error: failed to load profile `offline`
      caused by: `path` in entry 1 of `filesystem.read` at line 3 must be an absolute path, not `usr`
    hint: for example `path = "/usr"`
    "#);
    insta::assert_snapshot!(read("~/models"), @r#"
    error: failed to load profile `offline`
      caused by: `path` in entry 1 of `filesystem.read` at line 3 must be an absolute path, not `~/models`
    hint: for example `path = "/usr"`
    "#);
    insta::assert_snapshot!(read("/usr/../etc"), @r#"
    error: failed to load profile `offline`
      caused by: `path` in entry 1 of `filesystem.read` at line 3 must be an absolute path, not `/usr/../etc`, which has `.` or `..`
    hint: for example `path = "/usr"`
    "#);
    insta::assert_snapshot!(read("/"), @r#"
    error: failed to load profile `offline`
      caused by: `path` in entry 1 of `filesystem.read` at line 3 must not be `/`: grant the folders that are needed
    hint: for example `path = "/usr"`
    "#);
    insta::assert_snapshot!(read("/proc/self"), @r#"
    error: failed to load profile `offline`
      caused by: `path` in entry 1 of `filesystem.read` at line 3 must not lie in `/proc`, of which every run has its own
    hint: for example `path = "/usr"`
    "#);
    insta::assert_snapshot!(read("/usr\\u0000/x"), @r#"
    error: failed to load profile `offline`
      caused by: `path` in entry 1 of `filesystem.read` at line 3 must be an absolute path, not `/usr\u{0}/x`, which has a NUL
    hint: for example `path = "/usr"`
    "#);
}

#[test]
fn a_glob_must_compile_and_lie_below_a_root() {
    insta::assert_snapshot!(with("[filesystem]\nprotect = [\"**/.git\", \"[a\"]"), @r#"
    error: failed to load profile `offline`
      caused by: entry 2 of `protect` in `[filesystem]` at line 3 must be a glob, not `[a`: unclosed character class; missing ']'
    hint: for example `protect = ["**/.git/config"]`
    "#);
    insta::assert_snapshot!(with("[filesystem]\ndeny = [\"/etc/*\"]"), @r#"
    error: failed to load profile `offline`
      caused by: entry 1 of `deny` in `[filesystem]` at line 3 must be a glob below a granted root, without `/` at either end, not `/etc/*`
    hint: for example `deny = ["**/.env"]`
    "#);
    insta::assert_snapshot!(with("[filesystem]\ndeny = [\"**/../x\"]"), @r#"
    error: failed to load profile `offline`
      caused by: entry 1 of `deny` in `[filesystem]` at line 3 must not have `.` or `..` as a part, as `**/../x` has
    hint: for example `deny = ["**/.env"]`
    "#);
    insta::assert_snapshot!(with("[approval]\n\"uv_tool.[\" = \"always\""), @r#"
    error: failed to load profile `offline`
      caused by: `uv_tool.[` in `[approval]` at line 3 must be a glob, not `uv_tool.[`: unclosed character class; missing ']'
    hint: for example `"uv_tool.*" = "always"`
    "#);
}

#[test]
fn a_network_rule_names_host_and_port_or_a_known_group() {
    let allow = |rule: &str| with(&format!("[network]\nallow = [\"{rule}\"]"));
    insta::assert_snapshot!(allow("example.org"), @r#"
    error: failed to load profile `offline`
      caused by: entry 1 of `allow` in `[network]` at line 3 must be `host:port`, `*.domain:port` or a group, not `example.org`: the port is missing
    hint: for example `allow = ["example.org:443"]`
    "#);
    insta::assert_snapshot!(allow("example.org:0"), @r#"
    error: failed to load profile `offline`
      caused by: entry 1 of `allow` in `[network]` at line 3 must be `host:port`, `*.domain:port` or a group, not `example.org:0`: the port must be from 1 to 65535
    hint: for example `allow = ["example.org:443"]`
    "#);
    insta::assert_snapshot!(allow("user@example.org:443"), @r#"
    error: failed to load profile `offline`
      caused by: entry 1 of `allow` in `[network]` at line 3 must be `host:port`, `*.domain:port` or a group, not `user@example.org:443`: that is no host name
    hint: for example `allow = ["example.org:443"]`
    "#);
    insta::assert_snapshot!(allow("example.org.:443"), @r#"
    error: failed to load profile `offline`
      caused by: entry 1 of `allow` in `[network]` at line 3 must be `host:port`, `*.domain:port` or a group, not `example.org.:443`: that is no host name
    hint: for example `allow = ["example.org:443"]`
    "#);
    insta::assert_snapshot!(allow("[::1]:443"), @r#"
    error: failed to load profile `offline`
      caused by: entry 1 of `allow` in `[network]` at line 3 must be `host:port`, `*.domain:port` or a group, not `[::1]:443`: that is no host name
    hint: for example `allow = ["example.org:443"]`
    "#);
    insta::assert_snapshot!(allow("bücher.example:443"), @r#"
    error: failed to load profile `offline`
      caused by: entry 1 of `allow` in `[network]` at line 3 must be `host:port`, `*.domain:port` or a group, not `bücher.example:443`: write the name in its ASCII form (`xn--…`)
    hint: for example `allow = ["example.org:443"]`
    "#);
    insta::assert_snapshot!(allow("a.*.example:443"), @r#"
    error: failed to load profile `offline`
      caused by: entry 1 of `allow` in `[network]` at line 3 must be `host:port`, `*.domain:port` or a group, not `a.*.example:443`: that is no host name
    hint: for example `allow = ["example.org:443"]`
    "#);
    insta::assert_snapshot!(allow("@python"), @r#"
    error: failed to load profile `offline`
      caused by: entry 1 of `allow` in `[network]` at line 3 names the group `@python`, but the groups are `@python-index`
    hint: for example `allow = ["example.org:443"]`
    "#);
}

#[test]
fn the_words_of_other_programs_are_checked() {
    insta::assert_snapshot!(with("[container]\nuser = \"nobody\""), @r#"
    error: failed to load profile `offline`
      caused by: `user` in `[container]` at line 3 must be `uid:gid` in numbers, not `nobody`
    hint: for example `user = "65534:65534"`
    "#);
    insta::assert_snapshot!(with("[container]\nuser = \"0:0\""), @r#"
    error: failed to load profile `offline`
      caused by: `user` in `[container]` at line 3 must not be root
    hint: for example `user = "65534:65534"`
    "#);
    insta::assert_snapshot!(with("[container]\nimage = \"--privileged\""), @r#"
    error: failed to load profile `offline`
      caused by: `image` in `[container]` at line 3 must be one word that does not begin with `-`, not `--privileged`
    hint: for example `image = "cofferdam/python:3"`
    "#);
    insta::assert_snapshot!(with("[uv]\nsubcommands = [\"run\", \"--config-file\"]"), @r#"
    error: failed to load profile `offline`
      caused by: entry 2 of `subcommands` in `[uv]` at line 3 must be one word that does not begin with `-`, not `--config-file`
    hint: for example `subcommands = ["run", "add", "sync"]`
    "#);
    insta::assert_snapshot!(with("[python]\ninterpreter = \"python3\""), @r#"
    error: failed to load profile `offline`
      caused by: `interpreter` in `[python]` at line 3 must be `auto` or an absolute path, not `python3`
    hint: for example `interpreter = "auto"`
    "#);
    insta::assert_snapshot!(with("[environment]\npass = [\"A=B\"]"), @r#"
    error: failed to load profile `offline`
      caused by: entry 1 of `pass` in `[environment]` at line 3 must be the name of a variable (letters, digits and `_`), not `A=B`
    hint: for example `pass = ["LANG"]`
    "#);
    insta::assert_snapshot!(with("[environment.set]\n\"A B\" = \"1\""), @r#"
    error: failed to load profile `offline`
      caused by: `A B` in `[environment.set]` at line 3 must be the name of a variable (letters, digits and `_`), not `A B`
    hint: for example `PYTHONUNBUFFERED = "1"`
    "#);
}

#[test]
fn an_unconfined_host_is_never_excused_from_approval() {
    insta::assert_snapshot!(
        with("[host]\nconfinement = \"none\"\n[approval]\n\"*\" = \"never\""),
        @r#"
    error: failed to load profile `offline`
      caused by: `*` in `[approval]` at line 5 must not be `never` with `host.confinement = "none"`
    hint: an unconfined call must be approved every time: `"always"` or `"unsandboxed"`
    "#
    );
}
