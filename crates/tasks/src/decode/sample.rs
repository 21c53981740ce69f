//! Sampling: each token is drawn from its distribution, with temperature, top-k and top-p.

use rand::Rng;
use rand_distr::{Distribution, StandardUniform};
use regard_nn::{ConfigError, NnError};
use serde::{Deserialize, Serialize};

use super::Decoder;

/// How tokens are drawn. The temperature is applied first, then `top_k`, then `top_p`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SampleOptions {
    /// Temperature, `p ∝ exp(log p / temperature)`. Below 1, probable tokens become more probable; 0 takes the most probable.
    pub temperature: f32,
    /// Number of most probable tokens to draw from (Fan 2018); `None` for all.
    pub top_k: Option<usize>,
    /// Draws only from the fewest most probable tokens that together reach this probability (Holtzman 2020); `None` for all.
    pub top_p: Option<f32>,
    /// Largest number of tokens after the prompt.
    pub max_len: usize,
    /// Tokens that end the sequence without being part of it.
    pub stop: Vec<u32>,
}

impl Default for SampleOptions {
    fn default() -> Self {
        Self { temperature: 1.0, top_k: None, top_p: None, max_len: 200, stop: Vec::new() }
    }
}

impl SampleOptions {
    /// Returns an error if a value is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return Err(ConfigError::new("temperature", self.temperature, "a finite number, 0 or more"));
        }
        if self.top_k == Some(0) {
            return Err(ConfigError::new("top_k", 0, "a whole number, 1 or more"));
        }
        match self.top_p {
            Some(top_p) if !(top_p > 0.0 && top_p <= 1.0) => {
                Err(ConfigError::new("top_p", top_p, "a number above 0, at most 1"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the tokens that may be drawn and their probabilities, the most probable first.
    pub fn distribution(&self, log_probabilities: &[f32]) -> Vec<(u32, f64)> {
        let possible = |&(_, x): &(u32, f64)| x > f64::NEG_INFINITY;
        let numbered = log_probabilities.iter().enumerate().map(|(token, &x)| (token as u32, f64::from(x)));
        let mut tokens: Vec<(u32, f64)> = numbered.filter(possible).collect();
        let order = |a: &(u32, f64), b: &(u32, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        let count = if self.temperature == 0.0 { 1 } else { self.top_k.unwrap_or(usize::MAX) };
        if count < tokens.len() {
            tokens.select_nth_unstable_by(count, order);
            tokens.truncate(count);
        }
        tokens.sort_by(order);
        let largest = tokens.first().map_or(0.0, |&(_, x)| x);
        // Subtract first: a large value divided by a small temperature would overflow.
        let temperature = if self.temperature == 0.0 { 1.0 } else { f64::from(self.temperature) };
        tokens.iter_mut().for_each(|(_, x)| *x = ((*x - largest) / temperature).exp());
        normalise(&mut tokens);
        if let Some(top_p) = self.top_p {
            let mut sum = 0.0;
            let enough = |&(_, p): &(u32, f64)| {
                sum += p;
                sum >= f64::from(top_p)
            };
            let kept = tokens.iter().position(enough).map_or(tokens.len(), |last| last + 1);
            tokens.truncate(kept);
            normalise(&mut tokens);
        }
        tokens
    }

    /// Draws a token; returns `None` if no token is possible, for example if all log-probabilities are NaN.
    pub fn draw(&self, log_probabilities: &[f32], random: &mut impl Rng) -> Option<u32> {
        let tokens = self.distribution(log_probabilities);
        let mut left: f64 = StandardUniform.sample(random);
        let falls_here = |&&(_, p): &&(u32, f64)| {
            left -= p;
            left < 0.0
        };
        // Rounding may leave a remainder after the last token.
        tokens.iter().find(falls_here).or(tokens.last()).map(|&(token, _)| token)
    }
}

fn normalise(tokens: &mut [(u32, f64)]) {
    let sum: f64 = tokens.iter().map(|(_, p)| p).sum();
    tokens.iter_mut().for_each(|(_, p)| *p /= sum);
}

/// Continues each prompt with random tokens, one row of `decoder` and one random generator per prompt. Calls `token` with the
/// index of the prompt for each token drawn. A sequence ends at a token of `options.stop` or after `options.max_len` tokens.
pub fn sample(
    decoder: &mut impl Decoder,
    prompts: &[Vec<u32>],
    options: &SampleOptions,
    random: &mut [impl Rng],
    mut token: impl FnMut(usize, u32),
) -> Result<(), NnError> {
    options.validate()?;
    if random.len() != prompts.len() {
        let expected = format!("{}, one per prompt", prompts.len());
        return Err(NnError::input("random generators", expected, random.len().to_string()));
    }
    if options.max_len == 0 || prompts.is_empty() {
        return Ok(());
    }
    let mut found = decoder.begin(prompts)?;
    // The prompt of each row of the decoder.
    let mut live: Vec<usize> = (0..prompts.len()).collect();
    for drawn in 1.. {
        let vocab = (found.len() / live.len()).max(1);
        let (mut rows, mut last) = (Vec::new(), Vec::new());
        for (row, (&prompt, log_probabilities)) in live.iter().zip(found.chunks(vocab)).enumerate() {
            let Some(next) = options.draw(log_probabilities, &mut random[prompt]) else {
                return Err(NnError::input("log-probabilities", "at least one possible token", "none"));
            };
            if !options.stop.contains(&next) {
                token(prompt, next);
                rows.push(row);
                last.push(next);
            }
        }
        if drawn == options.max_len || rows.is_empty() {
            return Ok(());
        }
        if rows.len() < live.len() {
            decoder.select(&rows)?;
            live = rows.iter().map(|&row| live[row]).collect();
        }
        found = decoder.next(&last)?;
    }
    Ok(())
}
