//! `POST /v1/chat/completions`: a language model answers messages by its chat template.

use hyper::body::Incoming;
use regard_tasks::writer::Beginning;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::Call;
use super::generation::{Ask, Shape, Stop, StreamOptions, WishFields, generate};
use crate::body::Response;
use crate::error::ApiError;

/// Largest number of most probable tokens that are listed.
const MOST_LISTED: usize = 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    model: Option<String>,
    messages: Vec<Message>,
    max_tokens: Option<usize>,
    max_completion_tokens: Option<usize>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<usize>,
    repetition_penalty: Option<f64>,
    n: Option<usize>,
    stop: Option<Stop>,
    seed: Option<i64>,
    #[serde(default)]
    logprobs: Option<bool>,
    top_logprobs: Option<usize>,
    #[serde(default)]
    stream: bool,
    stream_options: Option<StreamOptions>,
    response_format: Option<Value>,
    presence_penalty: Option<f64>,
    frequency_penalty: Option<f64>,
    logit_bias: Option<Value>,
    /// Accepted and unused.
    #[serde(rename = "user")]
    _user: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    role: String,
    content: Content,
    /// Accepted and unused.
    #[serde(rename = "name")]
    _name: Option<IgnoredAny>,
}

/// A text, or parts of one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, tag = "type", rename_all = "lowercase")]
enum Part {
    Text { text: String },
}

impl Message {
    fn to_json(&self) -> Value {
        let content = match &self.content {
            Content::Text(text) => text.clone(),
            Content::Parts(parts) => parts.iter().map(|Part::Text { text }| text.as_str()).collect(),
        };
        json!({ "role": self.role, "content": content })
    }
}

pub async fn answer(call: Call, body: Incoming) -> Result<Response, ApiError> {
    let request: Request = call.read(body).await?;
    if request.messages.is_empty() {
        return Err(ApiError::invalid("messages", "expected at least one message"));
    }
    if request.response_format.is_some_and(|format| !format.is_null() && format["type"] != "text") {
        return Err(ApiError::invalid("response_format", "expected {\"type\": \"text\"}: nothing else is supported"));
    }
    let fields = WishFields {
        max_tokens: request.max_completion_tokens.or(request.max_tokens),
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
    let listed = match (request.logprobs.unwrap_or(false), request.top_logprobs) {
        (_, Some(count)) if count > MOST_LISTED => {
            return Err(ApiError::invalid("top_logprobs", format!("expected 0 to {MOST_LISTED}, got {count}")));
        }
        (false, Some(_)) => return Err(ApiError::invalid("top_logprobs", "expected logprobs to be true with it")),
        (false, None) => None,
        (true, count) => Some(count.unwrap_or(0)),
    };
    let ask = Ask {
        model: request.model,
        beginnings: vec![Beginning::Conversation(request.messages.iter().map(Message::to_json).collect())],
        wish,
        n: request.n.unwrap_or(1),
        seed: request.seed.map(|seed| seed as u64),
        listed,
        is_streamed: request.stream,
        with_usage: request.stream_options.is_some_and(|options| options.include_usage),
        shape: Shape::Chat,
    };
    generate(call, ask).await
}
