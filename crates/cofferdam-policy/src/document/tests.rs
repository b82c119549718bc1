//! Claims about reading documents.

use super::{Origin, nearest, read, schema_for, shown};

#[test]
fn a_misspelt_key_is_taken_for_the_one_that_was_meant() {
    let known = [
        "timeout",
        "timeout_max",
        "grace",
        "memory_mib",
        "pids",
        "cpus",
        "file_size_mib",
        "open_files",
        "output_kib",
        "output_file_mib",
        "disk_mib",
    ];
    let table = [
        ("memory_mb", Some("memory_mib")),
        ("memory-mib", Some("memory_mib")),
        ("MEMORY_MIB", Some("memory_mib")),
        ("memory", Some("memory_mib")),
        ("timout", Some("timeout")),
        ("max_timeout", Some("timeout_max")),
        ("timeout_s", Some("timeout")),
        ("timeoutmax", Some("timeout_max")),
        ("pid", Some("pids")),
        ("cpu", Some("cpus")),
        ("output_mib", Some("output_kib")),
        ("openfiles", Some("open_files")),
        ("disk", Some("disk_mib")),
        ("colour", None),
        ("x", None),
        ("", None),
    ];
    for (word, expected) in table {
        assert_eq!(nearest(word, known), expected, "{word}");
    }
}

#[test]
fn what_could_change_the_look_of_a_message_is_escaped() {
    assert_eq!(shown("a\u{202e}b\n\u{1b}[0m\u{200b}"), "a\\u{202e}b\\n\\u{1b}[0m\\u{200b}");
    assert_eq!(shown(&"ä".repeat(61)), format!("{}…", "ä".repeat(60)));
    assert_eq!(shown(&"ä".repeat(60)), "ä".repeat(60));
}

#[test]
fn lines_are_counted_with_either_line_ending_and_after_long_strings() {
    #[derive(Debug, Default, serde::Deserialize, schemars::JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    struct Pair {
        text: Option<String>,
        number: Option<u8>,
    }
    let schema = schema_for::<Pair>();
    for text in
        ["\n\nnumber = true", "\r\n\r\nnumber = true", "text = \"\"\"\n\"\"\"\nnumber = true"]
    {
        let error = read::<Pair>(text, &schema).expect_err("not a number").to_string();
        assert!(error.contains("at line 3"), "{error}");
    }
    let (pair, _) = read::<Pair>("text = \"a\"\nnumber = 7", &schema).expect("a pair");
    assert_eq!((pair.text.as_deref(), pair.number), (Some("a"), Some(7)));
}

#[test]
fn a_fault_can_be_told_of_a_variable_instead_of_a_line() {
    #[derive(Debug, Default, serde::Deserialize, schemars::JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    struct One {
        #[schemars(example = 8050)]
        port: Option<u16>,
    }
    let origin = Origin::Variable { name: "COFFERDAM_SERVER__PORT".to_owned() };
    let error = read::<One>("port = true", &schema_for::<One>()).expect_err("not a number");
    insta::assert_snapshot!(
        error.found_in(origin),
        @"`port` (variable `COFFERDAM_SERVER__PORT`) must be a whole number from 0 to 65535, not `true`"
    );
}
