//! Which interpreters of this machine runs use, and what must be visible for them to work.
//!
//! Looks at the machine, never at a call's code. Nothing of a workspace is started here: what a run
//! could have written is found and read, and left to the sandbox.

mod mounts;
mod probe;
mod venv;

use std::{
    collections::{BTreeMap, HashMap},
    ffi::{OsStr, OsString},
    io::Read,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
};

use cofferdam_backend::SearchPath;
use cofferdam_fs::Workspace;
use cofferdam_policy::{Profile, profile::Profiles};
use cofferdam_protocol::{ErrorCode, Failure};
use tokio::sync::Mutex;

use crate::failure::chain;
use mounts::Boundaries;
use probe::{Installed, ProbeError};
use venv::{Found, Venv};

/// Beside `PATH` and `HOME`, what version managers go by when a shim is asked for its interpreter.
const SHIM_VARIABLES: &[&str] =
    &["ASDF_DATA_DIR", "ASDF_DIR", "MISE_DATA_DIR", "PYENV_ROOT", "PYENV_VERSION"];

/// The folder of the workspace's own virtual environment.
const VENV_FOLDER: &str = ".venv";

/// Folders that are on every run's `PATH` anyway.
const ORDINARY_FOLDERS: &[&str] = &["/usr/bin", "/usr/local/bin"];

/// Below it, in a home directory and a folder per version, are packages a user installed for himself.
const USER_PACKAGES: &str = ".local/lib";

/// Finds interpreters, for one workspace. Asks each one only once.
#[derive(Debug)]
pub(crate) struct Runtimes {
    search: SearchPath,
    environment: Vec<(OsString, OsString)>,
    homes: Vec<PathBuf>,
    /// By configured path; `None` is the `python3` of `PATH`.
    asked: Mutex<HashMap<Option<PathBuf>, Arc<Installed>>>,
    /// By name of the profile.
    boundaries: std::sync::Mutex<HashMap<String, Arc<Boundaries>>>,
}

/// A Python and what it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PythonRuntime {
    /// The interpreter's path.
    pub(crate) interpreter: PathBuf,
    /// Why it is not another one.
    pub(crate) note: Option<String>,
    /// What runs of every kind need to use it.
    pub(crate) support: Support,
}

/// What must be there for a runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Support {
    /// Paths, visible read-only.
    pub(crate) mounts: Vec<PathBuf>,
    /// Folders in front of `PATH`.
    pub(crate) path: Vec<PathBuf>,
    /// Variables.
    pub(crate) environment: Vec<(String, String)>,
}

/// A Bash and what it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BashRuntime {
    /// The shell's path.
    pub(crate) interpreter: PathBuf,
    /// Paths, visible read-only.
    pub(crate) mounts: Vec<PathBuf>,
}

/// There is no interpreter to use.
#[derive(Debug, thiserror::Error)]
enum RuntimeError {
    #[error("no python3 was found on the server's PATH")]
    NoPython,
    #[error("no bash was found on the server's PATH or at /bin/bash")]
    NoBash,
    #[error("asking for the interpreter")]
    Probe(#[from] ProbeError),
    #[error("the interpreter `{path}` lies in a folder that runs can write", path = .0.display())]
    Untrusted(PathBuf),
    #[error("{0}")]
    Venv(String),
}

impl RuntimeError {
    fn hint(&self) -> &'static str {
        match self {
            Self::NoBash => {
                "install bash: `apt-get install bash`, `dnf install bash`, `apk add bash`"
            }
            Self::Venv(_) => {
                "add the folder of the Python that it builds on to the profile's \
                 `filesystem.read`, or set `[python] interpreter` to another one"
            }
            Self::NoPython | Self::Probe(_) | Self::Untrusted(_) => {
                "install Python (`apt-get install python3`, `dnf install python3`), start the \
                 server with it on PATH, or set `[python] interpreter` in the profile"
            }
        }
    }
}

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Self {
        Self::new(ErrorCode::StartFailed, chain(&error)).with_hint(error.hint())
    }
}

impl Runtimes {
    /// `environment` is the server's; what `profiles` let runs write is not searched for programs.
    pub(crate) fn new(
        environment: &BTreeMap<OsString, OsString>,
        homes: &[PathBuf],
        workspace: &Path,
        profiles: &Profiles,
    ) -> Self {
        let mut untrusted = vec![workspace.to_owned()];
        for profile in profiles.names().filter_map(|name| profiles.get(name).ok()) {
            untrusted.extend(profile.filesystem.write.iter().map(|grant| grant.path.clone()));
        }
        let variable = |name: &str| environment.get(OsStr::new(name)).cloned();
        let search = SearchPath::new(variable("PATH").as_deref(), &untrusted);
        let mut passed = vec![("PATH".into(), search.joined())];
        for name in ["HOME"].iter().chain(SHIM_VARIABLES) {
            passed.extend(variable(name).map(|value| (name.into(), value)));
        }
        Self {
            search,
            environment: passed,
            homes: homes.to_vec(),
            asked: Mutex::default(),
            boundaries: Default::default(),
        }
    }

    /// Where programs of this machine are looked for.
    pub(crate) fn search_path(&self) -> &SearchPath {
        &self.search
    }

    /// The Python of a profile: the one it names, the workspace's virtual environment, or the
    /// `python3` of the server's `PATH`, in this order.
    ///
    /// # Errors
    /// `start_failed` when there is none, with what to do.
    pub(crate) async fn python(
        &self,
        profile: &Profile,
        workspace: &Workspace,
    ) -> Result<PythonRuntime, Failure> {
        let boundaries = self.boundaries(profile, workspace);
        match &profile.python.interpreter {
            Some(path) => Ok(self.configured(path, workspace, &boundaries).await?),
            None => Ok(self.automatic(workspace, &boundaries).await?),
        }
    }

    /// What programs that are no Python themselves need to find the profile's Python.
    ///
    /// Nothing when there is none. Nobody is asked when the Python is one that every run sees at an
    /// ordinary place: asking takes longer than most commands.
    pub(crate) async fn support(&self, profile: &Profile, workspace: &Workspace) -> Support {
        if self.is_ordinary(profile, workspace) {
            return Support::default();
        }
        self.python(profile, workspace).await.map(|python| python.support).unwrap_or_default()
    }

    /// Whether the Python is the distribution's own, and nothing was added to it.
    fn is_ordinary(&self, profile: &Profile, workspace: &Workspace) -> bool {
        let has_venv =
            || !matches!(venv::look(workspace, Path::new(VENV_FOLDER), |_| true), Found::Nothing,);
        let has_packages = || self.homes.iter().any(|home| has_user_packages(home));
        let is_plain = |found: PathBuf| {
            let real = std::fs::canonicalize(found).unwrap_or_default();
            ORDINARY_FOLDERS.iter().any(|folder| real.parent() == Some(Path::new(folder)))
                && self.boundaries(profile, workspace).shows(&real, &[])
                && !is_script(&real)
        };
        profile.python.interpreter.is_none()
            && self.search.find("python3").is_none_or(is_plain)
            && !has_packages()
            && !has_venv()
    }

    /// The Bash of the server's `PATH`, else `/bin/bash`.
    ///
    /// # Errors
    /// `start_failed` when there is none, with what to do.
    pub(crate) fn bash(
        &self,
        profile: &Profile,
        workspace: &Workspace,
    ) -> Result<BashRuntime, Failure> {
        let found = self.search.find("bash").unwrap_or_else(|| PathBuf::from("/bin/bash"));
        let interpreter = std::fs::canonicalize(&found)
            .ok()
            .filter(|path| self.search.trusts(path))
            .ok_or(RuntimeError::NoBash)?;
        let boundaries = self.boundaries(profile, workspace);
        let installed = interpreter.parent().and_then(Path::parent).map(Path::to_owned);
        let mounts = match installed {
            Some(prefix) if !boundaries.shows(&interpreter, &[]) => boundaries.mounts(&[prefix]),
            _ => Vec::new(),
        };
        Ok(BashRuntime { interpreter, mounts })
    }

    /// The one that the profile names.
    async fn configured(
        &self,
        path: &Path,
        workspace: &Workspace,
        boundaries: &Boundaries,
    ) -> Result<PythonRuntime, RuntimeError> {
        if let Ok(inside) = path.strip_prefix(workspace.path()) {
            // Only the interpreter of a virtual environment can lie there, and only the sandbox
            // may start it.
            let installed = self.installed(None).await.ok();
            let mounts = mounts_of(installed.as_deref(), boundaries);
            let folder = inside.parent().and_then(Path::parent).unwrap_or(Path::new(""));
            return match venv::look(workspace, folder, |path| boundaries.shows(path, &mounts)) {
                Found::Usable(venv) => Ok(of_venv(venv, mounts)),
                Found::Unusable(reason) => Err(RuntimeError::Venv(reason)),
                Found::Nothing => Err(RuntimeError::Untrusted(path.to_owned())),
            };
        }
        let installed = self.installed(Some(path)).await?;
        Ok(of_installed(&installed, boundaries, None))
    }

    async fn automatic(
        &self,
        workspace: &Workspace,
        boundaries: &Boundaries,
    ) -> Result<PythonRuntime, RuntimeError> {
        let installed = self.installed(None).await;
        let mounts = mounts_of(installed.as_deref().ok(), boundaries);
        let folder = Path::new(VENV_FOLDER);
        let note = match venv::look(workspace, folder, |path| boundaries.shows(path, &mounts)) {
            Found::Usable(venv) => return Ok(of_venv(venv, mounts)),
            Found::Unusable(reason) => Some(reason),
            Found::Nothing => None,
        };
        Ok(of_installed(&*installed?, boundaries, note))
    }

    /// Asks the interpreter, or remembers what it said.
    async fn installed(&self, configured: Option<&Path>) -> Result<Arc<Installed>, RuntimeError> {
        let mut asked = self.asked.lock().await;
        let key = configured.map(Path::to_owned);
        // An upgrade can take an interpreter away under a server that lives long.
        if let Some(installed) = asked.get(&key).filter(|known| known.executable.exists()) {
            return Ok(installed.clone());
        }
        let program = match configured {
            Some(path) if !self.search.trusts(path) => {
                return Err(RuntimeError::Untrusted(path.to_owned()));
            }
            Some(path) => path.to_owned(),
            None => self.search.find("python3").ok_or(RuntimeError::NoPython)?,
        };
        let installed = Arc::new(probe::ask(&program, &self.environment).await?);
        if !self.search.trusts(&installed.executable) {
            return Err(RuntimeError::Untrusted(installed.executable.clone()));
        }
        asked.insert(key, installed.clone());
        Ok(installed)
    }

    /// What runs of the profile see and must not see. Remembered: it takes dozens of look-ups.
    fn boundaries(&self, profile: &Profile, workspace: &Workspace) -> Arc<Boundaries> {
        let mut known = self.boundaries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&profile.name) {
            return known.clone();
        }
        let looked = Arc::new(self.look_up_boundaries(profile, workspace));
        known.insert(profile.name.clone(), looked.clone());
        looked
    }

    fn look_up_boundaries(&self, profile: &Profile, workspace: &Workspace) -> Boundaries {
        let filesystem = &profile.filesystem;
        let visible = filesystem
            .read
            .iter()
            .chain(&filesystem.write)
            .filter_map(|grant| std::fs::canonicalize(&grant.path).ok())
            .collect();
        let mut private = vec![workspace.path().to_owned()];
        for home in self.homes.iter().filter(|home| home.is_absolute()) {
            private.extend(std::fs::canonicalize(home).ok());
            private.push(home.clone());
        }
        Boundaries { visible, private }
    }
}

fn mounts_of(installed: Option<&Installed>, boundaries: &Boundaries) -> Vec<PathBuf> {
    let Some(installed) = installed else { return Vec::new() };
    let mut wanted = installed.prefixes.clone();
    wanted.extend(installed.libraries.iter().cloned());
    wanted.extend(installed.user_site.clone());
    boundaries.mounts(&wanted)
}

fn of_installed(
    installed: &Installed,
    boundaries: &Boundaries,
    note: Option<String>,
) -> PythonRuntime {
    let mounts = mounts_of(Some(installed), boundaries);
    let mut environment = Vec::new();
    // The home directory of a run is another one: the user's packages must be named.
    if let (Some(base), Some(site)) = (&installed.user_base, &installed.user_site)
        && site.is_dir()
        && boundaries.shows(site, &mounts)
        && let Some(base) = base.to_str()
    {
        environment.push(("PYTHONUSERBASE".to_owned(), base.to_owned()));
    }
    PythonRuntime {
        interpreter: installed.executable.clone(),
        note,
        support: Support {
            mounts,
            path: folder_of(&installed.executable).into_iter().collect(),
            environment,
        },
    }
}

/// The folder of a program, unless it is on every run's `PATH` anyway: in front, it would hide what
/// comes before it there.
fn folder_of(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?;
    let is_ordinary = ORDINARY_FOLDERS.iter().any(|one| folder == Path::new(one));
    (!is_ordinary).then(|| folder.to_owned())
}

/// Whether a user has packages of his own for some Python.
fn has_user_packages(home: &Path) -> bool {
    std::fs::read_dir(home.join(USER_PACKAGES)).is_ok_and(|entries| {
        let is_python = |name: OsString| name.as_encoded_bytes().starts_with(b"python3");
        entries.flatten().any(|entry| is_python(entry.file_name()))
    })
}

/// Whether a program is text for an interpreter, as the shims of version managers are.
fn is_script(program: &Path) -> bool {
    let mut start = [0; 2];
    let read = std::fs::File::open(program).and_then(|mut file| file.read_exact(&mut start));
    read.is_err() || start == *b"#!"
}

fn of_venv(venv: Venv, mounts: Vec<PathBuf>) -> PythonRuntime {
    let environment = venv
        .prefix
        .to_str()
        .map(|prefix| ("VIRTUAL_ENV".to_owned(), prefix.to_owned()))
        .into_iter()
        .collect();
    PythonRuntime {
        note: None,
        support: Support { mounts, path: vec![venv.prefix.join("bin")], environment },
        interpreter: venv.interpreter,
    }
}

#[cfg(test)]
mod tests;
