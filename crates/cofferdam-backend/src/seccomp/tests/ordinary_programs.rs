//! Programs that people run work under the filter exactly as without it.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use super::shipped_programs;
use super::under_filter::{NOBODY, is_root, put_under};

const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Runs in an empty directory of its own, as the one who runs the tests or as an ordinary user.
fn run(arguments: &[&str], user: Option<u32>, programs: Option<Vec<Vec<u8>>>) -> Output {
    let directory = tempfile::tempdir().unwrap();
    // A file, because the processes that `multiprocessing` starts afresh read it again.
    std::fs::write(directory.path().join("ordinary.py"), include_str!("ordinary.py")).unwrap();
    // A program that hangs is a failure to be seen.
    let mut command = Command::new("timeout");
    command.arg("120").args(arguments).current_dir(directory.path());
    if let Some(user) = user {
        chown(directory.path(), Some(user), Some(user)).unwrap();
        command.uid(user).gid(user).env_clear();
        command.env("PATH", SYSTEM_PATH).env("HOME", directory.path());
    }
    command.env("TMPDIR", directory.path()).env("LC_ALL", "C.UTF-8");
    if let Some(programs) = programs {
        put_under(&mut command, programs);
    }
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    format!("{}\n{stdout}\n{stderr}", output.status)
}

/// The output of the filtered run, which is that of the unfiltered one.
fn runs_the_same_as(user: Option<u32>, arguments: &[&str]) -> String {
    let without = text(&run(arguments, user, None));
    assert!(without.starts_with("exit status: 0\n"), "{arguments:?} as {user:?}: {without}");
    let with = text(&run(arguments, user, Some(shipped_programs())));
    assert_eq!(with, without, "{arguments:?} as {user:?}");
    with
}

fn runs_the_same(arguments: &[&str]) -> String {
    if is_root() {
        runs_the_same_as(Some(NOBODY), arguments);
    }
    runs_the_same_as(None, arguments)
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).any(|folder| folder.join(program).exists());
    if !installed {
        say_not_tried(program);
    }
    installed
}

#[allow(clippy::print_stderr, reason = "what was not tried must be seen")]
fn say_not_tried(what: &str) {
    eprintln!("not tried: `{what}` is not installed");
}

#[test]
fn python_programs_work() {
    let output = runs_the_same(&["python3", "ordinary.py"]);
    assert!(output.ends_with("done\n"), "{output}");
}

#[test]
fn name_lookups_and_interface_lists_fail_at_worst_and_never_hang() {
    // The one difference that is wanted: without netlink the C library cannot list interfaces.
    let script = "import socket\n\
        print(bool(socket.getaddrinfo('localhost', 80)))\n\
        try: print(socket.if_nameindex())\n\
        except OSError as error: print(error.errno)\n";
    let with = run(&["python3", "-c", script], None, Some(shipped_programs()));
    assert_eq!(String::from_utf8_lossy(&with.stdout), format!("True\n{}\n", libc::EINVAL));
}

#[test]
fn shell_pipelines_and_job_control_work() {
    let script = "set -e
        seq 100 | sort -r | head -3 | tr '\\n' ' '
        cat <(echo substituted) <<< here-string
        mkfifo fifo; echo through-fifo > fifo & cat fifo; wait
        sleep 60 & kill $!; wait $! || echo ended $?
        (set -m; sleep 60 & kill -- -$!; wait) 2> /dev/null
        trap 'echo trapped' USR1; kill -USR1 $$
        (ulimit -n 64; ulimit -n); umask; nice true; timeout 60 true
        exec 9> lock; flock 9; xargs -P4 -n1 echo <<< x; find . -newer /etc/passwd | sort
        cp -a lock copy; dd if=/dev/zero of=zeros bs=1k count=4 status=none; stat -c %s zeros";
    let output = runs_the_same(&["bash", "-c", script]);
    assert!(output.contains("99 98 97 "), "{output}");
    assert!(output.contains("4096"), "{output}");
}

#[test]
fn git_makes_a_repository_and_commits() {
    let script =
        "set -e; export GIT_AUTHOR_DATE='1000000000 +0000' GIT_COMMITTER_DATE='1000000000 +0000'
        git init -q -b main; git config user.name n; git config user.email e
        echo text > file; git add file; git commit -q -m first
        git clone -q . copy; git -C copy gc -q; git log --format=%H; git status --short";
    runs_the_same(&["bash", "-c", script]);
}

#[test]
fn a_c_program_with_threads_is_compiled_and_runs() {
    let script = r#"set -e
        cat > hello.c <<'END'
        #include <pthread.h>
        #include <stdio.h>
        static void *work(void *argument) { puts(argument); return 0; }
        int main(void) {
            pthread_t thread;
            return pthread_create(&thread, 0, work, "hello") || pthread_join(thread, 0);
        }
END
        cc -O1 -pthread hello.c -o hello; ./hello"#;
    let output = runs_the_same(&["bash", "-c", script]);
    assert!(output.contains("hello"), "{output}");
}

#[test]
fn archives_are_packed_and_unpacked() {
    let script = "set -e; mkdir -p tree/deep; echo text > tree/deep/file; ln -s deep tree/link
        ln tree/deep/file tree/hard; mkfifo tree/fifo; tar czf tree.tar.gz tree; rm -r tree
        tar xzf tree.tar.gz; find tree -printf '%y %p\\n' | sort; cat tree/link/file";
    let output = runs_the_same(&["bash", "-c", script]);
    assert!(output.contains("p tree/fifo"), "{output}");
}

#[test]
fn cargo_starts() {
    // Of a user's own installation; another user does not see it.
    if is_installed("cargo") {
        runs_the_same_as(None, &["cargo", "--version"]);
    }
}

#[test]
fn node_programs_work() {
    if is_installed("node") {
        let output = runs_the_same(&["node", "-e", include_str!("ordinary.js")]);
        assert!(output.contains("worker 42\nhttp served\nlookup null"), "{output}");
    }
}

#[test]
fn java_starts() {
    if is_installed("java") {
        runs_the_same(&["java", "-XX:TieredStopAtLevel=1", "-version"]);
    }
}

#[test]
fn numpy_computes_with_threads() {
    let probe = run(&["python3", "-c", "import numpy"], None, None);
    if !probe.status.success() {
        say_not_tried("numpy");
        return;
    }
    let script = "import numpy; a = numpy.ones((300, 300)); print((a @ a).sum())";
    runs_the_same_as(None, &["python3", "-c", script]);
}
