//! The socket of the server's owner: one request, one reply, one after the other.
//!
//! The same handshake as on the other socket, for the same user only. Not here: what a request does.

use std::{sync::Arc, time::Duration};

use cofferdam_protocol::{
    ErrorCode, Failure,
    admin::{AdminReply, AdminRequest},
    frame::{self, MAX_FRAME_BYTES},
};
use futures_util::{SinkExt, StreamExt};
use tokio::{
    net::UnixListener,
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{either::Either, sync::CancellationToken, task::TaskTracker};

use super::{
    ACCEPT_PAUSE, Auth,
    handshake::{self, Frames, Peer, Refused},
};
use crate::{Control, failure::chain, pipeline::crashed};

/// Most connections at once.
const MOST_CONNECTIONS: usize = 16;
/// The longest request, in bytes.
const MOST_REQUEST_BYTES: usize = 16 * 1024;
/// How long a connection may be open without a request, and how long an answer may take to leave.
const IDLE: Duration = Duration::from_secs(60);

/// Serves the owner until `stop` fires. Requests under way are then cut off: none changes anything
/// half.
///
/// `uid` is the user whose processes may ask.
pub async fn serve_admin(
    listener: UnixListener,
    control: Control,
    uid: u32,
    stop: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let auth = Arc::new(Auth { uid, token: None });
    let tasks = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "accepting a connection of the owner failed");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::warn!("refusing a connection of the owner: {MOST_CONNECTIONS} are open");
            continue;
        };
        let (control, auth, stop) = (control.clone(), auth.clone(), stop.clone());
        tasks.spawn(async move {
            let _place = place;
            let peer = Peer::Local(stream.peer_cred().map(|peer| peer.uid()));
            let serving = async {
                match handshake::shake_hands(Either::Left(stream), peer, &auth).await {
                    Ok(frames) => converse(frames, &control).await,
                    Err(Refused::Gone) => {}
                    Err(refused) => {
                        tracing::warn!(
                            error = chain(&refused),
                            "refused a connection of the owner"
                        );
                    }
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = serving => {}
            }
        });
    }
    tasks.close();
    tasks.wait().await;
}

/// Answers requests until the peer leaves, says nothing, or says what is none.
async fn converse(mut frames: Frames, control: &Control) {
    loop {
        frames.codec_mut().set_max_frame_length(MOST_REQUEST_BYTES);
        let payload = match timeout(IDLE, frames.next()).await {
            Ok(Some(Ok(payload))) => payload,
            Ok(Some(Err(error))) => {
                tracing::warn!(%error, "ending a connection of the owner");
                return;
            }
            Ok(None) | Err(_) => return,
        };
        let reply = match frame::decode(&payload) {
            Ok(request) => answer(control, request).await,
            Err(error) => Failure::new(ErrorCode::InvalidArguments, chain(&error)).into(),
        };
        frames.codec_mut().set_max_frame_length(MAX_FRAME_BYTES);
        let sent = match frame::encode(&reply) {
            Ok(payload) => timeout(IDLE, frames.send(payload)).await,
            Err(error) => {
                tracing::error!(error = chain(&error), "an answer could not be encoded");
                return;
            }
        };
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
}

async fn answer(control: &Control, request: AdminRequest) -> AdminReply {
    let executor = control.executor().clone();
    match request {
        AdminRequest::Status => AdminReply::Status(executor.status()),
        AdminRequest::Reload => done(control.reload().await),
        AdminRequest::ToolRules => AdminReply::ToolRules { rules: executor.tool_rules() },
        AdminRequest::SetTools { pattern, active, expires_after_s } => {
            blocking(move || executor.set_tools(&pattern, active, expires_after_s)).await
        }
        AdminRequest::ForgetTools { pattern } => {
            blocking(move || executor.forget_tools(&pattern)).await
        }
        AdminRequest::ListApprovals => AdminReply::Approvals { waiting: executor.approvals() },
        AdminRequest::DecideApproval { id, allow } => done(executor.decide_approval(&id, allow)),
    }
}

async fn blocking(change: impl FnOnce() -> Result<String, Failure> + Send + 'static) -> AdminReply {
    let changed = tokio::task::spawn_blocking(change).await;
    done(changed.unwrap_or_else(|error| Err(crashed(error))))
}

fn done(result: Result<String, Failure>) -> AdminReply {
    match result {
        Ok(message) => AdminReply::Done { message },
        Err(failure) => failure.into(),
    }
}
