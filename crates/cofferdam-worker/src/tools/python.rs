//! `python_coding_tool.execute`: a script, run by the interpreter that the profile means.
//!
//! The script lies in a private folder inside the sandbox that holds nothing else, so nothing is left
//! in the workspace. Modules are still found in the run's working directory, as if the script lay
//! there: `PYTHONPATH=.`, which Python resolves once at its start, puts that directory right behind
//! the script's own folder and before everything else. (`-P` would leave the script's folder out, but
//! shows in `sys.flags`; a `-c` prelude would do without the variable, but its frames would stand in
//! every traceback.) A profile that sets `PYTHONPATH` itself replaces this one.

use std::{ffi::OsString, path::Path, time::Duration};

use cofferdam_fs::Workspace;
use cofferdam_policy::{CommandPlan, Program};
use cofferdam_protocol::{Failure, tool::PythonExecute};

use super::{Repair, RunPlan, deadline, quotes, support, working_directory};
use crate::{normalize::Notes, runtime::PythonRuntime};

/// Canonical name of the tool.
pub(crate) const NAME: &str = "python_coding_tool.execute";

/// How long the syntax check of a source may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Plans the run of a Python script.
/// `backend` is the session's, for a call that names none.
///
/// # Errors
/// See [`working_directory`].
pub(crate) fn plan(
    call: PythonExecute,
    backend: Option<String>,
    workspace: &Workspace,
    python: PythonRuntime,
) -> Result<RunPlan, Failure> {
    let cwd = call.cwd.as_deref().map(Path::new);
    let working_directory = working_directory(workspace, cwd)?;
    let timeout = deadline(call.timeout);
    let script = |options: &[&str], source: Vec<u8>, file_name: &str| {
        let mut interpreter: Vec<OsString> = vec![python.interpreter.clone().into()];
        interpreter.extend(options.iter().map(OsString::from));
        Program::Script { interpreter, source, file_name: file_name.to_owned() }
    };
    let repaired = quotes::repair(&call.code);
    let mut command = CommandPlan {
        tool: NAME.to_owned(),
        program: script(&[], call.code.clone().into_bytes(), "script.py"),
        working_directory,
        workspace: workspace.path().to_owned(),
        runtime: Vec::new(),
        runtime_path: Vec::new(),
        runtime_environment: vec![("PYTHONPATH".to_owned(), ".".to_owned())],
        timeout,
        without_deadline: false,
        backend: call.backend.or(backend),
    };
    support(&mut command, python.support.clone());
    let repair = repaired.map(|repaired| Repair {
        check: CommandPlan {
            // Isolated, so that no module of the workspace runs in the check.
            program: script(
                &["-I", "-S", "-W", "ignore"],
                quotes::CHECK.as_bytes().to_vec(),
                "check.py",
            ),
            timeout: Some(timeout.map_or(CHECK_TIMEOUT, |timeout| timeout.min(CHECK_TIMEOUT))),
            ..command.clone()
        },
        input: quotes::question(&call.code, &repaired),
        source: repaired.into_bytes(),
    });
    Ok(RunPlan {
        command,
        input: call.input_text.map(String::into_bytes),
        notes: Notes {
            picture: call.last_print_is_image_path,
            repaired: false,
            interpreter: Some(python.interpreter.to_string_lossy().into_owned()),
            interpreter_note: python.note,
        },
        repair,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Support;

    fn python() -> PythonRuntime {
        PythonRuntime {
            interpreter: "/opt/python/bin/python3".into(),
            note: Some("why".to_owned()),
            support: Support {
                mounts: vec!["/opt/python".into()],
                path: vec!["/opt/python/bin".into()],
                environment: vec![("PYTHONUSERBASE".to_owned(), "/u".to_owned())],
            },
        }
    }

    fn planned(call: PythonExecute, python: PythonRuntime) -> RunPlan {
        let folder = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(folder.path(), &[]).unwrap();
        plan(call, None, &workspace, python).unwrap()
    }

    fn code(code: &str) -> PythonExecute {
        PythonExecute { code: code.to_owned(), ..PythonExecute::default() }
    }

    fn words(program: &Program) -> Vec<&str> {
        match program {
            Program::Script { interpreter, .. } => {
                interpreter.iter().map(|word| word.to_str().unwrap()).collect()
            }
            Program::Command(_) => panic!("{program:?}"),
        }
    }

    #[test]
    fn the_code_is_the_source_and_never_an_argument() {
        let plan = planned(code("print('secret')"), python());
        assert_eq!(words(&plan.command.program), ["/opt/python/bin/python3"]);
        let Program::Script { source, file_name, .. } = plan.command.program else { panic!() };
        assert_eq!((source.as_slice(), file_name.as_str()), (&b"print('secret')"[..], "script.py"));
        assert_eq!(plan.input, None);
        assert_eq!(plan.repair, None);
    }

    #[test]
    fn the_runtime_s_needs_and_the_working_directory_for_modules_are_planned() {
        let plan = planned(code(""), python()).command;
        assert_eq!(plan.runtime, [Path::new("/opt/python")]);
        assert_eq!(plan.runtime_path, [Path::new("/opt/python/bin")]);
        let variables: Vec<_> = plan
            .runtime_environment
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(variables, ["PYTHONPATH=.", "PYTHONUSERBASE=/u"]);
    }

    #[test]
    fn what_the_caller_asked_for_is_in_the_plan() {
        let call = PythonExecute {
            timeout: Some(2.5),
            input_text: Some("in".to_owned()),
            last_print_is_image_path: true,
            backend: Some("host".to_owned()),
            ..code("x")
        };
        let plan = planned(call, python());
        assert_eq!(plan.command.timeout, Some(Duration::from_millis(2_500)));
        assert_eq!(plan.command.backend.as_deref(), Some("host"));
        assert!(!plan.command.without_deadline);
        assert_eq!(plan.input.as_deref(), Some(&b"in"[..]));
        assert_eq!(
            plan.notes,
            Notes {
                picture: true,
                repaired: false,
                interpreter: Some("/opt/python/bin/python3".to_owned()),
                interpreter_note: Some("why".to_owned()),
            }
        );
    }

    #[test]
    fn only_source_with_typographic_quotes_is_checked_first() {
        let call = PythonExecute { timeout: Some(3600.0), ..code("print(“a”)") };
        let plan = planned(call, python());
        let Program::Script { source, .. } = &plan.command.program else { panic!() };
        assert_eq!(source, "print(“a”)".as_bytes(), "what runs first is what was written");
        let repair = plan.repair.unwrap();
        assert_eq!(repair.source, b"print(\"a\")");
        assert_eq!(repair.input, "print(“a”)\0print(\"a\")".as_bytes());
        assert_eq!(repair.check.timeout, Some(CHECK_TIMEOUT));
        assert_eq!(
            words(&repair.check.program),
            ["/opt/python/bin/python3", "-I", "-S", "-W", "ignore"]
        );
    }
}
