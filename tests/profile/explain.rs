//! `cofferdam profile explain`: five questions of an admin, and what is not known.

use crate::support::World;

const TOOL: &str = "bash_coding_tool.execute";

const CONFIG: &str = "\
[workspace]
root = \"project\"
read_whitelist_paths = [\"/srv/data\"]

[[tools.rule]]
mode = \"activate\"
pattern = \"uv_tool.uv\"

[[tools.rule]]
mode = \"deactivate\"
pattern = \"uv_tool.*\"
";

/// A profile of our own, so that no line moves when a built-in one changes.
const PARENT: &str = "\
backends = [\"bubblewrap\", \"container\", \"host\"]

[filesystem]
read = [{ path = \"/usr\", why = \"interpreters, libraries and commands\" }]
protect = [\"**/.git/config\", \"**/.git/hooks\"]

[network]
deny_private = true

[approval]
\"*\" = \"unsandboxed\"
";

const MINE: &str = "\
extends = \"parent\"
backends = [\"bubblewrap\", \"host\"]

[filesystem]
workspace = \"write\"
write = [{ path = \"/srv/results\", why = \"where training leaves its results\" }]
deny = [
  \"**/.env\",
  \"**/*.pem\",
]

[network]
mode = \"allowlist\"
allow = [
  \"*.example.org:443\",
  \"10.0.0.1:80\",
]

[host]
confinement = \"none\"

[approval]
\"bash_*\" = \"always\"
";

fn world() -> World {
    let world = World::with(CONFIG, &[("parent", PARENT), ("mine", MINE)]);
    world.write("work/project/notes.txt", "");
    world
}

/// Explains under the profile `mine`.
fn explain(arguments: &[&str]) -> String {
    let all: Vec<_> = ["profile", "explain", "mine"].iter().chain(arguments).copied().collect();
    let explained = world().run(&all);
    // What is enforced grows; that it is said is another claim.
    let lines = explained.text().lines().filter(|line| !line.ends_with("not enforced yet"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn why_is_a_person_asked() {
    insta::assert_snapshot!(explain(&[TOOL]), @"
    `bash_coding_tool.execute` runs when a person has agreed.
      served     `tools.default_mode` = activate (default): no rule of `[tools]` is about it
      approval   `bash_*` = always (mine.toml line 23): asks before every run
      backends   bubblewrap, host (mine.toml line 2), the first that works
                 bubblewrap: asks, since the rule says so every time
                 host: asks, since nothing confines a run on host here
      require    files full, network full, processes full, privileges full, limits partial
    ");
    insta::assert_snapshot!(explain(&["python_coding_tool.execute"]), @"
    `python_coding_tool.execute` runs without asking anybody.
      served     `tools.default_mode` = activate (default): no rule of `[tools]` is about it
      approval   `*` = unsandboxed (parent.toml line 11): asks before a run that nothing would confine
      backends   bubblewrap, host (mine.toml line 2), the first that works
                 host: asks, since nothing confines a run on host here
      require    files full, network full, processes full, privileges full, limits partial
    ");
    insta::assert_snapshot!(explain(&["run"]), @"
    `run` runs without asking anybody.
      served     always: no rule of `[tools]` is about the command line
      approval   `*` = unsandboxed (parent.toml line 11): asks before a run that nothing would confine
      backends   bubblewrap, host (mine.toml line 2), the first that works
                 host: asks, since nothing confines a run on host here
      require    files full, network full, processes full, privileges full, limits partial
    ");
}

#[test]
fn why_is_a_tool_not_served() {
    insta::assert_snapshot!(explain(&["uv_tool.other"]), @"
    `uv_tool.other` is not served.
      served     `uv_tool.*` = deactivate (cofferdam.toml:9)
      approval   `*` = unsandboxed (parent.toml line 11): asks before a run that nothing would confine
      backends   bubblewrap, host (mine.toml line 2), the first that works
                 host: asks, since nothing confines a run on host here
      require    files full, network full, processes full, privileges full, limits partial
    note: there is no tool of that name
    ");
    insta::assert_snapshot!(explain(&["uv_tool.uv"]), @"
    `uv_tool.uv` runs without asking anybody.
      served     `uv_tool.uv` = activate (cofferdam.toml:5)
      approval   `*` = unsandboxed (parent.toml line 11): asks before a run that nothing would confine
      backends   bubblewrap, host (mine.toml line 2), the first that works
                 host: asks, since nothing confines a run on host here
      require    files full, network full, processes full, privileges full, limits partial
    note: there is no tool of that name
    ");
}

#[test]
fn why_can_a_path_not_be_changed() {
    insta::assert_snapshot!(explain(&[TOOL, "--path", ".git/config", "--path", "a/key.pem"]), @"
    `bash_coding_tool.execute` runs when a person has agreed.
      served     `tools.default_mode` = activate (default): no rule of `[tools]` is about it
      approval   `bash_*` = always (mine.toml line 23): asks before every run
      backends   bubblewrap, host (mine.toml line 2), the first that works
                 bubblewrap: asks, since the rule says so every time
                 host: asks, since nothing confines a run on host here
      require    files full, network full, processes full, privileges full, limits partial

    `[PLACE]/work/project/.git/config` can be read by a run, and not changed.
      granted    in the workspace `[PLACE]/work/project`: `filesystem.workspace` = write (mine.toml line 5)
      carved out `filesystem.protect` `**/.git/config` (parent.toml line 5): may be read, never changed, renamed away or created
    note: `host.confinement` = none (mine.toml line 20): on `host` nothing confines a run

    `[PLACE]/work/project/a/key.pem` can be neither read nor changed by a run.
      granted    in the workspace `[PLACE]/work/project`: `filesystem.workspace` = write (mine.toml line 5)
      carved out `filesystem.deny` `**/*.pem` (mine.toml line 9): may be neither read nor changed
    note: `host.confinement` = none (mine.toml line 20): on `host` nothing confines a run
    ");
}

#[test]
fn what_grants_a_path() {
    insta::assert_snapshot!(
        explain(&[TOOL, "--path", "notes.txt", "--path", "/srv/results/a", "--path", "/srv/data/a",
            "--path", "/usr/bin/env", "--path", "/etc/shadow", "--path", "/tmp/a"]),
        @r#"
    `bash_coding_tool.execute` runs when a person has agreed.
      served     `tools.default_mode` = activate (default): no rule of `[tools]` is about it
      approval   `bash_*` = always (mine.toml line 23): asks before every run
      backends   bubblewrap, host (mine.toml line 2), the first that works
                 bubblewrap: asks, since the rule says so every time
                 host: asks, since nothing confines a run on host here
      require    files full, network full, processes full, privileges full, limits partial

    `[PLACE]/work/project/notes.txt` can be read and changed by a run.
      granted    in the workspace `[PLACE]/work/project`: `filesystem.workspace` = write (mine.toml line 5)
    note: `host.confinement` = none (mine.toml line 20): on `host` nothing confines a run

    `/srv/results/a` can be read and changed by a run.
      granted    `filesystem.write` entry 1, `/srv/results` (mine.toml line 6): where training leaves its results
    note: `host.confinement` = none (mine.toml line 20): on `host` nothing confines a run

    `/srv/data/a` can be read by a run, and not changed.
      granted    `workspace.read_whitelist_paths` entry 1, `/srv/data` (cofferdam.toml)
    note: `host.confinement` = none (mine.toml line 20): on `host` nothing confines a run

    `/usr/bin/env` can be read by a run, and not changed.
      granted    `filesystem.read` entry 1, `/usr` (parent.toml line 4): interpreters, libraries and commands
    note: `host.confinement` = none (mine.toml line 20): on `host` nothing confines a run

    `/etc/shadow` can be neither read nor changed by a run.
      granted    by nothing: it lies neither in the workspace nor in what the profile or a whitelist grants
    note: what the tool's own interpreter needs is granted beside this when a run starts
    note: `host.confinement` = none (mine.toml line 20): on `host` nothing confines a run
    hint: to grant it, add `{ path = "/etc/shadow", why = "…" }` to `filesystem.read` or `filesystem.write` in [PLACE]/work/sandbox-profiles/mine.toml

    `/tmp/a` is each run's own, in memory: it is not this machine's.
    note: `host.confinement` = none (mine.toml line 20): on `host` nothing confines a run
    "#
    );
}

#[test]
fn why_can_a_host_not_be_reached() {
    insta::assert_snapshot!(
        explain(&[TOOL, "--host", "idx.test:443", "--host", "a.example.org:443",
            "--host", "10.0.0.1:80"]),
        @r#"
    `bash_coding_tool.execute` runs when a person has agreed.
      served     `tools.default_mode` = activate (default): no rule of `[tools]` is about it
      approval   `bash_*` = always (mine.toml line 23): asks before every run
      backends   bubblewrap, host (mine.toml line 2), the first that works
                 bubblewrap: asks, since the rule says so every time
                 host: asks, since nothing confines a run on host here
      require    files full, network full, processes full, privileges full, limits partial

    `idx.test:443` cannot be reached by a run.
      decided    `network.mode` = allowlist (mine.toml line 13), and nothing in `network.allow` (mine.toml line 14) is about it
    note: `host.confinement` = none (mine.toml line 20): on `host` nothing confines a run
    hint: to grant it, add "idx.test:443" to `network.allow` in [PLACE]/work/sandbox-profiles/mine.toml

    `a.example.org:443` can be reached by a run.
      decided    `network.allow` `*.example.org:443` (mine.toml line 15), unless the name leads to a private address
    note: `host.confinement` = none (mine.toml line 20): on `host` nothing confines a run

    `10.0.0.1:80` cannot be reached by a run.
      decided    `network.deny_private` (parent.toml line 8): it is a private address
    note: `host.confinement` = none (mine.toml line 20): on `host` nothing confines a run
    "#
    );
}

#[test]
fn json_names_the_rule_the_file_and_the_line() {
    let json = world()
        .run(&[
            "profile",
            "explain",
            "mine",
            TOOL,
            "--json",
            "--path",
            "b/.env",
            "--host",
            "a.example.org:443",
        ])
        .json();
    let file = "[PLACE]/work/sandbox-profiles/mine.toml";
    assert_eq!(json["tool"]["verdict"], "asks");
    assert_eq!(json["tool"]["served"], serde_json::json!({ "active": true, "rule": null }));
    assert_eq!(
        json["tool"]["approval"],
        serde_json::json!({
            "pattern": "bash_*",
            "when": "always",
            "origin": { "from": "file", "profile": "mine", "file": file, "line": 23 },
        })
    );
    let path = &json["paths"][0];
    assert_eq!((&path["access"], &path["granted"]["by"]), (&"none".into(), &"workspace".into()));
    assert_eq!(path["carved_out"]["glob"], "**/.env");
    assert_eq!(path["carved_out"]["origin"]["line"], 8);
    let host = &json["hosts"][0];
    assert_eq!((&host["verdict"], &host["rule"]), (&"allowed".into(), &"network.allow[0]".into()));
    assert_eq!(host["origin"]["line"], 15);
}

#[test]
fn another_workspace_can_be_asked_about() {
    let world = world();
    let other = world.path("other");
    std::fs::create_dir(&other).expect("a folder can be made");
    let explained =
        world.run(&["profile", "explain", "mine", TOOL, "-w", "../other", "--path", "a"]);
    assert!(
        explained.text().contains("`[PLACE]/other/a` can be read and changed"),
        "{explained:?}"
    );
}

#[test]
fn a_workspace_that_is_a_link_is_asked_about_as_runs_see_it() {
    let world = world();
    std::os::unix::fs::symlink(world.path("work/project"), world.path("link")).expect("a link");
    let explained =
        world.run(&["profile", "explain", "mine", TOOL, "-w", "../link", "--path", "a"]);
    assert!(explained.text().contains("`[PLACE]/work/project/a` can be"), "{explained:?}");
}

#[test]
fn a_question_that_cannot_be_meant_is_a_usage_error() {
    let world = world();
    for arguments in [
        ["--path", "../a"],
        ["--path", "/usr/../etc"],
        ["--path", ""],
        ["--host", "example.org"],
        ["--host", "user@example.org:443"],
        ["--host", "0x7f.1:80"],
    ] {
        let all: Vec<_> =
            ["profile", "explain", "mine", TOOL].iter().chain(&arguments).copied().collect();
        let refused = world.run(&all);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.starts_with("error: "), "{refused:?}");
    }
}

#[test]
fn nothing_of_what_a_question_says_reaches_the_terminal_raw() {
    let explained = explain(&["a\u{1b}[31m", "--path", "b\u{1b}[32m\u{202e}"]);
    assert!(!explained.contains(['\u{1b}', '\u{202e}']), "{explained:?}");
}

/// An admin's file can be written by a program.
#[test]
fn a_hundred_thousand_rules_are_explained() {
    let rules: String =
        (0..100_000).map(|index| format!("\"tool_{index}.*\" = \"always\"\n")).collect();
    let world = World::with("", &[("mine", &format!("extends = \"base\"\n[approval]\n{rules}"))]);
    let json = world.run(&["profile", "explain", "mine", "tool_99999.run", "--json"]).json();
    assert_eq!(json["tool"]["approval"]["origin"]["line"], 100_002);
    assert_eq!(json["tool"]["verdict"], "asks");
}
