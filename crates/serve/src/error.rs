//! Errors as clients see them, `{"error": {"message", "type", "code", "param"}}`, and errors of the work behind a request.

use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER};
use regard_nn::NnError;
use regard_tasks::TaskError;
use serde_json::{Value, json};

use crate::body::{Response, json_response};

/// An error of a model or of its queue, before it is known what the client is told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    /// The model refuses the input.
    #[error("{0}")]
    Refused(String),
    /// The model cannot do what is asked.
    #[error("{0}")]
    Unsupported(String),
    /// Too many inputs wait already.
    #[error("too many inputs are waiting: {waiting} of at most {most}")]
    Full {
        /// Number of inputs that wait.
        waiting: usize,
        /// Largest number of inputs that may wait.
        most: usize,
    },
    /// The model is being replaced or the server ends.
    #[error("the model is no longer served")]
    Retired,
    /// The request was given up.
    #[error("cancelled")]
    Cancelled,
    /// The model failed.
    #[error("{0}")]
    Failed(String),
    /// The model panicked.
    #[error("the model failed on this input; other requests are not affected")]
    Panicked,
}

impl From<TaskError> for WorkError {
    fn from(error: TaskError) -> Self {
        match error {
            TaskError::Input { .. } | TaskError::Data(_) | TaskError::Config(_) | TaskError::Settings { .. } => {
                Self::Refused(error.to_string())
            }
            TaskError::Unsupported { .. } => Self::Unsupported(error.to_string()),
            TaskError::Nn(NnError::Cancelled) => Self::Cancelled,
            TaskError::Nn(NnError::Input { .. }) => Self::Refused(error.to_string()),
            // Paths of the machine are nothing for a client.
            TaskError::Folder { problem, .. } => Self::Failed(problem),
            TaskError::Io { cause, .. } => Self::Failed(cause.to_string()),
            other => Self::Failed(other.to_string()),
        }
    }
}

/// An error that a client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    status: StatusCode,
    kind: &'static str,
    code: &'static str,
    message: String,
    param: Option<String>,
    /// Seconds after which the client may try again.
    retry_after: Option<u64>,
    /// Methods that the route allows.
    allow: Option<&'static str>,
}

impl ApiError {
    /// Creates an error with a status and a code.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let kind = match status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::NOT_FOUND => "not_found_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => "timeout_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        Self { status, kind, code, message: message.into(), param: None, retry_after: None, allow: None }
    }

    /// Creates the error for a value that is not allowed.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_value", message).at(param)
    }

    /// Creates the error for more of something than is allowed.
    pub fn too_large(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message).at(param)
    }

    /// Creates the error for a route that does not allow the method.
    pub fn wrong_method(allow: &'static str) -> Self {
        let message = format!("this route expects {allow}");
        let error = Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
        Self { allow: Some(allow), ..error }
    }

    /// Creates the error for a request that took too long.
    pub fn late() -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "timeout", "the answer was not ready before the deadline of the request")
    }

    /// Names the parameter that the error is about.
    pub fn at(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }

    /// Says after how many seconds the client may try again.
    pub fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// Returns the status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the document that the client gets.
    pub fn to_json(&self) -> Value {
        json!({ "error": { "message": self.message, "type": self.kind, "code": self.code, "param": self.param } })
    }

    /// Returns the answer to the client.
    pub fn response(&self) -> Response {
        let mut response = json_response(self.status, &self.to_json());
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(allow) = self.allow {
            response.headers_mut().insert(hyper::header::ALLOW, HeaderValue::from_static(allow));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(hyper::header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<WorkError> for ApiError {
    fn from(error: WorkError) -> Self {
        let message = error.to_string();
        match error {
            WorkError::Refused(_) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_input", message).at("input"),
            WorkError::Unsupported(_) => Self::new(StatusCode::BAD_REQUEST, "unsupported", message).at("model"),
            WorkError::Full { .. } => Self::new(StatusCode::TOO_MANY_REQUESTS, "queue_full", message).retry_after(1),
            WorkError::Retired => Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message).retry_after(1),
            WorkError::Cancelled => Self::late(),
            WorkError::Failed(_) | WorkError::Panicked => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "model_failed", message)
            }
        }
    }
}
