//! What a [`Tagger`] is made of.

use serde::{Deserialize, Serialize};

use super::Tagger;
use crate::config::{check_dropout, check_positive, name_or_table};
use crate::error::ConfigError;
use crate::heads::Side;
use crate::init::Init;
use crate::layers::characters::CharactersConfig;
use crate::layers::crf::CrfConfig;
use crate::layers::dropout::Dropout;
use crate::layers::embedding::EmbeddingConfig;
use crate::layers::linear::LinearConfig;
use crate::layers::word_dropout::WordDropout;
use crate::models::body::{BodyConfig, BodySizes};
use crate::models::encoder::Encoder;
use crate::models::transformer::TransformerConfig;

/// How tags are chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TagOutput {
    /// The most probable of each word.
    #[default]
    Softmax,
    /// The most probable sequence.
    Crf,
}

/// What a word takes of the states of its pieces in the encoder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PieceUse {
    /// That of the first one, as BERT does.
    #[default]
    First,
    /// Their mean.
    Mean,
}

/// The shape of a [`Tagger`]. The sizes of vocabularies start at zero, which is refused: they come from the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TaggerConfig {
    /// Distinct words.
    pub vocab: usize,
    /// The number of the unknown word, for `word_dropout`.
    pub unknown: usize,
    /// Distinct characters.
    pub char_vocab: usize,
    /// Distinct tags.
    pub tags: usize,
    /// Features of a word's own vector; 0 for none.
    pub d_word: usize,
    /// A word's vector from its characters.
    #[serde(deserialize_with = "name_or_table")]
    pub characters: CharactersConfig,
    /// An encoder of the words' pieces.
    pub encoder: Option<TransformerConfig>,
    /// What a word takes from it.
    pub pieces: PieceUse,
    /// What words learn of each other by.
    #[serde(deserialize_with = "name_or_table")]
    pub body: BodyConfig,
    /// Features of a word's state.
    pub d_model: usize,
    /// Layers of the body.
    pub n_layers: usize,
    /// Word by word or the whole sentence.
    pub output: TagOutput,
    /// Dropout of word vectors, between layers, and of states.
    pub dropout: f32,
    /// The probability that a training word becomes the unknown one. Its characters and pieces stay.
    pub word_dropout: f32,
}

impl Default for TaggerConfig {
    fn default() -> Self {
        Self {
            vocab: 0,
            unknown: 0,
            char_vocab: 0,
            tags: 0,
            d_word: 100,
            characters: CharactersConfig::convolution(),
            encoder: None,
            pieces: PieceUse::First,
            body: BodyConfig::Lstm,
            d_model: 256,
            n_layers: 1,
            output: TagOutput::Softmax,
            dropout: 0.3,
            word_dropout: 0.05,
        }
    }
}

impl TaggerConfig {
    /// Refuses what makes no sense.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("tags", self.tags)?;
        if self.d_word > 0 {
            EmbeddingConfig { vocab: self.vocab, d_model: self.d_word }.validate()?;
            if self.unknown >= self.vocab {
                return Err(ConfigError::new("unknown", self.unknown, format!("a word, below {}", self.vocab)));
            }
        }
        if self.characters != CharactersConfig::None {
            check_positive("char_vocab", self.char_vocab)?;
        }
        self.characters.validate().map_err(|error| error.within("characters"))?;
        if let Some(encoder) = &self.encoder {
            encoder.validate().map_err(|error| error.within("encoder"))?;
        }
        if self.d_in() == 0 {
            return Err(ConfigError::new("d_word", 0, "1 or more, where there are neither characters nor an encoder"));
        }
        check_dropout("dropout", self.dropout)?;
        check_dropout("word_dropout", self.word_dropout)?;
        self.body.validate(self.sizes())
    }

    /// The model.
    pub fn init(&self, init: &Init) -> Result<Tagger, ConfigError> {
        self.validate()?;
        let d_out = self.body.d_out(self.sizes());
        let words = EmbeddingConfig { vocab: self.vocab, d_model: self.d_word };
        let crf = (self.output == TagOutput::Crf).then(|| CrfConfig::new(self.tags).init(&init.enter("crf")));
        let encoder =
            self.encoder.as_ref().map(|config| Encoder::new(config, &init.enter("encoder").on(Side::Encoder)));
        let dropout = |name| Dropout::new("dropout", self.dropout, &init.enter(name));
        Ok(Tagger {
            words: (self.d_word > 0).then(|| words.init(&init.enter("words"))).transpose()?,
            characters: self.characters.init(self.char_vocab, &init.enter("characters"))?,
            encoder: encoder.transpose()?,
            body: self.body.init(self.sizes(), &init.enter("body"))?,
            output: LinearConfig::new(d_out, self.tags).init(&init.enter("output"))?,
            crf: crf.transpose()?,
            word_dropout: WordDropout::new(
                "word_dropout",
                self.word_dropout,
                self.unknown,
                &init.enter("word_dropout"),
            )?,
            input_dropout: dropout("input_dropout")?,
            state_dropout: dropout("state_dropout")?,
            pieces: self.pieces,
        })
    }

    /// Features of a word's vector.
    fn d_in(&self) -> usize {
        self.d_word + self.characters.d_out() + self.encoder.map_or(0, |encoder| encoder.d_model)
    }

    fn sizes(&self) -> BodySizes {
        BodySizes { d_in: self.d_in(), d_model: self.d_model, n_layers: self.n_layers, dropout: self.dropout }
    }
}
