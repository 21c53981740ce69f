//! `/v1/runs`: training runs, their curves, the maps of their examples, and the request to stop one.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::{Method, StatusCode};
use regard_tasks::watch::{Progress, Snapshot};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::attention::maps::{self, Document};
use super::{Call, query};
use crate::body::{Response, json_response};
use crate::error::{ApiError, WorkError};
use crate::runs::{Row, Run};

/// A body without fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// A run with its measurements.
#[derive(Serialize)]
struct Curves {
    #[serde(flatten)]
    row: Row,
    progress: Option<Progress>,
    records: Vec<Value>,
}

/// Answers a request for a path after `/v1/runs`.
pub async fn answer(
    call: Call,
    method: &Method,
    path: &str,
    query: Option<&str>,
    body: Incoming,
) -> Result<Response, ApiError> {
    if call.app.runs.is_none() {
        let said = "this server shows no runs; regard serve --runs DIR does";
        return Err(ApiError::new(StatusCode::NOT_FOUND, "no_runs", said));
    }
    let parts: Vec<String> = path.trim_start_matches('/').split('/').map(decoded).collect::<Result<_, _>>()?;
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    if parts.len() == 2 && parts[1] == "stop" {
        return match *method {
            Method::POST => stop(&call, parts[0], body).await,
            _ => Err(ApiError::wrong_method("POST")),
        };
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(ApiError::wrong_method("GET"));
    }
    match parts.as_slice() {
        [""] => table(&call).await,
        [name] => {
            let [since] = query::read(query, ["since"])?;
            let since = since.map_or(Ok(0), |since| number("since", &since))?;
            curves(&call, name, since).await
        }
        [name, "maps"] => {
            let run = find(&call, name).await?;
            let steps = call.blocking(move || Ok(run.watch().steps())).await?;
            Ok(json_response(StatusCode::OK, &json!({ "name": name, "steps": steps })))
        }
        [name, "maps", step] => snapshot(&call, name, number("step", step)?).await,
        _ => Err(ApiError::new(StatusCode::NOT_FOUND, "unknown_route", "a run has /maps, /maps/STEP and /stop")),
    }
}

/// Decodes a part of a path.
fn decoded(part: &str) -> Result<String, ApiError> {
    let found = query::decoded(&part.replace('+', "%2B"));
    found.ok_or_else(|| ApiError::invalid("path", "expected UTF-8 with % before two digits"))
}

fn number(name: &'static str, text: &str) -> Result<u64, ApiError> {
    let wrong = || ApiError::invalid(name, format!("expected a number of steps, got {}", regard_data::excerpt(text)));
    text.parse().map_err(|_| wrong())
}

/// Finds a run by its name.
async fn find(call: &Call, name: &str) -> Result<Run, ApiError> {
    let (app, name) = (Arc::clone(&call.app), name.to_string());
    let none = || ApiError::new(StatusCode::NOT_FOUND, "no_runs", "this server shows no runs");
    call.blocking(move || app.runs.as_ref().ok_or_else(none)?.find(&name)).await
}

async fn table(call: &Call) -> Result<Response, ApiError> {
    let app = Arc::clone(&call.app);
    let rows = call.blocking(move || {
        let runs = app.runs.iter().flat_map(|runs| runs.all());
        Ok(runs.filter_map(|run| run.row()).collect::<Vec<Row>>())
    });
    Ok(json_response(StatusCode::OK, &json!({ "runs": rows.await? })))
}

async fn curves(call: &Call, name: &str, since: u64) -> Result<Response, ApiError> {
    let run = find(call, name).await?;
    let found = call.blocking(move || {
        let missing = || ApiError::new(StatusCode::NOT_FOUND, "run_not_found", "the folder of the run cannot be read");
        let row = run.row().ok_or_else(missing)?;
        Ok(Curves { row, progress: run.progress(), records: run.records(since) })
    });
    Ok(json_response(StatusCode::OK, &found.await?))
}

async fn snapshot(call: &Call, name: &str, step: u64) -> Result<Response, ApiError> {
    let run = find(call, name).await?;
    let found = call.blocking(move || run.watch().snapshot(step).map_err(|error| WorkError::from(error).into()));
    let Some(Snapshot { view, picture, prediction, .. }) = found.await? else {
        let said = format!("there are no maps of step {step}; the path without it lists the steps");
        return Err(ApiError::new(StatusCode::NOT_FOUND, "step_not_found", said));
    };
    let tokens: &[String] = view.groups.first().map_or(&[], |group| &group.keys);
    let all = 0..usize::MAX;
    let maps = maps::of(&view, tokens, None, None, &all, &all);
    let prediction = prediction.map(|fields| fields.into_iter().collect::<Map<String, Value>>());
    Ok(json_response(StatusCode::OK, &Document { model: name, tokens, maps, heads: None, picture, prediction }))
}

/// Asks a run to stop, as Ctrl-C does: it saves what it has learnt.
async fn stop(call: &Call, name: &str, body: Incoming) -> Result<Response, ApiError> {
    let Nothing {} = call.read(body).await?;
    let run = find(call, name).await?;
    let asked = call.blocking(move || {
        if !run.can_be_stopped() {
            let said = "this run is not going on, or not with --watch, so that it would not hear";
            return Err(ApiError::new(StatusCode::CONFLICT, "not_running", said));
        }
        run.watch().ask_to_stop().map_err(|error| WorkError::from(error).into())
    });
    asked.await?;
    Ok(json_response(StatusCode::OK, &json!({ "name": name, "state": "stopping" })))
}
