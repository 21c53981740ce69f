//! Forecasts: the target of `data.target=next`, its scores and its pictures.
//!
//! The network predicts how much each of the next vectors differs from the last one it sees, so that an output of zero is the
//! forecast "same as last".

use regard_data::Scaler;
use regard_figures::{Axis, Content, Figure, Lines, Series, Table, number};
use serde::{Deserialize, Serialize};

use super::augment::Mix;
use super::scaling::Scaling;

/// What is forecast, and the scale of the changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Forecast {
    /// Indices of the features that are forecast.
    pub features: Vec<usize>,
    /// Number of vectors that are forecast.
    pub horizon: usize,
    /// Scale of the changes from the last vector, `[horizon · features]`.
    pub changes: Scaler,
}

/// A forecast beside the truth, both as `[horizon, features]` in the units of the data.
pub(super) struct Forecasted {
    pub last: Vec<f32>,
    pub truth: Vec<f32>,
    pub found: Vec<f32>,
}

impl Forecast {
    /// Returns the chosen features of a vector.
    pub fn chosen(&self, vector: &[f32]) -> Vec<f32> {
        self.features.iter().map(|&feature| vector[feature]).collect()
    }

    /// Returns the changes from the last vector of a window to those after it, as the network predicts them. The linear map of
    /// the window applies to them, too: it mixes all features, also those that are not forecast.
    pub fn wanted(&self, series: &[f32], to: usize, scaling: &Scaling, mix: Option<&Mix>) -> Vec<f32> {
        let width = scaling.width();
        let mut wanted = match mix {
            None => changes(series, width, to, &self.features, self.horizon),
            Some(mix) => {
                let all: Vec<usize> = (0..width).collect();
                let mut all = changes(series, width, to, &all, self.horizon);
                scaling.mix_differences(mix, &mut all);
                all.chunks_exact(width).flat_map(|vector| self.chosen(vector)).collect()
            }
        };
        self.changes.apply(&mut wanted);
        wanted
    }

    /// Returns the forecast of an output of the network, `[horizon, features]`, from the last vector that it saw.
    pub fn restored(&self, mut output: Vec<f32>, last: &[f32]) -> Vec<f32> {
        self.changes.restore(&mut output);
        let last = self.chosen(last);
        output.iter().enumerate().map(|(at, change)| last[at % last.len()] + change).collect()
    }
}

/// Returns the differences of the vectors from index `to` on to the vector before them, `[horizon, features]`.
pub(super) fn changes(series: &[f32], width: usize, to: usize, features: &[usize], horizon: usize) -> Vec<f32> {
    let last = &series[(to - 1) * width..to * width];
    let next = series[to * width..(to + horizon) * width].chunks_exact(width);
    next.flat_map(|vector| features.iter().map(|&feature| vector[feature] - last[feature])).collect()
}

/// Sums of errors in one cell, such as a feature.
#[derive(Default, Clone, Copy)]
struct Errors {
    count: f64,
    absolute: f64,
    square: f64,
    /// Absolute error of "same as last".
    last: f64,
}

impl Errors {
    fn add(&mut self, truth: f32, found: f32, last: f32) {
        let error = f64::from(found) - f64::from(truth);
        self.count += 1.0;
        self.absolute += error.abs();
        self.square += error * error;
        self.last += (f64::from(last) - f64::from(truth)).abs();
    }

    fn mae(&self) -> f64 {
        self.absolute / self.count.max(1.0)
    }

    fn mae_last(&self) -> f64 {
        self.last / self.count.max(1.0)
    }
}

impl Forecast {
    fn errors(&self, all: &[Forecasted], cell: impl Fn(usize) -> usize, cells: usize) -> Vec<Errors> {
        let mut errors = vec![Errors::default(); cells];
        for Forecasted { last, truth, found } in all {
            for (at, (&truth, &found)) in truth.iter().zip(found).enumerate() {
                errors[cell(at)].add(truth, found, last[at % last.len()]);
            }
        }
        errors
    }

    /// Returns the mean absolute error, that of "same as last", and the root of the mean squared error.
    pub fn scores(&self, all: &[Forecasted]) -> Vec<(&'static str, f64)> {
        let sums = self.errors(all, |_| 0, 1)[0];
        let rmse = (sums.square / sums.count.max(1.0)).sqrt();
        vec![("mae", sums.mae()), ("mae_last", sums.mae_last()), ("rmse", rmse)]
    }

    /// Returns a table of the errors of each feature, the errors of each step, and some forecasts as curves.
    pub fn contents(&self, all: &[Forecasted]) -> Vec<Content> {
        let width = self.features.len();
        let mut table = Table::new(["feature", "mean absolute error", "same as last", "ratio"]);
        for (at, errors) in self.errors(all, |at| at % width, width).iter().enumerate() {
            let ratio = errors.mae() / errors.mae_last();
            let ratio = if ratio.is_finite() { number(ratio, 3) } else { "–".to_string() };
            let name = (self.features[at] + 1).to_string();
            table.push([name, number(errors.mae(), 4), number(errors.mae_last(), 4), ratio]);
        }
        let mut contents = vec![Content::Table(table)];
        if self.horizon > 1 {
            let errors = self.errors(all, |at| at / width, self.horizon);
            let curve =
                |mae: fn(&Errors) -> f64| errors.iter().enumerate().map(move |(at, e)| (at as f64 + 1.0, mae(e)));
            let lines = Lines::new(Axis::linear("steps ahead"), Axis::linear("mean absolute error"))
                .series(Series::new("forecast", curve(Errors::mae)))
                .series(Series::new("same as last", curve(Errors::mae_last)));
            contents.push(Content::Figure(Figure::new("Errors by distance").panel("", lines)));
        }
        contents
    }

    /// Draws a window and its forecast, with the truth if it is known.
    pub fn figure(&self, window: &[f32], width: usize, found: &[f32], truth: Option<&[f32]>) -> Figure {
        let steps = window.len() / width;
        let mut figure = Figure::new("Window and forecast");
        for (at, &feature) in self.features.iter().enumerate().take(MOST_DRAWN) {
            let past =
                window.chunks_exact(width).enumerate().map(|(step, v)| (step as f64 + 1.0, f64::from(v[feature])));
            let last = (steps as f64, f64::from(window[(steps - 1) * width + feature]));
            let next = |values: &[f32]| -> Vec<(f64, f64)> {
                let values = values.chunks_exact(self.features.len()).enumerate();
                [last].into_iter().chain(values.map(|(n, v)| ((steps + n + 1) as f64, f64::from(v[at])))).collect()
            };
            let mut lines = Lines::new(Axis::linear("step"), Axis::linear("value"))
                .series(Series::new("window", past))
                .series(Series::new("forecast", next(found)));
            if let Some(truth) = truth {
                lines = lines.series(Series::new("truth", next(truth)));
            }
            figure.push(format!("feature {}", feature + 1), lines);
        }
        figure
    }
}

/// Largest number of features that a picture shows.
pub(super) const MOST_DRAWN: usize = 8;
