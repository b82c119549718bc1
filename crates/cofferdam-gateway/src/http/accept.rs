//! Connections: accepted up to a bound, served, and ended in order.
//!
//! In place of `axum::serve`, which neither bounds connections nor ends those that send no request.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
    service::TowerToHyperService,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections that are open at a time; the kernel queues what comes beyond.
const MAX_CONNECTIONS: usize = 512;
/// How long a connection may be open without the whole head of a request, also between requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// After an accept that failed for want of descriptors: how long until the next one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// How long connections may take to end once everything has been answered.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves connections until `draining` ends, then lets the open ones finish what they are at.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    draining: impl Future<Output = ()>,
) {
    let connections = GracefulShutdown::new();
    tokio::select! {
        () = draining => {}
        () = accept(&listener, &router, &connections) => {}
    }
    drop(listener);
    if tokio::time::timeout(CLOSE_TIMEOUT, connections.shutdown()).await.is_err() {
        tracing::warn!("some connections did not end");
    }
}

async fn accept(listener: &TcpListener, router: &Router, connections: &GracefulShutdown) {
    let slots = std::sync::Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // Never closed, hence never an error.
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let connection = connections.watch(serve_connection(stream, router));
        tokio::spawn(async move {
            let _slot = slot;
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
}

fn serve_connection(
    stream: TcpStream,
    router: &Router,
) -> http1::Connection<TokioIo<TcpStream>, TowerToHyperService<Router>> {
    // With Nagle's algorithm on, each answer to some clients waits tens of milliseconds.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot switch off Nagle's algorithm");
    }
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()))
}
