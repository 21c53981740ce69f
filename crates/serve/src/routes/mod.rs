//! Routes: each reads a request into checked values, hands work to a queue and writes the answer.

mod about;
mod attention;
mod chat;
mod completions;
mod cost;
mod embeddings;
mod example;
mod generation;
mod input;
mod learn;
mod lens;
mod predict;
mod query;
mod rerank;
mod runs;

use std::sync::{Arc, OnceLock};

use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Method, Request, StatusCode};
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::body::{Response, read_document};
use crate::connections::{Busy, Connection};
use crate::error::{ApiError, WorkError};
use crate::multipart::Inputs;
use crate::page::{self, FILES, PAGE};
use crate::queue::{Answer, Item, Waiter, Waiting, Work};
use crate::server::App;
use crate::worker::Worker;

/// All routes with their methods. One that ends with a slash has all paths that begin with it.
const ROUTES: [(&str, &str); 23] = [
    (PAGE, "GET"),
    (FILES, "GET"),
    ("/livez", "GET"),
    ("/readyz", "GET"),
    ("/health", "GET"),
    ("/info", "GET"),
    ("/metrics", "GET"),
    ("/openapi.json", "GET"),
    ("/v1/show", "GET, POST"),
    ("/v1/icl", "POST"),
    ("/v1/runs", "GET"),
    ("/v1/runs/", "GET, POST"),
    ("/v1/models", "GET"),
    ("/v1/models/", "GET"),
    ("/v1/example", "GET"),
    ("/v1/embeddings", "POST"),
    ("/v1/predict", "POST"),
    ("/v1/attention", "POST"),
    ("/v1/cost", "POST"),
    ("/v1/lens", "POST"),
    ("/v1/rerank", "POST"),
    ("/v1/completions", "POST"),
    ("/v1/chat/completions", "POST"),
];

/// Returns the route of a path, for metrics.
pub fn name_of(path: &str) -> &'static str {
    let names = || ROUTES.iter().map(|(route, _)| *route);
    let is_under = |route: &&str| *route != PAGE && route.ends_with('/') && path.starts_with(*route);
    names().find(|route| *route == path).or_else(|| names().find(is_under)).unwrap_or("other")
}

/// A request that is being answered.
pub struct Call {
    /// The server.
    pub app: Arc<App>,
    headers: HeaderMap,
    connection: Arc<Connection>,
    /// Set when the body has arrived.
    busy: Arc<OnceLock<Busy>>,
    /// When the client stops waiting.
    pub deadline: Instant,
}

/// Answers a request.
pub async fn answer(
    app: Arc<App>,
    request: Request<Incoming>,
    (connection, busy): (Arc<Connection>, Arc<OnceLock<Busy>>),
    deadline: Instant,
) -> Result<Response, ApiError> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    let Some((_, allowed)) = ROUTES.iter().find(|(route, _)| *route == name_of(path)) else {
        let said = format!("there is no route {}; /openapi.json lists them", regard_data::excerpt(path));
        return Err(ApiError::new(StatusCode::NOT_FOUND, "unknown_route", said));
    };
    let asked = if head.method == Method::HEAD { "GET" } else { head.method.as_str() };
    if !allowed.split(", ").any(|allowed| allowed == asked) {
        return Err(ApiError::wrong_method(allowed));
    }
    let call = Call { app, headers: head.headers, connection, busy, deadline };
    match path {
        PAGE => page::index(),
        "/livez" | "/health" => Ok(about::alive()),
        "/readyz" => about::ready(&call.app),
        "/info" => Ok(about::info(&call.app)),
        "/metrics" => Ok(about::metrics(&call.app)),
        "/openapi.json" => Ok(about::openapi()),
        "/v1/models" => Ok(about::models(&call.app)),
        "/v1/example" => example::answer(call, head.uri.query()).await,
        "/v1/embeddings" => embeddings::answer(call, body).await,
        "/v1/predict" => predict::answer(call, body).await,
        "/v1/attention" => attention::answer(call, body).await,
        "/v1/show" if head.method == Method::POST => learn::show(call, body).await,
        "/v1/show" => Ok(learn::list()),
        "/v1/icl" => learn::icl(call, body).await,
        "/v1/cost" => cost::answer(call, body).await,
        "/v1/lens" => lens::answer(call, body).await,
        "/v1/rerank" => rerank::answer(call, body).await,
        "/v1/completions" => completions::answer(call, body).await,
        "/v1/chat/completions" => chat::answer(call, body).await,
        path => {
            if let Some(name) = path.strip_prefix(FILES) {
                page::file(name)
            } else if let Some(rest) = path.strip_prefix("/v1/runs") {
                runs::answer(call, &head.method, rest, head.uri.query(), body).await
            } else {
                about::model(&call.app, path.trim_start_matches("/v1/models/"))
            }
        }
    }
}

impl Call {
    /// Reads the body as JSON.
    async fn read<T: DeserializeOwned>(&self, body: Incoming) -> Result<T, ApiError> {
        self.read_document(body, None).await
    }

    /// Reads the body as JSON, or as a form with files among its inputs.
    async fn read_with_files<T: DeserializeOwned>(&self, body: Incoming, inputs: Inputs) -> Result<T, ApiError> {
        self.read_document(body, Some(inputs)).await
    }

    async fn read_document<T: DeserializeOwned>(&self, body: Incoming, inputs: Option<Inputs>) -> Result<T, ApiError> {
        let found = read_document(&self.headers, body, self.app.limits.body, self.deadline, inputs).await?;
        let _ = self.busy.set(Busy::new(&self.connection));
        Ok(found)
    }

    /// Runs a computation that may take a while on a thread of its own, so that other requests go on.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let waiting = Arc::new(Waiting::default());
        // Dropped with this future when the client goes or the deadline passes.
        let _waiter = Waiter(Arc::clone(&waiting));
        let work = move || if waiting.is_gone() { Err(ApiError::late()) } else { work() };
        match timeout_at(self.deadline, tokio::task::spawn_blocking(work)).await {
            Ok(Ok(found)) => found,
            Ok(Err(_)) => Err(WorkError::Panicked.into()),
            Err(_) => Err(ApiError::late()),
        }
    }

    /// Gives one piece of work to a model and waits for the answer.
    async fn one(&self, worker: &Worker, work: Work, tokens: usize) -> Result<Answer, ApiError> {
        let most = self.app.limits.tokens;
        if tokens > most {
            let said = format!("expected at most {most} tokens in a request, got about {tokens}");
            return Err(ApiError::too_large("input", said));
        }
        let found = self.work(worker, vec![(work, tokens)]).await?.pop();
        Ok(found.unwrap_or(Err(WorkError::Retired))?)
    }

    /// Gives work to a model and waits for all answers, in order. Each work comes with its number of tokens.
    async fn work(
        &self,
        worker: &Worker,
        work: Vec<(Work, usize)>,
    ) -> Result<Vec<Result<Answer, WorkError>>, ApiError> {
        let waiting = Arc::new(Waiting::default());
        // Dropped with this future when the client goes or the deadline passes.
        let _waiter = Waiter(Arc::clone(&waiting));
        let (mut items, mut answers) = (Vec::with_capacity(work.len()), Vec::with_capacity(work.len()));
        for (work, size) in work {
            let (reply, answer) = oneshot::channel();
            items.push(Item { work, size, reply, waiting: Arc::clone(&waiting) });
            answers.push(answer);
        }
        worker.queue.push(items).map_err(|(_, error)| error)?;
        let mut found = Vec::with_capacity(answers.len());
        for answer in answers {
            let answer = timeout_at(self.deadline, answer).await.map_err(|_| ApiError::late())?;
            found.push(answer.unwrap_or(Err(WorkError::Retired)));
        }
        Ok(found)
    }
}
