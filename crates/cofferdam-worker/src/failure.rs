//! From the errors of the crates below to what a caller is told: a code, a message, a hint.
//!
//! The sources of an error are part of the message here, because nobody after this prints a chain.

use std::{error::Error, path::Path};

use cofferdam_backend::{BackendError, NotStarted, SelectError};
use cofferdam_fs::{PathError, WorkspaceError};
use cofferdam_policy::{PendingGrant, Refusal, profile::ProfileError};
use cofferdam_protocol::{ErrorCode, Failure};

use crate::{audit::AuditError, tool_control::ToolControlError};

pub(crate) fn of_workspace(error: &WorkspaceError) -> Failure {
    Failure::new(ErrorCode::WorkspaceInvalid, chain(error)).with_hint(error.hint())
}

/// Something else lies where the workspace was, and a link leads there.
pub(crate) fn of_moved_workspace(expected: &Path, found: &Path) -> Failure {
    Failure::new(
        ErrorCode::WorkspaceInvalid,
        format!("`{}` now leads to `{}`", expected.display(), found.display()),
    )
    .with_hint("the workspace was replaced by a link; put a directory there, or start anew")
}

pub(crate) fn of_path(error: &PathError) -> Failure {
    let code = if error.leaves_workspace() {
        ErrorCode::PathOutsideWorkspace
    } else {
        ErrorCode::InvalidArguments
    };
    let failure = Failure::new(code, chain(error));
    match error.hint() {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

pub(crate) fn of_profile(error: &ProfileError) -> Failure {
    let failure = Failure::new(ErrorCode::ProfileUnknown, chain(error));
    match error.hint() {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

pub(crate) fn of_refusal(refusal: &Refusal) -> Failure {
    let code = match refusal {
        Refusal::NoSuchBackend(_) => ErrorCode::InvalidArguments,
        _ => ErrorCode::Denied,
    };
    Failure::new(code, chain(refusal)).with_hint(refusal.hint())
}

/// A person would have to agree, and nobody can be asked.
pub(crate) fn of_unasked(pending: &PendingGrant, hint: &str) -> Failure {
    let message = format!("a person must agree before this may run: {}", pending.reason_text());
    Failure::new(ErrorCode::ApprovalRequired, message).with_hint(hint)
}

pub(crate) fn of_selection(error: &SelectError) -> Failure {
    let code = match error {
        SelectError::TooWeak { .. } => ErrorCode::EnforcementTooWeak,
        _ => ErrorCode::BackendUnavailable,
    };
    let failure = Failure::new(code, chain(error));
    if error.hint().is_empty() { failure } else { failure.with_hint(error.hint()) }
}

pub(crate) fn of_tool_control(error: &ToolControlError) -> Failure {
    let failure = Failure::new(ErrorCode::Internal, chain(error));
    match error {
        ToolControlError::TooMany(_) => failure.with_hint("forget some of them first"),
        ToolControlError::Keep { .. } => {
            failure.with_hint("nothing was changed; make room or mend the folder, and try again")
        }
        ToolControlError::Read { .. } => failure.with_hint("end the server and start it anew"),
    }
}

pub(crate) fn of_backends(error: &BackendError) -> Failure {
    Failure::new(ErrorCode::Internal, chain(error))
}

pub(crate) fn of_start(not_started: &NotStarted) -> Failure {
    let failure = Failure::new(ErrorCode::StartFailed, not_started.message.clone());
    match &not_started.hint {
        Some(hint) => failure.with_hint(hint.clone()),
        None => failure,
    }
}

pub(crate) fn of_audit(error: &AuditError) -> Failure {
    Failure::new(ErrorCode::AuditUnavailable, chain(error)).with_hint(error.hint())
}

/// An error and its sources on one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use cofferdam_policy::{BackendKind, Dimension, Strength};

    use super::*;

    #[test]
    fn the_sources_of_an_error_are_in_the_message() {
        let error = PathError::System {
            operation: "opening",
            path: PathBuf::from("/srv/x"),
            source: std::io::Error::from_raw_os_error(13),
        };
        let failure = of_path(&error);
        assert_eq!(failure.message, "opening `/srv/x`: Permission denied (os error 13)");
        assert_eq!(failure.code, ErrorCode::InvalidArguments);
    }

    #[test]
    fn a_path_that_leaves_has_its_own_code_and_a_hint() {
        let error = PathError::Outside { path: "/etc".into(), root: "/work".into() };
        let failure = of_path(&error);
        assert_eq!(failure.code, ErrorCode::PathOutsideWorkspace);
        assert!(failure.hint.is_some());
    }

    #[test]
    fn a_backend_too_weak_and_one_that_is_not_there_have_different_codes() {
        let weak = SelectError::TooWeak {
            profile: "p".into(),
            backend: BackendKind::Host,
            dimension: Dimension::Files,
            held: Strength::None,
            required: Strength::Full,
            hint: "install bubblewrap".into(),
        };
        let failure = of_selection(&weak);
        assert_eq!(failure.code, ErrorCode::EnforcementTooWeak);
        assert_eq!(failure.hint.as_deref(), Some("install bubblewrap"));
        let absent = SelectError::Unavailable {
            profile: "p".into(),
            causes: "c".into(),
            hint: String::new(),
        };
        assert_eq!(of_selection(&absent).code, ErrorCode::BackendUnavailable);
        assert_eq!(of_selection(&absent).hint, None);
    }

    #[test]
    fn a_backend_that_is_none_is_a_wrong_argument_and_one_not_allowed_is_denied() {
        let failure = of_refusal(&Refusal::NoSuchBackend("vm".into()));
        assert_eq!(failure.code, ErrorCode::InvalidArguments);
        let refusal = Refusal::BackendNotAllowed {
            profile: "p".into(),
            backend: "host",
            allowed: "bubblewrap".into(),
        };
        assert_eq!(of_refusal(&refusal).code, ErrorCode::Denied);
    }
}
