//! Who may come in: a layer around the MCP endpoint that refuses before anything is read.
//!
//! Not here: whether a caller is known (callers' tokens), and `Host` and `Origin`, which rmcp checks.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, BodyDataStream},
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::{Stream, StreamExt, stream};
use http::{HeaderMap, HeaderName, Method, StatusCode, header};
use rmcp::model::ProtocolVersion;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::sessions::{MAX_SESSIONS, Sessions};
use crate::calls::Calls;

/// Requests whose bodies are being read or which wait for their answer's first byte.
const MAX_REQUESTS: usize = 512;
/// Bodies above this size, or of unknown size, count as large.
const LARGE_BODY_BYTES: u64 = 1024 * 1024;
/// Large bodies that are read at a time; they are what the gateway's memory is bounded by.
const MAX_LARGE_BODIES: usize = 4;
/// How long a client may pause while it sends a body.
const BODY_PAUSE: Duration = Duration::from_secs(30);
const RETRY_AFTER_SECONDS: &str = "1";
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The bounds of one gateway.
#[derive(Debug)]
pub(super) struct Admission {
    calls: Arc<Calls>,
    sessions: Arc<Sessions>,
    requests: Arc<Semaphore>,
    large_bodies: Arc<Semaphore>,
}

impl Admission {
    pub(super) fn new(calls: Arc<Calls>, sessions: Arc<Sessions>) -> Self {
        Self {
            calls,
            sessions,
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
            large_bodies: Arc::new(Semaphore::new(MAX_LARGE_BODIES)),
        }
    }
}

/// Lets a request through, or answers 503 with `Retry-After`.
pub(super) async fn admit(
    State(admission): State<Arc<Admission>>,
    mut request: Request,
    next: Next,
) -> Response {
    if request.method() != Method::POST {
        // Streams and DELETE: bounded by the sessions they belong to, and by connections.
        return next.run(request).await;
    }
    if admission.calls.is_draining() {
        return refuse("the server is shutting down");
    }
    request.extensions_mut().insert(admission.sessions.changes_since_now());
    let Ok(_request) = admission.requests.clone().try_acquire_owned() else {
        return refuse("too many requests are under way");
    };
    let _opening = if opens_session(request.headers()) {
        match admission.sessions.clone().make_room().await {
            Some(opening) => Some(opening),
            None => return refuse(&format!("all {MAX_SESSIONS} sessions are in use")),
        }
    } else {
        None
    };
    let large_body = if is_large(request.headers()) {
        match admission.large_bodies.clone().try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) => return refuse("too many large requests are being read"),
        }
    } else {
        None
    };
    let request = request.map(|body| Body::from_stream(watched(body, large_body)));
    next.run(request).await
}

/// Whether the request may open a legacy session.
///
/// Decided by headers alone. A request of the modern era says so in its headers, which rmcp holds
/// it to; whatever says nothing may turn out to be an `initialize`.
fn opens_session(headers: &HeaderMap) -> bool {
    if headers.contains_key(SESSION_ID) {
        return false;
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let is_modern = text(PROTOCOL_VERSION)
        .is_some_and(|version| version >= ProtocolVersion::STANDARD_HEADERS.as_str());
    let names_other_method = text(METHOD).is_some_and(|method| method != "initialize");
    !(is_modern && names_other_method)
}

fn is_large(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok())
        .is_none_or(|length| length > LARGE_BODY_BYTES)
}

/// The body, which ends with an error when its client pauses too long, and gives the permit back
/// when it has been read.
fn watched(
    body: Body,
    permit: Option<OwnedSemaphorePermit>,
) -> impl Stream<Item = Result<bytes::Bytes, axum::Error>> {
    struct Reading {
        body: BodyDataStream,
        _permit: Option<OwnedSemaphorePermit>,
    }
    let reading = Reading { body: body.into_data_stream(), _permit: permit };
    stream::unfold(Some(reading), |reading| async {
        let mut reading = reading?;
        match tokio::time::timeout(BODY_PAUSE, reading.body.next()).await {
            Ok(Some(Ok(data))) => Some((Ok(data), Some(reading))),
            Ok(Some(Err(error))) => Some((Err(error), None)),
            Ok(None) => None,
            Err(paused) => Some((Err(axum::Error::new(paused)), None)),
        }
    })
}

fn refuse(reason: &str) -> Response {
    let headers = [(header::RETRY_AFTER, RETRY_AFTER_SECONDS)];
    (StatusCode::SERVICE_UNAVAILABLE, headers, format!("Service Unavailable: {reason}\n"))
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_a_request_that_names_another_modern_method_cannot_open_a_session() {
        let modern = (PROTOCOL_VERSION, "2026-07-28");
        assert!(!opens_session(&headers(&[modern.clone(), (METHOD, "tools/list")])));
        assert!(!opens_session(&headers(&[(SESSION_ID, "x")])));
        assert!(opens_session(&headers(&[])));
        assert!(opens_session(&headers(std::slice::from_ref(&modern))));
        assert!(opens_session(&headers(&[modern, (METHOD, "initialize")])));
        assert!(opens_session(&headers(&[(METHOD, "tools/list")])));
        assert!(opens_session(&headers(&[
            (PROTOCOL_VERSION, "2025-11-25"),
            (METHOD, "tools/list")
        ])));
    }

    #[test]
    fn a_body_of_unknown_length_counts_as_large() {
        assert!(is_large(&headers(&[])));
        assert!(is_large(&headers(&[(header::CONTENT_LENGTH, "1048577")])));
        assert!(!is_large(&headers(&[(header::CONTENT_LENGTH, "1048576")])));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stops_sending_loses_its_request_and_its_permit() {
        let bodies = Arc::new(Semaphore::new(1));
        let sent = stream::iter([Ok::<_, std::io::Error>("some")]).chain(stream::pending());
        let permit = bodies.clone().try_acquire_owned().ok();
        let mut body = Box::pin(watched(Body::from_stream(sent), permit));
        assert_eq!(body.next().await.unwrap().unwrap(), "some");
        assert_eq!(bodies.available_permits(), 0);
        assert!(body.next().await.unwrap().is_err());
        assert!(body.next().await.is_none());
        assert_eq!(bodies.available_permits(), 1);
    }

    #[tokio::test]
    async fn the_permit_of_a_large_body_is_back_once_it_has_been_read() {
        let bodies = Arc::new(Semaphore::new(1));
        let permit = bodies.clone().try_acquire_owned().ok();
        let mut body = Box::pin(watched(Body::from("all"), permit));
        while body.next().await.is_some() {}
        assert_eq!(bodies.available_permits(), 1);
    }
}
