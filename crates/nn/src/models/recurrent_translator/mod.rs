//! Recurrent translator: an encoder of the source and a decoder of the target, with soft, hard or no attention between them.
//!
//! ```text
//! h_1 … h_n = encoder(x)                       s_0 = the encoder's last states, directions concatenated
//! before:  C_t = attend(s_{t−1}, h)            s_t = cell([y_{t−1}; C_t], s_{t−1})       (Bahdanau 2015)
//! after:   s_t = cell(y_{t−1}, s_{t−1})        C_t = attend(s_t, h)                      (Luong 2015)
//! logits   = V tanh(W [s_t; C_t; y_{t−1}] + b) + c
//! ```
//! `x` and `y` are embeddings times `√d_model`. Without attention there is no `C` (Sutskever 2014).

mod config;
mod loss;

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use regard_ops::{Activation, CrossEntropyOptions, OpError, cross_entropy};

pub use config::{Alignment, Attend, RecurrentTranslatorConfig};
pub use loss::{RecurrentLoss, Rewarded};

use super::stack::Output;
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::attention::context::{Choice, ContextAttention, Estimator, Selection, Sources};
use crate::layers::dropout::Dropout;
use crate::layers::embedding::{Embedding, EmbeddingConfig, check_tokens};
use crate::layers::linear::{Linear, LinearConfig};
use crate::layers::recurrent::{Recurrent, RecurrentOutput, RecurrentState};
use crate::pass::Pass;
use crate::rows::row_indices;

/// Recurrent translator; see the [module](self).
#[derive(Module, Debug)]
pub struct RecurrentTranslator {
    /// Embedding of the source, `[vocab, d_model]`, and of the target if they share a vocabulary.
    pub source_embedding: Embedding,
    /// Embedding of the target, if it has its own vocabulary.
    pub target_embedding: Option<Embedding>,
    /// Network that reads the source.
    pub encoder: Recurrent,
    /// Network that writes the target.
    pub decoder: Recurrent,
    /// Attention of the decoder over the encoder's states.
    pub attention: Option<ContextAttention>,
    /// `W` and `b`, from state, context and word to `d_model` features.
    pub readout: Linear,
    /// `V` and `c`, from `d_model` features to the target's vocabulary.
    pub output: Output,
    source_dropout: Dropout,
    target_dropout: Dropout,
    readout_dropout: Dropout,
    #[module(skip)]
    config: RecurrentTranslatorConfig,
}

/// Encoded source sentences.
#[derive(Debug, Clone)]
pub struct EncodedSentences {
    /// Keys and values of the attention, if there is one.
    sources: Option<Sources>,
    /// Initial state of the decoder, `[n_layers, batch, d_hidden]`.
    state: RecurrentState,
}

/// State of the decoder between two steps.
#[derive(Debug, Clone)]
pub struct DecoderState {
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

impl RecurrentTranslator {
    /// Builds the model.
    pub fn new(config: &RecurrentTranslatorConfig, init: &Init) -> Result<Self, ConfigError> {
        config.validate()?;
        let RecurrentTranslatorConfig { vocab, target_vocab, d_model, output_weights, .. } = *config;
        let embedding = |name, vocab| EmbeddingConfig { vocab, d_model }.init(&init.enter(name));
        let dropout = |name| Dropout::new("dropout", config.dropout, &init.enter(name));
        let output = LinearConfig::new(d_model, target_vocab.unwrap_or(vocab));
        Ok(Self {
            source_embedding: embedding("source_embedding", vocab)?,
            target_embedding: target_vocab.map(|vocab| embedding("target_embedding", vocab)).transpose()?,
            encoder: config.encoder().init(&init.enter("encoder"))?,
            decoder: config.decoder().init(&init.enter("decoder"))?,
            attention: config.context().map(|context| context.init(&init.enter("attention"))).transpose()?,
            readout: config.readout().init(&init.enter("readout"))?,
            output: Output::of(output, output_weights, &init.enter("output"))?,
            source_dropout: dropout("source_dropout")?,
            target_dropout: dropout("target_dropout")?,
            readout_dropout: dropout("readout_dropout")?,
            config: *config,
        })
    }

    /// Encodes the sources once for all steps of the decoder. Tokens beyond a length have no effect.
    ///
    /// # Shapes
    /// `ids` `[batch, source]`, `lengths` `[batch]`.
    pub fn encode(
        &self,
        ids: Tensor<2, Int>,
        lengths: Option<Vec<usize>>,
        pass: &Pass,
    ) -> Result<EncodedSentences, NnError> {
        let x = self.source_dropout.forward(self.vectors(&self.source_embedding, ids)?, pass)?;
        let RecurrentOutput { hidden, state } = self.encoder.forward(x, lengths.as_deref(), None, pass)?;
        let prepare = |attention: &ContextAttention| attention.prepare(hidden.clone(), hidden.clone(), lengths);
        let sources = self.attention.as_ref().map(prepare).transpose()?;
        Ok(EncodedSentences { sources, state: self.side_by_side(state) })
    }

    /// Computes the logits of the target word after each input word.
    ///
    /// # Shapes
    /// `ids` `[batch, target]` → `[batch, target, vocab]`.
    pub fn logits(&self, source: &EncodedSentences, ids: Tensor<2, Int>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        let (features, _) = self.decode(source, ids, pass)?;
        Ok(self.output.logits(features, self.target())?)
    }

    /// Computes the mean cross-entropy of the target word after each input word.
    ///
    /// # Shapes
    /// `ids` and `targets` `[batch, target]`.
    pub fn loss(
        &self,
        source: &EncodedSentences,
        ids: Tensor<2, Int>,
        targets: Tensor<2, Int>,
        options: CrossEntropyOptions,
        pass: &Pass,
    ) -> Result<RecurrentLoss, NnError> {
        let (features, choice) = self.decode(source, ids, pass)?;
        let by_reward = self.config.selection == Selection::Hard { estimator: Estimator::ScoreFunction };
        let Some(choice) = choice.filter(|_| by_reward && pass.is_training()) else {
            let loss = self.output.loss(features, self.target(), targets, options)?;
            return Ok(RecurrentLoss { loss, rewarded: None });
        };
        // The reward needs the logits, which the fused loss never stores.
        let logits = self.output.logits(features, self.target())?;
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
    pub fn start(&self, source: &EncodedSentences) -> DecoderState {
        DecoderState { recurrent: source.state.clone(), steps: 0 }
    }

    /// Computes one step: the logits of the word after `ids`, the last word of each sentence. They equal those of
    /// [`logits`](Self::logits).
    ///
    /// # Shapes
    /// `ids` `[batch]` → `[batch, vocab]`.
    pub fn step(
        &self,
        source: &EncodedSentences,
        ids: Tensor<1, Int>,
        state: &mut DecoderState,
        pass: &Pass,
    ) -> Result<Tensor<2>, NnError> {
        let words = self.words(ids.unsqueeze_dim(1), pass)?;
        let decoded = self.advance(source, words.clone(), state.recurrent.clone(), state.steps, pass)?;
        *state = DecoderState { recurrent: decoded.state.clone(), steps: state.steps + 1 };
        let (features, _) = self.features(decoded, words, pass)?;
        Ok(self.output.logits(features, self.target())?.squeeze_dim(1))
    }

    fn target(&self) -> &Embedding {
        self.target_embedding.as_ref().unwrap_or(&self.source_embedding)
    }

    fn vectors(&self, embedding: &Embedding, ids: Tensor<2, Int>) -> Result<Tensor<3>, NnError> {
        check_tokens("tokens", &ids)?;
        Ok(embedding.forward(ids)? * (self.config.d_model as f32).sqrt())
    }

    fn words(&self, ids: Tensor<2, Int>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        Ok(self.target_dropout.forward(self.vectors(self.target(), ids)?, pass)?)
    }

    /// Computes the features before the output for each word, `[batch, target, d_model]`, and the choices of hard attention.
    fn decode(
        &self,
        source: &EncodedSentences,
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
        source: &EncodedSentences,
        words: Tensor<3>,
        state: RecurrentState,
        first: usize,
        pass: &Pass,
    ) -> Result<Decoded, NnError> {
        let with_sources = |attention| source.sources().map(|sources| (attention, sources));
        let attention = self.attention.as_ref().map(with_sources).transpose()?;
        match attention {
            Some((attention, sources)) if self.config.looks_before() => {
                self.look_then_step(attention, sources, words, state, first, pass)
            }
            attention => {
                let RecurrentOutput { hidden: states, state } = self.decoder.forward(words, None, Some(state), pass)?;
                let look = |(attention, sources): (&ContextAttention, &Sources)| {
                    attention.forward(states.clone(), sources, first, pass)
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
            let found = attention.forward(state.top().unsqueeze_dim(1), sources, first + word, &pass)?;
            let x = Tensor::cat(vec![words.clone().narrow(1, word, 1), found.context.clone()], 2);
            state = self.decoder.step(x.squeeze_dim(1), state, &pass)?;
            states.push(state.top().unsqueeze_dim(1));
            contexts.push(found.context);
            choices.extend(found.choice);
        }
        let choice = (!choices.is_empty()).then(|| Choice::in_a_row(choices));
        Ok(Decoded { states: Tensor::cat(states, 1), contexts: Some(Tensor::cat(contexts, 1)), choice, state })
    }

    /// Concatenates the directions of each layer in the encoder's last states, `[n_layers, batch, d_hidden]`.
    fn side_by_side(&self, RecurrentState { hidden, cell }: RecurrentState) -> RecurrentState {
        let join = |x: Tensor<3>| {
            let [parts, batch, width] = x.dims();
            let directions = parts / self.config.n_layers;
            let apart = x.reshape([self.config.n_layers, directions, batch, width]).swap_dims(1, 2);
            apart.reshape([self.config.n_layers, batch, directions * width])
        };
        RecurrentState { hidden: join(hidden), cell: cell.map(join) }
    }
}

impl EncodedSentences {
    /// Returns the number of sentences.
    pub fn batch(&self) -> usize {
        self.state.hidden.dims()[1]
    }

    /// Selects the sentences `rows`, which may repeat and come in any order. A source encoded once thus serves all hypotheses
    /// of a beam.
    pub fn select(&self, rows: &[usize]) -> Result<Self, NnError> {
        let indices = row_indices(rows, self.batch(), &self.state.hidden.device())?;
        let sources = self.sources.as_ref().map(|sources| sources.select(rows)).transpose()?;
        Ok(Self { sources, state: self.state.select(indices) })
    }

    fn sources(&self) -> Result<&Sources, NnError> {
        let missing = || NnError::input("source", "one encoded by this model, with keys for its attention", "none");
        self.sources.as_ref().ok_or_else(missing)
    }
}

impl DecoderState {
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
