//! Inputs so large that the network overflows, which are refused alone.

use super::examples::Goal;
use super::{Typed, VectorTask};
use crate::error::TaskError;

/// Largest number of standard deviations between an input and the training data. Far beyond any data, and small enough that sums
/// of squares in the network do not overflow.
const FARTHEST: f32 = 1e12;

impl VectorTask {
    /// Refuses an input that is so far from the training data that the network would overflow.
    pub(super) fn check_near(&self, input: &Typed) -> Result<(), TaskError> {
        let (window, width, seen) = (self.seen(input), self.width(), self.scaling.seen());
        let scaled = self.scaling.apply(window);
        let Some(at) = scaled.iter().position(|x| x.is_nan() || x.abs() > FARTHEST) else { return Ok(()) };
        let (vector, feature) = (at / seen, at % seen % width);
        let number = window[vector * width + feature];
        let expected = format!("feature {} within {FARTHEST:e} standard deviations of the training data", feature + 1);
        Err(TaskError::input("input", expected, format!("{number:e}")))
    }

    /// Refuses an input whose answer is not a finite number, because the network has overflowed.
    pub(super) fn check_answer(&self, window: &[f32], output: &[f32]) -> Result<(), TaskError> {
        let is_finite = |numbers: &[f32]| numbers.iter().all(|x| x.is_finite());
        let fits = is_finite(output)
            && match &self.goal {
                Goal::Given(..) => true,
                Goal::Next(forecast) => is_finite(&forecast.restored(output.to_vec(), self.last(window))),
            };
        let largest = || window.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
        match fits {
            true => Ok(()),
            false => Err(TaskError::input(
                "input",
                "numbers that the network can compute with",
                format!("an overflow; the largest number is {:e}", largest()),
            )),
        }
    }
}
