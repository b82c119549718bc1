//! `cofferdam serve` and `cofferdam stdio` as long as a test needs them.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::Instant,
};

use super::{
    PATIENCE, World, between_looks,
    client::PipeClient,
    processes::{Watched, children, command_line},
};

/// A supervisor that runs. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// The supervisor.
    pub(crate) supervisor: Watched,
    /// Its lines on standard error.
    log: Receiver<String>,
    seen: Vec<String>,
}

/// What the line that says "ready" tells.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) address: String,
    pub(crate) worker: Watched,
    pub(crate) gateway: Watched,
}

impl Server {
    /// `cofferdam serve --mcp-port 0 OPTIONS…`
    pub(crate) fn serve(world: &World, options: &[&str]) -> Self {
        let mut command = world.cofferdam();
        command.args(["serve", "--mcp-port", "0"]).args(options).stdin(Stdio::null());
        Self::start(command)
    }

    /// `cofferdam stdio OPTIONS…` and a client at its pipes.
    pub(crate) fn stdio(world: &World, options: &[&str]) -> (Self, PipeClient) {
        let mut command = world.cofferdam();
        command.arg("stdio").args(options).stdin(Stdio::piped()).stdout(Stdio::piped());
        let (server, to, from) = Self::start_piped(command);
        (server, PipeClient::new(to, from))
    }

    /// Starts a command that becomes a supervisor, whose standard input and output are pipes.
    pub(crate) fn start_piped(command: Command) -> (Self, ChildStdin, ChildStdout) {
        let mut server = Self::start(command);
        let to = server.child.stdin.take().expect("its input is a pipe");
        let from = server.child.stdout.take().expect("its output is a pipe");
        (server, to, from)
    }

    /// Starts any command that becomes a supervisor.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program can be started");
        let stderr = child.stderr.take().expect("its standard error is a pipe");
        let (sender, log) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let supervisor = Watched::new(child.id());
        Self { child, supervisor, log, seen: Vec::new() }
    }

    /// Waits for a line on standard error that holds this text.
    #[track_caller]
    pub(crate) fn expect_line(&mut self, text: &str) -> String {
        let begun = Instant::now();
        loop {
            match self.log.recv_timeout(PATIENCE.saturating_sub(begun.elapsed())) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(text) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no line with `{text}` in {:#?}", self.seen)
                }
            }
        }
    }

    /// Waits until it serves.
    #[track_caller]
    pub(crate) fn ready(&mut self) -> Ready {
        let line = self.expect_line("cofferdam: serving MCP on ");
        let (address, processes) = line
            .trim_start_matches("cofferdam: serving MCP on ")
            .rsplit_once(" (worker ")
            .expect("the line names the worker");
        let (worker, gateway) = processes
            .trim_end_matches(')')
            .split_once(", gateway ")
            .expect("the line names the gateway");
        Ready {
            address: address.to_owned(),
            worker: Watched::new(worker.parse().expect("a number")),
            gateway: Watched::new(gateway.parse().expect("a number")),
        }
    }

    /// Waits until there is a worker that is not this one.
    #[track_caller]
    pub(crate) fn next_worker(&self, before: &Watched) -> Watched {
        let begun = Instant::now();
        loop {
            let next = children(self.supervisor.pid())
                .into_iter()
                .filter(|pid| *pid != before.pid())
                .find(|pid| command_line(*pid).starts_with("cofferdam worker "));
            if let Some(pid) = next {
                return Watched::new(pid);
            }
            assert!(begun.elapsed() < PATIENCE, "no new worker appeared");
            between_looks();
        }
    }

    /// Waits for the end; how it ended, and everything on standard error.
    #[track_caller]
    pub(crate) fn finish(mut self) -> (ExitStatus, String) {
        self.supervisor.expect_end();
        let status = self.child.wait().expect("it has ended");
        // Ends when the last process that holds the pipe has ended.
        while let Ok(line) = self.log.recv_timeout(PATIENCE) {
            self.seen.push(line);
        }
        (status, self.seen.join("\n"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
