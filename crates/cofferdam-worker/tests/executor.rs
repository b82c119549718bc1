//! Calls carried out in this machine's own sandboxes.

#![allow(clippy::unwrap_used)]

mod support;

use std::{fs, time::Duration};

use cofferdam_backend::{EndRequests, Ending, RunIo};
use cofferdam_protocol::{ErrorCode, ToolCall, ToolReply, tool::PythonExecute};
use cofferdam_worker::{CommandRequest, Executor};
use serde_json::{Value, json};
use support::{Place, attribute, bash, done, failed, finished, python, request, settings};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

const PLAIN: [&str; 10] = [
    "stdout",
    "stderr",
    "returncode",
    "timeout",
    "verdict",
    "limits_hit",
    "truncated",
    "duration_ms",
    "usage",
    "sandbox",
];

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn python_and_bash_answer_with_the_keys_of_the_contract() {
    let place = Place::new();
    let executor = place.executor();
    let value = done(&executor, ToolCall::Python(python("print(6 * 7)"))).await;
    assert_eq!(value["stdout"], "42\n", "{value:#}");
    assert_eq!(keys(&value), PLAIN);
    let value = done(&executor, ToolCall::Bash(bash("echo $((6 * 7)); exit 3"))).await;
    assert_eq!((&value["stdout"], &value["returncode"]), (&json!("42\n"), &json!(3)));
    assert_eq!(value["verdict"], "exit");
    assert_eq!(value["sandbox"]["enforcement"]["files"], "full", "{value:#}");
    assert_eq!(fs::read_dir(place.workspace()).unwrap().count(), 0, "something was left behind");
}

#[tokio::test]
async fn a_script_finds_the_modules_of_its_working_directory_and_has_a_real_file() {
    let place = Place::new();
    place.write("helper.py", "VALUE = 'root'");
    place.write("sub/helper.py", "VALUE = 'sub'");
    place.write("sub/json.py", "VALUE = 'shadowed'");
    let executor = place.executor();
    let code = "import helper, os, sys\nprint(helper.VALUE, os.path.isfile(__file__))";
    let value = done(&executor, ToolCall::Python(python(code))).await;
    assert_eq!(value["stdout"], "root True\n", "{value:#}");
    let code = "import helper, json, os\nprint(helper.VALUE, json.VALUE, os.getcwd())";
    let call = PythonExecute { cwd: Some("sub".to_owned()), ..python(code) };
    let value = done(&executor, ToolCall::Python(call)).await;
    let cwd = place.workspace().join("sub");
    assert_eq!(value["stdout"], format!("sub shadowed {}\n", cwd.display()), "{value:#}");
}

#[tokio::test]
async fn tracebacks_have_source_lines_and_spawned_processes_work() {
    let place = Place::new();
    let executor = place.executor();
    let value = done(&executor, ToolCall::Python(python("x = 1\nx / 0  # here"))).await;
    assert!(value["stderr"].as_str().unwrap().contains("x / 0  # here"), "{value:#}");
    let code = "import multiprocessing as m\ndef f(x):\n    return x * x\n\
                if __name__ == '__main__':\n    with m.get_context('spawn').Pool(2) as pool:\n        \
                print(pool.map(f, [1, 2, 3]))";
    let value = done(&executor, ToolCall::Python(python(code))).await;
    assert_eq!(value["stdout"], "[1, 4, 9]\n", "{value:#}");
}

#[tokio::test]
async fn typographic_quotes_are_repaired_only_when_the_code_does_not_parse() {
    let place = Place::new();
    let executor = place.executor();
    let value = done(&executor, ToolCall::Python(python("print(“hi”)"))).await;
    assert_eq!((&value["stdout"], &value["repaired"]), (&json!("hi\n"), &json!(true)), "{value:#}");
    let value = done(&executor, ToolCall::Python(python("print('it’s')"))).await;
    assert_eq!((value["stdout"].as_str(), value.get("repaired")), (Some("it’s\n"), None));
    // No syntax either way: what was written runs, and says what is wrong with it.
    let value = done(&executor, ToolCall::Python(python("print(“hi”"))).await;
    assert_eq!((&value["returncode"], value.get("repaired")), (&json!(1), None));
    assert!(value["stderr"].as_str().unwrap().contains('“'), "{value:#}");
}

#[tokio::test]
async fn the_syntax_check_runs_nothing_of_the_workspace() {
    let place = Place::new();
    for module in ["sitecustomize.py", "usercustomize.py", "encodings.py", "sys.py", "site.py"] {
        place.write(module, "open('ran', 'w')");
    }
    let call = PythonExecute { code: "‘’ + +".to_owned(), ..python("") };
    let executor = place.executor();
    done(&executor, ToolCall::Python(call)).await;
    // The run itself does import from its working directory: only the check must not. It is told
    // apart by a source that does not get as far as running.
    let ran = place.workspace().join("ran");
    let _ = fs::remove_file(&ran);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let call = request("s", ToolCall::Python(python("print(“x”)")));
    executor.call(call, None, cancel).await;
    assert!(!ran.exists());
}

#[tokio::test]
async fn a_picture_is_named_by_the_last_line() {
    let place = Place::new();
    let code = "import struct, zlib\ndef chunk(kind, body):\n    \
        return struct.pack('>I', len(body)) + kind + body + struct.pack('>I', zlib.crc32(kind + body))\n\
        open('plot.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 1, 1, 8, 0, 0, 0, 0))\n\
        + chunk(b'IDAT', zlib.compress(b'\\0\\0')) + chunk(b'IEND', b''))\n\
        print('plot.png')\nprint()";
    let call = PythonExecute { last_print_is_image_path: true, ..python(code) };
    let executor = place.executor();
    let value = done(&executor, ToolCall::Python(call)).await;
    let expected = place.workspace().join("plot.png").into_os_string().into_string().unwrap();
    assert_eq!(value["img_path"], expected, "{value:#}");
    let call = PythonExecute { last_print_is_image_path: true, ..python("print('/etc/passwd')") };
    let value = done(&executor, ToolCall::Python(call)).await;
    assert!(value["img_path_error"].as_str().unwrap().contains("outside the workspace"));
}

#[tokio::test]
async fn long_output_keeps_head_and_tail_and_the_whole_in_a_file() {
    let place = Place::new();
    let executor = place.executor();
    let value = done(&executor, ToolCall::Bash(bash("seq 1 50000"))).await;
    let stdout = value["stdout"].as_str().unwrap();
    assert!(stdout.len() <= 64 * 1024);
    assert!(stdout.starts_with("1\n2\n") && stdout.ends_with("49999\n50000\n"));
    assert_eq!((&value["truncated"], &value["verdict"]), (&json!(true), &json!("ok")));
    let whole = fs::read_to_string(value["stdout_file"].as_str().unwrap()).unwrap();
    assert!(whole.starts_with("1\n2\n") && whole.lines().count() == 50_000);
}

#[tokio::test]
async fn a_deadline_keeps_the_output_so_far() {
    let place = Place::new();
    let call = PythonExecute {
        timeout: Some(0.5),
        ..python("import time\nprint('before', flush=True)\ntime.sleep(60)")
    };
    let value = done(&place.executor(), ToolCall::Python(call)).await;
    assert_eq!(value["stdout"], "before\n");
    assert_eq!(value["error"], "Execution timed out after 0.5 seconds");
    assert_eq!((&value["returncode"], &value["timeout"]), (&Value::Null, &json!(true)));
}

/// A call that has written `line` and sleeps, its cancellation, and its reply to come.
async fn sleeping(executor: &Executor) -> (CancellationToken, JoinHandle<ToolReply>) {
    let cancel = CancellationToken::new();
    let (to, mut progress) = mpsc::channel(8);
    let call = request("session", ToolCall::Bash(bash("echo the line; sleep 1000")));
    let reply = tokio::spawn(executor.call(call, Some(to), cancel.clone()));
    // The first report with the line shows that it runs.
    while progress.recv().await.unwrap().last_line.as_deref() != Some("the line") {}
    (cancel, reply)
}

#[tokio::test]
async fn a_cancelled_call_is_killed_and_still_answered() {
    let place = Place::new();
    let (cancel, reply) = sleeping(&place.executor()).await;
    cancel.cancel();
    let value = finished(reply.await.unwrap());
    assert_eq!(value["verdict"], "cancelled");
    assert_eq!(value["stdout"], "the line\n");
    assert_eq!(value["returncode"], Value::Null);
}

#[tokio::test]
async fn a_call_whose_caller_went_away_gives_its_place_free() {
    let place = Place::new();
    let executor = place.executor();
    let (_cancel, reply) = sleeping(&executor).await;
    assert_eq!(executor.health().running, 1);
    reply.abort();
    // The next call of the session can only run once the first one is gone.
    let value = done(&executor, ToolCall::Bash(bash("echo next"))).await;
    assert_eq!(value["stdout"], "next\n");
    assert_eq!((executor.health().running, executor.health().queued), (0, 0));
}

#[tokio::test]
async fn calls_of_a_session_run_in_the_order_in_which_they_were_made() {
    let place = Place::new();
    let executor = place.executor();
    let calls: Vec<_> = (0..6)
        .map(|number| {
            let code = format!("echo {number} >> log");
            let call = request("session", ToolCall::Bash(bash(&code)));
            executor.call(call, None, CancellationToken::new())
        })
        .collect();
    // Polled in the other direction: the order was taken when they were made.
    let tasks: Vec<_> = calls.into_iter().rev().map(tokio::spawn).collect();
    for task in tasks {
        assert_eq!(finished(task.await.unwrap())["verdict"], "ok");
    }
    let log = fs::read_to_string(place.workspace().join("log")).unwrap();
    assert_eq!(log, "0\n1\n2\n3\n4\n5\n");
}

#[tokio::test]
async fn one_call_too_many_is_told_to_come_back() {
    let place = Place::new();
    let executor =
        Executor::new(cofferdam_worker::WorkerSettings { max_queued: 0, ..place.settings() })
            .unwrap();
    let (cancel, reply) = sleeping(&executor).await;
    let failure = failed(&executor, ToolCall::Bash(bash("true"))).await;
    assert_eq!(failure.code, ErrorCode::Busy);
    assert!(failure.retry_after_ms.is_some());
    cancel.cancel();
    reply.await.unwrap();
}

#[tokio::test]
async fn attributes_follow_the_last_run_of_their_own_session() {
    let place = Place::new();
    let executor = place.executor();
    let get = |name| done(&executor, attribute(name));
    assert_eq!(get("last_stdout").await, json!({ "result": null }));
    done(&executor, ToolCall::Bash(bash("echo out; echo err >&2; kill -9 $$"))).await;
    assert_eq!(get("last_stdout").await, json!({ "result": "out\n" }));
    assert_eq!(get("last_stderr").await, json!({ "result": "err\n" }));
    assert_eq!(get("last_returncode").await, json!({ "result": -9 }));
    assert_eq!(get("sandbox").await["result"]["last_run"]["backend"], "bubblewrap");
    let other = request("other", attribute("last_stdout"));
    let other = executor.call(other, None, CancellationToken::new()).await;
    assert_eq!(finished(other), json!({ "result": null }));
    executor.close_session("session");
    assert_eq!(get("last_stdout").await, json!({ "result": null }));
    let unknown = failed(&executor, attribute("secrets")).await;
    assert_eq!(unknown.message, "Unknown attribute 'secrets'.");
}

#[tokio::test]
async fn bad_requests_have_a_code_and_a_hint_and_the_executor_lives_on() {
    let place = Place::new();
    let executor = place.executor();
    let with = |change: fn(&mut PythonExecute)| {
        let mut call = python("print(1)");
        change(&mut call);
        ToolCall::Python(call)
    };
    for (call, code) in [
        (with(|call| call.cwd = Some("/etc".to_owned())), ErrorCode::PathOutsideWorkspace),
        (with(|call| call.cwd = Some("absent".to_owned())), ErrorCode::InvalidArguments),
        (with(|call| call.cwd = Some("~".to_owned())), ErrorCode::InvalidArguments),
        (with(|call| call.profile = Some("absent".to_owned())), ErrorCode::ProfileUnknown),
        (with(|call| call.backend = Some("vm".to_owned())), ErrorCode::InvalidArguments),
        (with(|call| call.backend = Some("host".to_owned())), ErrorCode::BackendUnavailable),
        // What the gateway should have refused is refused here too.
        (with(|call| call.timeout = Some(f64::NAN)), ErrorCode::InvalidArguments),
        (with(|call| call.timeout = Some(-1.0)), ErrorCode::InvalidArguments),
        (with(|call| call.code = "a\0b".to_owned()), ErrorCode::InvalidArguments),
    ] {
        let failure = failed(&executor, call).await;
        assert_eq!(failure.code, code, "{failure:?}");
        assert!(!failure.message.is_empty() && !failure.message.contains('\n'), "{failure:?}");
        assert!(failure.hint.is_some(), "{failure:?}");
    }
    let value = done(&executor, ToolCall::Python(python("print('alive')"))).await;
    assert_eq!(value["stdout"], "alive\n");
}

#[tokio::test]
async fn without_a_python_the_hint_says_what_to_do_and_bash_still_works() {
    let place = Place::new();
    let mut settings = place.settings();
    // Only what bubblewrap needs: the folder with `bwrap` and no `python3`.
    let tools = place.outside("tools");
    fs::create_dir(&tools).unwrap();
    for folder in ["/usr/bin", "/bin", "/usr/local/bin"] {
        let program = std::path::Path::new(folder).join("bwrap");
        if program.exists() {
            std::os::unix::fs::symlink(program, tools.join("bwrap")).unwrap();
            break;
        }
    }
    settings.environment.insert("PATH".into(), tools.into_os_string());
    let executor = Executor::new(settings).unwrap();
    let failure = failed(&executor, ToolCall::Python(python("print(1)"))).await;
    assert_eq!(failure.code, ErrorCode::StartFailed);
    assert!(failure.hint.unwrap().contains("install Python"));
    let value = done(&executor, ToolCall::Bash(bash("echo works"))).await;
    assert_eq!(value["stdout"], "works\n", "{value:#}");
}

#[tokio::test]
async fn a_workspace_that_is_none_is_refused_with_a_hint() {
    let place = Place::new();
    place.write("file", "");
    for path in [
        place.outside("absent"),
        place.workspace().join("file"),
        "/".into(),
        "/etc".into(),
        "/tmp".into(),
    ] {
        let failure = Executor::new(settings(&path)).unwrap_err();
        assert_eq!(failure.code, ErrorCode::WorkspaceInvalid, "{path:?}");
        assert!(failure.hint.is_some());
    }
}

#[tokio::test]
async fn a_workspace_made_anew_is_used_and_one_that_is_gone_is_told() {
    let place = Place::new();
    let executor = place.executor();
    done(&executor, ToolCall::Bash(bash("touch old"))).await;
    fs::remove_dir_all(place.workspace()).unwrap();
    let failure = failed(&executor, ToolCall::Bash(bash("true"))).await;
    assert_eq!(failure.code, ErrorCode::WorkspaceInvalid);
    place.write("new", "");
    let value = done(&executor, ToolCall::Bash(bash("ls"))).await;
    assert_eq!(value["stdout"], "new\n", "{value:#}");
}

#[tokio::test]
async fn the_workspace_s_virtual_environment_is_used_inside_the_sandbox() {
    let place = Place::new();
    let executor = place.executor();
    // Made inside: the workspace then holds what a user's own would hold.
    let made = done(&executor, ToolCall::Bash(bash("python3 -m venv --without-pip .venv"))).await;
    assert_eq!(made["verdict"], "ok", "{made:#}");
    let code = "import sys\nprint(sys.prefix)\nprint(sys.prefix != sys.base_prefix)";
    let value = done(&executor, ToolCall::Python(python(code))).await;
    let venv = place.workspace().join(".venv");
    assert_eq!(value["stdout"], format!("{}\nTrue\n", venv.display()), "{value:#}");
    assert_eq!(
        value["sandbox"]["interpreter"],
        venv.join("bin/python").into_os_string().into_string().unwrap()
    );
    let value =
        done(&executor, ToolCall::Bash(bash("command -v python3; echo $VIRTUAL_ENV"))).await;
    let expected = format!("{}\n{}\n", venv.join("bin/python3").display(), venv.display());
    assert_eq!(value["stdout"], expected);
}

async fn run(executor: &Executor, argv: &[&str]) -> (Ending, Value) {
    let request = CommandRequest {
        argv: argv.iter().map(Into::into).collect(),
        timeout: Some(Duration::from_secs(30)),
        ..CommandRequest::default()
    };
    let run = executor
        .run_command_normalized(request, RunIo::default(), EndRequests::default())
        .await
        .unwrap();
    (run.ending, run.value)
}

#[tokio::test]
async fn a_command_runs_by_the_same_stages() {
    let place = Place::new();
    let executor = place.executor();
    let (ending, value) = run(&executor, &["sh", "-c", "echo $0 \"$@\"; exit 4", "a", "b c"]).await;
    assert_eq!(ending, Ending::Exited(4));
    assert_eq!((&value["stdout"], keys(&value)), (&json!("a b c\n"), PLAIN.to_vec()));
    // The Python of this machine, wherever it is installed.
    let (_, value) = run(&executor, &["python3", "-c", "import json; print(6 * 7)"]).await;
    assert_eq!(value["stdout"], "42\n", "{value:#}");
    let (ending, value) = run(&executor, &["no-such-program"]).await;
    assert!(matches!(ending, Ending::NotStarted(_)), "{ending:?}");
    assert_eq!(value["verdict"], "not_started");
    let refused = executor
        .run_command(CommandRequest::default(), RunIo::default(), EndRequests::default())
        .await
        .unwrap_err();
    assert_eq!(refused.code, ErrorCode::InvalidArguments);
}
