//! What an executor is told by the program that starts it: once, and the rules again after a reload.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, time::Duration};

use cofferdam_policy::{profile::Profiles, tool_rules::ToolRules};

use crate::audit::AuditSettings;

/// Settings of one executor.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// The directory that code works in.
    pub workspace: PathBuf,
    /// What calls are decided by, to begin with.
    pub rules: Rules,
    /// Whether the calls of one session run one after the other, in the order they came.
    pub serial: bool,
    /// Most calls that run at once, in all sessions together. 0 counts as 1.
    pub max_running: usize,
    /// Most calls that wait for their turn; the next one is refused at once.
    pub max_queued: usize,
    /// The server's environment: profiles name what of it runs see, and its `PATH` is where
    /// programs of this machine are looked for.
    pub environment: BTreeMap<OsString, OsString>,
    /// Home directories, which must neither become a workspace nor visible as a whole.
    pub homes: Vec<PathBuf>,
    /// Profile chosen for the whole session; goes before the default one of the rules.
    pub session_profile: Option<String>,
    /// Backend chosen for the whole session, as written.
    pub backend: Option<String>,
    /// Where the tools that were switched on or off at run time are kept for the next worker, in a
    /// private folder; `None` keeps them in memory only.
    pub tools_file: Option<PathBuf>,
    /// How people are asked.
    pub approval: ApprovalSettings,
    /// Where calls are recorded; `None` for nowhere.
    pub audit: Option<AuditSettings>,
}

/// How people are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApprovalSettings {
    /// Who is asked.
    pub channel: ApprovalChannel,
    /// How long a call waits for an answer.
    pub wait: Duration,
    /// Whether the owner of this server can be reached: there is an admin socket.
    pub admin: bool,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        Self { channel: ApprovalChannel::Auto, wait: Duration::from_secs(5 * 60), admin: false }
    }
}

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalChannel {
    /// The caller's person where the client can ask, and the owner of the server.
    Auto,
    /// The caller's person, through the client.
    Elicitation,
    /// The owner of the server, over its admin socket.
    Admin,
    /// Nobody: what needs approval is refused.
    None,
}

/// What calls are decided by. Read from files, all of one generation: that of the profiles.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Profile of calls that name none.
    pub default_profile: String,
    /// The profiles there are.
    pub profiles: Profiles,
    /// Which tools are served.
    pub tools: ToolRules,
}
