//! Claims about reading documents.

use super::{nearest, read, read_variable, schema_for, shown};

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

#[derive(Debug, Default, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Variables {
    #[schemars(example = 8050)]
    port: Option<u16>,
    path: Option<String>,
    hosts: Option<Vec<String>>,
}

fn variable(key: &str, value: &str) -> Result<Variables, String> {
    let name = format!("X_{}", key.to_uppercase());
    read_variable(&name, &[key], value, &schema_for::<Variables>())
        .map_err(|error| error.to_string())
}

#[test]
fn a_variable_is_read_as_what_its_key_holds() {
    let read = |key, value| variable(key, value).expect(value);
    assert_eq!(read("port", " 80 ").port, Some(80));
    assert_eq!(read("path", "80").path.as_deref(), Some("80"));
    assert_eq!(read("path", "\"a\"\nport = 1").path.as_deref(), Some("\"a\"\nport = 1"));
    assert_eq!(read("hosts", r#"["a", "b"]"#).hosts.map(|hosts| hosts.len()), Some(2));
}

#[test]
fn a_variable_brings_no_keys_of_its_own() {
    let error = variable("port", "1\npath = 'x'").expect_err("two keys");
    insta::assert_snapshot!(error, @r#"`port` (variable `X_PORT`) must be a whole number from 0 to 65535, not the string `"1\npath = 'x'"`"#);
}

#[test]
fn a_wrong_variable_is_told_its_name() {
    insta::assert_snapshot!(variable("port", "eighty").expect_err("a word"), @r#"`port` (variable `X_PORT`) must be a whole number from 0 to 65535, not the string `"eighty"`"#);
    insta::assert_snapshot!(variable("port", "").expect_err("nothing"), @r#"`port` (variable `X_PORT`) must be a whole number from 0 to 65535, not the string `""`"#);
    insta::assert_snapshot!(variable("hosts", "a,b").expect_err("no list"), @r#"`hosts` (variable `X_HOSTS`) must be a list, not the string `"a,b"`"#);
    insta::assert_snapshot!(variable("prot", "80").expect_err("unknown"), @"unknown key `prot` (variable `X_PROT`)");
    insta::assert_snapshot!(variable("a b\u{1b}", "80").expect_err("unknown"), @r"unknown key `a b\u{1b}` (variable `X_A B\u{1b}`)");
}
