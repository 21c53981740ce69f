//! The decoder that recurrent translators and captioners share: it writes a sentence word by word, with soft, hard or no attention
//! over its sources `h_1 … h_n`.
//!
//! ```text
//! before:  C_t = attend(s_{t−1}, h)            s_t = cell([y_{t−1}; C_t], s_{t−1})       (Bahdanau 2015)
//! after:   s_t = cell(y_{t−1}, s_{t−1})        C_t = attend(s_t, h)                      (Luong 2015)
//! logits   = V tanh(W [s_t; C_t; y_{t−1}] + b) + c
//! ```
//! `y` are embeddings times `√d_model`. Without attention there is no `C` (Sutskever 2014).

mod config;
mod loss;

use burn::tensor::{Device, Int, Tensor};
use regard_ops::{Activation, CrossEntropyOptions, OpError, cross_entropy};

pub use config::{Alignment, Attend, RecurrentWriterConfig};
pub use loss::{RecurrentLoss, Rewarded};

use super::stack::Output;
use crate::error::NnError;
use crate::layers::attention::context::{Choice, ContextAttention, Estimator, Selection, Sources};
use crate::layers::dropout::Dropout;
use crate::layers::embedding::{Embedding, check_tokens};
use crate::layers::linear::Linear;
use crate::layers::recurrent::{Recurrent, RecurrentOutput, RecurrentState};
use crate::pass::Pass;
use crate::rows::row_indices;

/// The parts of a model that write a sentence, borrowed from it; see the [module](self).
#[derive(Debug, Clone, Copy)]
pub struct RecurrentWriter<'a> {
    pub(super) config: RecurrentWriterConfig,
    /// Embedding of the words.
    pub(super) embedding: &'a Embedding,
    pub(super) cells: &'a Recurrent,
    pub(super) attention: Option<&'a ContextAttention>,
    /// `W` and `b`.
    pub(super) readout: &'a Linear,
    /// `V` and `c`.
    pub(super) output: &'a Output,
    pub(super) word_dropout: &'a Dropout,
    pub(super) readout_dropout: &'a Dropout,
}

/// What a batch of sentences is written from: encoded sentences or pictures.
#[derive(Debug, Clone)]
pub struct RecurrentSource {
    /// Keys and values of the attention, if there is one.
    pub(super) sources: Option<Sources>,
    /// Initial state of the decoder, `[n_layers, batch, d_hidden]`.
    pub(super) state: RecurrentState,
}

/// State of the decoder between two steps.
#[derive(Debug, Clone)]
pub struct WriterState {
    recurrent: RecurrentState,
    steps: usize,
}

/// Results of the decoder for some words.
struct Decoded {
    /// State at each word, `[batch, words, d_hidden]`.
    states: Tensor<3>,
    /// Context of each word, `[batch, words, d_hidden]`.
    contexts: Option<Tensor<3>>,
    choice: Option<Choice>,
    /// State after the last word.
    state: RecurrentState,
}

impl RecurrentWriter<'_> {
    /// Returns the same writer with soft attention, with which the training of hard attention can begin.
    pub fn softly(self) -> Self {
        self.with_selection(Selection::Soft)
    }

    fn with_selection(self, selection: Selection) -> Self {
        Self { config: RecurrentWriterConfig { selection, ..self.config }, ..self }
    }

    /// Computes the logits of the word after each input word.
    ///
    /// # Shapes
    /// `ids` `[batch, target]` → `[batch, target, vocab]`.
    pub fn logits(&self, source: &RecurrentSource, ids: Tensor<2, Int>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        let (features, _) = self.decode(source, ids, pass)?;
        Ok(self.output.logits(features, self.embedding)?)
    }

    /// Computes the mean cross-entropy of the word after each input word.
    ///
    /// # Shapes
    /// `ids` and `targets` `[batch, target]`.
    pub fn loss(
        &self,
        source: &RecurrentSource,
        ids: Tensor<2, Int>,
        targets: Tensor<2, Int>,
        options: CrossEntropyOptions,
        pass: &Pass,
    ) -> Result<RecurrentLoss, NnError> {
        let samples = self.config.selection.samples();
        if samples > 1 && pass.is_training() {
            let rows: Vec<usize> = (0..samples).flat_map(|_| 0..source.batch()).collect();
            let repeat = |x: Tensor<2, Int>| x.repeat(&[samples, 1]);
            let once = self.with_selection(Selection::Hard { estimator: Estimator::ScoreFunction { samples: 1 } });
            let all = once.loss(&source.select(&rows)?, repeat(ids), repeat(targets), options, pass)?;
            return Ok(RecurrentLoss { rewarded: all.rewarded.map(|rewarded| rewarded.with_samples(samples)), ..all });
        }
        let (features, choice) = self.decode(source, ids, pass)?;
        let by_reward = matches!(self.config.selection, Selection::Hard { estimator: Estimator::ScoreFunction { .. } });
        let Some(choice) = choice.filter(|_| by_reward && pass.is_training()) else {
            let loss = self.output.loss(features, self.embedding, targets, options, pass)?;
            return Ok(RecurrentLoss { loss, rewarded: None });
        };
        // The reward needs the logits, which the fused loss never stores.
        let logits = self.output.logits(features, self.embedding)?;
        let [batch, target, vocab] = logits.dims();
        if targets.dims() != [batch, target] {
            let expected = format!("[{batch}, {target}]");
            return Err(OpError::Shape { what: "targets", expected, got: targets.dims().to_vec() }.into());
        }
        let rows = batch * target;
        let loss = cross_entropy(logits.clone().reshape([rows, vocab]), targets.clone().reshape([rows]), options)?;
        Ok(RecurrentLoss { loss, rewarded: Some(Rewarded::new(choice, logits, targets, options)?) })
    }

    /// Returns the state of the decoder before its first word.
    pub fn start(&self, source: &RecurrentSource) -> WriterState {
        WriterState { recurrent: source.state.clone(), steps: 0 }
    }

    /// Computes one step: the logits of the word after `ids`, the last word of each sentence. They equal those of
    /// [`logits`](Self::logits).
    ///
    /// # Shapes
    /// `ids` `[batch]` → `[batch, vocab]`.
    pub fn step(
        &self,
        source: &RecurrentSource,
        ids: Tensor<1, Int>,
        state: &mut WriterState,
        pass: &Pass,
    ) -> Result<Tensor<2>, NnError> {
        let words = self.words(ids.unsqueeze_dim(1), pass)?;
        let decoded = self.advance(source, words.clone(), state.recurrent.clone(), state.steps, pass)?;
        *state = WriterState { recurrent: decoded.state.clone(), steps: state.steps + 1 };
        let (features, _) = self.features(decoded, words, pass)?;
        Ok(self.output.logits(features, self.embedding)?.squeeze_dim(1))
    }

    fn words(&self, ids: Tensor<2, Int>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        Ok(self.word_dropout.forward(scaled(self.embedding, ids, self.config.d_model)?, pass)?)
    }

    /// Computes the features before the output for each word, `[batch, target, d_model]`, and the choices of hard attention.
    fn decode(
        &self,
        source: &RecurrentSource,
        ids: Tensor<2, Int>,
        pass: &Pass,
    ) -> Result<(Tensor<3>, Option<Choice>), NnError> {
        let words = self.words(ids, pass)?;
        let decoded = self.advance(source, words.clone(), source.state.clone(), 0, pass)?;
        self.features(decoded, words, pass)
    }

    fn features(
        &self,
        Decoded { states, contexts, choice, .. }: Decoded,
        words: Tensor<3>,
        pass: &Pass,
    ) -> Result<(Tensor<3>, Option<Choice>), NnError> {
        let parts = [Some(states), contexts, Some(words)].into_iter().flatten().collect();
        let features = self.readout.forward_activated(Tensor::cat(parts, 2), Activation::Tanh)?;
        Ok((self.readout_dropout.forward(features, pass)?, choice))
    }

    /// Runs the decoder over `words` from `state`; the first word is at step `first` of its sentence.
    fn advance(
        &self,
        source: &RecurrentSource,
        words: Tensor<3>,
        state: RecurrentState,
        first: usize,
        pass: &Pass,
    ) -> Result<Decoded, NnError> {
        let with_sources = |attention| source.sources().map(|sources| (attention, sources));
        let attention = self.attention.map(with_sources).transpose()?;
        match attention {
            Some((attention, sources)) if self.config.looks_before() => {
                self.look_then_step(attention, sources, words, state, first, pass)
            }
            attention => {
                let RecurrentOutput { hidden: states, state } = self.cells.forward(words, None, Some(state), pass)?;
                let look = |(attention, sources): (&ContextAttention, &Sources)| {
                    attention.forward_as(self.config.selection, states.clone(), sources, first, pass)
                };
                let (contexts, choice) = attention.map(look).transpose()?.map(|c| (c.context, c.choice)).unzip();
                Ok(Decoded { states, contexts, choice: choice.flatten(), state })
            }
        }
    }

    fn look_then_step(
        &self,
        attention: &ContextAttention,
        sources: &Sources,
        words: Tensor<3>,
        mut state: RecurrentState,
        first: usize,
        pass: &Pass,
    ) -> Result<Decoded, NnError> {
        let (mut states, mut contexts, mut choices) = (Vec::new(), Vec::new(), Vec::new());
        for word in 0..words.dims()[1] {
            let pass = pass.at("word", first + word);
            let query = state.top().unsqueeze_dim(1);
            let found = attention.forward_as(self.config.selection, query, sources, first + word, &pass)?;
            let x = Tensor::cat(vec![words.clone().narrow(1, word, 1), found.context.clone()], 2);
            state = self.cells.step(x.squeeze_dim(1), state, &pass)?;
            states.push(state.top().unsqueeze_dim(1));
            contexts.push(found.context);
            choices.extend(found.choice);
        }
        let choice = (!choices.is_empty()).then(|| Choice::in_a_row(choices));
        Ok(Decoded { states: Tensor::cat(states, 1), contexts: Some(Tensor::cat(contexts, 1)), choice, state })
    }
}

/// Computes the vectors of words, embeddings times `√d_model`.
pub(super) fn scaled(embedding: &Embedding, ids: Tensor<2, Int>, d_model: usize) -> Result<Tensor<3>, NnError> {
    check_tokens("tokens", &ids)?;
    Ok(embedding.forward(ids)? * (d_model as f32).sqrt())
}

impl RecurrentSource {
    /// Returns the number of sentences.
    pub fn batch(&self) -> usize {
        self.state.hidden.dims()[1]
    }

    /// Returns the device of its tensors.
    pub fn device(&self) -> Device {
        self.state.hidden.device()
    }

    /// Selects the sentences `rows`, which may repeat and come in any order. A source encoded once thus serves all hypotheses
    /// of a beam.
    pub fn select(&self, rows: &[usize]) -> Result<Self, NnError> {
        let indices = row_indices(rows, self.batch(), &self.device())?;
        let sources = self.sources.as_ref().map(|sources| sources.select(rows)).transpose()?;
        Ok(Self { sources, state: self.state.select(indices) })
    }

    fn sources(&self) -> Result<&Sources, NnError> {
        let missing = || NnError::input("source", "one encoded by this model, with keys for its attention", "none");
        self.sources.as_ref().ok_or_else(missing)
    }
}

impl WriterState {
    /// Returns the number of words so far.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Selects the sentences `rows`, which may repeat and come in any order.
    pub fn select(&self, rows: &[usize]) -> Result<Self, NnError> {
        let hidden = &self.recurrent.hidden;
        let indices = row_indices(rows, hidden.dims()[1], &hidden.device())?;
        Ok(Self { recurrent: self.recurrent.select(indices), steps: self.steps })
    }

    /// Detaches the state from the graph, so that no gradient flows back through it.
    pub fn detach(self) -> Self {
        Self { recurrent: self.recurrent.detach(), ..self }
    }
}
