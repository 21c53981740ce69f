//! The server itself: accepts connections, answers their requests, reloads models and stops.

use std::collections::hash_map::RandomState;
use std::convert::Infallible;
use std::hash::BuildHasher;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use regard_tasks::TaskError;
use regard_tasks::weights::Storage;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::body::{Body, Response};
use crate::connections::{Busy, Connection, Connections};
use crate::error::ApiError;
use crate::guard::Guard;
use crate::limits::Limits;
use crate::log::{Answered, LogFormat};
use crate::metrics::Metrics;
use crate::models::{ModelFolder, Models};
use crate::routes;
use crate::runs::Runs;

/// Time between two looks at [`Control`].
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// Time between two looks at the files of models.
const BETWEEN_FILES: Duration = Duration::from_secs(2);
/// Time for connections that have not asked anything yet to do so after a signal to stop, and for clients to take the end of a
/// stream after its deadline.
const GRACE: Duration = Duration::from_millis(500);

/// Number of mechanisms that are computed at the same time.
const LEARNING: usize = 2;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_TIMEOUT: HeaderName = HeaderName::from_static("x-request-timeout");

/// How to serve.
pub struct Options {
    /// Models.
    pub models: Vec<ModelFolder>,
    /// Training runs to show.
    pub runs: Option<Runs>,
    /// Address to listen at.
    pub addr: SocketAddr,
    /// Token that clients must send.
    pub token: Option<String>,
    /// Names under which clients reach the server, beside addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Origins of web pages that may ask.
    pub origins: Vec<String>,
    /// Limits.
    pub limits: Limits,
    /// Number of threads of each model; 0 for all cores.
    pub threads: usize,
    /// How the weights of models are stored.
    pub storage: Storage,
    /// Format of the log.
    pub log: LogFormat,
    /// Whether a model is loaded again when its files change.
    pub reload: bool,
}

/// What the server is told from outside, such as by signals.
#[derive(Debug, Clone, Default)]
pub struct Control {
    /// Set to stop: accepted requests are answered, no others.
    pub stop: Arc<AtomicBool>,
    /// Set to load all models again.
    pub reload: Arc<AtomicBool>,
}

/// The reason why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A model cannot be opened.
    #[error(transparent)]
    Model(#[from] TaskError),
    /// The address cannot be used.
    #[error("cannot listen at {addr}: {cause}")]
    Address {
        /// The address.
        addr: SocketAddr,
        /// Error of the operating system.
        cause: std::io::Error,
    },
    /// The system gives no thread or timer.
    #[error("cannot start: {0}")]
    System(std::io::Error),
}

/// What all requests share.
pub struct App {
    /// The models.
    pub models: Models,
    /// Training runs to show.
    pub runs: Option<Runs>,
    /// Counters.
    pub metrics: Metrics,
    /// Limits.
    pub limits: Limits,
    /// Permits for the computations of mechanisms and of the theory.
    pub learning: Arc<Semaphore>,
    guard: Guard,
    log: LogFormat,
    is_draining: AtomicBool,
    /// Counter and key of random numbers for identifiers and seeds.
    drawn: AtomicU64,
    random: RandomState,
}

impl App {
    /// Returns whether the server is stopping.
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Returns a number that nobody can guess.
    pub fn fresh_seed(&self) -> u64 {
        self.random.hash_one(self.drawn.fetch_add(1, Ordering::Relaxed))
    }
}

/// A server with its models, ready to run.
pub struct Server {
    app: Arc<App>,
    listener: TcpListener,
    watches_files: bool,
}

impl Server {
    /// Listens at the address and opens the models.
    pub fn bind(options: Options) -> Result<Self, ServeError> {
        let Options { models, runs, addr, token, hosts, origins, limits, threads, storage, log, reload } = options;
        let address = |cause| ServeError::Address { addr, cause };
        let listener = TcpListener::bind(addr).map_err(address)?;
        listener.set_nonblocking(true).map_err(address)?;
        let app = App {
            models: Models::open(models, limits, threads, storage)?,
            runs,
            metrics: Metrics::default(),
            limits,
            learning: Arc::new(Semaphore::new(LEARNING)),
            guard: Guard::new(token, hosts, origins),
            log,
            is_draining: AtomicBool::new(false),
            drawn: AtomicU64::new(0),
            random: RandomState::new(),
        };
        Ok(Self { app: Arc::new(app), listener, watches_files: reload })
    }

    /// Returns the address that the server listens at.
    pub fn addr(&self) -> Result<SocketAddr, ServeError> {
        self.listener.local_addr().map_err(ServeError::System)
    }

    /// Answers requests until [`Control::stop`] is set and accepted requests are answered.
    pub fn run(self, control: &Control) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(4)
            .build()
            .map_err(ServeError::System)?;
        let done = runtime.block_on(self.serve(control));
        // Work that nobody waits for any more must not hold up the end.
        runtime.shutdown_timeout(Duration::from_millis(100));
        done
    }

    async fn serve(self, control: &Control) -> Result<(), ServeError> {
        let Self { app, listener, watches_files } = self;
        let addr = listener.local_addr().map_err(ServeError::System)?;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(ServeError::System)?;
        let names: Vec<&str> = app.models.all().iter().map(|entry| entry.folder.name.as_str()).collect();
        let inspector = format!("http://{addr}/");
        app.log.event(
            "listening",
            json!({ "address": format!("http://{addr}"), "models": names, "inspector": inspector }),
        );
        let connections = Arc::new(Connections::default());
        // All connections hold a receiver; the sender knows when the last is gone.
        let (stopping, _) = watch::channel(false);
        let watcher = tokio::spawn(watch_over(Arc::clone(&app), control.clone(), watches_files));
        loop {
            tokio::select! {
                biased;
                accepted = listener.accept() => accept(&app, &connections, accepted, &stopping).await,
                () = asked(&control.stop) => break,
            }
        }
        watcher.abort();
        app.is_draining.store(true, Ordering::Relaxed);
        app.log.event("stopping", json!({ "in_flight": app.metrics.in_flight.get() }));
        // Clients that have connected already are still answered.
        while let Ok(accepted) = timeout(BETWEEN_LOOKS, listener.accept()).await {
            accept(&app, &connections, accepted, &stopping).await;
        }
        drop(listener);
        let end = Instant::now() + app.limits.drain;
        let grace = (Instant::now() + GRACE).min(end);
        let _ = tokio::time::timeout_at(grace, closed_when(&app, &stopping, false)).await;
        stopping.send_replace(true);
        let is_drained = tokio::time::timeout_at(end, closed_when(&app, &stopping, true)).await.is_ok();
        app.log.event("stopped", json!({ "drained": is_drained, "in_flight": app.metrics.in_flight.get() }));
        Ok(())
    }
}

/// Waits until no request is being answered, and if `wholly`, until all connections are closed or idle.
async fn closed_when(app: &App, stopping: &watch::Sender<bool>, wholly: bool) {
    let start = Instant::now();
    loop {
        let is_quiet = app.metrics.in_flight.get() == 0;
        // Connections get a moment to send what is in their buffers.
        if stopping.receiver_count() == 0 || (wholly && is_quiet && start.elapsed() > GRACE) {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until a flag is set.
async fn asked(flag: &AtomicBool) {
    while !flag.load(Ordering::Relaxed) {
        sleep(BETWEEN_LOOKS).await;
    }
}

/// Loads models again when it is asked for, or when their files have changed and then stayed as they are.
async fn watch_over(app: Arc<App>, control: Control, watches_files: bool) {
    let mut looked = Instant::now();
    let mut changed: Vec<usize> = Vec::new();
    loop {
        sleep(BETWEEN_LOOKS).await;
        let is_asked = control.reload.swap(false, Ordering::Relaxed);
        let mut due: Vec<usize> = if is_asked { (0..app.models.all().len()).collect() } else { Vec::new() };
        if watches_files && looked.elapsed() >= BETWEEN_FILES {
            looked = Instant::now();
            let now: Vec<usize> = (0..app.models.all().len()).filter(|&at| app.models.all()[at].is_changed()).collect();
            due.extend(now.iter().filter(|at| changed.contains(at)));
            changed = now;
        }
        for at in due {
            let app = Arc::clone(&app);
            let loaded = tokio::task::spawn_blocking(move || {
                let entry = &app.models.all()[at];
                let found = app.models.reload(entry).map_err(|error| error.to_string());
                let said = found.err().unwrap_or_else(|| "done".to_string());
                app.log.event("reload", json!({ "model": entry.folder.name, "result": said }));
            });
            let _ = loaded.await;
        }
    }
}

/// Starts to answer a connection.
async fn accept(
    app: &Arc<App>,
    connections: &Arc<Connections>,
    accepted: std::io::Result<(TcpStream, SocketAddr)>,
    stopping: &watch::Sender<bool>,
) {
    let Ok((stream, _)) = accepted else {
        // Too many open files, most likely: wait for some to close.
        return sleep(BETWEEN_LOOKS).await;
    };
    let Some(open) = connections.open(app.limits.connections) else {
        app.metrics.refused_connections.add(1);
        let said = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_connections", "too many connections");
        let document = said.to_json().to_string();
        let head =
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\nretry-after: 1";
        let _ = stream.try_write(
            format!("{head}\r\nx-request-id: none\r\ncontent-length: {}\r\n\r\n{document}", document.len()).as_bytes(),
        );
        return;
    };
    let _ = stream.set_nodelay(true);
    let (app, mut stopping) = (Arc::clone(app), stopping.subscribe());
    tokio::spawn(async move {
        app.metrics.connections.add(1);
        let (own, connection) = (Arc::clone(&app), Arc::clone(&open.connection));
        let service = service_fn(move |request| respond(Arc::clone(&own), request, Arc::clone(&connection)));
        let mut serving = std::pin::pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(app.limits.patience)
                .max_buf_size(64 * 1024)
                .serve_connection(TokioIo::new(stream), service)
        );
        tokio::select! {
            _ = serving.as_mut() => {}
            () = open.connection.closed.notified() => {}
            () = async { drop(stopping.wait_for(|stop| *stop).await) } => {
                serving.as_mut().graceful_shutdown();
                let _ = serving.as_mut().await;
            }
        }
        app.metrics.connections.subtract(1);
        drop(open);
    });
}

/// Counts and logs an answer when it was sent, or when its client has gone.
struct Watched {
    app: Arc<App>,
    id: String,
    method: String,
    path: String,
    status: u16,
    since: Instant,
    /// Ends a connection that does not take its stream.
    watchdog: Option<AbortHandle>,
    _busy: Arc<OnceLock<Busy>>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(watchdog) = &self.watchdog {
            watchdog.abort();
        }
        let took = self.since.elapsed();
        self.app.metrics.in_flight.subtract(1);
        self.app.metrics.answered(routes::name_of(&self.path), self.status, took);
        let Self { id, method, path, status, .. } = self;
        self.app.log.answered(&Answered { id, method, path, status: *status, took });
    }
}

/// Answers a request.
async fn respond(
    app: Arc<App>,
    request: Request<Incoming>,
    connection: Arc<Connection>,
) -> Result<Response, Infallible> {
    app.metrics.in_flight.add(1);
    let busy: Arc<OnceLock<Busy>> = Arc::default();
    let mut watched = Watched {
        id: identifier(&app, &request),
        method: request.method().to_string(),
        path: request.uri().path().to_string(),
        // The status of a client that goes before it has an answer, as nginx has it.
        status: 499,
        since: Instant::now(),
        watchdog: None,
        _busy: Arc::clone(&busy),
        app: Arc::clone(&app),
    };
    let mut end = Instant::now();
    let answer = match app.guard.check(request.uri(), request.version(), request.headers()) {
        Ok(()) => match deadline(&app, &request) {
            Ok(deadline) => {
                end = deadline;
                routes::answer(Arc::clone(&app), request, (Arc::clone(&connection), busy), deadline).await
            }
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    let mut response = answer.unwrap_or_else(|error| error.response());
    watched.status = response.status().as_u16();
    if response.body().is_stream() {
        // A client that does not read is not noticed by the stream, which is asked for more only when there is room.
        let watch = tokio::spawn(async move {
            tokio::time::sleep_until(end + GRACE).await;
            connection.closed.notify_one();
        });
        watched.watchdog = Some(watch.abort_handle());
    }
    if let Ok(id) = HeaderValue::from_str(&watched.id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    if app.is_draining() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response.map(|body: Body| body.holding(watched)))
}

/// Returns the identifier that the client gave, if it is a plain one, or a new one.
fn identifier(app: &App, request: &Request<Incoming>) -> String {
    let given = request.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok());
    let is_plain = |id: &&str| {
        (1..=64).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    given.filter(is_plain).map_or_else(|| format!("{:016x}", app.fresh_seed()), str::to_string)
}

/// Returns when the client stops waiting: after the seconds of `X-Request-Timeout`, but not after the server's own limit.
fn deadline(app: &App, request: &Request<Incoming>) -> Result<Instant, ApiError> {
    let most = app.limits.deadline;
    let Some(given) = request.headers().get(REQUEST_TIMEOUT) else { return Ok(Instant::now() + most) };
    let seconds = given.to_str().ok().and_then(|text| text.trim().parse::<f64>().ok());
    match seconds.filter(|seconds| seconds.is_finite() && *seconds > 0.0) {
        Some(seconds) => Ok(Instant::now() + Duration::from_secs_f64(seconds.min(most.as_secs_f64()))),
        None => {
            let said = "expected a number of seconds above 0";
            Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_header", said).at("X-Request-Timeout"))
        }
    }
}
