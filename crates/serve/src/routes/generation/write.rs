//! The documents of written texts, in OpenAI's shapes.

use hyper::StatusCode;
use regard_tasks::writer::{Drawn, End};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout_at};

use super::Handed;
use crate::body::{Response, json_response};
use crate::error::{ApiError, WorkError};
use crate::worker::Worker;

/// What a model tells about texts: the index of one and a drawn token.
pub type Told = UnboundedReceiver<(usize, Result<Drawn, WorkError>)>;

/// The route whose shape the documents have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `/v1/completions`.
    Completion,
    /// `/v1/chat/completions`.
    Chat,
}

/// The fields that every document of an answer has.
pub struct Heading {
    pub shape: Shape,
    model: String,
    id: String,
    created: u64,
    pub with_log_probabilities: bool,
}

impl Heading {
    pub fn new(shape: Shape, model: &str, number: u64, created: u64, with_log_probabilities: bool) -> Self {
        let id = match shape {
            Shape::Completion => format!("cmpl-{number:016x}"),
            Shape::Chat => format!("chatcmpl-{number:016x}"),
        };
        Self { shape, model: model.to_string(), id, created, with_log_probabilities }
    }

    /// Returns a document with these choices.
    pub fn document(&self, is_streamed: bool, choices: Vec<Value>) -> Value {
        let object = match (self.shape, is_streamed) {
            (Shape::Completion, _) => "text_completion",
            (Shape::Chat, false) => "chat.completion",
            (Shape::Chat, true) => "chat.completion.chunk",
        };
        json!({
            "id": self.id, "object": object, "created": self.created, "model": self.model, "choices": choices,
        })
    }
}

/// Returns why a text ended, in OpenAI's words.
pub fn reason(end: Option<End>) -> Option<&'static str> {
    end.map(|end| match end {
        End::Stop => "stop",
        End::Length => "length",
    })
}

/// Returns how many tokens there were.
pub fn usage(prompt: Option<usize>, written: usize) -> Value {
    match prompt {
        Some(prompt) => json!({
            "prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written,
        }),
        None => Value::Null,
    }
}

/// Log-probabilities of tokens.
#[derive(Default)]
pub struct Logs(Vec<Logged>);

struct Logged {
    token: String,
    log_probability: f32,
    top: Vec<(String, f32)>,
    offset: usize,
}

impl Logs {
    /// Adds a token that begins at a character of the text.
    pub fn add(&mut self, worker: &Worker, drawn: &Drawn, offset: usize) {
        let (Some(token), Some(writer)) = (drawn.token, worker.model.writer()) else { return };
        let top = drawn.top.iter().map(|&(token, x)| (writer.decode(&[token]), x)).collect();
        let (token, log_probability) = (writer.decode(&[token]), drawn.log_probability);
        self.0.push(Logged { token, log_probability, top, offset });
    }

    /// Returns the log-probabilities as a document.
    pub fn to_json(&self, shape: Shape) -> Value {
        let all = &self.0;
        match shape {
            Shape::Completion => json!({
                "tokens": all.iter().map(|one| &one.token).collect::<Vec<_>>(),
                "token_logprobs": all.iter().map(|one| one.log_probability).collect::<Vec<_>>(),
                "top_logprobs": all
                    .iter()
                    .map(|one| one.top.iter().map(|(token, x)| (token.clone(), json!(x))).collect::<Map<_, _>>())
                    .collect::<Vec<_>>(),
                "text_offset": all.iter().map(|one| one.offset).collect::<Vec<_>>(),
            }),
            Shape::Chat => {
                let one = |token: &str, x: f32| json!({ "token": token, "logprob": x, "bytes": token.as_bytes() });
                let content = all.iter().map(|logged| {
                    let mut document = one(&logged.token, logged.log_probability);
                    document["top_logprobs"] = logged.top.iter().map(|(token, x)| one(token, *x)).collect();
                    document
                });
                json!({ "content": content.collect::<Vec<_>>(), "refusal": null })
            }
        }
    }
}

/// A text as far as it is written.
#[derive(Default)]
struct Written {
    text: String,
    logs: Logs,
    end: Option<End>,
}

/// Waits for all texts and returns them as one document.
pub async fn document(
    mut handed: Handed,
    heading: Heading,
    worker: &Worker,
    deadline: Instant,
) -> Result<Response, ApiError> {
    let mut texts: Vec<Written> = (0..handed.count).map(|_| Written::default()).collect();
    let mut tokens = 0;
    while texts.iter().any(|text| text.end.is_none()) {
        let told = timeout_at(deadline, handed.told.recv()).await.map_err(|_| ApiError::late())?;
        let (index, drawn) = told.ok_or(WorkError::Retired)?;
        let drawn = drawn?;
        let Some(text) = texts.get_mut(index) else { continue };
        if heading.with_log_probabilities {
            text.logs.add(worker, &drawn, text.text.chars().count());
        }
        tokens += usize::from(drawn.token.is_some());
        text.text.push_str(&drawn.piece);
        text.end = drawn.end;
    }
    let choice = |(index, text): (usize, Written)| {
        let logs = if heading.with_log_probabilities { text.logs.to_json(heading.shape) } else { Value::Null };
        let mut choice = json!({ "index": index, "logprobs": logs, "finish_reason": reason(text.end) });
        match heading.shape {
            Shape::Completion => choice["text"] = Value::from(text.text),
            Shape::Chat => choice["message"] = json!({ "role": "assistant", "content": text.text, "refusal": null }),
        }
        choice
    };
    let choices = texts.into_iter().enumerate().map(choice).collect();
    let mut document = heading.document(false, choices);
    document["usage"] = usage(handed.prompt_tokens, tokens);
    Ok(json_response(StatusCode::OK, &document))
}
