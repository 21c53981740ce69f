//! The states of a text over the frames: the sums over the paths to each state and from it.

use std::ops::Range;

use super::powers::{Power, Powers, PowersMut, ZERO, exp, kept, ln, power_of_two, product, sum};

/// The states of a text: its labels, and the blanks before, between and after them. Blank `i` is before label `i`.
///
/// A row of states is one number for each blank, then one for each label between two impossible labels.
pub(super) struct Lattice<'a> {
    text: &'a [u32],
    blank: u32,
    /// For each label and one more, 1 if it may follow the label before it without a blank: there is one, and it differs.
    skips: Vec<f64>,
}

/// Rows of numbers.
pub(super) struct Rows {
    mantissas: Vec<f64>,
    exponents: Vec<f64>,
    width: usize,
}

impl Rows {
    fn zeros(rows: usize, width: usize) -> Self {
        Self { mantissas: vec![ZERO.0; rows * width], exponents: vec![ZERO.1; rows * width], width }
    }

    #[inline(always)]
    fn row(&self, row: usize) -> Powers<'_> {
        Powers { mantissas: &self.mantissas, exponents: &self.exponents }.part(row * self.width, self.width)
    }

    #[inline(always)]
    fn row_mut(&mut self, row: usize) -> PowersMut<'_> {
        let range = row * self.width..(row + 1) * self.width;
        PowersMut { mantissas: &mut self.mantissas[range.clone()], exponents: &mut self.exponents[range] }
    }

    /// Returns a row and the one before it.
    #[inline(always)]
    fn row_and_before(&mut self, row: usize) -> (PowersMut<'_>, Powers<'_>) {
        let ((before, own), width) = (self.mantissas.split_at_mut(row * self.width), self.width);
        let (before_exponents, exponents) = self.exponents.split_at_mut(row * self.width);
        let before = Powers { mantissas: before, exponents: before_exponents };
        let own = PowersMut { mantissas: &mut own[..width], exponents: &mut exponents[..width] };
        (own, before.part((row - 1) * width, width))
    }
}

impl<'a> Lattice<'a> {
    pub(super) fn new(text: &'a [u32], blank: u32) -> Self {
        let may_skip = |i: usize| i > 0 && i < text.len() && text[i] != text[i - 1];
        let skips = (0..=text.len()).map(|i| if may_skip(i) { 1.0 } else { 0.0 }).collect();
        Self { text, blank, skips }
    }

    /// Returns the number of states and of the two impossible ones.
    fn width(&self) -> usize {
        2 * self.text.len() + 3
    }

    /// Returns the index in a row of the impossible label before the first.
    fn label_before(&self) -> usize {
        self.text.len() + 1
    }

    /// Returns the labels and the blanks that can be reached after `t` frames and from which the end can be reached in the rest.
    fn ranges(&self, t: usize, frames: usize) -> [Range<usize>; 2] {
        let states = 2 * self.text.len() + 1;
        let (first, end) = (states.saturating_sub(2 * (frames - t)), (2 * (t + 1)).min(states));
        [first / 2..end / 2, first.div_ceil(2)..end.div_ceil(2)]
    }

    /// Computes `p_t` of each label of the text and, after them, of the blank. `rows` has the
    /// largest logit of each frame and the sum of the exponentials relative to it.
    #[inline(always)]
    pub(super) fn emissions(&self, logits: &[f32], vocab: usize, rows: &[(f32, f32)]) -> Rows {
        let width = self.text.len() + 1;
        let mut emissions = Rows::zeros(rows.len(), width);
        for (t, (x, &(max, sum))) in logits.chunks_exact(vocab).zip(rows).enumerate() {
            let log = f64::from(sum).ln();
            let PowersMut { mantissas, exponents } = emissions.row_mut(t);
            // x − max is exact if both are large; adding the logarithm to max first would round.
            for (at, label) in self.text.iter().chain([&self.blank]).enumerate() {
                mantissas[at] = f64::from(x[*label as usize]) - f64::from(max) - log;
            }
            for (mantissa, exponent) in mantissas.iter_mut().zip(exponents) {
                (*mantissa, *exponent) = exp(*mantissa);
            }
        }
        emissions
    }

    /// Computes `α` of all frames.
    #[inline(always)]
    pub(super) fn forward(&self, emissions: &Rows, frames: usize) -> Rows {
        let count = self.text.len();
        let mut alpha = Rows::zeros(frames, self.width());
        let mut first = alpha.row_mut(0);
        first.set(0, emissions.row(0).get(count));
        if count > 0 {
            first.set(self.label_before() + 1, emissions.row(0).get(0));
        }
        for t in 1..frames {
            let (mut own, before) = alpha.row_and_before(t);
            let [labels, blanks] = self.ranges(t, frames);
            // Blank i follows itself and label i − 1; label i follows itself, blank i and, if it differs, label i − 1.
            let (n, emitted) = (blanks.len(), emissions.row(t).get(count));
            let (stays, label) = (before.part(blanks.start, n), before.part(self.label_before() + blanks.start, n));
            own.part(blanks.start, n).write(|i| product(sum([stays.get(i), label.get(i)]), emitted));
            let (n, first) = (labels.len(), self.label_before() + labels.start);
            let (stays, blank, label) =
                (before.part(first + 1, n), before.part(labels.start, n), before.part(first, n));
            let (skips, emitted) = (&self.skips[labels.start..][..n], emissions.row(t).part(labels.start, n));
            own.part(first + 1, n).write(|i| {
                let all = sum([stays.get(i), blank.get(i), kept(skips[i], label.get(i))]);
                product(all, emitted.get(i))
            });
        }
        alpha
    }

    /// Returns `P` from `α`, and its logarithm.
    pub(super) fn end(&self, alpha: &Rows, frames: usize) -> (Power, f64) {
        let (last, count) = (alpha.row(frames - 1), self.text.len());
        // The last label, or the impossible one before the first.
        let all = product(sum([last.get(count), last.get(self.label_before() + count)]), (1.0, 0.0));
        (all, ln(all))
    }

    /// Subtracts from `grad` the probability that the path is in a state, at its label.
    #[inline(always)]
    pub(super) fn backward(&self, emissions: &Rows, alpha: &Rows, p: Power, vocab: usize, grad: &mut [f32]) {
        let (count, frames, before) = (self.text.len(), grad.len() / vocab, self.label_before());
        // `β_t` of the states, and `β_{t+1} p_{t+1}` of those that follow.
        let mut beta = Rows::zeros(1, self.width());
        let mut next = Rows::zeros(1, self.width());
        let mut probabilities = vec![0.0; self.width()];
        let inverse = (1.0 / p.0, -p.1);
        for t in (0..frames).rev() {
            let [labels, blanks] = self.ranges(t, frames);
            let mut own = beta.row_mut(0);
            if t + 1 == frames {
                own.set(count, (1.0, 0.0));
                own.set(before + count, if count > 0 { (1.0, 0.0) } else { ZERO });
            } else {
                let next = next.row(0);
                let (n, first) = (blanks.len(), blanks.start);
                let (stays, label) = (next.part(first, n), next.part(before + 1 + first, n));
                own.part(first, n).write(|i| product(sum([stays.get(i), label.get(i)]), (1.0, 0.0)));
                let (n, first) = (labels.len(), before + 1 + labels.start);
                let (stays, label) = (next.part(first, n), next.part(first + 1, n));
                let (blank, skips) = (next.part(labels.start + 1, n), &self.skips[labels.start + 1..][..n]);
                own.part(first, n).write(|i| {
                    let all = sum([stays.get(i), blank.get(i), kept(skips[i], label.get(i))]);
                    product(all, (1.0, 0.0))
                });
            }
            let (beta, alpha, emitted) = (beta.row(0), alpha.row(t), emissions.row(t));
            let all = probabilities.len();
            let (alpha, of_states) = (alpha.part(0, all), beta.part(0, all));
            for (i, probability) in probabilities.iter_mut().enumerate() {
                let ((a, a_exponent), (b, b_exponent)) = (alpha.get(i), of_states.get(i));
                // At most 1, up to rounding, so that the power of two is at most 2.
                *probability = a * b * inverse.0 * power_of_two(a_exponent + b_exponent + inverse.1);
            }
            let row = &mut grad[t * vocab..(t + 1) * vocab];
            for i in labels.clone() {
                row[self.text[i] as usize] -= probabilities[before + 1 + i] as f32;
            }
            row[self.blank as usize] -= probabilities[blanks.clone()].iter().sum::<f64>() as f32;

            next.mantissas.fill(ZERO.0);
            next.exponents.fill(ZERO.1);
            let mut next = next.row_mut(0);
            let (n, first, blank) = (blanks.len(), blanks.start, emitted.get(count));
            let from = beta.part(first, n);
            next.part(first, n).write(|i| product(from.get(i), blank));
            let (n, first) = (labels.len(), before + 1 + labels.start);
            let (from, emitted) = (beta.part(first, n), emitted.part(labels.start, n));
            next.part(first, n).write(|i| product(from.get(i), emitted.get(i)));
        }
    }
}
