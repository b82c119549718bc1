//! A world with a log of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::{
    BASH,
    support::{Finish, Finished, World},
};

/// A workspace, and a log beside it that everything writes.
pub(crate) struct Audited {
    pub(crate) world: World,
}

impl Audited {
    pub(crate) fn new() -> Self {
        Self { world: World::new() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.world.outside("log/audit.jsonl")
    }

    /// The program, configured to write the log.
    pub(crate) fn cofferdam(&self, arguments: &[&str]) -> Command {
        let mut command = self.world.cofferdam();
        command.args(arguments).env("COFFERDAM_AUDIT__PATH", self.path());
        command
    }

    pub(crate) fn finish(&self, arguments: &[&str]) -> Finished {
        self.cofferdam(arguments).finish()
    }

    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> Finished {
        self.finish(&["call", tool, &arguments.to_string()])
    }

    /// Calls that start nothing, each two records.
    pub(crate) fn calls(&self, count: usize) {
        for _ in 0..count {
            self.call("executor.get_attribute_payload", &json!({ "name": "limits" }))
                .expect_code(0);
        }
    }

    pub(crate) fn bash(&self, code: &str) -> Value {
        self.call(BASH, &json!({ "code": code })).expect_code(0).json()
    }

    /// The records as they stand in the file.
    pub(crate) fn records(&self) -> Vec<Value> {
        records(&self.path())
    }

    pub(crate) fn text(&self) -> String {
        fs::read_to_string(self.path()).expect("there is a log")
    }

    /// Writes the log anew, as somebody who may.
    pub(crate) fn tamper(&self, lines: &[&str]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(self.path(), text).expect("the log can be written");
    }

    /// `cofferdam audit …`
    pub(crate) fn audit(&self, arguments: &[&str]) -> Finished {
        self.finish(&[&["audit"], arguments].concat())
    }
}

/// The records of any log.
pub(crate) fn records(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("there is a log");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}
