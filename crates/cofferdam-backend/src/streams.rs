//! The streams of one run: inner ends for the sandbox, outer ends for us.

use std::{
    io,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use cofferdam_policy::Grant;
use rustix::{
    fs::{Mode, OFlags},
    pipe::PipeFlags,
};
use tokio::{io::AsyncWriteExt, net::unix::pipe, sync::watch, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    Captured, Input, RunIo, RunProgress, Terminal, WindowSize,
    capture::{Capture, CaptureLimits},
    forward::Forward,
};

/// How long a stream may stay open after everything of its run is gone.
const DRAIN_PATIENCE: Duration = Duration::from_millis(100);

/// Everything that moves bytes of one run.
#[derive(Debug)]
pub(crate) struct Streams {
    input: Option<Feeding>,
    outputs: [Draining; 2],
    terminal: Option<WaitingTerminal>,
    terminal_copies: Vec<Forward>,
    resizing: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Feeding {
    Bytes(JoinHandle<()>),
    Live(Forward),
}

#[derive(Debug)]
enum Draining {
    /// The stream is the terminal.
    Nothing,
    Captured(JoinHandle<Capture>, CancellationToken),
    Live(Forward),
}

#[derive(Debug)]
struct WaitingTerminal {
    input: OwnedFd,
    output: OwnedFd,
    size: watch::Receiver<WindowSize>,
}

impl Streams {
    /// Connects one run. Gives the inner ends of standard input, output and error too.
    pub(crate) fn connect(
        grant: &Grant,
        io: RunIo,
        started: Instant,
    ) -> io::Result<(Self, [OwnedFd; 3])> {
        let RunIo { input, stdout, stderr, terminal, spill, progress } = io;
        let limits = &grant.profile().limits;
        let capture = CaptureLimits {
            kept: usize::try_from(limits.output_kib * 1024).unwrap_or(usize::MAX),
            spilled: limits.output_file_mib * 1024 * 1024,
            workspace: spill,
        };
        let is_terminal = |stream: fn(&Terminal) -> bool| terminal.as_ref().is_some_and(stream);
        let (feeding, inner_input) = feed(input)?;
        let (output, inner_output) = drain(
            "stdout",
            stdout,
            is_terminal(|t| t.stdout),
            &capture,
            progress.clone(),
            started,
        )?;
        let (error, inner_error) =
            drain("stderr", stderr, is_terminal(|t| t.stderr), &capture, progress, started)?;
        let streams = Self {
            input: feeding,
            outputs: [output, error],
            terminal: terminal.map(|Terminal { input, output, size, .. }| WaitingTerminal {
                input,
                output,
                size,
            }),
            terminal_copies: Vec::new(),
            resizing: None,
        };
        Ok((streams, [inner_input, inner_output, inner_error]))
    }

    /// The sandbox has opened its terminal: connects the outer one with it.
    pub(crate) fn attach_terminal(&mut self, master: OwnedFd) -> io::Result<()> {
        let Some(WaitingTerminal { input, output, mut size }) = self.terminal.take() else {
            return Ok(());
        };
        let to_size = master.try_clone()?;
        self.resizing = Some(tokio::spawn(async move {
            while size.changed().await.is_ok() {
                let WindowSize { rows, columns } = *size.borrow_and_update();
                let window = rustix::termios::Winsize {
                    ws_row: rows,
                    ws_col: columns,
                    ws_xpixel: 0,
                    ws_ypixel: 0,
                };
                let _ = rustix::termios::tcsetwinsize(&to_size, window);
            }
        }));
        self.input =
            Some(Feeding::Live(Forward::start("terminal-in", input, master.try_clone()?)?));
        self.terminal_copies.push(Forward::start("terminal-out", master, output)?);
        Ok(())
    }

    /// The run is over and its ends are closed: takes what is still in the pipes.
    pub(crate) async fn finish(self) -> [Captured; 2] {
        match self.input {
            Some(Feeding::Bytes(task)) => task.abort(),
            Some(Feeding::Live(forward)) => drop(forward.stop().await),
            None => {}
        }
        if let Some(task) = self.resizing {
            task.abort();
        }
        for copy in self.terminal_copies {
            copy.stop().await;
        }
        let [output, error] = self.outputs;
        [output.finish().await, error.finish().await]
    }
}

impl Draining {
    async fn finish(self) -> Captured {
        match self {
            Self::Nothing => Captured::default(),
            Self::Captured(mut task, enough) => {
                // Every process of the run is gone; an end that is still open is another run's.
                let ended = match timeout(DRAIN_PATIENCE, &mut task).await {
                    Ok(ended) => ended,
                    Err(_) => {
                        enough.cancel();
                        task.await
                    }
                };
                match ended {
                    Ok(capture) => capture.finish(),
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    Err(_) => Captured::default(),
                }
            }
            Self::Live(forward) => {
                let total_bytes = forward.finish_within(DRAIN_PATIENCE).await;
                Captured { total_bytes, ..Captured::default() }
            }
        }
    }
}

fn feed(input: Input) -> io::Result<(Option<Feeding>, OwnedFd)> {
    match input {
        Input::Empty => Ok((None, dev_null(OFlags::RDONLY)?)),
        Input::Bytes(bytes) => {
            let (inner, outer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&outer, true)?;
            let mut sender = pipe::Sender::from_owned_fd(outer)?;
            let task = tokio::spawn(async move {
                // A command that does not read its input is no fault.
                let _ = sender.write_all(&bytes).await;
            });
            Ok((Some(Feeding::Bytes(task)), inner))
        }
        Input::Forward(from) => {
            let (inner, outer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            Ok((Some(Feeding::Live(Forward::start("stdin", from, outer)?)), inner))
        }
    }
}

fn drain(
    name: &str,
    live: Option<OwnedFd>,
    is_terminal: bool,
    limits: &CaptureLimits,
    progress: Option<watch::Sender<RunProgress>>,
    started: Instant,
) -> io::Result<(Draining, OwnedFd)> {
    if is_terminal {
        return Ok((Draining::Nothing, dev_null(OFlags::WRONLY)?));
    }
    let (outer, inner) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    if let Some(to) = live {
        return Ok((Draining::Live(Forward::start(name, outer, to)?), inner));
    }
    rustix::io::ioctl_fionbio(&outer, true)?;
    let receiver = pipe::Receiver::from_owned_fd(outer)?;
    let capture = Capture::new(limits.clone());
    let enough = CancellationToken::new();
    let task = tokio::spawn(capture.read(receiver, enough.clone(), move |length, so_far| {
        if let Some(progress) = &progress {
            progress.send_modify(|progress| {
                progress.elapsed = started.elapsed();
                progress.output_bytes += length as u64;
                progress.last_line = so_far.last_line();
            });
        }
    }));
    Ok((Draining::Captured(task, enough), inner))
}

fn dev_null(access: OFlags) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open("/dev/null", access | OFlags::CLOEXEC, Mode::empty())?)
}
