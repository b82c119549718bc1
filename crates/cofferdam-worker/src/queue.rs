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
mod tests {
    use std::pin::{Pin, pin};

    use futures_util::FutureExt;

    use super::*;

    type Turn = Pin<Box<dyn Future<Output = Result<Permit, NotAdmitted>> + Send>>;

    fn queue(serial: bool, max_running: usize, max_queued: usize) -> Queue {
        Queue::new(QueueLimits { serial, max_running, max_queued })
    }

    fn admit(queue: &Queue, session: &str) -> Turn {
        Box::pin(queue.admit(session, Weight::Heavy, CancellationToken::new()))
    }

    fn light(queue: &Queue, session: &str) -> Turn {
        Box::pin(queue.admit(session, Weight::Light, CancellationToken::new()))
    }

    /// The permit, when it is there already.
    fn now(turn: &mut Turn) -> Option<Permit> {
        turn.now_or_never().map(|admitted| admitted.unwrap())
    }

    #[test]
    fn calls_of_one_session_run_one_after_the_other_in_order() {
        let queue = queue(true, 8, 8);
        let (mut first, mut second, mut third) =
            (admit(&queue, "a"), admit(&queue, "a"), admit(&queue, "a"));
        let running = now(&mut first).unwrap();
        assert!(now(&mut second).is_none() && now(&mut third).is_none());
        drop(running);
        assert!(now(&mut third).is_none());
        let running = now(&mut second).unwrap();
        assert!(now(&mut third).is_none());
        drop(running);
        assert!(now(&mut third).is_some());
    }

    #[test]
    fn sessions_run_beside_each_other() {
        let queue = queue(true, 8, 8);
        let (mut one, mut held_up, mut other) =
            (admit(&queue, "a"), admit(&queue, "a"), admit(&queue, "b"));
        let _one = now(&mut one).unwrap();
        assert!(now(&mut held_up).is_none());
        assert!(now(&mut other).is_some());
    }

    #[test]
    fn concurrent_mode_runs_calls_of_one_session_beside_each_other() {
        let queue = queue(false, 8, 8);
        let (mut first, mut second) = (admit(&queue, "a"), admit(&queue, "a"));
        let _first = now(&mut first).unwrap();
        assert!(now(&mut second).is_some());
    }

    #[test]
    fn the_whole_server_runs_no_more_than_allowed() {
        let queue = queue(true, 2, 8);
        let mut turns: Vec<_> =
            ["a", "b", "c", "d"].iter().map(|session| admit(&queue, session)).collect();
        let first = now(&mut turns[0]).unwrap();
        let _second = now(&mut turns[1]).unwrap();
        assert!(now(&mut turns[2]).is_none());
        assert_eq!(queue.load(), (2, 2));
        drop(first);
        assert!(now(&mut turns[3]).is_none(), "the one that came later must not overtake");
        assert!(now(&mut turns[2]).is_some());
    }

    #[test]
    fn one_waiting_call_too_many_is_refused_at_once() {
        let queue = queue(true, 1, 2);
        let mut first = admit(&queue, "a");
        let running = now(&mut first).unwrap();
        let (mut second, mut third) = (admit(&queue, "b"), admit(&queue, "a"));
        assert!(now(&mut second).is_none() && now(&mut third).is_none());
        let refused = admit(&queue, "c").now_or_never().unwrap().unwrap_err();
        assert_eq!(refused, NotAdmitted::Busy);
        drop(running);
        assert!(now(&mut second).is_some(), "those who waited keep their places");
    }

    #[test]
    fn without_waiting_places_a_free_place_is_still_given() {
        let queue = queue(true, 1, 0);
        let running = now(&mut admit(&queue, "a")).unwrap();
        assert!(matches!(admit(&queue, "b").now_or_never(), Some(Err(NotAdmitted::Busy))));
        drop(running);
        assert!(now(&mut admit(&queue, "b")).is_some());
    }

    #[test]
    fn a_cancelled_waiting_call_leaves_the_queue() {
        let queue = queue(true, 1, 1);
        let running = now(&mut admit(&queue, "a")).unwrap();
        let cancel = CancellationToken::new();
        let mut waiting = pin!(queue.admit("a", Weight::Heavy, cancel.clone()));
        assert!(waiting.as_mut().now_or_never().is_none());
        cancel.cancel();
        assert!(matches!(waiting.now_or_never(), Some(Err(NotAdmitted::Cancelled))));
        assert_eq!(queue.load(), (1, 0));
        let mut next = admit(&queue, "a");
        drop(running);
        assert!(now(&mut next).is_some());
    }

    #[test]
    fn a_dropped_waiting_call_leaves_the_queue_even_if_its_turn_had_come() {
        let queue = queue(true, 1, 4);
        let running = now(&mut admit(&queue, "a")).unwrap();
        let dropped = admit(&queue, "a");
        let mut next = admit(&queue, "a");
        drop(running);
        assert_eq!(queue.load(), (1, 1), "the turn has been given and not been taken");
        drop(dropped);
        assert!(now(&mut next).is_some());
    }

    #[test]
    fn light_calls_keep_the_order_of_their_session_and_need_no_free_place() {
        let queue = queue(true, 1, 8);
        let running = now(&mut admit(&queue, "a")).unwrap();
        let (mut behind, mut free) = (light(&queue, "a"), light(&queue, "b"));
        assert!(now(&mut behind).is_none());
        assert!(now(&mut free).is_some());
        drop(running);
        assert!(now(&mut behind).is_some());
        assert_eq!(queue.load(), (0, 0));
    }

    #[test]
    fn a_light_call_does_not_overtake_a_heavy_one_of_its_session() {
        let queue = queue(true, 1, 8);
        let running = now(&mut admit(&queue, "a")).unwrap();
        let (mut heavy, mut behind) = (admit(&queue, "b"), light(&queue, "b"));
        assert!(now(&mut heavy).is_none() && now(&mut behind).is_none());
        drop(running);
        let heavy = now(&mut heavy).unwrap();
        assert!(now(&mut behind).is_none());
        drop(heavy);
        assert!(now(&mut behind).is_some());
    }

    #[test]
    fn a_call_that_steps_aside_holds_nothing_up_and_comes_back_before_later_ones() {
        let queue = queue(true, 1, 0);
        let away = now(&mut admit(&queue, "a")).unwrap().step_aside();
        assert_eq!(queue.load(), (0, 0));
        let running = now(&mut admit(&queue, "a")).unwrap();
        let mut back: Turn = Box::pin(away.come_back(CancellationToken::new()));
        assert!(now(&mut back).is_none());
        assert_eq!(queue.load(), (1, 1), "the bound on waiting calls is not for it");
        drop(running);
        let back = now(&mut back).unwrap();
        assert!(matches!(admit(&queue, "a").now_or_never(), Some(Err(NotAdmitted::Busy))));
        drop(back);
        assert!(now(&mut admit(&queue, "a")).is_some());
    }

    #[test]
    fn a_call_that_comes_back_is_let_in_before_those_that_wait() {
        let queue = queue(true, 1, 8);
        let away = now(&mut admit(&queue, "a")).unwrap().step_aside();
        let running = now(&mut admit(&queue, "b")).unwrap();
        let mut later = admit(&queue, "a");
        assert!(now(&mut later).is_none());
        let mut back: Turn = Box::pin(away.come_back(CancellationToken::new()));
        drop(running);
        assert!(now(&mut later).is_none());
        assert!(now(&mut back).is_some());
    }

    #[test]
    fn a_cancelled_call_does_not_come_back() {
        let queue = queue(true, 1, 8);
        let away = now(&mut admit(&queue, "a")).unwrap().step_aside();
        let _running = now(&mut admit(&queue, "b")).unwrap();
        let cancel = CancellationToken::new();
        let mut back: Turn = Box::pin(away.come_back(cancel.clone()));
        assert!(now(&mut back).is_none());
        cancel.cancel();
        assert!(matches!(back.now_or_never(), Some(Err(NotAdmitted::Cancelled))));
        assert_eq!(queue.load(), (1, 0));
    }

    #[test]
    fn a_limit_of_no_running_calls_counts_as_one() {
        assert!(now(&mut admit(&queue(true, 0, 4), "a")).is_some());
    }
}
