//! Random replacement of whole words by the unknown word during training, so that the model learns what to do with one
//! (Dyer 2015).

use burn::module::Module;
use burn::tensor::{Int, Tensor, TensorData};
use rand_distr::{Distribution, StandardUniform};

use crate::config::check_dropout;
use crate::error::ConfigError;
use crate::init::{Init, LayerPath};
use crate::pass::Pass;

/// Makes each word the unknown one with a probability; changes nothing outside training.
#[derive(Module, Debug)]
pub struct WordDropout {
    probability: f32,
    unknown: usize,
    #[module(skip)]
    path: LayerPath,
}

impl WordDropout {
    /// The layer; refuses what is no probability below 1, in the name of `field`.
    pub fn new(field: &str, probability: f32, unknown: usize, init: &Init) -> Result<Self, ConfigError> {
        check_dropout(field, probability)?;
        Ok(Self { probability, unknown, path: init.path() })
    }

    /// `ids` with words left out.
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
