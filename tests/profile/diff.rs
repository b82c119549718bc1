//! `cofferdam profile diff`

use crate::support::World;

#[test]
fn each_difference_says_whether_the_second_profile_is_wider_or_tighter() {
    let world = World::with(
        "",
        &[
            (
                "one",
                "backends = [\"host\"]\n[network]\nmode = \"allowlist\"\n\
                 allow = [\"a.example:443\", \"b.example:443\"]\n[limits]\npids = 8",
            ),
            (
                "two",
                "backends = [\"host\"]\ndescription = \"Two.\"\nrequire = { files = \"none\" }\n\
                 [network]\nmode = \"allowlist\"\nallow = [\"*.example:443\", \"b.example:443\"]\n\
                 [limits]\npids = 4\n[container]\nruntime = \"runsc\"\n[environment.set]\nA = \"1\"",
            ),
        ],
    );
    insta::assert_snapshot!(world.run(&["profile", "diff", "one", "two"]).text(), @r#"
    description        neutral: "" → "Two."
    require.files      wider: "full" → "none"
    network.allow      wider
                         + "*.example:443"
                         - "a.example:443"
    environment.set.A  neutral: nothing → "1"
    limits.pids        tighter: 8 → 4
    container.runtime  unclear: "runc" → "runsc"

    `two` is wider than `one` in 2 and tighter in 1; 1 cannot be ordered.
    "#);
    insta::assert_snapshot!(world.run(&["profile", "diff", "two", "one"]).text(), @r#"
    description        neutral: "Two." → ""
    require.files      tighter: "none" → "full"
    network.allow      tighter
                         + "a.example:443"
                         - "*.example:443"
    limits.pids        wider: 4 → 8
    container.runtime  unclear: "runsc" → "runc"
    environment.set.A  neutral: "1" → nothing

    `one` is wider than `two` in 1 and tighter in 2; 1 cannot be ordered.
    "#);
}

#[test]
fn profiles_that_say_the_same_have_no_difference() {
    let world = World::new();
    let diff = world.run(&["profile", "diff", "uv", "uv"]);
    assert_eq!(diff.text(), "`uv` says the same as `uv`.\n");
    let json = world.run(&["profile", "diff", "uv", "uv", "--json"]).json();
    assert_eq!(json["differences"], serde_json::json!([]));
}

#[test]
fn json_has_the_values_and_what_a_list_got_and_lost() {
    let json = World::new().run(&["profile", "diff", "default", "uv", "--json"]).json();
    assert_eq!((&json["before"], &json["after"]), (&"default".into(), &"uv".into()));
    let differences = json["differences"].as_array().expect("a list");
    let of = |key: &str| differences.iter().find(|one| one["key"] == key).expect(key);
    assert_eq!(of("network.mode")["change"], "wider");
    assert_eq!(of("network.allow")["added"], serde_json::json!(["@python-index"]));
    assert_eq!(of("limits.memory_mib")["before"], 1024);
    assert_eq!(of("pool.warm")["change"], "neutral");
}

#[test]
fn a_profile_that_there_is_not_is_named() {
    let diff = World::new().run(&["profile", "diff", "default", "vu"]);
    assert_eq!(diff.code, 1);
    assert!(diff.stderr.contains("there is no profile `vu`"), "{diff:?}");
}
