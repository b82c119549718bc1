//! Which tools are served now: the rules of the generation, and before them what the owner of this
//! server set at run time, which outlives the process.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use cofferdam_policy::{
    ToolPattern,
    tool_rules::{DecidedBy, RunTimeRule, RunTimeRules, TooManyRules, ToolRules},
};
use cofferdam_protocol::{ErrorCode, Failure, tool::catalogue};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};

use crate::generation::Generations;

/// The most bytes of the file that are read: as many rules as there can be, and room.
const MOST_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Which tools are served.
#[derive(Debug)]
pub(crate) struct ToolControl {
    names: Vec<&'static str>,
    set: Mutex<RunTimeRules>,
    /// Where `set` is kept.
    file: Option<PathBuf>,
    /// What is served. Whoever watches is told of each change.
    served: watch::Sender<Vec<&'static str>>,
    edited: Notify,
}

/// A rule in the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    pattern: String,
    active: bool,
    expires_at_ms: Option<u64>,
}

/// What is set at run time cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolControlError {
    /// What an earlier worker kept cannot be used.
    #[error("reading the tools that are switched on or off from `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There are too many.
    #[error(transparent)]
    TooMany(#[from] TooManyRules),
    /// It could not be kept, so it was not made.
    #[error("keeping the tools that are switched on or off in `{}`", path.display())]
    Keep {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl ToolControl {
    /// Begins with what `file` holds, if it is there.
    ///
    /// # Errors
    /// [`ToolControlError::Read`]: going on without would switch tools on that were off.
    pub(crate) fn new(rules: &ToolRules, file: Option<PathBuf>) -> Result<Self, ToolControlError> {
        let set = match &file {
            Some(path) => read(path)
                .map_err(|source| ToolControlError::Read { path: path.clone(), source })?,
            None => RunTimeRules::default(),
        };
        let names = catalogue().into_iter().map(|tool| tool.name).collect();
        let served = watch::Sender::new(Vec::new());
        let control = Self { names, set: Mutex::new(set), file, served, edited: Notify::new() };
        control.served.send_replace(control.served(rules));
        Ok(control)
    }

    /// The tools that are served, in catalogue order.
    pub(crate) fn served(&self, rules: &ToolRules) -> Vec<&'static str> {
        let (set, now) = (self.lock(), now_ms());
        self.names.iter().copied().filter(|name| rules.is_active(&set, name, now)).collect()
    }

    /// # Errors
    /// `tool_inactive`, in EvoFabric's words.
    pub(crate) fn check(&self, rules: &ToolRules, name: &str) -> Result<(), Failure> {
        let set = self.lock();
        let (is_active, by) = rules.decide(&set, name, now_ms());
        if is_active {
            return Ok(());
        }
        let hint = match by {
            DecidedBy::RunTime(rule) => {
                format!("the owner of this server switched `{}` off", rule.pattern)
            }
            DecidedBy::Rule(rule) => format!("rule `{}` ({}) says so", rule.pattern, rule.origin),
            DecidedBy::Default => "no rule of `[tools]` activates it".to_owned(),
        };
        let message = format!("Cannot call {name} because this tool is deactivate now.");
        Err(Failure::new(ErrorCode::ToolInactive, message).with_hint(hint))
    }

    /// The tools that a pattern is about.
    pub(crate) fn named_by(&self, pattern: &ToolPattern) -> Vec<&'static str> {
        self.names.iter().copied().filter(|name| pattern.matches(name)).collect()
    }

    /// What is set at run time, in the order in which it is asked, with the seconds that are left.
    pub(crate) fn set_rules(&self) -> Vec<(RunTimeRule, Option<u64>)> {
        let now = now_ms();
        let left = |end: u64| end.saturating_sub(now).div_ceil(1_000);
        self.lock().in_force(now).map(|rule| (rule.clone(), rule.expires_at_ms.map(left))).collect()
    }

    /// Switches tools on or off, until the time has passed if there is one.
    ///
    /// # Errors
    /// [`ToolControlError`], and nothing is changed.
    pub(crate) fn set(
        &self,
        generations: &Generations,
        pattern: ToolPattern,
        active: bool,
        expires_after_s: Option<u64>,
    ) -> Result<(), ToolControlError> {
        let end = |seconds: u64| now_ms().saturating_add(seconds.saturating_mul(1_000));
        let rule = RunTimeRule { pattern, active, expires_at_ms: expires_after_s.map(end) };
        self.edit(|set| Ok(set.set(rule)?))?;
        self.refresh(generations);
        Ok(())
    }

    /// Forgets the pattern. Whether it was set.
    ///
    /// # Errors
    /// [`ToolControlError`], and nothing is changed.
    pub(crate) fn forget(
        &self,
        generations: &Generations,
        pattern: &str,
    ) -> Result<bool, ToolControlError> {
        let was_set = self.edit(|set| Ok(set.forget(pattern)))?;
        self.refresh(generations);
        Ok(was_set)
    }

    /// Works out anew what is served, and tells whoever watches if that is something else.
    pub(crate) fn refresh(&self, generations: &Generations) {
        self.lock().forget_expired(now_ms());
        self.served.send_if_modified(|served| {
            // Read in here: of two that come at once, the later one sees what both have changed.
            let now = self.served(&generations.current().rules.tools);
            let changed = *served != now;
            *served = now;
            changed
        });
    }

    /// Told of each change of what is served.
    pub(crate) fn watch(&self) -> watch::Receiver<Vec<&'static str>> {
        self.served.subscribe()
    }

    /// Waits until something that was set expires. Safe to drop and call again.
    pub(crate) async fn expiry(&self) {
        loop {
            let edited = self.edited.notified();
            let next = self.lock().next_expiry_ms();
            let expired = async {
                match next {
                    Some(end) => {
                        let left = end.saturating_sub(now_ms());
                        tokio::time::sleep(std::time::Duration::from_millis(left)).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = expired => return,
                () = edited => {}
            }
        }
    }

    /// Keeps what is set before it holds: a change that is reported outlives this process.
    fn edit<T>(
        &self,
        change: impl FnOnce(&mut RunTimeRules) -> Result<T, ToolControlError>,
    ) -> Result<T, ToolControlError> {
        let mut set = self.lock();
        let mut changed = set.clone();
        changed.forget_expired(now_ms());
        let answer = change(&mut changed)?;
        if let Some(path) = &self.file {
            write(path, &changed)
                .map_err(|source| ToolControlError::Keep { path: path.clone(), source })?;
        }
        *set = changed;
        self.edited.notify_one();
        Ok(answer)
    }

    fn lock(&self) -> MutexGuard<'_, RunTimeRules> {
        // Whole even if a holder panicked: it is replaced in one piece.
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Milliseconds on a clock that nobody sets, that goes on while the machine sleeps, and that the next
/// worker reads as well.
fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    seconds * 1_000 + u64::try_from(now.tv_nsec).unwrap_or_default() / 1_000_000
}

fn read(path: &Path) -> io::Result<RunTimeRules> {
    let text = match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(RunTimeRules::default()),
        file => io::read_to_string(io::Read::take(file?, MOST_FILE_BYTES))?,
    };
    let kept: Vec<Kept> = serde_json::from_str(&text)?;
    let mut set = RunTimeRules::default();
    for rule in kept.into_iter().rev() {
        let pattern = rule.pattern.parse().map_err(io::Error::other)?;
        let rule = RunTimeRule { pattern, active: rule.active, expires_at_ms: rule.expires_at_ms };
        set.set(rule).map_err(io::Error::other)?;
    }
    Ok(set)
}

/// Replaces the file whole, so that a worker that is killed leaves the old one or the new one.
fn write(path: &Path, set: &RunTimeRules) -> io::Result<()> {
    let kept: Vec<_> = set
        .in_force(0)
        .map(|rule| Kept {
            pattern: rule.pattern.to_string(),
            active: rule.active,
            expires_at_ms: rule.expires_at_ms,
        })
        .collect();
    let new = path.with_extension("new");
    let file =
        fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
    serde_json::to_writer(&file, &kept)?;
    drop(file);
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use cofferdam_policy::ToolRule;

    use super::*;
    use crate::tests::generations;

    const BASH: &str = "bash_coding_tool.execute";

    fn pattern(text: &str) -> ToolPattern {
        text.parse().unwrap()
    }

    #[test]
    fn a_tool_that_is_off_is_not_served_and_a_call_is_refused_in_evofabrics_words() {
        let rules = ToolRules::default();
        let (control, generations) =
            (ToolControl::new(&rules, None).unwrap(), generations(rules.clone()));
        assert_eq!(control.served(&rules).len(), catalogue().len());
        control.set(&generations, pattern("bash_*"), false, None).unwrap();
        assert!(!control.served(&rules).contains(&BASH));
        let refused = control.check(&rules, BASH).unwrap_err();
        assert_eq!(refused.code, ErrorCode::ToolInactive);
        assert_eq!(
            refused.message,
            "Cannot call bash_coding_tool.execute because this tool is deactivate now."
        );
        assert_eq!(refused.hint.as_deref(), Some("the owner of this server switched `bash_*` off"));
        assert!(control.forget(&generations, "bash_*").unwrap());
        assert!(!control.forget(&generations, "bash_*").unwrap());
        control.check(&rules, BASH).unwrap();
    }

    #[test]
    fn a_refusal_names_the_rule_and_where_it_is_written() {
        let rule = ToolRule {
            pattern: pattern("bash_*"),
            active: false,
            origin: "cofferdam.toml:7".to_owned(),
        };
        let rules = ToolRules { default_active: false, rules: vec![rule] };
        let control = ToolControl::new(&rules, None).unwrap();
        let hint = |name: &str| control.check(&rules, name).unwrap_err().hint.unwrap();
        assert_eq!(hint(BASH), "rule `bash_*` (cofferdam.toml:7) says so");
        assert_eq!(hint("python_coding_tool.execute"), "no rule of `[tools]` activates it");
    }

    #[test]
    fn who_watches_is_told_of_changes_and_of_nothing_else() {
        let generations = generations(ToolRules::default());
        let control = ToolControl::new(&ToolRules::default(), None).unwrap();
        let mut watch = control.watch();
        assert!(!watch.has_changed().unwrap());
        control.set(&generations, pattern("no_such_tool"), false, None).unwrap();
        control.set(&generations, pattern(BASH), true, None).unwrap();
        assert!(!watch.has_changed().unwrap(), "nothing is served differently");
        control.set(&generations, pattern("*"), false, None).unwrap();
        assert!(watch.has_changed().unwrap());
        assert!(watch.borrow_and_update().is_empty());
        control.refresh(&generations);
        assert!(!watch.has_changed().unwrap());
    }

    #[test]
    fn what_is_set_outlives_the_process_in_its_order() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tools.json");
        let rules = ToolRules::default();
        let generations = generations(rules.clone());
        let control = ToolControl::new(&rules, Some(file.clone())).unwrap();
        control.set(&generations, pattern("bash_*"), true, None).unwrap();
        control.set(&generations, pattern("*"), false, Some(3_600)).unwrap();
        control.set(&generations, pattern("python_*"), true, None).unwrap();
        let again = ToolControl::new(&rules, Some(file.clone())).unwrap();
        assert_eq!(again.served(&rules), ["python_coding_tool.execute"]);
        assert_eq!(*again.lock(), *control.lock());
        assert_eq!(again.set_rules()[1].1, Some(3_600));
    }

    #[test]
    fn a_change_that_cannot_be_kept_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let rules = ToolRules::default();
        let gone = folder.path().join("gone/tools.json");
        let control = ToolControl::new(&rules, Some(gone)).unwrap();
        let generations = generations(rules.clone());
        let error = control.set(&generations, pattern("*"), false, None).unwrap_err();
        assert!(matches!(error, ToolControlError::Keep { .. }), "{error}");
        control.check(&rules, BASH).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_read_back_switches_nothing_on() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tools.json");
        fs::write(&file, "[{]").unwrap();
        let error = ToolControl::new(&ToolRules::default(), Some(file)).unwrap_err();
        assert!(matches!(error, ToolControlError::Read { .. }), "{error}");
    }
}
