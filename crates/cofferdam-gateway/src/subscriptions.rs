//! Telling clients that the list of tools has changed, in both protocol eras.
//!
//! Legacy clients are told on the session that they opened, modern ones on a `subscriptions/listen`
//! stream. In both, changes count from before the client can know that it is told of them: a legacy
//! session's from its `initialize`, a stream's from the arrival of its request, since rmcp
//! acknowledges it before it hands the stream over. Not here: what the list is.

use rmcp::{
    ErrorData, RoleServer,
    model::SubscriptionFilter,
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::http::SessionHandle;

/// Streams that may be open at a time in one gateway.
const MAX_STREAMS: usize = 128;

/// The changes from a moment on: put on a message by whoever receives it first.
#[derive(Clone, Debug)]
pub(crate) struct ChangesSince(pub(crate) watch::Receiver<u64>);

/// Who is told.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    streams: Semaphore,
    end: CancellationToken,
}

impl Subscriptions {
    /// Until `end` fires: then streams get their final result.
    pub(crate) fn new(end: CancellationToken) -> Self {
        Self { streams: Semaphore::new(MAX_STREAMS), end }
    }

    /// What of a request for a stream is accepted.
    pub(crate) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
        requested.intersection(&SubscriptionFilter::builder().tools_list_changed().build())
    }

    /// Serves a modern client's stream until it leaves or the gateway stops.
    ///
    /// # Errors
    /// When too many are open.
    pub(crate) async fn serve(&self, stream: SubscriptionContext) -> Result<(), ErrorData> {
        let Ok(_place) = self.streams.try_acquire() else {
            let message = format!("{MAX_STREAMS} streams are open, which is the limit");
            return Err(ErrorData::internal_error(message, None));
        };
        let Some(mut changes) = since_arrival(stream.request_context()) else {
            return Err(ErrorData::internal_error("the request came in by no known way", None));
        };
        let wanted = stream.accepted().tools_list_changed == Some(true);
        loop {
            tokio::select! {
                () = stream.cancelled() => return Ok(()),
                () = self.end.cancelled() => return Ok(()),
                changed = changes.changed(), if wanted => {
                    if changed.is_err() || stream.sink().notify_tool_list_changed().await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Tells a legacy client, which has just introduced itself, for as long as its session lasts.
    pub(crate) fn push(&self, context: NotificationContext<RoleServer>) {
        let session = context.extensions.get::<SessionHandle>().cloned();
        let changes = match &session {
            Some(session) => session.take_changes(),
            None => context.extensions.get::<ChangesSince>().cloned(),
        };
        // Whoever introduces itself again is told already.
        let Some(ChangesSince(mut changes)) = changes else { return };
        let (peer, end) = (context.peer, self.end.clone());
        // Detached: it ends with the session or with the gateway.
        tokio::spawn(async move {
            let closed = async {
                match &session {
                    Some(session) => session.closed().await,
                    None => std::future::pending().await,
                }
            };
            let telling = async {
                while changes.changed().await.is_ok() {
                    if peer.notify_tool_list_changed().await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                () = closed => {}
                () = end.cancelled() => {}
                () = telling => {}
            }
        });
    }
}

/// The changes since the request arrived: over stdio it carries them itself, over HTTP the request
/// around it does.
fn since_arrival(context: &RequestContext<RoleServer>) -> Option<watch::Receiver<u64>> {
    let parts = context.extensions.get::<http::request::Parts>();
    let found = match parts {
        Some(parts) => parts.extensions.get::<ChangesSince>().cloned(),
        None => context.extensions.get::<ChangesSince>().cloned(),
    };
    found.map(|ChangesSince(changes)| changes)
}

#[cfg(test)]
mod tests;
