//! Decoders of the models. None of them records a graph for gradients.

use burn::tensor::{Device, Int, Tensor};
use regard_nn::layers::attention::cache::AttentionCache;
use regard_nn::layers::recurrent::RecurrentState;
use regard_nn::models::language_model::LanguageModel;
use regard_nn::models::recurrent_language_model::RecurrentLanguageModel;
use regard_nn::models::recurrent_writer::{RecurrentSource, RecurrentWriter, WriterState};
use regard_nn::models::transformer_writer::{TransformerSource, TransformerWriter};
use regard_nn::{NnError, Pass, row_indices};

use super::sequence::{Sequence, check_tokens, continued, last_logits};
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
    rows: Vec<Sequence>,
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
        Ok(Self { rows: vec![Sequence::default(); rows], window, model, pass })
    }
}

impl Decoder for LanguageModelDecoder<'_> {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn next(&mut self, last: &[u32]) -> Result<Vec<f32>, NnError> {
        check_rows(last, self.rows())?;
        self.begin(&last.iter().map(|&token| vec![token]).collect::<Vec<_>>())
    }

    fn select(&mut self, rows: &[usize]) -> Result<(), NnError> {
        check_selection(rows, self.rows())?;
        self.rows = rows.iter().map(|&row| self.rows[row].clone()).collect();
        Ok(())
    }

    fn begin(&mut self, prompts: &[Vec<u32>]) -> Result<Vec<f32>, NnError> {
        check_prompts(prompts, self.rows())?;
        let new: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
        let mut rows: Vec<&mut Sequence> = self.rows.iter_mut().collect();
        continued(self.model, &mut rows, &new, self.window, &self.pass)
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
