//! Asking an installed Python where it lies.
//!
//! `python3` may be a shim, a shell script that picks a version, so the path does not tell. The
//! admin's own interpreter is started once for that, on the host, with our few lines and an almost
//! empty environment; never anything of a workspace.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Command,
};

use crate::shown::one_line;

/// How long an interpreter may take to answer; a shim on a cold disk takes a second or two.
const DEADLINE: Duration = Duration::from_secs(10);
/// The longest answer that is read.
const MOST_BYTES: u64 = 64 * 1024;

/// Runs isolated (`-I`), so neither the current directory nor the environment adds anything.
const QUESTION: &str = r#"
import json, os, site, sys
plain = sys.prefix == sys.base_prefix
executable = os.path.realpath(sys.executable) if plain else os.path.abspath(sys.executable)
try:
    sites = site.getsitepackages()
except AttributeError:
    sites = []
print(json.dumps({
    "executable": executable,
    "prefixes": [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix],
    "libraries": [os.path.dirname(os.__file__)] + sites,
    "user_base": site.getuserbase() if plain else None,
    "user_site": site.getusersitepackages() if plain else None,
}))
"#;

/// An interpreter of this machine, as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Installed {
    /// Real path; in a virtual environment, the path inside it.
    pub(super) executable: PathBuf,
    /// Where it is installed.
    pub(super) prefixes: Vec<PathBuf>,
    /// Folders of its modules.
    pub(super) libraries: Vec<PathBuf>,
    /// Root of the user's own packages; none in a virtual environment.
    pub(super) user_base: Option<PathBuf>,
    /// The user's own packages, whether or not there are any.
    pub(super) user_site: Option<PathBuf>,
}

/// An interpreter did not say where it lies.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProbeError {
    #[error("starting `{path}`", path = path.display())]
    Start {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{path}` did not answer within {seconds} s", path = .0.display(), seconds = DEADLINE.as_secs())]
    Silent(PathBuf),
    #[error("`{path}` failed: {said}", path = path.display())]
    Failed { path: PathBuf, said: String },
    #[error("`{path}` gave an answer that is none", path = path.display())]
    Nonsense {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
}

/// Asks the interpreter at `program`. `environment` is all of the environment that it gets.
pub(super) async fn ask(
    program: &Path,
    environment: &[(OsString, OsString)],
) -> Result<Installed, ProbeError> {
    let start = |source| ProbeError::Start { path: program.to_owned(), source };
    #[expect(clippy::disallowed_methods, reason = "the admin's interpreter, never the code's")]
    let mut child = Command::new(program)
        .args(["-I", "-c", QUESTION])
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own, so that what a shim starts can be ended with it.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(start)?;
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let answer = async {
        let (answer, said, status) = tokio::join!(read(stdout), read(stderr), child.wait());
        Ok::<_, io::Error>((answer?, said?, status?))
    };
    let answered = tokio::time::timeout(DEADLINE, answer).await;
    if answered.is_err()
        && let Some(group) = group
    {
        // Not yet waited for, so the number still is this group's.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let (answer, said, status) =
        answered.map_err(|_| ProbeError::Silent(program.to_owned()))?.map_err(start)?;
    if !status.success() {
        let said =
            one_line(said.trim_ascii().rsplit(|byte| *byte == b'\n').next().unwrap_or(b""), 200);
        let said = if said.is_empty() { status.to_string() } else { said };
        return Err(ProbeError::Failed { path: program.to_owned(), said });
    }
    // What modules of the machine print at start-up comes before.
    let line = answer.trim_ascii().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    serde_json::from_slice(line)
        .map_err(|source| ProbeError::Nonsense { path: program.to_owned(), source })
}

async fn read(stream: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        stream.take(MOST_BYTES).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;
    use crate::tests::EXECUTABLES;

    fn script(folder: &Path, text: &str) -> PathBuf {
        let path = folder.join("python3");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn environment() -> Vec<(OsString, OsString)> {
        vec![("PATH".into(), "/usr/bin:/bin".into())]
    }

    #[tokio::test]
    async fn a_shim_is_seen_through_to_the_real_interpreter() {
        let _serial = EXECUTABLES.lock().await;
        let folder = tempfile::tempdir().unwrap();
        // The answer of a real one, behind a shell script as version managers install it.
        let shim = script(folder.path(), r#"exec /usr/bin/env python3 "$@""#);
        let path = std::env::var_os("PATH").unwrap();
        let home = std::env::var_os("HOME").unwrap_or_default();
        let environment = [("PATH".into(), path), ("HOME".into(), home)];
        let installed = ask(&shim, &environment).await.unwrap();
        assert!(installed.executable.is_absolute());
        assert_ne!(installed.executable, shim);
        assert!(!installed.prefixes.is_empty() && !installed.libraries.is_empty());
    }

    #[tokio::test]
    async fn noise_before_the_answer_is_passed_over() {
        let _serial = EXECUTABLES.lock().await;
        let folder = tempfile::tempdir().unwrap();
        let answer = r#"{"executable":"/p/bin/python3","prefixes":["/p"],"libraries":[],"user_base":null,"user_site":null}"#;
        let path = script(folder.path(), &format!("echo hello\necho '{answer}'"));
        let installed = ask(&path, &environment()).await.unwrap();
        assert_eq!(installed.executable, Path::new("/p/bin/python3"));
    }

    #[tokio::test]
    async fn the_environment_of_the_server_is_not_passed_on() {
        let _serial = EXECUTABLES.lock().await;
        let folder = tempfile::tempdir().unwrap();
        let path = script(folder.path(), "env | sort | tr '\\n' ' ' >&2; pwd >&2; exit 1");
        let error = ask(&path, &[("ONLY".into(), "this".into())]).await.unwrap_err();
        let ProbeError::Failed { said, .. } = error else { panic!("{error:?}") };
        // The shell adds PWD itself.
        assert!(said.contains("ONLY=this") && !said.contains("HOME="), "{said}");
        assert!(said.contains("PWD=/ "), "{said}");
    }

    #[tokio::test]
    async fn a_failure_is_told_in_its_own_last_words() {
        let _serial = EXECUTABLES.lock().await;
        let folder = tempfile::tempdir().unwrap();
        let path = script(folder.path(), "echo one >&2; echo 'no such version' >&2; exit 127");
        let error = ask(&path, &environment()).await.unwrap_err();
        assert_eq!(error.to_string(), format!("`{}` failed: no such version", path.display()));
        let path = script(folder.path(), "echo '{}'");
        assert!(matches!(
            ask(&path, &environment()).await.unwrap_err(),
            ProbeError::Nonsense { .. }
        ));
    }
}
