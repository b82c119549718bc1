//! What becomes known of a call while it is carried out, for the record of its end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cofferdam_backend::Outcome;
use cofferdam_policy::{Decision, Dimension, Grant};
use serde_json::{Map, Value};

use super::record::{Run, bounded, bounded_list};
use crate::normalize;

/// The facts of one call. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts(Arc<Mutex<Known>>);

/// What is known so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Known {
    pub(crate) profile: Option<String>,
    pub(crate) generation: Option<u64>,
    pub(crate) approval: Option<&'static str>,
    pub(crate) run: Option<Run>,
}

impl Facts {
    /// It was decided by a profile, whatever comes of it.
    pub(crate) fn decided(&self, decision: &Decision) {
        let (profile, generation) = match decision {
            Decision::Granted(grant) => (grant.profile(), grant.generation()),
            Decision::NeedsApproval(pending) => (pending.profile(), pending.generation()),
        };
        let mut known = self.lock();
        known.profile = Some(bounded(&profile.name));
        known.generation = Some(generation);
    }

    /// It may run: exactly this.
    pub(crate) fn granted(&self, grant: &Grant) {
        let mut known = self.lock();
        known.profile = Some(bounded(&grant.profile().name));
        known.generation = Some(grant.generation());
        known.approval = grant.approval().map(|approval| approval.as_str());
    }

    /// It ran.
    pub(crate) fn ran(&self, outcome: &Outcome) {
        self.lock().run = Some(run(outcome));
    }

    /// All of it.
    pub(crate) fn known(&self) -> Known {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // Whole even if a holder panicked: each field is set in one step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn run(outcome: &Outcome) -> Run {
    let strengths = Dimension::ALL.into_iter().map(|dimension| {
        let strength = outcome.report.enforcement.get(dimension);
        (dimension.as_str().to_owned(), strength.as_str().into())
    });
    let not_armed = outcome.report.not_armed.iter().map(|name| bounded(name)).collect();
    Run {
        backend: outcome.backend.as_str(),
        verdict: normalize::verdict(&outcome.ending),
        returncode: normalize::returncode(&outcome.ending),
        duration_ms: normalize::duration_ms(outcome.duration),
        usage: normalize::usage(&outcome.usage),
        limits_hit: normalize::limits_hit(outcome, false, 0),
        quarantined: outcome.quarantined.len(),
        enforcement: Value::Object(strengths.collect::<Map<_, _>>()),
        not_armed: bounded_list(not_armed, |left_out| format!("and {left_out} more")),
    }
}
