//! Why scores are divided by `√d`: for standard normal vectors `Var(q·k) = d`, and the softmax of such large scores nearly
//! chooses one key, so that almost no gradient is left.

use burn::tensor::{Device, Tensor, TensorData};
use regard_figures::{Axis, Figure, LineStyle, Lines, Series};
use regard_nn::ConfigError;
use regard_ops::softmax;
use serde::Serialize;

use super::limits::check_range;
use super::matrix::Matrix;
use super::{ShowError, Shown, normals, random};

/// Settings of the measurement.
#[derive(Debug, Clone, Copy)]
pub struct Scaling {
    /// Largest `d`; all powers of two up to it are measured.
    pub largest: usize,
    /// Number of keys of each softmax.
    pub keys: usize,
    /// Number of queries to average over.
    pub samples: usize,
    /// Seed of the random vectors.
    pub seed: u64,
}

impl Default for Scaling {
    fn default() -> Self {
        Self { largest: 1024, keys: 64, samples: 200, seed: 0 }
    }
}

/// Largest number of multiplications of a run: some ten seconds on two cores.
const MOST_WORK: f64 = 2e10;
/// Number of queries that share their keys: few, so that the scores are nearly independent.
const QUERIES: usize = 25;
/// Number of keys drawn at a time, which bounds the memory.
const KEYS: usize = 64;

#[derive(Debug, Serialize)]
struct Row {
    d: usize,
    /// Variance of `q·k`.
    variance: f64,
    /// Variance of `q·k/√d`.
    scaled_variance: f64,
    /// Mean entropy of the softmax of `q·k`, in nats.
    entropy: f64,
    scaled_entropy: f64,
}

impl Scaling {
    /// Measures variances and entropies with and without the division.
    pub fn show(&self) -> Result<Shown, ShowError> {
        self.validate()?;
        let rows = self.sizes().map(|d| self.measure(d)).collect::<Result<Vec<_>, _>>()?;
        Ok(Shown {
            text: self.text(&rows),
            json: serde_json::json!({ "keys": self.keys, "rows": rows }),
            figure: self.figure(&rows),
        })
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let Self { largest, keys, samples, .. } = *self;
        check_range("largest", largest, 2..=1 << 16)?;
        check_range("keys", keys, 2..=1 << 12)?;
        check_range("samples", samples, 2..=1 << 14)?;
        let work = self.sizes().sum::<usize>() as f64 * samples as f64 * keys as f64;
        if work > MOST_WORK {
            let allowed = "less with these keys and samples, or fewer of those: the run would take too long";
            return Err(ConfigError::new("largest", largest, allowed));
        }
        Ok(())
    }

    fn sizes(&self) -> impl Iterator<Item = usize> {
        let largest = self.largest;
        std::iter::successors(Some(2usize), |d| Some(2 * d)).take_while(move |&d| d <= largest)
    }

    /// Returns `q·k`, one row per query. Groups of queries share keys, since drawing random numbers takes most of the time.
    fn scores(&self, d: usize) -> Vec<f32> {
        let mut random = random(self.seed ^ (d as u64) << 20);
        let mut draw = |count: usize| Matrix::new(count, d, normals(&mut random, count * d)).tensor::<2>();
        let mut scores = vec![0.0; self.samples * self.keys];
        for rows in scores.chunks_mut(QUERIES * self.keys) {
            let queries = draw(rows.len() / self.keys);
            for first in (0..self.keys).step_by(KEYS) {
                let keys = draw(KEYS.min(self.keys - first));
                let products = Matrix::of(queries.clone().matmul(keys.transpose()));
                for query in 0..products.rows {
                    for key in 0..products.columns {
                        rows[query * self.keys + first + key] = products.at(query, key) as f32;
                    }
                }
            }
        }
        scores
    }

    fn measure(&self, d: usize) -> Result<Row, ShowError> {
        let (scores, device) = (self.scores(d), Device::flex());
        let of = |factor: f32| -> Result<(f64, f64), ShowError> {
            let scaled: Vec<f32> = scores.iter().map(|s| s * factor).collect();
            let variance = scaled.iter().map(|&s| f64::from(s).powi(2)).sum::<f64>() / scaled.len() as f64;
            let scaled = Tensor::<2>::from_data(TensorData::new(scaled, [self.samples, self.keys]), &device);
            let weights = softmax(scaled)?.into_data();
            let entropy: f64 = weights.iter::<f64>().filter(|&p| p > 0.0).map(|p| -p * p.ln()).sum();
            Ok((variance, entropy / self.samples as f64))
        };
        let (variance, entropy) = of(1.0)?;
        let (scaled_variance, scaled_entropy) = of(1.0 / (d as f32).sqrt())?;
        Ok(Row { d, variance, scaled_variance, entropy, scaled_entropy })
    }

    fn text(&self, rows: &[Row]) -> String {
        let mut text = format!(
            "Scores of standard normal vectors, {} queries, {} keys each. A uniform softmax has the entropy ln {} = {:.3}.\n\n\
             {:>6} {:>12} {:>14} {:>12} {:>14}\n",
            self.samples,
            self.keys,
            self.keys,
            (self.keys as f64).ln(),
            "d",
            "Var(q·k)",
            "Var(q·k/√d)",
            "entropy",
            "entropy, /√d"
        );
        for row in rows {
            text += &format!(
                "{:>6} {:>12.2} {:>14.3} {:>12.3} {:>14.3}\n",
                row.d, row.variance, row.scaled_variance, row.entropy, row.scaled_entropy
            );
        }
        text
    }

    fn figure(&self, rows: &[Row]) -> Figure {
        let points = |y: fn(&Row) -> f64| rows.iter().map(move |row| (row.d as f64, y(row))).collect::<Vec<_>>();
        let size = || Axis::log("d");
        let variances = Lines::new(size(), Axis::log("variance"))
            .series(Series::new("q·k", points(|row| row.variance)).style(LineStyle::MarkedLine))
            .series(Series::new("q·k/√d", points(|row| row.scaled_variance)).style(LineStyle::MarkedLine))
            .series(Series::new("d", points(|row| row.d as f64)).style(LineStyle::Dashed));
        let uniform = (self.keys as f64).ln();
        let entropies = Lines::new(size(), Axis::linear("nats"))
            .series(Series::new("softmax(q·k)", points(|row| row.entropy)).style(LineStyle::MarkedLine))
            .series(Series::new("softmax(q·k/√d)", points(|row| row.scaled_entropy)).style(LineStyle::MarkedLine))
            .series(Series::new("uniform", rows.iter().map(|row| (row.d as f64, uniform))).style(LineStyle::Dashed));
        Figure::new("Why scores are divided by √d")
            .panel("Variance of the scores", variances)
            .panel(format!("Entropy of the softmax over {} keys", self.keys), entropies)
            .note("q and k are standard normal vectors: the variance of q·k is d, and without the division the softmax nearly chooses one key.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variance_is_d_and_one() {
        let shown = Scaling { largest: 256, ..Scaling::default() }.show().unwrap();
        for row in shown.json["rows"].as_array().unwrap() {
            let d = row["d"].as_f64().unwrap();
            // 12,800 scores share 200 queries and 512 keys: the relative error is some per cent.
            assert!((row["variance"].as_f64().unwrap() / d - 1.0).abs() < 0.3, "{row}");
            assert!((row["scaled_variance"].as_f64().unwrap() - 1.0).abs() < 0.3, "{row}");
        }
        let last = &shown.json["rows"][7];
        assert!(last["entropy"].as_f64().unwrap() < 0.5 && last["scaled_entropy"].as_f64().unwrap() > 3.0, "{last}");
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        let error = Scaling { keys: 1, ..Scaling::default() }.show().unwrap_err().to_string();
        assert_eq!(error, "keys = 1: expected a whole number from 2 to 4096");
        let error = Scaling { largest: 1 << 16, keys: 1 << 12, ..Scaling::default() }.show().unwrap_err().to_string();
        assert!(error.starts_with("largest = 65536: expected less with these keys"), "{error}");
    }

    #[test]
    fn every_score_belongs_to_its_query_and_key() {
        // More queries than share keys and more keys than are drawn at a time, neither a multiple.
        let scaling = Scaling { largest: 4, keys: 70, samples: 30, seed: 1 };
        let mut random = random(1 ^ 4 << 20);
        let scores = scaling.scores(4);
        for group in [0..25, 25..30] {
            let queries = normals(&mut random, group.len() * 4);
            let keys = normals(&mut random, 70 * 4);
            for query in group.clone() {
                for key in 0..70 {
                    let q = &queries[(query - group.start) * 4..][..4];
                    let want: f32 = q.iter().zip(&keys[key * 4..]).map(|(q, k)| q * k).sum();
                    let got = scores[query * 70 + key];
                    assert!((got - want).abs() < 1e-5, "{query} {key}: {got}, expected {want}");
                }
            }
        }
    }
}
