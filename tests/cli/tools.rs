//! `cofferdam tools`

use std::process::Stdio;

use crate::support::{Finish, World};

#[test]
fn the_table_names_every_tool() {
    let world = World::new();
    let finished = world.cofferdam().arg("tools").finish().expect_code(0);
    for tool in ["python_coding_tool.execute", "bash_coding_tool.execute"] {
        assert!(finished.stdout.contains(tool), "{finished:?}");
    }
    assert_eq!(finished.stderr, "");
}

#[test]
fn json_has_a_schema_for_every_tool() {
    let world = World::new();
    let tools = world.cofferdam().args(["tools", "--json"]).finish().expect_code(0).json();
    let tools = tools.as_array().expect("an array");
    assert!(tools.len() >= 3);
    for tool in tools {
        assert!(tool["name"].is_string() && tool["description"].is_string(), "{tool}");
        assert_eq!(tool["input_schema"]["type"], "object", "{tool}");
        assert_eq!(tool["input_schema"]["additionalProperties"], false, "{tool}");
    }
}

#[test]
fn a_reader_that_is_gone_is_no_error_message() {
    let world = World::new();
    for arguments in [&["tools", "--json"][..], &["--help"], &["completions", "bash"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        drop(reader);
        let output = world
            .cofferdam()
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(Stdio::piped())
            .output()
            .expect("the program can be started");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}: {output:?}");
    }
}
