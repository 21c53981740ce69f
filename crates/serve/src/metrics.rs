//! Counters of the server, written in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets of latencies, in seconds.
const SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
/// Upper bounds of the buckets of batch sizes.
const SIZES: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// A number that is counted up or set.
#[derive(Debug, Default)]
pub struct Number(AtomicU64);

impl Number {
    /// Adds to the number.
    pub fn add(&self, more: usize) {
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }

    /// Subtracts from the number.
    pub fn subtract(&self, less: usize) {
        self.0.fetch_sub(less as u64, Ordering::Relaxed);
    }

    /// Sets the number.
    pub fn set(&self, value: usize) {
        self.0.store(value as u64, Ordering::Relaxed);
    }

    /// Returns the number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts of values by size.
#[derive(Debug)]
struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
    count: u64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len()], sum: 0.0, count: 0 }
    }

    fn add(&mut self, value: f64) {
        self.counts
            .iter_mut()
            .zip(self.bounds)
            .filter(|(_, bound)| value <= **bound)
            .for_each(|(count, _)| *count += 1);
        self.sum += value;
        self.count += 1;
    }

    fn write(&self, out: &mut String, name: &str, labels: &str) {
        let comma = if labels.is_empty() { "" } else { "," };
        for (bound, count) in self.bounds.iter().zip(&self.counts) {
            let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}");
        }
        let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {}", self.count);
        let _ = writeln!(out, "{name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {}", self.sum, self.count);
    }
}

/// Counters of one model. They outlive a reload.
#[derive(Debug)]
pub struct ModelMetrics {
    /// Inputs that wait.
    pub waiting: Number,
    /// Inputs that were dropped because their client had gone.
    pub dropped: Number,
    /// Panics of the model.
    pub panics: Number,
    /// Tokens read, where they are counted: embeddings and prompts.
    pub tokens_read: Number,
    /// Tokens written.
    pub tokens_written: Number,
    /// Texts that are being written.
    pub rows: Number,
    /// Bytes of caches that are reserved.
    pub cache: Number,
    /// Bytes of caches that may be reserved.
    pub cache_limit: Number,
    /// Number of times that the model was loaded again.
    pub reloads: Number,
    batches: Mutex<Histogram>,
    steps: Mutex<Histogram>,
}

impl Default for ModelMetrics {
    fn default() -> Self {
        Self {
            waiting: Number::default(),
            dropped: Number::default(),
            panics: Number::default(),
            tokens_read: Number::default(),
            tokens_written: Number::default(),
            rows: Number::default(),
            cache: Number::default(),
            cache_limit: Number::default(),
            reloads: Number::default(),
            batches: Mutex::new(Histogram::new(&SIZES)),
            steps: Mutex::new(Histogram::new(&SIZES)),
        }
    }
}

impl ModelMetrics {
    /// Counts a batch of this many inputs.
    pub fn batch(&self, inputs: usize) {
        add(&self.batches, inputs as f64);
    }

    /// Counts a step of this many texts.
    pub fn step(&self, texts: usize) {
        add(&self.steps, texts as f64);
    }
}

fn add(histogram: &Mutex<Histogram>, value: f64) {
    if let Ok(mut histogram) = histogram.lock() {
        histogram.add(value);
    }
}

/// Counters of the server.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Open connections.
    pub connections: Number,
    /// Connections that were closed because there were too many.
    pub refused_connections: Number,
    /// Requests that are being answered.
    pub in_flight: Number,
    /// Number of answers by route and status.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    latencies: Mutex<BTreeMap<&'static str, Histogram>>,
}

impl Metrics {
    /// Counts an answer.
    pub fn answered(&self, route: &'static str, status: u16, took: Duration) {
        if let Ok(mut requests) = self.requests.lock() {
            *requests.entry((route, status)).or_default() += 1;
        }
        if let Ok(mut latencies) = self.latencies.lock() {
            latencies.entry(route).or_insert_with(|| Histogram::new(&SECONDS)).add(took.as_secs_f64());
        }
    }

    /// Writes all counters.
    pub fn write<'a>(&self, models: impl Iterator<Item = (&'a str, &'a ModelMetrics)> + Clone) -> String {
        let mut out = String::new();
        let title = |out: &mut String, name: &str, kind: &str, help: &str| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        };
        title(&mut out, "regard_requests_total", "counter", "Answers by route and status.");
        for ((route, status), count) in self.requests.lock().iter().flat_map(|all| all.iter()) {
            let _ = writeln!(out, "regard_requests_total{{route=\"{route}\",status=\"{status}\"}} {count}");
        }
        title(&mut out, "regard_failures_total", "counter", "Answers with a status of 500 or more, by route.");
        let mut failures: BTreeMap<&str, u64> = BTreeMap::new();
        for ((route, status), count) in self.requests.lock().iter().flat_map(|all| all.iter()) {
            *failures.entry(route).or_default() += if *status >= 500 { *count } else { 0 };
        }
        for (route, count) in failures {
            let _ = writeln!(out, "regard_failures_total{{route=\"{route}\"}} {count}");
        }
        title(&mut out, "regard_request_seconds", "histogram", "Time until the answer was complete, by route.");
        for (route, histogram) in self.latencies.lock().iter().flat_map(|all| all.iter()) {
            histogram.write(&mut out, "regard_request_seconds", &format!("route=\"{route}\""));
        }
        for (name, kind, help, number) in [
            ("regard_connections", "gauge", "Open connections.", &self.connections),
            (
                "regard_connections_refused_total",
                "counter",
                "Connections closed for want of room.",
                &self.refused_connections,
            ),
            ("regard_requests_in_flight", "gauge", "Requests that are being answered.", &self.in_flight),
        ] {
            title(&mut out, name, kind, help);
            let _ = writeln!(out, "{name} {}", number.get());
        }
        type Field = fn(&ModelMetrics) -> &Number;
        let fields: [(&str, &str, &str, Field); 9] = [
            ("regard_queue_length", "gauge", "Inputs that wait.", |model| &model.waiting),
            ("regard_dropped_total", "counter", "Inputs dropped because their client had gone.", |model| {
                &model.dropped
            }),
            ("regard_panics_total", "counter", "Panics of the model.", |model| &model.panics),
            ("regard_tokens_read_total", "counter", "Tokens of embedded texts and prompts.", |model| {
                &model.tokens_read
            }),
            ("regard_tokens_written_total", "counter", "Tokens written.", |model| &model.tokens_written),
            ("regard_texts_being_written", "gauge", "Texts that are being written.", |model| &model.rows),
            ("regard_cache_bytes", "gauge", "Bytes reserved for keys and values.", |model| &model.cache),
            ("regard_cache_limit_bytes", "gauge", "Bytes that may be reserved.", |model| &model.cache_limit),
            ("regard_reloads_total", "counter", "Times the model was loaded again.", |model| &model.reloads),
        ];
        for (name, kind, help, field) in fields {
            title(&mut out, name, kind, help);
            for (model, metrics) in models.clone() {
                let _ = writeln!(out, "{name}{{model=\"{model}\"}} {}", field(metrics).get());
            }
        }
        type Sizes = fn(&ModelMetrics) -> &Mutex<Histogram>;
        let sizes: [(&str, &str, Sizes); 2] = [
            ("regard_batch_inputs", "Inputs that went through the model together.", |model| &model.batches),
            ("regard_step_texts", "Texts that made a step together.", |model| &model.steps),
        ];
        for (name, help, field) in sizes {
            title(&mut out, name, "histogram", help);
            for (model, metrics) in models.clone() {
                if let Ok(histogram) = field(metrics).lock() {
                    histogram.write(&mut out, name, &format!("model=\"{model}\""));
                }
            }
        }
        out
    }
}
