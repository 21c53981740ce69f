//! Layer normalisation ([Ba et al. 2016](https://arxiv.org/abs/1607.06450)) and RMS normalisation
//! ([Zhang and Sennrich 2019](https://arxiv.org/abs/1910.07467)) over the last dimension.
//!
//! With `x̂ = (x − μ) r`, `r = 1/√(σ² + ε)` and the population variance `σ²`:
//!
//! ```text
//! y  = γ x̂ + β
//! ∂x = r (γ∂y − mean(γ∂y) − x̂ mean(γ∂y x̂)),   ∂γ = Σ_rows ∂y x̂,   ∂β = Σ_rows ∂y
//! ```
//!
//! RMS normalisation is the same with `μ = 0`, no `mean(γ∂y)` and no `β`.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::error::{KernelError, check_len, check_rows};
use crate::isa::dispatch;
use crate::linear::AddRows;
use crate::parallel::rows_per_piece;
use crate::vector;

/// Computes `out = gamma (x − mean) inverse_deviation + beta` for each row.
///
/// # Shapes
/// `x`, `out` `[rows, width]`; `gamma`, `beta` `[width]`; `mean`, `inverse_deviation` `[rows]` are written too.
#[allow(clippy::too_many_arguments)]
pub fn layer_norm_forward(
    x: &[f32],
    width: usize,
    gamma: &[f32],
    beta: Option<&[f32]>,
    epsilon: f32,
    out: &mut [f32],
    mean: &mut [f32],
    inverse_deviation: &mut [f32],
) -> Result<(), KernelError> {
    let rows = check_rows("layer norm x", x.len(), width)?;
    check_len("layer norm gamma", gamma.len(), width)?;
    check_len("layer norm beta", beta.map_or(width, <[f32]>::len), width)?;
    check_len("layer norm out", out.len(), x.len())?;
    check_len("layer norm mean", mean.len(), rows)?;
    check_len("layer norm inverse deviation", inverse_deviation.len(), rows)?;
    let piece = rows_per_piece(width);
    if rows <= piece {
        dispatch(Forward { x, gamma, beta, epsilon, out, mean: Some(mean), inverse: inverse_deviation });
        return Ok(());
    }
    x.par_chunks(piece * width)
        .zip(out.par_chunks_mut(piece * width))
        .zip(mean.par_chunks_mut(piece).zip(inverse_deviation.par_chunks_mut(piece)))
        .for_each(|((x, out), (mean, inverse))| {
            dispatch(Forward { x, gamma, beta, epsilon, out, mean: Some(mean), inverse });
        });
    Ok(())
}

/// Computes the gradients of [`layer_norm_forward`] from its `mean` and `inverse_deviation`. Old content is replaced.
///
/// # Shapes
/// `x`, `grad`, `grad_x` `[rows, width]`; `gamma`, `grad_gamma`, `grad_beta` `[width]`; `mean`, `inverse_deviation`
/// `[rows]`.
#[allow(clippy::too_many_arguments)]
pub fn layer_norm_backward(
    x: &[f32],
    width: usize,
    gamma: &[f32],
    mean: &[f32],
    inverse_deviation: &[f32],
    grad: &[f32],
    grad_x: &mut [f32],
    grad_gamma: &mut [f32],
    grad_beta: Option<&mut [f32]>,
) -> Result<(), KernelError> {
    let rows = check_rows("layer norm x", x.len(), width)?;
    check_len("layer norm mean", mean.len(), rows)?;
    check_len("layer norm grad beta", grad_beta.as_ref().map_or(width, |beta| beta.len()), width)?;
    backward(x, width, gamma, Some(mean), inverse_deviation, grad, grad_x, grad_gamma, grad_beta)
}

/// Computes `out = gamma x inverse_rms` with `inverse_rms = 1/√(mean(x²) + ε)` for each row.
///
/// # Shapes
/// `x`, `out` `[rows, width]`; `gamma` `[width]`; `inverse_rms` `[rows]` is written too.
pub fn rms_norm_forward(
    x: &[f32],
    width: usize,
    gamma: &[f32],
    epsilon: f32,
    out: &mut [f32],
    inverse_rms: &mut [f32],
) -> Result<(), KernelError> {
    let rows = check_rows("rms norm x", x.len(), width)?;
    check_len("rms norm gamma", gamma.len(), width)?;
    check_len("rms norm out", out.len(), x.len())?;
    check_len("rms norm inverse", inverse_rms.len(), rows)?;
    let piece = rows_per_piece(width);
    if rows <= piece {
        dispatch(Forward { x, gamma, beta: None, epsilon, out, mean: None, inverse: inverse_rms });
        return Ok(());
    }
    x.par_chunks(piece * width).zip(out.par_chunks_mut(piece * width)).zip(inverse_rms.par_chunks_mut(piece)).for_each(
        |((x, out), inverse)| {
            dispatch(Forward { x, gamma, beta: None, epsilon, out, mean: None, inverse });
        },
    );
    Ok(())
}

/// Computes the gradients of [`rms_norm_forward`] from its `inverse_rms`. Old content is replaced.
///
/// # Shapes
/// `x`, `grad`, `grad_x` `[rows, width]`; `gamma`, `grad_gamma` `[width]`; `inverse_rms` `[rows]`.
pub fn rms_norm_backward(
    x: &[f32],
    width: usize,
    gamma: &[f32],
    inverse_rms: &[f32],
    grad: &[f32],
    grad_x: &mut [f32],
    grad_gamma: &mut [f32],
) -> Result<(), KernelError> {
    backward(x, width, gamma, None, inverse_rms, grad, grad_x, grad_gamma, None)
}

/// Computes either backward pass; without `mean` the rows are not centred (RMS normalisation).
#[allow(clippy::too_many_arguments)]
fn backward(
    x: &[f32],
    width: usize,
    gamma: &[f32],
    mean: Option<&[f32]>,
    inverse: &[f32],
    grad: &[f32],
    grad_x: &mut [f32],
    grad_gamma: &mut [f32],
    mut grad_beta: Option<&mut [f32]>,
) -> Result<(), KernelError> {
    let rows = check_rows("norm x", x.len(), width)?;
    check_len("norm gamma", gamma.len(), width)?;
    check_len("norm inverse", inverse.len(), rows)?;
    check_len("norm grad", grad.len(), x.len())?;
    check_len("norm grad x", grad_x.len(), x.len())?;
    check_len("norm grad gamma", grad_gamma.len(), width)?;
    grad_gamma.fill(0.0);
    if let Some(beta) = &mut grad_beta {
        beta.fill(0.0);
    }
    let piece = rows_per_piece(width);
    if rows <= piece {
        dispatch(Backward { x, gamma, mean, inverse, grad, grad_x, grad_gamma, grad_beta });
        return Ok(());
    }
    // One row of partial sums for each piece, added in the order of the pieces.
    let sums = if grad_beta.is_some() { 2 * width } else { width };
    let mut partial = vec![0.0; rows.div_ceil(piece) * sums];
    x.par_chunks(piece * width)
        .zip(grad.par_chunks(piece * width).zip(grad_x.par_chunks_mut(piece * width)))
        .zip(inverse.par_chunks(piece).zip(partial.par_chunks_mut(sums)))
        .enumerate()
        .for_each(|(i, ((x, (grad, grad_x)), (inverse, partial)))| {
            let mean = mean.map(|mean| &mean[i * piece..i * piece + inverse.len()]);
            let (grad_gamma, beta) = partial.split_at_mut(width);
            let grad_beta = (!beta.is_empty()).then_some(beta);
            dispatch(Backward { x, gamma, mean, inverse, grad, grad_x, grad_gamma, grad_beta });
        });
    for partial in partial.chunks_exact(sums) {
        dispatch(AddRows { x: &partial[..width], out: grad_gamma });
        if let Some(out) = &mut grad_beta {
            dispatch(AddRows { x: &partial[width..], out });
        }
    }
    Ok(())
}

struct Forward<'a> {
    x: &'a [f32],
    gamma: &'a [f32],
    beta: Option<&'a [f32]>,
    epsilon: f32,
    out: &'a mut [f32],
    mean: Option<&'a mut [f32]>,
    inverse: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let width = self.gamma.len();
        let per_element = 1.0 / width as f32;
        let rows = self.x.chunks_exact(width).zip(self.out.chunks_exact_mut(width)).zip(self.inverse);
        for (i, ((x, out), inverse)) in rows.enumerate() {
            let mean = match &mut self.mean {
                Some(mean) => {
                    mean[i] = vector::sum(simd, x) * per_element;
                    mean[i]
                }
                None => 0.0,
            };
            *inverse = 1.0 / (squared_distance(simd, x, mean) * per_element + self.epsilon).sqrt();
            let (mean, inverse) = (simd.splat_f32s(mean), simd.splat_f32s(*inverse));
            match self.beta {
                Some(beta) => vector::zip3!(simd, [x, self.gamma, beta], out, |x, gamma, beta| simd.mul_add_e_f32s(
                    simd.mul_f32s(simd.sub_f32s(x, mean), inverse),
                    gamma,
                    beta
                )),
                None => vector::zip!(simd, x, self.gamma, out, |x, gamma| simd
                    .mul_f32s(simd.mul_f32s(simd.sub_f32s(x, mean), inverse), gamma)),
            }
        }
    }
}

/// Returns `Σ (x[i] − centre)²`.
#[inline(always)]
pub(crate) fn squared_distance<S: Simd>(simd: S, x: &[f32], centre: f32) -> f32 {
    let (x, tail) = S::as_simd_f32s(x);
    let (x4, x1) = x.as_chunks::<4>();
    let centres = simd.splat_f32s(centre);
    let mut sums = [simd.splat_f32s(0.0); 4];
    for x in x4 {
        for i in 0..4 {
            let d = simd.sub_f32s(x[i], centres);
            sums[i] = simd.mul_add_e_f32s(d, d, sums[i]);
        }
    }
    for x in x1 {
        let d = simd.sub_f32s(*x, centres);
        sums[0] = simd.mul_add_e_f32s(d, d, sums[0]);
    }
    if !tail.is_empty() {
        // The lanes past the end hold 0 − 0.
        let centres = [centre; vector::MAX_LANES];
        let d = simd.sub_f32s(simd.partial_load_f32s(tail), simd.partial_load_f32s(&centres[..tail.len()]));
        sums[1] = simd.mul_add_e_f32s(d, d, sums[1]);
    }
    simd.reduce_sum_f32s(simd.add_f32s(simd.add_f32s(sums[0], sums[1]), simd.add_f32s(sums[2], sums[3])))
}

struct Backward<'a> {
    x: &'a [f32],
    gamma: &'a [f32],
    mean: Option<&'a [f32]>,
    inverse: &'a [f32],
    grad: &'a [f32],
    grad_x: &'a mut [f32],
    grad_gamma: &'a mut [f32],
    grad_beta: Option<&'a mut [f32]>,
}

impl WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let width = self.gamma.len();
        let per_element = 1.0 / width as f32;
        let rows = self.x.chunks_exact(width).zip(self.grad.chunks_exact(width));
        let rows = rows.zip(self.grad_x.chunks_exact_mut(width)).zip(self.inverse);
        for (i, (((x, grad), grad_x), inverse)) in rows.enumerate() {
            let mean = simd.splat_f32s(self.mean.map_or(0.0, |mean| mean[i]));
            let inverse = simd.splat_f32s(*inverse);
            let (plain, weighted) = row_sums(simd, x, grad, self.gamma, mean, inverse, self.grad_gamma);
            if let Some(grad_beta) = &mut self.grad_beta {
                vector::add_in_place(simd, grad_beta, grad);
            }
            let plain = simd.splat_f32s(if self.mean.is_some() { plain * per_element } else { 0.0 });
            let weighted = simd.splat_f32s(weighted * per_element);
            vector::zip3!(simd, [x, grad, self.gamma], grad_x, |x, grad, gamma| {
                let normal = simd.mul_f32s(simd.sub_f32s(x, mean), inverse);
                let centred = simd.mul_add_e_f32s(grad, gamma, simd.neg_f32s(plain));
                simd.mul_f32s(inverse, simd.mul_add_e_f32s(simd.neg_f32s(normal), weighted, centred))
            });
        }
    }
}

/// Returns `(Σ γ∂y, Σ γ∂y x̂)` of one row and adds `∂y x̂` to `grad_gamma`.
#[inline(always)]
fn row_sums<S: Simd>(
    simd: S,
    x: &[f32],
    grad: &[f32],
    gamma: &[f32],
    mean: S::f32s,
    inverse: S::f32s,
    grad_gamma: &mut [f32],
) -> (f32, f32) {
    let (x, x_tail) = S::as_simd_f32s(x);
    let (grad, grad_tail) = S::as_simd_f32s(grad);
    let (gamma, gamma_tail) = S::as_simd_f32s(gamma);
    let (out, out_tail) = S::as_mut_simd_f32s(grad_gamma);
    let (mut plain, mut weighted) = (simd.splat_f32s(0.0), simd.splat_f32s(0.0));
    for (((x, grad), gamma), out) in x.iter().zip(grad).zip(gamma).zip(out) {
        let normal = simd.mul_f32s(simd.sub_f32s(*x, mean), inverse);
        let scaled = simd.mul_f32s(*grad, *gamma);
        plain = simd.add_f32s(plain, scaled);
        weighted = simd.mul_add_e_f32s(scaled, normal, weighted);
        *out = simd.mul_add_e_f32s(*grad, normal, *out);
    }
    if !x_tail.is_empty() {
        // Past the end the gradient is zero, and so is every term.
        let grad = simd.partial_load_f32s(grad_tail);
        let normal = simd.mul_f32s(simd.sub_f32s(simd.partial_load_f32s(x_tail), mean), inverse);
        let scaled = simd.mul_f32s(grad, simd.partial_load_f32s(gamma_tail));
        plain = simd.add_f32s(plain, scaled);
        weighted = simd.mul_add_e_f32s(scaled, normal, weighted);
        let sum = simd.mul_add_e_f32s(grad, normal, simd.partial_load_f32s(out_tail));
        simd.partial_store_f32s(out_tail, sum);
    }
    (simd.reduce_sum_f32s(plain), simd.reduce_sum_f32s(weighted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::on_every_isa;
    use crate::test_support::{assert_close, central_differences, inner, numbers, wide};
    use proptest::prelude::*;

    const EPSILON: f32 = 1e-5;

    /// Computes `(out, mean, inverse)` by the formula; `centred` is false for RMS normalisation.
    fn exact(x: &[f64], gamma: &[f64], beta: &[f64], centred: bool) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let width = gamma.len();
        let (mut out, mut means, mut inverses) = (vec![], vec![], vec![]);
        for row in x.chunks(width) {
            let mean = if centred { row.iter().sum::<f64>() / width as f64 } else { 0.0 };
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
            let inverse = 1.0 / (variance + f64::from(EPSILON)).sqrt();
            out.extend((0..width).map(|j| (row[j] - mean) * inverse * gamma[j] + beta[j]));
            means.push(mean);
            inverses.push(inverse);
        }
        (out, means, inverses)
    }

    fn check_forward(rows: usize, width: usize, offset: f32) {
        let x: Vec<f32> = numbers(rows * width, 1, 2.0).iter().map(|x| x + offset).collect();
        let (gamma, beta) = (numbers(width, 2, 1.5), numbers(width, 3, 1.0));
        // Allows for the rounding of x − mean, magnified by 1/deviation (about 1), and of the sums over a row.
        let absolute = 1e-6 + 4e-7 * f64::from(offset.abs());
        on_every_isa(|isa| {
            let mut out = vec![f32::NAN; x.len()];
            let (mut mean, mut inverse) = (vec![f32::NAN; rows], vec![f32::NAN; rows]);
            for with_beta in [true, false] {
                let zero = vec![0.0; width];
                let used = if with_beta { &beta } else { &zero };
                let beta = with_beta.then_some(&beta[..]);
                layer_norm_forward(&x, width, &gamma, beta, EPSILON, &mut out, &mut mean, &mut inverse).unwrap();
                let want = exact(&wide(&x), &wide(&gamma), &wide(used), true);
                // A row of one element has deviation 0, which magnifies the rounding of x − mean by 1/√ε.
                if width > 1 || offset == 0.0 {
                    assert_close("layer norm", isa, &out, &want.0, absolute, 3e-6);
                    assert_close("inverse deviation", isa, &inverse, &want.2, 0.0, 3e-6 + absolute);
                }
                assert_close("mean", isa, &mean, &want.1, absolute, 1e-6);
            }
            rms_norm_forward(&x, width, &gamma, EPSILON, &mut out, &mut inverse).unwrap();
            let want = exact(&wide(&x), &wide(&gamma), &vec![0.0; width], false);
            assert_close("rms norm", isa, &out, &want.0, 1e-6, 2e-6);
            assert_close("inverse rms", isa, &inverse, &want.2, 0.0, 2e-6);
        });
    }

    fn check_backward(rows: usize, width: usize) {
        let (x, grad) = (numbers(rows * width, 4, 2.0), numbers(rows * width, 5, 1.0));
        let (gamma, beta) = (numbers(width, 6, 1.5), numbers(width, 7, 1.0));
        let (wide_x, wide_gamma, wide_beta, wide_grad) = (wide(&x), wide(&gamma), wide(&beta), wide(&grad));
        for centred in [true, false] {
            let loss = |x: &[f64], gamma: &[f64], beta: &[f64]| inner(&exact(x, gamma, beta, centred).0, &wide_grad);
            let want_x = central_differences(&wide_x, |x| loss(x, &wide_gamma, &wide_beta));
            let want_gamma = central_differences(&wide_gamma, |gamma| loss(&wide_x, gamma, &wide_beta));
            let want_beta = central_differences(&wide_beta, |beta| loss(&wide_x, &wide_gamma, beta));
            let (_, mean, inverse) = exact(&wide_x, &wide_gamma, &wide_beta, centred);
            let narrow = |x: &[f64]| x.iter().map(|&x| x as f32).collect::<Vec<_>>();
            let (mean, inverse) = (narrow(&mean), narrow(&inverse));
            let largest = inverse.iter().copied().fold(1.0, f32::max);
            on_every_isa(|isa| {
                let mut grad_x = vec![f32::NAN; x.len()];
                let (mut grad_gamma, mut grad_beta) = (vec![f32::NAN; width], vec![f32::NAN; width]);
                if centred {
                    layer_norm_backward(
                        &x,
                        width,
                        &gamma,
                        &mean,
                        &inverse,
                        &grad,
                        &mut grad_x,
                        &mut grad_gamma,
                        Some(&mut grad_beta),
                    )
                    .unwrap();
                    assert_close("grad beta", isa, &grad_beta, &want_beta, 1e-6 * rows as f64, 1e-6);
                } else {
                    rms_norm_backward(&x, width, &gamma, &inverse, &grad, &mut grad_x, &mut grad_gamma).unwrap();
                }
                assert_close("grad x", isa, &grad_x, &want_x, 2e-6 * f64::from(largest), 2e-6);
                assert_close("grad gamma", isa, &grad_gamma, &want_gamma, 1e-6 * rows as f64, 2e-6);
            });
        }
    }

    #[test]
    fn agrees_with_the_formula() {
        for (rows, width) in [(1, 1), (3, 2), (2, 16), (5, 33), (4, 130)] {
            check_forward(rows, width, 0.0);
            check_backward(rows, width);
        }
    }

    #[test]
    fn a_large_mean_does_not_spoil_the_variance() {
        // The mean of squares minus the square of the mean would lose all digits here.
        check_forward(3, 70, 1000.0);
    }

    #[test]
    fn sums_over_pieces_agree_with_the_formula() {
        let (rows, width) = (2100, 24);
        let (x, grad) = (numbers(rows * width, 8, 1.0), numbers(rows * width, 9, 1.0));
        let gamma = numbers(width, 10, 1.0);
        let (_, mean, inverse) = exact(&wide(&x), &wide(&gamma), &vec![0.0; width], true);
        let mut want = vec![0.0; width];
        for (i, (x, g)) in x.iter().zip(&grad).enumerate() {
            want[i % width] += f64::from(*g) * (f64::from(*x) - mean[i / width]) * inverse[i / width];
        }
        let want_beta: Vec<f64> =
            (0..width).map(|j| grad.iter().skip(j).step_by(width).copied().map(f64::from).sum()).collect();
        on_every_isa(|isa| {
            let (mut out, mut m, mut r) = (vec![0.0; x.len()], vec![0.0; rows], vec![0.0; rows]);
            layer_norm_forward(&x, width, &gamma, None, EPSILON, &mut out, &mut m, &mut r).unwrap();
            let (mut grad_gamma, mut grad_beta) = (vec![f32::NAN; width], vec![f32::NAN; width]);
            let beta = Some(&mut grad_beta[..]);
            layer_norm_backward(&x, width, &gamma, &m, &r, &grad, &mut out, &mut grad_gamma, beta).unwrap();
            assert_close("grad gamma", isa, &grad_gamma, &want, 8e-5, 0.0);
            assert_close("grad beta", isa, &grad_beta, &want_beta, 8e-5, 0.0);
        });
    }

    #[test]
    fn sizes_are_checked_and_no_rows_give_zero_gradients() {
        let (mut a, mut b, mut c) = ([0.0; 4], [0.0; 2], [0.0; 2]);
        assert!(layer_norm_forward(&[0.0; 4], 0, &[], None, 1e-5, &mut a, &mut b, &mut c).is_err());
        assert!(layer_norm_forward(&[0.0; 4], 3, &[0.0; 3], None, 1e-5, &mut a, &mut b, &mut c).is_err());
        assert!(layer_norm_forward(&[0.0; 4], 2, &[0.0; 2], Some(&[0.0]), 1e-5, &mut a, &mut b, &mut c).is_err());
        assert!(rms_norm_forward(&[0.0; 4], 2, &[0.0; 2], 1e-5, &mut a, &mut b[..1]).is_err());
        assert!(rms_norm_backward(&[0.0; 4], 2, &[0.0; 2], &[0.0; 2], &[0.0; 3], &mut a, &mut b).is_err());
        let mut gamma = [f32::NAN; 2];
        rms_norm_backward(&[], 2, &[1.0; 2], &[], &[], &mut [], &mut gamma).unwrap();
        assert_eq!(gamma, [0.0; 2]);
    }

    #[test]
    fn nan_comes_through() {
        on_every_isa(|isa| {
            let (mut out, mut mean, mut inverse) = ([0.0; 6], [0.0; 2], [0.0; 2]);
            let x = [1.0, f32::NAN, 2.0, 1.0, 2.0, 3.0];
            layer_norm_forward(&x, 3, &[1.0; 3], None, 1e-5, &mut out, &mut mean, &mut inverse).unwrap();
            assert!(out[..3].iter().all(|x| x.is_nan()) && out[3..].iter().all(|x| x.is_finite()), "{isa:?} {out:?}");
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn any_size(rows in 0_usize..5, width in 2_usize..40) {
            check_forward(rows, width, 0.0);
            check_backward(rows, width);
        }
    }
}
