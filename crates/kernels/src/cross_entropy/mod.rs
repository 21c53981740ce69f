//! Cross-entropy of logits with integer targets, alone or fused with the linear layer before it.
//!
//! With `lse = ln Σ exp(x)`, label smoothing `ε` and `n` rows that are not ignored (both as in PyTorch):
//!
//! ```text
//! loss = 1/n Σ_rows (1 − ε)(lse − x[target]) + ε (lse − mean(x))
//! ∂x   = 1/n (exp(x − lse) − ε/vocab − (1 − ε) [j = target])
//! ```
//!
//! An ignored row has gradient 0. If all rows are ignored, the loss and the gradient are 0 (PyTorch gives NaN).

mod linear;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

pub use linear::{chunk_rows, linear_cross_entropy_forward};

use crate::error::{KernelError, check_len, check_product};
use crate::isa::dispatch;
use crate::parallel::rows_per_piece;
use crate::vector;

/// The targets that the loss ignores, and its label smoothing.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CrossEntropyOptions {
    /// Target of rows that are ignored; any number, in the vocabulary or not.
    pub ignore_index: Option<i64>,
    /// Share of the probability that is spread evenly over the vocabulary, from 0 to 1.
    pub label_smoothing: f32,
}

/// Returns the mean loss over the rows that are not ignored, 0 if there is none, and writes `ln Σ exp` of each row, 0 for an
/// ignored one.
///
/// # Shapes
/// `logits` `[rows, vocab]`, `targets`, `log_sum_exp` `[rows]`.
pub fn cross_entropy_forward(
    logits: &[f32],
    vocab: usize,
    targets: &[i64],
    options: CrossEntropyOptions,
    log_sum_exp: &mut [f32],
) -> Result<f32, KernelError> {
    check_len("cross-entropy logits", logits.len(), check_product("cross-entropy logits", targets.len(), vocab)?)?;
    check_len("cross-entropy log-sum-exp", log_sum_exp.len(), targets.len())?;
    let count = options.count(targets, vocab)?;
    if count == 0 {
        log_sum_exp.fill(0.0);
        return Ok(0.0);
    }
    let piece = rows_per_piece(vocab);
    let loss = if targets.len() <= piece {
        dispatch(Forward { logits, vocab, targets, options, log_sum_exp })
    } else {
        let losses: Vec<f64> = logits
            .par_chunks(piece * vocab)
            .zip(targets.par_chunks(piece).zip(log_sum_exp.par_chunks_mut(piece)))
            .map(|(logits, (targets, log_sum_exp))| dispatch(Forward { logits, vocab, targets, options, log_sum_exp }))
            .collect();
        losses.iter().sum()
    };
    Ok((loss / count as f64) as f32)
}

/// Computes the gradient of [`cross_entropy_forward`] from its `log_sum_exp`, times the upstream gradient `grad`.
///
/// # Shapes
/// `logits`, `out` `[rows, vocab]`, `targets`, `log_sum_exp` `[rows]`.
pub fn cross_entropy_backward(
    logits: &[f32],
    vocab: usize,
    targets: &[i64],
    options: CrossEntropyOptions,
    log_sum_exp: &[f32],
    grad: f32,
    out: &mut [f32],
) -> Result<(), KernelError> {
    check_len("cross-entropy logits", logits.len(), check_product("cross-entropy logits", targets.len(), vocab)?)?;
    check_len("cross-entropy log-sum-exp", log_sum_exp.len(), targets.len())?;
    check_len("cross-entropy out", out.len(), logits.len())?;
    let count = options.count(targets, vocab)?;
    if count == 0 {
        out.fill(0.0);
        return Ok(());
    }
    let scale = grad / count as f32;
    let piece = rows_per_piece(vocab);
    if targets.len() <= piece {
        dispatch(Backward { logits, vocab, targets, options, log_sum_exp, scale, out });
    } else {
        logits
            .par_chunks(piece * vocab)
            .zip(out.par_chunks_mut(piece * vocab))
            .zip(targets.par_chunks(piece).zip(log_sum_exp.par_chunks(piece)))
            .for_each(|((logits, out), (targets, log_sum_exp))| {
                dispatch(Backward { logits, vocab, targets, options, log_sum_exp, scale, out });
            });
    }
    Ok(())
}

/// Returns the sum of the losses; with a scale, replaces the logits by the gradient of `scale` times that sum.
fn losses(logits: &mut [f32], vocab: usize, targets: &[i64], options: CrossEntropyOptions, scale: Option<f32>) -> f64 {
    let piece = rows_per_piece(vocab);
    if targets.len() <= piece {
        return dispatch(InPlace { logits, vocab, targets, options, scale });
    }
    let losses: Vec<f64> = logits
        .par_chunks_mut(piece * vocab)
        .zip(targets.par_chunks(piece))
        .map(|(logits, targets)| dispatch(InPlace { logits, vocab, targets, options, scale }))
        .collect();
    losses.iter().sum()
}

impl CrossEntropyOptions {
    /// Checks options and targets, and returns the number of rows that are not ignored.
    fn count(self, targets: &[i64], vocab: usize) -> Result<usize, KernelError> {
        if !(0.0..=1.0).contains(&self.label_smoothing) {
            let why = format!("expected at least 0 and at most 1, got {}", self.label_smoothing);
            return Err(KernelError::Invalid { what: "label smoothing", why });
        }
        let mut count = 0;
        for (row, &target) in targets.iter().enumerate() {
            if self.ignores(target) {
                continue;
            }
            // A negative target becomes a huge unsigned number.
            if target as u64 >= vocab as u64 {
                let why = format!("target {target} of row {row} is outside a vocabulary of {vocab}");
                return Err(KernelError::Invalid { what: "cross-entropy targets", why });
            }
            count += 1;
        }
        Ok(count)
    }

    #[inline(always)]
    fn ignores(self, target: i64) -> bool {
        self.ignore_index == Some(target)
    }

    /// Returns the loss of one row from its largest logit and `Σ exp(x − max)`.
    #[inline(always)]
    fn loss<S: Simd>(self, simd: S, x: &[f32], target: usize, max: f32, sum: f32) -> f64 {
        // max − x is exact if both are large; adding the logarithm to max first would round.
        let log = f64::from(sum).ln();
        let distance = |x: f64| f64::from(max) - x + log;
        let loss = distance(f64::from(x[target]));
        if self.label_smoothing == 0.0 {
            return loss;
        }
        let smoothing = f64::from(self.label_smoothing);
        let mean = f64::from(vector::sum(simd, x)) / x.len() as f64;
        (1.0 - smoothing) * loss + smoothing * distance(mean)
    }
}

struct Forward<'a> {
    logits: &'a [f32],
    vocab: usize,
    targets: &'a [i64],
    options: CrossEntropyOptions,
    log_sum_exp: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let mut losses = 0.0;
        let rows = self.logits.chunks_exact(self.vocab).zip(self.targets).zip(self.log_sum_exp);
        for ((x, &target), log_sum_exp) in rows {
            if self.options.ignores(target) {
                *log_sum_exp = 0.0;
                continue;
            }
            let max = vector::max(simd, x);
            let sum = vector::sum_exp(simd, x, max);
            *log_sum_exp = max + sum.ln();
            losses += self.options.loss(simd, x, target as usize, max, sum);
        }
        losses
    }
}

struct Backward<'a> {
    logits: &'a [f32],
    vocab: usize,
    targets: &'a [i64],
    options: CrossEntropyOptions,
    log_sum_exp: &'a [f32],
    scale: f32,
    out: &'a mut [f32],
}

impl WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let smoothing = self.options.label_smoothing;
        let offset = simd.splat_f32s(-self.scale * smoothing / self.vocab as f32);
        let scale = simd.splat_f32s(self.scale);
        let rows = self.logits.chunks_exact(self.vocab).zip(self.out.chunks_exact_mut(self.vocab));
        for ((x, out), (&target, &log_sum_exp)) in rows.zip(self.targets.iter().zip(self.log_sum_exp)) {
            if self.options.ignores(target) {
                out.fill(0.0);
                continue;
            }
            let shift = simd.splat_f32s(log_sum_exp);
            vector::map!(simd, x, out, |x| simd.mul_add_e_f32s(
                vector::exp_bounded(simd, simd.sub_f32s(x, shift)),
                scale,
                offset
            ));
            out[target as usize] -= self.scale * (1.0 - smoothing);
        }
    }
}

struct InPlace<'a> {
    logits: &'a mut [f32],
    vocab: usize,
    targets: &'a [i64],
    options: CrossEntropyOptions,
    scale: Option<f32>,
}

impl WithSimd for InPlace<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let smoothing = self.options.label_smoothing;
        let mut losses = 0.0;
        for (x, &target) in self.logits.chunks_exact_mut(self.vocab).zip(self.targets) {
            let target_index = target as usize;
            if self.options.ignores(target) {
                x.fill(0.0);
                continue;
            }
            let max = vector::max(simd, x);
            let Some(scale) = self.scale else {
                let sum = vector::sum_exp(simd, x, max);
                losses += self.options.loss(simd, x, target_index, max, sum);
                continue;
            };
            // The smoothed loss reads all logits, which the exponentials are about to replace.
            let loss = self.options.loss(simd, x, target_index, max, 1.0);
            let sum = vector::exp_sum_in_place(simd, x, max);
            losses += loss + f64::from(sum).ln();
            let offset = simd.splat_f32s(-scale * smoothing / self.vocab as f32);
            let factor = simd.splat_f32s(scale / sum);
            vector::map_in_place!(simd, x, |x| simd.mul_add_e_f32s(x, factor, offset));
            x[target_index] -= scale * (1.0 - smoothing);
        }
        losses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::on_every_isa;
    use crate::test_support::{assert_close, central_differences, numbers, wide};
    use proptest::prelude::*;

    pub(super) fn exact(logits: &[f64], vocab: usize, targets: &[i64], options: CrossEntropyOptions) -> f64 {
        let smoothing = f64::from(options.label_smoothing);
        let (mut loss, mut count) = (0.0, 0.0);
        for (row, &target) in logits.chunks(vocab).zip(targets) {
            if options.ignore_index == Some(target) {
                continue;
            }
            let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let log_sum_exp = max + row.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
            loss += (1.0 - smoothing) * (log_sum_exp - row[target as usize]);
            if smoothing > 0.0 {
                loss += smoothing * (log_sum_exp - row.iter().sum::<f64>() / vocab as f64);
            }
            count += 1.0;
        }
        if count == 0.0 { 0.0 } else { loss / count }
    }

    pub(super) const OPTIONS: [CrossEntropyOptions; 3] = [
        CrossEntropyOptions { ignore_index: None, label_smoothing: 0.0 },
        CrossEntropyOptions { ignore_index: Some(1), label_smoothing: 0.1 },
        CrossEntropyOptions { ignore_index: Some(-100), label_smoothing: 0.0 },
    ];

    pub(super) fn targets(rows: usize, vocab: usize, options: CrossEntropyOptions) -> Vec<i64> {
        let target = |i: usize| match options.ignore_index {
            Some(ignored) if i % 4 == 3 => ignored,
            _ => ((i * 7 + 2) % vocab) as i64,
        };
        (0..rows).map(target).collect()
    }

    fn check(rows: usize, vocab: usize, range: f32) {
        let logits = numbers(rows * vocab, 1, range);
        for options in OPTIONS {
            let targets = targets(rows, vocab, options);
            let want = exact(&wide(&logits), vocab, &targets, options);
            let want_gradient: Vec<f64> =
                central_differences(&wide(&logits), |x| exact(x, vocab, &targets, options) * 1.5);
            // The stored log-sum-exp is rounded in proportion to itself.
            let rounding = 2e-6 + 2e-7 * f64::from(range);
            on_every_isa(|isa| {
                let mut log_sum_exp = vec![f32::NAN; rows];
                let got = cross_entropy_forward(&logits, vocab, &targets, options, &mut log_sum_exp).unwrap();
                assert_close("loss", isa, &[got], &[want], 1e-6, 1e-6);
                let mut out = vec![f32::NAN; logits.len()];
                cross_entropy_backward(&logits, vocab, &targets, options, &log_sum_exp, 1.5, &mut out).unwrap();
                assert_close("gradient", isa, &out, &want_gradient, rounding / rows as f64, rounding);
                let mut fused = logits.clone();
                let count = options.count(&targets, vocab).unwrap();
                if count > 0 {
                    let loss = losses(&mut fused, vocab, &targets, options, Some(1.5 / count as f32));
                    assert_close("fused loss", isa, &[(loss / count as f64) as f32], &[want], 1e-6, 1e-6);
                    assert_close("fused gradient", isa, &fused, &want_gradient, 2e-6 / rows as f64, 2e-6);
                }
            });
        }
    }

    #[test]
    fn agrees_with_the_formula() {
        for (rows, vocab) in [(1, 2), (2, 16), (5, 37), (3, 130)] {
            check(rows, vocab, 4.0);
        }
        check(4, 19, 60.0);
    }

    #[test]
    fn large_inputs_agree_with_the_formula() {
        let (rows, vocab) = (300, 157);
        let logits = numbers(rows * vocab, 1, 3.0);
        for options in OPTIONS {
            let targets = targets(rows, vocab, options);
            let want = exact(&wide(&logits), vocab, &targets, options);
            let mut log_sum_exp = vec![0.0; rows];
            let got = cross_entropy_forward(&logits, vocab, &targets, options, &mut log_sum_exp).unwrap();
            assert_close("loss", crate::Isa::current(), &[got], &[want], 1e-6, 1e-6);
            let (mut out, mut fused) = (vec![0.0; logits.len()], logits.clone());
            cross_entropy_backward(&logits, vocab, &targets, options, &log_sum_exp, 1.0, &mut out).unwrap();
            let count = options.count(&targets, vocab).unwrap() as f32;
            losses(&mut fused, vocab, &targets, options, Some(1.0 / count));
            assert_close("gradient", crate::Isa::current(), &out, &wide(&fused), 1e-7, 3e-6);
        }
    }

    #[test]
    fn extreme_logits() {
        on_every_isa(|isa| {
            let logits = [1e4, -1e4, 0.0, f32::NEG_INFINITY, 2.0, f32::NEG_INFINITY];
            let options = CrossEntropyOptions::default();
            let mut log_sum_exp = [0.0; 2];
            let got = cross_entropy_forward(&logits, 3, &[1, 1], options, &mut log_sum_exp).unwrap();
            assert_close("loss", isa, &[got], &[1e4], 0.0, 1e-6);
            let mut out = [f32::NAN; 6];
            cross_entropy_backward(&logits, 3, &[1, 1], options, &log_sum_exp, 2.0, &mut out).unwrap();
            assert_close("gradient", isa, &out, &[1.0, -1.0, 0.0, 0.0, 0.0, 0.0], 1e-6, 0.0);
            // The target itself has no probability.
            let got = cross_entropy_forward(&logits, 3, &[1, 0], options, &mut log_sum_exp).unwrap();
            assert_eq!(got, f32::INFINITY, "{isa:?}");
        });
    }

    #[test]
    fn nan_comes_through() {
        on_every_isa(|isa| {
            let mut log_sum_exp = [0.0; 1];
            let options = CrossEntropyOptions::default();
            let got = cross_entropy_forward(&[1.0, f32::NAN, 2.0], 3, &[0], options, &mut log_sum_exp).unwrap();
            assert!(got.is_nan(), "{isa:?}");
        });
    }

    #[test]
    fn ignored_rows_alone_give_zero() {
        let options = CrossEntropyOptions { ignore_index: Some(7), label_smoothing: 0.1 };
        let (mut log_sum_exp, mut out) = ([f32::NAN; 2], [f32::NAN; 6]);
        let loss = cross_entropy_forward(&[1.0; 6], 3, &[7, 7], options, &mut log_sum_exp).unwrap();
        cross_entropy_backward(&[1.0; 6], 3, &[7, 7], options, &log_sum_exp, 1.0, &mut out).unwrap();
        assert_eq!((loss, out), (0.0, [0.0; 6]));
        assert_eq!(cross_entropy_forward(&[], 3, &[], options, &mut []), Ok(0.0));
        assert_eq!(cross_entropy_forward(&[], 0, &[7], options, &mut [0.0]), Ok(0.0));
    }

    #[test]
    fn bad_input_is_refused_by_name() {
        let options = CrossEntropyOptions { ignore_index: Some(-100), label_smoothing: 0.0 };
        for target in [3, -1, i64::MAX] {
            let mut log_sum_exp = [0.0; 2];
            let error = cross_entropy_forward(&[0.0; 6], 3, &[-100, target], options, &mut log_sum_exp).unwrap_err();
            let message = error.to_string();
            assert!(message.contains(&format!("target {target} of row 1")), "{message}");
        }
        assert!(cross_entropy_forward(&[0.0; 5], 3, &[0, 0], options, &mut [0.0; 2]).is_err());
        assert!(cross_entropy_forward(&[0.0; 6], 3, &[0, 0], options, &mut [0.0; 1]).is_err());
        assert!(cross_entropy_forward(&[0.0; 6], usize::MAX, &[0, 0], options, &mut [0.0; 2]).is_err());
        assert!(cross_entropy_backward(&[0.0; 3], 3, &[0], options, &[0.0], 1.0, &mut [0.0; 2]).is_err());
        for label_smoothing in [-0.1, 1.1, f32::NAN] {
            let options = CrossEntropyOptions { label_smoothing, ..Default::default() };
            assert!(cross_entropy_forward(&[0.0; 3], 3, &[0], options, &mut [0.0]).is_err());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn any_size(rows in 1_usize..5, vocab in 2_usize..50) {
            check(rows, vocab, 3.0);
        }
    }
}
