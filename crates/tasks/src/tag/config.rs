//! The configuration of `tag`.

use std::path::{Path, PathBuf};

use regard_data::{Case, Fold, TagColumn};
use regard_nn::ConfigError;
use regard_nn::config::{check_dropout, check_positive, name_or_table};
use regard_nn::layers::characters::CharactersConfig;
use regard_nn::models::body::{BodyConfig, TransformerBodyConfig};
use regard_nn::models::tagger::{PieceUse, TagOutput, TaggerConfig};
use serde::{Deserialize, Serialize};

use crate::data_share::check_share;
use crate::error::TaskError;
use crate::extended::Extended;
use crate::model::{RecurrentKeys, TransformerKeys};
use crate::pretrained;
use crate::run_config::{DataSection, RunConfig, check_built_in, check_lengths};
use crate::task::Validate;
use crate::word_vectors::VectorKeys;

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// File or folder of tagged sentences; built-in ones if absent.
    pub path: Option<PathBuf>,
    /// Fold `k/n` that is the test split of a single file.
    pub fold: Option<Fold>,
    /// Column of a CoNLL-U file that holds the tags.
    pub column: TagColumn,
    /// Number of built-in training sentences.
    pub sentences: usize,
    /// Share of the training sentences that is used; the same sentences for every seed.
    pub share: f64,
    /// Maximum words of a sentence: longer ones are left out of training, longer inputs refused.
    pub max_length: usize,
    /// Stricter maximum for training sentences; longer ones of other splits are also scored separately.
    pub longest: Option<usize>,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            path: None,
            fold: None,
            column: TagColumn::Upos,
            sentences: 12_000,
            share: 1.0,
            max_length: 200,
            longest: None,
        }
    }
}

/// The `[words]` section: the parts of a word's vector.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WordsConfig {
    /// Width of a word's own embedding; 0 for none.
    pub d_word: usize,
    /// Number of times a word must occur in training to get an embedding.
    pub min_count: usize,
    /// Whether words that differ in case are different; characters always keep their case.
    pub case: Case,
    /// Network that computes a vector from the word's characters.
    #[serde(deserialize_with = "name_or_table")]
    pub characters: CharactersConfig,
    /// How the states of a word's pieces become one vector, with `model.from`.
    pub pieces: PieceUse,
    /// File with the vectors of words that embeddings start from, or model folder of `words`.
    pub vectors: Option<PathBuf>,
    /// Whether embeddings from a file stay as they are.
    pub freeze: bool,
    /// Number of words of the file that get an embedding, beside those of the training data.
    pub most: usize,
}

impl Default for WordsConfig {
    fn default() -> Self {
        Self {
            d_word: 64,
            min_count: 2,
            case: Case::Lower,
            characters: CharactersConfig::convolution(),
            pieces: PieceUse::First,
            vectors: None,
            freeze: false,
            most: VectorKeys::default().most,
        }
    }
}

impl WordsConfig {
    /// The keys about vectors from a file.
    pub(super) fn vector_keys(&self) -> VectorKeys {
        VectorKeys { vectors: self.vectors.clone(), freeze: self.freeze, most: self.most }
    }
}

/// The `[tags]` section.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TagsConfig {
    /// Whether tags are chosen word by word or as the best sequence.
    pub output: TagOutput,
}

impl DataSection for DataConfig {
    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

/// Keys that a tagger adds to those of its network.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TaggerKeys {
    /// Model folder of `pretrain` whose encoder adds features to the words' vectors.
    pub from: Option<PathBuf>,
    /// Whether the weights of that encoder stay fixed.
    pub freeze: bool,
    /// Factor on the learning rate of that encoder, 0.03 by default.
    pub encoder_rate: Option<f32>,
    /// Probability that a training word is replaced by the unknown word.
    pub word_dropout: f32,
}

/// The `[model]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ModelConfig {
    /// Transformer encoder.
    Transformer(Extended<TransformerKeys, TaggerKeys>),
    /// Plain recurrent network in both directions.
    Rnn(Extended<RecurrentKeys, TaggerKeys>),
    /// LSTM in both directions.
    Lstm(Extended<RecurrentKeys, TaggerKeys>),
    /// GRU in both directions.
    Gru(Extended<RecurrentKeys, TaggerKeys>),
    /// Recurrent network that attends to its own earlier outputs, in both directions.
    Intra(Extended<RecurrentKeys, TaggerKeys>),
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self::Transformer(Extended::default())
    }
}

impl ModelConfig {
    /// The keys that a tagger adds.
    pub(super) fn tagger_keys(&self) -> &TaggerKeys {
        match self {
            Self::Transformer(keys) => &keys.more,
            Self::Rnn(keys) | Self::Lstm(keys) | Self::Gru(keys) | Self::Intra(keys) => &keys.more,
        }
    }

    /// The keys that a tagger adds, to change them.
    pub(super) fn tagger_keys_mut(&mut self) -> &mut TaggerKeys {
        match self {
            Self::Transformer(keys) => &mut keys.more,
            Self::Rnn(keys) | Self::Lstm(keys) | Self::Gru(keys) | Self::Intra(keys) => &mut keys.more,
        }
    }

    /// The model folder of the pre-trained encoder.
    pub(super) fn from(&self) -> Option<&Path> {
        self.tagger_keys().from.as_deref()
    }

    /// The configuration of a tagger with this network; all other settings keep their defaults.
    fn tagger(&self) -> TaggerConfig {
        let tagger = match self {
            Self::Transformer(keys) => attending(&keys.base),
            Self::Rnn(keys) => reading(BodyConfig::Rnn, &keys.base),
            Self::Lstm(keys) => reading(BodyConfig::Lstm, &keys.base),
            Self::Gru(keys) => reading(BodyConfig::Gru, &keys.base),
            Self::Intra(keys) => reading(BodyConfig::IntraAttention, &keys.base),
        };
        TaggerConfig { word_dropout: self.tagger_keys().word_dropout, ..tagger }
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let TaggerKeys { freeze, encoder_rate, word_dropout, .. } = *self.tagger_keys();
        pretrained::check_keys(freeze, encoder_rate, self.from())?;
        check_dropout("word_dropout", word_dropout)?;
        match self {
            Self::Transformer(keys) => keys.base.transformer(1).validate(),
            Self::Rnn(keys) | Self::Lstm(keys) | Self::Gru(keys) | Self::Intra(keys) => keys.base.validate(),
        }
    }
}

/// A tagger on a Transformer encoder.
fn attending(keys: &TransformerKeys) -> TaggerConfig {
    let body = TransformerBodyConfig {
        n_heads: keys.n_heads,
        kv_heads: keys.kv_heads,
        d_ff: Some(keys.d_ff),
        activation: keys.activation,
        norm: keys.norm,
        bias: keys.bias,
        norm_place: keys.norm_place,
        position: keys.position,
        sight: keys.sight,
        attention: keys.attention,
        attention_dropout: keys.attention_dropout,
    };
    TaggerConfig {
        body: BodyConfig::Transformer(body),
        d_model: keys.d_model,
        n_layers: keys.n_layers,
        dropout: keys.dropout,
        ..TaggerConfig::default()
    }
}

/// A tagger on a recurrent network in both directions.
fn reading(body: BodyConfig, keys: &RecurrentKeys) -> TaggerConfig {
    TaggerConfig {
        body,
        d_model: keys.d_hidden.map_or(keys.d_model, |each_way| each_way.saturating_mul(2)),
        n_layers: keys.n_layers,
        dropout: keys.dropout,
        ..TaggerConfig::default()
    }
}

/// Sections that only this task has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WordsAndTags {
    /// The parts of a word's vector.
    pub words: WordsConfig,
    /// How tags are chosen.
    pub tags: TagsConfig,
}

/// The configuration of `tag`.
pub type Config = RunConfig<DataConfig, ModelConfig, WordsAndTags>;

/// Sizes of the vocabularies, on which the network depends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub words: usize,
    /// Index of the unknown word.
    pub unknown: usize,
    pub characters: usize,
    pub tags: usize,
}

impl Config {
    /// The configuration of the tagger, without a pre-trained encoder.
    pub(super) fn tagger(&self, sizes: Sizes) -> TaggerConfig {
        let WordsAndTags { words, tags } = &self.more;
        TaggerConfig {
            vocab: sizes.words,
            unknown: sizes.unknown,
            char_vocab: sizes.characters,
            tags: sizes.tags,
            d_word: words.d_word,
            characters: words.characters.clone(),
            encoder: None,
            pieces: words.pieces,
            output: tags.output,
            ..self.model.tagger()
        }
    }

    fn check_data(&self) -> Result<(), ConfigError> {
        let DataConfig { fold, sentences, share, max_length, longest, .. } = self.data;
        check_positive("data.sentences", sentences)?;
        check_share(share)?;
        if self.data.path.is_none() {
            check_built_in(fold, &[])?;
        }
        check_lengths(max_length, longest)
    }

    fn check_words(&self) -> Result<(), ConfigError> {
        check_positive("min_count", self.more.words.min_count)?;
        self.more.words.vector_keys().validate()?;
        self.more.words.characters.validate().map_err(|error| error.within("characters"))?;
        let nothing = self.more.words.d_word == 0 && self.more.words.characters == CharactersConfig::None;
        match nothing && self.model.from().is_none() {
            true => Err(ConfigError::new("d_word", 0, "1 or more if words.characters is none")),
            false => Ok(()),
        }
    }
}

impl Validate for Config {
    fn validate(&self) -> Result<(), TaskError> {
        self.check_data()?;
        self.check_words().map_err(|error| error.within("words"))?;
        self.model.validate().map_err(|error| error.within("model"))?;
        if self.more.tags.output == TagOutput::Crf && self.train.label_smoothing != 0.0 {
            let smoothing = self.train.label_smoothing;
            return Err(ConfigError::new("train.label_smoothing", smoothing, "0 when tags.output is crf").into());
        }
        if self.more.words.d_word > 0 || self.more.words.characters != CharactersConfig::None {
            // Any data give at least these sizes, so an error here is an error of the configuration.
            let sizes = Sizes { words: 2, unknown: 1, characters: 2, tags: 2 };
            self.tagger(sizes).validate().map_err(|error| error.within("model"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use burn::module::Module;
    use burn::tensor::Device;
    use regard_nn::Init;

    use super::*;
    use crate::tag::Tag;
    use crate::task::testing::configured;

    fn config(sets: &[&str]) -> Config {
        configured::<Tag>(sets).unwrap()
    }

    #[test]
    fn settings_of_the_transformer_reach_its_blocks() {
        let parameters = |sets: &[&str]| {
            let sizes = Sizes { words: 9, unknown: 1, characters: 9, tags: 3 };
            config(sets).tagger(sizes).init(&Init::new(1, &Device::flex())).unwrap().num_params()
        };
        let whole = parameters(&[]);
        for set in ["model.norm=rms", "model.bias=none", "model.kv_heads=2"] {
            assert!(parameters(&[set]) < whole, "{set}");
        }
    }

    #[test]
    fn keys_without_effect_are_refused() {
        let error = configured::<Tag>(&["model.embedding_scale=none"]).unwrap_err().to_string();
        assert!(error.contains("unknown field `embedding_scale`"), "{error}");
        for (set, field) in [("model.kv_heads=3", "kv_heads"), ("data.fold=1/10", "data.fold")] {
            let error = config(&[set]).validate().unwrap_err().to_string();
            assert!(error.contains(field), "{set}: {error}");
        }
        config(&[]).validate().unwrap();
    }
}
