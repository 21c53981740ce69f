//! Long short-term memory (Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000).
//!
//! ```text
//! i, f, o = σ(x_t W_ih + h_{t−1} W_hh + b)      g = tanh(x_t W_ih + h_{t−1} W_hh + b)
//! c_t = f ∘ c_{t−1} + i ∘ g                     h_t = o ∘ tanh(c_t)
//! ```

use std::ops::Range;

use burn::tensor::activation::sigmoid;
use burn::tensor::{Int, Tensor, TensorData};
use burn_flex::FlexTensor;
use regard_kernels::recurrent::{RecurrentShape, lstm as kernel};
use regard_kernels::unwritten;

use super::{at_step, shaped_like, unwritten_like, zero_state};
use crate::error::{OpError, check_shape};
use crate::fused::{FusedOp, Purpose, apply, contiguous, elements, is_fused, tensor};
use crate::linear::linear_fallback;

/// Number of gates.
const GATES: usize = 4;

/// The parameters of [`lstm`], with the gates in the order `i, f, g, o` along the last dimension.
#[derive(Debug, Clone)]
pub struct LstmWeights {
    /// Input weights, `[d_in, 4·d_hidden]`.
    pub w_ih: Tensor<2>,
    /// Recurrent weights, `[d_hidden, 4·d_hidden]`.
    pub w_hh: Tensor<2>,
    /// Bias, `[4·d_hidden]`: the sum of PyTorch's two biases.
    pub bias: Tensor<1>,
}

/// The state that an LSTM carries from step to step.
#[derive(Debug, Clone)]
pub struct LstmState {
    /// Hidden state `h`, `[batch, d_hidden]`.
    pub hidden: Tensor<2>,
    /// Cell state `c`, `[batch, d_hidden]`.
    pub cell: Tensor<2>,
}

/// The result of [`lstm`]. Gradients flow through all of its tensors.
#[derive(Debug, Clone)]
pub struct LstmOutput {
    /// Hidden state `h` after every step, `[batch, seq, d_hidden]`.
    pub hidden: Tensor<3>,
    /// State after the last step.
    pub state: LstmState,
}

/// Runs an LSTM over a sequence, starting from `initial` or from zeros.
///
/// # Shapes
/// `x` `[batch, seq, d_in]`, weights and states as in [`LstmWeights`] and [`LstmState`] → hidden states
/// `[batch, seq, d_hidden]` and the last state. No size may be zero.
pub fn lstm(x: Tensor<3>, weights: LstmWeights, initial: Option<LstmState>) -> Result<LstmOutput, OpError> {
    run(x, weights, initial, None)
}

/// [`lstm`] that returns the state of each sequence after its own `lengths[sequence]` steps.
///
/// Hidden states are computed for padding too, but they affect neither earlier hidden states nor the returned state.
///
/// # Shapes
/// The shapes of [`lstm`]; `lengths` `[batch]`, each from 1 to `seq`.
pub fn lstm_with_lengths(
    x: Tensor<3>,
    weights: LstmWeights,
    initial: Option<LstmState>,
    lengths: &[usize],
) -> Result<LstmOutput, OpError> {
    let [batch, seq, _] = x.dims();
    check_shape("lengths", [lengths.len()], [batch])?;
    if let Some(length) = lengths.iter().find(|length| !(1..=seq).contains(length)) {
        return Err(OpError::Option { what: "lengths", why: format!("expected 1 to {seq}, got {length}") });
    }
    run(x, weights, initial, Some(lengths))
}

fn run(
    x: Tensor<3>,
    weights: LstmWeights,
    initial: Option<LstmState>,
    lengths: Option<&[usize]>,
) -> Result<LstmOutput, OpError> {
    let LstmWeights { w_ih, w_hh, bias } = &weights;
    let states = initial.iter().flat_map(|s| [("initial hidden state", &s.hidden), ("initial cell state", &s.cell)]);
    let states: Vec<_> = states.collect();
    let shape = super::check(GATES, &x, [w_ih, w_hh], &[("bias", bias)], &states)?;
    if !is_fused(&x) {
        return Ok(lstm_fallback(x, weights, initial, lengths));
    }
    let RecurrentShape { batch, seq, d_hidden, .. } = shape;
    let LstmState { hidden, cell } = initial.unwrap_or_else(|| zero(&x, w_hh));
    let LstmWeights { w_ih, w_hh, bias } = weights;
    let (w_ih, w_hh, bias) = (w_ih.into_dispatch(), w_hh.into_dispatch(), bias.into_dispatch());
    let inputs = [x.into_dispatch(), w_ih, w_hh, bias, hidden.into_dispatch(), cell.into_dispatch()];
    let packed: Tensor<2> = apply(Lstm { shape, lengths: lengths.map(<[_]>::to_vec) }, inputs)?;
    let hidden = packed.clone().narrow(0, 0, batch * seq).reshape([batch, seq, d_hidden]);
    let cell = packed.narrow(0, batch * seq, batch);
    let state = LstmState { hidden: last_of(&hidden, lengths), cell };
    Ok(LstmOutput { hidden, state })
}

/// [`lstm`] or, given `lengths`, [`lstm_with_lengths`] in plain Burn operations, without argument checks.
pub fn lstm_fallback(
    x: Tensor<3>,
    weights: LstmWeights,
    initial: Option<LstmState>,
    lengths: Option<&[usize]>,
) -> LstmOutput {
    let LstmWeights { w_ih, w_hh, bias } = weights;
    let (seq, d_hidden) = (x.dims()[1], w_hh.dims()[0]);
    let LstmState { mut hidden, mut cell } = initial.unwrap_or_else(|| zero(&x, &w_hh));
    let projected = linear_fallback(x, w_ih, Some(bias), None);
    let mut steps = [Vec::with_capacity(seq), Vec::with_capacity(seq)];
    for step in 0..seq {
        let sums = at_step(&projected, step) + hidden.matmul(w_hh.clone());
        let [i, f, g, o] = std::array::from_fn(|gate| sums.clone().narrow(1, gate * d_hidden, d_hidden));
        cell = sigmoid(f) * cell + sigmoid(i) * g.tanh();
        hidden = sigmoid(o) * cell.clone().tanh();
        steps[0].push(hidden.clone());
        steps[1].push(cell.clone());
    }
    let [hidden, cells] = steps.map(|steps| Tensor::stack::<3>(steps, 1));
    let state = LstmState { hidden: last_of(&hidden, lengths), cell: last_of(&cells, lengths) };
    LstmOutput { hidden, state }
}

/// Returns the last step of each sequence: `[batch, seq, width]` → `[batch, width]`.
fn last_of(steps: &Tensor<3>, lengths: Option<&[usize]>) -> Tensor<2> {
    let [batch, seq, width] = steps.dims();
    let Some(lengths) = lengths else { return at_step(steps, seq - 1) };
    let rows: Vec<i64> = (0..batch).map(|sequence| (sequence * seq + lengths[sequence] - 1) as i64).collect();
    let rows = Tensor::<1, Int>::from_data(TensorData::new(rows, [batch]), &steps.device());
    steps.clone().reshape([batch * seq, width]).select(0, rows)
}

fn zero(x: &Tensor<3>, w_hh: &Tensor<2>) -> LstmState {
    LstmState { hidden: zero_state(x, w_hh), cell: zero_state(x, w_hh) }
}

/// The fused operation. Its inputs are `x`, `w_ih`, `w_hh`, the bias and the initial hidden and cell states. Its output
/// `[batch·seq + batch, d_hidden]` holds all hidden states, then the last cell state of each sequence, so that the hidden
/// states are a contiguous view.
#[derive(Debug, Clone)]
struct Lstm {
    shape: RecurrentShape,
    /// Number of steps of each sequence; `seq` for all if `None`.
    lengths: Option<Vec<usize>>,
}

#[derive(Debug, Clone)]
struct Saved {
    inputs: [FlexTensor; 6],
    out: FlexTensor,
    cells: Vec<f32>,
    gates: Vec<f32>,
}

impl FusedOp<6> for Lstm {
    type Saved = Saved;

    fn forward(&self, inputs: [FlexTensor; 6], _: Purpose) -> Result<(FlexTensor, Saved), OpError> {
        let RecurrentShape { batch, seq, d_hidden, .. } = self.shape;
        let inputs = inputs.map(contiguous);
        let [x, w_ih, w_hh, bias, h0, c0] = inputs.each_ref().map(elements);
        let weights = kernel::LstmWeights { w_ih, w_hh, bias };
        let len = batch * seq * d_hidden;
        let (mut cells, mut gates) = (unwritten(len), unwritten(GATES * len));
        let mut out = unwritten(len + batch * d_hidden);
        let (hidden, last) = out.split_at_mut(len);
        kernel::lstm_forward(self.shape, x, weights, h0, c0, hidden, &mut cells, &mut gates)?;
        for (sequence, last) in last.chunks_exact_mut(d_hidden).enumerate() {
            last.copy_from_slice(&cells[self.last_cell(sequence)]);
        }
        let out = tensor(out, [batch * seq + batch, d_hidden]);
        Ok((out.clone(), Saved { inputs, out, cells, gates }))
    }

    fn backward(&self, saved: Saved, grad: FlexTensor, _: [bool; 6]) -> Result<[Option<FlexTensor>; 6], OpError> {
        let Saved { inputs, out, cells, mut gates } = saved;
        let [x, w_ih, w_hh, bias, h0, c0] = inputs.each_ref().map(elements);
        let weights = kernel::LstmWeights { w_ih, w_hh, bias };
        let hidden = &elements(&out)[..cells.len()];
        let grad = contiguous(grad);
        let (grad_hidden, grad_last) = elements(&grad).split_at(cells.len());
        let grad_cells = self.grad_cells(grad_last);
        let mut grads = unwritten_like(&inputs);
        let [grad_x, w_ih, w_hh, bias, grad_h0, grad_c0] = &mut grads;
        let gradients = kernel::LstmGradients { x: grad_x, w_ih, w_hh, bias, h0: grad_h0, c0: grad_c0 };
        kernel::lstm_backward(
            self.shape,
            x,
            weights,
            h0,
            c0,
            hidden,
            &cells,
            &mut gates,
            grad_hidden,
            grad_cells.as_deref(),
            gradients,
        )?;
        Ok(shaped_like(&inputs, grads))
    }
}

impl Lstm {
    /// Returns the gradients of all cell states, given those of the last; `None` if all are zero, as when it is not used.
    fn grad_cells(&self, last: &[f32]) -> Option<Vec<f32>> {
        let RecurrentShape { batch, seq, d_hidden, .. } = self.shape;
        if last.iter().all(|&grad| grad == 0.0) {
            return None;
        }
        let mut all = vec![0.0; batch * seq * d_hidden];
        for (sequence, last) in last.chunks_exact(d_hidden).enumerate() {
            all[self.last_cell(sequence)].copy_from_slice(last);
        }
        Some(all)
    }

    /// Returns the range of the last cell state of a sequence in the buffer of all cell states.
    fn last_cell(&self, sequence: usize) -> Range<usize> {
        let RecurrentShape { seq, d_hidden, .. } = self.shape;
        let length = self.lengths.as_ref().map_or(seq, |lengths| lengths[sequence]);
        let end = (sequence * seq + length) * d_hidden;
        end - d_hidden..end
    }
}
