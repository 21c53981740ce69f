//! Classifier: predicts one label, several labels or numbers for a whole text.
//!
//! Tokens become vectors, a [`Body`] makes them aware of each other, [`Pooling`] combines them into one vector, and dense
//! layers compute the output. Without a body, with mean or sum pooling and hidden layers, it is a deep network on a bag of
//! words ([`ClassifierConfig::bag`]), which ignores word order.

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use serde::{Deserialize, Serialize};

use super::body::{Body, BodyConfig, BodySizes};
use super::encoder::Encoder;
use super::target::{Answers, Target};
use super::transformer::TransformerConfig;
use crate::config::{check_dropout, check_positive, name_or_table};
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::dropout::Dropout;
use crate::layers::embedding::{Embedding, EmbeddingConfig, check_tokens};
use crate::layers::mlp::{Mlp, MlpConfig};
use crate::layers::pooling::{Pooling, PoolingConfig};
use crate::layers::word_dropout::WordDropout;
use crate::pass::Pass;

/// Configuration of a [`Classifier`]. `vocab` and `outputs` must be set from the data: their default of zero is invalid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClassifierConfig {
    /// Number of distinct tokens.
    pub vocab: usize,
    /// Id of the unknown token, for `word_dropout`.
    pub unknown: usize,
    /// Number of labels, or of numbers to predict.
    pub outputs: usize,
    /// What the model predicts.
    pub target: Target,
    /// Features of a token's learned vector; ignored with an encoder.
    pub d_word: usize,
    /// Optional encoder in place of learned vectors.
    pub encoder: Option<TransformerConfig>,
    /// Body, in which tokens learn about each other.
    #[serde(deserialize_with = "name_or_table")]
    pub body: BodyConfig,
    /// Features of a token's state in the body.
    pub d_model: usize,
    /// Number of layers of the body.
    pub n_layers: usize,
    /// Pooling of the tokens' states into one vector.
    #[serde(deserialize_with = "name_or_table")]
    pub pooling: PoolingConfig,
    /// Widths of the hidden tanh layers before the output.
    pub hidden: Vec<usize>,
    /// Dropout probability of token vectors, between layers, of the text's vector and of hidden features.
    pub dropout: f32,
    /// Probability that a token becomes the unknown token in training.
    pub word_dropout: f32,
}

impl Default for ClassifierConfig {
    fn default() -> Self {
        Self {
            vocab: 0,
            unknown: 0,
            outputs: 0,
            target: Target::One,
            d_word: 128,
            encoder: None,
            body: BodyConfig::transformer(),
            d_model: 128,
            n_layers: 2,
            pooling: PoolingConfig::attention(),
            hidden: vec![],
            dropout: 0.3,
            word_dropout: 0.0,
        }
    }
}

impl ClassifierConfig {
    /// Returns a deep network on the mean of the tokens' vectors, the baseline that ignores word order.
    pub fn bag(hidden: impl Into<Vec<usize>>) -> Self {
        Self { body: BodyConfig::None, pooling: PoolingConfig::Mean, hidden: hidden.into(), ..Self::default() }
    }

    /// Returns an error if the configuration is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.target.validate(self.outputs)?;
        match &self.encoder {
            Some(encoder) => encoder.validate().map_err(|error| error.within("encoder"))?,
            None => {
                check_positive("d_word", self.d_word)?;
                EmbeddingConfig { vocab: self.vocab, d_model: self.d_word }.validate()?;
            }
        }
        let vocab = self.encoder.map_or(self.vocab, |encoder| encoder.vocab);
        if self.unknown >= vocab {
            return Err(ConfigError::new("unknown", self.unknown, format!("a token id below {vocab}")));
        }
        for (n, &size) in self.hidden.iter().enumerate() {
            check_positive(&format!("hidden[{n}]"), size)?;
        }
        check_dropout("dropout", self.dropout)?;
        check_dropout("word_dropout", self.word_dropout)?;
        self.pooling.validate().map_err(|error| error.within("pooling"))?;
        self.body.validate(self.sizes())
    }

    /// Builds the model.
    pub fn init(&self, init: &Init) -> Result<Classifier, ConfigError> {
        self.validate()?;
        let d_out = self.body.d_out(self.sizes());
        let words = EmbeddingConfig { vocab: self.vocab, d_model: self.d_word };
        let sizes: Vec<usize> = [d_out].into_iter().chain(self.hidden.iter().copied()).chain([self.outputs]).collect();
        let encoder = self.encoder.as_ref().map(|config| Encoder::new(config, &init.enter("encoder")));
        let dropout = |name| Dropout::new("dropout", self.dropout, &init.enter(name));
        Ok(Classifier {
            words: self.encoder.is_none().then(|| words.init(&init.enter("words"))).transpose()?,
            encoder: encoder.transpose()?,
            body: self.body.init(self.sizes(), &init.enter("body"))?,
            pooling: self.pooling.init(d_out, &init.enter("pooling"))?,
            output: MlpConfig { dropout: self.dropout, ..MlpConfig::new(sizes) }.init(&init.enter("output"))?,
            word_dropout: WordDropout::new(
                "word_dropout",
                self.word_dropout,
                self.unknown,
                &init.enter("word_dropout"),
            )?,
            input_dropout: dropout("input_dropout")?,
            text_dropout: dropout("text_dropout")?,
            target: self.target,
        })
    }

    fn sizes(&self) -> BodySizes {
        let d_in = self.encoder.map_or(self.d_word, |encoder| encoder.d_model);
        BodySizes { d_in, d_model: self.d_model, n_layers: self.n_layers, dropout: self.dropout }
    }
}

/// Classifier of texts; see the [module](self).
#[derive(Module, Debug)]
pub struct Classifier {
    /// Embedding of the tokens, unless there is an encoder.
    pub words: Option<Embedding>,
    /// Encoder of the tokens.
    pub encoder: Option<Encoder>,
    /// Body, in which tokens learn about each other.
    pub body: Body,
    /// Pooling of the tokens' states into one vector.
    pub pooling: Pooling,
    /// Dense layers from the pooled vector to the output.
    pub output: Mlp,
    word_dropout: WordDropout,
    input_dropout: Dropout,
    text_dropout: Dropout,
    #[module(skip)]
    target: Target,
}

impl Classifier {
    /// Computes one vector per text.
    ///
    /// # Shapes
    /// `ids` `[batch, seq]`, `lengths` `[batch]` → `[batch, d_out]`.
    pub fn states(&self, ids: Tensor<2, Int>, lengths: &[usize], pass: &Pass) -> Result<Tensor<2>, NnError> {
        check_tokens("tokens", &ids)?;
        let ids = self.word_dropout.forward(ids, pass);
        let x = match (&self.encoder, &self.words) {
            (Some(encoder), _) => encoder.forward(ids, Some(lengths.to_vec()), pass)?,
            (None, Some(words)) => words.forward(ids)?,
            (None, None) => return Err(NnError::input("tokens", "a model with an embedding or an encoder", "neither")),
        };
        let x = self.body.forward(self.input_dropout.forward(x, pass)?, Some(lengths), pass)?;
        Ok(self.text_dropout.forward(self.pooling.forward(x, Some(lengths), pass)?, pass)?)
    }

    /// Computes the logits of the labels, or the predicted numbers.
    ///
    /// # Shapes
    /// `ids` `[batch, seq]`, `lengths` `[batch]` → `[batch, outputs]`.
    pub fn logits(&self, ids: Tensor<2, Int>, lengths: &[usize], pass: &Pass) -> Result<Tensor<2>, NnError> {
        Ok(self.output.forward(self.states(ids, lengths, pass)?, pass)?)
    }

    /// Computes the probability of each label, or the predicted numbers.
    ///
    /// # Shapes
    /// `ids` `[batch, seq]`, `lengths` `[batch]` → `[batch, outputs]`.
    pub fn predict(&self, ids: Tensor<2, Int>, lengths: &[usize], pass: &Pass) -> Result<Tensor<2>, NnError> {
        Ok(self.target.predict(self.logits(ids, lengths, pass)?)?)
    }

    /// Computes the mean loss over texts, or over texts and outputs; see [`Target::loss`].
    ///
    /// # Shapes
    /// `ids` `[batch, seq]`, `lengths` `[batch]` → `[1]`.
    pub fn loss(
        &self,
        ids: Tensor<2, Int>,
        lengths: &[usize],
        answers: Answers,
        label_smoothing: f32,
        pass: &Pass,
    ) -> Result<Tensor<1>, NnError> {
        self.target.loss(self.logits(ids, lengths, pass)?, answers, label_smoothing)
    }
}
