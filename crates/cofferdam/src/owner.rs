//! The owner's end of a running server's admin socket: finding the server, asking, being answered.
//!
//! Not here: what is asked for, and serving it (the worker).

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    thread,
    time::{Duration, Instant},
};

use cofferdam_protocol::{
    Failure, FromWorker, Hello, PROTOCOL_VERSION, ToWorker,
    admin::{AdminReply, AdminRequest, ServerStatus},
    frame::{self, FrameError, MAX_FRAME_BYTES},
};
use rustix::{net::sockopt::socket_peercred, process::geteuid};
use serde::{Serialize, de::DeserializeOwned};

use crate::server_folder::{self, ADMIN_SOCKET, FolderError, RunningServer};

/// How long an answer may take: reading everything again takes a while on a slow disk.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
/// How long a server is waited for whose worker is being started again.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// How long a server may take to say what it is about, for a list.
const LIST_PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);

/// A running server could not be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OwnerError {
    /// Where servers have their folders cannot be told.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// There is none.
    #[error("no server of yours is running")]
    None,
    /// There is more than one, and none was named.
    #[error("several servers of yours are running:{0}")]
    Several(Listed),
    /// There is none with that number.
    #[error("no server of yours has the process id {pid}; these are running:{others}")]
    NotRunning {
        /// What was asked for.
        pid: u32,
        /// Those that there are.
        others: Listed,
    },
    /// It runs and does not answer.
    #[error("speaking to the server {pid}")]
    Unreachable {
        /// Which one.
        pid: u32,
        /// Why not.
        source: io::Error,
    },
    /// Somebody else listens there.
    #[error("user {theirs} listens on the admin socket of the server {pid}, expected user {ours}")]
    Foreign {
        /// Which one.
        pid: u32,
        /// Who we are.
        ours: u32,
        /// Who listens.
        theirs: u32,
    },
    /// What came back is no answer.
    #[error("the server {pid} does not answer as one of this version does")]
    NoAnswer {
        /// Which one.
        pid: u32,
        /// Why not, if that is known.
        source: Option<FrameError>,
    },
    /// It does not speak to us.
    #[error("the server {pid} refused: {}", refusal.message)]
    Refused {
        /// Which one.
        pid: u32,
        /// What it said.
        refusal: Failure,
    },
}

/// Servers, for people: one line each.
#[derive(Debug)]
pub(crate) struct Listed(Vec<(RunningServer, Option<String>)>);

impl std::fmt::Display for Listed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (server, workspace) in &self.0 {
            let workspace = workspace.as_deref().unwrap_or("(does not answer)");
            write!(f, "\n  {}  {workspace}", server.pid)?;
        }
        Ok(())
    }
}

impl OwnerError {
    /// The next step.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Folder(error) => error.hint(),
            Self::None => Some("start one with `cofferdam serve` or `cofferdam stdio`".to_owned()),
            Self::Several(_) | Self::NotRunning { .. } => {
                Some("name one of them with `--server PID`".to_owned())
            }
            Self::Refused { refusal, .. } => refusal.hint.clone(),
            Self::NoAnswer { .. } => {
                Some("use the `cofferdam` that the server was started with".to_owned())
            }
            Self::Unreachable { .. } => Some("the server's log says more".to_owned()),
            Self::Foreign { .. } => None,
        }
    }
}

/// Asks the server with that process id, or the only one that runs.
///
/// # Errors
/// [`OwnerError`]. What the server itself could not do is an [`AdminReply::Failed`].
pub(crate) fn ask(
    pid: Option<u32>,
    request: &AdminRequest,
) -> Result<(RunningServer, AdminReply), OwnerError> {
    let server = choose(pid, server_folder::running()?)?;
    let mut connection = Connection::open(&server, CONNECT_PATIENCE, ANSWER_PATIENCE)?;
    let reply = connection.ask(request)?;
    Ok((server, reply))
}

fn choose(pid: Option<u32>, mut running: Vec<RunningServer>) -> Result<RunningServer, OwnerError> {
    match pid {
        _ if running.is_empty() => Err(OwnerError::None),
        Some(pid) => match running.iter().position(|server| server.pid == pid) {
            Some(index) => Ok(running.swap_remove(index)),
            None => Err(OwnerError::NotRunning { pid, others: listed(running) }),
        },
        None if running.len() == 1 => Ok(running.swap_remove(0)),
        None => Err(OwnerError::Several(listed(running))),
    }
}

fn listed(running: Vec<RunningServer>) -> Listed {
    let with_workspace = |server: RunningServer| {
        let workspace = status(&server).map(|status| status.workspace);
        (server, workspace)
    };
    Listed(running.into_iter().map(with_workspace).collect())
}

/// How every running server is, for a list; `None` for one that does not answer at once.
///
/// # Errors
/// [`FolderError`] when it cannot be told which servers run.
pub(crate) fn statuses() -> Result<Vec<(RunningServer, Option<ServerStatus>)>, FolderError> {
    let with_status = |server: RunningServer| {
        let status = status(&server);
        (server, status)
    };
    Ok(server_folder::running()?.into_iter().map(with_status).collect())
}

fn status(server: &RunningServer) -> Option<ServerStatus> {
    let mut connection = Connection::open(server, Duration::ZERO, LIST_PATIENCE).ok()?;
    match connection.ask(&AdminRequest::Status).ok()? {
        AdminReply::Status(status) => Some(status),
        _ => None,
    }
}

/// A connection whose other end has proven to be our server.
struct Connection {
    pid: u32,
    stream: UnixStream,
}

impl Connection {
    fn open(
        server: &RunningServer,
        patience: Duration,
        answer_patience: Duration,
    ) -> Result<Self, OwnerError> {
        let pid = server.pid;
        let unreachable = |source| OwnerError::Unreachable { pid, source };
        let stream = connect(server, patience).map_err(unreachable)?;
        check_peer(pid, &stream, geteuid().as_raw())?;
        stream.set_read_timeout(Some(answer_patience)).map_err(unreachable)?;
        stream.set_write_timeout(Some(answer_patience)).map_err(unreachable)?;
        let mut connection = Self { pid, stream };
        connection.shake_hands()?;
        Ok(connection)
    }

    fn shake_hands(&mut self) -> Result<(), OwnerError> {
        let pid = self.pid;
        self.send(&ToWorker::Hello(Hello { version: PROTOCOL_VERSION, token: None }))?;
        match self.receive()? {
            FromWorker::Hello(_) => Ok(()),
            FromWorker::Refused(refusal) => Err(OwnerError::Refused { pid, refusal }),
            _ => Err(OwnerError::NoAnswer { pid, source: None }),
        }
    }

    fn ask(&mut self, request: &AdminRequest) -> Result<AdminReply, OwnerError> {
        self.send(request)?;
        self.receive()
    }

    fn send<T: Serialize>(&mut self, message: &T) -> Result<(), OwnerError> {
        let pid = self.pid;
        let payload = frame::encode(message)
            .map_err(|error| OwnerError::NoAnswer { pid, source: Some(error) })?;
        // No message of ours comes near the limit of a frame.
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
        let sent = self.stream.write_all(&[&length, payload.as_ref()].concat());
        sent.map_err(|source| OwnerError::Unreachable { pid, source })
    }

    fn receive<T: DeserializeOwned>(&mut self) -> Result<T, OwnerError> {
        let pid = self.pid;
        let unreachable = |source| OwnerError::Unreachable { pid, source };
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).map_err(unreachable)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > MAX_FRAME_BYTES {
            let source = Some(FrameError::TooLarge { bytes: length });
            return Err(OwnerError::NoAnswer { pid, source });
        }
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).map_err(unreachable)?;
        frame::decode(&payload).map_err(|error| OwnerError::NoAnswer { pid, source: Some(error) })
    }
}

/// Whoever listens must be the same user, by the kernel's word: a name proves nothing.
fn check_peer(pid: u32, stream: &UnixStream, ours: u32) -> Result<(), OwnerError> {
    let peer = socket_peercred(stream)
        .map_err(|error| OwnerError::Unreachable { pid, source: error.into() })?;
    let theirs = peer.uid.as_raw();
    if ours == theirs { Ok(()) } else { Err(OwnerError::Foreign { pid, ours, theirs }) }
}

/// Connects, also when the worker is just being started again.
#[expect(clippy::disallowed_methods, reason = "nothing tells when another process listens again")]
fn connect(server: &RunningServer, patience: Duration) -> io::Result<UnixStream> {
    let begun = Instant::now();
    loop {
        match UnixStream::connect(server.folder.join(ADMIN_SOCKET)) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                ) && begun.elapsed() < patience =>
            {
                thread::sleep(PAUSE);
            }
            connected => return connected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(pid: u32) -> RunningServer {
        RunningServer { pid, folder: format!("/nonexistent/{pid}").into() }
    }

    #[test]
    fn a_socket_of_another_user_is_not_spoken_to() -> io::Result<()> {
        let (stream, _other_end) = UnixStream::pair()?;
        let us = geteuid().as_raw();
        assert!(check_peer(7, &stream, us).is_ok());
        let refused = check_peer(7, &stream, us + 1).expect_err("it is not theirs");
        let OwnerError::Foreign { pid: 7, ours, theirs } = refused else { panic!("{refused}") };
        assert_eq!((ours, theirs), (us + 1, us));
        Ok(())
    }

    #[test]
    fn the_only_server_is_found_by_itself_and_of_several_one_must_be_named() {
        let message = |chosen: Result<RunningServer, OwnerError>| {
            let error = chosen.expect_err("none can be meant");
            format!("{error}\nhint: {}", error.hint().unwrap_or_default())
        };
        assert_eq!(choose(None, vec![server(7)]).expect("it").pid, 7);
        assert_eq!(choose(Some(8), vec![server(7), server(8)]).expect("it").pid, 8);
        insta::assert_snapshot!(message(choose(None, vec![])), @"
        no server of yours is running
        hint: start one with `cofferdam serve` or `cofferdam stdio`
        ");
        insta::assert_snapshot!(message(choose(None, vec![server(7), server(8)])), @"
        several servers of yours are running:
          7  (does not answer)
          8  (does not answer)
        hint: name one of them with `--server PID`
        ");
        insta::assert_snapshot!(message(choose(Some(9), vec![server(7)])), @"
        no server of yours has the process id 9; these are running:
          7  (does not answer)
        hint: name one of them with `--server PID`
        ");
    }
}
