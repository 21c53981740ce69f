//! `POST /v1/predict`: the answers of a model of any task, one result or error per input.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::body::Incoming;
use regard_nn::{Ablation, Temperature};
use regard_tasks::Opened;
use regard_tasks::input::{Given, InputKind};
use regard_tasks::lens::read_tokens;
use regard_tasks::task::Prediction;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Call;
use crate::body::{Response, json_response};
use crate::error::{ApiError, WorkError};
use crate::multipart::Inputs;
use crate::queue::{Answer, Changes, Work};
use crate::worker::Worker;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    model: Option<String>,
    inputs: Vec<Value>,
    without: Option<String>,
    temperature: Option<f64>,
}

pub async fn answer(call: Call, body: Incoming) -> Result<Response, ApiError> {
    let request: Request = call.read_with_files(body, Inputs::Many).await?;
    let entry = call.app.models.find(request.model.as_deref())?;
    let (worker, limits) = (entry.worker(), call.app.limits);
    let count = request.inputs.len();
    if count == 0 || count > limits.inputs {
        let said = format!("expected 1 to {} inputs, got {count}", limits.inputs);
        return Err(if count == 0 { ApiError::invalid("inputs", said) } else { ApiError::too_large("inputs", said) });
    }
    let changes = changes(worker.model.as_ref(), request.without, request.temperature)?.map(Arc::new);
    let reader = Arc::clone(&worker);
    let inputs = request.inputs;
    let read = call.blocking(move || Ok(inputs.into_iter().map(|input| given(&reader, input)).collect::<Vec<_>>()));
    let read: Vec<Result<(Given, usize), ApiError>> = read.await?;
    let tokens: usize = read.iter().flatten().map(|(_, tokens)| tokens).sum();
    if tokens > limits.tokens {
        let said = format!("expected at most {} tokens in a request, got about {tokens}", limits.tokens);
        return Err(ApiError::too_large("inputs", said));
    }
    let work = read.iter().flatten().map(|(given, size)| (Work::Predict(given.clone(), changes.clone()), *size));
    let work: Vec<(Work, usize)> = work.collect();
    let mut answers = match work.is_empty() {
        true => Vec::new(),
        false => call.work(&worker, work).await?,
    }
    .into_iter();
    let mut results = Vec::with_capacity(count);
    for (at, input) in read.into_iter().enumerate() {
        let answer = match input {
            Err(error) => Err(error),
            Ok(_) => answers.next().unwrap_or(Err(WorkError::Retired)).map_err(ApiError::from),
        };
        results.push(match answer {
            Ok(Answer::Prediction(whole, changed)) => result(&whole, changed.as_ref()),
            Ok(_) => return Err(WorkError::Failed("no prediction".to_string()).into()),
            // What fails whatever the input is an error of the request.
            Err(error) if error.status() != StatusCode::UNPROCESSABLE_ENTITY => return Err(error),
            Err(error) => error.at(format!("inputs[{at}]")).to_json(),
        });
    }
    Ok(json_response(StatusCode::OK, &json!({ "model": entry.folder.name, "results": results })))
}

/// Returns a prediction without its input, which the client knows.
pub fn document(prediction: &Prediction) -> Map<String, Value> {
    let mut fields: Map<String, Value> =
        prediction.more.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    fields.insert("output".to_string(), Value::from(prediction.output.as_str()));
    fields
}

/// Returns a prediction and, under `without`, that of the changed model.
fn result(whole: &Prediction, changed: Option<&Prediction>) -> Value {
    let mut fields = document(whole);
    if let Some(changed) = changed {
        fields.insert("without".to_string(), Value::Object(document(changed)));
    }
    Value::Object(fields)
}

/// Reads what is changed in a model: parts that are switched off, by name, and the temperature of its attention.
pub fn changes(
    model: &dyn Opened,
    without: Option<String>,
    temperature: Option<f64>,
) -> Result<Option<Changes>, ApiError> {
    let parse = |names: &String| Ablation::parse(names, model.inventory());
    let ablation = without.as_ref().map(parse).transpose();
    let ablation = ablation.map_err(|error| ApiError::invalid("without", error.to_string()))?;
    let wrong = |said: String| ApiError::invalid("temperature", said);
    let temperature = temperature.map(Temperature::new).transpose().map_err(|error| wrong(error.to_string()))?;
    if temperature.is_some() && model.inventory().layers.is_empty() {
        return Err(wrong("this model has no attention, whose temperature could be changed".to_string()));
    }
    if ablation.is_none() && temperature.is_none() {
        return Ok(None);
    }
    let (names, ablation) = (without.unwrap_or_default(), ablation.unwrap_or_default());
    Ok(Some(Changes { names, ablation, temperature }))
}

/// Reads an input and estimates its number of tokens. No string of a request is taken as the path of a file.
pub fn given(worker: &Worker, input: Value) -> Result<(Given, usize), ApiError> {
    let kind = worker.model.input_kind();
    let refuse = |found: &str| {
        let said = format!("input: expected {{{:?}: …}}, {kind}, got {found}", kind.key());
        ApiError::from(WorkError::Refused(said))
    };
    if matches!(kind, InputKind::Picture | InputKind::Sound) {
        let Some(fields) = input.as_object() else { return Err(refuse("something else")) };
        let Some(content) = fields.get(kind.key()) else { return Err(refuse("other fields")) };
        if !content.is_string() {
            return Err(refuse("something else than base64"));
        }
    }
    let text = input.as_str().or_else(|| input.get(InputKind::Text.key())?.as_str());
    let tokens = match (text, worker.model.checkpoint()) {
        (Some(text), Some(checkpoint)) => checkpoint.count_tokens(text).map_err(WorkError::from)?,
        (Some(text), None) => match worker.model.writer() {
            Some(writer) => read_tokens(writer.as_ref(), text).map_err(WorkError::from)?.len(),
            None => text.len() / 4 + 1,
        },
        // Pictures and sounds have the same size for a model, whatever their files have.
        (None, _) if matches!(kind, InputKind::Picture | InputKind::Sound) => 256,
        (None, _) => count(&input),
    };
    Ok((Given::Json(input), tokens))
}

/// Returns the number of values in a document.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(all) => all.iter().map(count).sum::<usize>().max(1),
        Value::Object(all) => all.values().map(count).sum::<usize>().max(1),
        Value::String(text) => text.len() / 4 + 1,
        _ => 1,
    }
}
