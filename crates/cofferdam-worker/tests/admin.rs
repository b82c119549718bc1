//! Who is let in at the owner's socket, what a peer can break, and what a reload does.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use cofferdam_policy::{ToolRule, ToolRules};
use cofferdam_protocol::{
    ErrorCode, Failure,
    admin::{AdminReply, AdminRequest, ServerStatus},
    frame,
};
use cofferdam_worker::{Control, ReadRules, Rules, bind_unix, serve_admin};
use futures_util::{SinkExt, StreamExt, future::join_all};
use serde_json::json;
use support::{
    Place,
    client::{Client, uid},
};
use tokio::{net::UnixStream, task::JoinHandle};
use tokio_util::{either::Either, sync::CancellationToken};

struct Admin {
    place: Place,
    control: Control,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Admin {
    fn start(uid: u32, read: ReadRules) -> Self {
        let place = Place::new();
        let control = Control::new(place.executor(), read);
        let listener = bind_unix(&place.outside("run/admin.sock")).unwrap();
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve_admin(listener, control.clone(), uid, stop.clone()));
        Self { place, control, stop, serving }
    }

    fn unchanging() -> Self {
        Self::start(uid(), Box::new(|_| Ok(None)))
    }

    async fn connect(&self) -> Client {
        let socket = self.place.outside("run/admin.sock");
        Client::new(Either::Left(UnixStream::connect(socket).await.unwrap()))
    }

    async fn owner(&self) -> Client {
        let mut client = self.connect().await;
        client.hello().await;
        client
    }
}

async fn ask(owner: &mut Client, request: &AdminRequest) -> AdminReply {
    owner.frames.send(frame::encode(request).unwrap()).await.unwrap();
    received(owner).await.unwrap()
}

async fn received(owner: &mut Client) -> Option<AdminReply> {
    match owner.frames.next().await {
        Some(Ok(payload)) => Some(frame::decode(&payload).unwrap()),
        _ => None,
    }
}

async fn status(owner: &mut Client) -> ServerStatus {
    match ask(owner, &AdminRequest::Status).await {
        AdminReply::Status(status) => status,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_process_of_another_user_is_refused() {
    let admin = Admin::start(uid() + 1, Box::new(|_| Ok(None)));
    let mut stranger = admin.connect().await;
    assert_eq!(stranger.refusal().await.code, ErrorCode::PeerRefused);
    assert_eq!(received(&mut stranger).await, None);
}

#[tokio::test]
async fn nothing_is_answered_before_a_hello_and_no_other_message_is_one() {
    let admin = Admin::unchanging();
    for message in [json!({ "type": "status" }), json!({ "type": "reload" }), json!([])] {
        let mut stranger = admin.connect().await;
        stranger.send_json(&message).await;
        assert_eq!(received(&mut stranger).await, None, "{message}");
    }
}

#[tokio::test]
async fn what_is_no_request_is_refused_and_the_next_one_is_answered() {
    let admin = Admin::unchanging();
    let mut owner = admin.owner().await;
    for message in [
        json!("status"),
        json!({ "type": "no_such_request" }),
        json!({ "type": "set_tools", "pattern": "*", "active": true, "extra": 1 }),
        // Of the other socket.
        json!({ "type": "health", "id": 1 }),
    ] {
        owner.send_json(&message).await;
        match received(&mut owner).await.unwrap() {
            AdminReply::Failed(failure) => assert_eq!(failure.code, ErrorCode::InvalidArguments),
            other => panic!("{message}: {other:?}"),
        }
    }
    assert_eq!(status(&mut owner).await.generation, 1);
}

#[tokio::test]
async fn a_request_that_is_too_long_ends_its_connection_only() {
    let admin = Admin::unchanging();
    let mut owner = admin.owner().await;
    let long = Bytes::from(vec![b' '; 64 * 1024]);
    owner.frames.send(long).await.unwrap();
    assert_eq!(received(&mut owner).await, None);
    status(&mut admin.owner().await).await;
}

#[tokio::test]
async fn connections_are_bounded_and_one_that_ends_makes_room() {
    let admin = Admin::unchanging();
    let mut held = Vec::new();
    for _ in 0..16 {
        held.push(admin.owner().await);
    }
    let mut one_more = admin.connect().await;
    assert_eq!(received(&mut one_more).await, None, "it is closed without a word");
    status(&mut held[15]).await;
    held.clear();
    loop {
        // The server notices in its own time that they are gone.
        let mut next = admin.connect().await;
        next.send_json(&json!({ "type": "hello", "version": 1, "token": null })).await;
        if next.frames.next().await.is_some_and(|hello| hello.is_ok()) {
            status(&mut next).await;
            return;
        }
    }
}

#[tokio::test]
async fn serving_ends_when_it_is_told_to_also_with_connections_open() {
    let admin = Admin::unchanging();
    let mut owner = admin.owner().await;
    admin.stop.cancel();
    admin.serving.await.unwrap();
    assert_eq!(received(&mut owner).await, None);
}

/// Rules with one more of them each time.
fn growing() -> ReadRules {
    let count = AtomicU64::new(0);
    Box::new(move |before| {
        let mut rules = before.clone();
        let pattern = format!("tool{}", count.fetch_add(1, Ordering::SeqCst)).parse().unwrap();
        let origin = "test".to_owned();
        rules.tools.rules.push(ToolRule { pattern, active: false, origin });
        let next = before.profiles.generation() + 1;
        rules.profiles = before.profiles.clone().numbered(next);
        Ok(Some(rules))
    })
}

#[tokio::test]
async fn reloads_that_come_at_once_are_done_one_after_the_other() {
    let admin = Admin::start(uid(), growing());
    let many = join_all((0..20).map(|_| admin.control.reload())).await;
    assert!(many.iter().all(Result::is_ok), "{many:?}");
    let mut owner = admin.owner().await;
    assert_eq!(status(&mut owner).await.generation, 21);
    match ask(&mut owner, &AdminRequest::ToolRules).await {
        AdminReply::ToolRules { rules } => assert_eq!(rules.len(), 21, "none was lost"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn rules_that_cannot_be_used_here_change_nothing_and_the_status_says_so() {
    let outcomes = Mutex::new(vec![
        // What the files say is fine by itself, but the default profile is not among them.
        "gone", "fails",
    ]);
    let read: ReadRules = Box::new(move |before| match outcomes.lock().unwrap().pop() {
        Some("fails") => Err(Failure::new(ErrorCode::Internal, "unreadable")),
        Some(name) => {
            let profiles = before.profiles.clone().numbered(2);
            let rules = Rules {
                default_profile: name.to_owned(),
                profiles,
                tools: ToolRules { default_active: false, rules: Vec::new() },
            };
            Ok(Some(rules))
        }
        None => Ok(None),
    });
    let admin = Admin::start(uid(), read);
    let mut owner = admin.owner().await;
    for expected in ["unreadable", "gone"] {
        match ask(&mut owner, &AdminRequest::Reload).await {
            AdminReply::Failed(failure) => {
                assert!(failure.message.contains(expected), "{failure:?}");
            }
            other => panic!("{other:?}"),
        }
        let now = status(&mut owner).await;
        assert_eq!(now.generation, 1);
        assert!(now.reload_error.is_some_and(|error| error.contains(expected)));
    }
    assert_eq!(admin.control.executor().tool_names().len(), 3, "nothing was switched off");
    assert!(matches!(ask(&mut owner, &AdminRequest::Reload).await, AdminReply::Done { .. }));
    assert_eq!(status(&mut owner).await.reload_error, None);
}
