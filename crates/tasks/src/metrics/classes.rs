//! One class an example: the confusion matrix and what follows from it.

use serde::{Deserialize, Serialize};

use super::score::{Score, mean, ratio};

/// How often each class was taken for each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confusion {
    counts: Vec<Vec<u64>>,
}

/// All scores of a [`Confusion`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassReport {
    /// Examples that are right.
    pub accuracy: f64,
    /// F1, every class that occurs counting the same.
    pub macro_f1: f64,
    /// F1, every class counting by its examples.
    pub weighted_f1: f64,
    /// By class.
    pub classes: Vec<Score>,
}

impl Confusion {
    /// Nothing seen of `classes` classes yet.
    pub fn new(classes: usize) -> Self {
        Self { counts: vec![vec![0; classes]; classes] }
    }

    /// From one class an example.
    ///
    /// # Panics
    /// Where `truth` and `predicted` differ in number, or hold a class that is not below `classes`.
    pub fn from_pairs(classes: usize, truth: &[usize], predicted: &[usize]) -> Self {
        assert_eq!(truth.len(), predicted.len(), "one prediction an example");
        let mut confusion = Self::new(classes);
        for (&truth, &predicted) in truth.iter().zip(predicted) {
            confusion.add(truth, predicted);
        }
        confusion
    }

    /// One example more.
    ///
    /// # Panics
    /// Where a class is not below the number of classes.
    pub fn add(&mut self, truth: usize, predicted: usize) {
        self.counts[truth][predicted] += 1;
    }

    /// The matrix: a row is a true class, a column a predicted one.
    pub fn counts(&self) -> &[Vec<u64>] {
        &self.counts
    }

    /// How many examples there are.
    pub fn examples(&self) -> u64 {
        self.counts.iter().flatten().sum()
    }

    /// Examples that are right.
    pub fn accuracy(&self) -> f64 {
        ratio((0..self.counts.len()).map(|class| self.counts[class][class]).sum(), self.examples())
    }

    /// All scores. A class neither true nor predicted anywhere has zeros and no part in the means, as in scikit-learn.
    pub fn report(&self) -> ClassReport {
        let support = |class: usize| self.counts[class].iter().sum::<u64>();
        let predicted = |class: usize| self.counts.iter().map(|row| row[class]).sum::<u64>();
        let score = |class: usize| Score::new(self.counts[class][class], predicted(class), support(class));
        let classes: Vec<Score> = (0..self.counts.len()).map(score).collect();
        let occurs = |&class: &usize| support(class) + predicted(class) > 0;
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
        assert_eq!(confusion.counts(), [[1, 1, 0], [0, 1, 0], [0, 0, 0]]);
        let report = confusion.report();
        assert_eq!((report.classes[1].precision, report.classes[1].recall), (0.5, 1.0));
        assert_eq!(report.classes[2], Score::default());
        assert!((report.macro_f1 - 2.0 / 3.0).abs() < 1e-15, "the third class has no part");
    }

    #[test]
    fn no_example_no_score() {
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
