//! Softmax and log-softmax over the last dimension.
//!
//! ```text
//! y = exp(x − max x) / Σ exp(x − max x)      ∂x = y (∂y − Σ ∂y y)
//! y = x − max x − ln Σ exp(x − max x)        ∂x = ∂y − exp(y) Σ ∂y
//! ```
//!
//! A row in which every element is −∞ (fully masked) has softmax 0, log-softmax −∞, and gradient 0 in both.

use pulp::{Simd, WithSimd};

use crate::error::{KernelError, check_len, check_rows};
use crate::isa::dispatch;
use crate::parallel::for_each_rows;
use crate::vector;

/// Computes the softmax of each row; zeros for a row in which every element is −∞.
///
/// # Shapes
/// `x`, `out` `[rows, width]`.
pub fn softmax_forward(x: &[f32], width: usize, out: &mut [f32]) -> Result<(), KernelError> {
    forward(x, width, out, Kind::Plain)
}

/// Computes the gradient of [`softmax_forward`] from its output.
///
/// # Shapes
/// `out`, `grad`, `grad_x` `[rows, width]`.
pub fn softmax_backward(out: &[f32], width: usize, grad: &[f32], grad_x: &mut [f32]) -> Result<(), KernelError> {
    backward(out, width, grad, grad_x, Kind::Plain)
}

/// Computes the logarithm of the softmax of each row; −∞ everywhere for a row in which every element is −∞.
///
/// # Shapes
/// `x`, `out` `[rows, width]`.
pub fn log_softmax_forward(x: &[f32], width: usize, out: &mut [f32]) -> Result<(), KernelError> {
    forward(x, width, out, Kind::Log)
}

/// Computes the gradient of [`log_softmax_forward`] from its output; zero for a row in which every element is −∞.
///
/// # Shapes
/// `out`, `grad`, `grad_x` `[rows, width]`.
pub fn log_softmax_backward(out: &[f32], width: usize, grad: &[f32], grad_x: &mut [f32]) -> Result<(), KernelError> {
    backward(out, width, grad, grad_x, Kind::Log)
}

#[derive(Clone, Copy)]
enum Kind {
    Plain,
    Log,
}

fn forward(x: &[f32], width: usize, out: &mut [f32], kind: Kind) -> Result<(), KernelError> {
    check_rows("softmax x", x.len(), width)?;
    check_len("softmax out", out.len(), x.len())?;
    for_each_rows(out, width, |row, out| {
        let x = &x[row * width..row * width + out.len()];
        dispatch(Forward { kind, x, width, out });
    });
    Ok(())
}

fn backward(out: &[f32], width: usize, grad: &[f32], grad_x: &mut [f32], kind: Kind) -> Result<(), KernelError> {
    check_rows("softmax out", out.len(), width)?;
    check_len("softmax grad", grad.len(), out.len())?;
    check_len("softmax grad x", grad_x.len(), out.len())?;
    for_each_rows(grad_x, width, |row, grad_x| {
        let piece = row * width..row * width + grad_x.len();
        dispatch(Backward { kind, y: &out[piece.clone()], width, grad: &grad[piece], grad_x });
    });
    Ok(())
}

struct Forward<'a> {
    kind: Kind,
    x: &'a [f32],
    width: usize,
    out: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (x, out) in self.x.chunks_exact(self.width).zip(self.out.chunks_exact_mut(self.width)) {
            let max = vector::max(simd, x);
            // In a row of −∞ alone, exp(−∞ − 0) is 0; with a NaN among them the sum is still NaN.
            let shift = if max == f32::NEG_INFINITY { 0.0 } else { max };
            match self.kind {
                Kind::Plain => {
                    let sum = vector::exp_sum(simd, x, shift, out);
                    let scale = simd.splat_f32s(if sum == 0.0 { 0.0 } else { 1.0 / sum });
                    vector::map_in_place!(simd, out, |x| simd.mul_f32s(x, scale));
                }
                Kind::Log => {
                    let sum = vector::sum_exp(simd, x, shift);
                    let log = simd.splat_f32s(if sum == 0.0 { 0.0 } else { sum.ln() });
                    let shift = simd.splat_f32s(shift);
                    vector::map!(simd, x, out, |x| simd.sub_f32s(simd.sub_f32s(x, shift), log));
                }
            }
        }
    }
}

struct Backward<'a> {
    kind: Kind,
    y: &'a [f32],
    width: usize,
    grad: &'a [f32],
    grad_x: &'a mut [f32],
}

impl WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let rows = self.y.chunks_exact(self.width).zip(self.grad.chunks_exact(self.width));
        for ((y, grad), grad_x) in rows.zip(self.grad_x.chunks_exact_mut(self.width)) {
            match self.kind {
                Kind::Plain => {
                    let sum = simd.splat_f32s(vector::dot(simd, y, grad));
                    vector::zip!(simd, y, grad, grad_x, |y, grad| simd.mul_f32s(y, simd.sub_f32s(grad, sum)));
                }
                Kind::Log if y.iter().all(|&y| y == f32::NEG_INFINITY) => grad_x.fill(0.0),
                Kind::Log => {
                    let sum = simd.splat_f32s(-vector::sum(simd, grad));
                    vector::zip!(simd, y, grad, grad_x, |y, grad| simd.mul_add_e_f32s(
                        vector::exp_bounded(simd, y),
                        sum,
                        grad
                    ));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::on_every_isa;
    use crate::test_support::{assert_close, central_differences, inner, numbers, wide};
    use proptest::prelude::*;

    fn exact(x: &[f64], width: usize, log: bool) -> Vec<f64> {
        let mut out = vec![];
        for row in x.chunks(width) {
            let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if max == f64::NEG_INFINITY {
                out.extend(row.iter().map(|_| if log { f64::NEG_INFINITY } else { 0.0 }));
                continue;
            }
            let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
            out.extend(row.iter().map(|x| if log { x - max - sum.ln() } else { (x - max).exp() / sum }));
        }
        out
    }

    fn check_forward(x: &[f32], width: usize) {
        on_every_isa(|isa| {
            let mut out = vec![f32::NAN; x.len()];
            softmax_forward(x, width, &mut out).unwrap();
            assert_close("softmax", isa, &out, &exact(&wide(x), width, false), 1e-37, 2e-6);
            log_softmax_forward(x, width, &mut out).unwrap();
            assert_close("log-softmax", isa, &out, &exact(&wide(x), width, true), 1e-6, 3e-7);
        });
    }

    fn check_backward(x: &[f32], width: usize) {
        let grad = numbers(x.len(), 77, 1.0);
        for log in [false, true] {
            let want = central_differences(&wide(x), |x| inner(&exact(x, width, log), &wide(&grad)));
            let y: Vec<f32> = exact(&wide(x), width, log).iter().map(|&y| y as f32).collect();
            on_every_isa(|isa| {
                let mut grad_x = vec![f32::NAN; x.len()];
                let backward = if log { log_softmax_backward } else { softmax_backward };
                backward(&y, width, &grad, &mut grad_x).unwrap();
                assert_close("gradient", isa, &grad_x, &want, 2e-6, 2e-6);
            });
        }
    }

    #[test]
    fn agrees_with_the_formula() {
        for (rows, width) in [(1, 1), (3, 2), (2, 16), (4, 17), (3, 67), (1, 1500)] {
            check_forward(&numbers(rows * width, 3, 5.0), width);
        }
        check_backward(&numbers(3 * 19, 4, 3.0), 19);
        check_backward(&numbers(2, 4, 3.0), 1);
    }

    #[test]
    fn extreme_logits() {
        let infinite = f32::NEG_INFINITY;
        check_forward(&[1e4, -1e4, 0.0, 1e4, 1e4, 9999.0], 3);
        check_forward(&[infinite, 1.0, 2.0, infinite, -1e4, -1e4, infinite, infinite, infinite], 3);
    }

    #[test]
    fn a_masked_row_is_zero_and_has_no_gradient() {
        on_every_isa(|isa| {
            let x = [f32::NEG_INFINITY; 20];
            let (mut y, mut grad_x) = ([1.0; 20], [1.0; 20]);
            softmax_forward(&x, 20, &mut y).unwrap();
            assert_eq!(y, [0.0; 20], "{isa:?}");
            softmax_backward(&y, 20, &[3.0; 20], &mut grad_x).unwrap();
            assert_eq!(grad_x, [0.0; 20], "{isa:?}");
            log_softmax_forward(&x, 20, &mut y).unwrap();
            assert_eq!(y, x, "{isa:?}");
            log_softmax_backward(&y, 20, &[3.0; 20], &mut grad_x).unwrap();
            assert_eq!(grad_x, [0.0; 20], "{isa:?}");
        });
    }

    #[test]
    fn nan_comes_through() {
        on_every_isa(|isa| {
            for (a, b) in [(1.0, 2.0), (f32::NEG_INFINITY, f32::NEG_INFINITY)] {
                for forward in [softmax_forward, log_softmax_forward] {
                    let mut y = [0.0; 6];
                    forward(&[a, f32::NAN, b, 1.0, 2.0, 3.0], 3, &mut y).unwrap();
                    assert!(y[..3].iter().all(|y| y.is_nan()) && y[3..].iter().all(|y| y.is_finite()), "{isa:?} {y:?}");
                }
            }
        });
    }

    #[test]
    fn large_inputs_agree_with_the_formula() {
        check_forward(&numbers(700 * 53, 5, 3.0), 53);
    }

    #[test]
    fn sizes_are_checked() {
        let mut out = [0.0; 4];
        assert!(softmax_forward(&[0.0; 4], 0, &mut out).is_err());
        assert!(softmax_forward(&[0.0; 4], 3, &mut out).is_err());
        assert!(log_softmax_forward(&[0.0; 2], 2, &mut out).is_err());
        assert!(softmax_backward(&[0.0; 4], 2, &[0.0; 2], &mut out).is_err());
        assert!(log_softmax_backward(&[0.0; 4], 2, &[0.0; 4], &mut out[..2]).is_err());
        softmax_forward(&[], 3, &mut []).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn any_size(rows in 0_usize..4, width in 1_usize..40, seed in 0_u64..99) {
            let x = numbers(rows * width, seed, 4.0);
            check_forward(&x, width);
            check_backward(&x, width);
        }
    }
}
