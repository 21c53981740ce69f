//! Metrics of predictions with one class per example: the confusion matrix and the scores derived from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::score::{Score, mean, ratio};

/// A confusion matrix. Only pairs that occur are stored: a full matrix of 20,000 classes would take 3 GB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confusion {
    classes: usize,
    /// Number of examples by true and predicted class.
    counts: BTreeMap<(usize, usize), u64>,
}

/// All scores of a [`Confusion`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassReport {
    /// Share of the examples that are correct.
    pub accuracy: f64,
    /// Mean F1 of all classes that occur (macro average).
    pub macro_f1: f64,
    /// Mean F1 of all classes, weighted by their numbers of true examples.
    pub weighted_f1: f64,
    /// Scores by class.
    pub classes: Vec<Score>,
}

impl Confusion {
    /// Creates an empty matrix of `classes` classes.
    pub fn new(classes: usize) -> Self {
        Self { classes, counts: BTreeMap::new() }
    }

    /// Creates the matrix from the true and the predicted class of each example.
    ///
    /// # Panics
    /// If `truth` and `predicted` differ in length, or hold a class that is not below `classes`.
    pub fn from_pairs(classes: usize, truth: &[usize], predicted: &[usize]) -> Self {
        assert_eq!(truth.len(), predicted.len(), "one prediction per example");
        let mut confusion = Self::new(classes);
        for (&truth, &predicted) in truth.iter().zip(predicted) {
            confusion.add(truth, predicted);
        }
        confusion
    }

    /// Adds an example.
    ///
    /// # Panics
    /// If a class is not below the number of classes.
    pub fn add(&mut self, truth: usize, predicted: usize) {
        let classes = self.classes;
        assert!(truth < classes && predicted < classes, "classes {truth} and {predicted} of {classes}");
        *self.counts.entry((truth, predicted)).or_default() += 1;
    }

    /// Returns the full matrix; rows are true classes, columns predicted ones.
    pub fn matrix(&self) -> Vec<Vec<u64>> {
        let mut matrix = vec![vec![0; self.classes]; self.classes];
        self.counts.iter().for_each(|(&(truth, predicted), &count)| matrix[truth][predicted] = count);
        matrix
    }

    /// Returns how often the class `truth` was predicted as `predicted`.
    pub fn count(&self, truth: usize, predicted: usize) -> u64 {
        self.counts.get(&(truth, predicted)).copied().unwrap_or(0)
    }

    /// Returns, for each class, how often it is true plus how often it is predicted.
    pub fn totals(&self) -> Vec<u64> {
        let mut totals = vec![0; self.classes];
        for (&(truth, predicted), &count) in &self.counts {
            totals[truth] += count;
            totals[predicted] += count;
        }
        totals
    }

    /// Returns the number of examples.
    pub fn examples(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Returns the share of the examples that are correct.
    pub fn accuracy(&self) -> f64 {
        ratio((0..self.classes).map(|class| self.count(class, class)).sum(), self.examples())
    }

    /// Computes all scores. As in scikit-learn, a class that is never true or predicted scores 0 and is left out of the macro F1.
    pub fn report(&self) -> ClassReport {
        let (mut support, mut predicted) = (vec![0; self.classes], vec![0; self.classes]);
        for (&(truth, found), &count) in &self.counts {
            support[truth] += count;
            predicted[found] += count;
        }
        let score = |class: usize| Score::new(self.count(class, class), predicted[class], support[class]);
        let classes: Vec<Score> = (0..self.classes).map(score).collect();
        let occurs = |&class: &usize| support[class] + predicted[class] > 0;
        let present: Vec<f64> = (0..classes.len()).filter(occurs).map(|class| classes[class].f1).collect();
        let weighted: f64 = classes.iter().map(|class| class.f1 * class.support as f64).sum();
        ClassReport {
            accuracy: self.accuracy(),
            macro_f1: mean(present.into_iter()),
            weighted_f1: if self.examples() == 0 { 0.0 } else { weighted / self.examples() as f64 },
            classes,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rows_are_true_classes() {
        let confusion = Confusion::from_pairs(3, &[0, 0, 1], &[1, 0, 1]);
        assert_eq!(confusion.matrix(), [[1, 1, 0], [0, 1, 0], [0, 0, 0]]);
        let report = confusion.report();
        assert_eq!((report.classes[1].precision, report.classes[1].recall), (0.5, 1.0));
        assert_eq!(report.classes[2], Score::default());
        assert!((report.macro_f1 - 2.0 / 3.0).abs() < 1e-15, "the third class is left out");
    }

    #[test]
    fn memory_depends_on_the_examples_and_not_on_the_classes() {
        // A full matrix would take 80 GB.
        let report = Confusion::from_pairs(100_000, &[0, 99_999], &[0, 5]).report();
        assert_eq!((report.accuracy, report.classes[99_999].support), (0.5, 1));
    }

    #[test]
    fn all_scores_are_zero_without_examples() {
        let report = Confusion::new(2).report();
        assert_eq!((report.accuracy, report.macro_f1, report.weighted_f1), (0.0, 0.0, 0.0));
    }

    proptest! {
        #[test]
        fn the_order_of_examples_does_not_matter(pairs in prop::collection::vec((0..4usize, 0..4usize), 0..40)) {
            let (truth, predicted): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
            let (back, predicted_back): (Vec<_>, Vec<_>) = pairs.iter().rev().copied().unzip();
            let confusion = Confusion::from_pairs(4, &truth, &predicted);
            prop_assert_eq!(&confusion, &Confusion::from_pairs(4, &back, &predicted_back));
            let right = pairs.iter().filter(|(truth, predicted)| truth == predicted).count();
            prop_assert!((confusion.accuracy() * pairs.len() as f64 - right as f64).abs() < 1e-9);
        }
    }
}
