//! The scores of a model on recordings, with tables for the report.

use regard_figures::{Content, Table, number};

use super::Speech;
use super::examples::{Example, Goal, Part, Said};
use crate::answers::Answer;
use crate::error::TaskError;
use crate::metrics::edits::{character_error_rate, edits};
use crate::metrics::text::exact_match;
use crate::task::{Better, Evaluation};

/// Number of wrong answers that the report shows.
const WRONG_SHOWN: usize = 24;

impl Said {
    /// The label; none for a text.
    pub(super) fn label(&self) -> Option<&Answer> {
        match self {
            Self::Label(label) => Some(label),
            Self::Text { .. } => None,
        }
    }

    /// The outputs of a text's characters; none for a label.
    pub(super) fn ids(&self) -> &[u32] {
        match self {
            Self::Label(_) => &[],
            Self::Text { ids, .. } => ids,
        }
    }
}

impl Speech {
    /// Scores the outputs for recordings.
    pub(super) fn scores(
        &self,
        part: &Part,
        examples: &[&Example],
        outputs: &[Vec<f32>],
    ) -> Result<Evaluation, TaskError> {
        let mut evaluation = match &self.goal {
            Goal::Label(answers) => {
                let truth: Vec<&Answer> = examples.iter().filter_map(|example| example.said.label()).collect();
                let outputs: Vec<&[f32]> = outputs.iter().map(Vec::as_slice).collect();
                let (main, better) = answers.main();
                let mut evaluation = Evaluation::new(answers.scores(&truth, &outputs, &part.unseen), main, better);
                evaluation.contents = answers.contents(&truth, &outputs, &part.unseen)?;
                evaluation
            }
            Goal::Text(_) => {
                let found: Vec<String> = outputs.iter().map(|output| self.text(&self.spelt(output).labels)).collect();
                let truth: Vec<String> = examples.iter().map(|one| self.expected(&one.said, &part.unseen)).collect();
                let references: Vec<Vec<String>> = truth.iter().map(|text| vec![text.clone()]).collect();
                let scores =
                    [("cer", character_error_rate(&found, &truth)), ("exact_match", exact_match(&found, &references))];
                Evaluation::new(scores, "cer", Better::Lower)
            }
        };
        evaluation.contents.extend(self.wrong(part, examples, outputs));
        evaluation.examples = examples.len();
        Ok(evaluation)
    }

    /// The answer of a recording as a prediction would write it.
    pub(super) fn expected(&self, said: &Said, unseen: &[String]) -> String {
        match (&self.goal, said) {
            (Goal::Label(answers), Said::Label(label)) => answers.text(label, unseen),
            (_, Said::Text { text, .. }) => text.clone(),
            (Goal::Text(_), Said::Label(_)) => String::new(),
        }
    }

    /// Lists recordings with wrong answers, those first whose answers are most wrong.
    fn wrong(&self, part: &Part, examples: &[&Example], outputs: &[Vec<f32>]) -> Option<Content> {
        let mut wrong: Vec<(f64, [String; 3])> = Vec::new();
        for (example, output) in examples.iter().zip(outputs) {
            let (truth, found) = (self.expected(&example.said, &part.unseen), self.prediction(output).output);
            if truth == found {
                continue;
            }
            let (how, shown) = match &self.goal {
                Goal::Label(answers) => {
                    let certainty = f64::from(output[answers.decide(output).one()]);
                    (certainty, format!("{found} ({})", number(certainty, 2)))
                }
                Goal::Text(_) => (edits(&found, &truth) as f64, found),
            };
            wrong.push((how, [example.name.clone(), truth, shown]));
        }
        if wrong.is_empty() {
            return None;
        }
        wrong.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut table = Table::new(["recording", "said", "heard"]);
        wrong.into_iter().take(WRONG_SHOWN).for_each(|(_, row)| table.push(row));
        Some(Content::Table(table))
    }
}
