//! Residual connection around a part of a block: `norm(x + dropout(f(x)))` or `x + dropout(f(norm(x)))`.

use burn::module::Module;
use burn::tensor::Tensor;

use super::{BlockConfig, NormPlace};
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::dropout::Dropout;
use crate::layers::norm::Norm;
use crate::pass::Pass;

/// Residual connection with norm and dropout around one part of a block.
#[derive(Module, Debug)]
pub struct Residual {
    /// Norm of this part.
    pub norm: Norm,
    dropout: Dropout,
    #[module(skip)]
    place: NormPlace,
}

impl Residual {
    /// Creates the residual of one part of a block, with this dropout probability of its output.
    pub fn new(config: &BlockConfig, dropout: f32, init: &Init) -> Result<Self, ConfigError> {
        Ok(Self {
            norm: config.norm().init(&init.enter("norm"))?,
            dropout: Dropout::new("dropout", dropout, &init.enter("dropout"))?,
            place: config.norm_place,
        })
    }

    /// Adds the output of `part` to `x`. `part` gets its input and, without dropout, also `x`, to which it adds its output
    /// itself, in the same operation as its last product.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_model]` → the same.
    pub fn around(
        &self,
        x: Tensor<3>,
        pass: &Pass,
        part: impl FnOnce(Tensor<3>, Option<Tensor<3>>) -> Result<Tensor<3>, NnError>,
    ) -> Result<Tensor<3>, NnError> {
        let input = match self.place {
            NormPlace::Post => x.clone(),
            NormPlace::Pre => self.norm.forward(x.clone())?,
        };
        let sum = match self.dropout.is_on(pass) {
            true => x + self.dropout.forward(part(input, None)?, pass)?,
            false => part(input, Some(x))?,
        };
        match self.place {
            NormPlace::Post => Ok(self.norm.forward(sum)?),
            NormPlace::Pre => Ok(sum),
        }
    }
}
