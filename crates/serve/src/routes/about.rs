//! Routes about the server and its models.

use hyper::StatusCode;
use regard_nn::{Mode, Site};
use serde_json::{Value, json};

use crate::body::{Response, json_response, response};
use crate::error::ApiError;
use crate::models::Entry;
use crate::packed::{Packed, packed};
use crate::server::App;

/// Description of all routes.
const OPENAPI: Packed = packed!("openapi.json");

pub fn alive() -> Response {
    json_response(StatusCode::OK, &json!({ "status": "ok" }))
}

/// Says whether the server takes requests. It does not while it drains.
pub fn ready(app: &App) -> Result<Response, ApiError> {
    match app.is_draining() {
        true => {
            Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "draining", "the server is stopping").retry_after(1))
        }
        false => Ok(json_response(StatusCode::OK, &json!({ "status": "ready" }))),
    }
}

pub fn info(app: &App) -> Response {
    let models: Vec<Value> = app.models.all().iter().map(described).collect();
    let limits = &app.limits;
    let document = json!({
        "name": "regard", "version": env!("CARGO_PKG_VERSION"), "models": models,
        "runs": app.runs.is_some(),
        "limits": {
            "body_bytes": limits.body, "inputs": limits.inputs, "tokens": limits.tokens, "queue": limits.queue,
            "connections": limits.connections, "texts": limits.rows, "cache_bytes": limits.cache,
            "batch_tokens": limits.batch, "deadline_seconds": limits.deadline.as_secs_f64(),
        },
    });
    json_response(StatusCode::OK, &document)
}

pub fn metrics(app: &App) -> Response {
    let models = app.models.all().iter().map(|entry| (entry.folder.name.as_str(), entry.metrics.as_ref()));
    response(StatusCode::OK, "text/plain; version=0.0.4", app.metrics.write(models))
}

pub fn openapi() -> Response {
    response(StatusCode::OK, "application/json", OPENAPI.text().replace("{version}", env!("CARGO_PKG_VERSION")))
}

pub fn models(app: &App) -> Response {
    let data: Vec<Value> = app.models.all().iter().map(listed).collect();
    json_response(StatusCode::OK, &json!({ "object": "list", "data": data }))
}

pub fn model(app: &App, name: &str) -> Result<Response, ApiError> {
    Ok(json_response(StatusCode::OK, &listed(app.models.find(Some(name))?)))
}

/// Describes a model as OpenAI does.
fn listed(entry: &Entry) -> Value {
    json!({ "id": entry.folder.name, "object": "model", "created": entry.created, "owned_by": "regard" })
}

/// Describes a model with what it can do.
fn described(entry: &Entry) -> Value {
    let worker = entry.worker();
    let model = worker.model.as_ref();
    let writer = model.writer();
    let (inventory, task) = (model.inventory(), model.description().task.as_str());
    let layers: Vec<Value> = inventory.layers.iter().map(|&(site, heads)| layer(site, heads)).collect();
    let writes_texts = writer.is_some() || task == "generate";
    json!({
        "name": entry.folder.name, "task": task, "parameters": model.parameters(),
        "input": model.input_kind().key(), "embedding_dimensions": worker.dimensions,
        "writes_together": writer.is_some(), "chat": writer.as_ref().is_some_and(|writer| writer.has_chat()),
        "attention": inventory.list(), "layers": layers, "labels": model.labels(), "positions": inventory.positions,
        "can": {
            "predict": model.predicts(), "attention": !layers.is_empty(), "generate": writes_texts,
            "lens": writer.is_some(), "write": task == "write",
        },
    })
}

/// Describes an attention layer with the ways in which it can be switched off.
fn layer(site: Site, heads: usize) -> Value {
    let modes: Vec<&str> = Mode::ALL.into_iter().filter(|mode| mode.suits(&site)).map(Mode::name).collect();
    json!({ "name": site.to_string(), "heads": heads, "kind": site.kind, "words": site.words(), "modes": modes })
}
