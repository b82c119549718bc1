//! MCP over the process's own stdin and stdout.
//!
//! Not here: logs, which must never reach stdout.

mod oversize;
mod transport;

use std::{pin::pin, time::Duration};

use rmcp::{
    ServiceExt,
    service::ServerInitializeError,
    transport::{StdioReader, StdioWriter, stdio_pipes},
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::{GatewayError, server::GatewayServer};
use transport::StdioTransport;

/// The longest message that is read, in bytes. Above the limits of the tools, so that an argument
/// that is too long gets the tool's own answer.
const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;
/// How long a client may take to read the last answers.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a client that has closed stdin is looked after.
const CLIENT_CHECK: Duration = Duration::from_millis(200);

/// The opened ends of stdin and stdout.
#[derive(Debug)]
pub(crate) struct Pipes {
    reader: StdioReader,
    writer: StdioWriter,
}

impl Pipes {
    /// Opens the pipes anew, non-blocking, where the descriptors are pipes. That needs `/proc`,
    /// hence before the process gives up opening files; later, blocking reads and writes serve.
    pub(crate) fn open() -> Self {
        let (reader, writer) = stdio_pipes();
        Self { reader, writer }
    }

    pub(crate) async fn serve(
        self,
        server: GatewayServer,
        drain: Duration,
        stop: CancellationToken,
    ) -> Result<(), GatewayError> {
        serve(self.reader, self.writer, server, drain, stop).await
    }
}

/// Serves one client until it closes its end or `stop` is cancelled.
pub(crate) async fn serve<R, W>(
    reader: R,
    writer: W,
    server: GatewayServer,
    drain: Duration,
    stop: CancellationToken,
) -> Result<(), GatewayError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let calls = server.calls().clone();
    let worker = server.worker().clone();
    let transport = StdioTransport::new(reader, writer, worker, calls.clone(), drain, stop.clone());
    let stdin_closed = transport.stdin_closed();
    let end = CancellationToken::new();
    let running = tokio::select! {
        begun = server.serve_with_ct(transport, end.clone()) => match begun {
            Ok(running) => running,
            Err(error) => return ended_before_it_began(error),
        },
        () = stop.cancelled() => return Ok(()),
    };
    let mut session = pin!(running.waiting());
    tokio::select! {
        _ = &mut session => return Ok(()),
        // A client that has closed stdin and then stops us waits for nothing more: the calls end.
        () = stop.cancelled() => calls.drain(drain, stdin_closed.cancelled()).await,
    }
    end.cancel();
    if tokio::time::timeout(CLOSE_TIMEOUT, session).await.is_err() {
        tracing::warn!("the client does not read the last answers");
    }
    Ok(())
}

/// A client that goes away before it has said anything is no error.
fn ended_before_it_began(error: ServerInitializeError) -> Result<(), GatewayError> {
    match error {
        ServerInitializeError::ConnectionClosed(_)
        | ServerInitializeError::TransportError { .. }
        | ServerInitializeError::Cancelled => {
            tracing::info!("the client went away before it began an MCP session");
            Ok(())
        }
        error => Err(GatewayError::Handshake(Box::new(error))),
    }
}

/// Ends when nobody reads our stdout any more. Never ends when that cannot be told.
///
/// Asked for at intervals, because what tells it differs between pipes and sockets, and clients use
/// both; only while a client that closed stdin has calls under way.
async fn stdout_closed() {
    loop {
        tokio::time::sleep(CLIENT_CHECK).await;
        let stdout = std::io::stdout();
        let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut watched, Some(&at_once)) {
            Ok(_) if watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => return,
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "cannot tell whether stdout is read");
                std::future::pending::<()>().await;
            }
        }
    }
}
