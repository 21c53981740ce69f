//! What the rules of all tasks share: sizes that grow smoothly with the data, and the length of a training.

use super::{Asked, Facts, Reason};

/// Seconds that the training of a chosen run should take at most on two cores of a common machine. Scoring, a slower machine and
/// estimates that are wrong must still fit into ten minutes.
const LONGEST: f64 = 270.0;
/// Operations per second of training on two cores with AVX-512. With it and `OVERHEAD` a translator of 128 features is estimated at
/// 65,000 tokens per second and reaches 60,000 on a quiet Xeon, a language model of 128 and four layers at 34,000 (40,000). Twice the
/// speed of one thread: a translator of 192 features 30,000 (31,000), a model of pen digits 80,000 (95,000).
const OPERATIONS: f64 = 2e11;
/// Seconds of a token beside its matrix products.
const OVERHEAD: f64 = 5e-6;
/// Number of evaluations of a run.
const EVALUATIONS: u64 = 20;

/// Interpolates between points `(size, value)`, linearly in the logarithm of the size; constant beyond the ends.
pub(crate) fn by_size(size: f64, points: &[(f64, f64)]) -> f64 {
    let at = size.max(1.0).ln();
    let mut value = points.first().map_or(0.0, |point| point.1);
    for pair in points.windows(2) {
        let [(from, low), (to, high)] = [pair[0], pair[1]];
        let way = ((at - from.ln()) / (to.ln() - from.ln())).clamp(0.0, 1.0);
        if way > 0.0 {
            value = low + way * (high - low);
        }
    }
    value
}

/// Rounds to a multiple of `step`, at least `step`.
pub(crate) fn rounded(value: f64, step: usize) -> usize {
    let step = step.max(1);
    ((value / step as f64).round() as usize).max(1) * step
}

/// Rounds to two significant digits.
pub(crate) fn significant(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let unit = 10f64.powf(value.abs().log10().floor() - 1.0);
    let rounded = (value / unit).round() * unit;
    // 0.30000000000000004 would be printed as it is.
    format!("{rounded:.2e}").parse().unwrap_or(rounded)
}

/// Rounds a probability to hundredths.
pub(crate) fn share(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// A number with separators: 12,345.
pub(crate) fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The work of a pass over the data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// Number of batches of a pass.
    pub batches: f64,
    /// Seconds of a pass on two cores.
    pub seconds: f64,
}

/// Returns the seconds that two cores train on a number of tokens, each of which meets a number of weights.
pub(crate) fn seconds(tokens: f64, weights: f64) -> f64 {
    // A product with a weight takes two operations forwards and four backwards.
    tokens * (6.0 * weights / OPERATIONS + OVERHEAD)
}

/// The length of a training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Length {
    /// Number of steps.
    pub steps: u64,
    /// Number of passes over the data.
    pub passes: f64,
    /// Minutes of training on two cores.
    pub minutes: f64,
}

impl Length {
    /// Returns the length of a training of `passes` over the data and at least `least` steps, cut to the time that a run may take.
    /// The number of steps or epochs that the user has set comes first.
    pub fn new<C: serde::Serialize + serde::de::DeserializeOwned>(
        work: Work,
        passes: f64,
        least: f64,
        asked: &Asked<C>,
    ) -> Self {
        let batches = work.batches.max(1.0);
        let affordable = (LONGEST / work.seconds.max(1e-9) * batches).max(1.0);
        let wanted = (passes * batches).max(least).min(affordable);
        // Two significant digits read better and are exact enough.
        let wanted = significant(wanted).clamp(1.0, 1e9);
        let steps = match (asked.number("train.steps"), asked.number("train.epochs")) {
            (Some(steps), Some(epochs)) => steps.min(epochs * batches),
            (Some(steps), None) => steps,
            (None, Some(epochs)) => epochs * batches,
            (None, None) => wanted,
        };
        let passes = steps / batches;
        Self { steps: steps.max(1.0) as u64, passes, minutes: passes * work.seconds / 60.0 }
    }

    /// Adds the number of steps, and what follows from it, to a reason: warm-up, evaluations and when to stop early. If the dev
    /// split has many more than `most` examples, only so many are scored each time.
    pub fn settings(self, reason: Reason, facts: &Facts, most: usize) -> Reason {
        let Self { steps, .. } = self;
        let every = (steps / EVALUATIONS).max(1);
        let reason = match facts.dev > 2 * most {
            true => reason.count("train.evaluate_examples", most),
            false => reason,
        };
        reason
            .count("train.steps", steps as usize)
            .count("train.warmup", (steps / 20).clamp(1, 400) as usize)
            .count("train.evaluate_every", every as usize)
            .count("train.checkpoint_every", every.max(50) as usize)
            .count("train.patience", (EVALUATIONS / 2) as usize)
    }

    /// The length in words: `12 passes, about 3 minutes on two cores`.
    pub fn words(self) -> String {
        let passes = if self.passes < 9.5 { significant(self.passes) } else { self.passes.round() };
        let time = match self.minutes {
            minutes if minutes < 1.0 => "less than a minute".to_string(),
            minutes => format!("about {minutes:.0} minute{}", if minutes < 1.5 { "" } else { "s" }),
        };
        format!("{passes} passes, {time} on two cores")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_follow_the_logarithm_of_the_size() {
        let points = [(100.0, 1.0), (10_000.0, 3.0), (1e6, 3.0)];
        for (size, value) in [(0.0, 1.0), (100.0, 1.0), (1_000.0, 2.0), (10_000.0, 3.0), (1e9, 3.0)] {
            assert!((by_size(size, &points) - value).abs() < 1e-12, "{size}");
        }
    }

    #[test]
    fn numbers_are_rounded() {
        assert_eq!((rounded(100.0, 8), rounded(0.1, 8), rounded(13.0, 8)), (104, 8, 16));
        assert_eq!((significant(0.00234), significant(1234.0), significant(0.0)), (0.0023, 1200.0, 0.0));
        assert_eq!((count(7), count(1234), count(1_234_567)), ("7".into(), "1,234".into(), "1,234,567".into()));
    }
}
