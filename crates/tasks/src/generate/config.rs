//! The configuration of `generate`.

use std::path::{Path, PathBuf};

use regard_data::{Case, TokenizerConfig, TokenizerKind};
use regard_nn::ConfigError;
use regard_nn::config::{check_positive, name_or_table};
use regard_nn::layers::linear::Bias;
use regard_nn::layers::position::Position;
use regard_nn::layers::position::learned::LearnedConfig;
use regard_nn::models::recurrent_language_model::RecurrentLanguageModelConfig;
use regard_nn::models::transformer::{EmbeddingScale, OutputWeights, TransformerConfig};
use serde::{Deserialize, Serialize};

use crate::decode::SampleOptions;
use crate::error::TaskError;
use crate::extended::Extended;
use crate::model::{Chosen, FirstWeights, RecurrentKeys, TransformerKeys, TransformerOrRecurrent};
use crate::run_config::{DataSection, RunConfig};
use crate::task::Validate;

/// Maximum `decode.max_len`, so that samples and answers end soon even if the model never ends its text.
const MOST_SHOWN: usize = 10_000;

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// File or folder of plain text; built-in stories if absent.
    pub path: Option<PathBuf>,
    /// Tokeniser, trained on the training text.
    pub tokenizer: TokenizerConfig,
    /// Tokens of a training example, which is also how far the model learns to look back.
    pub block: usize,
    /// Longer block that is scored as well, as `loss_longer`.
    pub evaluate_block: Option<usize>,
}

impl Default for DataConfig {
    fn default() -> Self {
        let tokenizer = TokenizerConfig { kind: TokenizerKind::Char, vocab: 1_000, case: Case::Keep, min_count: 1 };
        Self { path: None, tokenizer, block: 64, evaluate_block: None }
    }
}

impl DataSection for DataConfig {
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

/// Keys that a language model adds to [`TransformerKeys`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DecoderKeys {
    /// Factor on the embedding.
    pub embedding_scale: EmbeddingScale,
    /// Matrix of the output layer.
    pub output_weights: OutputWeights,
    /// Bias of the output layer.
    pub output_bias: Bias,
    /// Distribution of the initial weights.
    #[serde(deserialize_with = "name_or_table")]
    pub first_weights: FirstWeights,
}

/// Keys that a language model adds to [`RecurrentKeys`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OutputKeys {
    /// Matrix of the output layer.
    pub output_weights: OutputWeights,
    /// Distribution of the initial weights.
    #[serde(deserialize_with = "name_or_table")]
    pub first_weights: FirstWeights,
}

/// The `[model]` section.
pub type ModelConfig =
    TransformerOrRecurrent<Extended<TransformerKeys, DecoderKeys>, Extended<RecurrentKeys, OutputKeys>>;

/// Sections that only this task has.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Decoding {
    /// How `predict` draws the tokens after a prompt; `regard generate` has flags for this instead.
    pub decode: SampleOptions,
}

/// The configuration of `generate`.
pub type Config = RunConfig<DataConfig, ModelConfig, Decoding>;

/// The configuration of the network.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a model has only one")]
pub(super) enum NetworkConfig {
    Transformer(TransformerConfig),
    Recurrent(RecurrentLanguageModelConfig),
}

impl NetworkConfig {
    fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Self::Transformer(config) => config.sight.causal_mask().and_then(|_| config.validate()),
            Self::Recurrent(config) => config.validate(),
        }
    }
}

impl Validate for Config {
    fn validate(&self) -> Result<(), TaskError> {
        let DataConfig { block, evaluate_block, tokenizer, .. } = &self.data;
        check_positive("data.block", *block)?;
        if let Some(longer) = evaluate_block.filter(|longer| longer <= block) {
            let expected = format!("more than data.block, {block}");
            return Err(ConfigError::new("data.evaluate_block", longer, expected).into());
        }
        tokenizer.validate()?;
        self.more.decode.validate().map_err(|error| error.within("decode"))?;
        if self.more.decode.max_len > MOST_SHOWN {
            let expected = format!("at most {MOST_SHOWN} (for longer texts, use `regard generate --tokens`)");
            return Err(ConfigError::new("decode.max_len", self.more.decode.max_len, expected).into());
        }
        let (first_weights, _) = self.first_weights();
        let network = self.network(1).validate();
        network.and_then(|()| first_weights.validate()).map_err(|error| error.within("model"))?;
        Ok(())
    }
}

impl Config {
    /// The configuration of the network. A table of learned positions gets no more rows than a block has tokens.
    pub(super) fn network(&self, vocab: usize) -> NetworkConfig {
        match self.model.chosen() {
            Chosen::Transformer(Extended { base, more }) => NetworkConfig::Transformer(TransformerConfig {
                position: trained(base.position, self.data.block),
                embedding_scale: more.embedding_scale,
                output_weights: more.output_weights,
                output_bias: more.output_bias,
                ..base.transformer(vocab)
            }),
            Chosen::Recurrent(cell, Extended { base, more }) => {
                let tied = more.output_weights == OutputWeights::Embedding;
                NetworkConfig::Recurrent(RecurrentLanguageModelConfig {
                    vocab,
                    cell,
                    n_layers: base.n_layers,
                    d_model: base.d_model,
                    d_hidden: base.d_hidden(),
                    // The embedding can only serve as output layer for states of width d_model.
                    d_projection: (tied && base.d_hidden() != base.d_model).then_some(base.d_model),
                    output_weights: more.output_weights,
                    dropout: base.dropout,
                })
            }
        }
    }

    /// Distribution of the initial weights, and the number of layers, on which it may depend.
    pub(super) fn first_weights(&self) -> (FirstWeights, usize) {
        match self.model.chosen() {
            Chosen::Transformer(keys) => (keys.more.first_weights, keys.base.n_layers),
            Chosen::Recurrent(_, keys) => (keys.more.first_weights, keys.base.n_layers),
        }
    }

    /// Number of tokens that a Transformer may look back on when it generates: as many as in training, or unlimited (`None`)
    /// if its positions are relative distances. A recurrent network is unlimited as well.
    pub(super) fn window(&self) -> Option<usize> {
        let Chosen::Transformer(keys) = self.model.chosen() else { return None };
        match keys.base.position {
            Position::None | Position::Relative(_) | Position::Alibi => None,
            Position::Sinusoidal
            | Position::Learned(_)
            | Position::Rope(_)
            | Position::Floater(_)
            | Position::Rnn(_) => Some(self.data.block.max(2)),
        }
    }
}

/// Limits a table of learned positions to the `block` positions that are trained.
fn trained(mut position: Position, block: usize) -> Position {
    if let Position::Learned(LearnedConfig { max_length, .. }) = &mut position {
        *max_length = (*max_length).min(block);
    }
    position
}
