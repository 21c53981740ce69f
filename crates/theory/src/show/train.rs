//! `icl train`: test errors and training curves of the six models.

use std::path::Path;

use regard_figures::{Axis, Figure, LineStyle, Lines, Series};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Shown, csv, optional};
use crate::error::TheoryError;
use crate::journal::Journal;
use crate::prompt::{Task, check_prompts, check_tests};
use crate::statistics::mean_and_deviation;
use crate::train::{Model, TrainOptions, train};
use crate::weights::contrast;

/// Numbers of examples at which `icl train --published` compares the models.
pub const PUBLISHED_N: [usize; 5] = [10, 20, 50, 100, 200];

/// Settings of `icl train`.
#[derive(Debug, Clone)]
pub struct ShowTrain {
    /// Distribution of the prompts; its `n` is replaced by those of the list.
    pub task: Task,
    /// Numbers of examples; every model is trained on each.
    pub n: Vec<usize>,
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

/// Everything that a run depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Settings {
    model: Model,
    task: Task,
    p: u64,
    tests: u64,
    seed: u64,
    options: TrainOptions,
}

/// One training.
#[derive(Clone, Serialize, Deserialize)]
struct Run {
    train_error: f64,
    /// Mean test error and its standard error over the test prompts.
    test_error: (f64, f64),
    contrast: Option<f64>,
    curve: Vec<(usize, f64)>,
}

struct Row {
    model: Model,
    n: usize,
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
    fn new(&Settings { model, task: Task { n, .. }, p, .. }: &Settings, runs: Vec<Run>) -> Self {
        let of = |value: &dyn Fn(&Run) -> f64| mean_and_deviation(&runs.iter().map(value).collect::<Vec<_>>());
        let (test_error, deviation) = of(&|run| run.test_error.0);
        let deviation = (runs.len() > 1).then_some(deviation);
        let standard_error = of(&|run| run.test_error.1).0 / (runs.len() as f64).sqrt();
        let contrasts: Vec<f64> = runs.iter().filter_map(|run| run.contrast).collect();
        let contrast = (!contrasts.is_empty()).then(|| contrasts.iter().sum::<f64>() / contrasts.len() as f64);
        let train_error = of(&|run| run.train_error).0;
        let curve = runs.into_iter().next().map_or(Vec::new(), |run| run.curve);
        Self { model, n, p, train_error, test_error, deviation, standard_error, contrast, curve }
    }

    /// Returns the standard deviation between runs, or for a single run the standard error over the test prompts.
    fn spread(&self) -> f64 {
        self.deviation.unwrap_or(self.standard_error)
    }
}

/// The progress of `icl train`.
pub enum Training<'a> {
    /// Number of runs that the journal has already, and the number of all runs.
    Kept(usize, usize),
    /// The run under way, the number of steps done and that of all steps.
    Step(&'a str, usize, usize),
}

impl ShowTrain {
    /// Trains all models and returns their errors, or `None` if `stop` returned true. Runs are kept in the `journal`, if there is one;
    /// those that it has already are not repeated.
    pub fn show(
        &self,
        journal: Option<&Path>,
        stop: &dyn Fn() -> bool,
        progress: &mut dyn FnMut(Training<'_>),
    ) -> Result<Option<Shown>, TheoryError> {
        for &n in &self.n {
            self.options.validate(&Task { n, ..self.task })?;
        }
        check_tests(self.tests)?;
        self.p.iter().try_for_each(|&p| check_prompts(p))?;
        TheoryError::check_range("repeats", 1..=100_000, self.repeats)?;
        let (mut journal, known) = match journal.map(Journal::open::<Settings, Run>).transpose()? {
            Some((journal, runs)) => (Some(journal), runs),
            None => (None, Vec::new()),
        };
        let points: Vec<Vec<Settings>> = self.points();
        let runs: usize = points.iter().map(Vec::len).sum();
        let is_known = |wanted: &&Settings| known.iter().any(|(settings, _)| settings == *wanted);
        let kept = points.iter().flatten().filter(is_known).count();
        progress(Training::Kept(kept, runs));
        let (mut done, mut rows) = (0, Vec::new());
        for point in points {
            let mut finished = Vec::new();
            for settings in &point {
                if let Some((_, run)) = known.iter().find(|(known, _)| known == settings) {
                    finished.push(run.clone());
                    continue;
                }
                let Settings { model, task, p, tests, seed, options } = settings;
                let what =
                    |error: f64| format!("steps  {}, N = {}, P = {p}: train error {error:.4}", model.name(), task.n);
                let all = (runs - kept) * options.steps;
                let mut tell = |step: usize, error: f64| progress(Training::Step(&what(error), done + step, all));
                let Some(trained) = train(*model, task, (*p, *tests), *seed, options, stop, &mut tell)? else {
                    return Ok(None);
                };
                done += options.steps;
                let contrast = trained.weights.map(|weights| contrast(&weights, task.d));
                let run = Run {
                    train_error: trained.train_error,
                    test_error: trained.test_error,
                    contrast,
                    curve: trained.curve,
                };
                if let Some(journal) = &mut journal {
                    journal.write(settings, &run)?;
                }
                finished.push(run);
            }
            rows.push(Row::new(&point[0], finished));
        }
        Ok(Some(Shown {
            text: self.text(&rows),
            json: self.json(&rows),
            csv: self.csv(&rows),
            figure: self.figure(&rows),
        }))
    }

    /// Returns the runs of every point: of every model, number of examples and number of prompts.
    fn points(&self) -> Vec<Vec<Settings>> {
        let mut points = Vec::new();
        for &model in &self.models {
            for &n in &self.n {
                for &p in &self.p {
                    let runs = (0..self.repeats as u64).map(|repeat| Settings {
                        model,
                        task: Task { n, ..self.task },
                        p,
                        tests: self.tests,
                        seed: self.seed.wrapping_add(repeat),
                        options: TrainOptions { seed: self.options.seed.wrapping_add(repeat), ..self.options },
                    });
                    points.push(runs.collect());
                }
            }
        }
        points
    }

    fn text(&self, rows: &[Row]) -> String {
        let mut text = format!(
            "{:>11} {:>6} {:>8} {:>12} {:>20} {:>9}\n",
            "model", "N", "P", "train error", "test error", "contrast"
        );
        for row in rows {
            let error = format!("{:.4} ± {:.4}", row.test_error, row.spread());
            let contrast = row.contrast.map_or("–".to_string(), |contrast| format!("{contrast:.4}"));
            let Row { model, n, p, train_error, .. } = row;
            let name = model.name();
            text += &format!("{name:>11} {n:>6} {p:>8} {train_error:>12.4} {error:>20} {contrast:>9}\n");
        }
        let spread = if self.repeats > 1 { "standard deviation between runs" } else { "standard error over tests" };
        text + &format!("± {spread}; {} new prompts each\n", self.tests)
    }

    fn json(&self, rows: &[Row]) -> serde_json::Value {
        let runs = rows.iter().map(|row| {
            json!({
                "model": row.model, "n": row.n, "p": row.p, "train_error": row.train_error, "test_error": row.test_error,
                "test_error_std": row.deviation, "test_error_standard_error": row.standard_error, "contrast": row.contrast, "curve": row.curve,
            })
        });
        let mut task = json!(self.task);
        // The numbers of examples are in the list and in the runs.
        task.as_object_mut().expect("a task is an object").remove("n");
        json!({ "task": task, "n": self.n, "p": self.p, "options": self.options, "repeats": self.repeats, "runs": runs.collect::<Vec<_>>() })
    }

    fn csv(&self, rows: &[Row]) -> String {
        csv(
            ["model", "n", "p", "train_error", "test_error", "test_error_std", "test_error_standard_error", "contrast"],
            rows.iter().map(|row| {
                [
                    row.model.name().to_string(),
                    row.n.to_string(),
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
        let lengths = self.n.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let mut figure = Figure::new("Training in-context learners").note(format!(
            "D = {}, N = {lengths}, λ = {}, {} steps of Adam; D(D + 1) = {peak}.",
            self.task.d,
            self.options.weight_decay / 2.0,
            self.options.steps
        ));
        let (n, p) = (self.n.last().map_or(0, |n| *n), self.p.last().map_or(0, |p| *p));
        if self.n.len() > 1 {
            let lines = self.errors(Axis::log("N"), rows.iter().filter(|row| row.p == p), |row| row.n as f64);
            figure.push(format!("test error by length of the prompts, P = {p}"), lines);
        }
        if self.p.len() > 1 {
            let lines = self.errors(Axis::log("P"), rows.iter().filter(|row| row.n == n), |row| row.p as f64);
            figure.push(format!("test error by number of prompts, N = {n}"), lines);
        }
        let mut curves = Lines::new(Axis::linear("step"), Axis::log("train error"));
        for row in rows.iter().filter(|row| row.n == n && row.p == p) {
            let points = row.curve.iter().map(|(step, error)| (*step as f64, *error));
            curves = curves.series(Series::new(row.model.name(), points));
        }
        figure.push(format!("training, N = {n}, P = {p}"), curves);
        figure
    }

    /// Draws the test error of every model in `rows` over `x`.
    fn errors<'a>(&self, axis: Axis, rows: impl Iterator<Item = &'a Row> + Clone, x: fn(&Row) -> f64) -> Lines {
        let mut lines = Lines::new(axis, Axis::log("test error"));
        for &model in &self.models {
            let of = || rows.clone().filter(move |row| row.model == model);
            let series = Series::new(model.name(), of().map(|row| (x(row), row.test_error)))
                .deviations(of().map(Row::spread))
                .style(LineStyle::MarkedLine);
            lines = lines.series(series);
        }
        lines
    }
}
