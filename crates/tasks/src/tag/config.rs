//! The configuration of `tag`; `configs/tag.toml` says what each key does.

use std::path::{Path, PathBuf};

use regard_data::{Case, Fold, TagColumn};
use regard_nn::ConfigError;
use regard_nn::config::{check_positive, name_or_table};
use regard_nn::layers::characters::CharactersConfig;
use regard_nn::models::body::{BodyConfig, TransformerBodyConfig};
use regard_nn::models::tagger::{PieceUse, TagOutput, TaggerConfig};
use regard_nn::models::transformer::EmbeddingScale;
use serde::{Deserialize, Serialize};

use crate::error::TaskError;
use crate::model::{ModelConfig, ModelKind};
use crate::task::Settings;
use crate::train::TrainConfig;

/// The `[data]` section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// Tagged sentences; built-in ones if absent.
    pub path: Option<PathBuf>,
    /// Fold `k/n` of a single file.
    pub fold: Option<Fold>,
    /// The column of CoNLL-U that has the tags.
    pub column: TagColumn,
    /// Built-in sentences to learn from.
    pub sentences: usize,
    /// The part of the training sentences that is used, the same one for every seed.
    pub share: f64,
    /// Words of a sentence at most: longer ones are left out of training, longer inputs refused.
    pub max_length: usize,
    /// Training sentences with more words are left out, and those of other splits scored by themselves as well.
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

/// The `[words]` section: what a word's vector is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WordsConfig {
    /// Features of a word's own vector; 0 for none.
    pub d_word: usize,
    /// How often a word must occur in training to have a vector of its own.
    pub min_count: usize,
    /// Whether capitals make another word; characters always see them.
    pub case: Case,
    /// A vector from the word's characters.
    #[serde(deserialize_with = "name_or_table")]
    pub characters: CharactersConfig,
    /// What a word takes of its pieces, with `model.from`.
    pub pieces: PieceUse,
}

impl Default for WordsConfig {
    fn default() -> Self {
        Self {
            d_word: 64,
            min_count: 2,
            case: Case::Lower,
            characters: CharactersConfig::convolution(),
            pieces: PieceUse::First,
        }
    }
}

/// The `[tags]` section.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TagsConfig {
    /// Word by word, or the best sequence.
    pub output: TagOutput,
}

/// The configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Of weights, order and dropout.
    pub seed: u64,
    /// The examples.
    pub data: DataConfig,
    /// What a word's vector is made of.
    pub words: WordsConfig,
    /// How words learn of each other.
    pub model: ModelConfig,
    /// How tags are chosen.
    pub tags: TagsConfig,
    /// How it is trained.
    pub train: TrainConfig,
}

/// What the data decide of the network.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub words: usize,
    pub unknown: usize,
    pub characters: usize,
    pub tags: usize,
}

impl Config {
    /// The network of this description, without an encoder of pieces.
    pub(super) fn tagger(&self, sizes: Sizes) -> TaggerConfig {
        let model = &self.model;
        let body = match model.kind {
            ModelKind::Rnn => BodyConfig::Rnn,
            ModelKind::Lstm => BodyConfig::Lstm,
            ModelKind::Gru => BodyConfig::Gru,
            ModelKind::Intra => BodyConfig::IntraAttention,
            ModelKind::Transformer | ModelKind::Bag => BodyConfig::Transformer(TransformerBodyConfig {
                n_heads: model.n_heads,
                kv_heads: model.kv_heads,
                d_ff: Some(model.d_ff),
                activation: model.activation,
                norm: model.norm,
                bias: model.bias,
                norm_place: model.norm_place,
                position: model.position,
                sight: model.sight,
                attention_dropout: model.attention_dropout,
            }),
        };
        let both_ways = model.d_hidden.filter(|_| model.kind != ModelKind::Transformer).map(|hidden| 2 * hidden);
        TaggerConfig {
            vocab: sizes.words,
            unknown: sizes.unknown,
            char_vocab: sizes.characters,
            tags: sizes.tags,
            d_word: self.words.d_word,
            characters: self.words.characters.clone(),
            encoder: None,
            pieces: self.words.pieces,
            body,
            d_model: both_ways.unwrap_or(model.d_model),
            n_layers: model.n_layers,
            output: self.tags.output,
            dropout: model.dropout,
            word_dropout: model.word_dropout,
        }
    }

    fn check_data(&self) -> Result<(), ConfigError> {
        let DataConfig { sentences, share, max_length, longest, .. } = self.data;
        check_positive("sentences", sentences)?;
        check_positive("max_length", max_length)?;
        if !(share > 0.0 && share <= 1.0) {
            return Err(ConfigError::new("share", share, "a number above 0, up to 1"));
        }
        if let (None, Some(fold)) = (&self.data.path, self.data.fold) {
            return Err(ConfigError::new("fold", fold, "nothing for built-in data, which have their own parts"));
        }
        match longest {
            Some(longest) if longest == 0 || longest > max_length => {
                Err(ConfigError::new("longest", longest, format!("1 to max_length, {max_length}")))
            }
            _ => Ok(()),
        }
    }

    fn check_words(&self) -> Result<(), ConfigError> {
        check_positive("min_count", self.words.min_count)?;
        self.words.characters.validate().map_err(|error| error.within("characters"))?;
        let nothing = self.words.d_word == 0 && self.words.characters == CharactersConfig::None;
        match nothing && self.model.from.is_none() {
            true => Err(ConfigError::new("d_word", 0, "1 or more, where there are no characters either")),
            false => Ok(()),
        }
    }
}

impl Settings for Config {
    fn train(&self) -> &TrainConfig {
        &self.train
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn data_path(&self) -> Option<&Path> {
        self.data.path.as_deref()
    }

    fn validate(&self) -> Result<(), TaskError> {
        self.check_data().map_err(|error| error.within("data"))?;
        self.check_words().map_err(|error| error.within("words"))?;
        let kinds = [ModelKind::Transformer, ModelKind::Rnn, ModelKind::Lstm, ModelKind::Gru, ModelKind::Intra];
        self.model.validate(&kinds)?;
        if self.model.embedding_scale != EmbeddingScale::default() {
            let expected = "root, the default: a norm makes words' vectors as large as positions";
            return Err(ConfigError::new("model.embedding_scale", "none", expected).into());
        }
        if self.tags.output == TagOutput::Crf && self.train.label_smoothing != 0.0 {
            let smoothing = self.train.label_smoothing;
            return Err(ConfigError::new("train.label_smoothing", smoothing, "0 where tags.output is crf").into());
        }
        if self.words.d_word > 0 || self.words.characters != CharactersConfig::None {
            // Sizes that any data would give: what is wrong now is wrong in the file.
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
    use crate::settings::resolve;
    use crate::tag::Tag;
    use crate::task::Task;

    fn config(sets: &[&str]) -> Config {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        resolve(Tag::CONFIG, None, &sets, &[]).unwrap()
    }

    #[test]
    fn what_the_blocks_are_made_of_reaches_them() {
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
    fn what_would_be_ignored_is_refused() {
        for (set, field) in [
            ("model.embedding_scale=none", "model.embedding_scale"),
            ("model.kv_heads=3", "kv_heads"),
            ("data.fold=1/10", "data.fold"),
        ] {
            let error = config(&[set]).validate().unwrap_err().to_string();
            assert!(error.contains(field), "{set}: {error}");
        }
        config(&[]).validate().unwrap();
    }
}
