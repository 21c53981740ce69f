//! Embedding: a learned vector for each token.

use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};
use regard_ops::{OpError, embedding};
use serde::{Deserialize, Serialize};

use crate::config::{check_positive, check_product};
use crate::error::{ConfigError, NnError};
use crate::init::Init;

/// Configuration of an [`Embedding`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingConfig {
    /// Number of distinct tokens.
    pub vocab: usize,
    /// Number of features of a token.
    pub d_model: usize,
}

impl EmbeddingConfig {
    /// Returns an error if a size is zero or the table is too large.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("vocab", self.vocab)?;
        check_positive("d_model", self.d_model)?;
        check_product("vocab", &[self.vocab, self.d_model])
    }

    /// Creates the table, normal with deviation `1/√d_model`: rows have length 1, or features size 1 after a factor `√d_model`.
    pub fn init(&self, init: &Init) -> Result<Embedding, ConfigError> {
        self.validate()?;
        let Self { vocab, d_model } = *self;
        Ok(Embedding { weight: init.table("weight", [vocab, d_model], 1.0 / (d_model as f32).sqrt()) })
    }
}

/// Embedding layer: a table with a row for each token.
#[derive(Module, Debug)]
pub struct Embedding {
    /// Table, `[vocab, d_model]`.
    pub weight: Param<Tensor<2>>,
}

impl Embedding {
    /// Returns the vectors of the tokens `ids`.
    ///
    /// # Shapes
    /// `ids` `[batch, seq]` → `[batch, seq, d_model]`.
    pub fn forward(&self, ids: Tensor<2, Int>) -> Result<Tensor<3>, OpError> {
        embedding(self.weight.val(), ids)
    }
}

/// Returns an error that names `what` if the batch or its sequences are empty.
pub(crate) fn check_tokens(what: &'static str, ids: &Tensor<2, Int>) -> Result<(), NnError> {
    match ids.dims().contains(&0) {
        true => Err(NnError::input(what, "[batch, seq], each 1 or more", format!("{:?}", ids.dims()))),
        false => Ok(()),
    }
}
