//! Reads `syscalls.list`, strictly: what is not understood is an error, never a line skipped.
//!
//! Not here: what the kernel is told (`compile.rs`). The format is described at the head of the
//! list itself.

use std::sync::OnceLock;

use super::numbers;

/// What a refused call fails with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// `ENOSYS`
    NotImplemented,
    /// `EPERM`
    NotPermitted,
    /// `EPROTONOSUPPORT`
    ProtocolNotSupported,
    /// `EAFNOSUPPORT`
    FamilyNotSupported,
    /// `EINVAL`
    InvalidArgument,
}

impl Refusal {
    /// Every refusal. Where two conditions of one call hold, the later one here is answered.
    pub(super) const ALL: [Self; 5] = [
        Self::NotImplemented,
        Self::NotPermitted,
        Self::ProtocolNotSupported,
        Self::FamilyNotSupported,
        Self::InvalidArgument,
    ];

    /// The error number.
    pub(super) fn number(self) -> i32 {
        match self {
            Self::NotImplemented => libc::ENOSYS,
            Self::NotPermitted => libc::EPERM,
            Self::ProtocolNotSupported => libc::EPROTONOSUPPORT,
            Self::FamilyNotSupported => libc::EAFNOSUPPORT,
            Self::InvalidArgument => libc::EINVAL,
        }
    }

    fn parse(action: &str) -> Option<Self> {
        match action {
            "ENOSYS" => Some(Self::NotImplemented),
            "EPERM" => Some(Self::NotPermitted),
            "EPROTONOSUPPORT" => Some(Self::ProtocolNotSupported),
            "EAFNOSUPPORT" => Some(Self::FamilyNotSupported),
            "EINVAL" => Some(Self::InvalidArgument),
            _ => None,
        }
    }
}

/// A condition on one argument, of which only the low 32 bits count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    /// Which argument, from 0.
    pub(super) argument: u8,
    /// When it holds.
    pub(super) test: Test,
}

/// When a condition holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// The argument is one of these.
    AnyOf(Vec<u32>),
    /// The bits of the argument that are in the mask are one of these.
    Bits {
        /// The bits that count.
        mask: u32,
        /// What they are compared with.
        values: Vec<u32>,
    },
    /// The argument is none of these.
    NoneOf(Vec<u32>),
}

/// What happens to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The kernel decides.
    Allow,
    /// It fails.
    Refuse(Refusal),
    /// It fails when the condition holds.
    RefuseWhen(Refusal, Condition),
}

/// One line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The system call.
    pub(super) name: &'static str,
    /// Its number, where this architecture has it.
    pub(super) number: Option<libc::c_long>,
    /// What happens to it.
    pub(super) decision: Decision,
}

/// A line of the list is not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ListError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: ListProblem,
}

/// What is wrong with a line of the list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListProblem {
    /// No supported architecture has such a call.
    #[error("unknown system call `{0}`")]
    UnknownName(String),
    /// Neither `allow` nor one of the errors that can be answered.
    #[error("unknown action `{0}`")]
    UnknownAction(String),
    /// The line ends after the name.
    #[error("the action is missing")]
    MissingAction,
    /// Every line says why.
    #[error("the reason is missing")]
    MissingReason,
    /// The text after `if` or `unless` is not a condition that can be compiled.
    #[error("condition `{0}` is not understood")]
    Condition(String),
    /// What is allowed in general is written without a condition.
    #[error("`allow` takes no condition")]
    ConditionOnAllow,
    /// The call has a line without a condition already.
    #[error("`{0}` is decided twice")]
    DecidedTwice(String),
    /// A condition refuses part of what an earlier line allows, so there must be one.
    #[error("`{0}` has a condition, but no earlier line allows it")]
    ConditionBeforeAllow(String),
}

/// The list that comes with the program.
pub(super) fn shipped() -> Result<&'static [Entry], &'static ListError> {
    static SHIPPED: OnceLock<Result<Vec<Entry>, ListError>> = OnceLock::new();
    SHIPPED.get_or_init(|| parse(include_str!("syscalls.list"))).as_deref()
}

/// Reads a whole list.
pub(super) fn parse(text: &str) -> Result<Vec<Entry>, ListError> {
    let mut entries = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = parse_line(line)
            .and_then(|entry| fits(&entry, &entries).map(|()| entry))
            .map_err(|problem| ListError { line: index + 1, problem })?;
        entries.push(entry);
    }
    Ok(entries)
}

fn parse_line(line: &str) -> Result<Entry, ListProblem> {
    let mut words = line.split_whitespace().peekable();
    let written = words.next().unwrap_or_default();
    let (name, number) =
        numbers::find(written).ok_or_else(|| ListProblem::UnknownName(written.to_owned()))?;
    let action = words.next().ok_or(ListProblem::MissingAction)?;
    let condition = match words.next_if(|word| matches!(*word, "if" | "unless")) {
        Some(keyword) => {
            let written = words.next().unwrap_or_default();
            let condition = parse_condition(keyword, written)
                .ok_or_else(|| ListProblem::Condition(format!("{keyword} {written}")))?;
            Some(condition)
        }
        None => None,
    };
    words.next().ok_or(ListProblem::MissingReason)?;

    let decision = match (action, Refusal::parse(action), condition) {
        ("allow", _, None) => Decision::Allow,
        ("allow", _, Some(_)) => return Err(ListProblem::ConditionOnAllow),
        (_, Some(refusal), None) => Decision::Refuse(refusal),
        (_, Some(refusal), Some(condition)) => Decision::RefuseWhen(refusal, condition),
        (unknown, None, _) => return Err(ListProblem::UnknownAction(unknown.to_owned())),
    };
    Ok(Entry { name, number, decision })
}

/// `argN=V,V` or, after `if`, `argN&MASK=V,V`.
fn parse_condition(keyword: &str, written: &str) -> Option<Condition> {
    let (subject, values) = written.strip_prefix("arg")?.split_once('=')?;
    let values = values.split(',').map(parse_number).collect::<Option<Vec<u32>>>()?;
    let (argument, mask) = match subject.split_once('&') {
        Some((argument, mask)) => (argument, Some(parse_number(mask)?)),
        None => (subject, None),
    };
    let argument = argument.parse().ok().filter(|argument| *argument <= 5)?;
    let test = match (keyword, mask) {
        ("if", None) => Test::AnyOf(values),
        // A value with a bit outside the mask can never be met: such a line would refuse nothing.
        ("if", Some(mask)) if values.iter().all(|value| value & !mask == 0) => {
            Test::Bits { mask, values }
        }
        ("unless", None) => Test::NoneOf(values),
        _ => return None,
    };
    Some(Condition { argument, test })
}

fn parse_number(written: &str) -> Option<u32> {
    match written.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => written.parse().ok(),
    }
}

/// A call is decided once; conditions come after the line that allows it.
fn fits(entry: &Entry, earlier: &[Entry]) -> Result<(), ListProblem> {
    let mut general = earlier
        .iter()
        .filter(|other| other.name == entry.name)
        .map(|other| &other.decision)
        .filter(|decision| !matches!(decision, Decision::RefuseWhen(..)));
    match (&entry.decision, general.next()) {
        (Decision::RefuseWhen(..), Some(Decision::Allow)) => Ok(()),
        (Decision::RefuseWhen(..), _) => {
            Err(ListProblem::ConditionBeforeAllow(entry.name.to_owned()))
        }
        (_, None) => Ok(()),
        (_, Some(_)) => Err(ListProblem::DecidedTwice(entry.name.to_owned())),
    }
}
