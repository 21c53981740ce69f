//! The `[model]` section that the text tasks share: one flat list of keys, of which each kind of network uses some.

use std::path::PathBuf;

use regard_inspect::count::{Architecture, RecurrentModel, Sizes};
use regard_nn::config::{ActivationName, check_above_zero, check_dropout, check_positive, name_or_table, no_settings};
use regard_nn::layers::attention::context::Selection;
use regard_nn::layers::block::NormPlace;
use regard_nn::layers::linear::Bias;
use regard_nn::layers::norm::NormKind;
use regard_nn::layers::pooling::PoolingConfig;
use regard_nn::layers::position::Position;
use regard_nn::layers::recurrent::{Cell, Direction};
use regard_nn::models::recurrent_language_model::RecurrentLanguageModelConfig;
use regard_nn::models::recurrent_translator::{Alignment, Attend, RecurrentTranslatorConfig};
use regard_nn::models::transformer::{EmbeddingScale, Memory, OutputWeights, Sight, TransformerConfig};
use regard_nn::{ConfigError, Init, Spread};
use regard_ops::Activation;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

/// The networks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Self-attention throughout.
    #[default]
    Transformer,
    /// A plain recurrent network.
    Rnn,
    /// Long short-term memory.
    Lstm,
    /// Gated recurrent units.
    Gru,
    /// A recurrent network that attends to its own past (tagging only).
    Intra,
    /// A dense network on the mean of the words' vectors (classification only).
    Bag,
}

/// How matrices start, in `generate` and `pretrain`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FirstWeights {
    /// [`Spread::Xavier`].
    #[default]
    #[serde(deserialize_with = "no_settings")]
    Xavier,
    /// [`Spread::Residual`], as GPT-2.
    Residual {
        /// Of all but the last matrix of each part of a block.
        #[serde(default = "two_hundredths")]
        deviation: f32,
    },
}

fn two_hundredths() -> f32 {
    0.02
}

/// See the [module](self). Keys that a kind does not use are ignored by it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelConfig {
    /// Which network.
    pub kind: ModelKind,
    /// A model folder of `pretrain` to start from (tagging and classification).
    pub from: Option<PathBuf>,
    /// Whether what is taken over from there stays as it is.
    pub freeze: bool,
    /// Features of a token.
    pub d_model: usize,
    /// Layers; of the encoder, in a translator.
    pub n_layers: usize,
    /// Layers of a translator's decoder; `n_layers` by default.
    pub n_decoder_layers: Option<usize>,
    /// Heads of self-attention.
    pub n_heads: usize,
    /// Heads of keys and values; `n_heads` by default.
    pub kv_heads: Option<usize>,
    /// Hidden features of the feed-forward parts.
    pub d_ff: usize,
    /// Of the feed-forward parts.
    #[serde(with = "ActivationName")]
    pub activation: Activation,
    /// Layer norm or RMS norm.
    pub norm: NormKind,
    /// Of all linear layers of a Transformer but the output.
    pub bias: Bias,
    /// Norms before or after the parts.
    pub norm_place: NormPlace,
    /// How a Transformer knows the order of tokens.
    #[serde(deserialize_with = "name_or_table")]
    pub position: Position,
    /// Which tokens an encoder's token may see.
    #[serde(deserialize_with = "name_or_table")]
    pub sight: Sight,
    /// What a Transformer multiplies tokens by.
    pub embedding_scale: EmbeddingScale,
    /// Whether the output layer uses the embedding's matrix.
    pub output_weights: OutputWeights,
    /// Of a Transformer's output layer.
    pub output_bias: Bias,
    /// How matrices start (`generate` and `pretrain`).
    #[serde(deserialize_with = "name_or_table")]
    pub first_weights: FirstWeights,
    /// Which encoder layer a translator's decoder layer looks at.
    pub memory: Memory,
    /// Dropout of embeddings and of what each part adds.
    pub dropout: f32,
    /// Dropout of attention weights.
    pub attention_dropout: f32,
    /// The probability that a training word becomes the unknown one (tagging and classification).
    pub word_dropout: f32,
    /// From tokens to one vector (classification): attention by default, the mean in a bag of words.
    #[serde(deserialize_with = "given_name_or_table", skip_serializing_if = "Option::is_none")]
    pub pooling: Option<PoolingConfig>,
    /// Features of a recurrent state; `d_model` by default.
    pub d_hidden: Option<usize>,
    /// How a recurrent decoder looks at the source.
    pub score: Alignment,
    /// When it does.
    pub attend: Attend,
    /// Soft or hard, of a recurrent decoder.
    #[serde(deserialize_with = "name_or_table")]
    pub selection: Selection,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            kind: ModelKind::default(),
            from: None,
            freeze: false,
            d_model: 128,
            n_layers: 2,
            n_decoder_layers: None,
            n_heads: 4,
            kv_heads: None,
            d_ff: 256,
            activation: Activation::Relu,
            norm: NormKind::Layer,
            bias: Bias::Learned,
            norm_place: NormPlace::Pre,
            position: Position::Sinusoidal,
            sight: Sight::Full,
            embedding_scale: EmbeddingScale::Root,
            output_weights: OutputWeights::Own,
            output_bias: Bias::Learned,
            first_weights: FirstWeights::Xavier,
            memory: Memory::Last,
            dropout: 0.1,
            attention_dropout: 0.0,
            word_dropout: 0.0,
            pooling: None,
            d_hidden: None,
            score: Alignment::General,
            attend: Attend::After,
            selection: Selection::Soft,
        }
    }
}

impl ModelConfig {
    /// Refuses what makes no sense, and kinds that are not in `kinds`.
    pub fn validate(&self, kinds: &[ModelKind]) -> Result<(), ConfigError> {
        if self.freeze && self.from.is_none() {
            return Err(ConfigError::new(
                "model.freeze",
                true,
                "false without model.from: there is nothing to be kept",
            ));
        }
        let check = || {
            if !kinds.contains(&self.kind) {
                let names: Vec<String> = kinds.iter().map(name).collect();
                return Err(ConfigError::new("kind", name(&self.kind), format!("one of {}", names.join(", "))));
            }
            check_positive("d_model", self.d_model)?;
            check_positive("n_layers", self.n_layers)?;
            check_positive("d_hidden", self.d_hidden())?;
            check_dropout("dropout", self.dropout)?;
            check_dropout("word_dropout", self.word_dropout)?;
            if let FirstWeights::Residual { deviation } = self.first_weights {
                check_above_zero("first_weights.deviation", deviation)?;
            }
            match self.kind {
                ModelKind::Transformer => self.transformer(1, None).validate(),
                _ => Ok(()),
            }
        };
        check().map_err(|error: ConfigError| error.within("model"))
    }

    /// The Transformer of this description.
    pub fn transformer(&self, vocab: usize, target_vocab: Option<usize>) -> TransformerConfig {
        TransformerConfig {
            vocab,
            target_vocab,
            n_layers: self.n_layers,
            n_decoder_layers: self.n_decoder_layers,
            d_model: self.d_model,
            n_heads: self.n_heads,
            kv_heads: self.kv_heads,
            d_ff: self.d_ff,
            activation: self.activation,
            norm: self.norm,
            bias: self.bias,
            norm_place: self.norm_place,
            position: self.position,
            sight: self.sight,
            embedding_scale: self.embedding_scale,
            output_weights: self.output_weights,
            output_bias: self.output_bias,
            memory: self.memory,
            dropout: self.dropout,
            attention_dropout: self.attention_dropout,
            ..TransformerConfig::default()
        }
    }

    /// The root of a model that starts as `first_weights` says.
    pub fn spread(&self, init: &Init) -> Init {
        init.clone().with_spread(match self.first_weights {
            FirstWeights::Xavier => Spread::Xavier,
            FirstWeights::Residual { deviation } => Spread::Residual { deviation, n_layers: self.n_layers },
        })
    }

    /// The cell of a recurrent network; none of the other kinds.
    pub fn cell(&self) -> Option<Cell> {
        match self.kind {
            ModelKind::Rnn => Some(Cell::Rnn),
            ModelKind::Lstm => Some(Cell::lstm()),
            ModelKind::Gru => Some(Cell::gru()),
            ModelKind::Transformer | ModelKind::Intra | ModelKind::Bag => None,
        }
    }

    /// Features of a recurrent state.
    pub fn d_hidden(&self) -> usize {
        self.d_hidden.unwrap_or(self.d_model)
    }

    /// The recurrent language model of this description; none of the other kinds.
    pub fn recurrent_language_model(&self, vocab: usize) -> Option<RecurrentLanguageModelConfig> {
        Some(RecurrentLanguageModelConfig {
            vocab,
            cell: self.cell()?,
            n_layers: self.n_layers,
            d_model: self.d_model,
            d_hidden: self.d_hidden(),
            // The embedding's matrix fits features of its own width only.
            d_projection: (self.output_weights == OutputWeights::Embedding && self.d_hidden() != self.d_model)
                .then_some(self.d_model),
            output_weights: self.output_weights,
            dropout: self.dropout,
        })
    }

    /// The recurrent translator of this description; none of the other kinds.
    pub fn recurrent_translator(&self, vocab: usize) -> Option<RecurrentTranslatorConfig> {
        Some(RecurrentTranslatorConfig {
            vocab,
            target_vocab: None,
            cell: self.cell()?,
            n_layers: self.n_layers,
            d_model: self.d_model,
            d_hidden: self.d_hidden(),
            direction: Direction::Both,
            attention: self.score,
            selection: self.selection,
            attend: self.attend,
            output_weights: self.output_weights,
            dropout: self.dropout,
        })
    }
}

/// Vectors that are looked up and no network upon them, which no architecture describes: one recurrent unit is next to
/// nothing.
pub(crate) fn lookup(vocab: usize, d_model: usize) -> Architecture {
    Architecture::Recurrent(RecurrentModel {
        cell: Cell::Rnn,
        d_in: d_model,
        d_hidden: 1,
        n_layers: 1,
        vocab: Some(vocab),
        ..RecurrentModel::default()
    })
}

/// What a batch of `tokens` in sequences of `longest` at most looks like to the counting of its cost.
pub(crate) fn sizes(tokens: usize, longest: usize) -> Sizes {
    let seq = longest.min(tokens).max(1);
    Sizes { batch: tokens.div_ceil(seq), seq, target_seq: None }
}

fn given_name_or_table<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    name_or_table(deserializer).map(Some)
}

/// As a configuration writes it.
fn name(kind: &ModelKind) -> String {
    let text = serde_json::to_string(kind).expect("a plain name");
    text.trim_matches('"').to_string()
}
