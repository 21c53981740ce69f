//! `POST /v1/cost`: which heads matter for the answer to one input.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::body::Incoming;
use regard_nn::Mode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Call;
use super::predict::given;
use crate::body::{Response, json_response};
use crate::error::{ApiError, WorkError};
use crate::multipart::Inputs;
use crate::queue::{Answer, Work};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    model: Option<String>,
    input: Value,
    #[serde(default)]
    mode: CostMode,
}

/// How heads are switched off. Attending to oneself is left out: not every head can.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum CostMode {
    #[default]
    Zero,
    Mean,
    Uniform,
}

impl From<CostMode> for Mode {
    fn from(mode: CostMode) -> Self {
        match mode {
            CostMode::Zero => Self::Zero,
            CostMode::Mean => Self::Mean,
            CostMode::Uniform => Self::Uniform,
        }
    }
}

pub async fn answer(call: Call, body: Incoming) -> Result<Response, ApiError> {
    let request: Request = call.read_with_files(body, Inputs::One).await?;
    let entry = call.app.models.find(request.model.as_deref())?;
    let worker = entry.worker();
    let (reader, input, mode) = (Arc::clone(&worker), request.input, Mode::from(request.mode));
    let (given, tokens) = call.blocking(move || given(&reader, input)).await?;
    let Answer::Costs(score, heads) = call.one(&worker, Work::Costs(given, mode), tokens).await? else {
        return Err(WorkError::Failed("no costs".to_string()).into());
    };
    let document = json!({ "model": entry.folder.name, "mode": mode.name(), "score": score, "heads": heads });
    Ok(json_response(StatusCode::OK, &document))
}
