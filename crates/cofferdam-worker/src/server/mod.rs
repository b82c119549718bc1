//! The socket behind which an executor is called by other processes of the same user.
//!
//! Every peer is checked before it is listened to, every count and every queue has a bound, and a
//! peer that breaks the protocol loses its connection and nothing else.

mod admin;
mod bind;
mod connection;
mod handshake;

use std::{io, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, UnixListener},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{either::Either, sync::CancellationToken, task::TaskTracker};

use crate::{Executor, audit::AuditError};
use handshake::{Peer, Refused, Stream};

pub use admin::serve_admin;
pub use bind::bind_unix;

/// Most connections at once. The gateway has one, `cofferdam tools` another for a moment.
const MOST_CONNECTIONS: usize = 64;

/// How long answers may take to leave once everything has been killed.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// After a failure to accept, which is as a rule a shortage of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where callers come from.
#[derive(Debug)]
pub enum Listener {
    /// A Unix socket: the kernel tells who the peer is.
    Unix(UnixListener),
    /// TCP: the peer proves itself by the token.
    Tcp(TcpListener),
}

/// Who may call.
#[derive(Clone)]
pub struct Auth {
    /// The user whose processes may call over a Unix socket.
    pub uid: u32,
    /// The secret that callers over TCP must know. Never logged.
    pub token: Option<String>,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth")
            .field("uid", &self.uid)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .finish()
    }
}

/// A server could not be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A TCP socket without a token: every user of this machine could run code.
    #[error("a TCP endpoint needs a shared token")]
    NoToken,
    /// A TCP socket that other machines can reach.
    #[error("a TCP endpoint must be a loopback address")]
    NotLoopback,
    /// Calls cannot be recorded, and shall not run unrecorded.
    #[error(transparent)]
    Audit(AuditError),
    /// The socket does not tell its address.
    #[error("asking the socket for its address")]
    Address(#[source] io::Error),
}

/// Serves until `stop` fires, then lets the calls under way finish for at most `drain`, then kills
/// the rest and still delivers their answers. New calls are refused from `stop` on.
///
/// # Errors
/// [`ServeError`] before anything is served; a server that serves goes on until it is stopped.
pub async fn serve(
    listener: Listener,
    executor: Executor,
    auth: Auth,
    stop: CancellationToken,
    drain: Duration,
) -> Result<(), ServeError> {
    if let Listener::Tcp(listener) = &listener {
        if auth.token.as_deref().is_none_or(str::is_empty) {
            return Err(ServeError::NoToken);
        }
        if !listener.local_addr().map_err(ServeError::Address)?.ip().is_loopback() {
            return Err(ServeError::NotLoopback);
        }
    }
    executor.started().await.map_err(ServeError::Audit)?;
    let kill = CancellationToken::new();
    let tasks = TaskTracker::new();
    let server = Server {
        executor: executor.clone(),
        auth: Arc::new(auth),
        stop: stop.clone(),
        kill: kill.clone(),
        places: Arc::new(Semaphore::new(MOST_CONNECTIONS)),
        tasks: tasks.clone(),
    };
    // The first call then need not wait; what is missing is known before anybody needs it.
    let prepared = executor.clone();
    let preparing = tasks.spawn(async move {
        if let Err(failure) = prepared.prepare().await {
            tracing::warn!(hint = failure.hint, "{}", failure.message);
        }
    });
    let keeper = server.executor.clone();
    let keeping_time = tasks.spawn(async move { keeper.keep_time().await });
    tokio::select! {
        () = stop.cancelled() => {}
        () = server.accept(&listener) => {}
    }
    keeping_time.abort();
    preparing.abort();
    drop(listener);
    tasks.close();
    if timeout(drain, tasks.wait()).await.is_err() {
        kill.cancel();
        if timeout(LAST_WORDS, tasks.wait()).await.is_err() {
            tracing::warn!("connections were cut off with answers under way");
        }
    }
    executor.stopped().await;
    Ok(())
}

/// What the connections share.
struct Server {
    executor: Executor,
    auth: Arc<Auth>,
    stop: CancellationToken,
    kill: CancellationToken,
    places: Arc<Semaphore>,
    tasks: TaskTracker,
}

impl Server {
    /// Accepts for ever.
    async fn accept(&self, listener: &Listener) {
        loop {
            let accepted = match listener {
                Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| {
                    let peer = Peer::Local(stream.peer_cred().map(|peer| peer.uid()));
                    self.welcome(Either::Left(stream), peer);
                }),
                Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%error, "answers over TCP may be held back");
                    }
                    self.welcome(Either::Right(stream), Peer::Remote);
                }),
            };
            if let Err(error) = accepted {
                tracing::warn!(%error, "accepting a connection failed");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }

    fn welcome(&self, stream: Stream, peer: Peer) {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            tracing::warn!("refusing a connection: {MOST_CONNECTIONS} are open");
            return;
        };
        let (executor, auth) = (self.executor.clone(), self.auth.clone());
        let (stop, kill) = (self.stop.clone(), self.kill.clone());
        self.tasks.spawn(async move {
            let _place = place;
            let frames = tokio::select! {
                () = stop.cancelled() => return,
                shaken = handshake::shake_hands(stream, peer, &auth) => shaken,
            };
            match frames {
                Ok(frames) => connection::serve(frames, executor, stop, kill).await,
                // Whoever only looks whether somebody listens is no reason for alarm.
                Err(Refused::Gone) => tracing::debug!("a connection ended without a word"),
                Err(refused) => {
                    tracing::warn!(error = crate::failure::chain(&refused), "refused a connection");
                }
            }
        });
    }
}
