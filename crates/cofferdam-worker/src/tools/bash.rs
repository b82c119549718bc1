//! `bash_coding_tool.execute`: a script, run by the Bash of this machine.

use std::path::Path;

use cofferdam_fs::Workspace;
use cofferdam_policy::{CommandPlan, Program};
use cofferdam_protocol::{Failure, tool::BashExecute};

use super::{RunPlan, deadline, support, working_directory};
use crate::{
    normalize::Notes,
    runtime::{BashRuntime, Support},
};

/// Canonical name of the tool.
pub(crate) const NAME: &str = "bash_coding_tool.execute";

/// Plans the run of a Bash script. `others` is what other runtimes need that scripts call.
/// `backend` is the session's, for a call that names none.
///
/// # Errors
/// See [`working_directory`].
pub(crate) fn plan(
    call: BashExecute,
    backend: Option<String>,
    workspace: &Workspace,
    bash: BashRuntime,
    others: Support,
) -> Result<RunPlan, Failure> {
    let cwd = call.cwd.as_deref().map(Path::new);
    let mut command = CommandPlan {
        tool: NAME.to_owned(),
        program: Program::Script {
            interpreter: vec![bash.interpreter.clone().into()],
            source: call.code.into_bytes(),
            file_name: "script.sh".to_owned(),
        },
        working_directory: working_directory(workspace, cwd)?,
        workspace: workspace.path().to_owned(),
        runtime: bash.mounts,
        runtime_path: Vec::new(),
        runtime_environment: Vec::new(),
        timeout: deadline(call.timeout),
        without_deadline: false,
        backend: call.backend.or(backend),
    };
    support(&mut command, others);
    Ok(RunPlan {
        command,
        input: call.input_text.map(String::into_bytes),
        notes: Notes {
            interpreter: Some(bash.interpreter.to_string_lossy().into_owned()),
            ..Notes::default()
        },
        repair: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_planned_with_what_it_and_the_programs_it_calls_need() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(folder.path(), &[]).unwrap();
        let bash =
            BashRuntime { interpreter: "/brew/bin/bash".into(), mounts: vec!["/brew".into()] };
        let others = Support {
            mounts: vec!["/brew".into(), "/opt/python".into()],
            path: vec!["/opt/python/bin".into()],
            environment: Vec::new(),
        };
        let call = BashExecute { code: "echo “x”\n".to_owned(), ..BashExecute::default() };
        let plan = plan(call, None, &workspace, bash, others).unwrap();
        let Program::Script { interpreter, source, file_name } = plan.command.program else {
            panic!()
        };
        assert_eq!(interpreter, ["/brew/bin/bash"]);
        assert_eq!(source, "echo “x”\n".as_bytes(), "quotes of other languages are not touched");
        assert_eq!(file_name, "script.sh");
        assert_eq!(plan.command.runtime, [Path::new("/brew"), Path::new("/opt/python")]);
        assert_eq!(plan.command.runtime_path, [Path::new("/opt/python/bin")]);
        assert_eq!(plan.repair, None);
    }
}
