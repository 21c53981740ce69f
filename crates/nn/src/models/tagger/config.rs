//! Configuration of a [`Tagger`].

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

/// How a tagger chooses tags.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TagOutput {
    /// The most probable tag for each word.
    #[default]
    Softmax,
    /// The most probable sequence of tags for the sentence.
    Crf,
}

/// How a word's vector is made from the encoder's states of its pieces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PieceUse {
    /// The state of the first piece, as in BERT.
    #[default]
    First,
    /// The mean of the states of all pieces.
    Mean,
}

/// Configuration of a [`Tagger`]. The vocabulary sizes must be set from the data: their default of zero is invalid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TaggerConfig {
    /// Number of distinct words.
    pub vocab: usize,
    /// Id of the unknown word, for `word_dropout`.
    pub unknown: usize,
    /// Number of distinct characters.
    pub char_vocab: usize,
    /// Number of distinct tags.
    pub tags: usize,
    /// Features of a word's own learned vector; 0 for none.
    pub d_word: usize,
    /// Network that makes a word's vector from its characters.
    #[serde(deserialize_with = "name_or_table")]
    pub characters: CharactersConfig,
    /// Optional encoder of the words' pieces.
    pub encoder: Option<TransformerConfig>,
    /// How a word's vector is made from the encoder's states.
    pub pieces: PieceUse,
    /// Body, in which words learn about each other.
    #[serde(deserialize_with = "name_or_table")]
    pub body: BodyConfig,
    /// Features of a word's state in the body.
    pub d_model: usize,
    /// Number of layers of the body.
    pub n_layers: usize,
    /// Whether tags are chosen word by word or for the whole sentence.
    pub output: TagOutput,
    /// Dropout probability of word vectors, between layers, and of states.
    pub dropout: f32,
    /// Probability that a word becomes the unknown word in training. Its characters and pieces stay.
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
    /// Returns an error if the configuration is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("tags", self.tags)?;
        if self.d_word > 0 {
            EmbeddingConfig { vocab: self.vocab, d_model: self.d_word }.validate()?;
            if self.unknown >= self.vocab {
                return Err(ConfigError::new("unknown", self.unknown, format!("a word id below {}", self.vocab)));
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
            return Err(ConfigError::new("d_word", 0, "1 or more, as there are neither characters nor an encoder"));
        }
        check_dropout("dropout", self.dropout)?;
        check_dropout("word_dropout", self.word_dropout)?;
        self.body.validate(self.sizes())
    }

    /// Builds the model.
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

    /// Returns the number of features of a word's whole vector, the input of the body.
    fn d_in(&self) -> usize {
        self.d_word + self.characters.d_out() + self.encoder.map_or(0, |encoder| encoder.d_model)
    }

    fn sizes(&self) -> BodySizes {
        BodySizes { d_in: self.d_in(), d_model: self.d_model, n_layers: self.n_layers, dropout: self.dropout }
    }
}
