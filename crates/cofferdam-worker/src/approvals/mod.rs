//! The calls that wait for a person: who may decide, once, and for how long.
//!
//! A call waits in one of two ways. Either its own task waits here ([`Approvals::wait`]), and leaves
//! when it ends for whatever reason; or the call was answered and its plan is parked
//! ([`Approvals::park`]) until the same caller comes back with the answer. A parked plan is taken out
//! once and for all, so an approval is good for one run. Everything is bounded. Not here: asking, and
//! what a call is.

mod question;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use cofferdam_policy::Approval;
use cofferdam_protocol::{ErrorCode, Failure, admin::WaitingApproval};
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

pub(crate) use question::Question;

/// Most calls that wait for a person. Below what the gateway passes on at a time, so that calls that
/// wait for nobody always find a place there.
pub(crate) const MOST_WAITING: usize = 128;
/// Most of them that are of one session.
pub(crate) const MOST_PER_SESSION: usize = 32;
/// Most memory that parked plans may hold, in bytes.
pub(crate) const MOST_PARKED_BYTES: usize = 64 * 1024 * 1024;

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Allowed(Approval),
    Denied,
    /// Nobody who could decide is left.
    Unreachable,
}

/// How the wait of a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A person agreed.
    Allowed(Approval),
    /// A person said no.
    Denied,
    /// Nobody decided in time.
    Expired,
    /// Nobody could be asked after all.
    Unreachable,
}

/// What came of an answer to a parked call.
#[derive(Debug)]
pub(crate) enum Redeemed<P> {
    /// It may run, this once.
    Allowed(P, Approval),
    /// A person said no.
    Denied,
    /// There is no answer yet: the question again.
    Unanswered(Box<WaitingApproval>),
}

/// Who says which call may run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'a> {
    /// Id of the question.
    pub(crate) id: &'a str,
    pub(crate) session: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) digest: &'a str,
}

/// The waiting calls. `P` is the plan of a parked one. Clones share everything.
#[derive(Debug)]
pub(crate) struct Approvals<P> {
    wait: Duration,
    entries: Arc<Mutex<HashMap<String, Entry<P>>>>,
}

#[derive(Debug)]
struct Entry<P> {
    question: Question,
    asked: Instant,
    expires: Instant,
    verdict: watch::Sender<Option<Verdict>>,
    /// The plan and its size, when no task waits.
    parked: Option<(P, usize)>,
}

/// A call that waits here. Leaves when dropped.
#[derive(Debug)]
pub(crate) struct Waiting<P> {
    approvals: Approvals<P>,
    id: String,
    expires: Instant,
    verdict: watch::Receiver<Option<Verdict>>,
}

impl<P> Clone for Approvals<P> {
    fn clone(&self) -> Self {
        Self { wait: self.wait, entries: self.entries.clone() }
    }
}

impl<P> Approvals<P> {
    /// No call waits yet; each will wait for at most `wait`.
    pub(crate) fn new(wait: Duration) -> Self {
        Self { wait, entries: Arc::default() }
    }

    /// Lets a call wait.
    ///
    /// # Errors
    /// `busy` when too many wait.
    pub(crate) fn wait(&self, question: Question) -> Result<Waiting<P>, Failure> {
        let (id, expires, verdict) = self.enter(question, None)?;
        Ok(Waiting { approvals: self.clone(), id, expires, verdict })
    }

    /// Keeps the plan of a call, which takes `bytes`, until the answer is brought.
    ///
    /// # Errors
    /// `busy` when too many wait or their plans are too large.
    pub(crate) fn park(
        &self,
        question: Question,
        plan: P,
        bytes: usize,
    ) -> Result<Box<WaitingApproval>, Failure> {
        let (id, ..) = self.enter(question, Some((plan, bytes)))?;
        self.shown(&id).ok_or_else(|| gone("the question could not be kept"))
    }

    /// The waiting calls, the oldest first.
    pub(crate) fn list(&self) -> Vec<WaitingApproval> {
        let now = Instant::now();
        let entries = self.lock();
        let mut all: Vec<_> = entries.iter().filter(|(_, entry)| !entry.is_decided()).collect();
        all.sort_by(|(left, one), (right, other)| {
            one.asked.cmp(&other.asked).then_with(|| left.cmp(right))
        });
        all.into_iter().map(|(id, entry)| entry.shown(id, now)).collect()
    }

    /// Decides about a waiting call. The first decision holds, but a refusal still stops a parked
    /// call that was allowed and has not been taken out: nothing begins after a person said no.
    ///
    /// # Errors
    /// `denied` when there is no such call or it has been decided.
    pub(crate) fn decide(&self, id: &str, allow: bool, by: Approval) -> Result<Question, Failure> {
        let entries = self.lock();
        let entry = entries.get(id).ok_or_else(|| gone("no call with that id waits"))?;
        let verdict = if allow { Verdict::Allowed(by) } else { Verdict::Denied };
        let before = *entry.verdict.borrow();
        let open = match before {
            None => true,
            Some(Verdict::Allowed(_)) => !allow && entry.parked.is_some(),
            Some(Verdict::Denied | Verdict::Unreachable) => false,
        };
        if !open {
            return Err(gone("that call has been decided already"));
        }
        entry.verdict.send_replace(Some(verdict));
        Ok(entry.question.clone())
    }

    /// Nobody is left who could decide about that call.
    pub(crate) fn give_up(&self, id: &str) {
        if let Some(entry) = self.lock().get(id)
            && !entry.is_decided()
        {
            entry.verdict.send_replace(Some(Verdict::Unreachable));
        }
    }

    /// Takes out what was parked, if the claim is about that very call and a person has agreed.
    ///
    /// `answer` is what the caller's own person said, if it was brought.
    ///
    /// # Errors
    /// `approval_required` when nothing waits under that id: it was used, refused or has expired; and
    /// when the claim is of another caller or about another call, which is then left alone.
    pub(crate) fn redeem(
        &self,
        claim: Claim<'_>,
        answer: Option<bool>,
    ) -> Result<Redeemed<P>, Failure> {
        let mut entries = self.lock();
        let entry = entries.get(claim.id).filter(|entry| entry.parked.is_some());
        let entry = entry.ok_or_else(|| gone("this approval was used, refused or has expired"))?;
        let asked = &entry.question;
        if asked.session != claim.session {
            return Err(gone("this approval was given to another caller"));
        }
        if asked.tool != claim.tool || asked.digest != claim.digest {
            return Err(gone(
                "this approval is for another call: the tool or its arguments differ",
            ));
        }
        let verdict = *entry.verdict.borrow();
        let allowed = match (verdict, answer) {
            (Some(Verdict::Denied | Verdict::Unreachable), _) | (_, Some(false)) => None,
            (Some(Verdict::Allowed(by)), _) => Some(by),
            (None, Some(true)) => Some(Approval::Elicitation),
            (None, None) => {
                let shown = entry.shown(claim.id, Instant::now());
                return Ok(Redeemed::Unanswered(Box::new(shown)));
            }
        };
        let taken = entries.remove(claim.id).and_then(|entry| entry.parked);
        Ok(match (taken, allowed) {
            (Some((plan, _)), Some(by)) => Redeemed::Allowed(plan, by),
            _ => Redeemed::Denied,
        })
    }

    /// Forgets what is parked for a session.
    pub(crate) fn close_session(&self, session: &str) {
        self.lock().retain(|_, entry| entry.parked.is_none() || entry.question.session != session);
    }

    fn enter(
        &self,
        question: Question,
        parked: Option<(P, usize)>,
    ) -> Result<(String, Instant, watch::Receiver<Option<Verdict>>), Failure> {
        let id = fresh_id()?;
        let mut entries = self.lock();
        let of_session =
            entries.values().filter(|entry| entry.question.session == question.session).count();
        if entries.len() >= MOST_WAITING || of_session >= MOST_PER_SESSION {
            return Err(full("too many calls wait for a person already"));
        }
        let bytes = |parked: &Option<(P, usize)>| parked.as_ref().map_or(0, |(_, bytes)| *bytes);
        let held: usize = entries.values().map(|entry| bytes(&entry.parked)).sum();
        if held.saturating_add(bytes(&parked)) > MOST_PARKED_BYTES {
            return Err(full("the calls that wait for a person hold too much memory already"));
        }
        let asked = Instant::now();
        let expires = asked + self.wait;
        let (verdict, receiver) = watch::channel(None);
        entries.insert(id.clone(), Entry { question, asked, expires, verdict, parked });
        Ok((id, expires, receiver))
    }

    fn shown(&self, id: &str) -> Option<Box<WaitingApproval>> {
        self.lock().get(id).map(|entry| Box::new(entry.shown(id, Instant::now())))
    }

    /// The entries, those that have expired left out. A call whose own task waits ends by itself.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entry<P>>> {
        // The map is whole even if a holder panicked: every change to it is one call.
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        entries.retain(|_, entry| entry.parked.is_none() || entry.expires > now);
        entries
    }
}

impl<P> Entry<P> {
    fn is_decided(&self) -> bool {
        self.verdict.borrow().is_some()
    }

    fn shown(&self, id: &str, now: Instant) -> WaitingApproval {
        self.question.shown(id, now - self.asked, self.expires - now)
    }
}

impl<P> Waiting<P> {
    /// The call as people see it.
    pub(crate) fn shown(&self) -> Option<Box<WaitingApproval>> {
        self.approvals.shown(&self.id)
    }

    /// Nobody is left who could decide.
    pub(crate) fn give_up(&self) {
        self.approvals.give_up(&self.id);
    }

    /// Waits for the decision.
    pub(crate) async fn outcome(&mut self) -> Outcome {
        let decided = async {
            match self.verdict.wait_for(Option::is_some).await {
                Ok(verdict) => *verdict,
                // Its entry was removed, which only the drop of this does.
                Err(_) => Some(Verdict::Unreachable),
            }
        };
        tokio::select! {
            biased;
            verdict = decided => match verdict {
                Some(Verdict::Allowed(by)) => Outcome::Allowed(by),
                Some(Verdict::Denied) => Outcome::Denied,
                Some(Verdict::Unreachable) | None => Outcome::Unreachable,
            },
            () = sleep_until(self.expires) => Outcome::Expired,
        }
    }
}

impl<P> Drop for Waiting<P> {
    fn drop(&mut self) {
        self.approvals.lock().remove(&self.id);
    }
}

/// 128 random bits in hexadecimal.
fn fresh_id() -> Result<String, Failure> {
    let mut bytes = [0_u8; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())
            .map_err(|_| Failure::new(ErrorCode::Internal, "the system gives no random numbers"))?;
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn full(message: &str) -> Failure {
    Failure::new(ErrorCode::Busy, message)
        .with_hint("wait until some of them are decided, or ask the person to look at them")
}

fn gone(message: &str) -> Failure {
    Failure::new(ErrorCode::ApprovalRequired, message)
        .with_hint("make the call again, without a `requestState`, to have it asked about anew")
}
