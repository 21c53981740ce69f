//! When attention changes nothing: with `Q = K = V = X`, large and nearly orthogonal tokens give `A ≈ I` and `y_n ≈ x_n`.
//!
//! A token of norm `s√d` has the score `s²√d` with itself. If `n` such tokens are orthogonal, `1 − A_ii` is
//! `(n − 1)/(n − 1 + exp(s²√d))`.

use regard_figures::{Axis, CellNumbers, ColourScale, Figure, LineStyle, Lines, Series, ValueRange, number};
use regard_nn::ConfigError;
use regard_ops::{AttentionOptions, OpError, attention, attention_weights};
use serde::Serialize;
use serde_json::json;

use super::limits::check_range;
use super::matrix::Matrix;
use super::{ShowError, Shown, normals, random};

/// Settings of the measurement.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Number of tokens.
    pub tokens: usize,
    /// Numbers of features, one curve each.
    pub d: Vec<usize>,
    /// Seed of the directions.
    pub seed: u64,
}

impl Default for Identity {
    fn default() -> Self {
        Self { tokens: 12, d: vec![4, 16, 64, 256], seed: 0 }
    }
}

const MOST_TOKENS: usize = 64;
const MOST_FEATURES: usize = 4096;
const MOST_CURVES: usize = 6;
/// Exponents of the feature sizes `s = 2^(step/2)`: half powers of two from 1/16 to 8.
const STEPS: std::ops::RangeInclusive<i32> = -8..=6;

#[derive(Debug, Serialize)]
struct Row {
    d: usize,
    /// Root mean square of the features; the norm of every token is `s√d`.
    s: f64,
    /// Largest `|A − I|`.
    weights: f64,
    /// `1 − A_ii` for orthogonal tokens.
    orthogonal: f64,
    /// `‖Y − X‖/‖X‖`.
    output: f64,
}

impl Identity {
    /// Measures how far attention is from the identity, for tokens of many sizes.
    pub fn show(&self) -> Result<Shown, ShowError> {
        self.validate()?;
        let rows = self.d.iter().map(|&d| self.sweep(d)).collect::<Result<Vec<_>, _>>()?;
        let json = json!({ "tokens": self.tokens, "rows": rows.iter().flatten().collect::<Vec<_>>() });
        Ok(Shown { text: self.text(&rows), json, figure: self.figure(&rows)? })
    }

    fn validate(&self) -> Result<(), ConfigError> {
        check_range("tokens", self.tokens, 2..=MOST_TOKENS)?;
        if !(1..=MOST_CURVES).contains(&self.d.len()) {
            return Err(ConfigError::new("d", format!("{} sizes", self.d.len()), format!("1 to {MOST_CURVES} sizes")));
        }
        self.d.iter().try_for_each(|&d| check_range("d", d, 2..=MOST_FEATURES))
    }

    /// Draws random directions and gives each token the norm `√d`.
    fn directions(&self, d: usize) -> Matrix {
        let mut random = random(self.seed ^ (d as u64) << 20);
        let normal = Matrix::new(self.tokens, d, normals(&mut random, self.tokens * d));
        let square = |row| normal.row(row).iter().map(|v| v * v).sum::<f64>();
        let norms: Vec<f64> = (0..self.tokens).map(|row| square(row).sqrt().max(f64::MIN_POSITIVE)).collect();
        normal.map(|row, _, v| v * (d as f64).sqrt() / norms[row])
    }

    fn sweep(&self, d: usize) -> Result<Vec<Row>, OpError> {
        let directions = self.directions(d);
        let row = |step: i32| {
            let s = 2f64.powf(f64::from(step) / 2.0);
            let x = directions.map(|_, _, v| v * s);
            let (weights, output) = distances(&x)?;
            Ok(Row { d, s, weights, orthogonal: orthogonal(self.tokens, d, s), output })
        };
        STEPS.map(row).collect()
    }

    fn text(&self, rows: &[Vec<Row>]) -> String {
        let mut text = format!(
            "Attention with Q = K = V = X over {} tokens in random directions, all of norm s√d. Columns: largest |A − I|,\n\
             and in brackets ‖Y − X‖/‖X‖.\n\n{:>8}",
            self.tokens, "s"
        );
        for d in &self.d {
            text += &format!("  {:>20}", format!("d = {d}"));
        }
        text += "\n";
        for index in (0..rows[0].len()).step_by(2) {
            text += &format!("{:>8}", number(rows[0][index].s, 4));
            for curve in rows {
                let Row { weights, output, .. } = curve[index];
                text += &format!("  {:>20}", format!("{} ({})", number(weights, 2), number(output, 2)));
            }
            text += "\n";
        }
        let best = rows.iter().flatten().filter(|row| row.s == 1.0).max_by_key(|row| row.d);
        let best =
            best.map(|row| format!("At d = {} and s = {}, A is I within {}.", row.d, row.s, number(row.weights, 2)));
        text + &format!(
            "\nLarge and nearly orthogonal tokens attend only to themselves: attention passes them on unchanged.\n{}\n",
            best.unwrap_or_default()
        )
    }

    fn figure(&self, rows: &[Vec<Row>]) -> Result<Figure, ShowError> {
        let mut figure = Figure::new("When attention changes nothing: Q = K = V = X").columns(3);
        let d = self.d.iter().copied().max().unwrap_or(2);
        // Sizes at which a token's score with itself is small, of order ln n, and large.
        for own in [0.2, 4.0, 40.0] {
            let s = (own / (d as f64).sqrt()).sqrt();
            let x = self.directions(d).map(|_, _, v| v * s);
            let a = weights(&x)?;
            let numbers = if self.tokens <= 12 { CellNumbers::WhereTheyFit } else { CellNumbers::Hidden };
            let map = a.heatmap()?.axes("query", "key").side(380).numbers(numbers);
            let map = map.scale(ColourScale::sequential(ValueRange::Fixed { low: 0.0, high: 1.0 }));
            figure.push(format!("A at d = {d}, s = {}: a token's own score is {own}", number(s, 2)), map);
        }
        figure.push("How far A is from I", curves(rows, "largest |A − I|", |row| row.weights));
        figure.push("How far the output is from the input", curves(rows, "‖Y − X‖/‖X‖", |row| row.output));
        let mut closed =
            Lines::new(Axis::log("s, size of a feature"), Axis::log("largest |A − I|").including(1e-7).including(1.0));
        let visible = |curve: &[Row], y: fn(&Row) -> f64| {
            curve.iter().map(|row| (row.s, y(row))).filter(|point| point.1 > 1e-7).collect::<Vec<_>>()
        };
        for curve in rows {
            let measured = Series::new(format!("d = {}", curve[0].d), visible(curve, |row| row.weights));
            closed = closed.series(measured.style(LineStyle::Markers));
        }
        for (index, curve) in rows.iter().enumerate() {
            let formula = Series::new("", visible(curve, |row| row.orthogonal)).style(LineStyle::Dashed);
            closed = closed.series(formula.colour(index));
        }
        figure.push("Dashed: exactly orthogonal tokens, (n−1)/(n−1+exp(s²√d))", closed);
        Ok(figure
            .note("Every token has norm s√d, so its score with itself is s²√d, and with another token about s² times a standard normal number. As s or d grows, tokens attend only to themselves: A becomes I, and the output is the input.")
            .note("Random tokens are only nearly orthogonal, less so at small d, and need a larger s than the dashed curves. Points below 10⁻⁷, the rounding error of the weights, are left out."))
    }
}

fn curves(rows: &[Vec<Row>], name: &str, y: fn(&Row) -> f64) -> Lines {
    let mut lines = Lines::new(Axis::log("s, size of a feature"), Axis::log(name).including(1e-7).including(1.0));
    for curve in rows {
        let points = curve.iter().map(|row| (row.s, y(row))).filter(|point| point.1 > 1e-7);
        lines = lines.series(Series::new(format!("d = {}", curve[0].d), points).style(LineStyle::MarkedLine));
    }
    lines
}

/// Returns `1 − A_ii` for `n` orthogonal tokens of norm `s√d`.
fn orthogonal(n: usize, d: usize, s: f64) -> f64 {
    let others = n as f64 - 1.0;
    others / (others + (s * s * (d as f64).sqrt()).exp())
}

fn weights(x: &Matrix) -> Result<Matrix, OpError> {
    let weights = attention_weights(x.tensor(), x.tensor(), &AttentionOptions::default(), (0, 0), 0..x.rows)?;
    Ok(Matrix::of(weights))
}

/// Returns `max |A − I|` and `‖Y − X‖/‖X‖`.
fn distances(x: &Matrix) -> Result<(f64, f64), OpError> {
    let a = weights(x)?;
    let identity = a.map(|i, j, _| f64::from(u8::from(i == j)));
    let y = Matrix::of(attention(x.tensor(), x.tensor(), x.tensor(), &AttentionOptions::default())?);
    // Rounded to f32 like the input of the operation, so that unchanged tokens differ by exactly zero.
    let x = Matrix::of(x.tensor::<4>());
    Ok((a.largest_difference(&identity), y.minus(&x).norm() / x.norm()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orthogonal_tokens_follow_the_closed_form() {
        for (n, d, s) in [(2, 2, 0.5), (4, 4, 1.0), (8, 16, 0.7), (16, 16, 1.3), (3, 64, 0.9)] {
            let size = s * (d as f64).sqrt();
            let x = Matrix::from_fn(n, d, |i, j| if i == j { size } else { 0.0 });
            let (a, y) = distances(&x).unwrap();
            let rest = orthogonal(n, d, s);
            assert!((a - rest).abs() < 1e-6, "{n} {d} {s}: {a}, expected {rest}");
            // y_i = (1 − r) x_i + r/(n−1) Σ_{j≠i} x_j, where all tokens are orthogonal and have the same norm.
            let want = rest * (1.0 + 1.0 / (n as f64 - 1.0)).sqrt();
            assert!((y - want).abs() < 1e-6, "{n} {d} {s}: {y}, expected {want}");
        }
    }

    #[test]
    fn the_sweep_agrees_with_plain_f64() {
        let identity = Identity { tokens: 7, d: vec![12], seed: 4 };
        let x = identity.directions(12);
        for row in identity.sweep(12).unwrap() {
            let at = |i: usize, j: usize| f64::from((x.at(i, j) * row.s) as f32);
            let (mut largest, mut change, mut size) = (0.0f64, 0.0, 0.0);
            for i in 0..7 {
                let score = |j| (0..12).map(|c| at(i, c) * at(j, c)).sum::<f64>() / 12f64.sqrt();
                let top = (0..7).map(score).fold(f64::MIN, f64::max);
                let sum: f64 = (0..7).map(|j| (score(j) - top).exp()).sum();
                let a: Vec<f64> = (0..7).map(|j| (score(j) - top).exp() / sum).collect();
                largest = (0..7).map(|j| (a[j] - f64::from(u8::from(i == j))).abs()).fold(largest, f64::max);
                for c in 0..12 {
                    let y: f64 = (0..7).map(|j| a[j] * at(j, c)).sum();
                    change += (y - at(i, c)).powi(2);
                    size += at(i, c).powi(2);
                }
            }
            // Scores of 200 have rounding errors of 1e-5, which the exponential turns into relative errors.
            assert!((row.weights - largest).abs() < 1e-6 + 3e-5 * largest, "{row:?}: {largest}");
            let change = (change / size).sqrt();
            assert!((row.output - change).abs() < 1e-6 + 3e-5 * change, "{row:?}: {change}");
        }
    }

    #[test]
    fn small_tokens_average_and_large_ones_stay() {
        let shown = Identity::default().show().unwrap();
        let rows = shown.json["rows"].as_array().unwrap();
        let curve: Vec<_> = rows.iter().filter(|row| row["d"] == 256).collect();
        let weights = |row: &serde_json::Value| row["weights"].as_f64().unwrap();
        assert!((weights(curve[0]) - 11.0 / 12.0).abs() < 0.02, "{}", curve[0]);
        assert!(weights(curve[curve.len() - 1]) < 1e-6 && curve[curve.len() - 1]["output"].as_f64().unwrap() < 1e-6);
    }

    #[test]
    fn options_are_checked() {
        let error = |identity: Identity| identity.show().unwrap_err().to_string();
        assert_eq!(
            error(Identity { tokens: 1, ..Identity::default() }),
            "tokens = 1: expected a whole number from 2 to 64"
        );
        assert_eq!(
            error(Identity { d: vec![4, 1], ..Identity::default() }),
            "d = 1: expected a whole number from 2 to 4096"
        );
        assert!(error(Identity { d: vec![], ..Identity::default() }).starts_with("d = 0 sizes"));
        assert!(error(Identity { d: vec![4; 7], ..Identity::default() }).starts_with("d = 7 sizes"));
    }
}
