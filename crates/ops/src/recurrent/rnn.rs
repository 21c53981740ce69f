//! Plain recurrent network (Elman 1990): `h_t = tanh(x_t W_ih + h_{t−1} W_hh + b)`.

use burn::tensor::Tensor;
use burn_flex::FlexTensor;
use regard_kernels::recurrent::{RecurrentShape, rnn as kernel};
use regard_kernels::unwritten;

use super::{at_step, shaped_like, unwritten_like, zero_state};
use crate::error::OpError;
use crate::fused::{FusedOp, Purpose, apply, contiguous, elements, is_fused, tensor};
use crate::linear::linear_fallback;

/// The parameters of [`rnn`].
#[derive(Debug, Clone)]
pub struct RnnWeights {
    /// Input weights, `[d_in, d_hidden]`.
    pub w_ih: Tensor<2>,
    /// Recurrent weights, `[d_hidden, d_hidden]`.
    pub w_hh: Tensor<2>,
    /// Bias, `[d_hidden]`: the sum of PyTorch's two biases.
    pub bias: Tensor<1>,
}

/// Runs a plain recurrent network over a sequence, starting from `initial` or from zeros.
///
/// # Shapes
/// `x` `[batch, seq, d_in]`, weights as in [`RnnWeights`], `initial` `[batch, d_hidden]` → the hidden state after every
/// step, `[batch, seq, d_hidden]`. The last step is the state to continue from. No size may be zero.
pub fn rnn(x: Tensor<3>, weights: RnnWeights, initial: Option<Tensor<2>>) -> Result<Tensor<3>, OpError> {
    let RnnWeights { w_ih, w_hh, bias } = &weights;
    let states: Vec<_> = initial.iter().map(|state| ("initial state", state)).collect();
    let shape = super::check(1, &x, [w_ih, w_hh], &[("bias", bias)], &states)?;
    if !is_fused(&x) {
        return Ok(rnn_fallback(x, weights, initial));
    }
    let initial = initial.unwrap_or_else(|| zero_state(&x, w_hh)).into_dispatch();
    let RnnWeights { w_ih, w_hh, bias } = weights;
    let (w_ih, w_hh, bias) = (w_ih.into_dispatch(), w_hh.into_dispatch(), bias.into_dispatch());
    apply(Rnn { shape }, [x.into_dispatch(), w_ih, w_hh, bias, initial])
}

/// [`rnn`] in plain Burn operations, without its argument checks.
pub fn rnn_fallback(x: Tensor<3>, weights: RnnWeights, initial: Option<Tensor<2>>) -> Tensor<3> {
    let RnnWeights { w_ih, w_hh, bias } = weights;
    let seq = x.dims()[1];
    let mut hidden = initial.unwrap_or_else(|| zero_state(&x, &w_hh));
    let projected = linear_fallback(x, w_ih, Some(bias), None);
    let mut steps = Vec::with_capacity(seq);
    for step in 0..seq {
        hidden = (at_step(&projected, step) + hidden.matmul(w_hh.clone())).tanh();
        steps.push(hidden.clone());
    }
    Tensor::stack(steps, 1)
}

/// The fused operation. Its inputs are `x`, `w_ih`, `w_hh`, the bias and the initial state.
#[derive(Debug, Clone)]
struct Rnn {
    shape: RecurrentShape,
}

#[derive(Debug, Clone)]
struct Saved {
    inputs: [FlexTensor; 5],
    hidden: FlexTensor,
}

impl FusedOp<5> for Rnn {
    type Saved = Saved;

    fn forward(&self, inputs: [FlexTensor; 5], _: Purpose) -> Result<(FlexTensor, Saved), OpError> {
        let RecurrentShape { batch, seq, d_hidden, .. } = self.shape;
        let inputs = inputs.map(contiguous);
        let [x, w_ih, w_hh, bias, h0] = inputs.each_ref().map(elements);
        let mut hidden = unwritten(batch * seq * d_hidden);
        kernel::rnn_forward(self.shape, x, kernel::RnnWeights { w_ih, w_hh, bias }, h0, &mut hidden)?;
        let hidden = tensor(hidden, [batch, seq, d_hidden]);
        Ok((hidden.clone(), Saved { inputs, hidden }))
    }

    fn backward(&self, saved: Saved, grad: FlexTensor, _: [bool; 5]) -> Result<[Option<FlexTensor>; 5], OpError> {
        let Saved { inputs, hidden } = saved;
        let [x, w_ih, w_hh, bias, h0] = inputs.each_ref().map(elements);
        let weights = kernel::RnnWeights { w_ih, w_hh, bias };
        let grad = contiguous(grad);
        let mut grads = unwritten_like(&inputs);
        let [grad_x, w_ih, w_hh, bias, grad_h0] = &mut grads;
        let gradients = kernel::RnnGradients { x: grad_x, w_ih, w_hh, bias, h0: grad_h0 };
        kernel::rnn_backward(self.shape, x, weights, h0, elements(&hidden), elements(&grad), gradients)?;
        Ok(shaped_like(&inputs, grads))
    }
}
