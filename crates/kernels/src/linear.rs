//! A linear layer with bias and activation, and its gradients; also sums of repeated slices.
//!
//! ```text
//! pre = x W + b,   y = f(pre)
//! ∂pre = ∂y f'(pre),   ∂x = ∂pre Wᵀ,   ∂W = xᵀ ∂pre,   ∂b = Σ_rows ∂pre
//! ```

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::activation::{Activation, activate, add_bias_and_activate, differentiate};
use crate::error::{KernelError, check_len, check_product};
use crate::isa::dispatch;
use crate::linear_weight::{LinearWeight, TrainedWeight};
use crate::matmul::{Matrix, Output};
use crate::parallel::{for_each_rows, rows_per_piece};
use crate::scratch::Scratch;
use crate::vector;

/// Number of rows of the pre-activation gradient held at once: a few megabytes, which stay in cache.
const GRADIENT_ROWS: usize = 1024;

/// The sizes of a linear layer and of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinearShape {
    /// Number of rows of the input, batch · seq.
    pub rows: usize,
    /// Number of features of an input row.
    pub d_in: usize,
    /// Number of features of an output row.
    pub d_out: usize,
}

/// Where the gradients of a linear layer are written; `None` skips one. Old content is replaced.
#[derive(Debug, Default)]
pub struct LinearGradients<'a> {
    /// Gradient of the input, `[rows, d_in]`.
    pub x: Option<&'a mut [f32]>,
    /// Gradient of the weight, `[d_in, d_out]`, column after column if the weight is stored that way.
    pub weight: Option<&'a mut [f32]>,
    /// Gradient of the bias, `[d_out]`.
    pub bias: Option<&'a mut [f32]>,
}

/// Computes `out = f(x weight + bias)`; with an activation, also writes `x weight + bias` to the slice given with it.
///
/// # Shapes
/// `x` `[rows, d_in]`, `weight` `[d_in, d_out]` stored by rows or by columns, `bias` `[d_out]`, the pre-activation and
/// `out` `[rows, d_out]`.
pub fn linear_forward<'w>(
    shape: LinearShape,
    x: &[f32],
    weight: impl Into<LinearWeight<'w>>,
    bias: Option<&[f32]>,
    activation: Option<(Activation, &mut [f32])>,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let (LinearShape { rows, d_out, .. }, weight) = (shape, weight.into());
    shape.check(x, weight)?;
    check_len("linear bias", bias.map_or(d_out, <[f32]>::len), d_out)?;
    check_len("linear out", out.len(), rows * d_out)?;
    if let Some((_, pre)) = &activation {
        check_len("linear pre-activation", pre.len(), rows * d_out)?;
    }
    if rows == 0 || d_out == 0 {
        return Ok(());
    }
    // Bias and activation are passes over the finished product. Applying them to pieces of rows as they are finished, or
    // starting the product from the bias, gains nothing: [4096, 256] x [256, 1024] takes 6.6 ms, with a bias 7.3 (pieces 7.4,
    // from the bias 7.6), with bias and GELU 12.0 (pieces 12.2).
    match (activation, bias) {
        (None, bias) => {
            weight.product(shape, x, out)?;
            if let Some(bias) = bias {
                for_each_rows(out, d_out, |_, out| dispatch(AddBias { bias, out }));
            }
        }
        (Some((kind, pre)), bias) => {
            weight.product(shape, x, pre)?;
            let finish = |pre: &mut [f32], out: &mut [f32]| match bias {
                Some(bias) => add_bias_and_activate(kind, bias, pre, out),
                None => activate(kind, pre, out),
            };
            let piece = rows_per_piece(d_out) * d_out;
            if pre.len() <= piece {
                finish(pre, out);
            } else {
                pre.par_chunks_mut(piece).zip(out.par_chunks_mut(piece)).for_each(|(pre, out)| finish(pre, out));
            }
        }
    }
    Ok(())
}

/// Computes the gradients of a linear layer without activation, or of one whose pre-activation has the gradient `grad`.
///
/// # Shapes
/// `x` `[rows, d_in]`, `weight` `[d_in, d_out]`, `grad` `[rows, d_out]`.
pub fn linear_backward<'w>(
    shape: LinearShape,
    x: &[f32],
    weight: impl Into<TrainedWeight<'w>>,
    grad: &[f32],
    mut gradients: LinearGradients<'_>,
) -> Result<(), KernelError> {
    let weight = weight.into();
    shape.check(x, weight)?;
    check_len("linear grad", grad.len(), shape.rows * shape.d_out)?;
    gradients.check(shape)?;
    add_gradients(shape, x, weight, grad, &mut gradients, Output::Replace)
}

/// Computes the gradients of a linear layer with an activation, from the gradient of its output and the pre-activation
/// that [`linear_forward`] wrote.
///
/// # Shapes
/// `x` `[rows, d_in]`, `weight` `[d_in, d_out]`, `pre`, `grad` `[rows, d_out]`.
pub fn linear_activation_backward<'w>(
    shape: LinearShape,
    x: &[f32],
    weight: impl Into<TrainedWeight<'w>>,
    activation: Activation,
    pre: &[f32],
    grad: &[f32],
    mut gradients: LinearGradients<'_>,
) -> Result<(), KernelError> {
    let (LinearShape { rows, d_in, d_out }, weight) = (shape, weight.into());
    shape.check(x, weight)?;
    check_len("linear pre-activation", pre.len(), rows * d_out)?;
    check_len("linear grad", grad.len(), rows * d_out)?;
    gradients.check(shape)?;
    let block = GRADIENT_ROWS.min(rows);
    let mut scratch = Scratch::new(block * d_out);
    let mut first = 0;
    loop {
        let shape = LinearShape { rows: block.min(rows - first), ..shape };
        let part = first * d_out..(first + shape.rows) * d_out;
        let grad_pre = &mut scratch[..part.len()];
        let (pre, grad) = (&pre[part.clone()], &grad[part]);
        let piece = rows_per_piece(1);
        if pre.len() <= piece {
            differentiate(activation, pre, grad, grad_pre);
        } else {
            let pieces = grad_pre.par_chunks_mut(piece).zip(pre.par_chunks(piece)).zip(grad.par_chunks(piece));
            pieces.for_each(|((out, pre), grad)| differentiate(activation, pre, grad, out));
        }
        let inputs = first * d_in..(first + shape.rows) * d_in;
        let mut part = LinearGradients {
            x: gradients.x.as_deref_mut().map(|x| &mut x[inputs.clone()]),
            weight: gradients.weight.as_deref_mut(),
            bias: gradients.bias.as_deref_mut(),
        };
        let output = if first == 0 { Output::Replace } else { Output::Accumulate };
        add_gradients(shape, &x[inputs], weight, grad_pre, &mut part, output)?;
        first += shape.rows;
        if first >= rows {
            return Ok(());
        }
    }
}

impl LinearShape {
    /// Refuses arguments of other sizes, and sizes whose products overflow.
    pub(crate) fn check<'w>(self, x: &[f32], weight: impl Into<LinearWeight<'w>>) -> Result<(), KernelError> {
        let weight = weight.into();
        check_len("linear x", x.len(), check_product("linear x", self.rows, self.d_in)?)?;
        if weight.size() != (self.d_in, self.d_out) {
            let (rows, cols) = weight.size();
            let why = format!("expected {} × {}, got {rows} × {cols}", self.d_in, self.d_out);
            return Err(KernelError::Invalid { what: "linear weight", why });
        }
        check_product("linear weight", self.d_in, self.d_out)?;
        check_product("linear out", self.rows, self.d_out)?;
        Ok(())
    }
}

impl LinearGradients<'_> {
    pub(crate) fn check(&self, shape: LinearShape) -> Result<(), KernelError> {
        let LinearShape { rows, d_in, d_out } = shape;
        let check = |what, slice: &Option<&mut [f32]>, expected| {
            check_len(what, slice.as_ref().map_or(expected, |slice| slice.len()), expected)
        };
        check("linear grad x", &self.x, rows * d_in)?;
        check("linear grad weight", &self.weight, d_in * d_out)?;
        check("linear grad bias", &self.bias, d_out)
    }
}

/// Computes the requested gradients of some rows; `output` says whether those of weight and bias are added to the old ones.
pub(crate) fn add_gradients(
    shape: LinearShape,
    x: &[f32],
    TrainedWeight { matrix: weight, precision }: TrainedWeight<'_>,
    grad: &[f32],
    gradients: &mut LinearGradients<'_>,
    output: Output,
) -> Result<(), KernelError> {
    let LinearShape { rows, d_in, d_out } = shape;
    let grad_matrix = Matrix::new(grad, rows, d_out)?;
    if let Some(out) = gradients.x.as_deref_mut() {
        precision.matmul(grad_matrix, weight.transposed(), out, d_in, Output::Replace)?;
    }
    if let Some(out) = gradients.weight.as_deref_mut() {
        let x = Matrix::new(x, rows, d_in)?;
        match weight.is_transposed() {
            false => precision.matmul(x.transposed(), grad_matrix, out, d_out, output)?,
            true => precision.matmul(grad_matrix.transposed(), x, out, d_in, output)?,
        }
    }
    if let Some(out) = gradients.bias.as_deref_mut() {
        column_sums(rows, grad, out, output);
    }
    Ok(())
}

/// Computes `out[j] = Σ_i x[i, j]`, or adds it to `out`; partial sums of fixed pieces are added in their order.
pub(crate) fn column_sums(rows: usize, x: &[f32], out: &mut [f32], output: Output) {
    let width = out.len();
    if output == Output::Replace {
        out.fill(0.0);
    }
    if width == 0 {
        return;
    }
    let piece = rows_per_piece(width);
    if rows <= piece {
        dispatch(AddRows { x, out });
        return;
    }
    let mut partial = Scratch::new(rows.div_ceil(piece) * width);
    partial.fill(0.0);
    partial.par_chunks_mut(width).zip(x.par_chunks(piece * width)).for_each(|(out, x)| dispatch(AddRows { x, out }));
    dispatch(AddRows { x: &partial, out });
}

/// Adds `x` to `out`, element by element.
pub fn add_to(x: &[f32], out: &mut [f32]) -> Result<(), KernelError> {
    check_len("summand", x.len(), out.len())?;
    for_each_rows(out, 1, |first, out| dispatch(AddRows { x: &x[first..first + out.len()], out }));
    Ok(())
}

/// Adds `x` to each consecutive piece of `out` that is as long as `x`.
pub fn add_repeatedly(x: &[f32], out: &mut [f32]) -> Result<(), KernelError> {
    check_repeats(x, out)?;
    if !x.is_empty() {
        for_each_rows(out, x.len(), |_, out| dispatch(AddBias { bias: x, out }));
    }
    Ok(())
}

/// Sets `out` to the sum of the consecutive pieces of `x` that are as long as `out`, added in their order.
pub fn sum_repeats(x: &[f32], out: &mut [f32]) -> Result<(), KernelError> {
    check_repeats(out, x)?;
    column_sums(x.len() / out.len().max(1), x, out, Output::Replace);
    Ok(())
}

fn check_repeats(part: &[f32], whole: &[f32]) -> Result<(), KernelError> {
    let repeats = whole.len() / part.len().max(1);
    check_len("a whole number of repeats", whole.len(), repeats * part.len())
}

/// Adds the bias to each row of `out`.
struct AddBias<'a> {
    bias: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for AddBias<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for out in self.out.chunks_exact_mut(self.bias.len()) {
            vector::add_in_place(simd, out, self.bias);
        }
    }
}

/// Adds each row of `x`, as long as `out`, to `out`.
pub(crate) struct AddRows<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) out: &'a mut [f32],
}

impl WithSimd for AddRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for x in self.x.chunks_exact(self.out.len()) {
            vector::add_in_place(simd, self.out, x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activation::tests::{ALL, exact as exact_activation, exact_derivative};
    use crate::isa::on_every_isa;
    use crate::matmul::transpose;
    use crate::test_support::{assert_close, numbers};
    use proptest::prelude::*;

    struct Case {
        shape: LinearShape,
        x: Vec<f32>,
        weight: Vec<f32>,
        bias: Vec<f32>,
        grad: Vec<f32>,
    }

    /// Returns `weight`, `[d_in, d_out]`, stored column after column.
    fn turned(weight: &[f32], shape: LinearShape) -> Vec<f32> {
        let mut turned = vec![0.0; weight.len()];
        transpose(Matrix::new(weight, shape.d_in, shape.d_out).unwrap(), &mut turned);
        turned
    }

    impl Case {
        fn new(rows: usize, d_in: usize, d_out: usize) -> Self {
            let scale = 1.0 / (d_in.max(1) as f32).sqrt();
            Self {
                shape: LinearShape { rows, d_in, d_out },
                x: numbers(rows * d_in, 1, 1.5),
                weight: numbers(d_in * d_out, 2, scale),
                bias: numbers(d_out, 3, 1.0),
                grad: numbers(rows * d_out, 4, 1.0),
            }
        }

        /// The weight stored by rows and by columns.
        fn weights(&self) -> [Vec<f32>; 2] {
            [self.weight.clone(), turned(&self.weight, self.shape)]
        }

        fn matrix<'a>(&self, order: usize, weight: &'a [f32]) -> Matrix<'a> {
            let LinearShape { d_in, d_out, .. } = self.shape;
            match order {
                0 => Matrix::new(weight, d_in, d_out).unwrap(),
                _ => Matrix::new(weight, d_out, d_in).unwrap().transposed(),
            }
        }

        fn pre(&self, with_bias: bool) -> Vec<f64> {
            let LinearShape { rows, d_in, d_out } = self.shape;
            let mut out = vec![0.0; rows * d_out];
            for (i, out) in out.iter_mut().enumerate() {
                let (r, j) = (i / d_out, i % d_out);
                *out = if with_bias { f64::from(self.bias[j]) } else { 0.0 };
                *out += (0..d_in)
                    .map(|t| f64::from(self.x[r * d_in + t]) * f64::from(self.weight[t * d_out + j]))
                    .sum::<f64>();
            }
            out
        }

        /// Computes `(∂x, ∂W, ∂b)` from the gradient of the pre-activation.
        fn gradients(&self, grad: &[f64]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
            let LinearShape { rows, d_in, d_out } = self.shape;
            let (mut x, mut weight, mut bias) = (vec![0.0; rows * d_in], vec![0.0; d_in * d_out], vec![0.0; d_out]);
            for r in 0..rows {
                for j in 0..d_out {
                    let g = grad[r * d_out + j];
                    bias[j] += g;
                    for t in 0..d_in {
                        x[r * d_in + t] += g * f64::from(self.weight[t * d_out + j]);
                        weight[t * d_out + j] += g * f64::from(self.x[r * d_in + t]);
                    }
                }
            }
            (x, weight, bias)
        }

        fn check_forward(&self, kinds: &[Activation]) {
            let LinearShape { rows, d_out, .. } = self.shape;
            on_every_isa(|isa| {
                let weights = self.weights();
                for (order, with_bias) in [(0, true), (0, false), (1, true), (1, false)] {
                    let weight = self.matrix(order, &weights[order]);
                    let bias = with_bias.then_some(&self.bias[..]);
                    let want_pre = self.pre(with_bias);
                    let mut out = vec![f32::NAN; rows * d_out];
                    linear_forward(self.shape, &self.x, weight, bias, None, &mut out).unwrap();
                    assert_close("linear", isa, &out, &want_pre, 2e-6, 1e-6);
                    for &kind in kinds {
                        let mut pre = vec![f32::NAN; rows * d_out];
                        let activation = Some((kind, &mut pre[..]));
                        linear_forward(self.shape, &self.x, weight, bias, activation, &mut out).unwrap();
                        let want: Vec<f64> = want_pre.iter().map(|&x| exact_activation(kind, x)).collect();
                        assert_close("pre-activation", isa, &pre, &want_pre, 2e-6, 1e-6);
                        assert_close(&format!("{kind:?}"), isa, &out, &want, 3e-6, 1e-6);
                    }
                }
            });
        }

        fn check_backward(&self, kind: Option<Activation>) {
            let LinearShape { rows, d_in, d_out } = self.shape;
            let pre: Vec<f32> = self.pre(true).iter().map(|&x| x as f32).collect();
            let grad_pre: Vec<f64> = pre
                .iter()
                .zip(&self.grad)
                .map(|(&x, &g)| f64::from(g) * kind.map_or(1.0, |kind| exact_derivative(kind, f64::from(x))))
                .collect();
            let (want_x, want_weight, want_bias) = self.gradients(&grad_pre);
            on_every_isa(|isa| {
                for (order, weight) in self.weights().iter().enumerate() {
                    let matrix = self.matrix(order, weight);
                    let (mut x, mut weight, mut bias) =
                        (vec![f32::NAN; rows * d_in], vec![f32::NAN; d_in * d_out], vec![f32::NAN; d_out]);
                    let wanted = LinearGradients { x: Some(&mut x), weight: Some(&mut weight), bias: Some(&mut bias) };
                    let (shape, grad) = (self.shape, &self.grad);
                    match kind {
                        None => linear_backward(shape, &self.x, matrix, grad, wanted),
                        Some(kind) => linear_activation_backward(shape, &self.x, matrix, kind, &pre, grad, wanted),
                    }
                    .unwrap();
                    if order == 1 {
                        weight = turned(&weight, LinearShape { rows, d_in: d_out, d_out: d_in });
                    }
                    let rows_root = (rows as f64 + 1.0).sqrt();
                    assert_close("grad x", isa, &x, &want_x, 4e-6, 1e-6);
                    assert_close("grad weight", isa, &weight, &want_weight, 3e-6 * rows_root, 1e-6);
                    assert_close("grad bias", isa, &bias, &want_bias, 3e-6 * rows_root, 1e-6);
                }
            });
        }
    }

    #[test]
    fn agrees_with_three_loops() {
        for (rows, d_in, d_out) in [(1, 1, 1), (3, 5, 7), (32, 64, 64), (17, 33, 50)] {
            let case = Case::new(rows, d_in, d_out);
            case.check_forward(&ALL);
            case.check_backward(None);
            for kind in ALL {
                case.check_backward(Some(kind));
            }
        }
    }

    #[test]
    fn large_layers_agree_too() {
        // More rows than two blocks of GRADIENT_ROWS, and than one piece of column sums.
        let case = Case::new(2 * GRADIENT_ROWS + 3, 12, 40);
        case.check_forward(&[Activation::Silu]);
        case.check_backward(None);
        case.check_backward(Some(Activation::Silu));
    }

    #[test]
    fn sizes_without_elements() {
        let case = Case::new(600, 0, 3);
        case.check_forward(&[Activation::Gelu]);
        case.check_backward(Some(Activation::Gelu));
        Case::new(0, 4, 3).check_forward(&[Activation::Gelu]);
        Case::new(0, 4, 3).check_backward(Some(Activation::Gelu));
        Case::new(0, 4, 3).check_backward(None);
        Case::new(4, 3, 0).check_forward(&[Activation::Gelu]);
        Case::new(4, 3, 0).check_backward(Some(Activation::Gelu));
    }

    #[test]
    fn sizes_are_checked() {
        let shape = LinearShape { rows: 2, d_in: 3, d_out: 2 };
        let (x, numbers, grad) = ([0.0; 6], [0.0; 6], [0.0; 4]);
        let weight = Matrix::new(&numbers, 3, 2).unwrap();
        assert!(linear_forward(shape, &x[1..], weight, None, None, &mut [0.0; 4]).is_err());
        assert!(linear_forward(shape, &x, weight.transposed(), None, None, &mut [0.0; 4]).is_err());
        assert!(linear_forward(shape, &x, weight, Some(&[0.0]), None, &mut [0.0; 4]).is_err());
        assert!(linear_forward(shape, &x, weight, None, None, &mut [0.0; 3]).is_err());
        let mut pre = [0.0; 3];
        let activation = Some((Activation::Relu, &mut pre[..]));
        assert!(linear_forward(shape, &x, weight, None, activation, &mut [0.0; 4]).is_err());
        let huge = LinearShape { rows: usize::MAX, d_in: 3, d_out: 2 };
        assert!(linear_forward(huge, &x, weight, None, None, &mut [0.0; 4]).is_err());
        let bad = LinearGradients { weight: Some(&mut [0.0; 5]), ..Default::default() };
        assert!(linear_backward(shape, &x, weight, &grad, bad).is_err());
        assert!(linear_backward(shape, &x, weight, &grad[1..], LinearGradients::default()).is_err());
        let bad = LinearGradients { bias: Some(&mut [0.0; 3]), ..Default::default() };
        assert!(linear_activation_backward(shape, &x, weight, Activation::Relu, &grad, &grad, bad).is_err());
    }

    #[test]
    fn nan_comes_through() {
        let case = Case::new(3, 4, 5);
        let mut x = case.x.clone();
        x[4] = f32::NAN;
        let (mut pre, mut out) = ([0.0; 15], [0.0; 15]);
        let activation = Some((Activation::Relu, &mut pre[..]));
        linear_forward(case.shape, &x, case.matrix(0, &case.weight), Some(&case.bias), activation, &mut out).unwrap();
        assert!(out[5..10].iter().all(|x| x.is_nan()) && out[..5].iter().all(|x| x.is_finite()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn any_size(rows in 0_usize..40, d_in in 0_usize..30, d_out in 0_usize..40) {
            let case = Case::new(rows, d_in, d_out);
            case.check_forward(&[Activation::Tanh]);
            case.check_backward(None);
            case.check_backward(Some(Activation::Tanh));
        }
    }
}
