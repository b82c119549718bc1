//! Keeps a worker running: starts it again when it dies, a bounded number of times.

use std::time::{Duration, Instant};

use super::{
    SupervisorError,
    worker::{HealthyWorker, WorkerLaunch},
};

/// A worker that lived this long has not failed at its start: counting begins anew.
const COUNTS_AS_WELL: Duration = Duration::from_secs(60);
/// Pause before the first restart; doubled for each that follows at once. The gateway's clients are
/// kept waiting for about two seconds.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// One worker after the other.
#[derive(Debug)]
pub(super) struct Keeper<'a> {
    launch: &'a WorkerLaunch,
    /// `None` between the death of one and the health of the next.
    worker: Option<HealthyWorker<'a>>,
    since: Instant,
    limit: u32,
    restarts: u32,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(launch: &'a WorkerLaunch, worker: HealthyWorker<'a>, limit: u32) -> Self {
        Self { launch, worker: Some(worker), since: Instant::now(), limit, restarts: 0 }
    }

    /// Keeps a worker running until that is hopeless. Safe to drop: a worker that runs stays.
    pub(super) async fn keep(&mut self) -> SupervisorError {
        loop {
            let ending = match &mut self.worker {
                Some(worker) => match worker.ended().await {
                    Ok(status) => status.to_string(),
                    Err(error) => error.to_string(),
                },
                None => "it did not become healthy".to_owned(),
            };
            self.worker = None;
            if self.since.elapsed() >= COUNTS_AS_WELL {
                self.restarts = 0;
            }
            if self.restarts >= self.limit {
                return SupervisorError::WorkerLost { status: ending, restarts: self.restarts };
            }
            let pause = LONGEST_PAUSE.min(FIRST_PAUSE * 2_u32.saturating_pow(self.restarts));
            self.restarts += 1;
            tracing::warn!(
                %ending,
                restart = self.restarts,
                limit = self.limit,
                "the worker died, it is started again"
            );
            tokio::time::sleep(pause).await;
            self.start_again().await;
        }
    }

    async fn start_again(&mut self) {
        self.since = Instant::now();
        let started = match self.launch.start() {
            Ok(starting) => starting.healthy().await,
            Err(error) => Err(error),
        };
        match started {
            Ok(worker) => {
                tracing::info!(pid = worker.pid(), "the worker is well again");
                self.worker = Some(worker);
            }
            Err(error) => tracing::error!(%error, "the worker could not be started again"),
        }
    }

    /// Has the worker that runs read the configuration again; one that is being started does so anyway.
    pub(super) fn reload(&self) {
        if let Some(worker) = &self.worker {
            worker.reload();
        }
    }

    /// Ends the worker that runs: in order within `grace`, else at once.
    pub(super) async fn end(&mut self, grace: Duration) {
        if let Some(worker) = &mut self.worker {
            worker.end(grace).await;
        }
    }
}
