//! What `[audit]` means.

use cofferdam_policy::profile::shipped;

use super::*;

fn load(place: &Place, text: &str, variables: &[(&str, &str)]) -> Config {
    place.write("work/cofferdam.toml", text);
    place.load(variables).expect(text)
}

const HOME: (&str, &str) = ("HOME", "/home/me");

#[test]
fn servers_record_by_default_and_the_command_line_only_when_somebody_asked() {
    let place = Place::new();
    for (text, servers, command_line) in [
        ("", true, false),
        ("[audit]\nkeep = 3", true, false),
        ("[audit]\nenabled = true", true, true),
        ("[audit]\npath = \"a.jsonl\"", true, true),
        ("[audit]\nenabled = false", false, false),
        ("[audit]\nenabled = false\npath = \"a.jsonl\"", false, false),
    ] {
        let audit = load(&place, text, &[HOME]).audit;
        let is_on = |serves| audit.records(serves).expect(text).is_some();
        assert_eq!((is_on(true), is_on(false)), (servers, command_line), "{text}");
    }
}

#[test]
fn the_log_is_in_the_users_state_folder_unless_it_is_named() {
    let place = Place::new();
    let path = |text: &str, variables: &[(&str, &str)]| {
        let path = load(&place, text, variables).audit.path;
        path.map(|path| {
            path.to_string_lossy().replace(&*place.0.path().to_string_lossy(), "[PLACE]")
        })
    };
    let state = ("XDG_STATE_HOME", "/state");
    assert_eq!(path("", &[HOME]).as_deref(), Some("/home/me/.local/state/cofferdam/audit.jsonl"));
    assert_eq!(path("", &[HOME, state]).as_deref(), Some("/state/cofferdam/audit.jsonl"));
    assert_eq!(path("", &[("XDG_STATE_HOME", "relative"), ("HOME", "")]), None);
    let named = "[audit]\npath = \"log/a.jsonl\"";
    assert_eq!(path(named, &[HOME]).as_deref(), Some("[PLACE]/work/log/a.jsonl"));
    let variable = ("COFFERDAM_AUDIT__PATH", "/var/log/a.jsonl");
    assert_eq!(path(named, &[HOME, variable]).as_deref(), Some("/var/log/a.jsonl"));
}

#[test]
fn without_a_place_for_it_a_server_is_not_configured() {
    let place = Place::new();
    let audit = load(&place, "", &[]).audit;
    insta::assert_snapshot!(place.printed(&audit.records(true).expect_err("no place")), @"
    error: there is no folder for the audit log: neither XDG_STATE_HOME nor HOME is set
    hint: name a file by `audit.path`, or set `audit.enabled = false`
    ");
    assert_eq!(audit.records(false).expect("nothing is recorded"), None);
}

#[test]
fn each_value_is_taken_and_has_a_default() {
    let place = Place::new();
    let text = "[audit]\non_error = \"warn\"\nrotate_mib = 2\nkeep = 3";
    let audit = load(&place, text, &[HOME]).audit;
    assert_eq!((audit.on_error, audit.rotate_mib, audit.keep), (OnError::Warn, 2, 3));
    let audit = load(&place, "", &[HOME]).audit;
    assert_eq!((audit.on_error, audit.rotate_mib, audit.keep), (OnError::Refuse, 64, 8));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let place = Place::new();
    insta::assert_snapshot!(place.refusal("[audit]\non_eror = \"warn\""), @"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: unknown key `on_eror` in `[audit]` at line 2
    hint: did you mean `on_error`?
    ");
    insta::assert_snapshot!(place.refusal("[audit]\non_error = \"ignore\""), @r#"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: `on_error` in `[audit]` at line 2 must be `"refuse"` or `"warn"`, not the string `"ignore"`
    "#);
    insta::assert_snapshot!(place.refusal("[audit]\nkeep = 0"), @"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: `keep` in `[audit]` at line 2 must be a whole number from 1 to 1000, not `0`
    hint: for example `keep = 8`
    ");
    insta::assert_snapshot!(place.refusal("[audit]\npath = \"~/audit.jsonl\""), @r#"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: `path` in `[audit]` at line 2 must be a path without `~`, which nothing expands here
    hint: for example `path = "/var/log/cofferdam/audit.jsonl"`
    "#);
    insta::assert_snapshot!(place.refusal("[audit]\npath = \"\""), @r#"
    error: failed to load the configuration `[PLACE]/work/cofferdam.toml`
      caused by: `path` in `[audit]` at line 2 must be a path, not ``
    hint: for example `path = "/var/log/cofferdam/audit.jsonl"`
    "#);
}

#[test]
fn a_log_where_code_may_write_is_refused() {
    let place = Place::new();
    let work = place.path("code");
    fs::create_dir_all(place.path("code/inside")).expect("folders");
    std::os::unix::fs::symlink(&work, place.path("link")).expect("a link");
    let profiles = |text: &str| {
        let source = cofferdam_policy::profile::ProfileSource {
            name: "mine".to_owned(),
            text: text.to_owned(),
            origin: cofferdam_policy::profile::ProfileOrigin::Shipped,
        };
        cofferdam_policy::Profiles::load(shipped().chain([source])).expect(text)
    };
    let plain = profiles("backends = [\"bubblewrap\"]");
    let reach = |path: &str, profiles| {
        let variable = ("COFFERDAM_AUDIT__PATH", path);
        load(&place, "", &[variable]).audit_is_out_of_reach(&work, profiles)
    };
    let path = |name: &str| place.path(name).to_string_lossy().into_owned();
    for (name, out_of_reach) in [
        ("code/audit.jsonl", false),
        ("code/not/there/yet/audit.jsonl", false),
        ("link/inside/audit.jsonl", false),
        ("audit.jsonl", true),
        ("code-beside/audit.jsonl", true),
    ] {
        assert_eq!(reach(&path(name), &plain).is_ok(), out_of_reach, "{name}");
    }
    let granted = profiles(
        "backends = [\"bubblewrap\"]\n[filesystem]\nwrite = [{ path = \"/srv/out\", why = \"x\" }]",
    );
    let error = reach("/srv/out/log/audit.jsonl", &granted).expect_err("in reach");
    insta::assert_snapshot!(place.printed(&error), @"
    error: the audit log `/srv/out/log/audit.jsonl` lies in `/srv/out`, where code may write
    hint: name another place by `audit.path`, outside of what code works on
    ");
    assert!(reach("/srv/out/log/audit.jsonl", &plain).is_ok());
}
