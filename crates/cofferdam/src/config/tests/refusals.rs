//! What a wrong configuration is answered, word for word.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use super::{Config, Place};

#[test]
fn a_wrong_variable_is_refused_by_name() {
    let place = Place::new();
    let refusal = |name, value| place.printed(&place.load(&[(name, value)]).expect_err(name));
    insta::assert_snapshot!(refusal("COFFERDAM_SERVER__PROT", "80"), @"
    error: failed to load the configuration
      caused by: unknown key `prot` in `[server]` (variable `COFFERDAM_SERVER__PROT`)
    hint: did you mean `port`?
    ");
    insta::assert_snapshot!(refusal("COFFERDAM_SERVER__PORT", "eighty"), @r#"
    error: failed to load the configuration
      caused by: `port` in `[server]` (variable `COFFERDAM_SERVER__PORT`) must be a whole number from 0 to 65535, not the string `"eighty"`
    hint: for example `port = 8050`
    "#);
    insta::assert_snapshot!(refusal("COFFERDAM_SERVER__PORT", "70000"), @"
    error: failed to load the configuration
      caused by: `port` in `[server]` (variable `COFFERDAM_SERVER__PORT`) must be a whole number from 0 to 65535, not `70000`
    hint: for example `port = 8050`
    ");
    insta::assert_snapshot!(refusal("COFFERDAM_SEVER__PORT", "80"), @"
    error: failed to load the configuration
      caused by: unknown key `sever` (variable `COFFERDAM_SEVER__PORT`)
    hint: did you mean `server`?
    ");
    insta::assert_snapshot!(refusal("COFFERDAM_EXECUTION__MODE", "seriell"), @r#"
    error: failed to load the configuration
      caused by: `mode` in `[execution]` (variable `COFFERDAM_EXECUTION__MODE`) must be `"serial"` or `"concurrent"`, not the string `"seriell"`
    hint: did you mean `"serial"`?
    "#);
    insta::assert_snapshot!(refusal("COFFERDAM_SERVER__HOST", "0.0.0.0"), @"
    error: failed to load the configuration
      caused by: `host` in `[server]` (variable `COFFERDAM_SERVER__HOST`) must be a loopback address, not `0.0.0.0`: callers are not told apart yet
    hint: use 127.0.0.1, ::1 or localhost, and a tunnel for other machines
    ");
    let variables = BTreeMap::from([(
        OsString::from("COFFERDAM_SERVER__HOST"),
        OsStr::from_bytes(b"\xff").to_owned(),
    )]);
    let nowhere = Path::new("/nonexistent");
    let error = Config::load_on(nowhere, None, &variables, nowhere).expect_err("not UTF-8");
    insta::assert_snapshot!(place.printed(&error), @"error: the variable `COFFERDAM_SERVER__HOST` is not UTF-8");
}

#[test]
fn a_fault_of_a_variable_is_not_blamed_on_the_file() {
    let place = Place::new();
    place.write("work/cofferdam.toml", "[server]\nport = 1");
    let error = place.load(&[("COFFERDAM_SERVER__PATH", "mcp")]).expect_err("no slash");
    insta::assert_snapshot!(place.printed(&error), @r#"
    error: failed to load the configuration
      caused by: `path` in `[server]` (variable `COFFERDAM_SERVER__PATH`) must be the path of a URL, not `mcp`
    hint: for example `path = "/mcp"`
    "#);
}

#[test]
fn a_wrong_file_is_told_key_line_and_what_was_meant() {
    let place = Place::new();
    let refusal = |text: &str| place.refusal(text);
    insta::assert_snapshot!(refusal("[server]\nhots = \"127.0.0.1\""), @"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: unknown key `hots` in `[server]` at line 2
    hint: did you mean `host`?
    ");
    insta::assert_snapshot!(refusal("port = 80"), @"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: unknown key `port` at line 1
    hint: `port` belongs in `[server]`
    ");
    insta::assert_snapshot!(refusal("[server]\nport = \"80\""), @r#"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: `port` in `[server]` at line 2 must be a whole number from 0 to 65535, not the string `"80"`
    hint: for example `port = 8050`
    "#);
    insta::assert_snapshot!(refusal("[server]\nhost = \"0.0.0.0\""), @"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: `host` in `[server]` at line 2 must be a loopback address, not `0.0.0.0`: callers are not told apart yet
    hint: use 127.0.0.1, ::1 or localhost, and a tunnel for other machines
    ");
    insta::assert_snapshot!(refusal("[server]\nhost = \"example.org\""), @r#"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: `host` in `[server]` at line 2 must be an IP address, not `example.org`
    hint: for example `host = "127.0.0.1"`
    "#);
    insta::assert_snapshot!(refusal("[server]\npath = \"/\""), @r#"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: `path` in `[server]` at line 2 must be the path of a URL, not `/`
    hint: for example `path = "/mcp"`
    "#);
    insta::assert_snapshot!(refusal("[server]\npath = \"/mcp/{id}\""), @r#"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: `path` in `[server]` at line 2 must be the path of a URL, not `/mcp/{id}`
    hint: for example `path = "/mcp"`
    "#);
    insta::assert_snapshot!(refusal("[server]\nallowed_hosts = [\"a b\"]"), @r#"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: entry 1 of `allowed_hosts` in `[server]` at line 2 must be a host name, a host with its port, or an origin, not `a b`
    hint: for example `allowed_hosts = ["cofferdam.example.org"]`
    "#);
    insta::assert_snapshot!(refusal("[server]\ndrain = 20"), @r#"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: `drain` in `[server]` at line 2 must be a string, not `20`
    hint: for example `drain = "20s"`
    "#);
    insta::assert_snapshot!(refusal("[server]\ndrain = \"2h\""), @r#"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: `drain` in `[server]` at line 2 must be at most 1h, not `2h`
    hint: for example `drain = "20s"`
    "#);
    insta::assert_snapshot!(refusal("[workspace]\nroot = \"\""), @r#"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: `root` in `[workspace]` at line 2 must be a path, not ``
    hint: for example `root = "."`
    "#);
    insta::assert_snapshot!(refusal("[workspace]\nread_whitelist_paths = [\"data\"]"), @r#"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: entry 1 of `read_whitelist_paths` in `[workspace]` at line 2 must be an absolute path, not `data`
    hint: for example `read_whitelist_paths = ["/srv/data"]`
    "#);
    insta::assert_snapshot!(refusal("[execution]\nmax_running = 0"), @"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: `max_running` in `[execution]` at line 2 must be a whole number from 1 to 1024, not `0`
    hint: for example `max_running = 8`
    ");
    insta::assert_snapshot!(refusal("[execution]\nmode = \"paralel\""), @r#"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: `mode` in `[execution]` at line 2 must be `"serial"` or `"concurrent"`, not the string `"paralel"`
    "#);
    insta::assert_snapshot!(refusal("[tools]\nrule = [{ mode = \"deactivate\", pattern = \"[\" }]"), @r#"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: `pattern` in entry 1 of `tools.rule` at line 2 must be a glob, not `[`: unclosed character class; missing ']'
    hint: for example `pattern = "uv_tool.*"`
    "#);
    insta::assert_snapshot!(refusal("[[tools.rule]]\nmode = \"off\"\npattern = \"*\""), @r#"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: `mode` in entry 1 of `tools.rule` at line 2 must be `"activate"` or `"deactivate"`, not the string `"off"`
    "#);
    insta::assert_snapshot!(refusal("[approval]\nwait = \"5\""), @r#"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: `wait` in `[approval]` at line 2 must be a duration with its unit, not `5`
    hint: for example `wait = "5m"`
    "#);
    insta::assert_snapshot!(refusal("[server"), @"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: not valid TOML at line 1: unclosed table, expected `]`
    ");
}

#[test]
fn a_wrong_token_is_refused_without_showing_it() {
    let place = Place::new();
    let refusal = |text: &str| place.refusal(text);
    insta::assert_snapshot!(refusal("[[token]]\nname = \"a\""), @r#"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: missing key `sha256` in entry 1 of `token` at line 1
    hint: for example `sha256 = "0000000000000000000000000000000000000000000000000000000000000000"`
    "#);
    insta::assert_snapshot!(refusal("[[token]]\nname = \"a\"\nsha256 = \"secret-itself\""), @r#"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: `sha256` in entry 1 of `token` at line 3 must be a SHA-256 in hexadecimal, 64 digits
    hint: for example `sha256 = "0000000000000000000000000000000000000000000000000000000000000000"`
    "#);
    let digest = "0".repeat(64);
    insta::assert_snapshot!(refusal(&format!("[[token]]\nname = \"a b\"\nsha256 = \"{digest}\"")), @r#"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: `name` in entry 1 of `token` at line 2 must be of letters, digits, `-`, `_`, `.` and `@`, at most 64, not `a b`
    hint: for example `name = "ci-agent"`
    "#);
    let token = format!("[[token]]\nname = \"a\"\nsha256 = \"{digest}\"\n");
    insta::assert_snapshot!(refusal(&format!("{token}{token}")), @"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: `name` in entry 2 of `token` at line 5 is `a`, as that of another token
    hint: give each caller a name of its own
    ");
    insta::assert_snapshot!(refusal(&format!("{token}tools = [\"[\"]")), @r#"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: entry 1 of `tools` in entry 1 of `token` at line 4 must be a glob, not `[`: unclosed character class; missing ']'
    hint: for example `tools = ["python_coding_tool.*"]`
    "#);
}
