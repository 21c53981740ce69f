//! Bodies of requests and answers.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::{BodyExt, Limited};
use hyper::StatusCode;
use hyper::body::{Bytes, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use tokio::time::{Instant, timeout_at};

use crate::error::ApiError;
use crate::multipart::{Inputs, boundary, document};

/// An answer.
pub type Response = hyper::Response<Body>;

/// A function that returns the next piece of a stream.
type Poller = Box<dyn FnMut(&mut Context) -> Poll<Option<Bytes>> + Send>;

/// The body of an answer. What it holds is dropped when it was sent or when the client has gone.
pub struct Body {
    content: Content,
    /// Dropped with the body.
    _held: Option<Box<dyn Send>>,
}

enum Content {
    Whole(Option<Bytes>),
    Stream(Poller),
}

impl Body {
    /// Creates a body that is known as a whole.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self { content: Content::Whole(Some(bytes.into())), _held: None }
    }

    /// Creates a body whose pieces come one after the other.
    pub fn stream(poll: impl FnMut(&mut Context) -> Poll<Option<Bytes>> + Send + 'static) -> Self {
        Self { content: Content::Stream(Box::new(poll)), _held: None }
    }

    /// Returns whether the pieces come one after the other.
    pub fn is_stream(&self) -> bool {
        matches!(self.content, Content::Stream(_))
    }

    /// Keeps a value until the body was sent or dropped.
    pub fn holding(self, value: impl Send + 'static) -> Self {
        Self { _held: Some(Box::new(value)), ..self }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut self.content {
            Content::Whole(bytes) => Poll::Ready(bytes.take()),
            Content::Stream(poll) => poll(context),
        };
        next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}

/// Returns a whole answer of a content type.
pub fn response(status: StatusCode, content_type: &'static str, content: impl Into<Bytes>) -> Response {
    let mut response = hyper::Response::new(Body::whole(content));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Returns a JSON document as an answer.
pub fn json_response(status: StatusCode, document: &impl Serialize) -> Response {
    match serde_json::to_vec(document) {
        Ok(content) => response(status, "application/json", content),
        Err(error) => {
            let said = format!("the answer cannot be written as JSON: {error}");
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", said).response()
        }
    }
}

/// Reads a document of at most `most` bytes: JSON, or a form if the route has `inputs` that may come as one.
///
/// # Errors
/// Another content type (415), a larger body (413), one that is late (408), one that is no JSON or no form (400), and one with
/// other fields than `T` (422).
pub async fn read_document<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: Incoming,
    most: usize,
    deadline: Instant,
    inputs: Option<Inputs>,
) -> Result<T, ApiError> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let form = match inputs {
        Some(inputs) => boundary(kind).transpose()?.map(|boundary| (boundary, inputs)),
        None => None,
    };
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if form.is_none() && !kind.eq_ignore_ascii_case("application/json") {
        let said = format!("expected Content-Type: application/json, got {}", regard_data::excerpt(kind));
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", said));
    }
    let too_large = || ApiError::too_large("body", format!("expected a body of at most {most} bytes"));
    if http_body::Body::size_hint(&body).lower() > most as u64 {
        return Err(too_large());
    }
    let late =
        || ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body of the request did not arrive in time");
    let read = timeout_at(deadline, Limited::new(body, most).collect()).await.map_err(|_| late())?;
    let bytes = read.map_err(|error| match error.is::<http_body_util::LengthLimitError>() {
        true => too_large(),
        false => ApiError::new(StatusCode::BAD_REQUEST, "broken_body", "the body of the request ended too early"),
    })?;
    let bytes = bytes.to_bytes();
    match form {
        Some((boundary, inputs)) => checked(&document(&bytes, boundary, inputs)?),
        None => parse(&bytes),
    }
}

/// Parses a JSON document.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    // The syntax of the whole document is checked first, so that the two kinds of errors do not depend on the order of fields.
    if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(bytes) {
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_json", format!("expected JSON: {error}")));
    }
    checked(&mut serde_json::Deserializer::from_slice(bytes))
}

/// Checks the fields of a document.
fn checked<'de, T: Deserialize<'de>>(
    document: impl Deserializer<'de, Error = serde_json::Error>,
) -> Result<T, ApiError> {
    serde_path_to_error::deserialize(document).map_err(|error| {
        let path = error.path().to_string();
        let message = error.into_inner().to_string();
        if message.contains("recursion limit") {
            return ApiError::new(StatusCode::BAD_REQUEST, "invalid_json", "expected JSON that is nested less deeply");
        }
        let found = ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_field", message);
        if path == "." { found } else { found.at(path) }
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        _input: Vec<String>,
    }

    #[test]
    fn wrong_documents_are_told_apart() {
        let status = |text: &[u8]| parse::<Wanted>(text).unwrap_err().status().as_u16();
        assert_eq!([&b"{"[..], b"", b"\xff", b"{} x"].map(status), [400; 4]);
        assert_eq!(status("[".repeat(10_000).as_bytes()), 400);
        assert_eq!([&b"[]"[..], b"{}", br#"{"_input": 3}"#, br#"{"_input": [], "more": 1}"#].map(status), [422; 4]);
        let error = parse::<Wanted>(br#"{"_input": ["a", 3]}"#).unwrap_err().to_json();
        assert_eq!(error["error"]["param"], "_input[1]");
    }
}
