//! Claims about the configuration.

mod audit;
mod mutations;
mod refusals;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use cofferdam_policy::{Profiles, document::Origin};
use tempfile::TempDir;

use super::*;

/// A folder to configure in, gone with its owner.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("making the folder");
        fs::write(&path, text).expect("writing the file");
        path
    }

    /// Loads with `work` as the current directory.
    fn load(&self, variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
        self.load_named(None, variables)
    }

    fn load_named(
        &self,
        explicit: Option<&Path>,
        variables: &[(&str, &str)],
    ) -> Result<Config, ConfigError> {
        let work = self.path("work");
        fs::create_dir_all(&work).expect("making the folder");
        let system = self.path("system/cofferdam.toml");
        Config::load_on(&system, explicit, &environment(variables), &work)
    }

    /// The printed error of a configuration that must not be accepted.
    fn refusal(&self, text: &str) -> String {
        self.write("work/cofferdam.toml", text);
        self.printed(&self.load(&[]).expect_err(text))
    }

    /// An error as the command line prints it, without this folder's own path.
    fn printed(&self, error: &ConfigError) -> String {
        let mut text = format!("error: {error}");
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            text.push_str(&format!("\n  caused by: {cause}"));
            source = cause.source();
        }
        if let Some(hint) = error.hint() {
            text.push_str(&format!("\nhint: {hint}"));
        }
        text.replace(&*self.0.path().to_string_lossy(), "[PLACE]")
    }
}

fn environment(variables: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
    variables.iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// The example of the design's own document, without what cannot be yet.
const DOCUMENTED: &str = r#"
[server]
host = "127.0.0.1"
port = 8050
path = "/mcp"
tool_names = "dotted"
result_form = "wrapped"
inline_images = false
allowed_hosts = []
drain = "20s"

[workspace]
root = "."
per_session = false
read_whitelist_paths = []
write_whitelist_paths = []
outside = "ask"

[execution]
default_profile = "default"
profile_dirs = ["sandbox-profiles"]
mode = "serial"
max_running = 8
max_queued = 64
worker_restart_limit = 5

[tools]
default_mode = "activate"
[[tools.rule]]
mode = "deactivate"
pattern = "uv_tool.*"

[approval]
wait = "5m"
channel = "auto"

[[token]]
name = "ci-agent"
sha256 = "E3b0111111111111111111111111111111111111111111111111111111111111"
profiles = ["default", "offline-strict"]
tools = ["python_coding_tool.*", "file_system_tool.read_file"]
max_running = 2
"#;

fn profiles(config: &Config) -> Result<Profiles, ConfigError> {
    config.profiles(config.profile_sources()?, 1)
}

#[test]
fn the_documented_configuration_is_accepted_and_says_what_the_defaults_say() {
    let place = Place::new();
    let defaults = place.load(&[]).expect("the defaults");
    place.write("work/cofferdam.toml", DOCUMENTED);
    let written = place.load(&[]).expect("the documented configuration");
    assert_eq!(written.server, defaults.server);
    assert_eq!(written.workspace, defaults.workspace);
    assert_eq!(written.approval, defaults.approval);
    let [rule] = written.tools.rules.as_slice() else { panic!("{:?}", written.tools) };
    assert_eq!((rule.pattern.as_str(), rule.active), ("uv_tool.*", false));
    let line = DOCUMENTED.lines().position(|line| line == "[[tools.rule]]").expect("it");
    assert_eq!(rule.origin, format!("cofferdam.toml:{}", line + 1));
    assert_eq!(written.tokens[0].sha256[..3], [0xe3, 0xb0, 0x11]);
    assert!(defaults.origins.values().all(|origin| *origin == Origin::Default));
}

#[test]
fn every_key_of_the_schema_is_resolved_and_has_an_origin() {
    let defaults = Place::new().load(&[]).expect("the defaults");
    for (section, part) in schema()["properties"].as_object().expect("sections") {
        let name = part["$ref"].as_str().map(|name| name.trim_start_matches('#'));
        let keys = name.and_then(|name| schema().pointer(name)?["properties"].as_object());
        for key in keys.into_iter().flatten().map(|(key, _)| key) {
            let key = format!("{section}.{key}");
            assert!(defaults.origins.contains_key(&key), "{key}");
        }
    }
    assert!(defaults.origins.contains_key("token"));
}

#[test]
fn files_are_looked_for_in_their_order() {
    let place = Place::new();
    let port = |number: u16| format!("[server]\nport = {number}");
    let xdg = place.path("xdg").to_string_lossy().into_owned();
    let home = place.path("home").to_string_lossy().into_owned();
    let variables = [("XDG_CONFIG_HOME", xdg.as_str()), ("HOME", home.as_str())];
    let found = |variables: &[(&str, &str)]| place.load(variables).expect("a configuration");

    place.write("system/cofferdam.toml", &port(1));
    assert_eq!(found(&variables).server.port, 1);
    place.write("home/.config/cofferdam/cofferdam.toml", &port(2));
    assert_eq!(found(&variables[1..]).server.port, 2);
    place.write("xdg/cofferdam/cofferdam.toml", &port(3));
    assert_eq!(found(&variables).server.port, 3);
    place.write("work/cofferdam.toml", &port(4));
    assert_eq!(found(&variables).server.port, 4);
    place.write("work/named.toml", &port(5));
    let named = [variables[0], variables[1], ("COFFERDAM_CONFIG", "named.toml")];
    assert_eq!(found(&named).server.port, 5);
    let explicit = place.write("explicit.toml", &port(6));
    let explicit = place.load_named(Some(&explicit), &named).expect("the explicit one");
    assert_eq!(explicit.server.port, 6);
}

#[test]
fn a_relative_configuration_home_is_not_looked_into() {
    let place = Place::new();
    place.write("work/xdg/cofferdam/cofferdam.toml", "[server]\nport = 1");
    let found = place.load(&[("XDG_CONFIG_HOME", "xdg")]).expect("the defaults");
    assert_eq!(found.server.port, 8050);
}

#[test]
fn a_file_that_is_named_and_missing_or_no_file_is_an_error() {
    let place = Place::new();
    let error = place.load(&[("COFFERDAM_CONFIG", "none.toml")]).expect_err("no such file");
    insta::assert_snapshot!(place.printed(&error), @"
    error: reading the configuration `[PLACE]/work/none.toml`
      caused by: No such file or directory (os error 2)
    hint: leave `--config` and `COFFERDAM_CONFIG` out to run on the defaults
    ");
    let error = place.load(&[("COFFERDAM_CONFIG", ".")]).expect_err("a folder");
    insta::assert_snapshot!(place.printed(&error), @"
    error: reading the configuration `[PLACE]/work/.`
      caused by: Is a directory (os error 21)
    ");
    fs::create_dir(place.path("work/cofferdam.toml")).expect("making a folder");
    insta::assert_snapshot!(place.printed(&place.load(&[]).expect_err("a folder")), @"
    error: reading the configuration `[PLACE]/work/cofferdam.toml`
      caused by: not a regular file
    ");
    fs::remove_dir(place.path("work/cofferdam.toml")).expect("removing it");
    fs::write(place.path("work/cofferdam.toml"), b"[server]\nhost = \"\xff\"").expect("writing");
    insta::assert_snapshot!(place.printed(&place.load(&[]).expect_err("not UTF-8")), @"
    error: reading the configuration `[PLACE]/work/cofferdam.toml`
      caused by: stream did not contain valid UTF-8
    ");
}

#[test]
fn paths_in_the_file_count_from_its_folder_and_all_others_from_the_current_one() {
    let place = Place::new();
    let file = place.write(
        "etc/cofferdam.toml",
        "[workspace]\nroot = \"./jobs/\"\n[execution]\nprofile_dirs = [\"a\", \"/b\"]",
    );
    let work = place.path("work");
    let load = |variables: &[(&str, &str)]| {
        place.load_named(Some(&file), variables).expect("a configuration")
    };
    let written = load(&[]);
    assert_eq!(written.workspace.root, place.path("etc/jobs"));
    assert_eq!(written.execution.profile_dirs, [place.path("etc/a"), PathBuf::from("/b")]);
    let variable = load(&[("COFFERDAM_WORKSPACE__ROOT", "jobs")]);
    assert_eq!(variable.workspace.root, place.path("work/jobs"));
    let defaults = place.load(&[]).expect("the defaults");
    assert_eq!(defaults.workspace.root, work);
}

#[test]
fn profiles_of_the_current_directory_do_not_count_without_a_configuration() {
    let place = Place::new();
    place.write("work/sandbox-profiles/default.toml", "backends = [\"host\"]");
    let profiles = profiles(&place.load(&[]).expect("the defaults")).expect("the built-in ones");
    assert_eq!(profiles.get("default").expect("it").backends.len(), 3);
}

#[test]
fn a_profile_beside_the_configuration_takes_the_place_of_the_built_in_one() {
    let place = Place::new();
    place.write("work/cofferdam.toml", "");
    let load = || profiles(&place.load(&[]).expect("a configuration")).expect("profiles");
    assert_eq!(load().get("default").expect("built in").backends.len(), 3);
    let own = place.write("work/sandbox-profiles/default.toml", "backends = [\"host\"]");
    place.write("work/sandbox-profiles/heir.toml", "extends = \"base\"");
    place.write("work/sandbox-profiles/.hidden.toml", "no profile");
    place.write("work/sandbox-profiles/README.md", "no profile");
    let profiles = load();
    assert_eq!(profiles.get("default").expect("our own").backends.len(), 1);
    assert_eq!(profiles.get("heir").expect("our own").backends.len(), 3);
    assert_eq!(
        profiles.loaded("default").expect("our own").origin,
        cofferdam_policy::profile::ProfileOrigin::File(own)
    );
}

#[test]
fn profiles_that_cannot_be_had_are_an_error() {
    let place = Place::new();
    let refusal = |text: &str| {
        place.write("work/cofferdam.toml", text);
        let config = place.load(&[]).unwrap_or_else(|error| panic!("{}", place.printed(&error)));
        place.printed(&profiles(&config).expect_err(text))
    };
    insta::assert_snapshot!(refusal("[execution]\nprofile_dirs = [\"none\"]"), @"
    error: reading profiles from `[PLACE]/work/none`
      caused by: No such file or directory (os error 2)
    hint: make the folder, or take it out of `execution.profile_dirs`
    ");
    insta::assert_snapshot!(refusal("[execution]\ndefault_profile = \"offline\""), @"
    error: `execution.default_profile` names a profile that does not exist
      caused by: there is no profile `offline`
    hint: did you mean `offline-strict`? The profiles are `base`, `container`, `default`, `gvisor`, `host-guarded`, `host-unconfined`, `offline-strict`, `uv`
    ");
    let token =
        format!("[[token]]\nname = \"a\"\nsha256 = \"{}\"\nprofiles = [\"uvx\"]", "0".repeat(64));
    insta::assert_snapshot!(refusal(&token), @"
    error: `token.profiles` names a profile that does not exist
      caused by: there is no profile `uvx`
    hint: did you mean `uv`? The profiles are `base`, `container`, `default`, `gvisor`, `host-guarded`, `host-unconfined`, `offline-strict`, `uv`
    ");
    place
        .write("work/sandbox-profiles/offline.toml", "extends = \"base\"\n[limits]\nmemory_mb = 1");
    insta::assert_snapshot!(refusal(""), @"
    error: failed to load profile `offline`
      caused by: unknown key `memory_mb` in `[limits]` at line 3
    hint: did you mean `memory_mib`?
    ");
}

#[test]
fn a_variable_goes_before_the_file_and_a_value_knows_where_it_came_from() {
    let place = Place::new();
    place.write(
        "work/cofferdam.toml",
        "[server]\nport = 1\npath = \"/file\"\n[workspace]\nroot = \"file\"",
    );
    let config = place
        .load(&[
            ("COFFERDAM_SERVER__PORT", "2"),
            ("COFFERDAM_SERVER__INLINE_IMAGES", "true"),
            ("COFFERDAM_SERVER__TOOL_NAMES", "both"),
            ("COFFERDAM_SERVER__ALLOWED_HOSTS", "[\"A.example.org\", \"b.example.org:8443\"]"),
            ("COFFERDAM_TOOLS__RULE", "[{ mode = \"deactivate\", pattern = \"*\" }]"),
            ("COFFERDAM_LOG", "debug"),
            ("OTHER_SERVER__PORT", "3"),
        ])
        .expect("a configuration");
    assert_eq!(config.server.port, 2);
    assert_eq!(config.server.path, "/file");
    assert!(config.server.inline_images);
    assert_eq!(config.server.tool_names, ToolNames::Both);
    assert_eq!(config.server.allowed_hosts, ["a.example.org", "b.example.org:8443"]);
    assert_eq!(config.tools.rules.len(), 1);
    let variable = |name: &str| Origin::Variable { name: name.to_owned() };
    assert_eq!(config.origins["server.port"], variable("COFFERDAM_SERVER__PORT"));
    assert_eq!(config.origins["server.path"], Origin::Line { line: 3 });
    assert_eq!(config.origins["server.drain"], Origin::Default);
}

#[test]
fn what_nothing_enforces_yet_is_named_and_the_rest_is_not() {
    let place = Place::new();
    assert!(place.load(&[]).expect("the defaults").not_armed().is_empty());
    place.write("work/cofferdam.toml", DOCUMENTED);
    let documented = place.load(&[]).expect("the documented configuration");
    assert_eq!(documented.not_armed(), ["token"]);
    place.write(
        "work/cofferdam.toml",
        r#"
            server = { inline_images = true, port = 1 }
            tools = { default_mode = "deactivate", rule = [] }
            execution = { mode = "concurrent", max_running = 1 }
            [workspace]
            per_session = true
            read_whitelist_paths = ["/srv/a"]
            write_whitelist_paths = ["/srv/b"]
            outside = "deny"
        "#,
    );
    assert_eq!(
        place.load(&[]).expect("a configuration").not_armed(),
        [
            "server.inline_images",
            "workspace.per_session",
            "workspace.read_whitelist_paths",
            "workspace.write_whitelist_paths",
            "workspace.outside",
        ]
    );
}
