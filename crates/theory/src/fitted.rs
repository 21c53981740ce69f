//! Fields and couplings without prompts: every element is drawn independently, from a normal distribution fitted to its block.
//!
//! Whatever their ground state shares with that of real prompts follows from means and variances alone; the difference is due to
//! the correlations between elements.

use faer::Mat;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use crate::fields::Fields;
use crate::random::{Purpose, random};

/// Sums from which the mean and the deviation of a class of elements follow.
#[derive(Default, Clone, Copy)]
struct Class {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Class {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        self.sum += value;
        self.squares += value * value;
    }

    fn draw(&self, random: &mut ChaCha8Rng) -> f64 {
        let mean = self.sum / self.count;
        let normal: f64 = StandardNormal.sample(random);
        mean + (self.squares / self.count - mean * mean).max(0.0).sqrt() * normal
    }
}

/// Number of classes of couplings: three blocks, each split by whether the two spins share a row and whether they share a column.
const CLASSES: usize = 12;

/// Returns the class of the coupling between spins `i` and `j`. None, one or both in the last row is block E, F or G.
fn class(d: usize, i: usize, j: usize) -> usize {
    let last = usize::from(i / d == d) + usize::from(j / d == d);
    4 * last + 2 * usize::from(i / d == j / d) + usize::from(i % d == j % d)
}

/// Draws fields with the means and variances of `fields` in each block but no correlations. They have no train error.
pub fn fitted(fields: &Fields, seed: u64) -> Fields {
    let (d, n) = (fields.d, fields.len());
    let mut random = random(Purpose::Fitted, seed, 0);
    let pairs = || (0..n).flat_map(|j| (0..=j).map(move |i| (i, j)));
    let mut couplings = [Class::default(); CLASSES];
    pairs().for_each(|(i, j)| couplings[class(d, i, j)].add(fields.moments[(i, j)]));
    let mut moments = Mat::<f64>::zeros(n, n);
    for (i, j) in pairs() {
        let value = couplings[class(d, i, j)].draw(&mut random);
        (moments[(i, j)], moments[(j, i)]) = (value, value);
    }
    // Classes of fields: off the diagonal, on the diagonal, in the last row.
    let place = |i: usize| if i / d == d { 2 } else { usize::from(i / d == i % d) };
    let mut classes = [Class::default(); 3];
    fields.h.iter().enumerate().for_each(|(i, h)| classes[place(i)].add(*h));
    let h = (0..n).map(|i| classes[place(i)].draw(&mut random)).collect();
    Fields { d, lambda: fields.lambda, moments, h, answer_square: fields.answer_square }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{Block, elements};
    use crate::prompt::Task;
    use crate::solver::{Method, Options};
    use crate::statistics::mean_and_deviation;
    use crate::weights::contrast;

    #[test]
    fn blocks_keep_their_moments_and_the_ground_state_its_shape() {
        let drawn = Fields::draw(&Task::new(12, 60), 8000, 0.01, 1, &mut |_| {}).unwrap();
        let fitted = fitted(&drawn, 2);
        for block in Block::AVERAGED {
            let moments = |fields: &Fields| mean_and_deviation(&elements(fields, block));
            let ((mean, deviation), (other_mean, other)) = (moments(&drawn), moments(&fitted));
            assert!((mean - other_mean).abs() < 0.5 * deviation, "{block:?}: {mean} and {other_mean}");
            assert!((0.6..1.6).contains(&(other / deviation)), "{block:?}: {deviation} and {other}");
        }
        assert!((0..drawn.len()).all(|i| (0..i).all(|j| fitted.moments[(i, j)] == fitted.moments[(j, i)])));
        let ground =
            |fields: &Fields| Method::Exact.solver(Options::default()).solve(fields, &mut |_, _| {}).unwrap().means;
        let [a, b] = [&drawn, &fitted].map(|fields| contrast(&ground(fields), 12));
        assert!((a - b).abs() < 0.05, "{a} and {b}");
    }
}
