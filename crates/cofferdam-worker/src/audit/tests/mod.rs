//! Claims about the log: its chain, its files, its writer.

mod chain;
mod store;
mod writer;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    record::{Begin, Caller, End, Event},
    *,
};

/// A folder for a log, gone with its owner.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("state/audit.jsonl")
    }

    fn settings(&self) -> AuditSettings {
        AuditSettings {
            path: self.path(),
            on_error: OnError::Refuse,
            rotate_bytes: 64 * 1024 * 1024,
            keep: 8,
            via: Via::CommandLine,
        }
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    fn verify(&self) -> Result<Summary, Fault> {
        verify(&open_all(&self.path()).unwrap(), None).unwrap()
    }
}

fn begin(call: &str) -> Event {
    Event::Begin(Begin {
        call: call.to_owned(),
        session: "stdio".to_owned(),
        caller: Caller { via: Via::Socket, uid: 1000 },
        tool: "bash_coding_tool.execute".to_owned(),
        digest: "ab".to_owned(),
    })
}

fn end(call: &str) -> Event {
    Event::End(Box::new(End {
        call: call.to_owned(),
        session: "stdio".to_owned(),
        caller: Caller { via: Via::Socket, uid: 1000 },
        tool: "bash_coding_tool.execute".to_owned(),
        digest: "ab".to_owned(),
        result: record::CallResult::Failed,
        code: Some("denied"),
        profile: Some("default".to_owned()),
        generation: Some(1),
        approval: None,
        run: None,
        elapsed_ms: 3,
    }))
}

fn at(second: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_796_000_000 + second)
}

fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
