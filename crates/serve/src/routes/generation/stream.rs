//! Written texts as a stream of server-sent events, which ends with `data: [DONE]`.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use regard_tasks::writer::Drawn;
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep, sleep_until};

use super::Handed;
use super::write::{Heading, Logs, Shape, reason, usage};
use crate::body::{Body, Response};
use crate::error::{ApiError, WorkError};
use crate::worker::Worker;

/// A stream of events. When the client goes, it is dropped, and with it the channel from which the model sees that nobody waits.
struct Stream {
    handed: Handed,
    heading: Heading,
    worker: Arc<Worker>,
    with_usage: bool,
    /// Number of characters of each text so far; `None` after its end.
    texts: Vec<Option<usize>>,
    tokens: usize,
    deadline: Pin<Box<Sleep>>,
    ready: VecDeque<Bytes>,
    is_over: bool,
}

/// Returns the answer whose events come as they are written.
pub fn response(
    handed: Handed,
    heading: Heading,
    worker: Arc<Worker>,
    with_usage: bool,
    deadline: Instant,
) -> Response {
    let texts = vec![Some(0); handed.count];
    let deadline = Box::pin(sleep_until(deadline));
    let (ready, tokens, is_over) = (VecDeque::new(), 0, false);
    let mut stream = Stream { handed, heading, worker, with_usage, texts, tokens, deadline, ready, is_over };
    if stream.heading.shape == Shape::Chat {
        // The first event of each text says who speaks.
        for index in 0..stream.texts.len() {
            let delta = json!({ "role": "assistant", "content": "", "refusal": null });
            let choice = json!({ "index": index, "delta": delta, "logprobs": null, "finish_reason": null });
            stream.push(vec![choice]);
        }
    }
    let mut response = hyper::Response::new(Body::stream(move |context| stream.poll(context)));
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

impl Stream {
    fn poll(&mut self, context: &mut Context) -> Poll<Option<Bytes>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            if self.deadline.as_mut().poll(context).is_ready() {
                self.fail(&ApiError::late());
                continue;
            }
            match self.handed.told.poll_recv(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some((index, Ok(drawn)))) => self.add(index, &drawn),
                Poll::Ready(Some((_, Err(error)))) => self.fail(&error.into()),
                Poll::Ready(None) => self.fail(&WorkError::Retired.into()),
            }
        }
    }

    /// Adds the event of a drawn token, and the last events after the last token.
    fn add(&mut self, index: usize, drawn: &Drawn) {
        let Some(characters) = self.texts.get(index).copied().flatten() else { return };
        self.tokens += usize::from(drawn.token.is_some());
        let mut logs = Logs::default();
        if self.heading.with_log_probabilities {
            logs.add(&self.worker, drawn, characters);
        }
        self.texts[index] = drawn.end.is_none().then_some(characters + drawn.piece.chars().count());
        // A token whose text waits for the next one is told with it, unless its log-probability was asked for.
        if !drawn.piece.is_empty() || (self.heading.with_log_probabilities && drawn.token.is_some()) {
            let logs = match self.heading.with_log_probabilities && drawn.token.is_some() {
                true => logs.to_json(self.heading.shape),
                false => Value::Null,
            };
            let choice = json!({ "index": index, "logprobs": logs, "finish_reason": null });
            self.push(vec![self.with_text(choice, Some(&drawn.piece))]);
        }
        if drawn.end.is_some() {
            let choice = json!({ "index": index, "logprobs": null, "finish_reason": reason(drawn.end) });
            self.push(vec![self.with_text(choice, None)]);
        }
        if self.texts.iter().all(Option::is_none) {
            if self.with_usage {
                let mut document = self.heading.document(true, Vec::new());
                document["usage"] = usage(self.handed.prompt_tokens, self.tokens);
                self.ready.push_back(event(&document));
            }
            self.ready.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
            self.end();
        }
    }

    fn with_text(&self, mut choice: Value, piece: Option<&str>) -> Value {
        match (self.heading.shape, piece) {
            (Shape::Completion, piece) => choice["text"] = Value::from(piece.unwrap_or_default()),
            (Shape::Chat, Some(piece)) => choice["delta"] = json!({ "content": piece }),
            (Shape::Chat, None) => choice["delta"] = json!({}),
        }
        choice
    }

    fn push(&mut self, choices: Vec<Value>) {
        let document = self.heading.document(true, choices);
        self.ready.push_back(event(&document));
    }

    /// Ends the stream with an error.
    fn fail(&mut self, error: &ApiError) {
        self.ready.push_back(event(&error.to_json()));
        self.end();
    }

    fn end(&mut self) {
        self.is_over = true;
        self.handed.told.close();
        self.handed.waiter = None;
    }
}

fn event(document: &Value) -> Bytes {
    Bytes::from(format!("data: {document}\n\n"))
}
