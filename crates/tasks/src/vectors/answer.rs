//! Answers of the network in words and in JSON.

use std::collections::BTreeMap;

use regard_nn::models::vectors::AnswerPer;
use serde_json::{Value, json};

use super::VectorTask;
use super::examples::{Example, Goal, Part};
use super::forecast::{Forecast, Forecasted};
use crate::answers::{Answer, Answers};
use crate::input::{Given, InputKind};
use crate::task::Prediction;

impl VectorTask {
    /// Returns the last vector of a window.
    pub(super) fn last<'a>(&self, window: &'a [f32]) -> &'a [f32] {
        &window[window.len() - self.width()..]
    }

    /// Forecasts from windows, beside the truth that follows each.
    pub(super) fn forecasted(
        &self,
        forecast: &Forecast,
        part: &Part,
        example: &Example,
        output: Vec<f32>,
    ) -> Forecasted {
        let (width, series) = (self.width(), &part.series[example.series]);
        let last = self.last(part.window(example, width));
        let next = series[example.to * width..(example.to + forecast.horizon) * width].chunks_exact(width);
        Forecasted {
            last: forecast.chosen(last),
            truth: next.flat_map(|vector| forecast.chosen(vector)).collect(),
            found: forecast.restored(output, last),
        }
    }

    /// Puts an answer into words and into the fields of a prediction.
    pub(super) fn prediction(&self, window: &[f32], output: &[f32]) -> Prediction {
        match &self.goal {
            Goal::Given(answers, AnswerPer::Example) => {
                Prediction::new(answers.text(&answers.decide(output), &[]), answers.document(output))
            }
            Goal::Given(answers, AnswerPer::Vector) => {
                let found: Vec<Answer> =
                    output.chunks_exact(answers.outputs()).map(|output| answers.decide(output)).collect();
                let texts: Vec<String> = found.iter().map(|answer| answers.text(answer, &[])).collect();
                let (key, value) = match answers {
                    Answers::Number(_) => ("values", found.iter().map(Answer::number).collect::<Vec<_>>().into()),
                    Answers::One(_) | Answers::Several(_) => ("labels", Value::from(texts.clone())),
                };
                Prediction::new(texts.join(" "), BTreeMap::from([(key.to_string(), value)]))
            }
            Goal::Next(forecast) => {
                let found = forecast.restored(output.to_vec(), self.last(window));
                Prediction::new(
                    written(&found, forecast.features.len()),
                    BTreeMap::from([("values".to_string(), nested(&found, forecast.features.len()))]),
                )
            }
        }
    }

    /// Returns the expected answer in the words of a prediction.
    pub(super) fn expected(&self, part: &Part, example: &Example) -> String {
        match &self.goal {
            Goal::Given(answers, _) => {
                let texts: Vec<String> =
                    example.answers.iter().map(|answer| answers.text(answer, &part.unseen)).collect();
                texts.join(" ")
            }
            Goal::Next(forecast) => {
                let found = vec![0.0; self.goal.outputs()];
                written(&self.forecasted(forecast, part, example, found).truth, forecast.features.len())
            }
        }
    }
}

/// Formats rows of numbers, `1 2; 3 4`.
pub(super) fn written(numbers: &[f32], width: usize) -> String {
    let rows = numbers
        .chunks_exact(width.max(1))
        .map(|row| row.iter().map(|&x| regard_figures::number(f64::from(x), 4)).collect::<Vec<_>>().join(" "));
    rows.collect::<Vec<_>>().join("; ")
}

/// Returns rows of numbers as lists, or a list of numbers if a row has only one.
fn nested(numbers: &[f32], width: usize) -> Value {
    match width {
        1 => json!(numbers),
        _ => numbers.chunks_exact(width.max(1)).map(|row| json!(row)).collect(),
    }
}

/// Returns vectors as the input of a prediction, `{"vectors": [[…], …]}`.
pub(super) fn given(vectors: &[f32], width: usize) -> Given {
    // The shortest number that reads back as the same f32; a plain conversion to f64 would show 0.1 as 0.10000000149.
    let short = |x: &f32| x.to_string().parse().unwrap_or(f64::from(*x));
    let rows = vectors.chunks_exact(width.max(1)).map(|row| row.iter().map(short).collect::<Vec<f64>>());
    let rows: Value = rows.map(Value::from).collect();
    Given::Json(json!({ InputKind::Vectors.key(): rows }))
}
