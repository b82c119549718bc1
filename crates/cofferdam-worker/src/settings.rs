//! What an executor is told once, by the program that starts it.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use cofferdam_policy::profile::Profiles;

/// Settings of one executor.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// The directory that code works in.
    pub workspace: PathBuf,
    /// Profile of calls that name none.
    pub default_profile: String,
    /// The profiles there are.
    pub profiles: Profiles,
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
    /// Profile chosen for the whole session; goes before `default_profile`.
    pub session_profile: Option<String>,
    /// Backend chosen for the whole session, as written.
    pub backend: Option<String>,
}
