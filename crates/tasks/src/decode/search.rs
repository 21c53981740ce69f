//! Search for the most probable sequence: greedy, or with a beam of hypotheses.

use regard_nn::{ConfigError, NnError};
use serde::{Deserialize, Serialize};

use super::Decoder;

/// How a sequence ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// The end token was chosen.
    End,
    /// The length limit was reached, or no token could follow.
    Cut,
}

/// A sequence found by a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Hypothesis {
    /// Tokens without start and end.
    pub tokens: Vec<u32>,
    /// Log-probability of all tokens, including the end token if there is one.
    pub log_probability: f64,
    /// Score by which hypotheses are compared: the log-probability divided by the length penalty.
    pub score: f64,
    /// How the sequence ended.
    pub ending: Ending,
}

/// The width of a beam search and its preference for long sequences.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BeamOptions {
    /// Number of hypotheses kept at each step; with 1 the search is greedy.
    pub size: usize,
    /// Length penalty `α`: the score is `log p / ((5 + length) / 6)^α` (Wu 2016), where the end counts as a token. With 0,
    /// probabilities are compared, which favours short sequences.
    pub length_penalty: f64,
}

impl Default for BeamOptions {
    fn default() -> Self {
        Self { size: 4, length_penalty: 0.6 }
    }
}

impl BeamOptions {
    /// Returns an error if a value is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !(1..=1_024).contains(&self.size) {
            return Err(ConfigError::new("size", self.size, "a whole number from 1 to 1024"));
        }
        if !(0.0..=100.0).contains(&self.length_penalty) {
            return Err(ConfigError::new("length_penalty", self.length_penalty, "a number from 0 to 100"));
        }
        Ok(())
    }

    fn finish(&self, tokens: Vec<u32>, log_probability: f64, ending: Ending) -> Hypothesis {
        let length = tokens.len() + usize::from(ending == Ending::End);
        let score = log_probability / ((5.0 + length as f64) / 6.0).powf(self.length_penalty);
        Hypothesis { tokens, log_probability, score, ending }
    }
}

/// Takes the most probable token at each step, until it is `end` or the row has as many tokens as `max_len` allows it.
pub fn greedy(decoder: &mut impl Decoder, start: u32, end: u32, max_len: &[usize]) -> Result<Vec<Hypothesis>, NnError> {
    let options = BeamOptions { size: 1, length_penalty: 0.0 };
    let found = beam(decoder, start, end, max_len, &options)?;
    Ok(found.into_iter().flatten().collect())
}

/// Returns the best sequences of each row, at least one and at most `options.size`: ended ones before cut ones, each by
/// descending score.
///
/// At each step every hypothesis is continued by every token, and the `size` most probable continuations are kept. A
/// continuation by `end` that is among the first `size` is finished. A row is finished when `size` of its hypotheses are, or at
/// its limit.
pub fn beam(
    decoder: &mut impl Decoder,
    start: u32,
    end: u32,
    max_len: &[usize],
    options: &BeamOptions,
) -> Result<Vec<Vec<Hypothesis>>, NnError> {
    options.validate()?;
    if max_len.len() != decoder.rows() {
        return Err(NnError::input("max_len", format!("{}, one per row", decoder.rows()), max_len.len().to_string()));
    }
    let mut sentences: Vec<Sentence> = max_len.iter().map(|&limit| Sentence::new(limit, options)).collect();
    // The decoder rows to continue, and the next token of each.
    let mut rows: Vec<usize> = (0..max_len.len()).filter(|&row| max_len[row] > 0).collect();
    let mut last = vec![start; rows.len()];
    let mut before = max_len.len();
    while !rows.is_empty() {
        if rows.len() != before || rows.iter().enumerate().any(|(i, &row)| i != row) {
            decoder.select(&rows)?;
        }
        before = rows.len();
        let log_probabilities = decoder.next(&last)?;
        let vocab = log_probabilities.len() / before;
        if vocab == 0 || vocab * before != log_probabilities.len() {
            let expected = format!("{before} rows of at least one");
            return Err(NnError::input("log-probabilities", expected, log_probabilities.len().to_string()));
        }
        (rows, last) = (Vec::new(), Vec::new());
        let mut remaining = log_probabilities.chunks_exact(vocab).enumerate();
        for sentence in sentences.iter_mut().filter(|sentence| !sentence.live.is_empty()) {
            let own: Vec<(usize, &[f32])> = remaining.by_ref().take(sentence.live.len()).collect();
            sentence.advance(&own, end, options);
            for live in &sentence.live {
                rows.push(live.row);
                last.extend(live.tokens.last());
            }
        }
    }
    Ok(sentences.into_iter().map(|sentence| sentence.best(options.size)).collect())
}

/// The hypotheses of one row of the initial batch.
struct Sentence {
    limit: usize,
    live: Vec<Live>,
    done: Vec<Hypothesis>,
}

/// An unfinished hypothesis.
#[derive(Debug, Clone)]
struct Live {
    tokens: Vec<u32>,
    log_probability: f64,
    /// Row of the decoder that it continues.
    row: usize,
}

impl Sentence {
    fn new(limit: usize, options: &BeamOptions) -> Self {
        let empty = Live { tokens: Vec::new(), log_probability: 0.0, row: 0 };
        match limit {
            0 => Self { limit, live: Vec::new(), done: vec![options.finish(Vec::new(), 0.0, Ending::Cut)] },
            _ => Self { limit, live: vec![empty], done: Vec::new() },
        }
    }

    /// Makes one step. `next` has, for each live hypothesis, the decoder row and the log-probabilities of the next token.
    fn advance(&mut self, next: &[(usize, &[f32])], end: u32, options: &BeamOptions) {
        // At most `size` continuations and the end of one hypothesis can be kept.
        let mut candidates: Vec<(f64, usize, u32)> = Vec::new();
        for (parent, (live, (_, row))) in self.live.iter().zip(next).enumerate() {
            let best = most_probable(row, options.size + 1).into_iter();
            candidates.extend(best.map(|(token, x)| (live.log_probability + f64::from(x), parent, token)));
        }
        // Ties go to the first hypothesis and the first token, so that no result depends on the sorting algorithm.
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        let mut live = Vec::with_capacity(options.size);
        for (rank, &(log_probability, parent, token)) in candidates.iter().enumerate() {
            if token == end {
                if rank < options.size {
                    let tokens = self.live[parent].tokens.clone();
                    self.done.push(options.finish(tokens, log_probability, Ending::End));
                }
            } else if live.len() < options.size {
                let mut tokens = self.live[parent].tokens.clone();
                tokens.push(token);
                live.push(Live { tokens, log_probability, row: next[parent].0 });
            }
        }
        if live.is_empty() && self.done.is_empty() {
            // No token can follow, for example because all are NaN: keep the hypotheses as they are.
            return self.cut(options);
        }
        self.live = live;
        if self.done.len() >= options.size {
            self.live.clear();
        } else if self.live.first().is_some_and(|live| live.tokens.len() >= self.limit) {
            self.cut(options);
        }
    }

    fn cut(&mut self, options: &BeamOptions) {
        let cut = |live: Live| options.finish(live.tokens, live.log_probability, Ending::Cut);
        self.done.extend(self.live.drain(..).map(cut));
    }

    fn best(mut self, size: usize) -> Vec<Hypothesis> {
        self.done.sort_by(|a, b| a.ending.cmp(&b.ending).then(b.score.total_cmp(&a.score)));
        self.done.truncate(size);
        self.done
    }
}

/// Returns the `count` most probable tokens in descending order, ties by token, without impossible tokens and NaN.
fn most_probable(row: &[f32], count: usize) -> Vec<(u32, f32)> {
    let mut best: Vec<(u32, f32)> = Vec::with_capacity(count.min(row.len()) + 1);
    for (token, &x) in row.iter().enumerate() {
        let least = if best.len() < count { f32::NEG_INFINITY } else { best[count - 1].1 };
        if x > least {
            let place = best.partition_point(|&(_, other)| other >= x);
            best.insert(place, (token as u32, x));
            best.truncate(count);
        }
    }
    best
}
