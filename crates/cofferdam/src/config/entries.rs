//! The resolved configuration as the keys and values of its file, in the order of the file.

use std::path::PathBuf;

use cofferdam_gateway::{ResultForm, ToolNames};
use cofferdam_policy::document::{Entry, Origin, shown_duration};
use serde_json::{Map, Value, json};

use super::{
    Config, Execution, Server, Token, Workspace, audit,
    raw::{Channel, Mode, Outside},
};

impl Config {
    /// Where a value came from, such as `cofferdam.toml line 3`, or `default`.
    pub(crate) fn origin_text(&self, key: &str) -> Option<String> {
        Some(match self.origins.get(key)? {
            Origin::Default => "default".to_owned(),
            Origin::Line { line } => {
                let file = self.file.as_ref().and_then(|file| file.path.file_name());
                format!("{} line {line}", file.unwrap_or_default().to_string_lossy())
            }
            Origin::Inherited { from, line } => format!("{from} line {line}"),
            Origin::Variable { name } | Origin::Option { name } => name.clone(),
        })
    }

    /// Every value under the key that an admin writes, each key once. Paths are absolute. The digest
    /// of a token is shortened: whoever reads a listing need not be able to try tokens against it.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        if !self.tokens.is_empty() {
            entries.push(Entry::new("", "token", self.tokens.iter().map(token).collect::<Value>()));
        }
        entries.extend(server(&self.server));
        entries.extend(workspace(&self.workspace));
        entries.extend(execution(&self.execution));
        let mode = |active: bool| if active { "activate" } else { "deactivate" };
        let rules = self.tools.rules.iter();
        let rules: Value = rules
            .map(|rule| json!({ "mode": mode(rule.active), "pattern": rule.pattern.as_str() }))
            .collect();
        entries.extend([
            Entry::new("tools", "default_mode", mode(self.tools.default_active)),
            Entry::new("tools", "rule", rules),
            Entry::new("approval", "wait", shown_duration(self.approval.wait)),
            Entry::new(
                "approval",
                "channel",
                match self.approval.channel {
                    Channel::Auto => "auto",
                    Channel::Elicitation => "elicitation",
                    Channel::Admin => "admin",
                    Channel::None => "none",
                },
            ),
        ]);
        entries.extend(audit::entries(&self.audit));
        entries
    }
}

fn server(server: &Server) -> [Entry; 8] {
    const TABLE: &str = "server";
    let tool_names = match server.tool_names {
        ToolNames::Dotted => "dotted",
        ToolNames::Underscore => "underscore",
        ToolNames::Both => "both",
    };
    let result_form = match server.result_form {
        ResultForm::Wrapped => "wrapped",
        ResultForm::Plain => "plain",
    };
    [
        Entry::new(TABLE, "host", server.host.as_str()),
        Entry::new(TABLE, "port", server.port),
        Entry::new(TABLE, "path", server.path.as_str()),
        Entry::new(TABLE, "tool_names", tool_names),
        Entry::new(TABLE, "result_form", result_form),
        Entry::new(TABLE, "inline_images", server.inline_images),
        Entry::new(TABLE, "allowed_hosts", json!(server.allowed_hosts)),
        Entry::new(TABLE, "drain", shown_duration(server.drain)),
    ]
}

fn workspace(workspace: &Workspace) -> [Entry; 5] {
    const TABLE: &str = "workspace";
    let outside = match workspace.outside {
        Outside::Ask => "ask",
        Outside::Deny => "deny",
    };
    [
        Entry::new(TABLE, "root", workspace.root.to_string_lossy()),
        Entry::new(TABLE, "per_session", workspace.per_session),
        Entry::new(TABLE, "read_whitelist_paths", paths(&workspace.read_whitelist_paths)),
        Entry::new(TABLE, "write_whitelist_paths", paths(&workspace.write_whitelist_paths)),
        Entry::new(TABLE, "outside", outside),
    ]
}

fn execution(execution: &Execution) -> [Entry; 6] {
    const TABLE: &str = "execution";
    let mode = match execution.mode {
        Mode::Serial => "serial",
        Mode::Concurrent => "concurrent",
    };
    [
        Entry::new(TABLE, "default_profile", execution.default_profile.as_str()),
        Entry::new(TABLE, "profile_dirs", paths(&execution.profile_dirs)),
        Entry::new(TABLE, "mode", mode),
        Entry::new(TABLE, "max_running", execution.max_running),
        Entry::new(TABLE, "max_queued", execution.max_queued),
        Entry::new(TABLE, "worker_restart_limit", execution.worker_restart_limit),
    ]
}

fn paths(paths: &[PathBuf]) -> Value {
    paths.iter().map(|path| path.to_string_lossy()).collect()
}

fn token(token: &Token) -> Value {
    let digest: String = token.sha256[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    let mut shown = Map::new();
    shown.insert("name".to_owned(), json!(token.name));
    shown.insert("sha256".to_owned(), json!(format!("{digest}…")));
    let limits = [
        ("profiles", token.profiles.as_ref().map(|names| json!(names))),
        ("tools", token.tools.as_ref().map(|globs| json!(globs))),
        ("max_running", token.max_running.map(Value::from)),
    ];
    for (key, value) in limits {
        if let Some(value) = value {
            shown.insert(key.to_owned(), value);
        }
    }
    Value::Object(shown)
}
