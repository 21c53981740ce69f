//! `POST /v1/completions`: a language model continues prompts.

use hyper::body::Incoming;
use regard_tasks::writer::Beginning;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::Call;
use super::generation::{Ask, Shape, Stop, StreamOptions, WishFields, generate};
use super::input::{TextInput, TextInputs};
use crate::body::Response;
use crate::error::ApiError;

/// Largest number of most probable tokens that are listed.
const MOST_LISTED: usize = 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    model: Option<String>,
    prompt: Option<TextInputs>,
    max_tokens: Option<usize>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<usize>,
    repetition_penalty: Option<f64>,
    n: Option<usize>,
    best_of: Option<usize>,
    stop: Option<Stop>,
    seed: Option<i64>,
    logprobs: Option<usize>,
    #[serde(default)]
    echo: bool,
    #[serde(default)]
    stream: bool,
    stream_options: Option<StreamOptions>,
    suffix: Option<String>,
    presence_penalty: Option<f64>,
    frequency_penalty: Option<f64>,
    logit_bias: Option<Value>,
    /// Accepted and unused.
    #[serde(rename = "user")]
    _user: Option<IgnoredAny>,
}

pub async fn answer(call: Call, body: Incoming) -> Result<Response, ApiError> {
    let request: Request = call.read(body).await?;
    let fields = WishFields {
        max_tokens: request.max_tokens,
        temperature: request.temperature,
        top_p: request.top_p,
        top_k: request.top_k,
        repetition_penalty: request.repetition_penalty,
        stop: request.stop,
        presence_penalty: request.presence_penalty,
        frequency_penalty: request.frequency_penalty,
        logit_bias: request.logit_bias,
    };
    let wish = fields.wish()?;
    if request.best_of.is_some_and(|best| best != request.n.unwrap_or(1)) {
        return Err(ApiError::invalid("best_of", "expected the same number as n: nothing else is supported"));
    }
    if request.echo || request.suffix.is_some_and(|suffix| !suffix.is_empty()) {
        return Err(ApiError::invalid("echo", "echo and suffix are not supported"));
    }
    if let Some(count) = request.logprobs.filter(|&count| count > MOST_LISTED) {
        return Err(ApiError::invalid("logprobs", format!("expected 0 to {MOST_LISTED}, got {count}")));
    }
    let beginning = |input| match input {
        TextInput::Text(text) if text.is_empty() => Beginning::Nothing,
        TextInput::Text(text) => Beginning::Text(text),
        TextInput::Ids(ids) => Beginning::Tokens(ids),
    };
    let prompts = match request.prompt {
        Some(TextInputs(prompts)) => prompts.into_iter().map(beginning).collect(),
        None => vec![Beginning::Nothing],
    };
    let ask = Ask {
        model: request.model,
        beginnings: prompts,
        wish,
        n: request.n.unwrap_or(1),
        seed: request.seed.map(|seed| seed as u64),
        listed: request.logprobs,
        is_streamed: request.stream,
        with_usage: request.stream_options.is_some_and(|options| options.include_usage),
        shape: Shape::Completion,
    };
    generate(call, ask).await
}
