//! `cofferdam profile show`

use crate::support::World;

const MINE: &str = "\
extends = \"base\"

[filesystem]
read = [
  { path = \"/usr\", why = \"programs\" },
  { path = \"/opt/tools\", why = \"ours\" },
]

[limits]
memory_mib = 64

[approval]
\"uv_tool.*\" = \"always\"
";

#[test]
fn every_value_has_the_line_of_the_file_that_it_came_from() {
    let world =
        World::with("", &[("base", "backends = [\"host\"]\n[limits]\npids = 7"), ("mine", MINE)]);
    insta::assert_snapshot!(world.run(&["profile", "show", "mine"]).text(), @r#"
    # mine.toml: [PLACE]/work/sandbox-profiles/mine.toml
    # base.toml, which it extends: [PLACE]/work/sandbox-profiles/base.toml

    description = ""     # default
    backends = ["host"]  # base.toml line 1

    [require]
    files = "full"       # default
    network = "full"     # default
    processes = "full"   # default
    privileges = "full"  # default
    limits = "partial"   # default

    [filesystem]
    workspace = "read"                        # default
    read = [                                  # mine.toml line 4
      { path = "/usr", why = "programs" },    # mine.toml line 5
      { path = "/opt/tools", why = "ours" },  # mine.toml line 6
    ]
    write = []                                # default
    protect = []                              # default
    deny = []                                 # default
    allow_new_repositories = false            # default
    tmp_mib = 256                             # default
    scratch_home = true                       # default

    [network]
    mode = "none"        # default
    allow = []           # default
    deny_private = true  # default

    [environment]
    pass = []  # default

    [limits]
    timeout = "1m"        # default
    timeout_max = "15m"   # default
    grace = "100ms"       # default
    memory_mib = 64       # mine.toml line 10
    pids = 7              # base.toml line 3
    cpus = 1.0            # default
    file_size_mib = 512   # default
    open_files = 512      # default
    output_kib = 64       # default
    output_file_mib = 64  # default
    disk_mib = 1024       # default

    [container]
    image = "cofferdam/python:3"  # default
    runtime = "runc"              # default
    user = "65534:65534"          # default

    [host]
    confinement = "landlock"  # default

    [python]
    interpreter = "auto"  # default

    [uv]
    subcommands = [  # default
      "run",
      "add",
      "remove",
      "sync",
      "lock",
      "venv",
      "pip",
      "tree",
      "python",
      "init",
    ]

    [pool]
    warm = 1     # default
    idle = "2m"  # default

    [approval]
    "uv_tool.*" = "always"  # mine.toml line 13
    "*" = "unsandboxed"     # default
    "#);
}

#[test]
fn what_is_shown_is_the_same_profile_when_it_is_loaded() {
    let world = World::with("", &[("mine", MINE)]);
    let names = [
        "base",
        "container",
        "default",
        "gvisor",
        "host-guarded",
        "host-unconfined",
        "mine",
        "offline-strict",
        "uv",
    ];
    for name in names {
        let shown = world.run(&["profile", "show", name]);
        let copy = format!("{name}-copy");
        world.write(&format!("work/sandbox-profiles/{copy}.toml"), shown.text());
        let diff = world.run(&["profile", "diff", name, &copy]);
        assert_eq!(diff.text(), format!("`{copy}` says the same as `{name}`.\n"));
        // Whoever prints it has a file that stands alone.
        let json = world.run(&["profile", "show", "--json", &copy]).json();
        assert_eq!(json["extends"], serde_json::Value::Null);
    }
}

#[test]
fn json_has_each_value_with_its_origin() {
    let world = World::with("", &[("mine", MINE)]);
    let json = world.run(&["profile", "show", "mine", "--json"]).json();
    assert_eq!(json["name"], "mine");
    assert_eq!(json["extends"], "base");
    let values = &json["values"];
    let file = "[PLACE]/work/sandbox-profiles/mine.toml";
    assert_eq!(
        values["limits.memory_mib"],
        serde_json::json!({
            "value": 64, "origin": { "from": "file", "profile": "mine", "file": file, "line": 10 }
        })
    );
    assert_eq!(values["limits.pids"]["origin"]["profile"], "base");
    assert_eq!(values["limits.pids"]["origin"]["file"], serde_json::Value::Null);
    assert_eq!(values["container.image"]["origin"], serde_json::json!({ "from": "default" }));
    assert_eq!(values["approval.\"uv_tool.*\""]["value"], "always");
}

#[test]
fn a_profile_that_is_broken_or_missing_is_an_error_with_a_hint() {
    let world = World::with("", &[("offline", "extends = \"base\"\n[limits]\nmemory_mb = 1")]);
    insta::assert_snapshot!(world.run(&["profile", "show", "offline"]).all(), @"
    exit code 1
    ---
    error: failed to load profile `offline`
      caused by: unknown key `memory_mb` in `[limits]` at line 3
    hint: did you mean `memory_mib`?
    ");
    insta::assert_snapshot!(world.run(&["profile", "show", "defautl"]).all(), @"
    exit code 1
    ---
    error: there is no profile `defautl`
    hint: did you mean `default`? The profiles are `base`, `container`, `default`, `gvisor`, `host-guarded`, `host-unconfined`, `offline-strict`, `uv`
    ");
}
