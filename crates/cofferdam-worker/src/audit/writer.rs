//! The one thread of a process that writes its log, and how calls wait for it.
//!
//! Writing may wait for a disk or for another process, which the threads of the runtime must not; so
//! records go through a bounded queue, and whoever needs to know that a record is written waits for
//! the answer without holding a thread up.

use std::{
    ffi::OsString,
    io,
    os::unix::ffi::OsStrExt,
    path::Path,
    process,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

use cofferdam_protocol::{ErrorCode, Failure, ToolCall, ToolReply, digest};
use rustix::{
    process::geteuid,
    rand::{GetRandomFlags, getrandom},
};
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout},
};

use super::{
    facts::Facts,
    record::{Begin, CallResult, Caller, End, Event, Start, bounded},
    settings::{AuditSettings, OnError},
    store::{Head, Store, StoreError},
};
use crate::failure::chain;

/// Records that wait to be written.
const QUEUE: usize = 256;
/// How long a record may take, the wait in the queue included.
const PATIENCE: Duration = Duration::from_secs(15);

/// The log cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The file, or what stands in it.
    #[error("writing the audit log")]
    Store(#[source] StoreError),
    /// The thread that writes it cannot be started.
    #[error("starting the audit log's thread")]
    Thread(#[source] io::Error),
    /// The system gives no random numbers.
    #[error("asking for random numbers")]
    Random(#[source] io::Error),
    /// It takes too long.
    #[error("the audit log did not take a record within {} s", PATIENCE.as_secs())]
    Slow,
    /// Its thread is gone.
    #[error("the audit log's thread ended")]
    Gone,
}

/// Where calls are recorded, or that they are not. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Audit(Option<Arc<Recorder>>);

#[derive(Debug)]
struct Recorder {
    queue: mpsc::Sender<Entry>,
    on_error: OnError,
    caller: Caller,
    /// Begins the id of each call of this process.
    instance: String,
    calls: AtomicU64,
}

/// One record on its way.
struct Entry {
    event: Event,
    /// Not written once nobody waits for it any more.
    for_whom: ForWhom,
    answer: oneshot::Sender<Result<Head, StoreError>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForWhom {
    /// For whoever waits, and nobody else.
    Waiting,
    /// For the log.
    Everybody,
}

/// One call whose beginning is recorded; its end is to be.
#[derive(Debug)]
#[must_use]
pub(crate) struct RecordedCall {
    recorder: Option<(Arc<Recorder>, Begin)>,
    since: Instant,
    facts: Facts,
}

impl Audit {
    /// Opens the log, or not. Nothing is written yet.
    ///
    /// # Errors
    /// [`AuditError`] when it cannot be written and calls shall not run unrecorded.
    pub(crate) fn new(settings: Option<AuditSettings>) -> Result<Self, AuditError> {
        let Some(settings) = settings else { return Ok(Self(None)) };
        let caller = Caller { via: settings.via, uid: geteuid().as_raw() };
        let on_error = settings.on_error;
        let mut store = Store::new(settings);
        match store.check() {
            Ok(()) => {}
            Err(error) if on_error == OnError::Warn => {
                tracing::warn!(error = chain(&error), "calls are not recorded");
            }
            Err(error) => return Err(AuditError::Store(error)),
        }
        let (queue, entries) = mpsc::channel(QUEUE);
        thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write(store, entries))
            .map_err(AuditError::Thread)?;
        let instance = instance().map_err(AuditError::Random)?;
        let calls = AtomicU64::new(0);
        Ok(Self(Some(Arc::new(Recorder { queue, on_error, caller, instance, calls }))))
    }

    /// Records that a server begins to serve.
    ///
    /// # Errors
    /// [`AuditError`] when it cannot be recorded and calls shall not run unrecorded.
    pub(crate) async fn start(&self, workspace: &Path) -> Result<(), AuditError> {
        let Some(recorder) = &self.0 else { return Ok(()) };
        let event = Event::Start(Start {
            instance: recorder.instance.clone(),
            version: env!("CARGO_PKG_VERSION"),
            pid: process::id(),
            uid: recorder.caller.uid,
            workspace: bounded(&workspace.to_string_lossy()),
        });
        match recorder.record(event, ForWhom::Everybody).await {
            Ok(head) => head.tell("the audit log goes on"),
            Err(error) if recorder.on_error == OnError::Warn => {
                tracing::warn!(error = chain(&error), "the start was not recorded");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Records that a server ended in order.
    pub(crate) async fn stop(&self) {
        let Some(recorder) = &self.0 else { return };
        let event = Event::Stop { instance: recorder.instance.clone() };
        match recorder.record(event, ForWhom::Everybody).await {
            Ok(head) => head.tell("the audit log is at its end"),
            Err(error) => tracing::error!(error = chain(&error), "the stop was not recorded"),
        }
    }

    /// Records that a call of a tool arrived.
    ///
    /// # Errors
    /// `audit_unavailable` when it cannot be recorded, so that it must not run.
    pub(crate) async fn begin(
        &self,
        session: &str,
        call: &ToolCall,
    ) -> Result<RecordedCall, Failure> {
        if self.0.is_none() {
            return Ok(RecordedCall::unrecorded());
        }
        self.begin_named(session, call.tool_name(), call.digest()?).await
    }

    /// The same for a command, under the name `run`.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub(crate) async fn begin_command(
        &self,
        session: &str,
        words: &[OsString],
    ) -> Result<RecordedCall, Failure> {
        // Words that are no text are told apart from those that look like them.
        let words = words.iter().map(|word| match word.to_str() {
            Some(text) => Value::from(text),
            None => Value::from(word.as_bytes()),
        });
        let digest = digest::of(&json!({ "command": words.collect::<Vec<_>>() }))
            .map_err(|_| Failure::new(ErrorCode::Internal, "the command has no digest"))?;
        self.begin_named(session, "run", digest).await
    }

    async fn begin_named(
        &self,
        session: &str,
        tool: &str,
        digest: String,
    ) -> Result<RecordedCall, Failure> {
        let Some(recorder) = &self.0 else { return Ok(RecordedCall::unrecorded()) };
        let begin = Begin {
            call: recorder.next_id(),
            session: bounded(session),
            caller: recorder.caller,
            tool: bounded(tool),
            digest,
        };
        let since = Instant::now();
        let recorded = recorder.record(Event::Begin(begin.clone()), ForWhom::Waiting).await;
        match recorded {
            Ok(_) => {}
            Err(error) if recorder.on_error == OnError::Warn => {
                tracing::warn!(error = chain(&error), call = begin.call, "a call is not recorded");
            }
            Err(error) => {
                tracing::error!(error = chain(&error), "a call cannot be recorded and is refused");
                return Err(unavailable(&error));
            }
        }
        let recorder = Some((recorder.clone(), begin));
        Ok(RecordedCall { recorder, since, facts: Facts::default() })
    }
}

impl RecordedCall {
    fn unrecorded() -> Self {
        Self { recorder: None, since: Instant::now(), facts: Facts::default() }
    }

    /// Where to put what becomes known of it.
    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Records what came of it. That it cannot be recorded any more changes nothing about what has
    /// been done: the log says so, and the next call is refused.
    async fn end(self, result: CallResult, code: Option<ErrorCode>) {
        let Some((recorder, begin)) = self.recorder else { return };
        let known = self.facts.known();
        let id = begin.call.clone();
        let event = Event::End(Box::new(End {
            call: begin.call,
            session: begin.session,
            caller: begin.caller,
            tool: begin.tool,
            digest: begin.digest,
            result,
            code: code.map(ErrorCode::as_str),
            profile: known.profile,
            generation: known.generation,
            approval: known.approval,
            run: known.run,
            elapsed_ms: u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX),
        }));
        if let Err(error) = recorder.record(event, ForWhom::Everybody).await {
            tracing::error!(error = chain(&error), call = id, "the end of a call was not recorded");
        }
    }

    /// The same for what was run without a reply.
    pub(crate) async fn end_of<T>(self, result: &Result<T, Failure>) {
        match result {
            Ok(_) => self.end(CallResult::Done, None).await,
            Err(failure) => self.end(CallResult::Failed, Some(failure.code)).await,
        }
    }

    /// The same for a reply.
    pub(crate) async fn end_with(self, reply: &ToolReply) {
        match reply {
            ToolReply::Done { .. } => self.end(CallResult::Done, None).await,
            ToolReply::Failed(failure) => self.end(CallResult::Failed, Some(failure.code)).await,
            ToolReply::NeedsApproval { .. } => self.end(CallResult::NeedsApproval, None).await,
        }
    }
}

impl Recorder {
    /// Unique: the instance is random.
    fn next_id(&self) -> String {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        format!("{}-{number}", self.instance)
    }

    /// Hands a record to the thread and waits until it is written.
    async fn record(&self, event: Event, for_whom: ForWhom) -> Result<Head, AuditError> {
        let (answer, written) = oneshot::channel();
        let recorded = async {
            let entry = Entry { event, for_whom, answer };
            self.queue.send(entry).await.map_err(|_| AuditError::Gone)?;
            written.await.map_err(|_| AuditError::Gone)?.map_err(AuditError::Store)
        };
        timeout(PATIENCE, recorded).await.unwrap_or(Err(AuditError::Slow))
    }
}

impl Head {
    /// A copy of the hash outside of the log is what shows that its end was cut off.
    fn tell(&self, what: &str) {
        tracing::info!(record = self.seq, hash = %self.hash, "{what}");
    }
}

/// Writes until nobody can send any more.
fn write(mut store: Store, mut entries: mpsc::Receiver<Entry>) {
    while let Some(Entry { event, for_whom, answer }) = entries.blocking_recv() {
        // A call that was told that it cannot be recorded must not look as if it had run.
        if for_whom == ForWhom::Waiting && answer.is_closed() {
            continue;
        }
        let is_last = matches!(event, Event::Stop { .. });
        let written = store.append(&event, SystemTime::now());
        if is_last && let Err(error) = store.flush() {
            tracing::warn!(%error, "the audit log could not be flushed to the disk");
        }
        let _ = answer.send(written);
    }
}

/// What a caller is told. Where the log is and what stands in its way is the owner's business, and
/// in the log of this process.
fn unavailable(error: &AuditError) -> Failure {
    let why = match error {
        AuditError::Store(StoreError::Write { source, .. }) => match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ": the disk is full",
            io::ErrorKind::FileTooLarge => ": the file may not grow any more",
            _ => "",
        },
        _ => "",
    };
    let message = format!("the call cannot be recorded in the audit log, so it was not run{why}");
    Failure::new(ErrorCode::AuditUnavailable, message)
        .with_hint("tell the user: the server's log says what is wrong with the audit log")
}

/// 64 random bits in hexadecimal.
fn instance() -> io::Result<String> {
    let mut bytes = [0_u8; 8];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl AuditError {
    /// The next step for the owner.
    pub fn hint(&self) -> String {
        const OR: &str = "or set `[audit] enabled = false` to run unrecorded";
        match self {
            Self::Store(StoreError::Files(error)) => error.hint(OR),
            Self::Store(StoreError::NotALog(path)) => move_aside(path),
            _ => format!("make room where `audit.path` leads, name another path, {OR}"),
        }
    }
}

fn move_aside(path: &Path) -> String {
    format!("move `{}` aside, or name another file by `audit.path`", path.display())
}
