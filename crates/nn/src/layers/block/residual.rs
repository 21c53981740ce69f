//! A part of a block around its residual: `norm(x + dropout(f(x)))` or `x + dropout(f(norm(x)))`.

use burn::module::Module;
use burn::tensor::Tensor;

use super::{BlockConfig, NormPlace};
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::dropout::Dropout;
use crate::layers::norm::Norm;
use crate::pass::Pass;

/// See the [module](self).
#[derive(Module, Debug)]
pub struct Residual {
    /// The norm of this part.
    pub norm: Norm,
    dropout: Dropout,
    #[module(skip)]
    place: NormPlace,
}

impl Residual {
    /// The residual of one part of a block.
    pub fn new(config: &BlockConfig, init: &Init) -> Result<Self, ConfigError> {
        Ok(Self {
            norm: config.norm().init(&init.enter("norm"))?,
            dropout: Dropout::new("dropout", config.dropout, &init.enter("dropout"))?,
            place: config.norm_place,
        })
    }

    /// `x` with what `part` adds.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_model]` → the same.
    pub fn around(
        &self,
        x: Tensor<3>,
        pass: &Pass,
        part: impl FnOnce(Tensor<3>) -> Result<Tensor<3>, NnError>,
    ) -> Result<Tensor<3>, NnError> {
        match self.place {
            NormPlace::Post => {
                let added = self.dropout.forward(part(x.clone())?, pass)?;
                Ok(self.norm.forward(x + added)?)
            }
            NormPlace::Pre => {
                let added = part(self.norm.forward(x.clone())?)?;
                Ok(x + self.dropout.forward(added, pass)?)
            }
        }
    }
}
