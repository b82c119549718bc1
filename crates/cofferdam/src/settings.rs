//! From the configuration and the command line to what an executor is told.

use std::{
    env,
    path::{Path, PathBuf},
};

use cofferdam_policy::profile::ProfileSource;
use cofferdam_worker::{
    ApprovalChannel, ApprovalSettings, Rules, WorkerSettings,
    audit::{self, AuditSettings, Via},
};

use crate::{
    cli::UsageError,
    config::{Channel, Config, ConfigError, ConfigFile, Mode, OnError},
    error::CommandError,
    in_force::InForce,
    supervisor::WORKER_TOKEN,
};

/// The generation that a server starts with.
pub(crate) const FIRST_GENERATION: u64 = 1;

/// What a person chose on the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    /// `-p`
    pub(crate) profile: Option<String>,
    /// `-b`
    pub(crate) backend: Option<String>,
    /// `-w`
    pub(crate) workspace: Option<PathBuf>,
}

/// Where the workspace is when nobody chose one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefaultWorkspace {
    /// The current directory: a command is about where the person is.
    Here,
    /// `workspace.root` of the configuration: a server is about what it is configured for.
    Configured,
}

/// What an executor in this process is told.
///
/// # Errors
/// [`CommandError`] when the current directory is needed and is gone, and when the profiles cannot
/// be used.
pub(crate) fn executor(
    choice: Choice,
    default: DefaultWorkspace,
    config: &Config,
) -> Result<WorkerSettings, CommandError> {
    executor_of(choice, default, config, config.profile_sources()?)
}

/// The same with the profiles of these sources, which are those that the configuration names.
///
/// # Errors
/// As for [`executor`].
pub(crate) fn executor_of(
    choice: Choice,
    default: DefaultWorkspace,
    config: &Config,
    sources: Vec<ProfileSource>,
) -> Result<WorkerSettings, CommandError> {
    let workspace = workspace(&choice, default, config)?;
    let rules = rules(config, sources, &workspace, FIRST_GENERATION)?;
    executor_with(choice, default, config, workspace, rules)
}

/// What a worker that goes on where another one ended is told: what was fixed when the server started,
/// and the rules that were in force.
///
/// # Errors
/// As for [`executor`].
pub(crate) fn resumed(
    choice: Choice,
    config: &Config,
    in_force: &InForce,
) -> Result<WorkerSettings, CommandError> {
    let default = DefaultWorkspace::Configured;
    let workspace = workspace(&choice, default, config)?;
    let then = configuration_as_read(in_force.config.clone())?;
    let rules = rules(&then, in_force.sources(), &workspace, in_force.generation)?;
    executor_with(choice, default, config, workspace, rules)
}

fn workspace(
    choice: &Choice,
    default: DefaultWorkspace,
    config: &Config,
) -> Result<PathBuf, UsageError> {
    let configured = match default {
        DefaultWorkspace::Here => None,
        DefaultWorkspace::Configured => Some(config.workspace.root.clone()),
    };
    choice.workspace.clone().or(configured).map_or_else(current_directory, Ok)
}

fn executor_with(
    choice: Choice,
    default: DefaultWorkspace,
    config: &Config,
    workspace: PathBuf,
    rules: Rules,
) -> Result<WorkerSettings, CommandError> {
    let audit = audit(config, default)?;
    if audit.is_some() {
        config.audit_is_out_of_reach(&workspace, &rules.profiles)?;
    }
    let execution = &config.execution;
    Ok(WorkerSettings {
        workspace,
        rules,
        serial: execution.mode == Mode::Serial,
        max_running: execution.max_running as usize,
        max_queued: execution.max_queued as usize,
        // The secret of the endpoint is the server's own: no profile can pass it on.
        environment: env::vars_os().filter(|(name, _)| name != WORKER_TOKEN).collect(),
        homes: homes(),
        session_profile: choice.profile,
        backend: choice.backend,
        tools_file: None,
        approval: approval(config, default),
        audit,
    })
}

/// Where calls are recorded.
fn audit(config: &Config, default: DefaultWorkspace) -> Result<Option<AuditSettings>, ConfigError> {
    let serves = default == DefaultWorkspace::Configured;
    let Some(path) = config.audit.records(serves)? else { return Ok(None) };
    Ok(Some(AuditSettings {
        path: path.to_owned(),
        on_error: match config.audit.on_error {
            OnError::Refuse => audit::OnError::Refuse,
            OnError::Warn => audit::OnError::Warn,
        },
        rotate_bytes: u64::from(config.audit.rotate_mib) * 1024 * 1024,
        keep: config.audit.keep,
        via: if serves { Via::Socket } else { Via::CommandLine },
    }))
}

/// Who is asked when a person must agree.
///
/// At the command line that is whoever typed the command; the channel only says whether anybody may be
/// asked at all.
fn approval(config: &Config, default: DefaultWorkspace) -> ApprovalSettings {
    let serves = default == DefaultWorkspace::Configured;
    let channel = match config.approval.channel {
        Channel::None => ApprovalChannel::None,
        _ if !serves => ApprovalChannel::Elicitation,
        Channel::Auto => ApprovalChannel::Auto,
        Channel::Elicitation => ApprovalChannel::Elicitation,
        Channel::Admin => ApprovalChannel::Admin,
    };
    ApprovalSettings { channel, wait: config.approval.wait, admin: serves }
}

/// What calls on `workspace` are decided by: that configuration with the profiles of these sources.
///
/// # Errors
/// [`ConfigError`] when the profiles cannot be used, or this configuration not for this workspace.
pub(crate) fn rules(
    config: &Config,
    sources: Vec<ProfileSource>,
    workspace: &Path,
    generation: u64,
) -> Result<Rules, ConfigError> {
    config.may_decide_about(workspace)?;
    let profiles = config.profiles(sources, generation)?;
    // Nothing that a run may write decides about the next one.
    let mut own_files = config.own_files_in(workspace);
    for profile in profiles.names().filter_map(|name| profiles.get(name).ok()) {
        for grant in &profile.filesystem.write {
            own_files.extend(config.own_files_in(&grant.path));
        }
    }
    own_files.sort();
    own_files.dedup();
    Ok(Rules {
        default_profile: config.execution.default_profile.clone(),
        profiles: profiles.protecting(&own_files).map_err(ConfigError::Profile)?,
        tools: config.tools.clone(),
    })
}

/// The configuration that holds for this process.
///
/// # Errors
/// [`CommandError`] when it cannot be used.
pub(crate) fn configuration(named: Option<&Path>) -> Result<Config, CommandError> {
    let environment = env::vars_os().collect();
    Ok(Config::load(named, &environment, &current_directory()?)?)
}

/// What a configuration file said when it was read, for this process.
///
/// # Errors
/// [`CommandError`] when it cannot be used.
pub(crate) fn configuration_as_read(file: Option<ConfigFile>) -> Result<Config, CommandError> {
    let environment = env::vars_os().collect();
    Ok(Config::as_read(file, &environment, &current_directory()?)?)
}

/// A path of the command line, from the current directory.
///
/// # Errors
/// [`UsageError`] when the current directory is needed and is gone.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, UsageError> {
    if path.is_absolute() {
        return Ok(path.components().collect());
    }
    Ok(current_directory()?.join(path).components().collect())
}

fn current_directory() -> Result<PathBuf, UsageError> {
    env::current_dir().map_err(UsageError::CurrentDirectory)
}

/// The home directories of the people of this machine: folders full of secrets and settings, which
/// must not become a workspace as a whole.
fn homes() -> Vec<PathBuf> {
    let own = env::var_os("HOME").map(PathBuf::from);
    let table = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let of_people = table.lines().filter_map(home_of_a_person);
    own.into_iter().chain(of_people).filter(|home| home.is_absolute()).collect()
}

/// The home directory in a line of passwd(5), if it is a person's or root's. Service users have
/// system directories there, which are looked after elsewhere.
fn home_of_a_person(line: &str) -> Option<PathBuf> {
    /// Where people's user ids begin and end, see login.defs(5).
    const PEOPLE: std::ops::RangeInclusive<u32> = 1000..=60_000;
    let mut fields = line.split(':').skip(2);
    let user: u32 = fields.next()?.parse().ok()?;
    let home = PathBuf::from(fields.nth(2)?);
    ((user == 0 || PEOPLE.contains(&user)) && home != Path::new("/")).then_some(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_are_those_of_people_and_root() {
        let home = |line| home_of_a_person(line);
        assert_eq!(home("root:x:0:0:root:/root:/bin/bash"), Some("/root".into()));
        assert_eq!(home("ada:x:1000:1000:Ada,,,:/home/ada:/bin/sh"), Some("/home/ada".into()));
        assert_eq!(home("bin:x:2:2:bin:/bin:/usr/sbin/nologin"), None);
        assert_eq!(home("nobody:x:65534:65534:nobody:/nonexistent:/bin/false"), None);
        assert_eq!(home("broken"), None);
    }
}
