//! LSTM with a Gaussian window over a text among its inputs (Graves 2013). See
//! [`regard_kernels::recurrent::lstm::window`] for the formula.

use burn::tensor::activation::sigmoid;
use burn::tensor::{Tensor, TensorData};
use burn_flex::FlexTensor;
use regard_kernels::recurrent::RecurrentShape;
use regard_kernels::recurrent::lstm::LstmWeights as Gates;
use regard_kernels::recurrent::lstm::window as kernel;
use regard_kernels::recurrent::lstm::window::{MAX_LOG_HEIGHT, MAX_LOG_MOVE, MAX_LOG_SHARPNESS, WindowShape};
use regard_kernels::unwritten;

use super::lstm::LstmWeights;
use super::{at_step, shaped_like, unwritten_like, zero_state};
use crate::error::{OpError, check_shape};
use crate::fused::{FusedOp, Purpose, apply, check_f32, contiguous, elements, is_fused, tensor};

/// The parameters of [`window_lstm`].
#[derive(Debug, Clone)]
pub struct WindowLstmWeights {
    /// Parameters of the LSTM; `w_ih` is `[d_in + d_char, 4·d_hidden]`, its last rows belong to the window.
    pub lstm: LstmWeights,
    /// Projection of `h_t` to `α̂`, `β̂` and `κ̂`, `[d_hidden, 3·n_components]`.
    pub projection: Tensor<2>,
    /// Bias of the projection, `[3·n_components]`.
    pub projection_bias: Tensor<1>,
}

/// The result of [`window_lstm`]. Gradients flow through both tensors.
#[derive(Debug, Clone)]
pub struct WindowLstmOutput {
    /// Hidden state `h_t` after every step, `[batch, seq, d_hidden]`.
    pub hidden: Tensor<3>,
    /// Window `w_t` after every step, `[batch, seq, d_char]`.
    pub windows: Tensor<3>,
}

/// Runs an LSTM whose input has the window of the step before, starting from zeros. `texts` has the characters of each
/// sequence, all below `d_char`.
///
/// # Shapes
/// `x` `[batch, seq, d_in]`, weights as in [`WindowLstmWeights`] → hidden states `[batch, seq, d_hidden]` and windows
/// `[batch, seq, d_char]`. No size may be zero; a text may be empty.
pub fn window_lstm(
    x: Tensor<3>,
    texts: Vec<Vec<u32>>,
    weights: WindowLstmWeights,
) -> Result<WindowLstmOutput, OpError> {
    let shape = check(&x, &texts, &weights)?;
    if !is_fused(&x) {
        return Ok(window_lstm_fallback(x, &texts, weights));
    }
    let RecurrentShape { batch, seq, d_hidden, .. } = shape.lstm;
    let WindowLstmWeights { lstm: LstmWeights { w_ih, w_hh, bias }, projection, projection_bias } = weights;
    let inputs = [
        x.into_dispatch(),
        w_ih.into_dispatch(),
        w_hh.into_dispatch(),
        bias.into_dispatch(),
        projection.into_dispatch(),
        projection_bias.into_dispatch(),
    ];
    let packed: Tensor<1> = apply(WindowLstm { shape, texts }, inputs)?;
    let (states, windows) = (batch * seq * d_hidden, batch * seq * shape.d_char);
    let hidden = packed.clone().narrow(0, 0, states).reshape([batch, seq, d_hidden]);
    let windows = packed.narrow(0, states, windows).reshape([batch, seq, shape.d_char]);
    Ok(WindowLstmOutput { hidden, windows })
}

/// [`window_lstm`] in plain Burn operations, without argument checks.
pub fn window_lstm_fallback(x: Tensor<3>, texts: &[Vec<u32>], weights: WindowLstmWeights) -> WindowLstmOutput {
    let WindowLstmWeights { lstm: LstmWeights { w_ih, w_hh, bias }, projection, projection_bias } = weights;
    let ([batch, seq, d_in], d_hidden) = (x.dims(), w_hh.dims()[0]);
    let (d_char, n_components) = (w_ih.dims()[0] - d_in, projection.dims()[1] / 3);
    let device = x.device();
    let longest = texts.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let mut characters = vec![0.0; batch * longest * d_char];
    for (row, text) in texts.iter().enumerate() {
        for (u, &character) in text.iter().enumerate() {
            characters[(row * longest + u) * d_char + character as usize] = 1.0;
        }
    }
    let characters = Tensor::<3>::from_data(TensorData::new(characters, [batch, longest, d_char]), &device);
    let places: Vec<f32> = (1..=longest).map(|u| u as f32).collect();
    let places = Tensor::<3>::from_data(TensorData::new(places, [1, longest, 1]), &device);
    let (mut hidden, mut cell) = (zero_state(&x, &w_hh), zero_state(&x, &w_hh));
    let mut window = Tensor::<2>::zeros([batch, d_char], &device);
    let mut position = Tensor::<2>::zeros([batch, n_components], &device);
    let (mut all_hidden, mut all_windows) = (Vec::with_capacity(seq), Vec::with_capacity(seq));
    for step in 0..seq {
        let input = Tensor::cat(vec![at_step(&x, step), window], 1);
        let sums = input.matmul(w_ih.clone()) + hidden.matmul(w_hh.clone()) + bias.clone().unsqueeze();
        let [i, f, g, o] = std::array::from_fn(|gate| sums.clone().narrow(1, gate * d_hidden, d_hidden));
        cell = sigmoid(f) * cell + sigmoid(i) * g.tanh();
        hidden = sigmoid(o) * cell.clone().tanh();
        let raw = hidden.clone().matmul(projection.clone()) + projection_bias.clone().unsqueeze();
        let part = |index, most| raw.clone().narrow(1, index * n_components, n_components).clamp_max(most);
        position = position + part(2, MAX_LOG_MOVE).exp();
        let distance = position.clone().unsqueeze_dim::<3>(1) - places.clone();
        let (height, sharpness) = (part(0, MAX_LOG_HEIGHT), part(1, MAX_LOG_SHARPNESS).exp());
        let exponents = height.unsqueeze_dim::<3>(1) - sharpness.unsqueeze_dim::<3>(1) * (distance.clone() * distance);
        let weights = exponents.exp().sum_dim(2).swap_dims(1, 2);
        window = weights.matmul(characters.clone()).squeeze_dim(1);
        all_hidden.push(hidden.clone());
        all_windows.push(window.clone());
    }
    WindowLstmOutput { hidden: Tensor::stack(all_hidden, 1), windows: Tensor::stack(all_windows, 1) }
}

/// Checks the arguments and returns their sizes.
fn check(x: &Tensor<3>, texts: &[Vec<u32>], weights: &WindowLstmWeights) -> Result<WindowShape, OpError> {
    let WindowLstmWeights { lstm: LstmWeights { w_ih, w_hh, bias }, projection, projection_bias } = weights;
    check_f32("input", x)?;
    check_f32("w_ih", w_ih)?;
    check_f32("w_hh", w_hh)?;
    check_f32("bias", bias)?;
    check_f32("projection", projection)?;
    check_f32("projection_bias", projection_bias)?;
    let ([batch, seq, d_in], [d_hidden, _], [rows, _]) = (x.dims(), w_hh.dims(), w_ih.dims());
    if [batch, seq, d_in].contains(&0) {
        let expected = "[batch, seq, d_in], each 1 or more".into();
        return Err(OpError::Shape { what: "input", expected, got: x.dims().to_vec() });
    }
    let width = 4 * d_hidden;
    if d_hidden == 0 || rows <= d_in {
        let expected = format!("[more than {d_in}, 4 · d_hidden], d_hidden 1 or more");
        return Err(OpError::Shape { what: "w_ih", expected, got: w_ih.dims().to_vec() });
    }
    check_shape("w_hh", w_hh.dims(), [d_hidden, width])?;
    check_shape("w_ih", w_ih.dims(), [rows, width])?;
    check_shape("bias", bias.dims(), [width])?;
    let [outputs] = projection_bias.dims();
    if outputs == 0 || !outputs.is_multiple_of(3) {
        let expected = "[3 · n_components], n_components 1 or more".to_string();
        return Err(OpError::Shape { what: "projection_bias", expected, got: vec![outputs] });
    }
    check_shape("projection", projection.dims(), [d_hidden, outputs])?;
    check_shape("texts", [texts.len()], [batch])?;
    let d_char = rows - d_in;
    if let Some(id) = texts.iter().flatten().find(|id| **id as usize >= d_char) {
        return Err(OpError::Option { what: "texts", why: format!("expected characters below {d_char}, got {id}") });
    }
    Ok(WindowShape { lstm: RecurrentShape { batch, seq, d_in, d_hidden }, d_char, n_components: outputs / 3 })
}

/// The fused operation. Its inputs are `x`, `w_ih`, `w_hh`, the bias, the projection and its bias. Its output holds all hidden
/// states, then all windows.
#[derive(Debug, Clone)]
struct WindowLstm {
    shape: WindowShape,
    texts: Vec<Vec<u32>>,
}

#[derive(Debug, Clone)]
struct Saved {
    inputs: [FlexTensor; 6],
    out: FlexTensor,
    cells: Vec<f32>,
    gates: Vec<f32>,
    raw: Vec<f32>,
    positions: Vec<f32>,
}

fn weights([w_ih, w_hh, bias, projection, projection_bias]: [&[f32]; 5]) -> kernel::WindowWeights<'_> {
    kernel::WindowWeights { lstm: Gates { w_ih, w_hh, bias }, projection, projection_bias }
}

impl FusedOp<6> for WindowLstm {
    type Saved = Saved;

    fn forward(&self, inputs: [FlexTensor; 6], _: Purpose) -> Result<(FlexTensor, Saved), OpError> {
        let WindowShape { lstm: RecurrentShape { batch, seq, d_hidden, .. }, d_char, n_components } = self.shape;
        let inputs = inputs.map(contiguous);
        let [x, w_ih, w_hh, bias, projection, projection_bias] = inputs.each_ref().map(elements);
        let rows = batch * seq;
        let (mut cells, mut gates) = (unwritten(rows * d_hidden), unwritten(4 * rows * d_hidden));
        let (mut raw, mut positions) = (unwritten(3 * rows * n_components), unwritten(rows * n_components));
        let mut out = unwritten(rows * (d_hidden + d_char));
        let (hidden, windows) = out.split_at_mut(rows * d_hidden);
        let states = kernel::WindowStates {
            hidden,
            windows,
            cells: &mut cells,
            gates: &mut gates,
            raw: &mut raw,
            positions: &mut positions,
        };
        let weights = weights([w_ih, w_hh, bias, projection, projection_bias]);
        kernel::window_forward(self.shape, x, &self.texts, weights, states)?;
        let length = out.len();
        let out = tensor(out, [length]);
        Ok((out.clone(), Saved { inputs, out, cells, gates, raw, positions }))
    }

    fn backward(&self, saved: Saved, grad: FlexTensor, _: [bool; 6]) -> Result<[Option<FlexTensor>; 6], OpError> {
        let Saved { inputs, out, cells, mut gates, mut raw, positions } = saved;
        let [x, w_ih, w_hh, bias, projection, projection_bias] = inputs.each_ref().map(elements);
        let grad = contiguous(grad);
        let (grad_hidden, grad_windows) = elements(&grad).split_at(cells.len());
        let (hidden, windows) = elements(&out).split_at(cells.len());
        let kept = kernel::WindowSaved {
            hidden,
            windows,
            cells: &cells,
            gates: &mut gates,
            raw: &mut raw,
            positions: &positions,
        };
        let all = weights([w_ih, w_hh, bias, projection, projection_bias]);
        let mut grads = unwritten_like(&inputs);
        let [grad_x, w_ih, w_hh, bias, projection, projection_bias] = &mut grads;
        let gradients = kernel::WindowGradients { x: grad_x, w_ih, w_hh, bias, projection, projection_bias };
        kernel::window_backward(self.shape, x, &self.texts, all, kept, grad_hidden, grad_windows, gradients)?;
        Ok(shaped_like(&inputs, grads))
    }
}
