//! What is remembered of each client session: its last finished run.
//!
//! Bounded in every direction: one run per session, whose streams the profile caps, and a fixed
//! number of sessions, of which the one unused for longest goes first.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use serde_json::Value;

/// Most sessions that are remembered.
const MOST_SESSIONS: usize = 256;

/// What the last finished run of a session left.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LastRun {
    /// Standard output as it was shown.
    pub(crate) stdout: Value,
    /// Standard error as it was shown.
    pub(crate) stderr: Value,
    /// The exit status as it was shown.
    pub(crate) returncode: Value,
    /// How the run was held, as it was shown.
    pub(crate) sandbox: Value,
}

/// The sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    remembered: Mutex<Remembered>,
}

#[derive(Debug, Default)]
struct Remembered {
    runs: HashMap<String, LastRun>,
    /// Longest unused first.
    order: VecDeque<String>,
}

impl Sessions {
    /// Remembers the run as the last one of its session.
    pub(crate) fn remember(&self, session: &str, run: LastRun) {
        let mut remembered = self.lock();
        remembered.forget(session);
        while remembered.runs.len() >= MOST_SESSIONS {
            let Some(oldest) = remembered.order.pop_front() else { break };
            remembered.runs.remove(&oldest);
        }
        remembered.runs.insert(session.to_owned(), run);
        remembered.order.push_back(session.to_owned());
    }

    /// The last run of a session, if there was one.
    pub(crate) fn last(&self, session: &str) -> Option<LastRun> {
        self.lock().runs.get(session).cloned()
    }

    /// Forgets the session.
    pub(crate) fn close(&self, session: &str) {
        self.lock().forget(session);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Remembered> {
        // Whole even if a holder panicked: the worst is a name in `order` without a run.
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remembered {
    fn forget(&mut self, session: &str) {
        if self.runs.remove(session).is_some() {
            self.order.retain(|name| name != session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(returncode: i32) -> LastRun {
        LastRun { returncode: returncode.into(), ..LastRun::default() }
    }

    #[test]
    fn each_session_has_its_own_last_run() {
        let sessions = Sessions::default();
        assert_eq!(sessions.last("a"), None);
        sessions.remember("a", run(1));
        sessions.remember("b", run(2));
        sessions.remember("a", run(3));
        assert_eq!(sessions.last("a"), Some(run(3)));
        assert_eq!(sessions.last("b"), Some(run(2)));
        sessions.close("a");
        assert_eq!(sessions.last("a"), None);
        assert_eq!(sessions.last("b"), Some(run(2)));
    }

    #[test]
    fn the_session_unused_for_longest_goes_first_when_there_are_too_many() {
        let sessions = Sessions::default();
        for number in 0..MOST_SESSIONS {
            sessions.remember(&number.to_string(), run(0));
        }
        sessions.remember("0", run(7));
        sessions.remember("new", run(0));
        assert_eq!(sessions.last("1"), None);
        assert_eq!(sessions.last("0"), Some(run(7)));
        assert_eq!(sessions.lock().runs.len(), MOST_SESSIONS);
        assert_eq!(sessions.lock().order.len(), MOST_SESSIONS);
    }
}
