//! Texts that a model writes, as one document or as a stream of events.

mod stream;
mod write;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use regard_tasks::decode::Wish;
use regard_tasks::input::Given;
use regard_tasks::writer::{Beginning, Text, Writer, cache_bytes};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

pub use self::write::Shape;
use self::write::{Heading, Told};
use super::Call;
use crate::body::Response;
use crate::error::{ApiError, WorkError};
use crate::limits::Limits;
use crate::queue::{Item, LoneText, TextItem, Waiter, Waiting, Work};
use crate::worker::Worker;

/// Strings that end a text.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Stop {
    /// One string.
    One(String),
    /// Several strings.
    Several(Vec<String>),
}

/// Largest number of strings that end a text.
const MOST_STOPS: usize = 16;
/// Largest number of texts for one prompt.
const MOST_TEXTS: usize = 64;

/// The field `stream_options`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamOptions {
    /// Whether the last event says how many tokens there were.
    #[serde(default)]
    pub include_usage: bool,
}

/// Fields of a request that say how a text is written.
pub struct WishFields {
    pub max_tokens: Option<usize>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub top_k: Option<usize>,
    pub repetition_penalty: Option<f64>,
    pub stop: Option<Stop>,
    pub presence_penalty: Option<f64>,
    pub frequency_penalty: Option<f64>,
    pub logit_bias: Option<Value>,
}

impl WishFields {
    /// Returns what the client asks for; refuses what is not supported.
    pub fn wish(self) -> Result<Wish, ApiError> {
        for (name, penalty) in
            [("presence_penalty", self.presence_penalty), ("frequency_penalty", self.frequency_penalty)]
        {
            if penalty.is_some_and(|penalty| penalty != 0.0) {
                return Err(ApiError::invalid(name, "expected 0: repetition_penalty is supported instead"));
            }
        }
        if self.logit_bias.is_some_and(|bias| bias.as_object().is_none_or(|bias| !bias.is_empty())) {
            return Err(ApiError::invalid("logit_bias", "expected none: it is not supported"));
        }
        if let Some(temperature) = self.temperature.filter(|t| !(0.0..=100.0).contains(t)) {
            return Err(ApiError::invalid("temperature", format!("expected 0 to 100, got {temperature}")));
        }
        let stop = match self.stop {
            None => Vec::new(),
            Some(Stop::One(one)) => vec![one],
            Some(Stop::Several(several)) => several,
        };
        if stop.len() > MOST_STOPS || stop.iter().any(|one| one.is_empty() || one.len() > 1_000) {
            let said = format!("expected at most {MOST_STOPS} strings of 1 to 1,000 bytes");
            return Err(ApiError::invalid("stop", said));
        }
        Ok(Wish {
            max_len: self.max_tokens,
            temperature: self.temperature.map(|number| number as f32),
            top_k: self.top_k,
            top_p: self.top_p.map(|number| number as f32),
            repetition_penalty: self.repetition_penalty.map(|number| number as f32),
            stop,
            ..Wish::default()
        })
    }
}

/// What a client asks for, whatever the route.
pub struct Ask {
    pub model: Option<String>,
    pub beginnings: Vec<Beginning>,
    pub wish: Wish,
    /// Number of texts for each beginning.
    pub n: usize,
    /// Seed of the random number generator; any by default.
    pub seed: Option<u64>,
    /// Number of most probable tokens to list; `None` for no log-probabilities.
    pub listed: Option<usize>,
    pub is_streamed: bool,
    pub with_usage: bool,
    pub shape: Shape,
}

/// Texts that were handed to a model.
struct Handed {
    told: Told,
    /// Number of texts.
    count: usize,
    /// Number of tokens of the prompts; `None` if the model does not count them.
    prompt_tokens: Option<usize>,
    /// Kept while somebody waits.
    waiter: Option<Waiter>,
}

/// Writes texts.
pub async fn generate(call: Call, ask: Ask) -> Result<Response, ApiError> {
    let limits = call.app.limits;
    let entry = call.app.models.find(ask.model.as_deref())?;
    let worker = entry.worker();
    let count = ask.beginnings.len().saturating_mul(ask.n);
    if !(1..=MOST_TEXTS).contains(&ask.n) {
        return Err(ApiError::invalid("n", format!("expected 1 to {MOST_TEXTS}, got {}", ask.n)));
    }
    if count == 0 || count > limits.rows {
        let said = format!("expected 1 to {} texts in a request, got {count}", limits.rows);
        return Err(ApiError::invalid(if ask.n > 1 { "n" } else { "prompt" }, said));
    }
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let seed = ask.seed.unwrap_or_else(|| call.app.fresh_seed());
    let heading = Heading::new(ask.shape, &entry.folder.name, call.app.fresh_seed(), created, ask.listed.is_some());
    let (is_streamed, with_usage) = (ask.is_streamed, ask.with_usage);
    let reader = Arc::clone(&worker);
    let handed = call.blocking(move || hand_over(&reader, ask, seed, &limits)).await?;
    match is_streamed {
        true => Ok(stream::response(handed, heading, worker, with_usage, call.deadline)),
        false => write::document(handed, heading, &worker, call.deadline).await,
    }
}

/// Reads the prompts and gives the texts to the model.
fn hand_over(worker: &Worker, ask: Ask, seed: u64, limits: &Limits) -> Result<Handed, ApiError> {
    let Some(writer) = worker.model.writer() else { return hand_over_alone(worker, ask, seed) };
    if matches!(ask.shape, Shape::Chat) && !writer.has_chat() {
        return Err(no_chat());
    }
    let mut texts: Vec<Text> = Vec::with_capacity(ask.beginnings.len() * ask.n);
    let mut prompt_tokens = 0;
    for (at, beginning) in ask.beginnings.iter().enumerate() {
        let first = texts.len() as u64;
        let text =
            begin(writer.as_ref(), beginning, &ask.wish, seed.wrapping_add(first)).map_err(
                |error| match beginning {
                    Beginning::Conversation(_) => error.at("messages"),
                    _ => error.at(format!("prompt[{at}]")),
                },
            )?;
        let text = match ask.listed {
            Some(count) => text.listing(count),
            None => text,
        };
        prompt_tokens += text.prompt_tokens();
        let others = (1..ask.n as u64).map(|more| text.with_seed(seed.wrapping_add(first + more)));
        let others: Vec<Text> = others.collect();
        texts.push(text);
        texts.extend(others);
    }
    let tokens: usize = texts.iter().map(|text| text.prompt_tokens() + text.limit()).sum();
    if tokens > limits.tokens {
        let said =
            format!("expected at most {} tokens in a request, prompts and max_tokens, got {tokens}", limits.tokens);
        return Err(ApiError::too_large("max_tokens", said));
    }
    let bytes: usize = texts.iter().map(|text| cache_bytes(writer.as_ref(), text)).sum();
    if bytes > limits.cache {
        let said =
            format!("expected texts whose cache takes at most {} bytes, got {bytes}; lower max_tokens", limits.cache);
        return Err(ApiError::too_large("max_tokens", said));
    }
    let (events, told) = mpsc::unbounded_channel();
    let count = texts.len();
    worker.queue.push_texts(TextItem { texts, bytes, events }).map_err(|(_, error)| error)?;
    Ok(Handed { told, count, prompt_tokens: Some(prompt_tokens), waiter: None })
}

fn begin(writer: &dyn Writer, beginning: &Beginning, wish: &Wish, seed: u64) -> Result<Text, ApiError> {
    let text = writer.begin(beginning, wish, seed).map_err(|error| match WorkError::from(error) {
        // A template that does not allow the conversation.
        WorkError::Failed(said) if matches!(beginning, Beginning::Conversation(_)) => WorkError::Refused(said),
        other => other,
    })?;
    match text.limit() {
        0 => Err(ApiError::invalid("max_tokens", "expected 1 or more")),
        _ => Ok(text),
    }
}

/// Gives the texts to a model that writes each alone, such as a translator.
fn hand_over_alone(worker: &Worker, ask: Ask, seed: u64) -> Result<Handed, ApiError> {
    if matches!(ask.shape, Shape::Chat) {
        return Err(no_chat());
    }
    if ask.listed.is_some() {
        return Err(ApiError::invalid("logprobs", "this model gives no log-probabilities of tokens"));
    }
    let waiting = Arc::new(Waiting::default());
    let (events, told) = mpsc::unbounded_channel();
    let mut items = Vec::new();
    for (at, beginning) in ask.beginnings.iter().enumerate() {
        let input = match beginning {
            Beginning::Nothing => None,
            Beginning::Text(text) => Some(Given::from(text.as_str())),
            Beginning::Tokens(_) | Beginning::Conversation(_) => {
                return Err(ApiError::invalid("prompt", "this model takes texts only"));
            }
        };
        for copy in 0..ask.n {
            let index = at * ask.n + copy;
            let (input, wish, events) = (input.clone(), ask.wish.clone(), events.clone());
            let text = LoneText { input, wish, seed: seed.wrapping_add(index as u64), index, events };
            let (reply, _) = oneshot::channel();
            items.push(Item { work: Work::Generate(text), size: 256, reply, waiting: Arc::clone(&waiting) });
        }
    }
    let count = items.len();
    worker.queue.push(items).map_err(|(_, error)| error)?;
    Ok(Handed { told, count, prompt_tokens: None, waiter: Some(Waiter(waiting)) })
}

fn no_chat() -> ApiError {
    let said = "this model has no chat template; /v1/completions continues a plain prompt";
    ApiError::new(StatusCode::BAD_REQUEST, "unsupported", said).at("model")
}
