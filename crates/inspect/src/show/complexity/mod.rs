//! The cost of self-attention, truncated and linear attention, convolution and recurrence, by formula and measured with our
//! operations over growing lengths.
//!
//! Only the mixing of tokens is measured, for one sequence and one head. The projections that all kinds of attention have besides
//! (`8 n d²`) are left out, because they would hide how the mixing grows with the length.

mod formula;
mod measure;

use regard_figures::{Axis, Figure, LineStyle, Lines, Series, Table, number};
use regard_nn::ConfigError;
use serde::Serialize;

use super::limits::check_range;
use super::{Progress, ShowError, Shown};
pub use formula::{Layer, Sizes};
pub use measure::Timed;

/// Settings of the measurement.
#[derive(Debug, Clone, Copy)]
pub struct Complexity {
    /// Length of the shortest sequence.
    pub from: usize,
    /// Upper limit of the lengths `from`, `2 from`, `4 from`, …
    pub to: usize,
    /// Number of features of a token.
    pub d_model: usize,
    /// Number of tokens that a convolution sees.
    pub kernel: usize,
    /// Number of keys that a query of truncated attention sees.
    pub window: usize,
    /// Minimum number of calls at each length; the fastest counts.
    pub repeats: usize,
    /// The passes that are timed.
    pub timed: Timed,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Default for Complexity {
    fn default() -> Self {
        let timed = Timed::Forward;
        Self { from: 64, to: 8192, d_model: 64, kernel: 3, window: 33, repeats: 3, timed, seed: 0 }
    }
}

/// Costs of a layer, by formula and measured.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    complexity: &'static str,
    sequential: &'static str,
    path: &'static str,
    /// Operations of the mixing at each length.
    flops: Vec<f64>,
    projection_flops: Vec<f64>,
    path_length: Vec<usize>,
    milliseconds: Vec<f64>,
    /// Slope of the logarithm of the time over the logarithm of the length.
    slope: f64,
    /// Slope of the logarithm of the number of operations over the logarithm of the length.
    formula_slope: f64,
    #[serde(skip)]
    intercept: f64,
}

/// Largest number of floating-point operations of a run: some minutes on two cores.
const MOST_WORK: f64 = 4e12;
/// Largest number of values in the unfolded input of the convolution: half a gigabyte.
const MOST_NUMBERS: usize = 1 << 27;

impl Complexity {
    /// Computes the table by formula and measures the times. `progress` is called before each measurement.
    pub fn show(&self, progress: &mut dyn FnMut(Progress)) -> Result<Shown, ShowError> {
        self.validate()?;
        let lengths = self.lengths();
        let fit_from = fit_from(lengths.len());
        let mut rows = Vec::new();
        for (index, layer) in Layer::ALL.into_iter().enumerate() {
            let mut times = Vec::with_capacity(lengths.len());
            for (done, &length) in lengths.iter().enumerate() {
                let done = index * lengths.len() + done;
                let what = format!("{}, {length} tokens", layer.name());
                progress(Progress { done, total: Layer::ALL.len() * lengths.len(), what });
                times.push(1e3 * measure::seconds(layer, self, length)?);
            }
            rows.push(self.row(layer, &lengths, times, fit_from));
        }
        let tables = (self.formula_table(&lengths, &rows), time_table(&lengths, &rows));
        let json = serde_json::json!({
            "d_model": self.d_model, "kernel": self.kernel, "window": self.window, "repeats": self.repeats,
            "timed": self.timed.name(), "lengths": lengths, "fit_from": lengths[fit_from], "layers": rows,
        });
        Ok(Shown {
            text: self.text(&lengths, fit_from, &tables),
            json,
            figure: self.figure(&lengths, rows, fit_from, tables),
        })
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let Self { from, to, d_model, kernel, window, repeats, .. } = *self;
        check_range("from", from, 2..=1 << 15)?;
        check_range("to", to, 4..=1 << 16)?;
        check_range("d_model", d_model, 1..=1024)?;
        check_range("kernel", kernel, 3..=255)?;
        check_range("window", window, 3..=4095)?;
        check_range("repeats", repeats, 1..=100)?;
        if to < 2 * from {
            return Err(ConfigError::new("to", to, format!("at least {}, twice `from`", 2 * from)));
        }
        let work = |length| Layer::ALL.iter().map(|layer| layer.mixing_flops(&self.sizes(length))).sum::<f64>();
        let work = self.lengths().into_iter().map(work).sum::<f64>() * repeats as f64 * self.timed.factor();
        if work > MOST_WORK || to * d_model * kernel > MOST_NUMBERS {
            return Err(ConfigError::new(
                "to",
                to,
                "less with these d_model, kernel, window and repeats: the run would take too long",
            ));
        }
        Ok(())
    }

    fn lengths(&self) -> Vec<usize> {
        std::iter::successors(Some(self.from), |n| Some(2 * n)).take_while(|&n| n <= self.to).collect()
    }

    fn sizes(&self, length: usize) -> Sizes {
        Sizes { n: length, d: self.d_model, k: self.kernel, w: self.window }
    }

    fn row(&self, layer: Layer, lengths: &[usize], milliseconds: Vec<f64>, fit_from: usize) -> Row {
        let each = |of: fn(&Layer, &Sizes) -> f64| lengths.iter().map(|&n| of(&layer, &self.sizes(n))).collect();
        let flops: Vec<f64> = each(Layer::mixing_flops);
        let line = |values: &[f64]| fit(&lengths[fit_from..], &values[fit_from..]);
        let (slope, intercept) = line(&milliseconds);
        Row {
            name: layer.name(),
            complexity: layer.complexity(),
            sequential: layer.sequential(),
            path: layer.path(),
            formula_slope: line(&flops).0,
            flops,
            projection_flops: each(Layer::projection_flops),
            path_length: lengths.iter().map(|&n| layer.path_length(&self.sizes(n))).collect(),
            milliseconds,
            slope,
            intercept,
        }
    }

    fn formula_table(&self, lengths: &[usize], rows: &[Row]) -> Table {
        let (first, last) = (lengths[0], lengths[lengths.len() - 1]);
        let header = ["layer", "mixing", "projections", "sequential", "longest path"].map(String::from);
        let numbers = [format!("path, n = {last}"), format!("FLOPs, n = {first}"), format!("FLOPs, n = {last}")];
        let mut table = Table::new(header.into_iter().chain(numbers));
        for row in rows {
            let end = lengths.len() - 1;
            let projections = if row.projection_flops[0] > 0.0 { "O(n d²)" } else { "" };
            let words = [row.name, row.complexity, projections, row.sequential, row.path].map(String::from);
            let numbers = [row.path_length[end].to_string(), number(row.flops[0], 3), number(row.flops[end], 3)];
            table.push(words.into_iter().chain(numbers));
        }
        table
    }

    fn text(&self, lengths: &[usize], fit_from: usize, (formulas, times): &(Table, Table)) -> String {
        format!(
            "By formula: n tokens, d = {} features, k = {} tokens per convolution, w = {} keys per query window.\n\n{}\n\
             Measured: {} of the mixing only (one sequence, one head, no projections), the fastest of at least {} calls,\n\
             in milliseconds; the slope is the exponent of n, fitted to n ≥ {}.\n\n{}",
            self.d_model,
            self.kernel,
            self.window,
            formulas.to_text(),
            self.timed.name(),
            self.repeats,
            lengths[fit_from],
            times.to_text(),
        )
    }

    fn figure(&self, lengths: &[usize], rows: Vec<Row>, fit_from: usize, (formulas, times): (Table, Table)) -> Figure {
        let mut by_formula = Lines::new(Axis::log("tokens n"), Axis::log("FLOPs of a forward pass"));
        let mut measured = Lines::new(Axis::log("tokens n"), Axis::log("milliseconds"));
        for row in &rows {
            let points = |values: &[f64]| lengths.iter().map(|&n| n as f64).zip(values.to_vec()).collect::<Vec<_>>();
            by_formula = by_formula.series(Series::new(row.name, points(&row.flops)).style(LineStyle::MarkedLine));
            let name = format!("{}: n^{:.2}", row.name, row.slope);
            measured = measured.series(Series::new(name, points(&row.milliseconds)).style(LineStyle::Markers));
        }
        for (index, row) in rows.iter().enumerate() {
            let fitted = lengths[fit_from..].iter().map(|&n| {
                let n = n as f64;
                (n, (row.intercept + row.slope * n.ln()).exp())
            });
            measured = measured.series(Series::new("", fitted).style(LineStyle::Dashed).colour(index));
        }
        Figure::new("Cost of a layer as the sequence grows")
            .panel("by formula", by_formula)
            .panel(format!("measured, {}, with fitted exponents", self.timed.name()), measured)
            .panel("by formula", formulas)
            .panel("measured, milliseconds", times)
            .columns(2)
            .note(format!(
                "d = {}, kernel k = {}, window w = {}; one sequence, one head. Only the mixing of tokens is measured: the projections of all kinds of attention (8nd²) are extra and linear in n.",
                self.d_model, self.kernel, self.window
            ))
            .note(format!(
                "Self-attention is quadratic in n, everything else linear; only the RNN has to go step by step. By formula, linear attention and the RNN have the same cost, 4nd². Dashed: fits over n ≥ {}, the upper half of the lengths.",
                lengths[fit_from]
            ))
    }
}

/// Returns a table of the times at up to four lengths; all of them would be too wide.
fn time_table(lengths: &[usize], rows: &[Row]) -> Table {
    let last = lengths.len() - 1;
    let mut chosen: Vec<usize> = (0..4).map(|part| part * last / 3).collect();
    chosen.dedup();
    let header = ["layer".to_string()].into_iter().chain(chosen.iter().map(|&i| format!("n = {}", lengths[i])));
    let mut table = Table::new(header.chain(["slope", "formula"].map(String::from)));
    for row in rows {
        let times = chosen.iter().map(|&i| number(row.milliseconds[i], 3));
        let slopes = [row.slope, row.formula_slope].map(|slope| format!("{slope:.2}"));
        table.push([row.name.to_string()].into_iter().chain(times).chain(slopes));
    }
    table
}

/// Returns the index of the first length of the upper half, which has at least two lengths.
fn fit_from(count: usize) -> usize {
    (count / 2).min(count.saturating_sub(2))
}

/// Returns slope and intercept of the least-squares line through the logarithms.
fn fit(lengths: &[usize], values: &[f64]) -> (f64, f64) {
    let points: Vec<(f64, f64)> = lengths.iter().zip(values).map(|(&n, v)| ((n as f64).ln(), v.ln())).collect();
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |sum, p| (sum.0 + p.0 / count, sum.1 + p.1 / count));
    let across: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let along: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    (across / along, y - across / along * x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_is_fitted_exactly() {
        let lengths = [64, 128, 256, 512];
        let (slope, intercept) = fit(&lengths, &lengths.map(|n| 3.0 * (n as f64).powf(1.7)));
        assert!((slope - 1.7).abs() < 1e-12 && (intercept - 3f64.ln()).abs() < 1e-10);
        assert_eq!([2, 3, 4, 8].map(fit_from), [0, 1, 2, 4]);
    }

    #[test]
    fn every_layer_is_measured_both_ways() {
        for timed in [Timed::Forward, Timed::Both] {
            let tiny =
                Complexity { from: 4, to: 16, d_model: 8, window: 5, repeats: 1, timed, ..Complexity::default() };
            let mut heard = Vec::new();
            let shown = tiny.show(&mut |progress| heard.push(progress.done)).unwrap();
            assert_eq!(heard, (0..3 * Layer::ALL.len()).collect::<Vec<_>>());
            assert_eq!(shown.json["lengths"], serde_json::json!([4, 8, 16]));
            assert_eq!(shown.json["fit_from"], 8);
            for row in shown.json["layers"].as_array().unwrap() {
                let times = row["milliseconds"].as_array().unwrap();
                assert!(times.len() == 3 && times.iter().all(|t| t.as_f64().unwrap() > 0.0), "{row}");
                assert!(row["slope"].as_f64().unwrap().is_finite(), "{row}");
                let expected = if row["name"] == "self-attention" { 2.0 } else { 1.0 };
                assert!((row["formula_slope"].as_f64().unwrap() - expected).abs() < 1e-9, "{row}");
            }
        }
    }

    #[test]
    fn runs_that_would_take_too_long_are_refused() {
        let message = |c: Complexity| c.show(&mut |_| panic!("nothing is measured")).unwrap_err().to_string();
        let complexity = Complexity::default();
        assert!(message(Complexity { to: 100, ..complexity }).starts_with("to = 100: expected at least 128"));
        assert!(message(Complexity { to: 1 << 16, d_model: 1024, ..complexity }).contains("take too long"));
        assert!(message(Complexity { window: 2, ..complexity }).starts_with("window = 2"));
        assert!(message(Complexity { repeats: 0, ..complexity }).starts_with("repeats = 0"));
    }
}
