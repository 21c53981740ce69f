//! Decoders of the models. None of them records a graph for gradients.

use burn::tensor::{Device, Int, Tensor};
use regard_nn::layers::attention::cache::AttentionCache;
use regard_nn::layers::recurrent::RecurrentState;
use regard_nn::models::language_model::LanguageModel;
use regard_nn::models::recurrent_language_model::RecurrentLanguageModel;
use regard_nn::models::recurrent_writer::{RecurrentSource, RecurrentWriter, WriterState};
use regard_nn::models::transformer_writer::{TransformerSource, TransformerWriter};
use regard_nn::{NnError, Pass, row_indices};

use super::{Decoder, check_prompts};
use crate::rows::{device_of, matrix};

/// Decoder of a Transformer that writes a sentence from a source, with a cache of keys and values.
#[derive(Debug)]
pub struct TransformerDecoder<'a> {
    model: TransformerWriter<'a>,
    sources: Encoded<TransformerSource>,
    caches: Vec<AttentionCache>,
    device: Device,
    pass: Pass<'a>,
}

impl<'a> TransformerDecoder<'a> {
    /// Creates a decoder with one row per source.
    pub fn new(model: TransformerWriter<'a>, source: TransformerSource, pass: Pass<'a>) -> Self {
        let device = source.device();
        let sources = Encoded::new(source.batch(), source);
        Self { caches: model.caches(), device, model, sources, pass }
    }
}

impl Decoder for TransformerDecoder<'_> {
    fn rows(&self) -> usize {
        self.sources.rows.len()
    }

    fn next(&mut self, last: &[u32]) -> Result<Vec<f32>, NnError> {
        self.pass.check_cancelled()?;
        let ids = column(last, self.rows(), &self.device)?;
        let logits = self.model.logits_cached(&self.sources.current, ids, &mut self.caches, &self.pass)?;
        last_logits(logits)
    }

    fn select(&mut self, rows: &[usize]) -> Result<(), NnError> {
        let indices = row_indices(rows, self.rows(), &self.device)?;
        self.caches.iter_mut().filter(|cache| !cache.is_empty()).for_each(|cache| cache.select(indices.clone()));
        self.sources.select(rows, TransformerSource::select)
    }
}

/// Decoder of a recurrent network that writes a sentence from a source.
#[derive(Debug)]
pub struct RecurrentDecoder<'a> {
    model: RecurrentWriter<'a>,
    sources: Encoded<RecurrentSource>,
    state: WriterState,
    device: Device,
    pass: Pass<'a>,
}

impl<'a> RecurrentDecoder<'a> {
    /// Creates a decoder with one row per source.
    pub fn new(model: RecurrentWriter<'a>, source: RecurrentSource, pass: Pass<'a>) -> Self {
        let (state, device) = (model.start(&source).detach(), source.device());
        Self { model, sources: Encoded::new(source.batch(), source), state, device, pass }
    }
}

impl Decoder for RecurrentDecoder<'_> {
    fn rows(&self) -> usize {
        self.sources.rows.len()
    }

    fn next(&mut self, last: &[u32]) -> Result<Vec<f32>, NnError> {
        self.pass.check_cancelled()?;
        let ids = column(last, self.rows(), &self.device)?.squeeze_dim(1);
        let logits = self.model.step(&self.sources.current, ids, &mut self.state, &self.pass)?;
        self.state = self.state.clone().detach();
        last_logits(logits.unsqueeze_dim(1))
    }

    fn select(&mut self, rows: &[usize]) -> Result<(), NnError> {
        self.state = self.state.select(rows)?;
        self.sources.select(rows, RecurrentSource::select)
    }
}

/// Decoder of a causal Transformer. Each row has its own cache of keys and values, so that rows may differ in length; the new
/// tokens of all rows go through the model together.
#[derive(Debug)]
pub struct LanguageModelDecoder<'a> {
    model: &'a LanguageModel,
    /// For each block, one cache per row.
    caches: Vec<Vec<(AttentionCache, usize)>>,
    /// Latest tokens of each row, at most `window`; none without a window.
    read: Vec<Vec<u32>>,
    window: Option<usize>,
    pass: Pass<'a>,
}

impl<'a> LanguageModelDecoder<'a> {
    /// Creates a decoder of `rows` empty sequences. With a `window` the model never sees more than that many tokens, as learned
    /// positions require: when the window is full, its last half is read again into a new cache. Without one it sees all tokens.
    pub fn new(model: &'a LanguageModel, rows: usize, window: Option<usize>, pass: Pass<'a>) -> Result<Self, NnError> {
        if let Some(window @ ..2) = window {
            return Err(NnError::input("window", "2 tokens or more", window.to_string()));
        }
        Ok(Self { caches: model.caches_apart(rows), read: vec![Vec::new(); rows], window, model, pass })
    }

    /// Returns how many of a row's last tokens to read when `new` ones have been added; clears its cache if the window is full.
    fn back(&mut self, row: usize, new: usize) -> usize {
        let seen = self.caches.first().map_or(0, |block| block[row].0.len());
        match self.window {
            Some(window) if seen + new > window => {
                self.caches.iter_mut().for_each(|block| block[row].0 = AttentionCache::new());
                // With half a window, a token is read twice on average.
                window.div_ceil(2)
            }
            _ => new,
        }
    }
}

impl Decoder for LanguageModelDecoder<'_> {
    fn rows(&self) -> usize {
        self.read.len()
    }

    fn next(&mut self, last: &[u32]) -> Result<Vec<f32>, NnError> {
        check_rows(last, self.rows())?;
        self.begin(&last.iter().map(|&token| vec![token]).collect::<Vec<_>>())
    }

    fn select(&mut self, rows: &[usize]) -> Result<(), NnError> {
        check_selection(rows, self.rows())?;
        for block in &mut self.caches {
            *block = rows.iter().map(|&row| block[row].clone()).collect();
        }
        self.read = rows.iter().map(|&row| self.read[row].clone()).collect();
        Ok(())
    }

    fn begin(&mut self, prompts: &[Vec<u32>]) -> Result<Vec<f32>, NnError> {
        self.pass.check_cancelled()?;
        check_prompts(prompts, self.rows())?;
        let mut back = Vec::with_capacity(prompts.len());
        for (row, prompt) in prompts.iter().enumerate() {
            check_tokens(prompt)?;
            self.read[row].extend(prompt);
            back.push(self.back(row, prompt.len()));
        }
        let recent = |(read, &back): (&Vec<u32>, &usize)| read[read.len().saturating_sub(back)..].to_vec();
        let new: Vec<Vec<u32>> = self.read.iter().zip(&back).map(recent).collect();
        let new: Vec<&[u32]> = new.iter().map(Vec::as_slice).collect();
        let logits = self.model.logits_apart(&new, &mut self.caches, &self.pass)?;
        for read in &mut self.read {
            let unused = read.len().saturating_sub(self.window.unwrap_or(0));
            read.drain(..unused);
        }
        last_logits(logits.unsqueeze_dim(1))
    }
}

/// Decoder of a recurrent language model.
#[derive(Debug)]
pub struct RecurrentLanguageModelDecoder<'a> {
    model: &'a RecurrentLanguageModel,
    state: RecurrentState,
    device: Device,
    pass: Pass<'a>,
}

impl<'a> RecurrentLanguageModelDecoder<'a> {
    /// Creates a decoder of `rows` empty sequences.
    pub fn new(model: &'a RecurrentLanguageModel, rows: usize, pass: Pass<'a>) -> Self {
        Self { model, state: model.start(rows), device: device_of(model), pass }
    }
}

impl Decoder for RecurrentLanguageModelDecoder<'_> {
    fn rows(&self) -> usize {
        self.state.hidden.dims()[1]
    }

    fn next(&mut self, last: &[u32]) -> Result<Vec<f32>, NnError> {
        self.pass.check_cancelled()?;
        let ids = column(last, self.rows(), &self.device)?;
        let logits = self.model.logits_from(&mut self.state, ids, &self.pass)?;
        self.state = self.state.clone().detach();
        last_logits(logits)
    }

    fn select(&mut self, rows: &[usize]) -> Result<(), NnError> {
        self.state = self.state.select(row_indices(rows, self.rows(), &self.device)?);
        Ok(())
    }

    /// Reads each prompt by itself, because they may differ in length.
    fn begin(&mut self, prompts: &[Vec<u32>]) -> Result<Vec<f32>, NnError> {
        check_prompts(prompts, self.rows())?;
        let (mut states, mut found) = (Vec::with_capacity(prompts.len()), Vec::new());
        for (row, prompt) in prompts.iter().enumerate() {
            self.pass.check_cancelled()?;
            let mut state = self.state.select(row_indices(&[row], self.rows(), &self.device)?);
            let ids = checked(&[prompt.as_slice()], &self.device)?;
            found.extend(last_logits(self.model.logits_from(&mut state, ids, &self.pass)?)?);
            states.push(state.detach());
        }
        self.state = RecurrentState::side_by_side(states);
        Ok(found)
    }
}

/// Encoded sources and the sentence that each row translates. Rows of the same sentence can be reordered without copying its
/// source.
#[derive(Debug)]
struct Encoded<S> {
    current: S,
    /// Sentence of each row.
    rows: Vec<usize>,
}

impl<S> Encoded<S> {
    fn new(batch: usize, source: S) -> Self {
        Self { current: source, rows: (0..batch).collect() }
    }

    /// Keeps these rows of the batch.
    fn select(&mut self, rows: &[usize], select: impl Fn(&S, &[usize]) -> Result<S, NnError>) -> Result<(), NnError> {
        let sentences: Vec<usize> = rows.iter().map(|&row| self.rows[row]).collect();
        if sentences != self.rows {
            self.current = select(&self.current, rows)?;
            self.rows = sentences;
        }
        Ok(())
    }
}

/// Returns an error if a chosen row does not exist.
fn check_selection(chosen: &[usize], rows: usize) -> Result<(), NnError> {
    match chosen.iter().find(|&&row| row >= rows) {
        Some(row) => Err(NnError::input("row", format!("below {rows}"), row.to_string())),
        None => Ok(()),
    }
}

/// Returns an error if a token does not fit the integer type of tensors.
fn check_tokens(tokens: &[u32]) -> Result<(), NnError> {
    match tokens.iter().find(|&&token| i32::try_from(token).is_err()) {
        Some(token) => Err(NnError::input("token", format!("below {}", i32::MAX), token.to_string())),
        None => Ok(()),
    }
}

fn check_rows(last: &[u32], rows: usize) -> Result<(), NnError> {
    if last.len() == rows {
        return Ok(());
    }
    Err(NnError::input("last tokens", format!("{rows}, one per row"), last.len().to_string()))
}

/// Returns the last token of each row as a tensor, `[rows, 1]`.
fn column(last: &[u32], rows: usize, device: &Device) -> Result<Tensor<2, Int>, NnError> {
    check_rows(last, rows)?;
    checked(&last.chunks(1).collect::<Vec<_>>(), device)
}

/// Returns rows of equal length as a tensor, `[rows, tokens]`; refuses ids that are too large.
fn checked(tokens: &[&[u32]], device: &Device) -> Result<Tensor<2, Int>, NnError> {
    tokens.iter().try_for_each(|row| check_tokens(row))?;
    Ok(matrix(tokens, device))
}

/// Returns the logits after the last token: `[rows, tokens, vocab]` → `[rows, vocab]` in row-major order.
fn last_logits(logits: Tensor<3>) -> Result<Vec<f32>, NnError> {
    let [_, tokens, _] = logits.dims();
    let last = if tokens == 1 { logits } else { logits.narrow(1, tokens - 1, 1) };
    let numbers = last.detach().into_data().try_into_vec_as::<f32>();
    numbers.map_err(|error| NnError::input("logits", "numbers", error.to_string()))
}
