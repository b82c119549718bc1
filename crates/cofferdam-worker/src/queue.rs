//! Who runs next: order within a session, a bound on what runs, a bound on what waits.
//!
//! Calls are admitted in the order in which they came. In serial mode a session has at most one call
//! under way; a call whose session is busy is passed over, not waited for, so one slow session does
//! not hold up the others.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// What a queue allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueLimits {
    /// One call of a session at a time.
    pub(crate) serial: bool,
    /// Most heavy calls at once.
    pub(crate) max_running: usize,
    /// Most calls that wait.
    pub(crate) max_queued: usize,
}

/// What a call costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// It starts processes: counted against `max_running`.
    Heavy,
    /// It answers from memory: only its place in the session's order matters.
    Light,
}

/// Why a call was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAdmitted {
    /// Too many wait already.
    #[error("too many calls wait")]
    Busy,
    /// It was cancelled while it waited.
    #[error("cancelled while waiting")]
    Cancelled,
}

/// The queue. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limits: QueueLimits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    busy_sessions: HashSet<String>,
    waiting: VecDeque<Waiting>,
    next_ticket: u64,
}

#[derive(Debug)]
struct Waiting {
    ticket: u64,
    session: String,
    weight: Weight,
    turn: oneshot::Sender<Permit>,
}

/// The right to run one call; its drop lets the next one in.
#[derive(Debug)]
pub(crate) struct Permit {
    shared: Arc<Shared>,
    session: String,
    weight: Weight,
}

/// A call that has stepped aside: it holds nothing up and may come back.
#[derive(Debug)]
pub(crate) struct Away {
    shared: Arc<Shared>,
    session: String,
    weight: Weight,
}

impl Permit {
    /// Gives the place up for a while.
    pub(crate) fn step_aside(self) -> Away {
        Away { shared: self.shared.clone(), session: self.session.clone(), weight: self.weight }
    }
}

impl Away {
    /// Waits for a turn again, before all that have not had theirs: this call came earlier. Never
    /// refused for want of room.
    pub(crate) fn come_back(
        self,
        cancel: CancellationToken,
    ) -> impl Future<Output = Result<Permit, NotAdmitted>> + Send + use<> {
        let place = self.shared.enter_again(&self.session, self.weight);
        async move { place.turn(cancel).await }
    }
}

impl Queue {
    pub(crate) fn new(limits: QueueLimits) -> Self {
        let limits = QueueLimits { max_running: limits.max_running.max(1), ..limits };
        Self { shared: Arc::new(Shared { limits, state: Mutex::default() }) }
    }

    /// Takes a place in the order now; the future waits for the turn.
    ///
    /// Dropping the future, or cancelling, gives the place up.
    pub(crate) fn admit(
        &self,
        session: &str,
        weight: Weight,
        cancel: CancellationToken,
    ) -> impl Future<Output = Result<Permit, NotAdmitted>> + Send + use<> {
        let place = self.shared.enter(session, weight);
        async move { place?.turn(cancel).await }
    }

    /// How many heavy calls run, and how many calls wait.
    pub(crate) fn load(&self) -> (usize, usize) {
        let state = self.shared.lock();
        (state.running, state.waiting.len())
    }
}

/// A place in the order. Its drop leaves the queue.
struct Place {
    shared: Arc<Shared>,
    ticket: u64,
    turn: oneshot::Receiver<Permit>,
}

impl Place {
    async fn turn(mut self, cancel: CancellationToken) -> Result<Permit, NotAdmitted> {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(NotAdmitted::Cancelled),
            turn = &mut self.turn => turn.map_err(|_| NotAdmitted::Cancelled),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A permit that was sent and never taken is dropped with the receiver, after this.
        self.shared.lock().waiting.retain(|waiting| waiting.ticket != self.ticket);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole even if a holder panicked: nothing in here panics half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(self: &Arc<Self>, session: &str, weight: Weight) -> Result<Place, NotAdmitted> {
        let mut state = self.lock();
        let (waiting, receiver) = state.waiting(session, weight);
        let ticket = waiting.ticket;
        state.waiting.push_back(waiting);
        let admitted = state.take_admissible(&self.limits);
        if state.waiting.len() > self.limits.max_queued {
            // The bound was kept so far, so the one too many is the one that has just come.
            state.waiting.pop_back();
            return Err(NotAdmitted::Busy);
        }
        drop(state);
        self.tell(admitted);
        Ok(Place { shared: self.clone(), ticket, turn: receiver })
    }

    fn enter_again(self: &Arc<Self>, session: &str, weight: Weight) -> Place {
        let mut state = self.lock();
        let (waiting, turn) = state.waiting(session, weight);
        let ticket = waiting.ticket;
        state.waiting.push_front(waiting);
        let admitted = state.take_admissible(&self.limits);
        drop(state);
        self.tell(admitted);
        Place { shared: self.clone(), ticket, turn }
    }

    fn let_in(self: &Arc<Self>) {
        let admitted = self.lock().take_admissible(&self.limits);
        self.tell(admitted);
    }

    fn tell(self: &Arc<Self>, admitted: Vec<Waiting>) {
        for Waiting { session, weight, turn, .. } in admitted {
            // When nobody waits for it any more the permit comes back, and its drop lets the next
            // one in.
            let _ = turn.send(Permit { shared: self.clone(), session, weight });
        }
    }
}

impl State {
    fn waiting(&mut self, session: &str, weight: Weight) -> (Waiting, oneshot::Receiver<Permit>) {
        let (turn, receiver) = oneshot::channel();
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        (Waiting { ticket, session: session.to_owned(), weight, turn }, receiver)
    }

    /// Takes everyone out who may run now, oldest first, and counts them as running.
    fn take_admissible(&mut self, limits: &QueueLimits) -> Vec<Waiting> {
        let mut admitted = Vec::new();
        let mut passed_over = HashSet::new();
        let mut index = 0;
        while let Some(waiting) = self.waiting.get(index) {
            let room = waiting.weight == Weight::Light || self.running < limits.max_running;
            // The order within a session holds even where a lighter call could go ahead.
            let in_order = !limits.serial
                || !(self.busy_sessions.contains(&waiting.session)
                    || passed_over.contains(&waiting.session));
            if !(room && in_order) {
                passed_over.insert(waiting.session.clone());
                index += 1;
                continue;
            }
            let Some(waiting) = self.waiting.remove(index) else { break };
            self.running += usize::from(waiting.weight == Weight::Heavy);
            if limits.serial {
                self.busy_sessions.insert(waiting.session.clone());
            }
            admitted.push(waiting);
        }
        admitted
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.running -= usize::from(self.weight == Weight::Heavy);
        if self.shared.limits.serial {
            state.busy_sessions.remove(&self.session);
        }
        drop(state);
        self.shared.let_in();
    }
}

#[cfg(test)]
mod tests;
