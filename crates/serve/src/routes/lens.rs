//! `POST /v1/lens`: what each layer of a language model would predict if it were the last.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::body::Incoming;
use regard_tasks::lens::Lens;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Call;
use super::predict::{changes, given};
use crate::body::{Response, json_response};
use crate::error::{ApiError, WorkError};
use crate::queue::{Answer, Work};

/// Largest number of tokens that are listed for a layer and a position.
const MOST_LISTED: usize = 50;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    model: Option<String>,
    input: Value,
    #[serde(default = "five")]
    top: usize,
    without: Option<String>,
    temperature: Option<f64>,
}

fn five() -> usize {
    5
}

pub async fn answer(call: Call, body: Incoming) -> Result<Response, ApiError> {
    let request: Request = call.read(body).await?;
    if !(1..=MOST_LISTED).contains(&request.top) {
        return Err(ApiError::invalid("top", format!("expected 1 to {MOST_LISTED}, got {}", request.top)));
    }
    let entry = call.app.models.find(request.model.as_deref())?;
    let worker = entry.worker();
    let changes = changes(worker.model.as_ref(), request.without, request.temperature)?;
    let (reader, input) = (Arc::clone(&worker), request.input);
    let (given, tokens) = call.blocking(move || given(&reader, input)).await?;
    let text = given.text().map_err(WorkError::from)?.to_string();
    let Answer::Lens(lens) = call.one(&worker, Work::Lens(text, request.top, changes), tokens).await? else {
        return Err(WorkError::Failed("no layers".to_string()).into());
    };
    let name = entry.folder.name.clone();
    // Many guesses take a while to write.
    call.blocking(move || Ok(json_response(StatusCode::OK, &Document { model: &name, lens: &lens }))).await
}

#[derive(Serialize)]
struct Document<'a> {
    model: &'a str,
    #[serde(flatten)]
    lens: &'a Lens,
}
