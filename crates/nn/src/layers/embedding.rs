//! Words as learned vectors: the row of a table for each token.

use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};
use regard_ops::{OpError, embedding};
use serde::{Deserialize, Serialize};

use crate::config::{check_positive, check_product};
use crate::error::ConfigError;
use crate::init::Init;

/// The sizes of an [`Embedding`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingConfig {
    /// Distinct tokens.
    pub vocab: usize,
    /// Features of a token.
    pub d_model: usize,
}

impl EmbeddingConfig {
    /// Refuses sizes of zero.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("vocab", self.vocab)?;
        check_positive("d_model", self.d_model)?;
        check_product("vocab", &[self.vocab, self.d_model])
    }

    /// The table, normal with deviation `1/√d_model`: of length 1, and 1 a feature after the usual factor `√d_model`.
    pub fn init(&self, init: &Init) -> Result<Embedding, ConfigError> {
        self.validate()?;
        let Self { vocab, d_model } = *self;
        Ok(Embedding { weight: init.table("weight", [vocab, d_model], 1.0 / (d_model as f32).sqrt()) })
    }
}

/// See the [module](self).
#[derive(Module, Debug)]
pub struct Embedding {
    /// `[vocab, d_model]`
    pub weight: Param<Tensor<2>>,
}

impl Embedding {
    /// The vectors of `ids`.
    ///
    /// # Shapes
    /// `ids` `[batch, seq]` → `[batch, seq, d_model]`.
    pub fn forward(&self, ids: Tensor<2, Int>) -> Result<Tensor<3>, OpError> {
        embedding(self.weight.val(), ids)
    }
}
