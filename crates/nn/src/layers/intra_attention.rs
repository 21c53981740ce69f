//! Intra-attention, after Cheng 2016: a recurrent network that attends over its own past outputs.
//!
//! Training keeps the past of every step, so memory grows as `batch · seq² · d_hidden`.
//!
//! ```text
//! y_t = tanh(B [x_t; y_{t−1}; C_{t−1}] + b)      y_0 = C_0 = 0
//! C_t = Σ_{i ≤ t} α_i y_i                        α = softmax_i(y_t·y_i / √d_hidden), i from 1
//! ```

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use regard_ops::{AttentionOptions, Precision, linear};
use serde::{Deserialize, Serialize};

use crate::config::check_positive;
use crate::error::{ConfigError, NnError};
use crate::heads::{AttentionKind, Heads};
use crate::init::Init;
use crate::layers::linear::{Linear, LinearConfig};
use crate::lengths::Lengths;
use crate::pass::Pass;

/// Configuration of an [`IntraAttention`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntraAttentionConfig {
    /// Number of input features.
    pub d_in: usize,
    /// Number of features of `y`.
    pub d_hidden: usize,
}

impl IntraAttentionConfig {
    /// Returns a configuration with these sizes.
    pub fn new(d_in: usize, d_hidden: usize) -> Self {
        Self { d_in, d_hidden }
    }

    /// Returns an error if a size is zero.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("d_in", self.d_in)?;
        check_positive("d_hidden", self.d_hidden)
    }

    /// Creates the layer as head number `head` of its parent layer. `B` is initialised as one matrix, the bias with zeros.
    pub fn init(&self, head: usize, init: &Init) -> Result<IntraAttention, ConfigError> {
        self.validate()?;
        let Self { d_in, d_hidden } = *self;
        let fan = [d_in + 2 * d_hidden, d_hidden];
        let mut input = LinearConfig::new(d_in, d_hidden).init(&init.enter("input"))?;
        input.weight = init.enter("input").weight("weight", [d_in, d_hidden], fan);
        let past = init.weight("past", [2 * d_hidden, d_hidden], fan);
        Ok(IntraAttention { input, past, heads: init.more_heads(AttentionKind::SelfAttention, head, 1) })
    }
}

/// Recurrent layer with intra-attention; see the [module](self) for the formula.
#[derive(Module, Debug)]
pub struct IntraAttention {
    /// Part of `B` that multiplies `x`, `[d_in, d_hidden]`, and the bias `[d_hidden]`.
    pub input: Linear,
    /// Part of `B` that multiplies `[y; C]`, `[2·d_hidden, d_hidden]`.
    pub past: Param<Tensor<2>>,
    #[module(skip)]
    heads: Heads,
}

/// The result of [`IntraAttention::forward`]. Gradients flow through both tensors.
#[derive(Debug, Clone)]
pub struct IntraAttentionOutput {
    /// Output `y` of every step, `[batch, seq, d_hidden]`; zero at padding.
    pub hidden: Tensor<3>,
    /// Output `y` of the last step of each sequence, `[batch, d_hidden]`; zero for an empty sequence.
    pub last: Tensor<2>,
}

impl IntraAttention {
    /// Runs all steps. Padding has no effect. Row `t ≥ 1` of a captured map holds the weights of `C` in the input of step `t`
    /// (counted from 0), which attends to the `t` steps before it.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_in]`, `lengths` `[batch]` → [`IntraAttentionOutput`].
    pub fn forward(
        &self,
        x: Tensor<3>,
        lengths: Option<&[usize]>,
        pass: &Pass,
    ) -> Result<IntraAttentionOutput, NnError> {
        let ([batch, seq, d_in], [expected, _]) = (x.dims(), self.input.weight.dims());
        if batch == 0 || seq == 0 || d_in != expected {
            let expected = format!("[batch, seq, {expected}], each 1 or more");
            return Err(NnError::input("input", expected, format!("{:?}", x.dims())));
        }
        let padding = Lengths::new(lengths, [batch, seq], &x.device())?;
        let input = self.input.forward(padding.blank(x))?;
        let at = |step: usize| input.clone().narrow(1, step, 1).squeeze_dim::<2>(1);
        let mut y = at(0).tanh();
        let mut earlier: Tensor<3> = y.clone().unsqueeze_dim(1);
        for step in 1..seq {
            let context = self.context(&y, &earlier, lengths, pass)?;
            let past = linear(Tensor::cat(vec![y, context], 1), self.past.val(), None, None, Precision::F32)?;
            y = (at(step) + past).tanh();
            earlier = Tensor::cat(vec![earlier, y.clone().unsqueeze_dim(1)], 1);
        }
        let last = padding.unmoved(padding.last(earlier.clone()), None);
        Ok(IntraAttentionOutput { hidden: padding.blank(earlier), last })
    }

    /// Computes the attention of the last `y` over all outputs so far, itself included; zero for a sequence that has ended.
    ///
    /// # Shapes
    /// `y` `[batch, d_hidden]`, `earlier` `[batch, steps, d_hidden]` → `[batch, d_hidden]`.
    fn context(
        &self,
        y: &Tensor<2>,
        earlier: &Tensor<3>,
        lengths: Option<&[usize]>,
        pass: &Pass,
    ) -> Result<Tensor<2>, NnError> {
        let [batch, steps, d_hidden] = earlier.dims();
        let seen = |&length: &usize| if steps < length { steps } else { 0 };
        let lengths = lengths.map(|lengths| lengths.iter().map(seen).collect());
        let options = AttentionOptions { lengths, ..AttentionOptions::default() };
        let query = y.clone().reshape([batch, 1, 1, d_hidden]);
        let keys = earlier.clone().reshape([batch, 1, steps, d_hidden]);
        Ok(self.heads.attend(query, keys.clone(), keys, &options, steps, pass)?.reshape([batch, d_hidden]))
    }
}
