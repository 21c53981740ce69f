//! `POST /v1/rerank`: documents by the similarity of their vectors to that of a query.

use hyper::StatusCode;
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};

use super::Call;
use super::embeddings::{embed, no_vectors};
use super::input::TextInput;
use crate::body::{Response, json_response};
use crate::error::ApiError;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    model: Option<String>,
    query: String,
    documents: Vec<String>,
    top_n: Option<usize>,
    #[serde(default)]
    return_documents: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    model: &'a str,
    results: Vec<Ranked>,
    usage: Usage,
}

#[derive(Serialize)]
struct Usage {
    total_tokens: usize,
}

#[derive(Serialize)]
struct Ranked {
    index: usize,
    relevance_score: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<String>,
}

pub async fn answer(call: Call, body: Incoming) -> Result<Response, ApiError> {
    let request: Request = call.read(body).await?;
    let entry = call.app.models.find(request.model.as_deref())?;
    let worker = entry.worker();
    worker.dimensions.ok_or_else(no_vectors)?;
    if request.documents.is_empty() {
        return Err(ApiError::invalid("documents", "expected at least one document"));
    }
    let texts = std::iter::once(&request.query).chain(&request.documents);
    let inputs = texts.map(|text| TextInput::Text(text.clone())).collect();
    let (vectors, total_tokens) = embed(&call, &worker, inputs, "documents").await?;
    let Some((query, rest)) = vectors.split_first() else { return Err(no_vectors()) };
    let mut results: Vec<Ranked> = rest
        .iter()
        .enumerate()
        .map(|(index, vector)| Ranked { index, relevance_score: cosine(query, vector), document: None })
        .collect();
    results.sort_by(|a, b| b.relevance_score.total_cmp(&a.relevance_score).then(a.index.cmp(&b.index)));
    results.truncate(request.top_n.unwrap_or(usize::MAX));
    if request.return_documents {
        results.iter_mut().for_each(|ranked| ranked.document = request.documents.get(ranked.index).cloned());
    }
    let document = Document { model: &entry.folder.name, results, usage: Usage { total_tokens } };
    Ok(json_response(StatusCode::OK, &document))
}

/// Returns the cosine of the angle between two vectors, 0 if one has no length.
fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum::<f64>();
    let lengths = (product(a, a) * product(b, b)).sqrt();
    if lengths > 0.0 { product(a, b) / lengths } else { 0.0 }
}
