//! Every profile that is shipped, shown to be what it says: loaded, checked and explained.

use crate::support::World;

const SHIPPED: [&str; 8] = [
    "base",
    "container",
    "default",
    "gvisor",
    "host-guarded",
    "host-unconfined",
    "offline-strict",
    "uv",
];

/// The same questions to each of them. Lines are left out: they move with every comment.
#[track_caller]
fn explained(name: &str) -> String {
    let world = World::new();
    let arguments = [
        "profile",
        "explain",
        name,
        "python_coding_tool.execute",
        "--path",
        "notes.txt",
        "--path",
        ".env",
        "--path",
        ".git/hooks/pre-commit",
        "--path",
        "/usr/bin/env",
        "--path",
        "/root/.ssh/id_ed25519",
        "--host",
        "idx.test:443",
        "--host",
        "169.254.169.254:80",
    ];
    let text = world.run(&arguments).text().to_owned();
    let mut without_lines = String::new();
    for part in text.split_inclusive(" line ") {
        let rest = part.trim_start_matches(|character: char| character.is_ascii_digit());
        without_lines.push_str(if rest.len() < part.len() { "N" } else { "" });
        without_lines.push_str(rest);
    }
    without_lines
}

#[test]
fn every_shipped_profile_is_sound_as_a_file_of_its_own() {
    let world = World::new();
    for name in SHIPPED {
        let shown = world.run(&["profile", "show", name]);
        world.write(&format!("work/{name}.toml"), shown.text());
        let checked = world.run(&["profile", "check", &format!("{name}.toml")]);
        assert_eq!(checked.text(), format!("{name}.toml: ok\n"));
    }
}

#[test]
fn base_is_explained() {
    insta::assert_snapshot!(explained("base"), @r#"
    `python_coding_tool.execute` runs without asking anybody.
      served     `tools.default_mode` = activate (default): no rule of `[tools]` is about it
      approval   `*` = unsandboxed (base.toml line N): asks before a run that nothing would confine
      backends   bubblewrap, container, host (base.toml line N), the first that works
      require    files full, network full, processes full, privileges full, limits partial

    `[PLACE]/work/notes.txt` can be read by a run, and not changed.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = read (base.toml line N)

    `[PLACE]/work/.env` can be neither read nor changed by a run.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = read (base.toml line N)
      carved out `filesystem.deny` `**/.env` (base.toml line N): may be neither read nor changed

    `[PLACE]/work/.git/hooks/pre-commit` can be read by a run, and not changed.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = read (base.toml line N)
      carved out `filesystem.protect` `**/.git/hooks` (base.toml line N): may be read, never changed, renamed away or created

    `/usr/bin/env` can be read by a run, and not changed.
      granted    `filesystem.read` entry 1, `/usr` (base.toml line N): interpreters, libraries and commands

    `/root/.ssh/id_ed25519` can be neither read nor changed by a run.
      granted    by nothing: it lies neither in the workspace nor in what the profile or a whitelist grants
    note: what the tool's own interpreter needs is granted beside this when a run starts
    note: a container's image has files of its own at any path
    hint: to grant it, add `{ path = "/root/.ssh/id_ed25519", why = "…" }` to `filesystem.read` or `filesystem.write` in a profile of your own; `cofferdam profile show base` prints one to begin with

    `idx.test:443` cannot be reached by a run.
      decided    `network.mode` = none (base.toml line N): there is no route to anywhere
    hint: to grant it, add `mode = "allowlist"` to `[network]` and "idx.test:443" to `network.allow` in a profile of your own; `cofferdam profile show base` prints one to begin with

    `169.254.169.254:80` cannot be reached by a run.
      decided    `network.mode` = none (base.toml line N): there is no route to anywhere
    "#);
}

#[test]
fn container_is_explained() {
    insta::assert_snapshot!(explained("container"), @r#"
    `python_coding_tool.execute` runs without asking anybody.
      served     `tools.default_mode` = activate (default): no rule of `[tools]` is about it
      approval   `*` = unsandboxed (base.toml line N): asks before a run that nothing would confine
      backends   container (container.toml line N), the first that works
      require    files full, network full, processes full, privileges full, limits partial

    `[PLACE]/work/notes.txt` can be read and changed by a run.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = write (container.toml line N)

    `[PLACE]/work/.env` can be neither read nor changed by a run.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = write (container.toml line N)
      carved out `filesystem.deny` `**/.env` (base.toml line N): may be neither read nor changed

    `[PLACE]/work/.git/hooks/pre-commit` can be read by a run, and not changed.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = write (container.toml line N)
      carved out `filesystem.protect` `**/.git/hooks` (base.toml line N): may be read, never changed, renamed away or created

    `/usr/bin/env` can be neither read nor changed by a run.
      granted    by nothing: it lies neither in the workspace nor in what the profile or a whitelist grants
    note: what the tool's own interpreter needs is granted beside this when a run starts
    note: a container's image has files of its own at any path
    hint: to grant it, add `{ path = "/usr/bin/env", why = "…" }` to `filesystem.read` or `filesystem.write` in a profile of your own; `cofferdam profile show container` prints one to begin with

    `/root/.ssh/id_ed25519` can be neither read nor changed by a run.
      granted    by nothing: it lies neither in the workspace nor in what the profile or a whitelist grants
    note: what the tool's own interpreter needs is granted beside this when a run starts
    note: a container's image has files of its own at any path
    hint: to grant it, add `{ path = "/root/.ssh/id_ed25519", why = "…" }` to `filesystem.read` or `filesystem.write` in a profile of your own; `cofferdam profile show container` prints one to begin with

    `idx.test:443` cannot be reached by a run.
      decided    `network.mode` = none (container.toml line N): there is no route to anywhere
    hint: to grant it, add `mode = "allowlist"` to `[network]` and "idx.test:443" to `network.allow` in a profile of your own; `cofferdam profile show container` prints one to begin with

    `169.254.169.254:80` cannot be reached by a run.
      decided    `network.mode` = none (container.toml line N): there is no route to anywhere
    "#);
}

#[test]
fn default_is_explained() {
    insta::assert_snapshot!(explained("default"), @r#"
    `python_coding_tool.execute` runs without asking anybody.
      served     `tools.default_mode` = activate (default): no rule of `[tools]` is about it
      approval   `*` = unsandboxed (base.toml line N): asks before a run that nothing would confine
      backends   bubblewrap, container, host (base.toml line N), the first that works
      require    files full, network full, processes full, privileges full, limits partial

    `[PLACE]/work/notes.txt` can be read and changed by a run.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = write (default.toml line N)

    `[PLACE]/work/.env` can be neither read nor changed by a run.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = write (default.toml line N)
      carved out `filesystem.deny` `**/.env` (base.toml line N): may be neither read nor changed

    `[PLACE]/work/.git/hooks/pre-commit` can be read by a run, and not changed.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = write (default.toml line N)
      carved out `filesystem.protect` `**/.git/hooks` (base.toml line N): may be read, never changed, renamed away or created

    `/usr/bin/env` can be read by a run, and not changed.
      granted    `filesystem.read` entry 1, `/usr` (base.toml line N): interpreters, libraries and commands

    `/root/.ssh/id_ed25519` can be neither read nor changed by a run.
      granted    by nothing: it lies neither in the workspace nor in what the profile or a whitelist grants
    note: what the tool's own interpreter needs is granted beside this when a run starts
    note: a container's image has files of its own at any path
    hint: to grant it, add `{ path = "/root/.ssh/id_ed25519", why = "…" }` to `filesystem.read` or `filesystem.write` in a profile of your own; `cofferdam profile show default` prints one to begin with

    `idx.test:443` cannot be reached by a run.
      decided    `network.mode` = none (default.toml line N): there is no route to anywhere
    hint: to grant it, add `mode = "allowlist"` to `[network]` and "idx.test:443" to `network.allow` in a profile of your own; `cofferdam profile show default` prints one to begin with

    `169.254.169.254:80` cannot be reached by a run.
      decided    `network.mode` = none (default.toml line N): there is no route to anywhere
    "#);
}

#[test]
fn gvisor_is_explained() {
    insta::assert_snapshot!(explained("gvisor"), @r#"
    `python_coding_tool.execute` runs without asking anybody.
      served     `tools.default_mode` = activate (default): no rule of `[tools]` is about it
      approval   `*` = unsandboxed (base.toml line N): asks before a run that nothing would confine
      backends   container (gvisor.toml line N), the first that works
      require    files full, network full, processes full, privileges full, limits partial

    `[PLACE]/work/notes.txt` can be read and changed by a run.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = write (gvisor.toml line N)

    `[PLACE]/work/.env` can be neither read nor changed by a run.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = write (gvisor.toml line N)
      carved out `filesystem.deny` `**/.env` (base.toml line N): may be neither read nor changed

    `[PLACE]/work/.git/hooks/pre-commit` can be read by a run, and not changed.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = write (gvisor.toml line N)
      carved out `filesystem.protect` `**/.git/hooks` (base.toml line N): may be read, never changed, renamed away or created

    `/usr/bin/env` can be neither read nor changed by a run.
      granted    by nothing: it lies neither in the workspace nor in what the profile or a whitelist grants
    note: what the tool's own interpreter needs is granted beside this when a run starts
    note: a container's image has files of its own at any path
    hint: to grant it, add `{ path = "/usr/bin/env", why = "…" }` to `filesystem.read` or `filesystem.write` in a profile of your own; `cofferdam profile show gvisor` prints one to begin with

    `/root/.ssh/id_ed25519` can be neither read nor changed by a run.
      granted    by nothing: it lies neither in the workspace nor in what the profile or a whitelist grants
    note: what the tool's own interpreter needs is granted beside this when a run starts
    note: a container's image has files of its own at any path
    hint: to grant it, add `{ path = "/root/.ssh/id_ed25519", why = "…" }` to `filesystem.read` or `filesystem.write` in a profile of your own; `cofferdam profile show gvisor` prints one to begin with

    `idx.test:443` cannot be reached by a run.
      decided    `network.mode` = none (gvisor.toml line N): there is no route to anywhere
    hint: to grant it, add `mode = "allowlist"` to `[network]` and "idx.test:443" to `network.allow` in a profile of your own; `cofferdam profile show gvisor` prints one to begin with

    `169.254.169.254:80` cannot be reached by a run.
      decided    `network.mode` = none (gvisor.toml line N): there is no route to anywhere
    "#);
}

#[test]
fn host_guarded_is_explained() {
    insta::assert_snapshot!(explained("host-guarded"), @r#"
    `python_coding_tool.execute` runs without asking anybody.
      served     `tools.default_mode` = activate (default): no rule of `[tools]` is about it
      approval   `*` = unsandboxed (base.toml line N): asks before a run that nothing would confine
      backends   host (host-guarded.toml line N), the first that works
      require    files partial, network partial, processes partial, privileges full, limits partial

    `[PLACE]/work/notes.txt` can be read and changed by a run.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = write (host-guarded.toml line N)
    note: `require.files` = partial (host-guarded.toml line N): a backend that does not hold all of this may be used; each reply says what was held

    `[PLACE]/work/.env` can be neither read nor changed by a run.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = write (host-guarded.toml line N)
      carved out `filesystem.deny` `**/.env` (base.toml line N): may be neither read nor changed
    note: `require.files` = partial (host-guarded.toml line N): a backend that does not hold all of this may be used; each reply says what was held

    `[PLACE]/work/.git/hooks/pre-commit` can be read by a run, and not changed.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = write (host-guarded.toml line N)
      carved out `filesystem.protect` `**/.git/hooks` (base.toml line N): may be read, never changed, renamed away or created
    note: `require.files` = partial (host-guarded.toml line N): a backend that does not hold all of this may be used; each reply says what was held

    `/usr/bin/env` can be read by a run, and not changed.
      granted    `filesystem.read` entry 1, `/usr` (base.toml line N): interpreters, libraries and commands
    note: `require.files` = partial (host-guarded.toml line N): a backend that does not hold all of this may be used; each reply says what was held

    `/root/.ssh/id_ed25519` can be neither read nor changed by a run.
      granted    by nothing: it lies neither in the workspace nor in what the profile or a whitelist grants
    note: what the tool's own interpreter needs is granted beside this when a run starts
    note: `require.files` = partial (host-guarded.toml line N): a backend that does not hold all of this may be used; each reply says what was held
    hint: to grant it, add `{ path = "/root/.ssh/id_ed25519", why = "…" }` to `filesystem.read` or `filesystem.write` in a profile of your own; `cofferdam profile show host-guarded` prints one to begin with

    `idx.test:443` cannot be reached by a run.
      decided    `network.mode` = none (host-guarded.toml line N): there is no route to anywhere
    note: `require.network` = partial (host-guarded.toml line N): a backend that does not hold all of this may be used; each reply says what was held
    hint: to grant it, add `mode = "allowlist"` to `[network]` and "idx.test:443" to `network.allow` in a profile of your own; `cofferdam profile show host-guarded` prints one to begin with

    `169.254.169.254:80` cannot be reached by a run.
      decided    `network.mode` = none (host-guarded.toml line N): there is no route to anywhere
    note: `require.network` = partial (host-guarded.toml line N): a backend that does not hold all of this may be used; each reply says what was held
    "#);
}

#[test]
fn host_unconfined_is_explained() {
    insta::assert_snapshot!(explained("host-unconfined"), @"
    `python_coding_tool.execute` runs when a person has agreed.
      served     `tools.default_mode` = activate (default): no rule of `[tools]` is about it
      approval   `*` = always (host-unconfined.toml line N): asks before every run
      backends   host (host-unconfined.toml line N), the first that works
                 host: asks, since nothing confines a run on host here
      require    files none, network none, processes none, privileges none, limits none

    `[PLACE]/work/notes.txt` is as open to a run as to the server itself.
      granted    `host.confinement` = none (host-unconfined.toml line N): nothing confines a run

    `[PLACE]/work/.env` is as open to a run as to the server itself.
      granted    `host.confinement` = none (host-unconfined.toml line N): nothing confines a run

    `[PLACE]/work/.git/hooks/pre-commit` is as open to a run as to the server itself.
      granted    `host.confinement` = none (host-unconfined.toml line N): nothing confines a run

    `/usr/bin/env` is as open to a run as to the server itself.
      granted    `host.confinement` = none (host-unconfined.toml line N): nothing confines a run

    `/root/.ssh/id_ed25519` is as open to a run as to the server itself.
      granted    `host.confinement` = none (host-unconfined.toml line N): nothing confines a run

    `idx.test:443` can be reached by a run.
      decided    `host.confinement` = none (host-unconfined.toml line N): nothing confines a run

    `169.254.169.254:80` can be reached by a run.
      decided    `host.confinement` = none (host-unconfined.toml line N): nothing confines a run
    ");
}

#[test]
fn offline_strict_is_explained() {
    insta::assert_snapshot!(explained("offline-strict"), @r#"
    `python_coding_tool.execute` runs without asking anybody.
      served     `tools.default_mode` = activate (default): no rule of `[tools]` is about it
      approval   `*` = unsandboxed (base.toml line N): asks before a run that nothing would confine
      backends   bubblewrap, container, host (base.toml line N), the first that works
      require    files full, network full, processes full, privileges full, limits full

    `[PLACE]/work/notes.txt` can be read by a run, and not changed.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = read (offline-strict.toml line N)

    `[PLACE]/work/.env` can be neither read nor changed by a run.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = read (offline-strict.toml line N)
      carved out `filesystem.deny` `**/.env` (base.toml line N): may be neither read nor changed

    `[PLACE]/work/.git/hooks/pre-commit` can be read by a run, and not changed.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = read (offline-strict.toml line N)
      carved out `filesystem.protect` `**/.git/hooks` (base.toml line N): may be read, never changed, renamed away or created

    `/usr/bin/env` can be read by a run, and not changed.
      granted    `filesystem.read` entry 1, `/usr` (base.toml line N): interpreters, libraries and commands

    `/root/.ssh/id_ed25519` can be neither read nor changed by a run.
      granted    by nothing: it lies neither in the workspace nor in what the profile or a whitelist grants
    note: what the tool's own interpreter needs is granted beside this when a run starts
    note: a container's image has files of its own at any path
    hint: to grant it, add `{ path = "/root/.ssh/id_ed25519", why = "…" }` to `filesystem.read` or `filesystem.write` in a profile of your own; `cofferdam profile show offline-strict` prints one to begin with

    `idx.test:443` cannot be reached by a run.
      decided    `network.mode` = none (offline-strict.toml line N): there is no route to anywhere
    hint: to grant it, add `mode = "allowlist"` to `[network]` and "idx.test:443" to `network.allow` in a profile of your own; `cofferdam profile show offline-strict` prints one to begin with

    `169.254.169.254:80` cannot be reached by a run.
      decided    `network.mode` = none (offline-strict.toml line N): there is no route to anywhere
    "#);
}

#[test]
fn uv_is_explained() {
    insta::assert_snapshot!(explained("uv"), @r#"
    `python_coding_tool.execute` runs without asking anybody.
      served     `tools.default_mode` = activate (default): no rule of `[tools]` is about it
      approval   `*` = unsandboxed (base.toml line N): asks before a run that nothing would confine
      backends   bubblewrap, container, host (base.toml line N), the first that works
      require    files full, network full, processes full, privileges full, limits partial

    `[PLACE]/work/notes.txt` can be read and changed by a run.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = write (uv.toml line N)

    `[PLACE]/work/.env` can be neither read nor changed by a run.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = write (uv.toml line N)
      carved out `filesystem.deny` `**/.env` (base.toml line N): may be neither read nor changed

    `[PLACE]/work/.git/hooks/pre-commit` can be read by a run, and not changed.
      granted    in the workspace `[PLACE]/work`: `filesystem.workspace` = write (uv.toml line N)
      carved out `filesystem.protect` `**/.git/hooks` (base.toml line N): may be read, never changed, renamed away or created

    `/usr/bin/env` can be read by a run, and not changed.
      granted    `filesystem.read` entry 1, `/usr` (base.toml line N): interpreters, libraries and commands

    `/root/.ssh/id_ed25519` can be neither read nor changed by a run.
      granted    by nothing: it lies neither in the workspace nor in what the profile or a whitelist grants
    note: what the tool's own interpreter needs is granted beside this when a run starts
    note: a container's image has files of its own at any path
    hint: to grant it, add `{ path = "/root/.ssh/id_ed25519", why = "…" }` to `filesystem.read` or `filesystem.write` in a profile of your own; `cofferdam profile show uv` prints one to begin with

    `idx.test:443` can be reached by a run only as one of a group.
      decided    `network.allow` `@python-index` (uv.toml line N): which hosts that is shows when a run starts, and nothing else in the list is about this one
    hint: to grant it, add "idx.test:443" to `network.allow` in a profile of your own; `cofferdam profile show uv` prints one to begin with

    `169.254.169.254:80` cannot be reached by a run.
      decided    `network.deny_private` (uv.toml line N): it is a private address
    "#);
}
