//! Texts that a language model writes at the same time. They join and leave between steps, and each gets the tokens that it
//! would get alone.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use regard_nn::models::language_model::LanguageModel;
use regard_nn::{NnError, Pass};
use serde_json::Value;

use crate::decode::{Plan, Sequence, Start, Wish, continued};
use crate::error::TaskError;
use crate::generate::writing::{Stops, Writing};

/// Number of tokens of a prompt that are read in one step. A multiple of it always ends a step, whatever else is written, so that
/// the sums over a prompt do not depend on other texts.
pub const CHUNK: usize = 128;

/// What comes before a text.
#[derive(Debug, Clone, PartialEq)]
pub enum Beginning {
    /// Nothing: the model begins.
    Nothing,
    /// A text.
    Text(String),
    /// The ids of tokens, with nothing put around them.
    Tokens(Vec<u32>),
    /// Messages with `role` and `content`, for a model with a chat template.
    Conversation(Vec<Value>),
}

/// A language model that writes texts which join and leave between steps.
pub trait Writer: Send + Sync {
    /// Reads and checks what comes before a text. A text cannot be written with a beam search.
    fn begin(&self, beginning: &Beginning, wish: &Wish, seed: u64) -> Result<Text, TaskError>;

    /// Returns the network.
    fn network(&self) -> &LanguageModel;

    /// Returns the number of tokens that the network may look back on; `None` for all.
    fn window(&self) -> Option<usize>;

    /// Returns the number of first tokens of the vocabulary that are never written.
    fn hidden(&self) -> usize;

    /// Returns the text of tokens.
    fn decode(&self, ids: &[u32]) -> String;

    /// Returns whether the model can answer messages.
    fn has_chat(&self) -> bool;
}

/// Why a text has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A token or a string ended it.
    Stop,
    /// It has as many tokens as it may have.
    Length,
}

/// A token that was drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawn {
    /// The token; `None` if the text ended without one.
    pub token: Option<u32>,
    /// Text that is complete now.
    pub piece: String,
    /// Log-probability of the token by the model, before temperature and rules. 0 unless asked for.
    pub log_probability: f32,
    /// The most probable tokens with their log-probabilities, as many as were asked for.
    pub top: Vec<(u32, f32)>,
    /// Set if the text has ended.
    pub end: Option<End>,
}

impl Drawn {
    /// Creates a piece of text whose token is not known.
    pub fn piece(piece: &str) -> Self {
        Self { token: None, piece: piece.to_string(), log_probability: 0.0, top: Vec::new(), end: None }
    }
}

/// A text that is being written.
#[derive(Debug, Clone)]
pub struct Text {
    start: Start,
    plan: Plan,
    random: ChaCha8Rng,
    sequence: Sequence,
    /// Number of tokens of the beginning and the text that the network has read.
    read: usize,
    written: Vec<u32>,
    writing: Writing,
    stops: Stops,
    /// Number of most probable tokens to list for each token; `None` computes no log-probabilities.
    listed: Option<usize>,
}

impl Text {
    /// Creates a text after a start.
    pub(crate) fn new(writer: &dyn Writer, start: Start, plan: Plan, seed: u64) -> Result<Self, TaskError> {
        if plan.beams > 1 {
            let what = "be written together with others by a beam search".to_string();
            return Err(TaskError::Unsupported { task: "generate", what });
        }
        plan.validate()?;
        let writing = Writing::after(&|ids| writer.decode(ids), &start.tokens);
        let stops = Stops::new(&plan.stop);
        let random = ChaCha8Rng::seed_from_u64(seed);
        let (sequence, written, listed) = (Sequence::default(), Vec::new(), None);
        Ok(Self { start, plan, random, sequence, read: 0, written, writing, stops, listed })
    }

    /// Lists the `count` most probable tokens with each drawn token.
    pub fn listing(self, count: usize) -> Self {
        Self { listed: Some(count), ..self }
    }

    /// Returns the same text with other random numbers.
    pub fn with_seed(&self, seed: u64) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(seed), ..self.clone() }
    }

    /// Returns the number of tokens before the text.
    pub fn prompt_tokens(&self) -> usize {
        self.start.tokens.len()
    }

    /// Returns the tokens before the text.
    pub(crate) fn into_prompt(self) -> Vec<u32> {
        self.start.tokens
    }

    /// Returns the number of tokens written.
    pub fn written_tokens(&self) -> usize {
        self.written.len()
    }

    /// Returns the largest number of tokens that may be written.
    pub fn limit(&self) -> usize {
        self.start.limit
    }

    /// Returns how many tokens the next step reads: a part of the beginning, or the last token.
    pub fn next_tokens(&self, window: Option<usize>) -> usize {
        let left = self.start.tokens.len() + self.written.len() - self.read;
        // A window holds little, and reads its last half again when it is full.
        if window.is_some() { left } else { left.min(CHUNK - self.read % CHUNK) }
    }

    /// Forgets what the network has read, so that the next steps read everything again.
    pub fn read_again(&mut self) {
        (self.sequence, self.read) = (Sequence::default(), 0);
    }

    /// Returns `count` tokens after those that were read.
    fn unread(&self, count: usize) -> Vec<u32> {
        self.start.tokens.iter().chain(&self.written).skip(self.read).take(count).copied().collect()
    }

    /// Chooses the next token by its logits, which are changed.
    pub fn draw(&mut self, writer: &dyn Writer, logits: &mut [f32]) -> Result<Drawn, TaskError> {
        logits.iter_mut().take(writer.hidden()).for_each(|x| *x = f32::NEG_INFINITY);
        let listed = self.listed.map(|count| Listed::of(logits, count));
        if !self.plan.rules.are_none() {
            self.plan.rules.apply(&self.start.tokens, &self.written, self.start.limit, logits);
        }
        let next = self.plan.sampling.draw(logits, &mut self.random);
        let none = || NnError::input("logits", "at least one possible token", "none");
        let next = next.ok_or_else(none)?;
        let (log_probability, top) = match listed {
            Some(listed) => (listed.all[next as usize], listed.top),
            None => (0.0, Vec::new()),
        };
        let decode = |ids: &[u32]| writer.decode(ids);
        let mut drawn = Drawn { token: None, piece: String::new(), log_probability, top, end: Some(End::Stop) };
        if !self.plan.sampling.stop.contains(&next) {
            self.written.push(next);
            drawn.token = Some(next);
            if let Some(piece) = self.writing.add(&decode, next) {
                drawn.piece = self.stops.add(&piece);
            }
            drawn.end = match (self.stops.is_over, self.written.len() < self.start.limit) {
                (true, _) => Some(End::Stop),
                (false, true) => None,
                (false, false) => Some(End::Length),
            };
        }
        if drawn.end.is_some() && !self.stops.is_over {
            drawn.piece += &self.stops.end(&self.writing.rest(&decode));
        }
        Ok(drawn)
    }
}

/// Log-probabilities of all tokens, and the most probable ones.
struct Listed {
    all: Vec<f32>,
    top: Vec<(u32, f32)>,
}

impl Listed {
    fn of(logits: &[f32], count: usize) -> Self {
        let most = logits.iter().fold(f32::NEG_INFINITY, |most, &x| most.max(x));
        let sum: f64 = logits.iter().map(|&x| f64::from(x - most).exp()).sum();
        let all: Vec<f32> = logits.iter().map(|&x| (f64::from(x - most) - sum.ln()) as f32).collect();
        let mut order: Vec<u32> = (0..all.len() as u32).collect();
        order.sort_by(|&a, &b| all[b as usize].total_cmp(&all[a as usize]).then(a.cmp(&b)));
        let top = order.into_iter().take(count).map(|token| (token, all[token as usize])).collect();
        Self { all, top }
    }
}

/// Makes one step of each text: reads the next part of its beginning, or its last token. Returns the logits of the next token, to
/// be [drawn](Text::draw), or `None` for a text that has more to read. After an error the texts must be
/// [read again](Text::read_again).
pub fn read(writer: &dyn Writer, texts: &mut [&mut Text], pass: &Pass) -> Result<Vec<Option<Vec<f32>>>, TaskError> {
    let window = writer.window();
    let new: Vec<Vec<u32>> = texts.iter().map(|text| text.unread(text.next_tokens(window))).collect();
    let tokens: Vec<&[u32]> = new.iter().map(Vec::as_slice).collect();
    let mut sequences: Vec<&mut Sequence> = texts.iter_mut().map(|text| &mut text.sequence).collect();
    let logits = continued(writer.network(), &mut sequences, &tokens, window, pass)?;
    let vocab = (logits.len() / texts.len().max(1)).max(1);
    let mut found = Vec::with_capacity(texts.len());
    for ((text, new), logits) in texts.iter_mut().zip(&new).zip(logits.chunks(vocab)) {
        text.read += new.len();
        let is_read = text.read == text.start.tokens.len() + text.written.len();
        found.push(is_read.then(|| logits.to_vec()));
    }
    Ok(found)
}

/// Returns how many bytes the cache of a text can take in a network, for all tokens that it may have.
pub fn cache_bytes(writer: &dyn Writer, text: &Text) -> usize {
    let tokens = (text.start.tokens.len() + text.start.limit).min(writer.window().unwrap_or(usize::MAX));
    // Caches grow by doubling.
    tokens.next_power_of_two().saturating_mul(writer.network().cached_numbers()).saturating_mul(size_of::<f32>())
}
