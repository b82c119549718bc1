//! Reading configuration and profiles again while a server runs: on demand, and when they change.
//!
//! Changes are found by looking every two seconds at what the files are (which, how long, when
//! changed), not by being told: that holds for editors that rename over a file, for links that are
//! turned to another folder, for folders that do not exist yet, and on every file system; and it
//! costs a few calls of the kernel. What is read again is what was read at the start: a file that
//! appears elsewhere decides nothing. Not here: putting the new rules in force (the worker).

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use cofferdam_policy::profile::ProfileSource;
use cofferdam_protocol::{ErrorCode, Failure};
use cofferdam_worker::{Control, Rules};
use tokio::time::sleep;

use crate::{
    config::{Config, ConfigError},
    in_force::InForce,
    settings,
};

/// How often the files are looked at.
const INTERVAL: Duration = Duration::from_secs(2);
/// Files that change are read once they have looked the same twice, this far apart.
const SETTLING: Duration = Duration::from_millis(200);
/// Files that never come to rest are read after so many looks all the same.
const MOST_LOOKS: usize = 10;

/// What a server reads.
#[derive(Debug)]
pub(crate) struct Files {
    /// What the server was started with.
    first: Config,
    /// The last that could be read, in force or not: its folders are those to watch.
    latest: Mutex<Config>,
    workspace: PathBuf,
    /// Profile chosen for the whole server: without it no files can be used.
    session_profile: Option<String>,
    /// Where what is in force is kept for the next worker.
    folder: Option<PathBuf>,
    /// Folders of profiles that were not there at the start, in a place where code may write: code
    /// could make them, and would be obeyed. They are not read before the next start.
    not_yet: Vec<PathBuf>,
    environment: BTreeMap<OsString, OsString>,
    current: PathBuf,
}

/// What the files are. Equal when nothing was written, renamed, made or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Looks(BTreeMap<PathBuf, Option<Look>>);

/// Device and inode, size, and when the content and the inode were last changed.
type Look = (u64, u64, u64, (i64, i64), (i64, i64));

impl Files {
    /// What `config` was read from when the server started.
    pub(crate) fn new(
        config: Config,
        workspace: PathBuf,
        session_profile: Option<String>,
        folder: Option<PathBuf>,
    ) -> Self {
        let not_yet = config.execution.profile_dirs.iter();
        let not_yet =
            not_yet.filter(|folder| may_be_made_in(folder, &workspace)).cloned().collect();
        Self {
            first: config.clone(),
            latest: Mutex::new(config),
            workspace,
            session_profile,
            folder,
            not_yet,
            environment: env::vars_os().collect(),
            // Only for paths that a variable gives; without a current directory they are refused.
            current: env::current_dir().unwrap_or_default(),
        }
    }

    /// Reads everything again. `None` when it says what `before` says.
    ///
    /// # Errors
    /// What is wrong with the files, on one line.
    pub(crate) fn read(&self, before: &Rules) -> Result<Option<Rules>, Failure> {
        let mut next = self.first.again(&self.environment, &self.current).map_err(failure)?;
        next.unread_profile_dirs.clone_from(&self.not_yet);
        *self.latest() = next.clone();
        let sources = next.profile_sources().map_err(failure)?;
        let generation = before.profiles.generation() + 1;
        let rules = settings::rules(&next, sources.clone(), &self.workspace, generation)
            .map_err(failure)?;
        if let Some(name) = &self.session_profile {
            rules.profiles.get(name).map_err(|error| failure(error.into()))?;
        }
        // The log stays where it was when the server started, whatever the new files say.
        if matches!(self.first.audit.records(true), Ok(Some(_))) {
            self.first.audit_is_out_of_reach(&self.workspace, &rules.profiles).map_err(failure)?;
        }
        let fixed = self.first.fixed_differences(&next);
        if !fixed.is_empty() {
            let keys = fixed.join(", ");
            tracing::warn!(keys, "changed, and in force only when the server is started anew");
        }
        let not_armed = next.not_armed();
        if !not_armed.is_empty() {
            tracing::warn!(keys = not_armed.join(", "), "configured, and not enforced yet");
        }
        if same(before, &rules) {
            return Ok(None);
        }
        self.keep(&next, &sources, generation);
        Ok(Some(rules))
    }

    fn keep(&self, config: &Config, sources: &[ProfileSource], generation: u64) {
        if let Some(folder) = &self.folder {
            let first = self.first.file.clone();
            InForce::new(first, config.file.clone(), sources, generation).keep(folder);
        }
    }

    /// Looks at the files for ever, and has them read again when they have changed.
    pub(crate) async fn watch(self: Arc<Self>, control: Control) {
        // The first look differs from none: what changed while the server started is found.
        let mut seen = Looks::default();
        loop {
            sleep(INTERVAL).await;
            let mut now = self.clone().look().await;
            if now == seen {
                continue;
            }
            for _ in 0..MOST_LOOKS {
                sleep(SETTLING).await;
                let before = now;
                now = self.clone().look().await;
                if now == before {
                    break;
                }
            }
            // What is written from here on looks different the next time.
            seen = now;
            // It has said in the log what became of it.
            let _ = control.reload().await;
        }
    }

    async fn look(self: Arc<Self>) -> Looks {
        let looking = tokio::task::spawn_blocking(move || self.looks());
        looking.await.unwrap_or_default()
    }

    fn looks(&self) -> Looks {
        let mut looks = BTreeMap::new();
        let config = self.latest().clone();
        if let Some(file) = &config.file {
            looks.insert(file.path.clone(), look_at(&file.path));
        }
        for folder in &config.execution.profile_dirs {
            // Not the folder's own times: they change with files that nobody reads.
            looks.insert(folder.clone(), folder.is_dir().then_some(Look::default()));
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.extension().is_some_and(|extension| extension == "toml") {
                    let look = look_at(&path);
                    looks.insert(path, look);
                }
            }
        }
        Looks(looks)
    }

    fn latest(&self) -> std::sync::MutexGuard<'_, Config> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn look_at(path: &Path) -> Option<Look> {
    let metadata = fs::metadata(path).ok()?;
    let changed = (metadata.mtime(), metadata.mtime_nsec());
    let inode_changed = (metadata.ctime(), metadata.ctime_nsec());
    Some((metadata.dev(), metadata.ino(), metadata.size(), changed, inode_changed))
}

/// Whether both decide alike, whichever generation they are.
fn same(left: &Rules, right: &Rules) -> bool {
    let (ours, theirs) = (&left.profiles, &right.profiles);
    left.default_profile == right.default_profile
        && left.tools == right.tools
        && ours.names().eq(theirs.names())
        && ours.names().all(|name| ours.loaded(name).ok() == theirs.loaded(name).ok())
}

/// The error with its causes on one line, and its hint.
fn failure(error: ConfigError) -> Failure {
    let mut message = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        message.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    Failure { hint: error.hint(), ..Failure::new(ErrorCode::Internal, message) }
}

/// Whether `folder` is not there, and would lie in `workspace`.
fn may_be_made_in(folder: &Path, workspace: &Path) -> bool {
    let there = |path: &&Path| fs::symlink_metadata(path).is_ok();
    let Some(nearest) = folder.ancestors().find(there) else { return false };
    let (Ok(nearest), Ok(workspace)) = (fs::canonicalize(nearest), fs::canonicalize(workspace))
    else {
        return true;
    };
    !folder.is_dir() && nearest.starts_with(workspace)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new(config: &str) -> Self {
            let place = Self(tempfile::tempdir().expect("a folder"));
            fs::create_dir_all(place.path("work")).expect("a folder");
            fs::create_dir_all(place.path("admin/sandbox-profiles")).expect("a folder");
            place.write("admin/cofferdam.toml", config);
            place
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.path(name), text).expect("a file");
        }

        fn files(&self) -> (Files, Rules) {
            let named = self.path("admin/cofferdam.toml");
            let current = self.path("work");
            let config = Config::load(Some(&named), &BTreeMap::new(), &current).expect("it");
            let rules = rules(&config, &current);
            let files = Files::new(config, current, None, None);
            (Files { environment: BTreeMap::new(), ..files }, rules)
        }
    }

    fn rules(config: &Config, workspace: &Path) -> Rules {
        let sources = config.profile_sources().expect("profiles");
        settings::rules(config, sources, workspace, 1).expect("rules")
    }

    const MINE: &str = "extends = \"base\"\n[limits]\ntimeout = \"5s\"\n";

    #[test]
    fn profiles_that_a_run_makes_are_not_read() {
        let place = Place::new("");
        // The configuration lies in the workspace; its folder of profiles is not there yet.
        place.write("work/cofferdam.toml", "[execution]\nprofile_dirs = [\"late\"]\n");
        let named = place.path("work/cofferdam.toml");
        let current = place.path("work");
        let folder = place.path("work/late");
        assert!(may_be_made_in(&folder, &current));
        fs::create_dir(&folder).expect("a folder");
        let config = Config::load(Some(&named), &BTreeMap::new(), &current).expect("it");
        let rules = rules(&config, &current);
        fs::remove_dir(&folder).expect("gone");
        let files = Files::new(config, current, None, None);
        let files = Files { environment: BTreeMap::new(), ..files };
        fs::create_dir(&folder).expect("a folder");
        place.write("work/late/default.toml", MINE);
        let timeout = |files: &Files| {
            let next = files.read(&rules).expect("it").unwrap_or_else(|| rules.clone());
            next.profiles.get("default").expect("a profile").limits.timeout
        };
        assert_eq!(timeout(&files), Duration::from_secs(60));
        // Positive control: a server that is started now reads it.
        let anew = Files { not_yet: Vec::new(), ..files };
        assert_eq!(timeout(&anew), Duration::from_secs(5));
    }

    #[test]
    fn what_says_the_same_is_no_new_generation() {
        let place = Place::new("");
        let (files, rules) = place.files();
        assert!(files.read(&rules).expect("it").is_none());
        place.write("admin/cofferdam.toml", "# a remark\n");
        assert!(files.read(&rules).expect("it").is_none());
        place.write(
            "admin/cofferdam.toml",
            "[[tools.rule]]\nmode = \"deactivate\"\npattern = \"a\"\n",
        );
        let next = files.read(&rules).expect("it").expect("another one");
        assert_eq!(next.profiles.generation(), 2);
        assert_eq!(next.tools.rules.len(), 1);
        assert!(files.read(&next).expect("it").is_none());
    }

    #[test]
    fn one_wrong_file_refuses_all_of_them() {
        let place = Place::new("");
        let (files, rules) = place.files();
        place.write("admin/sandbox-profiles/mine.toml", MINE);
        place.write("admin/sandbox-profiles/wrong.toml", "extends = \"base\"\nnonsense = 1\n");
        let refused = files.read(&rules).expect_err("it is wrong");
        assert!(refused.message.contains("unknown key `nonsense`"), "{}", refused.message);
        assert!(refused.message.contains("wrong"), "{}", refused.message);
        fs::remove_file(place.path("admin/sandbox-profiles/wrong.toml")).expect("it was there");
        let next = files.read(&rules).expect("it").expect("another one");
        assert!(next.profiles.get("mine").is_ok());
    }

    #[test]
    fn a_configuration_that_is_gone_is_an_error_and_not_the_defaults() {
        let place = Place::new("[tools]\ndefault_mode = \"deactivate\"\n");
        let (files, rules) = place.files();
        fs::remove_file(place.path("admin/cofferdam.toml")).expect("it was there");
        assert!(files.read(&rules).is_err());
        fs::create_dir(place.path("admin/cofferdam.toml")).expect("a folder");
        let refused = files.read(&rules).expect_err("it is a folder");
        assert!(refused.message.contains("not a regular file"), "{}", refused.message);
    }

    #[test]
    fn a_file_that_appears_where_files_are_looked_for_decides_nothing() {
        let place = Place::new("");
        let current = place.path("elsewhere");
        fs::create_dir(&current).expect("a folder");
        let config = Config::load(None, &BTreeMap::new(), &current).expect("the defaults");
        let was_found = config.file.is_some();
        let rules = rules(&config, &place.path("work"));
        let files = Files::new(config, place.path("work"), None, None);
        let files = Files { environment: BTreeMap::new(), current: current.clone(), ..files };
        fs::write(current.join("cofferdam.toml"), "[tools]\ndefault_mode = \"deactivate\"\n")
            .expect("a file");
        assert!(was_found || files.read(&rules).expect("it").is_none());
    }

    #[test]
    fn every_way_to_change_a_file_is_seen() {
        let place = Place::new("");
        place.write("admin/sandbox-profiles/mine.toml", MINE);
        let (files, _) = place.files();
        let mut seen = files.looks();
        let mut expect_change = |what: &str| {
            let now = files.looks();
            assert_ne!(now, seen, "{what}");
            seen = now;
        };
        let profile = place.path("admin/sandbox-profiles/mine.toml");
        place.write("admin/new", MINE);
        fs::rename(place.path("admin/new"), &profile).expect("renamed over");
        expect_change("renamed over by another of the same length");
        let before = fs::metadata(&profile).expect("it").modified().expect("it");
        let file = fs::OpenOptions::new().write(true).open(&profile).expect("it");
        file.set_modified(SystemTime::UNIX_EPOCH).expect("ours");
        file.set_modified(before).expect("ours");
        expect_change("a time that was set back");
        place.write("admin/sandbox-profiles/more.toml", MINE);
        expect_change("a new profile");
        fs::remove_dir_all(place.path("admin/sandbox-profiles")).expect("it was there");
        expect_change("a folder that is gone");
        place.write("admin/cofferdam.toml", "# longer\n");
        expect_change("the configuration");
        place.write("admin/other", "");
        assert_eq!(files.looks(), seen, "a file that nobody reads");
    }

    #[test]
    fn what_needs_a_new_start_is_named() {
        let place = Place::new("[server]\nport = 1\n[workspace]\nroot = \"a\"\n");
        let (files, _) = place.files();
        let text = "[server]\nport = 2\n[workspace]\nroot = \"b\"\n[tools]\ndefault_mode = \"deactivate\"\n";
        place.write("admin/cofferdam.toml", text);
        let next = files.first.again(&BTreeMap::new(), Path::new("/")).expect("it");
        assert_eq!(files.first.fixed_differences(&next), ["server.port", "workspace"]);
    }
}
