//! The sessions of legacy clients: how many there may be, and telling the worker when one ends.
//!
//! rmcp keeps them, without a bound, and ends one after five minutes without a message, even while
//! a call runs or a person thinks. Here they last until they are deleted, until their client leaves
//! them idle while others need the room, or until the gateway stops.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::Stream;
use rmcp::{
    model::{ClientJsonRpcMessage, GetExtensions, ServerJsonRpcMessage},
    transport::streamable_http_server::session::{
        ServerSseMessage, SessionId, SessionManager, local::LocalSessionManager,
    },
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{client::WorkerClient, subscriptions::ChangesSince};

/// Legacy sessions that may be open at a time.
pub(super) const MAX_SESSIONS: usize = 64;
/// A session that has been idle for this long gives way when the room is needed.
const GIVES_WAY_AFTER: Duration = Duration::from_secs(60);

/// rmcp's own session manager, with a book of who is there.
#[derive(Debug)]
pub(super) struct Sessions {
    local: LocalSessionManager,
    book: Mutex<HashMap<SessionId, Arc<Entry>>>,
    opening: AtomicUsize,
    worker: WorkerClient,
}

#[derive(Debug)]
struct Entry {
    id: SessionId,
    last_used: Mutex<Instant>,
    running: AtomicUsize,
    closed: CancellationToken,
    /// From when it was opened; taken once its client has introduced itself.
    changes: Mutex<Option<ChangesSince>>,
}

/// The session that a request came through. Put on the request by this module alone, so that no
/// header of a request can name a session that the request does not belong to.
#[derive(Clone, Debug)]
pub(crate) struct SessionHandle {
    entry: Arc<Entry>,
}

/// Held while a call of a session is under way.
#[derive(Debug)]
pub(crate) struct RunningInSession {
    entry: Arc<Entry>,
}

impl SessionHandle {
    pub(crate) fn id(&self) -> &str {
        &self.entry.id
    }

    /// Notes that a call is under way: the session is not idle.
    pub(crate) fn run(&self) -> RunningInSession {
        self.entry.running.fetch_add(1, Ordering::SeqCst);
        RunningInSession { entry: self.entry.clone() }
    }

    /// The changes of the list of tools since the session was opened. Once.
    pub(crate) fn take_changes(&self) -> Option<ChangesSince> {
        self.entry.changes.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends when the session ends.
    pub(crate) async fn closed(&self) {
        self.entry.closed.cancelled().await;
    }
}

impl Drop for RunningInSession {
    fn drop(&mut self) {
        self.entry.touch();
        self.entry.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Entry {
    fn touch(&self) {
        *self.last_used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn idle_for(&self) -> Duration {
        if self.running.load(Ordering::SeqCst) > 0 {
            return Duration::ZERO;
        }
        self.last_used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

/// Room for one session, held while it is being opened.
#[derive(Debug)]
pub(super) struct Opening {
    sessions: Arc<Sessions>,
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.sessions.opening.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Sessions {
    pub(super) fn new(worker: WorkerClient) -> Self {
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = None;
        Self { local, book: Mutex::default(), opening: AtomicUsize::new(0), worker }
    }

    /// Makes room for one more session, closing the one that has been idle longest if need be.
    /// None when all are in use.
    pub(super) async fn make_room(self: Arc<Self>) -> Option<Opening> {
        self.opening.fetch_add(1, Ordering::SeqCst);
        let opening = Opening { sessions: self.clone() };
        // Counting before looking: of two that come at once for the last place, both may be
        // refused, but never both admitted.
        while self.book().len() + self.opening.load(Ordering::SeqCst) > MAX_SESSIONS {
            let idlest = self
                .book()
                .values()
                .map(|entry| (entry.idle_for(), entry.id.clone()))
                .max_by_key(|(idle, _)| *idle)
                .filter(|(idle, _)| *idle >= GIVES_WAY_AFTER);
            let (_, id) = idlest?;
            tracing::info!(session = %id, "an idle session gives way to a new one");
            if let Err(error) = self.close_session(&id).await {
                tracing::debug!(%error, "closing an idle session");
            }
        }
        Some(opening)
    }

    /// The changes of the list of tools from now on.
    pub(super) fn changes_since_now(&self) -> ChangesSince {
        ChangesSince(self.worker.tools_changed())
    }

    fn book(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Entry>>> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self, id: &SessionId) -> Option<SessionHandle> {
        let entry = self.book().get(id)?.clone();
        entry.touch();
        Some(SessionHandle { entry })
    }
}

impl SessionManager for Sessions {
    type Error = <LocalSessionManager as SessionManager>::Error;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, transport) = self.local.create_session().await?;
        let entry = Entry {
            id: id.clone(),
            last_used: Mutex::new(Instant::now()),
            running: AtomicUsize::new(0),
            closed: CancellationToken::new(),
            changes: Mutex::new(Some(self.changes_since_now())),
        };
        self.book().insert(id.clone(), Arc::new(entry));
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.local.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.local.has_session(id).await
    }

    /// Called for a DELETE and, by rmcp, when a session's own task has ended: the worker is told
    /// once.
    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        let entry = self.book().remove(id);
        if let Some(entry) = entry {
            entry.closed.cancel();
            self.worker.close_session(id).await;
        }
        self.local.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        if let (Some(session), ClientJsonRpcMessage::Request(request)) =
            (self.touch(id), &mut message)
        {
            request.request.extensions_mut().insert(session);
        }
        self.local.create_stream(id, message).await
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        if let (Some(session), ClientJsonRpcMessage::Notification(notification)) =
            (self.touch(id), &mut message)
        {
            notification.notification.extensions_mut().insert(session);
        }
        self.local.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.touch(id);
        self.local.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.touch(id);
        self.local.resume(id, last_event_id).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fake_worker::FakeWorker;

    async fn sessions(count: usize) -> (Arc<Sessions>, Vec<SessionId>) {
        let (endpoint, _) = FakeWorker::listen().serve();
        let worker = WorkerClient::connect(endpoint, None).await.unwrap();
        let sessions = Arc::new(Sessions::new(worker));
        let mut ids = Vec::new();
        for _ in 0..count {
            ids.push(sessions.create_session().await.unwrap().0);
        }
        (sessions, ids)
    }

    #[tokio::test]
    async fn sessions_that_are_being_opened_count_too() {
        let (sessions, _) = sessions(MAX_SESSIONS - 1).await;
        let last = sessions.clone().make_room().await;
        assert!(last.is_some());
        assert!(sessions.clone().make_room().await.is_none());
        drop(last);
        assert!(sessions.make_room().await.is_some());
    }

    #[tokio::test]
    async fn the_session_that_is_idle_longest_gives_way_but_none_that_runs_or_is_fresh() {
        let (sessions, ids) = sessions(MAX_SESSIONS).await;
        tokio::time::pause();
        for id in &ids {
            sessions.touch(id).unwrap();
        }
        let running = sessions.touch(&ids[0]).unwrap().run();
        tokio::time::advance(GIVES_WAY_AFTER - Duration::from_millis(1)).await;
        assert!(sessions.clone().make_room().await.is_none());
        sessions.touch(&ids[1]).unwrap();
        tokio::time::advance(Duration::from_millis(1)).await;
        let leaving = sessions.touch(&ids[2]).unwrap();
        assert!(sessions.clone().make_room().await.is_some());
        assert_eq!(sessions.book().len(), MAX_SESSIONS - 1);
        for kept in &ids[..=2] {
            assert!(sessions.book().contains_key(kept));
        }
        drop(running);
        sessions.close_session(&ids[2]).await.unwrap();
        leaving.closed().await;
        assert!(!sessions.has_session(&ids[2]).await.unwrap());
    }
}
