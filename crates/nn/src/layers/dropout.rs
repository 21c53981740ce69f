//! Dropout of features during training (Srivastava 2014).

use burn::module::Module;
use burn::tensor::Tensor;
use regard_ops::{OpError, dropout};

use crate::config::check_dropout;
use crate::error::ConfigError;
use crate::init::{Init, LayerPath};
use crate::pass::Pass;

/// Dropout layer: in training, sets each feature to zero with a given probability and scales the others up.
#[derive(Module, Debug)]
pub struct Dropout {
    probability: f32,
    #[module(skip)]
    path: LayerPath,
}

impl Dropout {
    /// Creates the layer. Returns an error that names `field` unless `probability` is in `[0, 1)`.
    pub fn new(field: &str, probability: f32, init: &Init) -> Result<Self, ConfigError> {
        check_dropout(field, probability)?;
        Ok(Self { probability, path: init.path() })
    }

    /// Returns whether the layer drops features in this pass.
    pub fn is_on(&self, pass: &Pass) -> bool {
        pass.dropout(&self.path, self.probability).is_some()
    }

    /// Applies dropout to `x`.
    ///
    /// # Shapes
    /// `x` any → the same.
    pub fn forward<const D: usize>(&self, x: Tensor<D>, pass: &Pass) -> Result<Tensor<D>, OpError> {
        match pass.dropout(&self.path, self.probability) {
            Some(drawn) => dropout(x, drawn.probability, drawn.seed),
            None => Ok(x),
        }
    }
}
