//! Search for the most probable sequence: greedy, or with a beam of hypotheses.

use regard_kernels::softmax::log_softmax_forward;
use regard_nn::{ConfigError, NnError};
use serde::{Deserialize, Serialize};

use super::rules::normalise;
use super::{Decoder, Rules, Start, Summed};

/// How a sequence ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// An end token was chosen.
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
}

/// How a search compares hypotheses and when it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranking {
    /// By `log p / ((5 + length) / 6)^α` (Wu 2016). A search stops when as many hypotheses have ended as are kept at each step;
    /// those cut at the limit come after those that have ended.
    Wu,
    /// By `log p / length^α`, as `transformers` does. Hypotheses cut at the limit are compared with those that have ended.
    Power(Patience),
}

/// When a search of [`Ranking::Power`] stops, `early_stopping` of `transformers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// When as many hypotheses have ended as are kept at each step.
    Enough,
    /// When they have, and the best that goes on would have a lower score than all of them if it ended now.
    Now,
    /// When they have, and the best that goes on could not have a higher score at any length.
    Ever,
}

/// Options of [`search`].
#[derive(Debug, Clone, PartialEq)]
pub struct SearchOptions {
    /// Number of hypotheses kept at each step.
    pub size: usize,
    /// Length penalty `α`; may be negative with [`Ranking::Power`].
    pub length_penalty: f64,
    /// How hypotheses are compared.
    pub ranking: Ranking,
    /// Tokens that end a sequence.
    pub ends: Vec<u32>,
    /// Rules about the next token.
    pub rules: Rules,
}

impl SearchOptions {
    fn score(&self, log_probability: f64, length: usize) -> f64 {
        let length = length as f64;
        match self.ranking {
            Ranking::Wu => log_probability / ((5.0 + length) / 6.0).powf(self.length_penalty),
            Ranking::Power(_) => log_probability / length.max(1.0).powf(self.length_penalty),
        }
    }

    fn finish(&self, tokens: Vec<u32>, log_probability: f64, ending: Ending) -> Hypothesis {
        let length = tokens.len() + usize::from(ending == Ending::End);
        let score = self.score(log_probability, length);
        Hypothesis { tokens, log_probability, score, ending }
    }
}

/// Takes the most probable token at each step, until it is `end` or the row has as many tokens as `max_len` allows it.
pub fn greedy(decoder: &mut impl Decoder, start: u32, end: u32, max_len: &[usize]) -> Result<Vec<Hypothesis>, NnError> {
    let options = BeamOptions { size: 1, length_penalty: 0.0 };
    let found = beam(decoder, start, end, max_len, &options)?;
    Ok(found.into_iter().flatten().collect())
}

/// Returns the best sequences of each row after the token `start`, at least one and at most `options.size`, as [`search`] with
/// [`Ranking::Wu`] does.
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
    let starts: Vec<Start> = max_len.iter().map(|&limit| Start { tokens: vec![start], limit }).collect();
    let &BeamOptions { size, length_penalty } = options;
    let options =
        SearchOptions { size, length_penalty, ranking: Ranking::Wu, ends: vec![end], rules: Rules::default() };
    search(decoder, &starts, &options, |_| false)
}

/// Returns the best sequences after each start, at least one and at most `options.size`.
///
/// At each step every hypothesis is continued by every token, and the `size` most probable continuations are kept. A
/// continuation by an end token, or one for which `is_over` returns true, is finished if it is among the first `size`.
pub fn search(
    decoder: &mut impl Decoder,
    starts: &[Start],
    options: &SearchOptions,
    is_over: impl Fn(&[u32]) -> bool,
) -> Result<Vec<Vec<Hypothesis>>, NnError> {
    options.rules.validate()?;
    let mut sentences: Vec<Sentence> = starts.iter().map(|start| Sentence::new(start, options)).collect();
    // The decoder rows to continue, and the next token of each.
    let mut rows: Vec<usize> = (0..starts.len()).filter(|&row| starts[row].limit > 0).collect();
    if rows.is_empty() {
        return Ok(sentences.into_iter().map(|sentence| sentence.best(options)).collect());
    }
    if rows.len() < starts.len() {
        decoder.select(&rows)?;
    }
    let prompts: Vec<Vec<u32>> = rows.iter().map(|&row| starts[row].tokens.clone()).collect();
    let mut logits = decoder.begin(&prompts)?;
    loop {
        let before = rows.len();
        let vocab = logits.len() / before;
        if vocab == 0 || vocab * before != logits.len() {
            return Err(NnError::input("logits", format!("{before} rows of at least one"), logits.len().to_string()));
        }
        let mut log_probabilities = vec![0.0; logits.len()];
        log_softmax_forward(&logits, vocab, &mut log_probabilities)
            .map_err(|error| NnError::input("logits", "numbers", error.to_string()))?;
        let mut last = Vec::new();
        rows.clear();
        let mut remaining = log_probabilities.chunks_exact_mut(vocab).enumerate();
        for sentence in sentences.iter_mut().filter(|sentence| !sentence.live.is_empty()) {
            let own: Vec<(usize, &mut [f32])> = remaining.by_ref().take(sentence.live.len()).collect();
            sentence.advance(own, options, &is_over);
            for live in &sentence.live {
                rows.push(live.row);
                last.extend(live.tokens.last());
            }
        }
        if rows.is_empty() {
            return Ok(sentences.into_iter().map(|sentence| sentence.best(options)).collect());
        }
        if rows.len() != before || rows.iter().enumerate().any(|(i, &row)| i != row) {
            decoder.select(&rows)?;
        }
        logits = decoder.next(&last)?;
    }
}

/// The hypotheses of one row of the initial batch.
struct Sentence<'a> {
    start: &'a Start,
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

impl<'a> Sentence<'a> {
    fn new(start: &'a Start, options: &SearchOptions) -> Self {
        let empty = Live { tokens: Vec::new(), log_probability: 0.0, row: 0 };
        match start.limit {
            0 => Self { start, live: Vec::new(), done: vec![options.finish(Vec::new(), 0.0, Ending::Cut)] },
            _ => Self { start, live: vec![empty], done: Vec::new() },
        }
    }

    /// Makes one step. `next` has, for each live hypothesis, the decoder row and the log-probabilities of the next token.
    fn advance(&mut self, next: Vec<(usize, &mut [f32])>, options: &SearchOptions, is_over: &impl Fn(&[u32]) -> bool) {
        // At most `size` continuations and the ends of one hypothesis can be kept.
        let count = options.size + options.ends.len().max(1);
        let mut candidates: Vec<(f64, usize, u32)> = Vec::new();
        let rows: Vec<usize> = next.iter().map(|(row, _)| *row).collect();
        for (parent, (live, (_, row))) in self.live.iter().zip(next).enumerate() {
            if !options.rules.are_none() {
                options.rules.apply(&self.start.tokens, &live.tokens, self.start.limit, row);
                if options.rules.summed == Summed::Normalised {
                    normalise(row);
                }
            }
            let best = most_probable(row, count).into_iter();
            candidates.extend(best.map(|(token, x)| (live.log_probability + f64::from(x), parent, token)));
        }
        // Ties go to the first hypothesis and the first token, so that no result depends on the sorting algorithm.
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
        let mut live = Vec::with_capacity(options.size);
        // Number of live hypotheses among the first `size` candidates.
        let mut first = 0;
        for (rank, &(log_probability, parent, token)) in candidates.iter().enumerate() {
            if live.len() == options.size && rank >= options.size {
                break;
            }
            let mut tokens = self.live[parent].tokens.clone();
            if options.ends.contains(&token) {
                if rank < options.size {
                    self.done.push(options.finish(tokens, log_probability, Ending::End));
                }
                continue;
            }
            tokens.push(token);
            if is_over(&tokens) {
                if rank < options.size {
                    self.done.push(options.finish(tokens, log_probability, Ending::Cut));
                }
            } else if live.len() < options.size {
                first += usize::from(rank < options.size);
                live.push(Live { tokens, log_probability, row: rows[parent] });
            }
        }
        if live.is_empty() && self.done.is_empty() {
            // No token can follow, for example because all are NaN: keep the hypotheses as they are.
            return self.cut(options);
        }
        self.live = live;
        let is_at_limit = self.live.first().is_some_and(|live| live.tokens.len() >= self.start.limit);
        if options.ranking != Ranking::Wu {
            if is_at_limit {
                self.live.truncate(first);
                self.cut(options);
            }
            self.done.sort_by(|a, b| b.score.total_cmp(&a.score));
            self.done.truncate(options.size);
        }
        if self.is_settled(options) {
            self.live.clear();
        } else if is_at_limit {
            self.cut(options);
        }
    }

    /// Returns whether the finished hypotheses are the result.
    fn is_settled(&self, options: &SearchOptions) -> bool {
        if self.done.len() < options.size {
            return false;
        }
        let Ranking::Power(patience) = options.ranking else { return true };
        let Some(best) = self.live.first() else { return true };
        let length = match patience {
            Patience::Enough => return true,
            Patience::Ever if options.length_penalty > 0.0 => self.start.limit,
            Patience::Now | Patience::Ever => best.tokens.len(),
        };
        let worst = self.done.last().map_or(f64::NEG_INFINITY, |done| done.score);
        options.score(best.log_probability, length) <= worst
    }

    fn cut(&mut self, options: &SearchOptions) {
        let cut = |live: Live| options.finish(live.tokens, live.log_probability, Ending::Cut);
        self.done.extend(self.live.drain(..).map(cut));
    }

    fn best(mut self, options: &SearchOptions) -> Vec<Hypothesis> {
        let is_apart = options.ranking == Ranking::Wu;
        self.done.sort_by(|a, b| {
            let ending = if is_apart { a.ending.cmp(&b.ending) } else { std::cmp::Ordering::Equal };
            ending.then(b.score.total_cmp(&a.score))
        });
        self.done.truncate(options.size);
        self.done
    }
}

/// Returns the `count` most probable tokens in descending order, ties by token, without impossible tokens and NaN.
fn most_probable(row: &[f32], count: usize) -> Vec<(u32, f32)> {
    let mut best: Vec<(u32, f32)> = Vec::with_capacity(count.min(row.len()) + 1);
    let mut least = f32::NEG_INFINITY;
    for (token, &x) in row.iter().enumerate() {
        if x > least {
            let place = best.partition_point(|&(_, other)| other >= x);
            best.insert(place, (token as u32, x));
            best.truncate(count);
            if best.len() == count {
                least = best[count - 1].1;
            }
        }
    }
    best
}
