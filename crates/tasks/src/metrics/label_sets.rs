//! Metrics of predictions with any number of labels per example.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::score::{Score, mean, ratio};

/// Scores of predicted sets of labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabelSetScores {
    /// Share of the examples whose whole set is correct.
    pub subset_accuracy: f64,
    /// F1 over all labels of all examples (micro average).
    pub micro_f1: f64,
    /// Mean F1 of all labels (macro average); a label that never occurs counts as 0.
    pub macro_f1: f64,
    /// Scores by label.
    pub labels: Vec<Score>,
}

/// Scores sets of labels, which are numbers below `labels`; a repeated label counts once.
///
/// # Panics
/// If `truth` and `predicted` differ in length, or hold a label that is not below `labels`.
pub fn label_sets(labels: usize, truth: &[Vec<usize>], predicted: &[Vec<usize>]) -> LabelSetScores {
    assert_eq!(truth.len(), predicted.len(), "one prediction per example");
    let mut counts = vec![[0u64; 3]; labels];
    let mut whole = 0;
    for (truth, predicted) in truth.iter().zip(predicted) {
        let truth: BTreeSet<usize> = truth.iter().copied().collect();
        let predicted: BTreeSet<usize> = predicted.iter().copied().collect();
        whole += u64::from(truth == predicted);
        truth.intersection(&predicted).for_each(|&label| counts[label][0] += 1);
        predicted.iter().for_each(|&label| counts[label][1] += 1);
        truth.iter().for_each(|&label| counts[label][2] += 1);
    }
    let sum = |which: usize| counts.iter().map(|count| count[which]).sum::<u64>();
    let labels: Vec<Score> =
        counts.iter().map(|&[correct, predicted, support]| Score::new(correct, predicted, support)).collect();
    LabelSetScores {
        subset_accuracy: ratio(whole, truth.len() as u64),
        micro_f1: Score::new(sum(0), sum(1), sum(2)).f1,
        macro_f1: mean(labels.iter().map(|label| label.f1)),
        labels,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_repetition_in_a_set_do_not_matter() {
        let scores = label_sets(3, &[vec![0, 2], vec![]], &[vec![2, 0, 2], vec![1]]);
        assert_eq!(scores.subset_accuracy, 0.5);
        assert_eq!(scores.micro_f1, 0.8);
        assert_eq!(scores.labels[1], Score { precision: 0.0, recall: 0.0, f1: 0.0, support: 0 });
    }
}
