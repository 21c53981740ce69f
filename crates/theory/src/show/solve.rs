//! `icl solve`: the ground state of one set of prompts, beside the matrix found by training.

use regard_figures::{Axis, ColourScale, Figure, Heatmap, Lines, Series, ValueRange};
use serde_json::json;

use super::{Shown, csv};
use crate::error::TheoryError;
use crate::fields::{Fields, Origin, test_error};
use crate::prompt::{Task, check_tests};
use crate::solver::{Method, Options, Solution};
use crate::train::{Model, TrainOptions, Trained, train_on_fields};
use crate::weights::{contrast, rows};

/// Settings of `icl solve`.
#[derive(Debug, Clone, Copy)]
pub struct Solve {
    /// Distribution of the prompts.
    pub task: Task,
    /// Number of prompts.
    pub p: u64,
    /// Origin of fields and couplings.
    pub origin: Origin,
    /// Regularisation `λ`.
    pub lambda: f64,
    /// The solver.
    pub method: Method,
    /// Settings of the solver.
    pub options: Options,
    /// Number of new prompts for the test error.
    pub tests: u64,
    /// Settings for also training merged linear attention on the same prompts, if wanted.
    pub training: Option<TrainOptions>,
    /// Seed of the prompts.
    pub seed: u64,
}

/// Two means over the iterations: `(iteration, W_11, W_21)`.
type Path = Vec<(usize, f64, f64)>;

impl Solve {
    /// Solves, trains if asked to, and computes the test errors. `progress` is called with the current activity.
    pub fn show(&self, progress: &mut dyn FnMut(&str)) -> Result<Shown, TheoryError> {
        self.options.validate()?;
        check_tests(self.tests)?;
        let training = self.training.map(|options| TrainOptions { weight_decay: 2.0 * self.lambda, ..options });
        if let Some(training) = training {
            training.validate(&self.task)?;
            if self.origin != Origin::Prompts {
                return Err(TheoryError::setting(
                    "trained",
                    "--fields prompts, because training needs prompts",
                    "other fields",
                ));
            }
        }
        let Self { task, p, lambda, .. } = self;
        let mut hear = |done: u64| progress(&format!("prompt {done} of {p}"));
        let fields = Fields::new(task, self.origin, *p, *lambda, self.seed, &mut hear)?;
        progress("solving");
        let mut path = Path::new();
        let d = self.task.d;
        let mut hear = |iteration: usize, means: &[f64]| path.push((iteration, means[0], means[d]));
        let solution = self.method.solver(self.options).solve(&fields, &mut hear)?;
        let trained = training.and_then(|options| {
            progress("training");
            train_on_fields(
                Model::Merged,
                &self.task,
                &fields,
                self.tests,
                self.seed,
                &options,
                &|| false,
                &mut |_, _| {},
            )
        });
        progress("scoring");
        let test = test_error(&self.task, &solution.means, self.tests, self.seed);
        // Fitted fields belong to no prompts, so they have no training error.
        let train_error = (self.origin != Origin::Fitted).then(|| fields.train_error(&solution.means));
        Ok(Shown {
            text: self.text(&solution, test, train_error, trained.as_ref()),
            json: self.json(&solution, test, train_error, &path, trained.as_ref()),
            csv: self.csv(&solution),
            figure: self.figure(&solution, &path, trained.as_ref())?,
        })
    }

    fn text(
        &self,
        solution: &Solution,
        test: (f64, f64),
        train_error: Option<f64>,
        trained: Option<&Trained>,
    ) -> String {
        let Self { task, p, lambda, method, .. } = self;
        let Solution { iterations, residual, converged, .. } = solution;
        let state = if *converged { "converged" } else { "DID NOT CONVERGE" };
        let mut text = format!(
            "D = {}, N = {}, P = {p}, λ = {lambda}, c = {}; {} spins\n\
             {method}: {state} after {iterations} iterations, residual {residual:.1e}\n\
             test error   {:.4} ± {:.4} over {} new prompts\n\
             train error  {}\n\
             contrast     {:.4} with the identity\n",
            task.d,
            task.n,
            task.c,
            solution.means.len(),
            test.0,
            test.1,
            self.tests,
            train_error.map_or("–".to_string(), |error| format!("{error:.4}")),
            contrast(&solution.means, task.d)
        );
        if let Some(Trained { train_error, test_error, weights, .. }) = trained {
            let (steps, weights) =
                (self.training.map_or(0, |options| options.steps), weights.as_deref().unwrap_or(&[]));
            text += &format!(
                "Adam, {steps} steps on the same prompts: test error {:.4} ± {:.4}, train error {train_error:.4}, contrast {:.4}\n",
                test_error.0,
                test_error.1,
                contrast(weights, task.d)
            );
        }
        text
    }

    fn json(
        &self,
        solution: &Solution,
        test: (f64, f64),
        train_error: Option<f64>,
        path: &Path,
        trained: Option<&Trained>,
    ) -> serde_json::Value {
        let d = self.task.d;
        let mut json = json!({
            "task": self.task,
            "p": self.p,
            "fields": self.origin,
            "lambda": self.lambda,
            "solver": self.method,
            "options": self.options,
            "seed": self.seed,
            "tests": self.tests,
            "test_error": test.0,
            "test_error_standard_error": test.1,
            "train_error": train_error,
            "contrast": contrast(&solution.means, d),
            "converged": solution.converged,
            "iterations": solution.iterations,
            "residual": solution.residual,
            "ground_state": rows(&solution.means, d),
            "variances": rows(&solution.variances, d),
            "path": path,
        });
        if let Some(Trained { train_error, test_error, weights, .. }) = trained {
            let weights = weights.as_deref().unwrap_or(&[]);
            json["trained"] = json!({
                "test_error": test_error.0,
                "test_error_standard_error": test_error.1,
                "train_error": train_error,
                "contrast": contrast(weights, d),
                "weights": rows(weights, d),
            });
        }
        json
    }

    fn csv(&self, solution: &Solution) -> String {
        let d = self.task.d;
        let spins = solution.means.iter().zip(&solution.variances).enumerate();
        csv(
            ["row", "column", "mean", "variance"],
            spins.map(|(i, (mean, variance))| {
                [(i / d + 1).to_string(), (i % d + 1).to_string(), mean.to_string(), variance.to_string()]
            }),
        )
    }

    fn figure(&self, solution: &Solution, path: &Path, trained: Option<&Trained>) -> Result<Figure, TheoryError> {
        let (d, side) = (self.task.d, self.task.side());
        let all = |weights: &[f64]| -> Vec<f32> { rows(weights, d).into_iter().flatten().map(|w| w as f32).collect() };
        let weights = trained.and_then(|trained| trained.weights.as_deref());
        let most =
            [Some(&solution.means[..]), weights].into_iter().flatten().flatten().fold(0.0, |m: f64, w| m.max(w.abs()));
        let scale = ColourScale::diverging(ValueRange::Fixed { low: -most as f32, high: most as f32 });
        let map = |weights: &[f64]| -> Result<Heatmap, TheoryError> {
            let labels = || (1..=side).map(|place| place.to_string());
            let map = Heatmap::new(side, side, all(weights))?.row_labels(labels()).column_labels(labels());
            Ok(map.axes("m", "n").scale(scale))
        };
        let mut figure = Figure::new("The attention matrix W as the ground state of a spin glass")
            .note(format!(
                "D = {d}, N = {}, P = {}, λ = {}: in-context learning needs W near a multiple of the identity.",
                self.task.n, self.p, self.lambda
            ))
            .columns(2)
            .panel(format!("{} solver", self.method), map(&solution.means)?);
        if let Some(weights) = weights {
            figure.push("trained by Adam", map(weights)?);
        }
        if path.len() > 1 {
            let line = |name: &str, of: fn(&(usize, f64, f64)) -> f64| {
                Series::new(name, path.iter().map(move |point| (point.0 as f64, of(point))))
            };
            let lines = Lines::new(Axis::linear("iteration"), Axis::linear("mean").including(0.0))
                .series(line("W₁₁", |point| point.1))
                .series(line("W₂₁", |point| point.2));
            figure.push("Convergence", lines);
        }
        Ok(figure)
    }
}
