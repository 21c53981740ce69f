//! `POST /v1/embeddings`: the vectors of texts.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use hyper::body::Incoming;
use regard_data::PublishedText;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::Call;
use super::input::{TextInput, TextInputs};
use crate::body::{Response, json_response};
use crate::error::{ApiError, WorkError};
use crate::queue::{Answer, Work};
use crate::worker::Worker;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    model: Option<String>,
    input: TextInputs,
    #[serde(default)]
    encoding_format: Format,
    dimensions: Option<usize>,
    /// Accepted and unused.
    #[serde(rename = "user")]
    _user: Option<IgnoredAny>,
}

/// How vectors are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    /// A list of numbers.
    #[default]
    Float,
    /// The bytes of the numbers, little-endian f32, as base64.
    Base64,
}

#[derive(Serialize)]
struct Document<'a> {
    object: &'static str,
    data: Vec<Embedding>,
    model: &'a str,
    usage: Usage,
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: usize,
    total_tokens: usize,
}

#[derive(Serialize)]
struct Embedding {
    object: &'static str,
    index: usize,
    embedding: Written,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Written {
    Numbers(Vec<f32>),
    Base64(String),
}

impl Written {
    fn new(vector: Vec<f32>, format: Format) -> Self {
        match format {
            Format::Float => Self::Numbers(vector),
            Format::Base64 => {
                let bytes: Vec<u8> = vector.into_iter().flat_map(f32::to_le_bytes).collect();
                Self::Base64(STANDARD.encode(bytes))
            }
        }
    }
}

pub async fn answer(call: Call, body: Incoming) -> Result<Response, ApiError> {
    let request: Request = call.read(body).await?;
    let entry = call.app.models.find(request.model.as_deref())?;
    let worker = entry.worker();
    let made = worker.dimensions.ok_or_else(no_vectors)?;
    if let Some(asked) = request.dimensions.filter(|&asked| asked != made) {
        let said = format!("expected {made}, the length of this model's vectors, got {asked}");
        return Err(ApiError::invalid("dimensions", said));
    }
    let (vectors, tokens) = embed(&call, &worker, request.input.0, "input").await?;
    let data = vectors.into_iter().enumerate().map(|(index, vector)| Embedding {
        object: "embedding",
        index,
        embedding: Written::new(vector, request.encoding_format),
    });
    let usage = Usage { prompt_tokens: tokens, total_tokens: tokens };
    let document = Document { object: "list", data: data.collect(), model: &entry.folder.name, usage };
    Ok(json_response(StatusCode::OK, &document))
}

/// Returns the error for a model that gives no vectors.
pub fn no_vectors() -> ApiError {
    let said = "this model gives no vectors of texts; checkpoints of encoders and language models with a tokeniser do";
    WorkError::Unsupported(said.to_string()).into()
}

/// Returns the vectors of texts and the number of their tokens.
pub async fn embed(
    call: &Call,
    worker: &Arc<Worker>,
    inputs: Vec<TextInput>,
    param: &'static str,
) -> Result<(Vec<Vec<f32>>, usize), ApiError> {
    let limits = call.app.limits;
    if inputs.is_empty() || inputs.len() > limits.inputs {
        let said = format!("expected 1 to {} inputs, got {}", limits.inputs, inputs.len());
        return Err(if inputs.is_empty() { ApiError::invalid(param, said) } else { ApiError::too_large(param, said) });
    }
    let reader = Arc::clone(worker);
    let texts = call.blocking(move || encoded(&reader, inputs, param, limits.tokens)).await?;
    let tokens = texts.iter().map(|text| text.ids.len()).sum();
    let work = texts.into_iter().map(|text| {
        let size = text.ids.len();
        (Work::Embed(text), size)
    });
    let mut vectors = Vec::new();
    for answer in call.work(worker, work.collect()).await? {
        match answer? {
            Answer::Vector(vector) => vectors.push(vector),
            _ => return Err(WorkError::Failed("no vector".to_string()).into()),
        }
    }
    Ok((vectors, tokens))
}

/// Reads texts into tokens.
fn encoded(worker: &Worker, inputs: Vec<TextInput>, param: &str, most: usize) -> Result<Vec<PublishedText>, ApiError> {
    let checkpoint = worker.model.checkpoint().ok_or_else(no_vectors)?;
    let (mut texts, mut tokens) = (Vec::with_capacity(inputs.len()), 0);
    for (at, input) in inputs.into_iter().enumerate() {
        let text = match input {
            TextInput::Text(text) => checkpoint.to_embed(&text),
            TextInput::Ids(ids) => checkpoint.ids_to_embed(ids),
        };
        let text = text.map_err(|error| ApiError::from(WorkError::from(error)).at(format!("{param}[{at}]")))?;
        tokens += text.ids.len();
        if tokens > most {
            let said = format!("expected at most {most} tokens in a request, got more");
            return Err(ApiError::too_large(param, said));
        }
        texts.push(text);
    }
    Ok(texts)
}
