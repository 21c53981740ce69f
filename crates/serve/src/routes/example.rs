//! `GET /v1/example`: an input that shows what a model does.

use hyper::StatusCode;
use serde_json::json;

use super::{Call, query};
use crate::body::{Response, json_response};
use crate::error::{ApiError, WorkError};
use crate::queue::{Answer, Work};

pub async fn answer(call: Call, query: Option<&str>) -> Result<Response, ApiError> {
    let [model] = query::read(query, ["model"])?;
    let entry = call.app.models.find(model.as_deref())?;
    let worker = entry.worker();
    let Answer::Example(sample) = call.one(&worker, Work::Example, 1).await? else {
        return Err(WorkError::Failed("no example".to_string()).into());
    };
    let mut document = json!({ "model": entry.folder.name, "input": sample.given.to_json() });
    if !sample.expected.is_empty() {
        document["expected"] = sample.expected.into();
    }
    Ok(json_response(StatusCode::OK, &document))
}
