//! Fused recurrent networks over a sequence: [`lstm`], [`gru`], the plain tanh network [`rnn`], and [`window_lstm`], an LSTM
//! with a window over a text.
//!
//! Weights are `[from, to]`, as in `x W`: the transpose of PyTorch's `weight_ih_l0`. See [`regard_kernels::recurrent`]
//! for how a step is computed.

mod gru;
mod lstm;
mod rnn;
mod window;

use burn::tensor::{DType, Tensor};
use burn_flex::FlexTensor;
use regard_kernels::recurrent::RecurrentShape;
use regard_kernels::unwritten;

pub use gru::{GruWeights, gru, gru_fallback};
pub use lstm::{LstmOutput, LstmState, LstmWeights, lstm, lstm_fallback, lstm_with_lengths};
pub use rnn::{RnnWeights, rnn, rnn_fallback};
pub use window::{WindowLstmOutput, WindowLstmWeights, window_lstm, window_lstm_fallback};

use crate::error::{OpError, check_shape};
use crate::fused::{check_f32, tensor};

/// Checks the arguments and returns their sizes. The weights are `gates · d_hidden` wide.
fn check(
    gates: usize,
    x: &Tensor<3>,
    [w_ih, w_hh]: [&Tensor<2>; 2],
    biases: &[(&'static str, &Tensor<1>)],
    initial: &[(&'static str, &Tensor<2>)],
) -> Result<RecurrentShape, OpError> {
    check_f32("input", x)?;
    check_f32("w_ih", w_ih)?;
    check_f32("w_hh", w_hh)?;
    let [batch, seq, d_in] = x.dims();
    let d_hidden = w_hh.dims()[0];
    // Without a step there is no last state, and Burn does not support empty slices.
    if [batch, seq, d_in].contains(&0) {
        return Err(OpError::Shape {
            what: "input",
            expected: "[batch, seq, d_in], each 1 or more".into(),
            got: x.dims().to_vec(),
        });
    }
    if d_hidden == 0 {
        let expected = format!("[d_hidden, {gates} · d_hidden], d_hidden 1 or more");
        return Err(OpError::Shape { what: "w_hh", expected, got: w_hh.dims().to_vec() });
    }
    check_shape("w_hh", w_hh.dims(), [d_hidden, gates * d_hidden])?;
    check_shape("w_ih", w_ih.dims(), [d_in, gates * d_hidden])?;
    for (what, bias) in biases {
        check_f32(what, bias)?;
        check_shape(what, bias.dims(), [gates * d_hidden])?;
    }
    for (what, state) in initial {
        check_f32(what, state)?;
        check_shape(what, state.dims(), [batch, d_hidden])?;
    }
    Ok(RecurrentShape { batch, seq, d_in, d_hidden })
}

/// Returns the default state before the first step.
fn zero_state(x: &Tensor<3>, w_hh: &Tensor<2>) -> Tensor<2> {
    Tensor::zeros([x.dims()[0], w_hh.dims()[0]], (&x.device(), DType::F32))
}

/// Returns step `step` of each sequence: `[batch, seq, width]` → `[batch, width]`.
fn at_step(sequence: &Tensor<3>, step: usize) -> Tensor<2> {
    sequence.clone().narrow(1, step, 1).squeeze_dim(1)
}

/// Allocates a buffer for the gradient of each input.
fn unwritten_like<const N: usize>(inputs: &[FlexTensor; N]) -> [Vec<f32>; N] {
    inputs.each_ref().map(|input| unwritten(input.layout().num_elements()))
}

/// Returns the gradients as tensors with the shapes of the inputs.
fn shaped_like<const N: usize>(inputs: &[FlexTensor; N], grads: [Vec<f32>; N]) -> [Option<FlexTensor>; N] {
    let mut shapes = inputs.iter().map(|input| input.layout().shape().clone());
    grads.map(|grad| shapes.next().map(|shape| tensor(grad, shape)))
}
