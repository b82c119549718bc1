//! The tools: from a call's arguments to a plan. A tool plans, it never runs anything.

pub(crate) mod attribute;
pub(crate) mod bash;
pub(crate) mod python;
pub(crate) mod quotes;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use cofferdam_fs::Workspace;
use cofferdam_policy::CommandPlan;
use cofferdam_protocol::Failure;

use crate::{failure, normalize::Notes, runtime::Support};

/// What a tool that runs code wants done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunPlan {
    /// The command.
    pub(crate) command: CommandPlan,
    /// Its standard input; `None` is an empty one.
    pub(crate) input: Option<Vec<u8>>,
    /// What the answer says beside the outcome.
    pub(crate) notes: Notes,
    /// Another source to run if this one is no syntax.
    pub(crate) repair: Option<Repair>,
}

/// A source that may stand in for another one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Repair {
    /// Tells which of the two is syntax: [`quotes::REPAIRED_PARSES`] as exit status for this one.
    pub(crate) check: CommandPlan,
    /// Standard input of the check.
    pub(crate) input: Vec<u8>,
    /// The source.
    pub(crate) source: Vec<u8>,
}

/// The working directory of a run: resolved inside the workspace.
///
/// # Errors
/// `path_outside_workspace`, or `invalid_arguments` when there is no such directory.
pub(crate) fn working_directory(
    workspace: &Workspace,
    wanted: Option<&Path>,
) -> Result<PathBuf, Failure> {
    match wanted {
        None => Ok(workspace.path().to_owned()),
        Some(path) => workspace.resolve_directory(path).map_err(|error| {
            let failure = failure::of_path(&error);
            Failure { message: format!("cwd: {}", failure.message), ..failure }
        }),
    }
}

/// Seconds as a caller wrote them, already checked to be finite and above 0.
pub(crate) fn deadline(seconds: Option<f64>) -> Option<Duration> {
    let longest = Duration::MAX;
    seconds.map(|seconds| {
        // Too small for a nanosecond still is a deadline, not none.
        Duration::try_from_secs_f64(seconds).unwrap_or(longest).max(Duration::from_nanos(1))
    })
}

/// Adds to a command what the runtimes on its `PATH` need.
pub(crate) fn support(command: &mut CommandPlan, support: Support) {
    let missing: Vec<_> =
        support.mounts.into_iter().filter(|path| !command.runtime.contains(path)).collect();
    command.runtime.extend(missing);
    command.runtime_path.extend(support.path);
    command.runtime_environment.extend(support.environment);
}

#[cfg(test)]
mod tests {
    use cofferdam_protocol::ErrorCode;

    use super::*;

    #[test]
    fn the_working_directory_is_the_workspace_or_inside_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        let workspace = Workspace::open(folder.path(), &[]).unwrap();
        let resolve = |path: Option<&str>| working_directory(&workspace, path.map(Path::new));
        assert_eq!(resolve(None).unwrap(), workspace.path());
        assert_eq!(resolve(Some("sub")).unwrap(), workspace.path().join("sub"));
        let outside = resolve(Some("..")).unwrap_err();
        assert_eq!(outside.code, ErrorCode::PathOutsideWorkspace);
        assert!(outside.hint.is_some());
        let absent = resolve(Some("absent")).unwrap_err();
        assert_eq!(absent.code, ErrorCode::InvalidArguments);
        assert!(absent.message.starts_with("cwd: No such directory: /"), "{}", absent.message);
    }

    #[test]
    fn seconds_of_any_size_become_a_deadline() {
        assert_eq!(deadline(None), None);
        assert_eq!(deadline(Some(0.5)), Some(Duration::from_millis(500)));
        assert_eq!(deadline(Some(1e300)), Some(Duration::MAX));
        assert_eq!(deadline(Some(1e-300)), Some(Duration::from_nanos(1)));
    }
}
