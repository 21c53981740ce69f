//! `regard serve`: answers requests over HTTP.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::{Args, ValueEnum};
use regard_serve::{Control, Limits, LogFormat, ModelFolder, Options, Runs, ServeError, Server};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::{failure, wrong_use};
use crate::signal::Stopped;
use crate::trained::WeightType;
use crate::value::from_one;

/// The arguments of `regard serve`.
#[derive(Args)]
pub struct Serve {
    /// Model folders, or checkpoints of transformers; NAME=FOLDER gives one another name than that of its folder
    #[arg(value_name = "MODEL", required_unless_present = "runs", value_parser = ModelFolder::parse)]
    models: Vec<ModelFolder>,
    /// A folder with training runs to show in the inspector: curves, maps, a table; no model is needed then
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    /// The address to listen at; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    addr: SocketAddr,
    /// A token that clients must send as `Authorization: Bearer TOKEN`. Other users of the machine may see it here; they cannot
    /// see one in the environment variable REGARD_TOKEN or in a file
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    token: Option<String>,
    /// A file with the token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A name under which clients reach the server, beside addresses and localhost
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// An origin whose web pages may ask, such as `https://app.example`
    #[arg(long, value_name = "ORIGIN")]
    origin: Vec<String>,
    #[command(flatten)]
    limits: LimitFlags,
    /// How matrices and tables of embeddings are stored in memory: bf16 takes half of it and writes text faster, with rounded weights
    #[arg(long, value_name = "TYPE", value_enum, default_value_t = WeightType::F32)]
    weights: WeightType,
    /// The log on standard error: a line of text or of JSON for each answer, or events only
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Log::Text)]
    log: Log,
    /// Load a model again when its files change; SIGHUP loads all models again in any case
    #[arg(long)]
    reload: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Log {
    Text,
    Json,
    Quiet,
}

/// Flags of the limits.
#[derive(Args)]
struct LimitFlags {
    /// Largest body of a request, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().body, value_parser = from_one::<usize>)]
    max_body: usize,
    /// Largest number of inputs in a request
    #[arg(long, value_name = "N", default_value_t = Limits::default().inputs, value_parser = from_one::<usize>)]
    max_inputs: usize,
    /// Largest number of tokens in a request, prompt and answer together
    #[arg(long, value_name = "N", default_value_t = Limits::default().tokens, value_parser = from_one::<usize>)]
    max_tokens: usize,
    /// Largest number of inputs that wait for a model; more are refused with 429
    #[arg(long, value_name = "N", default_value_t = Limits::default().queue, value_parser = from_one::<usize>)]
    max_queue: usize,
    /// Largest number of open connections
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections, value_parser = from_one::<usize>)]
    max_connections: usize,
    /// Largest number of texts that a model writes at the same time
    #[arg(long, value_name = "N", default_value_t = Limits::default().rows, value_parser = from_one::<usize>)]
    max_texts: usize,
    /// Largest number of tokens, padding counted, that go through a model together
    #[arg(long, value_name = "N", default_value_t = Limits::default().batch, value_parser = from_one::<usize>)]
    batch_tokens: usize,
    /// Memory for the keys and values of the texts that a model writes, in millions of bytes
    #[arg(long, value_name = "MB", default_value_t = 1_000, value_parser = from_one::<usize>)]
    cache: usize,
    /// Seconds for a request; a client may ask for fewer by X-Request-Timeout
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().deadline.as_secs(), value_parser = from_one::<u64>)]
    timeout: u64,
    /// Seconds for accepted requests to end after SIGTERM or Ctrl-C
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().drain.as_secs(), value_parser = from_one::<u64>)]
    drain: u64,
}

impl LimitFlags {
    fn limits(&self) -> Limits {
        Limits {
            body: self.max_body,
            inputs: self.max_inputs,
            tokens: self.max_tokens,
            queue: self.max_queue,
            connections: self.max_connections,
            rows: self.max_texts,
            cache: self.cache.saturating_mul(1_000_000),
            batch: self.batch_tokens,
            deadline: Duration::from_secs(self.timeout.min(86_400)),
            drain: Duration::from_secs(self.drain.min(86_400)),
            ..Limits::default()
        }
    }
}

impl Serve {
    /// Serves until a signal asks to stop.
    pub fn run(self) -> Result<()> {
        let token = self.token()?;
        if let Some(runs) = self.runs.as_ref().filter(|runs| !runs.is_dir()) {
            return Err(wrong_use(anyhow!("--runs {}: expected a folder with training runs", runs.display())));
        }
        let options = Options {
            limits: self.limits.limits(),
            models: self.models,
            runs: self.runs.map(Runs::In),
            addr: self.addr,
            token,
            hosts: self.host,
            origins: self.origin,
            threads: rayon::current_num_threads(),
            storage: self.weights.storage(),
            log: match self.log {
                Log::Text => LogFormat::Text,
                Log::Json => LogFormat::Json,
                Log::Quiet => LogFormat::Quiet,
            },
            reload: self.reload,
        };
        let (control, number) = listen_for_signals()?;
        let server = Server::bind(options).map_err(|error| match error {
            ServeError::Model(error) => failure(error),
            other => other.into(),
        })?;
        server.run(&control)?;
        match number.load(Ordering::Relaxed) {
            0 => Ok(()),
            number => Err(Stopped(128 + number as u8).into()),
        }
    }

    fn token(&self) -> Result<Option<String>> {
        let token = match (&self.token, &self.token_file) {
            (Some(token), _) => token.clone(),
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
                text.trim_end().to_string()
            }
            (None, None) => match std::env::var("REGARD_TOKEN") {
                Ok(token) => token,
                Err(_) => return Ok(None),
            },
        };
        match !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(Some(token)),
            false => Err(wrong_use(anyhow!("the token: expected letters, digits and signs without blanks"))),
        }
    }
}

/// Listens for signals: the first SIGTERM or Ctrl-C stops the server, the second ends the program at once, and SIGHUP loads the
/// models again. Also returns the number of the signal that has stopped it.
fn listen_for_signals() -> Result<(Control, Arc<AtomicUsize>)> {
    let (control, number) = (Control::default(), Arc::<AtomicUsize>::default());
    let asked: &Arc<AtomicBool> = &control.stop;
    for signal in [SIGINT, SIGTERM] {
        // The order matters: the first signal must find `asked` still false.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(asked))?;
        flag::register(signal, Arc::clone(asked))?;
        flag::register_usize(signal, Arc::clone(&number), signal as usize)?;
    }
    #[cfg(unix)]
    flag::register(signal_hook::consts::SIGHUP, Arc::clone(&control.reload))?;
    Ok((control, number))
}
