//! Sampling: each token is drawn from its distribution, with temperature, top-k and top-p.

use rand::Rng;
use rand_distr::{Distribution, StandardUniform};
use regard_nn::{ConfigError, NnError};
use serde::{Deserialize, Serialize};

use super::{Decoder, Rules, Start};

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
        if self.temperature == 0.0 {
            return most_probable(log_probabilities);
        }
        let drawn: f64 = StandardUniform.sample(random);
        if self.top_k.is_some() {
            let tokens = self.distribution(log_probabilities);
            let mut left = drawn;
            let falls_here = |&&(_, p): &&(u32, f64)| {
                left -= p;
                left < 0.0
            };
            // Rounding may leave a remainder after the last token.
            return tokens.iter().find(falls_here).or(tokens.last()).map(|&(token, _)| token);
        }
        self.draw_from_all(log_probabilities, drawn)
    }

    /// Draws from all tokens without sorting those that are less probable than the drawn one.
    fn draw_from_all(&self, log_probabilities: &[f32], drawn: f64) -> Option<u32> {
        let largest = log_probabilities[most_probable(log_probabilities)? as usize];
        let temperature = self.temperature;
        let weigh = |(token, &x): (usize, &f32)| (token as u32, ((x - largest) / temperature).exp());
        let mut tokens: Vec<(u32, f32)> =
            log_probabilities.iter().enumerate().filter(|(_, x)| **x > f32::NEG_INFINITY).map(weigh).collect();
        let order = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        let total: f64 = tokens.iter().map(|&(_, p)| f64::from(p)).sum();
        let (mut sorted, mut sum, mut kept) = (0, 0.0, None);
        let mut goal = drawn * total;
        for at in 0..tokens.len() {
            if at == sorted {
                // The next most probable tokens, in groups that grow.
                let group = (3 * sorted).max(64).min(tokens.len() - sorted);
                let rest = &mut tokens[sorted..];
                if group < rest.len() {
                    rest.select_nth_unstable_by(group, order);
                }
                rest[..group].sort_by(order);
                sorted += group;
            }
            sum += f64::from(tokens[at].1);
            match self.top_p {
                // The tokens that may be drawn must be known before one is.
                Some(top_p) if sum >= f64::from(top_p) * total => {
                    kept = Some(at + 1);
                    goal = drawn * sum;
                    break;
                }
                Some(_) => {}
                None if sum > goal => return Some(tokens[at].0),
                None => {}
            }
        }
        let kept = &tokens[..kept.unwrap_or(tokens.len())];
        let mut sum = 0.0;
        let falls_here = |&&(_, p): &&(u32, f32)| {
            sum += f64::from(p);
            sum > goal
        };
        kept.iter().find(falls_here).or(kept.last()).map(|&(token, _)| token)
    }
}

/// Returns the most probable token, the first of several.
fn most_probable(log_probabilities: &[f32]) -> Option<u32> {
    let mut best: Option<(usize, f32)> = None;
    for (token, &x) in log_probabilities.iter().enumerate() {
        if x > best.map_or(f32::NEG_INFINITY, |(_, most)| most) {
            best = Some((token, x));
        }
    }
    best.map(|(token, _)| token as u32)
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
    let start = |prompt: &Vec<u32>| Start { tokens: prompt.clone(), limit: options.max_len };
    let starts: Vec<Start> = prompts.iter().map(start).collect();
    sample_by_rules(decoder, &starts, options, &Rules::default(), random, |prompt, next| {
        token(prompt, next);
        Next::Continue
    })
}

/// Whether a sequence goes on after a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another token follows.
    Continue,
    /// The sequence is over.
    Stop,
}

/// Same as [`sample`] with a limit for each start, which `options.max_len` does not change, with rules about the next token, and
/// until `token` returns [`Next::Stop`].
pub fn sample_by_rules(
    decoder: &mut impl Decoder,
    starts: &[Start],
    options: &SampleOptions,
    rules: &Rules,
    random: &mut [impl Rng],
    mut token: impl FnMut(usize, u32) -> Next,
) -> Result<(), NnError> {
    options.validate()?;
    rules.validate()?;
    if random.len() != starts.len() {
        let expected = format!("{}, one per prompt", starts.len());
        return Err(NnError::input("random generators", expected, random.len().to_string()));
    }
    // The start of each row of the decoder.
    let mut live: Vec<usize> = (0..starts.len()).filter(|&row| starts[row].limit > 0).collect();
    if live.is_empty() {
        return Ok(());
    }
    if live.len() < starts.len() {
        decoder.select(&live)?;
    }
    let mut found = decoder.begin(&live.iter().map(|&row| starts[row].tokens.clone()).collect::<Vec<_>>())?;
    let mut written = vec![Vec::new(); starts.len()];
    loop {
        let vocab = (found.len() / live.len()).max(1);
        let (mut rows, mut last) = (Vec::new(), Vec::new());
        for (row, (&at, logits)) in live.iter().zip(found.chunks_mut(vocab)).enumerate() {
            let (start, written) = (&starts[at], &mut written[at]);
            if !rules.are_none() {
                rules.apply(&start.tokens, written, start.limit, logits);
            }
            let Some(next) = options.draw(logits, &mut random[at]) else {
                return Err(NnError::input("logits", "at least one possible token", "none"));
            };
            if options.stop.contains(&next) {
                continue;
            }
            written.push(next);
            if token(at, next) == Next::Continue && written.len() < start.limit {
                rows.push(row);
                last.push(next);
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
        if rows.len() < live.len() {
            decoder.select(&rows)?;
            live = rows.iter().map(|&row| live[row]).collect();
        }
        found = decoder.next(&last)?;
    }
}
