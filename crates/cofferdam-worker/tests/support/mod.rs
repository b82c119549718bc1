//! A workspace and an executor on it, with this machine's own backends.

// Each of the test programs uses its own part.
#![allow(dead_code)]

pub(crate) mod client;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use cofferdam_policy::{
    ToolRules,
    profile::{Profiles, shipped},
};
use cofferdam_protocol::{
    Failure, ToolCall, ToolReply, ToolRequest,
    tool::{AttributePayload, BashExecute, PythonExecute},
};
use cofferdam_worker::{ApprovalSettings, Executor, Rules, WorkerSettings};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A workspace in a folder of its own.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir(place.workspace()).unwrap();
        place
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// A path outside the workspace.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.workspace().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn settings(&self) -> WorkerSettings {
        settings(&self.workspace())
    }

    pub(crate) fn executor(&self) -> Executor {
        Executor::new(self.settings()).unwrap()
    }
}

pub(crate) fn settings(workspace: &Path) -> WorkerSettings {
    WorkerSettings {
        workspace: workspace.to_owned(),
        rules: Rules {
            default_profile: "default".to_owned(),
            profiles: Profiles::load(shipped()).unwrap(),
            tools: ToolRules::default(),
        },
        serial: true,
        max_running: 8,
        max_queued: 64,
        environment: std::env::vars_os().collect::<BTreeMap<_, _>>(),
        homes: std::env::var_os("HOME").map(PathBuf::from).into_iter().collect(),
        session_profile: None,
        backend: None,
        tools_file: None,
        approval: ApprovalSettings::default(),
        audit: None,
    }
}

pub(crate) fn bash(code: &str) -> BashExecute {
    BashExecute { code: code.to_owned(), ..BashExecute::default() }
}

pub(crate) fn python(code: &str) -> PythonExecute {
    PythonExecute { code: code.to_owned(), ..PythonExecute::default() }
}

pub(crate) fn request(session: &str, call: ToolCall) -> ToolRequest {
    ToolRequest::new(session, call)
}

/// The object of a call that finished.
pub(crate) async fn done(executor: &Executor, call: ToolCall) -> Value {
    finished(reply(executor, call).await)
}

/// The refusal of a call that did not.
pub(crate) async fn failed(executor: &Executor, call: ToolCall) -> Failure {
    match reply(executor, call).await {
        ToolReply::Failed(failure) => failure,
        other => panic!("{other:#?}"),
    }
}

pub(crate) async fn reply(executor: &Executor, call: ToolCall) -> ToolReply {
    executor.call(request("session", call), None, CancellationToken::new()).await
}

pub(crate) fn finished(reply: ToolReply) -> Value {
    match reply {
        ToolReply::Done { value } => value,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn attribute(name: &str) -> ToolCall {
    ToolCall::Attribute(AttributePayload { name: name.to_owned() })
}
