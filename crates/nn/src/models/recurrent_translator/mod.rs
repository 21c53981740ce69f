//! Recurrent translator: an encoder of the source and a [writer](super::recurrent_writer) of the target, with soft, hard or no
//! attention between them.
//!
//! ```text
//! h_1 … h_n = encoder(x)                       s_0 = the encoder's last states, directions concatenated
//! ```
//! `x` are embeddings times `√d_model`.

mod config;

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use regard_ops::CrossEntropyOptions;

pub use config::RecurrentTranslatorConfig;

use super::recurrent_writer::{RecurrentLoss, RecurrentSource, RecurrentWriter, WriterState, scaled};
use super::stack::Output;
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::attention::context::ContextAttention;
use crate::layers::dropout::Dropout;
use crate::layers::embedding::{Embedding, EmbeddingConfig};
use crate::layers::linear::{Linear, LinearConfig};
use crate::layers::recurrent::{Recurrent, RecurrentOutput, RecurrentState};
use crate::pass::Pass;

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

impl RecurrentTranslator {
    /// Builds the model.
    pub fn new(config: &RecurrentTranslatorConfig, init: &Init) -> Result<Self, ConfigError> {
        config.validate()?;
        let RecurrentTranslatorConfig { vocab, target_vocab, d_model, output_weights, .. } = *config;
        let embedding = |name, vocab| EmbeddingConfig { vocab, d_model }.init(&init.enter(name));
        let dropout = |name| Dropout::new("dropout", config.dropout, &init.enter(name));
        let output = LinearConfig::new(d_model, target_vocab.unwrap_or(vocab));
        let writer = config.writer();
        Ok(Self {
            source_embedding: embedding("source_embedding", vocab)?,
            target_embedding: target_vocab.map(|vocab| embedding("target_embedding", vocab)).transpose()?,
            encoder: config.encoder().init(&init.enter("encoder"))?,
            decoder: writer.cells().init(&init.enter("decoder"))?,
            attention: writer.context().map(|context| context.init(&init.enter("attention"))).transpose()?,
            readout: writer.readout().init(&init.enter("readout"))?,
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
    ) -> Result<RecurrentSource, NnError> {
        let x = self.source_dropout.forward(scaled(&self.source_embedding, ids, self.config.d_model)?, pass)?;
        let RecurrentOutput { hidden, state } = self.encoder.forward(x, lengths.as_deref(), None, pass)?;
        let prepare = |attention: &ContextAttention| attention.prepare(hidden.clone(), hidden.clone(), lengths);
        let sources = self.attention.as_ref().map(prepare).transpose()?;
        Ok(RecurrentSource { sources, state: self.side_by_side(state) })
    }

    /// Returns the parts that write the target.
    pub fn writer(&self) -> RecurrentWriter<'_> {
        RecurrentWriter {
            config: self.config.writer(),
            embedding: self.target_embedding.as_ref().unwrap_or(&self.source_embedding),
            cells: &self.decoder,
            attention: self.attention.as_ref(),
            readout: &self.readout,
            output: &self.output,
            word_dropout: &self.target_dropout,
            readout_dropout: &self.readout_dropout,
        }
    }

    /// Computes the logits of the target word after each input word; see [`RecurrentWriter::logits`].
    pub fn logits(&self, source: &RecurrentSource, ids: Tensor<2, Int>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        self.writer().logits(source, ids, pass)
    }

    /// Computes the mean cross-entropy of the target word after each input word; see [`RecurrentWriter::loss`].
    pub fn loss(
        &self,
        source: &RecurrentSource,
        ids: Tensor<2, Int>,
        targets: Tensor<2, Int>,
        options: CrossEntropyOptions,
        pass: &Pass,
    ) -> Result<RecurrentLoss, NnError> {
        self.writer().loss(source, ids, targets, options, pass)
    }

    /// Returns the state of the decoder before its first word.
    pub fn start(&self, source: &RecurrentSource) -> WriterState {
        self.writer().start(source)
    }

    /// Computes one step; see [`RecurrentWriter::step`].
    pub fn step(
        &self,
        source: &RecurrentSource,
        ids: Tensor<1, Int>,
        state: &mut WriterState,
        pass: &Pass,
    ) -> Result<Tensor<2>, NnError> {
        self.writer().step(source, ids, state, pass)
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
