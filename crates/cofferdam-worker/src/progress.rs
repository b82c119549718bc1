//! Telling a caller how far a call is, while it goes on.

use std::{convert::Infallible, time::Duration};

use cofferdam_backend::RunProgress;
use cofferdam_protocol::Progress;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, MissedTickBehavior, interval_at},
};

use crate::shown::one_line;

/// How often a caller hears of a call that writes.
const WHILE_WRITING: Duration = Duration::from_secs(1);
/// How often a caller hears of a call that is silent, or waits for its turn.
const WHILE_SILENT: Duration = Duration::from_secs(5);
/// The most characters of a line that are told.
const LINE_CHARACTERS: usize = 200;

/// Reports until it is dropped; never ends by itself.
///
/// A report that the caller does not take in time is left out: an old one is worth nothing.
pub(crate) async fn report(
    to: mpsc::Sender<Progress>,
    mut run: watch::Receiver<RunProgress>,
    since: Instant,
) -> Infallible {
    let mut ticks = interval_at(since + WHILE_WRITING, WHILE_WRITING);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = since;
    loop {
        let now = ticks.tick().await;
        let news = run.has_changed().unwrap_or(false);
        if !news && now - told < WHILE_SILENT {
            continue;
        }
        told = now;
        let progress = shown(&run.borrow_and_update(), now - since);
        let _ = to.try_send(progress);
    }
}

/// What a caller is told. The time counts from the call's arrival, so that it only ever grows.
fn shown(run: &RunProgress, since: Duration) -> Progress {
    let last_line = one_line(&run.last_line, LINE_CHARACTERS);
    Progress {
        elapsed_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
        output_bytes: run.output_bytes,
        last_line: (!last_line.is_empty()).then_some(last_line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(output_bytes: u64, last_line: &[u8]) -> RunProgress {
        RunProgress { output_bytes, last_line: last_line.to_vec(), ..RunProgress::default() }
    }

    /// Reports of the first `seconds` of paused time, as (elapsed, bytes).
    async fn reports(seconds: u64, write_at: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let (to, mut told) = mpsc::channel(64);
        let (run, receiver) = watch::channel(RunProgress::default());
        let since = Instant::now();
        let writes = async {
            for (second, bytes) in write_at {
                tokio::time::sleep_until(since + Duration::from_millis(second * 1000 - 500)).await;
                run.send_replace(written(*bytes, b"line"));
            }
            tokio::time::sleep_until(since + Duration::from_millis(seconds * 1000 + 500)).await;
        };
        tokio::select! {
            never = report(to, receiver, since) => match never {},
            () = writes => {}
        }
        let mut all = Vec::new();
        while let Ok(progress) = told.try_recv() {
            all.push((progress.elapsed_ms, progress.output_bytes));
        }
        all
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_call_is_reported_every_five_seconds() {
        assert_eq!(reports(11, &[]).await, [(5_000, 0), (10_000, 0)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_writing_call_is_reported_within_a_second() {
        assert_eq!(reports(4, &[(2, 10), (3, 20)]).await, [(2_000, 10), (3_000, 20)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_does_not_listen_holds_nothing_up() {
        let (to, _told) = mpsc::channel(1);
        let (_run, receiver) = watch::channel(RunProgress::default());
        let since = Instant::now();
        let reporting = report(to, receiver, since);
        let passed = tokio::time::timeout(Duration::from_secs(60), reporting).await;
        assert!(passed.is_err(), "it goes on until it is dropped");
    }

    #[test]
    fn the_line_is_escaped() {
        let progress = shown(&written(7, b"\x1b]0;title\x07"), Duration::from_millis(1_500));
        assert_eq!(progress.last_line.as_deref(), Some("\\u{1b}]0;title\\u{7}"));
        assert_eq!((progress.elapsed_ms, progress.output_bytes), (1_500, 7));
        assert_eq!(shown(&written(0, b""), Duration::ZERO).last_line, None);
    }
}
