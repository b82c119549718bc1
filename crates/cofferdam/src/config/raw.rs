//! `cofferdam.toml` as an admin writes it: one field per key, nothing decided.
//!
//! These types are the only list of known keys, their bounds and their examples: the JSON Schema
//! and the errors are made from them. What the values mean is decided in `resolve`.

use schemars::JsonSchema;
use serde::Deserialize;

/// The server's configuration, `cofferdam.toml`.
///
/// Strict: an unknown key is an error. Every value but the tokens can be overridden by
/// `COFFERDAM_<SECTION>__<KEY>`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Cofferdam server configuration")]
pub(crate) struct RawConfig {
    /// How clients are served.
    pub(crate) server: RawServer,
    /// What runs and file tools work on.
    pub(crate) workspace: RawWorkspace,
    /// How calls are carried out.
    pub(crate) execution: RawExecution,
    /// Which tools there are.
    pub(crate) tools: RawTools,
    /// How people are asked.
    pub(crate) approval: RawApproval,
    /// How calls are recorded.
    pub(crate) audit: RawAudit,
    /// Who may call over HTTP.
    pub(crate) token: Option<Vec<RawToken>>,
}

/// How clients are served.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Server")]
pub(crate) struct RawServer {
    /// Address to listen on.
    #[schemars(example = &"127.0.0.1")]
    pub(crate) host: Option<String>,
    /// Port to listen on; 0 picks a free one.
    #[schemars(range(min = 0, max = 65535), example = 8050)]
    pub(crate) port: Option<u16>,
    /// Path of the endpoint.
    #[schemars(example = &"/mcp")]
    pub(crate) path: Option<String>,
    /// Which spelling of the tools' names is listed.
    pub(crate) tool_names: Option<RawToolNames>,
    /// The form of structured results.
    pub(crate) result_form: Option<RawResultForm>,
    /// Add an image block for a result that has a picture.
    pub(crate) inline_images: Option<bool>,
    /// Further names that a `Host` or `Origin` header may carry; loopback names are always there.
    #[schemars(example = words("cofferdam.example.org"))]
    pub(crate) allowed_hosts: Option<Vec<String>>,
    /// How long calls under way may go on after the order to stop.
    #[schemars(example = &"20s")]
    pub(crate) drain: Option<String>,
}

/// Which spelling of the tools' names is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ToolNames")]
pub(crate) enum RawToolNames {
    /// `python_coding_tool.execute`
    Dotted,
    /// `python_coding_tool_execute`, for clients that take no dots.
    Underscore,
    /// Each tool under both names.
    Both,
}

/// The form of structured results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ResultForm")]
pub(crate) enum RawResultForm {
    /// `{"result": N}`
    Wrapped,
    /// `N` itself.
    Plain,
}

/// What runs and file tools work on.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Workspace")]
pub(crate) struct RawWorkspace {
    /// The workspace, or with `per_session` the folder that holds one workspace per session.
    /// Relative to the folder of this file.
    #[schemars(example = &".")]
    pub(crate) root: Option<String>,
    /// Whether each session has a workspace of its own.
    pub(crate) per_session: Option<bool>,
    /// Absolute paths that runs and file tools may read.
    #[schemars(example = words("/srv/data"))]
    pub(crate) read_whitelist_paths: Option<Vec<String>>,
    /// Absolute paths that runs and file tools may change.
    #[schemars(example = words("/srv/results"))]
    pub(crate) write_whitelist_paths: Option<Vec<String>>,
    /// What becomes of file calls on other paths.
    pub(crate) outside: Option<Outside>,
}

/// What becomes of file calls outside all allowed roots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outside {
    /// A person is asked; if nobody can be, they are refused.
    Ask,
    /// They are refused.
    Deny,
}

/// How calls are carried out.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Execution")]
pub(crate) struct RawExecution {
    /// Profile of calls that name none.
    #[schemars(example = &"default")]
    pub(crate) default_profile: Option<String>,
    /// Folders of sandbox profiles, relative to the folder of this file. A profile in one of them
    /// takes the place of the built-in profile of the same name.
    #[schemars(example = words("sandbox-profiles"))]
    pub(crate) profile_dirs: Option<Vec<String>>,
    /// In which order the calls of a session run.
    pub(crate) mode: Option<Mode>,
    /// Most calls that run at once in the whole server.
    #[schemars(range(min = 1, max = 1024), example = 8)]
    pub(crate) max_running: Option<u32>,
    /// Most calls that wait for their turn; beyond it callers are told at once that it is busy.
    #[schemars(range(min = 0, max = 65536), example = 64)]
    pub(crate) max_queued: Option<u32>,
    /// How often in a row a worker that died is started again; 0 ends the server instead.
    #[schemars(range(min = 0, max = 1000), example = 5)]
    pub(crate) worker_restart_limit: Option<u32>,
}

/// In which order the calls of a session run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// One after the other, in the order they came.
    Serial,
    /// At once.
    Concurrent,
}

/// Which tools there are.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Tools")]
pub(crate) struct RawTools {
    /// What holds for a tool that no rule matches.
    pub(crate) default_mode: Option<ToolMode>,
    /// Rules by tool name; the first match decides.
    #[schemars(example = example_rule())]
    pub(crate) rule: Option<Vec<RawToolRule>>,
}

/// A rule by tool name.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ToolRule")]
pub(crate) struct RawToolRule {
    /// What the rule does.
    pub(crate) mode: ToolMode,
    /// Shell-style glob over the whole name, case-sensitive.
    #[schemars(example = &"uv_tool.*")]
    pub(crate) pattern: String,
}

/// Whether a tool is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolMode {
    /// It is listed and can be called.
    Activate,
    /// It is neither listed nor can it be called.
    Deactivate,
}

/// How people are asked.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Approval")]
pub(crate) struct RawApproval {
    /// How long a call waits for an answer.
    #[schemars(example = &"5m")]
    pub(crate) wait: Option<String>,
    /// Who is asked.
    pub(crate) channel: Option<Channel>,
}

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Channel {
    /// The caller's person where the client can ask, else the admin.
    Auto,
    /// The caller's person, through the client.
    Elicitation,
    /// The admin, through `cofferdam approvals`.
    Admin,
    /// Nobody: what needs approval is refused.
    None,
}

/// How calls are recorded: that and how each ran, never its arguments or output.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Audit")]
pub(crate) struct RawAudit {
    /// The log, relative to the folder of this file; rotated files are beside it. If left out,
    /// `cofferdam/audit.jsonl` in the user's state folder (`$XDG_STATE_HOME`, else `~/.local/state`).
    #[schemars(example = &"/var/log/cofferdam/audit.jsonl")]
    pub(crate) path: Option<String>,
    /// Whether calls are recorded. If neither this nor `path` is given, those of servers are, and
    /// those of `cofferdam run` and `call` are not.
    pub(crate) enabled: Option<bool>,
    /// What becomes of a call that cannot be recorded.
    pub(crate) on_error: Option<OnError>,
    /// Size from which on a new file is begun.
    #[schemars(range(min = 1, max = 65536), example = 64)]
    pub(crate) rotate_mib: Option<u32>,
    /// How many rotated files are kept; older ones are removed.
    #[schemars(range(min = 1, max = 1000), example = 8)]
    pub(crate) keep: Option<u32>,
}

/// What becomes of a call that cannot be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnError {
    /// It does not run.
    Refuse,
    /// It runs, and the server's log says that it was not recorded.
    Warn,
}

/// A caller over HTTP.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Token")]
pub(crate) struct RawToken {
    /// Name of the caller, for logs and the audit.
    #[schemars(example = &"ci-agent")]
    pub(crate) name: String,
    /// SHA-256 of the bearer token, in hexadecimal.
    #[schemars(example = &"0000000000000000000000000000000000000000000000000000000000000000")]
    pub(crate) sha256: String,
    /// Profiles that this caller may use; all if left out.
    #[schemars(example = words("default"))]
    pub(crate) profiles: Option<Vec<String>>,
    /// Globs of the tools that this caller may call; all if left out.
    #[schemars(example = words("python_coding_tool.*"))]
    pub(crate) tools: Option<Vec<String>>,
    /// Most calls of this caller that run at once.
    #[schemars(range(min = 1, max = 1024), example = 2)]
    pub(crate) max_running: Option<u32>,
}

fn words(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}

fn example_rule() -> serde_json::Value {
    serde_json::json!([{ "mode": "deactivate", "pattern": "uv_tool.*" }])
}
