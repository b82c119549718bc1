//! `/healthz`: the process answers. `/readyz`: calls would be answered too.

use std::sync::Arc;

use axum::{Json, extract::State, response::IntoResponse};
use http::StatusCode;
use serde_json::{Value, json};

use crate::{calls::Calls, client::WorkerClient};

/// What readiness is judged by.
#[derive(Clone, Debug)]
pub(super) struct Probes {
    worker: WorkerClient,
    calls: Arc<Calls>,
}

impl Probes {
    pub(super) fn new(worker: WorkerClient, calls: Arc<Calls>) -> Self {
        Self { worker, calls }
    }
}

pub(super) async fn alive() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

pub(super) async fn ready(State(probes): State<Probes>) -> impl IntoResponse {
    if probes.calls.is_draining() {
        return (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "status": "draining" })));
    }
    match probes.worker.health().await {
        Ok(health) => {
            // Why the newest files cannot be used is for the log: it may name files of this machine.
            let worker = json!({
                "running": health.running,
                "queued": health.queued,
                "generation": health.generation,
                "reload_failed": health.reload_error.is_some(),
            });
            (StatusCode::OK, Json(json!({ "status": "ready", "worker": worker })))
        }
        Err(failure) => {
            let reason = json!({ "status": "worker away", "code": failure.code.as_str() });
            (StatusCode::SERVICE_UNAVAILABLE, Json(reason))
        }
    }
}
