//! `icl train`: test errors and training curves of the six models.

use regard_figures::{Axis, Figure, LineStyle, Lines, Series};
use serde_json::json;

use super::{Shown, csv, optional};
use crate::error::TheoryError;
use crate::prompt::{Task, check_prompts, check_tests};
use crate::statistics::mean_and_deviation;
use crate::train::{Model, TrainOptions, Trained, train};
use crate::weights::contrast;

/// Settings of `icl train`.
#[derive(Debug, Clone)]
pub struct ShowTrain {
    /// Distribution of the prompts.
    pub task: Task,
    /// Numbers of prompts; every model is trained on each.
    pub p: Vec<u64>,
    /// The models to train.
    pub models: Vec<Model>,
    /// Settings of the training.
    pub options: TrainOptions,
    /// Number of new prompts for the test error.
    pub tests: u64,
    /// Number of runs of each model, each with new prompts and initial weights.
    pub repeats: usize,
    /// Seed of the prompts of the first run.
    pub seed: u64,
}

struct Row {
    model: Model,
    p: u64,
    train_error: f64,
    test_error: f64,
    /// Standard deviation of the test error between runs; `None` for a single run.
    deviation: Option<f64>,
    /// Standard error of the mean test error over the test prompts.
    standard_error: f64,
    contrast: Option<f64>,
    curve: Vec<(usize, f64)>,
}

impl Row {
    /// Returns the standard deviation between runs, or for a single run the standard error over the test prompts.
    fn spread(&self) -> f64 {
        self.deviation.unwrap_or(self.standard_error)
    }
}

impl ShowTrain {
    /// Trains all models. `progress` is called with the current activity, the number of steps done and the total number of steps.
    pub fn show(&self, progress: &mut dyn FnMut(&str, usize, usize)) -> Result<Shown, TheoryError> {
        self.options.validate(&self.task)?;
        check_tests(self.tests)?;
        self.p.iter().try_for_each(|&p| check_prompts(p))?;
        TheoryError::check_range("repeats", 1..=100_000, self.repeats)?;
        let all = self.models.len() * self.p.len() * self.repeats * self.options.steps;
        let (mut done, mut rows) = (0, Vec::new());
        for &model in &self.models {
            for &p in &self.p {
                let mut runs = Vec::new();
                for repeat in 0..self.repeats {
                    let seed = self.seed.wrapping_add(repeat as u64);
                    let options = TrainOptions { seed: self.options.seed.wrapping_add(repeat as u64), ..self.options };
                    let name = model.name();
                    let mut tell = |step: usize, error: f64| {
                        progress(&format!("steps  {name}, P = {p}: train error {error:.4}"), done + step, all);
                    };
                    runs.push(train(model, &self.task, (p, self.tests), seed, &options, &mut tell)?);
                    done += options.steps;
                }
                rows.push(self.row(model, p, runs));
            }
        }
        Ok(Shown { text: self.text(&rows), json: self.json(&rows), csv: self.csv(&rows), figure: self.figure(&rows) })
    }

    fn row(&self, model: Model, p: u64, runs: Vec<Trained>) -> Row {
        let of = |value: &dyn Fn(&Trained) -> f64| mean_and_deviation(&runs.iter().map(value).collect::<Vec<_>>());
        let (test_error, deviation) = of(&|run| run.test_error.0);
        let deviation = (runs.len() > 1).then_some(deviation);
        let standard_error = of(&|run| run.test_error.1).0 / (runs.len() as f64).sqrt();
        let d = self.task.d;
        let contrasts: Vec<f64> =
            runs.iter().filter_map(|run| run.weights.as_deref().map(|weights| contrast(weights, d))).collect();
        let contrast = (!contrasts.is_empty()).then(|| contrasts.iter().sum::<f64>() / contrasts.len() as f64);
        let train_error = of(&|run| run.train_error).0;
        let curve = runs.into_iter().next().map_or(Vec::new(), |run| run.curve);
        Row { model, p, train_error, test_error, deviation, standard_error, contrast, curve }
    }

    fn text(&self, rows: &[Row]) -> String {
        let mut text =
            format!("{:>11} {:>8} {:>12} {:>20} {:>9}\n", "model", "P", "train error", "test error", "contrast");
        for row in rows {
            let error = format!("{:.4} ± {:.4}", row.test_error, row.spread());
            let contrast = row.contrast.map_or("–".to_string(), |contrast| format!("{contrast:.4}"));
            let name = row.model.name();
            text += &format!("{name:>11} {:>8} {:>12.4} {error:>20} {contrast:>9}\n", row.p, row.train_error);
        }
        let spread = if self.repeats > 1 { "standard deviation between runs" } else { "standard error over tests" };
        text + &format!("± {spread}; {} new prompts each\n", self.tests)
    }

    fn json(&self, rows: &[Row]) -> serde_json::Value {
        let runs = rows.iter().map(|row| {
            json!({
                "model": row.model, "p": row.p, "train_error": row.train_error, "test_error": row.test_error,
                "test_error_std": row.deviation, "test_error_standard_error": row.standard_error, "contrast": row.contrast, "curve": row.curve,
            })
        });
        json!({ "task": self.task, "options": self.options, "repeats": self.repeats, "runs": runs.collect::<Vec<_>>() })
    }

    fn csv(&self, rows: &[Row]) -> String {
        csv(
            ["model", "p", "train_error", "test_error", "test_error_std", "test_error_standard_error", "contrast"],
            rows.iter().map(|row| {
                [
                    row.model.name().to_string(),
                    row.p.to_string(),
                    row.train_error.to_string(),
                    row.test_error.to_string(),
                    optional(row.deviation),
                    row.standard_error.to_string(),
                    optional(row.contrast),
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
                    .deviations(of.iter().map(|row| row.spread()))
                    .style(LineStyle::MarkedLine);
                lines = lines.series(series);
            }
            figure.push("test error by number of prompts", lines);
        }
        let mut curves = Lines::new(Axis::linear("step"), Axis::log("train error"));
        for row in rows.iter().filter(|row| Some(&row.p) == self.p.last()) {
            let points = row.curve.iter().map(|(step, error)| (*step as f64, *error));
            curves = curves.series(Series::new(row.model.name(), points));
        }
        figure.push(format!("training, P = {}", self.p.last().map_or(0, |p| *p)), curves);
        figure
    }
}
