//! `cofferdam run`: one command, in this process, connected to the person's own streams.

mod report;
mod terminal;

use std::{env, io, os::fd::AsFd, time::Duration};

use cofferdam_backend::{Ending as HowItEnded, Input, NotStartedKind, Outcome, RunIo};
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
    let report = run.report || matches!(verbosity, Verbosity::Verbose | Verbosity::Everything);
    let profile =
        run.settings.session_profile.as_ref().unwrap_or(&run.settings.default_profile).clone();
    let streams = match run.shown {
        Shown::Live => Streams::of_this_process(),
        Shown::Json => Streams::Plain,
    };
    let request = request(&run, streams);
    let shown = run.shown;
    let executor = Executor::new(run.settings).map_err(CommandError::Refused)?;

    let running = async {
        let (guard, io) =
            connect(streams, shown).map_err(CommandError::setup("connecting the streams"))?;
        let finished = executor.run_command(request, io, ending.requests()).await;
        drop(guard);
        finished.map_err(CommandError::Refused)
    };
    let finished = tokio::select! {
        finished = running => finished,
        () = ending.abandoned() => return Ok(ending.exit()),
    };
    let outcome = finished?;
    if report {
        output::notice(&report::line(&outcome, &profile));
    }
    Ok(exit(&outcome, &ending))
}

fn request(run: &Run, streams: Streams) -> CommandRequest {
    let interactive = streams == Streams::Terminal;
    CommandRequest {
        argv: run.command.clone(),
        profile: None,
        backend: None,
        timeout: run.timeout.or_else(|| longest(&run.settings).filter(|_| !interactive)),
        without_deadline: interactive,
        working_directory: env::current_dir().ok(),
    }
}

/// The longest time that the profile allows; a profile that there is not is refused later.
fn longest(settings: &WorkerSettings) -> Option<Duration> {
    let name = settings.session_profile.as_ref().unwrap_or(&settings.default_profile);
    Some(settings.profiles.get(name).ok()?.limits.timeout_max)
}

/// The run's connections. The guard restores the terminal, if it was taken over.
fn connect(streams: Streams, shown: Shown) -> io::Result<(Option<RawTerminal>, RunIo)> {
    let mut io = RunIo::default();
    let guard = match streams {
        Streams::Terminal => {
            let (guard, terminal) = RawTerminal::take_over()?;
            io.terminal = Some(terminal);
            Some(guard)
        }
        Streams::Plain => {
            io.input = Input::Forward(io::stdin().as_fd().try_clone_to_owned()?);
            None
        }
        Streams::WithoutInput => None,
    };
    if shown == Shown::Live {
        // Unused where the stream is the terminal.
        io.stdout = Some(io::stdout().as_fd().try_clone_to_owned()?);
        io.stderr = Some(io::stderr().as_fd().try_clone_to_owned()?);
    }
    Ok((guard, io))
}

/// The exit code, and a message where the command itself could not say anything.
fn exit(outcome: &Outcome, ending: &Ending) -> Exit {
    match &outcome.ending {
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
