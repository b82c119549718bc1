//! `cofferdam config`

use crate::support::World;

#[test]
fn each_value_says_where_it_came_from() {
    let world = World::with(
        "[server]\nport = 1\nallowed_hosts = [\"a.example\", \"b.example\"]\n[tools]\n\
         rule = [\n  { mode = \"deactivate\", pattern = \"uv_tool.*\" },\n]\n",
        &[],
    );
    let mut show = world.cofferdam(&["config", "show", "-w", "/srv/work", "--mcp-path", "/here"]);
    show.env("COFFERDAM_SERVER__DRAIN", "90s");
    // What is enforced grows; that it is said is another claim.
    let shown = world.finish(&mut show).text().replace("; not enforced yet", "");
    let shown = on_one_line(shown);
    insta::assert_snapshot!(shown, @r#"
    # [PLACE]/work/cofferdam.toml

    [server]
    host = "127.0.0.1"                          # default
    port = 1                                    # cofferdam.toml line 2
    path = "/here"                              # --mcp-path
    tool_names = "dotted"                       # default
    result_form = "wrapped"                     # default
    inline_images = false                       # default
    allowed_hosts = ["a.example", "b.example"]  # cofferdam.toml line 3
    drain = "1m 30s"                            # COFFERDAM_SERVER__DRAIN

    [workspace]
    root = "/srv/work"          # --workspace
    per_session = false         # default
    read_whitelist_paths = []   # default
    write_whitelist_paths = []  # default
    outside = "ask"             # default

    [execution]
    default_profile = "default"  # default
    profile_dirs = ["[PLACE]/work/sandbox-profiles"]  # default
    mode = "serial"              # default
    max_running = 8              # default
    max_queued = 64              # default
    worker_restart_limit = 5     # default

    [tools]
    default_mode = "activate"  # default
    rule = [                   # cofferdam.toml line 5
      { mode = "deactivate", pattern = "uv_tool.*" },  # cofferdam.toml line 6
    ]

    [approval]
    wait = "5m"       # default
    channel = "auto"  # default

    [audit]
    path = "[PLACE]/home/.local/state/cofferdam/audit.jsonl"  # default
    enabled = true       # default
    on_error = "refuse"  # default
    rotate_mib = 64      # default
    keep = 8             # default
    "#);
}

#[test]
fn json_has_each_value_its_origin_and_whether_it_is_enforced() {
    let world = World::with("[server]\nport = 1\n[workspace]\nper_session = true", &[]);
    let mut show = world.cofferdam(&["config", "show", "--json", "--mcp-host", "::1"]);
    show.env("COFFERDAM_EXECUTION__MAX_RUNNING", "2");
    let json = world.finish(&mut show).json();
    assert_eq!(json["file"], "[PLACE]/work/cofferdam.toml");
    let values = &json["values"];
    let of = |key: &str| (values[key]["value"].clone(), values[key]["origin"].clone());
    let file = serde_json::json!({
        "from": "file", "file": "[PLACE]/work/cofferdam.toml", "line": 2
    });
    assert_eq!(of("server.port"), (1.into(), file));
    let option = serde_json::json!({ "from": "option", "name": "--mcp-host" });
    assert_eq!(of("server.host"), ("::1".into(), option));
    let variable =
        serde_json::json!({ "from": "variable", "name": "COFFERDAM_EXECUTION__MAX_RUNNING" });
    assert_eq!(of("execution.max_running"), (2.into(), variable));
    assert_eq!(values["execution.max_queued"]["origin"], serde_json::json!({ "from": "default" }));
    assert_eq!(values["execution.max_running"]["enforced"], true);
}

#[test]
fn what_is_configured_and_not_enforced_yet_is_marked() {
    let world = World::with(
        "[server]\ninline_images = true\n[workspace]\nper_session = true\noutside = \"deny\"\n\
         read_whitelist_paths = [\"/srv/a\"]\nwrite_whitelist_paths = [\"/srv/b\"]",
        &[],
    );
    let text = world.run(&["config", "show"]);
    let json = world.run(&["config", "show", "--json"]).json();
    for (key, value) in json["values"].as_object().expect("values") {
        let (_, name) = key.rsplit_once('.').unwrap_or(("", key));
        let line = text.text().lines().find(|line| line.starts_with(&format!("{name} = ")));
        let marked = line.is_some_and(|line| line.contains("not enforced yet"));
        assert_eq!(marked, value["enforced"] == false, "{key}: {line:?}");
    }
}

#[test]
fn without_a_file_that_is_said() {
    let world = World::new();
    let shown = world.run(&["config", "show"]);
    assert!(shown.text().starts_with("# No configuration file.\n"), "{shown:?}");
    let json = world.run(&["config", "show", "--json"]).json();
    assert_eq!(json["file"], serde_json::Value::Null);
}

#[test]
fn the_digest_of_a_token_is_not_shown_whole() {
    let digest = "0123456789abcdef".repeat(4);
    let world = World::with(&format!("[[token]]\nname = \"ci\"\nsha256 = \"{digest}\""), &[]);
    for form in [&["config", "show"][..], &["config", "show", "--json"]] {
        let shown = world.run(form);
        assert!(shown.text().contains("01234567…"), "{shown:?}");
        assert!(!shown.text().contains("0123456789"), "{shown:?}");
    }
}

#[test]
fn a_configuration_that_is_wrong_is_not_shown_but_its_schema_is() {
    let world = World::with("[server]\nprot = 1", &[]);
    let shown = world.run(&["config", "show"]);
    assert_eq!(shown.code, 1);
    assert!(shown.stderr.contains("hint: did you mean `port`?"), "{shown:?}");
    assert_eq!(world.run(&["config", "schema"]).json()["type"], "object");
}

#[test]
fn what_could_not_be_served_is_not_shown() {
    let world = World::new();
    assert_eq!(world.run(&["config", "show", "--mcp-host", "0.0.0.0"]).code, 2);
    assert_eq!(world.run(&["config", "show", "--mcp-path", "mcp"]).code, 2);
}

/// The folders of profiles on one line: how long their path is depends on where the tests run.
fn on_one_line(text: String) -> String {
    let Some((before, rest)) = text.split_once("profile_dirs = [             # default\n  ") else {
        return text;
    };
    let Some((path, after)) = rest.split_once(",\n]") else { return text };
    format!("{before}profile_dirs = [{path}]  # default{after}")
}
