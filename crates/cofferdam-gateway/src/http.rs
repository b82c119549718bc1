//! MCP over streamable HTTP, on loopback.
//!
//! rmcp speaks the protocol; around it stand what it leaves out: bounds on connections, requests,
//! bodies and sessions, health pages, and a stop that loses no answer.
//!
//! Not here: callers' tokens and TLS. Without them only a loopback address may be served.

mod accept;
mod admission;
mod health;
mod sessions;

use std::{net::TcpListener, sync::Arc, time::Duration};

use axum::{Router, middleware, routing::get};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use crate::{GatewayError, server::GatewayServer};
use admission::Admission;
use sessions::Sessions;

pub(crate) use sessions::SessionHandle;

/// The longest request body that is read, in bytes. Above the limits of the tools, so that an
/// argument that is too long gets the tool's own answer.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// Lets the answers to the last calls reach their connections before those are closed.
const LAST_ANSWERS_PAUSE: Duration = Duration::from_millis(100);
const LOOPBACK_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
const LOOPBACK_ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];
const LIVENESS_PATH: &str = "/healthz";
const READINESS_PATH: &str = "/readyz";

/// A listener that has been taken over, and what is to be served on it.
#[derive(Debug)]
pub(crate) struct Http {
    listener: tokio::net::TcpListener,
    path: String,
    allowed_hosts: Vec<String>,
}

impl Http {
    /// Checks what the caller gave. Nothing is accepted yet.
    pub(crate) fn new(
        listener: TcpListener,
        path: String,
        allowed_hosts: Vec<String>,
    ) -> Result<Self, GatewayError> {
        if !is_usable_path(&path) {
            return Err(GatewayError::Path(path));
        }
        let address = listener.local_addr().map_err(GatewayError::Listener)?;
        if !address.ip().is_loopback() {
            return Err(GatewayError::NotLoopback(address));
        }
        listener.set_nonblocking(true).map_err(GatewayError::Listener)?;
        let listener =
            tokio::net::TcpListener::from_std(listener).map_err(GatewayError::Listener)?;
        Ok(Self { listener, path, allowed_hosts })
    }

    /// Serves until `stop` is cancelled, then drains.
    pub(crate) async fn serve(
        self,
        server: GatewayServer,
        drain: Duration,
        stop: CancellationToken,
    ) {
        let calls = server.calls().clone();
        let sessions = Arc::new(Sessions::new(server.worker().clone()));
        let mcp_end = CancellationToken::new();
        let router = router(&self.path, &self.allowed_hosts, server, sessions, mcp_end.clone());
        let draining = async move {
            stop.cancelled().await;
            // The listener stays open meanwhile, so that /readyz and refusals are still answered.
            calls.drain(drain, std::future::pending()).await;
            tokio::time::sleep(LAST_ANSWERS_PAUSE).await;
            // Before the calls were done, this would have answered them with an internal error.
            mcp_end.cancel();
        };
        accept::serve(self.listener, router, draining).await;
    }
}

fn router(
    path: &str,
    allowed_hosts: &[String],
    server: GatewayServer,
    sessions: Arc<Sessions>,
    end: CancellationToken,
) -> Router {
    let (hosts, origins) = allowed(allowed_hosts);
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .with_allowed_origins(origins)
        .enforce_origin_validation()
        .with_max_request_body_bytes(MAX_BODY_BYTES)
        .with_cancellation_token(end);
    let admission = Arc::new(Admission::new(server.calls().clone(), sessions.clone()));
    let health = health::Probes::new(server.worker().clone(), server.calls().clone());
    let mcp = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
    let mut routes = Router::new().route_service(path, mcp.clone());
    if !path.ends_with('/') {
        routes = routes.route_service(&format!("{path}/"), mcp);
    }
    routes
        .layer(middleware::from_fn_with_state(admission, admission::admit))
        .route(LIVENESS_PATH, get(health::alive))
        .route(READINESS_PATH, get(health::ready).with_state(health))
}

/// The values that `Host` and `Origin` may have: the loopback ones and those that were configured.
fn allowed(extra: &[String]) -> (Vec<String>, Vec<String>) {
    let mut hosts: Vec<String> = LOOPBACK_HOSTS.map(str::to_owned).to_vec();
    let mut origins: Vec<String> = LOOPBACK_ORIGINS.map(str::to_owned).to_vec();
    for name in extra {
        let (schemes, host) = match name.split_once("://") {
            Some((scheme, host)) => (vec![scheme], host),
            None => (vec!["http", "https"], name.as_str()),
        };
        hosts.push(host.to_owned());
        let has_port = host
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|c| c.is_ascii_digit()));
        let any_port = if has_port { "" } else { ":*" };
        origins.extend(schemes.iter().map(|scheme| format!("{scheme}://{host}{any_port}")));
    }
    (hosts, origins)
}

fn is_usable_path(path: &str) -> bool {
    path.starts_with('/')
        && !path.contains("//")
        && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte))
        && [LIVENESS_PATH, READINESS_PATH].iter().all(|taken| path.trim_end_matches('/') != *taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_taken_or_no_path_is_refused() {
        for path in ["/mcp", "/", "/a/b.c", "/mcp/"] {
            assert!(is_usable_path(path), "{path}");
        }
        for path in ["", "mcp", "/healthz", "/readyz/", "/{x}", "/a b", "/a//b", "/*", "/a?b"] {
            assert!(!is_usable_path(path), "{path}");
        }
    }

    #[test]
    fn an_allowed_host_extends_both_lists() {
        let extra = ["example.org", "example.org:8443", "https://a.example"].map(str::to_owned);
        let (hosts, origins) = allowed(&extra);
        assert_eq!(hosts[3..], ["example.org", "example.org:8443", "a.example"]);
        assert_eq!(
            origins[3..],
            [
                "http://example.org:*",
                "https://example.org:*",
                "http://example.org:8443",
                "https://example.org:8443",
                "https://a.example:*"
            ]
        );
    }
}
