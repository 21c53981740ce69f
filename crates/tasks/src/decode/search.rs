//! The best sequence: word by word, or with several hypotheses side by side.

use regard_nn::{ConfigError, NnError};
use serde::{Deserialize, Serialize};

use super::Decoder;

/// How a sequence ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// By the token for it.
    End,
    /// By its limit, or because nothing could follow.
    Cut,
}

/// A sequence that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hypothesis {
    /// Without those of start and end.
    pub tokens: Vec<u32>,
    /// The log-probability of all tokens and, if there is one, of the end.
    pub log_probability: f64,
    /// By which hypotheses are compared: with a length penalty less than the log-probability.
    pub score: f64,
    /// How it ended.
    pub ending: Ending,
}

/// How wide to search, and what a long sequence is worth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BeamOptions {
    /// Hypotheses side by side; with 1 the search is greedy.
    pub size: usize,
    /// `α`: a score is `log p / ((5 + length) / 6)^α` (Wu 2016), the end counting as a token. 0 compares probabilities,
    /// which favours the short.
    pub length_penalty: f64,
}

impl Default for BeamOptions {
    fn default() -> Self {
        Self { size: 4, length_penalty: 0.6 }
    }
}

impl BeamOptions {
    /// Refuses what makes no sense.
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

/// The most probable token at each step, until it is `end` or a sequence has its `max_len` tokens; one limit a row.
pub fn greedy(decoder: &mut impl Decoder, start: u32, end: u32, max_len: &[usize]) -> Result<Vec<Hypothesis>, NnError> {
    let options = BeamOptions { size: 1, length_penalty: 0.0 };
    let found = beam(decoder, start, end, max_len, &options)?;
    Ok(found.into_iter().flatten().collect())
}

/// The best sequences of each row, at least one and at most `options.size`: those that ended before those that were cut,
/// the best score first.
///
/// At each step every hypothesis is continued by every token, and the most probable continuations go on, `size` of them;
/// one by `end` that is among the first `size` is done. A row is done when `size` of its hypotheses are, or at its limit.
pub fn beam(
    decoder: &mut impl Decoder,
    start: u32,
    end: u32,
    max_len: &[usize],
    options: &BeamOptions,
) -> Result<Vec<Vec<Hypothesis>>, NnError> {
    options.validate()?;
    if max_len.len() != decoder.rows() {
        return Err(NnError::input("max_len", format!("{}, one a row", decoder.rows()), max_len.len().to_string()));
    }
    let mut sentences: Vec<Sentence> = max_len.iter().map(|&limit| Sentence::new(limit, options)).collect();
    // The token each row of the decoder takes in next, and the rows it goes on with.
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

/// The hypotheses of one row of the start.
struct Sentence {
    limit: usize,
    live: Vec<Live>,
    done: Vec<Hypothesis>,
}

/// A hypothesis that goes on.
#[derive(Debug, Clone)]
struct Live {
    tokens: Vec<u32>,
    log_probability: f64,
    /// The decoder's row that it continues.
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

    /// One step, from the log-probabilities of each live hypothesis' next token and the decoder's row they come from.
    fn advance(&mut self, next: &[(usize, &[f32])], end: u32, options: &BeamOptions) {
        // `size` continuations and the end: more of one hypothesis can neither go on nor be done.
        let mut candidates: Vec<(f64, usize, u32)> = Vec::new();
        for (parent, (live, (_, row))) in self.live.iter().zip(next).enumerate() {
            let best = most_probable(row, options.size + 1).into_iter();
            candidates.extend(best.map(|(token, x)| (live.log_probability + f64::from(x), parent, token)));
        }
        // Among equals the first hypothesis and the first token: no result depends on the sort.
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
            // Nothing can follow, as where all is NaN: what there is must do.
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

/// The tokens with the largest log-probabilities, the largest first, the first of equals first; impossible ones and NaN
/// never.
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
