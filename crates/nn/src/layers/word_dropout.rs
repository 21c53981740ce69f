//! Word dropout: random replacement of words by the unknown word during training, so that the model learns to handle
//! unknown words (Dyer 2015).

use burn::module::Module;
use burn::tensor::{Int, Tensor, TensorData};
use rand_distr::{Distribution, StandardUniform};

use crate::config::check_dropout;
use crate::error::ConfigError;
use crate::init::{Init, LayerPath};
use crate::pass::Pass;

/// Word dropout layer: in training, replaces each word by the unknown word with a given probability.
#[derive(Module, Debug)]
pub struct WordDropout {
    probability: f32,
    unknown: usize,
    #[module(skip)]
    path: LayerPath,
}

impl WordDropout {
    /// Creates the layer. Returns an error that names `field` unless `probability` is in `[0, 1)`.
    pub fn new(field: &str, probability: f32, unknown: usize, init: &Init) -> Result<Self, ConfigError> {
        check_dropout(field, probability)?;
        Ok(Self { probability, unknown, path: init.path() })
    }

    /// Replaces random words in `ids` by the unknown word.
    ///
    /// # Shapes
    /// `ids` `[batch, seq]` → the same.
    pub fn forward(&self, ids: Tensor<2, Int>, pass: &Pass) -> Tensor<2, Int> {
        let Some(mut random) = pass.random(&self.path).filter(|_| self.probability > 0.0) else { return ids };
        let (shape, device) = (ids.dims(), ids.device());
        let mut left = |id: i64| {
            let drawn: f32 = StandardUniform.sample(&mut random);
            if drawn < self.probability { self.unknown as i64 } else { id }
        };
        let ids: Vec<i64> = ids.into_data().iter::<i64>().map(&mut left).collect();
        Tensor::from_data(TensorData::new(ids, shape), &device)
    }
}
