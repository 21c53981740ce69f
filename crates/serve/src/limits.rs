//! Limits of the server.

use std::time::Duration;

/// Limits that keep the server alive under any load. Each has a flag of `regard serve`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest body of a request, in bytes.
    pub body: usize,
    /// Largest number of inputs in a request.
    pub inputs: usize,
    /// Largest number of tokens in a request, prompt and answer together.
    pub tokens: usize,
    /// Largest number of inputs that wait for a model.
    pub queue: usize,
    /// Largest number of open connections.
    pub connections: usize,
    /// Largest number of texts that a model writes at the same time.
    pub rows: usize,
    /// Largest number of bytes of the caches of keys and values of a model.
    pub cache: usize,
    /// Largest number of tokens, padding counted, that go through a model together.
    pub batch: usize,
    /// Time for a request, unless its `X-Request-Timeout` says less.
    pub deadline: Duration,
    /// Time for the head of a request to arrive.
    pub patience: Duration,
    /// Time for accepted requests to end after a signal to stop.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 16_000_000,
            inputs: 2_048,
            tokens: 300_000,
            queue: 4_096,
            connections: 900,
            rows: 64,
            cache: 1 << 30,
            batch: 4_096,
            deadline: Duration::from_secs(120),
            patience: Duration::from_secs(15),
            drain: Duration::from_secs(30),
        }
    }
}
