//! Turns the list into programs for the kernel.
//!
//! A filter of `seccompiler` has one action for what matches and one for the rest, so each error
//! gets a filter of its own. Not here: reading the list, installing the programs.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use super::list::{Condition, Decision, Entry, Refusal, Test};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The programs of a list, in the order in which they are installed.
///
/// Every installed filter is asked and the strictest action wins; between equally strict ones it is
/// that of the filter installed **last** (seccomp(2), "Installing multiple filters"). So the
/// allow-list comes first and says `ENOSYS` to all that it does not know, and the others, which
/// allow all but what they refuse, replace that answer by theirs.
pub(super) fn compile(entries: &[Entry]) -> Result<Vec<BpfProgram>, BackendError> {
    let mut programs = vec![allow_list(entries)?];
    for refusal in Refusal::ALL {
        let rules = refusals(entries, refusal)?;
        if !rules.is_empty() {
            let answer = errno(refusal);
            programs.push(filter(rules, SeccompAction::Allow, answer)?);
        }
    }
    Ok(programs)
}

fn allow_list(entries: &[Entry]) -> Result<BpfProgram, BackendError> {
    let allowed = entries
        .iter()
        .filter(|entry| entry.decision == Decision::Allow)
        .filter_map(|entry| entry.number)
        .map(|number| (number, Vec::new()))
        .collect();
    filter(allowed, errno(Refusal::NotImplemented), SeccompAction::Allow)
}

fn refusals(entries: &[Entry], wanted: Refusal) -> Result<Rules, BackendError> {
    let mut rules = Rules::new();
    for entry in entries {
        let Some(number) = entry.number else { continue };
        match &entry.decision {
            // The allow-list answers this by not knowing the call.
            Decision::Refuse(Refusal::NotImplemented) => {}
            // No rules means: whatever the arguments are.
            Decision::Refuse(refusal) if *refusal == wanted => {
                rules.insert(number, Vec::new());
            }
            Decision::RefuseWhen(refusal, condition) if *refusal == wanted => {
                rules.entry(number).or_default().extend(alternatives(condition)?);
            }
            Decision::Allow | Decision::Refuse(_) | Decision::RefuseWhen(..) => {}
        }
    }
    Ok(rules)
}

/// Rules of which one must match; within a rule all comparisons must.
fn alternatives(condition: &Condition) -> Result<Vec<SeccompRule>, BackendError> {
    let compare = |operator, value: u32| {
        let length = SeccompCmpArgLen::Dword;
        SeccompCondition::new(condition.argument, length, operator, value.into())
    };
    match &condition.test {
        Test::AnyOf(values) => values
            .iter()
            .map(|value| SeccompRule::new(vec![compare(SeccompCmpOp::Eq, *value)?]))
            .collect(),
        Test::Bits { mask, values } => values
            .iter()
            .map(|value| {
                let operator = SeccompCmpOp::MaskedEq(u64::from(*mask));
                SeccompRule::new(vec![compare(operator, *value)?])
            })
            .collect(),
        Test::NoneOf(values) => {
            let all = values
                .iter()
                .map(|value| compare(SeccompCmpOp::Ne, *value))
                .collect::<Result<_, _>>()?;
            Ok(vec![SeccompRule::new(all)?])
        }
    }
}

fn filter(
    rules: Rules,
    otherwise: SeccompAction,
    on_match: SeccompAction,
) -> Result<BpfProgram, BackendError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, otherwise, on_match, architecture)?.try_into()
}

fn errno(refusal: Refusal) -> SeccompAction {
    SeccompAction::Errno(refusal.number().unsigned_abs())
}
