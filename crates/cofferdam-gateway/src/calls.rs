//! The calls under way: how many there may be, what ends them early, and when they are all done.
//!
//! Not here: what a call does.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use cofferdam_protocol::{ErrorCode, Failure};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

/// Calls that one gateway passes on at a time. The worker has its own, smaller, bounds; this one
/// keeps the gateway's memory bounded when a client does not care.
pub(crate) const MAX_CALLS: usize = 256;
/// How long calls that were cancelled at the drain deadline may take to end.
const CANCELLED_CALLS_GRACE: Duration = Duration::from_secs(5);

/// The calls under way of one gateway.
#[derive(Debug)]
pub(crate) struct Calls {
    request_timeout: Option<Duration>,
    slots: Arc<Semaphore>,
    tracker: TaskTracker,
    draining: AtomicBool,
    cancel_all: CancellationToken,
    end_subscriptions: CancellationToken,
}

/// Held as long as a call is under way.
#[derive(Debug)]
pub(crate) struct CallInProgress {
    _slot: OwnedSemaphorePermit,
    _tracked: TaskTrackerToken,
}

impl Calls {
    pub(crate) fn new(request_timeout: Option<Duration>) -> Self {
        Self {
            request_timeout,
            slots: Arc::new(Semaphore::new(MAX_CALLS)),
            tracker: TaskTracker::new(),
            draining: AtomicBool::new(false),
            cancel_all: CancellationToken::new(),
            end_subscriptions: CancellationToken::new(),
        }
    }

    /// Begins a call.
    ///
    /// # Errors
    /// `busy` when there are too many or the gateway is stopping.
    pub(crate) fn begin(&self) -> Result<CallInProgress, Failure> {
        let tracked = self.tracker.token();
        // After taking the token: a drain that begins in between either waits for this call or is
        // seen here.
        if self.is_draining() {
            return Err(Failure::new(ErrorCode::Busy, "the server is shutting down")
                .with_hint("connect again when it is back"));
        }
        let slot = self.slots.clone().try_acquire_owned().map_err(|_| {
            let mut failure = Failure::new(
                ErrorCode::Busy,
                format!("{MAX_CALLS} calls are under way, which is the limit"),
            )
            .with_hint("wait for some of them to end");
            failure.retry_after_ms = Some(1_000);
            failure
        })?;
        Ok(CallInProgress { _slot: slot, _tracked: tracked })
    }

    pub(crate) fn request_timeout(&self) -> Option<Duration> {
        self.request_timeout
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// Fires when streams that wait for news must end: nobody shall wait for them.
    pub(crate) fn end_subscriptions(&self) -> &CancellationToken {
        &self.end_subscriptions
    }

    /// From now on [`Self::begin`] refuses.
    pub(crate) fn stop_accepting(&self) {
        self.draining.store(true, Ordering::SeqCst);
        self.end_subscriptions.cancel();
        self.tracker.close();
    }

    /// Fires when calls must end although they are not done.
    pub(crate) fn cancel_all(&self) -> &CancellationToken {
        &self.cancel_all
    }

    /// Refuses new calls, then waits for those under way, cancelling what is left at the deadline
    /// or when `hurry` ends, whichever is first.
    pub(crate) async fn drain(&self, deadline: Duration, hurry: impl Future<Output = ()>) {
        self.stop_accepting();
        tokio::select! {
            () = self.tracker.wait() => return,
            () = tokio::time::sleep(deadline) => {
                tracing::warn!(calls = self.tracker.len(), "the drain deadline ends calls");
            }
            () = hurry => tracing::info!(calls = self.tracker.len(), "calls end with their client"),
        }
        self.cancel_all.cancel();
        if tokio::time::timeout(CANCELLED_CALLS_GRACE, self.tracker.wait()).await.is_err() {
            tracing::warn!(calls = self.tracker.len(), "some calls did not end");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_beyond_the_limit_is_refused_as_busy_with_a_time_to_retry() {
        let calls = Calls::new(None);
        let held: Vec<_> = (0..MAX_CALLS).map(|_| calls.begin().unwrap()).collect();
        let failure = calls.begin().unwrap_err();
        assert_eq!((failure.code, failure.retry_after_ms), (ErrorCode::Busy, Some(1_000)));
        drop(held);
        assert!(calls.begin().is_ok());
    }

    #[tokio::test]
    async fn draining_waits_for_a_call_and_refuses_new_ones() {
        let calls = Arc::new(Calls::new(None));
        let under_way = calls.begin().unwrap();
        let drain = tokio::spawn({
            let calls = calls.clone();
            async move { calls.drain(Duration::from_secs(600), std::future::pending()).await }
        });
        while !calls.is_draining() {
            tokio::task::yield_now().await;
        }
        assert_eq!(calls.begin().unwrap_err().code, ErrorCode::Busy);
        assert!(!drain.is_finished());
        drop(under_way);
        drain.await.unwrap();
        assert!(!calls.cancel_all().is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn the_drain_deadline_cancels_what_is_left() {
        let calls = Arc::new(Calls::new(None));
        let under_way = calls.begin().unwrap();
        let ends_when_cancelled = tokio::spawn({
            let cancel_all = calls.cancel_all().clone();
            async move {
                cancel_all.cancelled().await;
                drop(under_way);
            }
        });
        calls.drain(Duration::from_secs(20), std::future::pending()).await;
        ends_when_cancelled.await.unwrap();
        assert!(calls.tracker.is_empty());
    }
}
