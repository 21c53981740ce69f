//! Random omission of features during training (Srivastava 2014).

use burn::module::Module;
use burn::tensor::Tensor;
use regard_ops::{OpError, dropout};

use crate::config::check_dropout;
use crate::error::ConfigError;
use crate::init::{Init, LayerPath};
use crate::pass::Pass;

/// Zeroes each feature with a probability and scales the others up; changes nothing outside training.
#[derive(Module, Debug)]
pub struct Dropout {
    probability: f32,
    #[module(skip)]
    path: LayerPath,
}

impl Dropout {
    /// The layer; refuses what is no probability below 1, in the name of `field`.
    pub fn new(field: &str, probability: f32, init: &Init) -> Result<Self, ConfigError> {
        check_dropout(field, probability)?;
        Ok(Self { probability, path: init.path() })
    }

    /// Whether it changes anything in this pass.
    pub fn is_on(&self, pass: &Pass) -> bool {
        pass.dropout(&self.path, self.probability).is_some()
    }

    /// `x` with features left out.
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
