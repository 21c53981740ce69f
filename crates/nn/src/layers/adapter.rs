//! Low-rank adapters (LoRA, [Hu et al. 2021](https://arxiv.org/abs/2106.09685)) of a linear layer whose own weight stays fixed:
//!
//! ```text
//! y = x W + b + α/r · dropout(x) A B,   A [d_in, r],  B [r, d_out]
//! ```
//!
//! `B` starts at zero, so that a new adapter changes nothing. A layer that computes several outputs side by side, such as queries,
//! keys and values, may have an adapter for some of them, each on its own columns of `W`.

use std::collections::BTreeMap;
use std::ops::Range;

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use regard_ops::{OpError, Precision, linear, linear_onto};

use crate::config::check_positive;
use crate::error::ConfigError;
use crate::init::Init;
use crate::layers::dropout::Dropout;
use crate::pass::Pass;

/// Which linear layers of a model get adapters, and of which size.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterPlan {
    /// Columns of the weight that have an adapter each, by the path of the layer, such as `stack.layers.0.attention.qkv`.
    pub layers: BTreeMap<String, Vec<Range<usize>>>,
    /// Number of columns of `A`, `r`.
    pub rank: usize,
    /// Factor on the product, `α/r`.
    pub scale: f32,
    /// Dropout of the adapters' inputs.
    pub dropout: f32,
}

/// Adapters of one linear layer; see the [module](self).
#[derive(Module, Debug)]
pub struct Adapter {
    /// One pair of matrices per range of columns.
    pub parts: Vec<AdapterPart>,
    dropout: Dropout,
    d_out: usize,
    scale: f32,
}

/// The matrices of an adapter for some columns of a weight.
#[derive(Module, Debug)]
pub struct AdapterPart {
    /// `A`, `[d_in, rank]`.
    pub down: Param<Tensor<2>>,
    /// `B`, `[rank, columns]`.
    pub up: Param<Tensor<2>>,
    first: usize,
}

impl Adapter {
    /// Creates the adapters that the plan of `init` has for the linear layer there, if it has any.
    pub fn planned(d_in: usize, d_out: usize, init: &Init) -> Result<Option<Self>, ConfigError> {
        let path = init.path();
        let Some(plan) = init.adapters() else { return Ok(None) };
        let Some(columns) = plan.layers.get(path.as_str()) else { return Ok(None) };
        check_positive("rank", plan.rank)?;
        if let Some(beyond) = columns.iter().find(|columns| columns.is_empty() || columns.end > d_out) {
            return Err(ConfigError::new("columns", format!("{beyond:?}"), format!("columns of 0 to {d_out}")));
        }
        let init = init.enter("adapter");
        let part = |(number, columns): (usize, &Range<usize>)| {
            let init = init.enter("parts").enter(number);
            AdapterPart {
                down: init.uniform("down", [d_in, plan.rank], 1.0 / (d_in as f32).sqrt()),
                up: init.constant([plan.rank, columns.len()], 0.0),
                first: columns.start,
            }
        };
        Ok(Some(Self {
            parts: columns.iter().enumerate().map(part).collect(),
            dropout: Dropout::new("dropout", plan.dropout, &init.enter("dropout"))?,
            d_out,
            scale: plan.scale,
        }))
    }

    /// Computes `onto + α/r · dropout(x) A B`.
    ///
    /// # Shapes
    /// `x` `[…, d_in]`, `onto` `[…, d_out]` → `[…, d_out]`.
    pub fn forward_onto<const D: usize>(
        &self,
        x: Tensor<D>,
        onto: Tensor<D>,
        pass: &Pass,
    ) -> Result<Tensor<D>, OpError> {
        // The small matrices of all parts make up one product: all A side by side, and each B in the columns of its own.
        let down = Tensor::cat(self.parts.iter().map(|part| part.down.val()).collect(), 1);
        let up = Tensor::cat(self.parts.iter().map(|part| part.padded(self.d_out)).collect(), 0);
        let hidden = linear(self.dropout.forward(x, pass)?, down, None, None, Precision::F32)?;
        linear_onto(hidden, up * self.scale, None, onto, Precision::F32)
    }
}

impl AdapterPart {
    /// Returns `B` between columns of zeros, `[rank, d_out]`.
    fn padded(&self, d_out: usize) -> Tensor<2> {
        let up = self.up.val();
        let ([rank, width], device) = (up.dims(), up.device());
        let zeros = |columns: usize| (columns > 0).then(|| Tensor::zeros([rank, columns], &device));
        let (before, after) = (zeros(self.first), zeros(d_out - self.first - width));
        let parts: Vec<Tensor<2>> = before.into_iter().chain([up]).chain(after).collect();
        if parts.len() == 1 { self.up.val() } else { Tensor::cat(parts, 1) }
    }
}
