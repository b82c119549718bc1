//! The list is read strictly, and the list that is shipped decides every call.

use super::super::list::{Condition, Decision, ListProblem, Refusal, Test, parse, shipped};
use super::super::numbers::NUMBERS;

fn problem(text: &str) -> ListProblem {
    parse(text).unwrap_err().problem
}

#[test]
fn every_system_call_that_has_a_name_is_decided_in_the_list() {
    let entries = shipped().unwrap();
    let undecided: Vec<_> = NUMBERS
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| entries.iter().all(|entry| entry.name != *name))
        .collect();
    assert_eq!(undecided, Vec::<&str>::new());
}

#[test]
fn every_name_and_every_number_is_known_once() {
    for (index, (name, number)) in NUMBERS.iter().enumerate() {
        for (other, other_number) in &NUMBERS[index + 1..] {
            assert_ne!(name, other);
            assert!(number.is_none() || number != other_number, "{name} and {other}: {number:?}");
        }
    }
}

#[test]
fn the_columns_of_the_list_are_aligned() {
    let lines = include_str!("../syscalls.list").lines();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let starts_word =
            |column: usize| line.as_bytes()[column - 1] == b' ' && line.as_bytes()[column] != b' ';
        assert!(starts_word(25) && starts_word(42), "{line}");
    }
}

#[test]
fn conditions_are_read_as_written() {
    let entries = parse(
        "ioctl allow terminals\n\
         ioctl EPERM if arg1=0x5412,7 typing\n\
         ioctl ENOSYS if arg5&0xf0=0x10 bits\n\
         ioctl EAFNOSUPPORT unless arg0=1 rest\n",
    )
    .unwrap();
    let decisions: Vec<_> = entries.into_iter().map(|entry| entry.decision).collect();
    let when =
        |refusal, argument, test| Decision::RefuseWhen(refusal, Condition { argument, test });
    assert_eq!(
        decisions,
        [
            Decision::Allow,
            when(Refusal::NotPermitted, 1, Test::AnyOf(vec![0x5412, 7])),
            when(Refusal::NotImplemented, 5, Test::Bits { mask: 0xf0, values: vec![0x10] }),
            when(Refusal::FamilyNotSupported, 0, Test::NoneOf(vec![1])),
        ]
    );
}

#[test]
fn an_error_names_the_line() {
    let error = parse("# head\n\nread allow files\nraed allow files\n").unwrap_err();
    assert_eq!(error.to_string(), "line 4: unknown system call `raed`");
}

#[test]
fn what_is_not_understood_is_an_error() {
    assert_eq!(problem("read"), ListProblem::MissingAction);
    assert_eq!(problem("read allow"), ListProblem::MissingReason);
    assert_eq!(problem("read ENOSYS"), ListProblem::MissingReason);
    assert_eq!(problem("read Allow files"), ListProblem::UnknownAction("Allow".into()));
    assert_eq!(problem("read EACCES files"), ListProblem::UnknownAction("EACCES".into()));
    assert_eq!(problem("Read allow files"), ListProblem::UnknownName("Read".into()));
    assert_eq!(problem("  # indented comment"), ListProblem::UnknownName("#".into()));
    assert_eq!(problem("read allow if arg0=1 files"), ListProblem::ConditionOnAllow);
    assert_eq!(problem("read EPERM if arg0=1"), ListProblem::MissingReason);
}

#[test]
fn a_condition_that_could_never_hold_or_is_misspelt_is_an_error() {
    for condition in [
        "if",
        "if arg0",
        "if arg6=1",
        "if arg-1=1",
        "if arg=1",
        "if 0=1",
        "if arg0=",
        "if arg0=1,",
        "if arg0=x",
        "if arg0=-1",
        "if arg0=0x100000000",
        "if arg0&=1",
        "if arg0&0xf=0x10",
        "unless arg0&0xf=1",
    ] {
        let problem = problem(&format!("read allow files\nread EPERM {condition} reason"));
        assert!(matches!(problem, ListProblem::Condition(_)), "{condition}: {problem:?}");
    }
}

#[test]
fn a_call_is_decided_once_and_conditions_follow_what_they_narrow() {
    let twice = ListProblem::DecidedTwice("read".into());
    let early = ListProblem::ConditionBeforeAllow("read".into());
    assert_eq!(problem("read allow a\nread EPERM b"), twice);
    assert_eq!(problem("read EPERM a\nread EPERM b"), twice);
    assert_eq!(problem("read EPERM if arg0=1 a\nread allow b"), early);
    assert_eq!(problem("read EPERM a\nread ENOSYS if arg0=1 b"), early);
}
