//! Gated recurrent unit (Cho et al. 2014), with the reset gate applied before or after the matrix product.
//!
//! ```text
//! r, z = σ(x_t W_ih + b_ih + h_{t−1} W_hh + b_hh)
//! n = tanh(x_t W_in + b_in + r ∘ (h_{t−1} W_hn + b_hn))     GruReset::AfterProduct
//! n = tanh(x_t W_in + b_in + (r ∘ h_{t−1}) W_hn + b_hn)     GruReset::BeforeProduct
//! h_t = (1 − z) ∘ n + z ∘ h_{t−1}
//! ```

use burn::tensor::Tensor;
use burn::tensor::activation::sigmoid;
use burn_flex::FlexTensor;
use regard_kernels::recurrent::gru::GruReset;
use regard_kernels::recurrent::{RecurrentShape, gru as kernel};
use regard_kernels::unwritten;

use super::{at_step, shaped_like, unwritten_like, zero_state};
use crate::error::OpError;
use crate::fused::{FusedOp, Purpose, apply, contiguous, elements, is_fused, tensor};
use crate::linear::linear_fallback;

/// Number of gates.
const GATES: usize = 3;

/// The parameters of [`gru`], with the gates in the order `r, z, n` along the last dimension.
#[derive(Debug, Clone)]
pub struct GruWeights {
    /// Input weights, `[d_in, 3·d_hidden]`.
    pub w_ih: Tensor<2>,
    /// Recurrent weights, `[d_hidden, 3·d_hidden]`.
    pub w_hh: Tensor<2>,
    /// Bias added to the input product, `[3·d_hidden]`.
    pub bias_ih: Tensor<1>,
    /// Bias added to the recurrent product, `[3·d_hidden]`.
    pub bias_hh: Tensor<1>,
}

/// Runs a gated recurrent unit over a sequence, starting from `initial` or from zeros.
///
/// # Shapes
/// `x` `[batch, seq, d_in]`, weights as in [`GruWeights`], `initial` `[batch, d_hidden]` → the hidden state after every
/// step, `[batch, seq, d_hidden]`. The last step is the state to continue from. No size may be zero.
pub fn gru(
    x: Tensor<3>,
    weights: GruWeights,
    reset: GruReset,
    initial: Option<Tensor<2>>,
) -> Result<Tensor<3>, OpError> {
    let GruWeights { w_ih, w_hh, bias_ih, bias_hh } = &weights;
    let states: Vec<_> = initial.iter().map(|state| ("initial state", state)).collect();
    let biases = [("bias_ih", bias_ih), ("bias_hh", bias_hh)];
    let shape = super::check(GATES, &x, [w_ih, w_hh], &biases, &states)?;
    if !is_fused(&x) {
        return Ok(gru_fallback(x, weights, reset, initial));
    }
    let initial = initial.unwrap_or_else(|| zero_state(&x, w_hh)).into_dispatch();
    let GruWeights { w_ih, w_hh, bias_ih, bias_hh } = weights;
    let (w_ih, w_hh) = (w_ih.into_dispatch(), w_hh.into_dispatch());
    let (bias_ih, bias_hh) = (bias_ih.into_dispatch(), bias_hh.into_dispatch());
    apply(Gru { shape, reset }, [x.into_dispatch(), w_ih, w_hh, bias_ih, bias_hh, initial])
}

/// [`gru`] in plain Burn operations, without its argument checks.
pub fn gru_fallback(x: Tensor<3>, weights: GruWeights, reset: GruReset, initial: Option<Tensor<2>>) -> Tensor<3> {
    let GruWeights { w_ih, w_hh, bias_ih, bias_hh } = weights;
    let (seq, d_hidden) = (x.dims()[1], w_hh.dims()[0]);
    let mut hidden = initial.unwrap_or_else(|| zero_state(&x, &w_hh));
    let projected = linear_fallback(x, w_ih, Some(bias_ih), None);
    let gate = |sums: &Tensor<2>, gate: usize| sums.clone().narrow(1, gate * d_hidden, d_hidden);
    let (w_hn, bias_hn) = (gate(&w_hh, 2), bias_hh.clone().narrow(0, 2 * d_hidden, d_hidden));
    let mut steps = Vec::with_capacity(seq);
    for step in 0..seq {
        let input = at_step(&projected, step);
        let recurrent = linear_fallback(hidden.clone(), w_hh.clone(), Some(bias_hh.clone()), None);
        let [r, z] = std::array::from_fn(|n| sigmoid(gate(&input, n) + gate(&recurrent, n)));
        let candidate = match reset {
            GruReset::AfterProduct => r * gate(&recurrent, 2),
            GruReset::BeforeProduct => linear_fallback(r * hidden.clone(), w_hn.clone(), Some(bias_hn.clone()), None),
        };
        let n = (gate(&input, 2) + candidate).tanh();
        hidden = n.clone() + z * (hidden - n);
        steps.push(hidden.clone());
    }
    Tensor::stack(steps, 1)
}

/// The fused operation. Its inputs are `x`, `w_ih`, `w_hh`, the two biases and the initial state.
#[derive(Debug, Clone)]
struct Gru {
    shape: RecurrentShape,
    reset: GruReset,
}

#[derive(Debug, Clone)]
struct Saved {
    inputs: [FlexTensor; 6],
    hidden: FlexTensor,
    gates: Vec<f32>,
}

impl FusedOp<6> for Gru {
    type Saved = Saved;

    fn forward(&self, inputs: [FlexTensor; 6], _: Purpose) -> Result<(FlexTensor, Saved), OpError> {
        let RecurrentShape { batch, seq, d_hidden, .. } = self.shape;
        let inputs = inputs.map(contiguous);
        let [x, w_ih, w_hh, bias_ih, bias_hh, h0] = inputs.each_ref().map(elements);
        let weights = kernel::GruWeights { w_ih, w_hh, bias_ih, bias_hh };
        let mut hidden = unwritten(batch * seq * d_hidden);
        let mut gates = unwritten(kernel::gru_saved_len(self.shape));
        kernel::gru_forward(self.shape, self.reset, x, weights, h0, &mut hidden, &mut gates)?;
        let hidden = tensor(hidden, [batch, seq, d_hidden]);
        Ok((hidden.clone(), Saved { inputs, hidden, gates }))
    }

    fn backward(&self, saved: Saved, grad: FlexTensor, _: [bool; 6]) -> Result<[Option<FlexTensor>; 6], OpError> {
        let Saved { inputs, hidden, mut gates } = saved;
        let [x, w_ih, w_hh, bias_ih, bias_hh, h0] = inputs.each_ref().map(elements);
        let weights = kernel::GruWeights { w_ih, w_hh, bias_ih, bias_hh };
        let grad = contiguous(grad);
        let mut grads = unwritten_like(&inputs);
        let [grad_x, w_ih, w_hh, bias_ih, bias_hh, grad_h0] = &mut grads;
        let gradients = kernel::GruGradients { x: grad_x, w_ih, w_hh, bias_ih, bias_hh, h0: grad_h0 };
        let (hidden, grad) = (elements(&hidden), elements(&grad));
        kernel::gru_backward(self.shape, self.reset, x, weights, h0, hidden, &mut gates, grad, gradients)?;
        Ok(shaped_like(&inputs, grads))
    }
}
