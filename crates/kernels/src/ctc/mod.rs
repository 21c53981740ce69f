//! Connectionist temporal classification (Graves 2006): the loss of a text whose alignment to the frames is not known.
//!
//! A path writes one label or the blank at each frame; it spells a text if merging equal neighbours and removing blanks gives
//! the text. With the text's labels and a blank before, between and after them as states `s`, and `p = softmax(logits)`:
//!
//! ```text
//! α_t(s) = p_t(s) (α_{t−1}(s) + α_{t−1}(s−1) + α_{t−1}(s−2))   the last only between different labels
//! β_t(s) = Σ_{s'} p_{t+1}(s') β_{t+1}(s')                      over the states that may follow s
//! loss   = −ln P,  P = Σ_s α_T(s) over the last two states
//! ∂logits_t(k) = p_t(k) − Σ_{s: label k} α_t(s) β_t(s) / P
//! ```
//!
//! `α` and `β` are f64 with exponents of their own, so that neither long nor improbable sequences underflow.

mod lattice;
mod powers;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use self::lattice::Lattice;
use crate::error::{KernelError, check_len, check_product};
use crate::isa::dispatch;
use crate::parallel::is_crowded;
use crate::vector;

/// The texts of a batch of sequences that are stored one after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CtcTexts<'a> {
    /// Number of frames of each sequence.
    pub frames: &'a [usize],
    /// Labels of each text; none is the blank.
    pub texts: &'a [Vec<u32>],
    /// Index of the blank.
    pub blank: u32,
}

impl CtcTexts<'_> {
    /// Returns the smallest number of frames that can spell a text: one for each label, and one for the blank between two
    /// equal ones.
    pub fn frames_needed(text: &[u32]) -> usize {
        text.len() + text.windows(2).filter(|pair| pair[0] == pair[1]).count()
    }

    /// Checks the texts and returns the number of frames of all sequences.
    fn check(&self, vocab: usize) -> Result<usize, KernelError> {
        check_len("CTC texts", self.texts.len(), self.frames.len())?;
        let invalid = |what, why| Err(KernelError::Invalid { what, why });
        if self.blank as usize >= vocab {
            return invalid("CTC blank", format!("{} is outside a vocabulary of {vocab}", self.blank));
        }
        for (at, (text, &frames)) in self.texts.iter().zip(self.frames).enumerate() {
            if let Some(label) = text.iter().find(|&&label| label as usize >= vocab || label == self.blank) {
                let why =
                    format!("label {label} of text {at}: expected one below {vocab}, not the blank {}", self.blank);
                return invalid("CTC texts", why);
            }
            let needed = Self::frames_needed(text);
            if frames < needed {
                let why = format!("text {at} needs {needed} frames or more, its sequence has {frames}");
                return invalid("CTC frames", why);
            }
        }
        let all = self.frames.iter().try_fold(0_usize, |sum, &frames| sum.checked_add(frames));
        all.map_or_else(|| invalid("CTC frames", "their sum does not fit in memory".to_string()), Ok)
    }
}

/// Computes the loss of each sequence and, if `grad` is given, the gradient of each loss with respect to the logits.
///
/// # Shapes
/// `logits`, `grad` `[Σ frames, vocab]`, `losses` `[sequences]`.
pub fn ctc_forward(
    logits: &[f32],
    vocab: usize,
    texts: CtcTexts,
    losses: &mut [f32],
    grad: Option<&mut [f32]>,
) -> Result<(), KernelError> {
    let frames = texts.check(vocab)?;
    let elements = check_product("CTC logits", frames, vocab)?;
    check_len("CTC logits", logits.len(), elements)?;
    check_len("CTC losses", losses.len(), texts.frames.len())?;
    if let Some(grad) = &grad {
        check_len("CTC grad", grad.len(), elements)?;
    }
    let (mut logits, mut grad) = (logits, grad);
    let mut sequences = Vec::with_capacity(losses.len());
    for ((&frames, text), loss) in texts.frames.iter().zip(texts.texts).zip(losses) {
        let (own, rest) = logits.split_at(frames * vocab);
        logits = rest;
        let own_grad = grad.take().map(|all| {
            let (own, rest) = all.split_at_mut(frames * vocab);
            grad = Some(rest);
            own
        });
        sequences.push(Sequence { logits: own, vocab, text, blank: texts.blank, loss, grad: own_grad });
    }
    if sequences.len() < 2 || is_crowded() {
        sequences.into_iter().for_each(dispatch);
    } else {
        sequences.into_par_iter().for_each(dispatch);
    }
    Ok(())
}

/// Multiplies the gradient of each sequence by the gradient of its loss, in place.
///
/// # Shapes
/// `grad` `[Σ frames, vocab]`, `grad_losses` `[sequences]`.
pub fn ctc_backward(grad_losses: &[f32], vocab: usize, frames: &[usize], grad: &mut [f32]) -> Result<(), KernelError> {
    check_len("CTC loss gradients", grad_losses.len(), frames.len())?;
    let all = frames.iter().try_fold(0_usize, |sum, &frames| sum.checked_add(frames));
    let all = all.ok_or_else(|| KernelError::Invalid { what: "CTC frames", why: "too many".to_string() })?;
    check_len("CTC grad", grad.len(), check_product("CTC grad", all, vocab)?)?;
    let mut rest = grad;
    for (&factor, &frames) in grad_losses.iter().zip(frames) {
        let (own, after) = rest.split_at_mut(frames * vocab);
        own.iter_mut().for_each(|x| *x *= factor);
        rest = after;
    }
    Ok(())
}

/// One sequence with its text.
struct Sequence<'a> {
    logits: &'a [f32],
    vocab: usize,
    text: &'a [u32],
    blank: u32,
    loss: &'a mut f32,
    grad: Option<&'a mut [f32]>,
}

impl WithSimd for Sequence<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { logits, vocab, text, blank, loss, grad } = self;
        let frames = logits.len() / vocab;
        if frames == 0 {
            *loss = 0.0;
            return;
        }
        let rows: Vec<(f32, f32)> = logits
            .chunks_exact(vocab)
            .map(|x| {
                let max = vector::max(simd, x);
                (max, vector::sum_exp(simd, x, max))
            })
            .collect();
        if rows.iter().any(|(_, sum)| sum.is_nan()) {
            *loss = f32::NAN;
            return grad.into_iter().for_each(|grad| grad.fill(f32::NAN));
        }
        let lattice = Lattice::new(text, blank);
        let emissions = lattice.emissions(logits, vocab, &rows);
        let alpha = lattice.forward(&emissions, frames);
        let (p, log_p) = lattice.end(&alpha, frames);
        *loss = -log_p as f32;
        let Some(grad) = grad else { return };
        for ((x, grad), &(max, sum)) in logits.chunks_exact(vocab).zip(grad.chunks_exact_mut(vocab)).zip(&rows) {
            let (shift, factor) = (simd.splat_f32s(max), simd.splat_f32s(1.0 / sum));
            vector::map!(simd, x, grad, |x| simd.mul_f32s(vector::exp_bounded(simd, simd.sub_f32s(x, shift)), factor));
        }
        lattice.backward(&emissions, &alpha, p, vocab, grad);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, seed: u64) -> Vec<f32> {
        let mut state = seed;
        let mut number = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 22) as f32 - 2.0
        };
        (0..count).map(|_| number()).collect()
    }

    /// `−ln P` by adding up all paths.
    fn by_paths(logits: &[f64], vocab: usize, text: &[u32], blank: u32) -> f64 {
        let frames = logits.len() / vocab;
        let rows: Vec<Vec<f64>> = logits
            .chunks(vocab)
            .map(|x| {
                let sum: f64 = x.iter().map(|x| x.exp()).sum();
                x.iter().map(|x| x.exp() / sum).collect()
            })
            .collect();
        let mut total = 0.0;
        for path in 0..vocab.pow(frames as u32) {
            let labels: Vec<usize> = (0..frames).map(|t| path / vocab.pow(t as u32) % vocab).collect();
            let mut spelt: Vec<u32> = labels.iter().map(|&label| label as u32).collect();
            spelt.dedup();
            spelt.retain(|&label| label != blank);
            if spelt == text {
                total += labels.iter().enumerate().map(|(t, &label)| rows[t][label]).product::<f64>();
            }
        }
        -total.ln()
    }

    fn run(logits: &[f32], vocab: usize, frames: &[usize], texts: &[Vec<u32>], blank: u32) -> (Vec<f32>, Vec<f32>) {
        let (mut losses, mut grad) = (vec![f32::NAN; frames.len()], vec![f32::NAN; logits.len()]);
        ctc_forward(logits, vocab, CtcTexts { frames, texts, blank }, &mut losses, Some(&mut grad)).unwrap();
        (losses, grad)
    }

    #[test]
    fn losses_and_gradients_are_those_of_all_paths() {
        for (vocab, frames, text, blank) in [
            (3, 4, vec![1, 2], 0),
            (3, 5, vec![1, 1], 0),
            (3, 3, vec![1, 1], 0),
            (4, 5, vec![0, 2, 0], 3),
            (3, 4, vec![], 0),
            (2, 1, vec![1], 0),
            (3, 6, vec![2, 2, 1], 0),
        ] {
            let logits = numbers(frames * vocab, 7);
            let wide: Vec<f64> = logits.iter().map(|&x| f64::from(x)).collect();
            let (losses, grad) = run(&logits, vocab, &[frames], std::slice::from_ref(&text), blank);
            let want = by_paths(&wide, vocab, &text, blank);
            assert!((f64::from(losses[0]) - want).abs() < 1e-5 * want.max(1.0), "{text:?}: {losses:?}, {want}");
            for (at, &grad) in grad.iter().enumerate() {
                let moved = |by: f64| {
                    let mut moved = wide.clone();
                    moved[at] += by;
                    by_paths(&moved, vocab, &text, blank)
                };
                let want = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert!((f64::from(grad) - want).abs() < 1e-6, "{text:?}, logit {at}: {grad}, {want}");
            }
        }
    }

    #[test]
    fn sequences_of_a_batch_do_not_touch_each_other() {
        let vocab = 19;
        let (frames, texts) = ([7, 3, 20], [vec![3, 3, 18], vec![5], vec![1, 2, 3, 4, 5, 6]]);
        let logits = numbers(30 * vocab, 3);
        let (losses, grad) = run(&logits, vocab, &frames, &texts, 0);
        let mut start = 0;
        for (at, &own) in frames.iter().enumerate() {
            let range = start * vocab..(start + own) * vocab;
            let alone = run(&logits[range.clone()], vocab, &[own], &texts[at..=at], 0);
            assert_eq!((losses[at], &grad[range]), (alone.0[0], &alone.1[..]));
            start += own;
        }
        let mut scaled = grad.clone();
        ctc_backward(&[2.0, 0.0, -1.0], vocab, &frames, &mut scaled).unwrap();
        assert_eq!(scaled[0], 2.0 * grad[0]);
        assert!(scaled[7 * vocab..10 * vocab].iter().all(|&x| x == 0.0));
        assert_eq!(scaled[29 * vocab], -grad[29 * vocab]);
    }

    #[test]
    fn long_and_improbable_sequences_stay_finite() {
        let (vocab, frames) = (5, 2_000);
        // All frames are certain of label 4, which the text does not have.
        let logits: Vec<f32> = (0..frames * vocab).map(|at| if at % vocab == 4 { 100.0 } else { 0.0 }).collect();
        let (losses, grad) = run(&logits, vocab, &[frames], &[vec![1, 2, 3]], 0);
        assert!((losses[0] - 200_000.0).abs() < 50.0, "{losses:?}");
        let rows_sum_to_zero = grad.chunks(vocab).all(|row| row.iter().sum::<f32>().abs() < 1e-5);
        assert!(rows_sum_to_zero && grad.iter().all(|x| x.is_finite()));
    }

    #[test]
    fn nan_is_not_hidden() {
        let mut logits = numbers(6 * 3, 1);
        logits[8] = f32::NAN;
        let (losses, grad) = run(&logits, 3, &[6], &[vec![1, 2]], 0);
        assert!(losses[0].is_nan() && grad.iter().any(|x| x.is_nan()));
        assert_eq!(run(&[], 3, &[0], &[vec![]], 0).0, [0.0]);
        assert_eq!(run(&[], 3, &[], &[], 0).0, [0.0; 0]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = |frames: &[usize], texts: &[Vec<u32>], blank, logits: usize| {
            let mut losses = vec![0.0; frames.len()];
            ctc_forward(&vec![0.0; logits], 3, CtcTexts { frames, texts, blank }, &mut losses, None)
                .unwrap_err()
                .to_string()
        };
        assert!(refused(&[2], &[vec![1, 1]], 0, 6).contains("text 0 needs 3 frames or more, its sequence has 2"));
        assert!(refused(&[2], &[vec![3]], 0, 6).contains("label 3 of text 0"));
        assert!(refused(&[2], &[vec![0]], 0, 6).contains("not the blank 0"));
        assert!(refused(&[2], &[vec![1]], 3, 6).contains("blank"));
        assert!(refused(&[2], &[vec![1]], 0, 5).contains("expected 6 elements, got 5"));
        assert!(refused(&[2, 1], &[vec![1]], 0, 9).contains("texts"));
        assert!(refused(&[usize::MAX, 2], &[vec![1], vec![1]], 0, 9).contains("memory"));
    }
}
