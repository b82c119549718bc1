//! What the owner of a running server may do to it: switch tools on and off, have the rules read
//! again, ask how it is.
//!
//! Not here: the socket by which the owner says so (`server::admin`), and reading files.

use std::{
    fmt,
    sync::{Arc, PoisonError},
};

use cofferdam_policy::ToolPattern;
use cofferdam_protocol::{
    ErrorCode, Failure,
    admin::{ServerStatus, ToolRule},
};
use tokio::sync::{Mutex, watch};

use crate::{Executor, Rules, failure, generation::Generation};

/// The longest expiry, in seconds: a year.
const LONGEST_EXPIRY_S: u64 = 366 * 24 * 3600;

/// Reads the rules again, given those in force: the next ones, or `None` when nothing has changed.
/// Called on a thread where it may block.
pub type ReadRules = Box<dyn Fn(&Rules) -> Result<Option<Rules>, Failure> + Send + Sync>;

/// An executor, and how its rules are read again. Clones share everything.
#[derive(Clone)]
pub struct Control {
    executor: Executor,
    read: Arc<ReadRules>,
    /// Held while the rules are read and replaced: one reload at a time.
    reloading: Arc<Mutex<()>>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("executor", &self.executor).finish_non_exhaustive()
    }
}

impl Control {
    /// Controls that executor.
    pub fn new(executor: Executor, read: ReadRules) -> Self {
        Self { executor, read: Arc::new(read), reloading: Arc::default() }
    }

    /// The executor.
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Reads the rules again and puts them in force. Calls under way keep what they began with.
    ///
    /// The answer, one line for people, says what has become of it; so does the log.
    ///
    /// # Errors
    /// Why the files cannot be used. The rules in force then stay as they are, and the status says
    /// so until files are read that can be used.
    pub async fn reload(&self) -> Result<String, Failure> {
        let _one_at_a_time = self.reloading.lock().await;
        let (executor, read) = (self.executor.clone(), self.read.clone());
        let reloaded = tokio::task::spawn_blocking(move || executor.reload(&read)).await;
        reloaded.unwrap_or_else(|error| Err(crate::pipeline::crashed(error)))
    }
}

impl Executor {
    /// How the server is.
    pub fn status(&self) -> ServerStatus {
        let health = self.health();
        ServerStatus {
            pid: health.pid,
            workspace: self.workspace_path().to_string_lossy().into_owned(),
            generation: health.generation,
            reload_error: health.reload_error,
            running: health.running,
            queued: health.queued,
        }
    }

    /// The rules about tools that hold now, in the order in which they are asked.
    pub fn tool_rules(&self) -> Vec<ToolRule> {
        let generation = self.pipeline.generations.current();
        let rules = &generation.rules.tools;
        let set = self.pipeline.tools.set_rules().into_iter().map(|(rule, left)| ToolRule {
            pattern: rule.pattern.to_string(),
            active: rule.active,
            origin: "run time".to_owned(),
            expires_in_s: left,
        });
        let written = rules.rules.iter().map(|rule| ToolRule {
            pattern: rule.pattern.to_string(),
            active: rule.active,
            origin: rule.origin.clone(),
            expires_in_s: None,
        });
        let default = ToolRule {
            pattern: "*".to_owned(),
            active: rules.default_active,
            origin: "tools.default_mode".to_owned(),
            expires_in_s: None,
        };
        set.chain(written).chain([default]).collect()
    }

    /// Switches the tools that a pattern is about on or off, before every rule of the configuration.
    /// Writes a file.
    ///
    /// # Errors
    /// `invalid_arguments` for a pattern that is none or an expiry that is too long; else when it
    /// could not be kept, and nothing is changed.
    pub fn set_tools(
        &self,
        pattern: &str,
        active: bool,
        expires_after_s: Option<u64>,
    ) -> Result<String, Failure> {
        let pattern: ToolPattern = pattern.parse().map_err(|error| {
            Failure::new(ErrorCode::InvalidArguments, format!("the pattern {error}"))
        })?;
        if expires_after_s.is_some_and(|seconds| seconds == 0 || seconds > LONGEST_EXPIRY_S) {
            let message = format!("an expiry is from 1 to {LONGEST_EXPIRY_S} seconds");
            return Err(Failure::new(ErrorCode::InvalidArguments, message));
        }
        let Self { pipeline, .. } = self;
        let concerned = pipeline.tools.named_by(&pattern);
        let shown = pattern.to_string();
        pipeline
            .tools
            .set(&pipeline.generations, pattern, active, expires_after_s)
            .map_err(|error| failure::of_tool_control(&error))?;
        let state = if active { "active" } else { "deactivated" };
        tracing::info!(pattern = shown, expires_after_s, "the owner has tools {state}");
        Ok(match concerned.as_slice() {
            [] => format!("no tool matches `{shown}`; those that ever do are {state}"),
            tools => format!("{state}: {}", tools.join(", ")),
        })
    }

    /// Forgets a pattern that was set at run time. Writes a file.
    ///
    /// # Errors
    /// `invalid_arguments` when it is not set; else when the file could not be written, and nothing
    /// is changed.
    pub fn forget_tools(&self, pattern: &str) -> Result<String, Failure> {
        let Self { pipeline, .. } = self;
        let was_set = pipeline
            .tools
            .forget(&pipeline.generations, pattern)
            .map_err(|error| failure::of_tool_control(&error))?;
        if !was_set {
            return Err(Failure::new(
                ErrorCode::InvalidArguments,
                "that pattern is not set at run time",
            )
            .with_hint("`cofferdam tools rules` shows those that are, as they were given"));
        }
        tracing::info!(pattern, "the owner has a pattern forgotten");
        Ok("forgotten: the rules below it decide again".to_owned())
    }

    /// Told of each change of the tools that may be used.
    pub(crate) fn tools_changed(&self) -> watch::Receiver<Vec<&'static str>> {
        self.pipeline.tools.watch()
    }

    /// Lets what was set at run time expire when its time has come. Never ends.
    pub(crate) async fn keep_time(&self) {
        loop {
            self.pipeline.tools.expiry().await;
            self.pipeline.tools.refresh(&self.pipeline.generations);
        }
    }

    fn reload(&self, read: &ReadRules) -> Result<String, Failure> {
        let generations = &self.pipeline.generations;
        let before = generations.current();
        let next = match read(&before.rules) {
            Ok(Some(rules)) => {
                Generation::new(rules, &self.pipeline.settings, &self.workspace_path())
            }
            Ok(None) => {
                generations.note(None);
                let number = before.number();
                return Ok(format!("nothing has changed: generation {number} stays in force"));
            }
            Err(failure) => Err(failure),
        };
        match next {
            Ok(next) => {
                let number = next.number();
                generations.replace(next);
                generations.note(None);
                self.pipeline.tools.refresh(generations);
                tracing::info!(generation = number, "configuration and profiles were read again");
                Ok(format!("generation {number} is in force"))
            }
            Err(failure) => {
                let stays = before.number();
                let hint = failure.hint.as_deref().unwrap_or_default();
                tracing::error!(
                    generation = stays,
                    hint,
                    "the new files cannot be used, the last good ones stay in force: {}",
                    failure.message
                );
                generations.note(Some(failure.message.clone()));
                Err(failure)
            }
        }
    }

    fn workspace_path(&self) -> std::path::PathBuf {
        let held = self.pipeline.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        held.path().to_owned()
    }
}
