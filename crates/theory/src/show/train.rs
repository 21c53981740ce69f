//! `icl train`: the six models side by side, and their double descent.

use regard_inspect::{Axis, Figure, LineStyle, Lines, Series};
use serde_json::json;

use super::{Shown, csv};
use crate::error::TheoryError;
use crate::prompt::Task;
use crate::train::{Model, TrainOptions, Trained, train};
use crate::weights::contrast;

/// What is trained.
#[derive(Debug, Clone)]
pub struct ShowTrain {
    /// The prompts.
    pub task: Task,
    /// How many: a model each.
    pub p: Vec<u64>,
    /// The models.
    pub models: Vec<Model>,
    /// How.
    pub options: TrainOptions,
    /// Fresh prompts that the test error is taken over.
    pub tests: u64,
    /// Times that each is trained, on other prompts.
    pub repeats: usize,
    /// Of the first prompts.
    pub seed: u64,
}

struct Row {
    model: Model,
    p: u64,
    train_error: f64,
    test_error: f64,
    deviation: f64,
    contrast: Option<f64>,
    curve: Vec<(usize, f64)>,
}

impl ShowTrain {
    /// Trains them all. `progress` hears what is done, and how far it is from 0 to 1.
    pub fn show(&self, progress: &mut dyn FnMut(&str, f64)) -> Result<Shown, TheoryError> {
        if self.repeats == 0 || self.tests == 0 || self.p.is_empty() || self.models.is_empty() {
            return Err(TheoryError::setting("repeats, tests, p, models", "1 or more of each", 0));
        }
        let all = self.models.len() * self.p.len() * self.repeats;
        let (mut done, mut rows) = (0, Vec::new());
        for &model in &self.models {
            for &p in &self.p {
                let mut runs = Vec::new();
                for repeat in 0..self.repeats {
                    let seed = self.seed.wrapping_add(repeat as u64);
                    let options = TrainOptions { seed: self.options.seed.wrapping_add(repeat as u64), ..self.options };
                    let steps = options.steps as f64;
                    let name = model.name();
                    let mut tell = |step: usize, error: f64| {
                        let share = (done as f64 + step as f64 / steps) / all as f64;
                        progress(&format!("{name}, P = {p}: {error:.4}"), share);
                    };
                    runs.push(train(model, &self.task, (p, self.tests), seed, &options, &mut tell)?);
                    done += 1;
                }
                rows.push(self.row(model, p, runs));
            }
        }
        Ok(Shown { text: self.text(&rows), json: self.json(&rows), csv: self.csv(&rows), figure: self.figure(&rows) })
    }

    fn row(&self, model: Model, p: u64, runs: Vec<Trained>) -> Row {
        let count = runs.len() as f64;
        let mean = |of: &dyn Fn(&Trained) -> f64| runs.iter().map(of).sum::<f64>() / count;
        let test_error = mean(&|run| run.test_error.0);
        let deviation = match runs.len() {
            1 => runs[0].test_error.1,
            _ => (runs.iter().map(|run| (run.test_error.0 - test_error).powi(2)).sum::<f64>() / (count - 1.0)).sqrt(),
        };
        let d = self.task.d;
        let contrasts: Vec<f64> =
            runs.iter().filter_map(|run| run.weights.as_deref().map(|weights| contrast(weights, d))).collect();
        let contrast = (!contrasts.is_empty()).then(|| contrasts.iter().sum::<f64>() / contrasts.len() as f64);
        let train_error = mean(&|run| run.train_error);
        let curve = runs.into_iter().next().map_or(Vec::new(), |run| run.curve);
        Row { model, p, train_error, test_error, deviation, contrast, curve }
    }

    fn text(&self, rows: &[Row]) -> String {
        let mut text =
            format!("{:>11} {:>8} {:>12} {:>20} {:>9}\n", "model", "P", "train error", "test error", "contrast");
        for row in rows {
            let error = format!("{:.4} ± {:.4}", row.test_error, row.deviation);
            let contrast = row.contrast.map_or("–".to_string(), |contrast| format!("{contrast:.4}"));
            let name = row.model.name();
            text += &format!("{name:>11} {:>8} {:>12.4} {error:>20} {contrast:>9}\n", row.p, row.train_error);
        }
        text
    }

    fn json(&self, rows: &[Row]) -> serde_json::Value {
        let runs = rows.iter().map(|row| {
            json!({
                "model": row.model, "p": row.p, "train_error": row.train_error, "test_error": row.test_error,
                "test_error_deviation": row.deviation, "contrast": row.contrast, "curve": row.curve,
            })
        });
        json!({ "task": self.task, "options": self.options, "repeats": self.repeats, "runs": runs.collect::<Vec<_>>() })
    }

    fn csv(&self, rows: &[Row]) -> String {
        csv(
            ["model", "p", "train_error", "test_error", "test_error_deviation"],
            rows.iter().map(|row| {
                [
                    row.model.name().to_string(),
                    row.p.to_string(),
                    row.train_error.to_string(),
                    row.test_error.to_string(),
                    row.deviation.to_string(),
                ]
            }),
        )
    }

    fn figure(&self, rows: &[Row]) -> Figure {
        let peak = self.task.d * self.task.side();
        let mut figure = Figure::new("Training in-context learners").note(format!(
            "D = {}, N = {}, λ = {}, {} steps of Adam; D(D + 1) = {peak}.",
            self.task.d,
            self.task.n,
            self.options.weight_decay / 2.0,
            self.options.steps
        ));
        if self.p.len() > 1 {
            let mut lines = Lines::new(Axis::log("P"), Axis::log("test error"));
            for &model in &self.models {
                let of: Vec<&Row> = rows.iter().filter(|row| row.model == model).collect();
                let series = Series::new(model.name(), of.iter().map(|row| (row.p as f64, row.test_error)))
                    .deviations(of.iter().map(|row| row.deviation))
                    .style(LineStyle::MarkedLine);
                lines = lines.series(series);
            }
            figure.push("test error against prompts", lines);
        }
        let mut curves = Lines::new(Axis::linear("step"), Axis::log("train error"));
        for row in rows.iter().filter(|row| Some(&row.p) == self.p.last()) {
            let points = row.curve.iter().map(|(step, error)| (*step as f64, *error));
            curves = curves.series(Series::new(row.model.name(), points));
        }
        figure.push("training", curves);
        figure
    }
}
