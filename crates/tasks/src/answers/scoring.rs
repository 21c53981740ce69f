//! Scores of answers, and the tables and figures that the report shows beside them.

use regard_data::Vocabulary;
use regard_figures::{Axis, Content, Figure, LineStyle, Lines, Series};

use super::{Answer, Answers};
use crate::error::TaskError;
use crate::metrics::tables::{confusion_figure, score_table};
use crate::metrics::{Confusion, LabelSetScores, Score, label_sets, regression};
use crate::task::Better;

/// Lower bound on a probability in a loss, so that the loss stays finite.
const LEAST: f64 = 1e-12;

impl Answers {
    /// Name of the score that selects the best weights, and whether a higher one is better.
    pub(crate) fn main(&self) -> (&'static str, Better) {
        match self {
            Self::One(_) => ("accuracy", Better::Higher),
            Self::Several(_) => ("micro_f1", Better::Higher),
            Self::Number(_) => ("mse", Better::Lower),
        }
    }

    /// Scores of the outputs; empty if there are none. `unseen` labels are never predicted and are left out of the loss.
    pub(crate) fn scores(&self, truth: &[&Answer], outputs: &[&[f32]], unseen: &[String]) -> Vec<(&'static str, f64)> {
        if truth.is_empty() {
            return Vec::new();
        }
        let found: Vec<Answer> = outputs.iter().map(|output| self.decide(output)).collect();
        let nats = |p: f64| -p.max(LEAST).ln();
        match self {
            Self::One(_) => {
                let report = self.confusion(truth, &found, unseen).report();
                let known = truth.iter().zip(outputs).filter_map(|(truth, output)| output.get(truth.one()));
                let losses: Vec<f64> = known.map(|&p| nats(f64::from(p))).collect();
                let mut list = vec![("accuracy", report.accuracy), ("macro_f1", report.macro_f1)];
                if !losses.is_empty() {
                    list.push(("loss", losses.iter().sum::<f64>() / losses.len() as f64));
                }
                list
            }
            Self::Several(labels) => {
                let sets = self.sets(truth, &found, unseen);
                let losses = truth.iter().zip(outputs).map(|(truth, output)| {
                    let loss = |(label, &p): (usize, &f32)| match truth.several().contains(&label) {
                        true => nats(f64::from(p)),
                        false => nats(1.0 - f64::from(p)),
                    };
                    output.iter().enumerate().map(loss).sum::<f64>() / labels.len() as f64
                });
                vec![
                    ("loss", losses.sum::<f64>() / truth.len() as f64),
                    ("micro_f1", sets.micro_f1),
                    ("macro_f1", sets.macro_f1),
                    ("subset_accuracy", sets.subset_accuracy),
                ]
            }
            Self::Number(_) => {
                let truth: Vec<f64> = truth.iter().map(|answer| answer.number()).collect();
                let found: Vec<f64> = found.iter().map(Answer::number).collect();
                let scores = regression(&truth, &found);
                let mut list = vec![("mse", scores.mse), ("mae", scores.mae)];
                list.extend(scores.r2.map(|r2| ("r2", r2)));
                list.extend(scores.pearson.map(|pearson| ("pearson", pearson)));
                list
            }
        }
    }

    /// Tables and figures that the report shows beside the scores.
    pub(crate) fn contents(
        &self,
        truth: &[&Answer],
        outputs: &[&[f32]],
        unseen: &[String],
    ) -> Result<Vec<Content>, TaskError> {
        if truth.is_empty() {
            return Ok(Vec::new());
        }
        let found: Vec<Answer> = outputs.iter().map(|output| self.decide(output)).collect();
        let names = self.labels().map_or(&[][..], Vocabulary::names);
        let names: Vec<&str> = names.iter().chain(unseen).map(String::as_str).collect();
        let table = |scores: Vec<Score>| score_table("label", names.iter().copied().zip(scores));
        Ok(match self {
            Self::One(_) => {
                let confusion = self.confusion(truth, &found, unseen);
                vec![table(confusion.report().classes), confusion_figure("labels", &confusion, &names)?]
            }
            Self::Several(_) => vec![table(self.sets(truth, &found, unseen).labels)],
            Self::Number(_) => {
                let points = truth.iter().zip(&found).map(|(truth, found)| (truth.number(), found.number())).collect();
                vec![Content::Figure(scatter(points))]
            }
        })
    }

    fn confusion(&self, truth: &[&Answer], found: &[Answer], unseen: &[String]) -> Confusion {
        let ones = |answers: &mut dyn Iterator<Item = &Answer>| answers.map(Answer::one).collect::<Vec<_>>();
        Confusion::from_pairs(
            self.outputs() + unseen.len(),
            &ones(&mut truth.iter().copied()),
            &ones(&mut found.iter()),
        )
    }

    fn sets(&self, truth: &[&Answer], found: &[Answer], unseen: &[String]) -> LabelSetScores {
        let sets =
            |answers: &mut dyn Iterator<Item = &Answer>| answers.map(|a| a.several().to_vec()).collect::<Vec<_>>();
        label_sets(self.outputs() + unseen.len(), &sets(&mut truth.iter().copied()), &sets(&mut found.iter()))
    }
}

fn scatter(points: Vec<(f64, f64)>) -> Figure {
    let plot = Lines::new(Axis::linear("true"), Axis::linear("predicted"));
    Figure::new("Predicted and true numbers").panel("", plot.series(Series::new("", points).style(LineStyle::Markers)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use regard_data::Labelled;

    use super::*;
    use crate::answers::TargetKind;

    #[test]
    fn scores_of_known_outputs() {
        let train = ["a", "b"].map(|label| Labelled::new(format!("about {label}"), label));
        let answers = Answers::learn(TargetKind::Label, &train).unwrap();
        let truth = [Answer::One(0), Answer::One(1), Answer::One(1), Answer::One(0)];
        let outputs: [&[f32]; 4] = [&[0.5, 0.5], &[0.25, 0.75], &[1.0, 0.0], &[1.0, 0.0]];
        let scores: BTreeMap<_, _> =
            answers.scores(&truth.iter().collect::<Vec<_>>(), &outputs, &[]).into_iter().collect();
        // Of equal probabilities the first label wins; a probability of zero has a finite loss.
        assert_eq!(scores["accuracy"], 0.75);
        let loss = -(0.5f64.ln() + 0.75f64.ln() + LEAST.ln()) / 4.0;
        assert!((scores["loss"] - loss).abs() < 1e-9, "{} {loss}", scores["loss"]);
    }
}
