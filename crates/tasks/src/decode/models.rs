//! The models as decoders. None of them keeps a record for gradients.

use burn::tensor::{Device, Int, Tensor, TensorData};
use regard_nn::layers::attention::cache::KeyValueCache;
use regard_nn::layers::recurrent::RecurrentState;
use regard_nn::models::encoder_decoder::{EncodedSource, EncoderDecoder};
use regard_nn::models::language_model::LanguageModel;
use regard_nn::models::recurrent_language_model::RecurrentLanguageModel;
use regard_nn::models::recurrent_translator::{DecoderState, EncodedSentences, RecurrentTranslator};
use regard_nn::{NnError, Pass, row_indices};
use regard_ops::log_softmax;

use super::Decoder;
use crate::rows::device_of;

/// A Transformer that translates, with the keys and values of earlier tokens kept.
#[derive(Debug)]
pub struct TranslatorDecoder<'a> {
    model: &'a EncoderDecoder,
    sources: Encoded<EncodedSource>,
    caches: Vec<KeyValueCache>,
    device: Device,
}

impl<'a> TranslatorDecoder<'a> {
    /// One row a source.
    pub fn new(model: &'a EncoderDecoder, source: EncodedSource) -> Self {
        let sources = Encoded::new(source.batch(), source);
        Self { caches: model.caches(), device: device_of(model), model, sources }
    }
}

impl Decoder for TranslatorDecoder<'_> {
    fn rows(&self) -> usize {
        self.sources.rows.len()
    }

    fn next(&mut self, last: &[u32]) -> Result<Vec<f32>, NnError> {
        let ids = column(last, self.rows(), &self.device)?;
        let logits = self.model.logits_cached(&self.sources.current, ids, &mut self.caches, &Pass::inference())?;
        log_probabilities(logits)
    }

    fn select(&mut self, rows: &[usize]) -> Result<(), NnError> {
        let indices = row_indices(rows, self.rows(), &self.device)?;
        self.caches.iter_mut().filter(|cache| !cache.is_empty()).for_each(|cache| cache.select(indices.clone()));
        self.sources.select(rows, EncodedSource::select)
    }
}

/// A recurrent translator.
#[derive(Debug)]
pub struct RecurrentTranslatorDecoder<'a> {
    model: &'a RecurrentTranslator,
    sources: Encoded<EncodedSentences>,
    state: DecoderState,
    device: Device,
}

impl<'a> RecurrentTranslatorDecoder<'a> {
    /// One row a source.
    pub fn new(model: &'a RecurrentTranslator, source: EncodedSentences) -> Self {
        let state = model.start(&source).detach();
        Self { model, sources: Encoded::new(source.batch(), source), state, device: device_of(model) }
    }
}

impl Decoder for RecurrentTranslatorDecoder<'_> {
    fn rows(&self) -> usize {
        self.sources.rows.len()
    }

    fn next(&mut self, last: &[u32]) -> Result<Vec<f32>, NnError> {
        let ids = column(last, self.rows(), &self.device)?.squeeze_dim(1);
        let logits = self.model.step(&self.sources.current, ids, &mut self.state, &Pass::inference())?;
        self.state = self.state.clone().detach();
        log_probabilities(logits.unsqueeze_dim(1))
    }

    fn select(&mut self, rows: &[usize]) -> Result<(), NnError> {
        self.state = self.state.select(rows)?;
        self.sources.select(rows, EncodedSentences::select)
    }
}

/// A causal Transformer, with the keys and values of earlier tokens kept.
#[derive(Debug)]
pub struct LanguageModelDecoder<'a> {
    model: &'a LanguageModel,
    caches: Vec<KeyValueCache>,
    /// What each row has read, where it has a window.
    read: Vec<Vec<u32>>,
    window: Option<usize>,
    device: Device,
}

impl<'a> LanguageModelDecoder<'a> {
    /// `rows` empty sequences. With a `window` the model never sees more tokens than that, as one with learned positions
    /// cannot: when they are reached it goes on from the last half of them, read again. Without one it sees all.
    pub fn new(model: &'a LanguageModel, rows: usize, window: Option<usize>) -> Result<Self, NnError> {
        if let Some(window @ ..2) = window {
            return Err(NnError::input("window", "2 tokens or more", window.to_string()));
        }
        Ok(Self { caches: model.caches(), read: vec![Vec::new(); rows], window, device: device_of(model), model })
    }

    /// Takes in tokens of each row, the last of them as many as the window allows; gives the logits after each.
    fn take(&mut self, tokens: &[Vec<u32>]) -> Result<Tensor<3>, NnError> {
        let new = tokens.first().map_or(0, Vec::len);
        for (read, tokens) in self.read.iter_mut().zip(tokens) {
            read.extend(tokens);
        }
        let seen = self.caches.first().map_or(0, KeyValueCache::len);
        let back = match self.window {
            Some(window) if seen + new > window => {
                self.caches = self.model.caches();
                // At least the new token; half a window, so that a token is read twice on average.
                window.div_ceil(2)
            }
            _ => new,
        };
        let length = self.read.first().map_or(0, Vec::len);
        let recent: Vec<&[u32]> = self.read.iter().map(|read| &read[length.saturating_sub(back)..]).collect();
        let ids = matrix(&recent, &self.device)?;
        let logits = self.model.logits_cached(ids, &mut self.caches, &Pass::inference())?;
        for read in &mut self.read {
            let unused = read.len().saturating_sub(self.window.unwrap_or(0));
            read.drain(..unused);
        }
        Ok(logits)
    }
}

impl Decoder for LanguageModelDecoder<'_> {
    fn rows(&self) -> usize {
        self.read.len()
    }

    fn next(&mut self, last: &[u32]) -> Result<Vec<f32>, NnError> {
        check_rows(last, self.rows())?;
        let logits = self.take(&last.iter().map(|&token| vec![token]).collect::<Vec<_>>())?;
        log_probabilities(logits)
    }

    fn select(&mut self, rows: &[usize]) -> Result<(), NnError> {
        let indices = row_indices(rows, self.rows(), &self.device)?;
        self.caches.iter_mut().filter(|cache| !cache.is_empty()).for_each(|cache| cache.select(indices.clone()));
        self.read = rows.iter().map(|&row| self.read[row].clone()).collect();
        Ok(())
    }

    fn read(&mut self, tokens: &[u32]) -> Result<(), NnError> {
        if tokens.is_empty() || self.read.is_empty() {
            return Ok(());
        }
        self.take(&vec![tokens.to_vec(); self.rows()]).map(drop)
    }
}

/// A recurrent language model.
#[derive(Debug)]
pub struct RecurrentLanguageModelDecoder<'a> {
    model: &'a RecurrentLanguageModel,
    state: RecurrentState,
    device: Device,
}

impl<'a> RecurrentLanguageModelDecoder<'a> {
    /// `rows` empty sequences.
    pub fn new(model: &'a RecurrentLanguageModel, rows: usize) -> Self {
        Self { model, state: model.start(rows), device: device_of(model) }
    }
}

impl Decoder for RecurrentLanguageModelDecoder<'_> {
    fn rows(&self) -> usize {
        self.state.hidden.dims()[1]
    }

    fn next(&mut self, last: &[u32]) -> Result<Vec<f32>, NnError> {
        let ids = column(last, self.rows(), &self.device)?;
        let logits = self.model.logits_from(&mut self.state, ids, &Pass::inference())?;
        self.state = self.state.clone().detach();
        log_probabilities(logits)
    }

    fn select(&mut self, rows: &[usize]) -> Result<(), NnError> {
        self.state = self.state.select(row_indices(rows, self.rows(), &self.device)?);
        Ok(())
    }

    fn read(&mut self, tokens: &[u32]) -> Result<(), NnError> {
        if tokens.is_empty() || self.rows() == 0 {
            return Ok(());
        }
        let ids = matrix(&vec![tokens; self.rows()], &self.device)?;
        self.model.logits_from(&mut self.state, ids, &Pass::inference())?;
        self.state = self.state.clone().detach();
        Ok(())
    }
}

/// Encoded sources and which of them each row translates. Hypotheses of a sentence change places among themselves
/// without a copy of its source.
#[derive(Debug)]
struct Encoded<S> {
    current: S,
    /// The sentence of each row.
    rows: Vec<usize>,
}

impl<S> Encoded<S> {
    fn new(batch: usize, source: S) -> Self {
        Self { current: source, rows: (0..batch).collect() }
    }

    /// `rows` are those of the batch.
    fn select(&mut self, rows: &[usize], select: impl Fn(&S, &[usize]) -> Result<S, NnError>) -> Result<(), NnError> {
        let sentences: Vec<usize> = rows.iter().map(|&row| self.rows[row]).collect();
        if sentences != self.rows {
            self.current = select(&self.current, rows)?;
            self.rows = sentences;
        }
        Ok(())
    }
}

fn check_rows(last: &[u32], rows: usize) -> Result<(), NnError> {
    if last.len() == rows {
        return Ok(());
    }
    Err(NnError::input("last tokens", format!("{rows}, one a row"), last.len().to_string()))
}

/// The last token of each row, `[rows, 1]`.
fn column(last: &[u32], rows: usize, device: &Device) -> Result<Tensor<2, Int>, NnError> {
    check_rows(last, rows)?;
    matrix(&last.chunks(1).collect::<Vec<_>>(), device)
}

/// Tokens of each row, equally many, `[rows, tokens]`.
fn matrix(tokens: &[&[u32]], device: &Device) -> Result<Tensor<2, Int>, NnError> {
    let shape = [tokens.len(), tokens.first().map_or(0, |row| row.len())];
    let too_large = |token: u32| NnError::input("token", format!("below {}", i32::MAX), token.to_string());
    let ids = tokens.iter().copied().flatten().map(|&token| i32::try_from(token).map_err(|_| too_large(token)));
    Ok(Tensor::from_data(TensorData::new(ids.collect::<Result<Vec<i32>, _>>()?, shape), device))
}

/// Of the token after the last, `[rows, tokens, vocab]` → `rows × vocab`.
fn log_probabilities(logits: Tensor<3>) -> Result<Vec<f32>, NnError> {
    let [_, tokens, _] = logits.dims();
    let last = logits.narrow(1, tokens - 1, 1).detach();
    let numbers = log_softmax(last)?.into_data().try_into_vec_as::<f32>();
    numbers.map_err(|error| NnError::input("log-probabilities", "numbers", error.to_string()))
}
