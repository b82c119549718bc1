//! `cofferdam run`: one command, in this process, connected to the person's own streams.

mod report;
mod terminal;

use std::{env, io, os::fd::AsFd, path::PathBuf, time::Duration};

use cofferdam_backend::{Ending as HowItEnded, Input, NotStartedKind, RunIo};
use cofferdam_worker::{CommandRequest, Executor, WorkerSettings};

use self::terminal::{RawTerminal, Streams};
use super::ending::Ending;
use crate::{
    cli::{Run, Shown, Verbosity},
    error::CommandError,
    exit::Exit,
    output,
};

pub(super) fn run(run: Run, verbosity: Verbosity) -> Result<Exit, CommandError> {
    let runtime = super::event_loop().map_err(CommandError::setup("making an event loop"))?;
    let result = runtime.block_on(carry_out(run, verbosity));
    // A read of standard input that still waits must not keep the process.
    runtime.shutdown_background();
    result
}

async fn carry_out(run: Run, verbosity: Verbosity) -> Result<Exit, CommandError> {
    let ending = Ending::by_signals().map_err(CommandError::setup("listening to signals"))?;
    let running = async {
        match run.shown {
            Shown::Live => live(run, verbosity, &ending).await,
            Shown::Json => json(run, &ending).await,
        }
    };
    tokio::select! {
        finished = running => finished,
        () = ending.abandoned() => Ok(ending.exit()),
    }
}

/// Streams as they come; messages on standard error.
async fn live(run: Run, verbosity: Verbosity, ending: &Ending) -> Result<Exit, CommandError> {
    let report = run.report || matches!(verbosity, Verbosity::Verbose | Verbosity::Everything);
    let profile = profile_name(&run.settings).to_owned();
    let streams = Streams::of_this_process();
    let request = request(&run, streams);
    let executor = Executor::new(run.settings).map_err(CommandError::Refused)?;
    let (terminal, io) = connect(streams).map_err(CommandError::setup("connecting the streams"))?;
    let outcome = executor.run_command(request, io, ending.requests()).await;
    // Whatever is said now is said on a terminal that is as it was.
    drop(terminal);
    let outcome = outcome.map_err(CommandError::Refused)?;
    if let HowItEnded::NotStarted(why) = &outcome.ending {
        output::error(&NotStartedError(why.message.clone()), why.hint.as_deref());
    }
    if report {
        output::notice(&report::line(&outcome, &profile));
    }
    Ok(exit(&outcome.ending, ending))
}

/// The command itself could not be started, so it could not say why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotStartedError(String);

/// One object at the end, whatever became of the command.
async fn json(run: Run, ending: &Ending) -> Result<Exit, CommandError> {
    let request = request(&run, Streams::Plain);
    let finished = match Executor::new(run.settings) {
        Ok(executor) => {
            let input = input(Streams::of_this_process())
                .map_err(CommandError::setup("connecting the streams"))?;
            let io = RunIo { input, ..RunIo::default() };
            executor.run_command_normalized(request, io, ending.requests()).await
        }
        Err(failure) => Err(failure),
    };
    let (value, exit) = match finished {
        Ok(finished) => (finished.value, exit(&finished.ending, ending)),
        Err(failure) => (super::call::shown(failure), Exit::Refused),
    };
    output::json(&value).map_err(CommandError::Output)?;
    Ok(exit)
}

fn request(run: &Run, streams: Streams) -> CommandRequest {
    let interactive = streams == Streams::Terminal;
    CommandRequest {
        argv: run.command.clone(),
        profile: None,
        backend: None,
        timeout: run.timeout.or_else(|| longest(&run.settings).filter(|_| !interactive)),
        without_deadline: interactive,
        working_directory: here(&run.settings),
        approved: run.approved,
    }
}

/// The current directory, when it lies in the workspace. Whether it may be used is decided later.
#[allow(
    clippy::disallowed_methods,
    reason = "only a wish: what is then used is opened and checked by itself"
)]
fn here(settings: &WorkerSettings) -> Option<PathBuf> {
    let here = env::current_dir().ok()?;
    let workspace = settings.workspace.canonicalize().ok()?;
    here.starts_with(workspace).then_some(here)
}

fn profile_name(settings: &WorkerSettings) -> &str {
    settings.session_profile.as_ref().unwrap_or(&settings.rules.default_profile)
}

/// The longest time that the profile allows; a profile that there is not is refused later.
fn longest(settings: &WorkerSettings) -> Option<Duration> {
    Some(settings.rules.profiles.get(profile_name(settings)).ok()?.limits.timeout_max)
}

/// The run's live connections. The guard restores the terminal, if it was taken over.
fn connect(streams: Streams) -> io::Result<(Option<RawTerminal>, RunIo)> {
    let mut io = RunIo {
        // Unused where the stream is the terminal.
        stdout: Some(io::stdout().as_fd().try_clone_to_owned()?),
        stderr: Some(io::stderr().as_fd().try_clone_to_owned()?),
        ..RunIo::default()
    };
    match streams {
        Streams::Terminal => {
            let (guard, terminal) = RawTerminal::take_over()?;
            io.terminal = Some(terminal);
            Ok((Some(guard), io))
        }
        Streams::Plain | Streams::WithoutInput => {
            io.input = input(streams)?;
            Ok((None, io))
        }
    }
}

/// What a run without a terminal of its own reads.
fn input(streams: Streams) -> io::Result<Input> {
    match streams {
        Streams::WithoutInput => Ok(Input::Empty),
        Streams::Plain | Streams::Terminal => {
            Ok(Input::Forward(io::stdin().as_fd().try_clone_to_owned()?))
        }
    }
}

/// The exit code of a run.
fn exit(how: &HowItEnded, ending: &Ending) -> Exit {
    match how {
        HowItEnded::Exited(status) => Exit::Child(u8::try_from(*status).unwrap_or(u8::MAX)),
        HowItEnded::Signaled(signal) => Exit::Signal(*signal),
        HowItEnded::TimedOut { .. } => Exit::TimedOut,
        HowItEnded::Cancelled => ending.exit(),
        HowItEnded::NotStarted(why) => match why.kind {
            NotStartedKind::NotFound => Exit::NotFound,
            NotStartedKind::NotExecutable => Exit::NotExecutable,
            NotStartedKind::Sandbox => Exit::Refused,
        },
    }
}
