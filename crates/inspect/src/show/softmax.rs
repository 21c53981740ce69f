//! The softmax and its temperature: `a_i = exp(s_i/t) / Σ_j exp(s_j/t)`. A low temperature nearly chooses the largest score, a high
//! one treats all scores alike.

use regard_figures::{Axis, Bars, Figure, FigureError, LineStyle, Lines, Series, fixed, number};
use regard_ops::softmax;
use serde_json::json;

use super::limits::{check_numbers, check_real};
use super::matrix::{Matrix, largest};
use super::{ShowError, Shown};

/// Settings of the example.
#[derive(Debug, Clone)]
pub struct Softmax {
    /// The scores.
    pub scores: Vec<f64>,
    /// The temperature.
    pub temperature: f64,
}

impl Default for Softmax {
    fn default() -> Self {
        Self { scores: vec![2.0, 1.0, 0.5, -1.0], temperature: 1.0 }
    }
}

/// Temperatures of the curves, from sharp to flat: powers of 2^(1/2) from 1/16 to 16.
const STEPS: std::ops::RangeInclusive<i32> = -8..=8;

impl Softmax {
    /// Computes the weights at the temperature and at many others.
    pub fn show(&self) -> Result<Shown, ShowError> {
        check_numbers("scores", &self.scores, 2..=12, -50.0..=50.0)?;
        check_real("temperature", self.temperature, 0.01..=100.0)?;
        let curve: Vec<f64> = STEPS.map(|step| 2f64.powf(f64::from(step) / 2.0)).collect();
        let weights = self.weights(&[self.temperature])?;
        let curves = self.weights(&curve)?;
        let by_hand = self.by_hand();
        let differences: Vec<f64> = weights.row(0).iter().zip(&by_hand).map(|(a, b)| a - b).collect();
        let difference = largest(&differences);
        let json = json!({
            "scores": self.scores, "temperature": self.temperature, "weights": weights.row(0), "by_hand": by_hand,
            "entropy": entropy(weights.row(0)), "largest_difference": difference,
            "temperatures": curve, "curves": (0..self.scores.len()).map(|at| curves.transposed().row(at).to_vec()).collect::<Vec<_>>(),
        });
        Ok(Shown {
            text: self.text(weights.row(0), difference),
            json,
            figure: self.figure(weights.row(0), &curve, &curves)?,
        })
    }

    /// Computes the weights at each temperature, a row each.
    fn weights(&self, temperatures: &[f64]) -> Result<Matrix, ShowError> {
        let scaled =
            Matrix::from_fn(temperatures.len(), self.scores.len(), |row, at| self.scores[at] / temperatures[row]);
        Ok(Matrix::of(softmax(scaled.tensor::<2>())?))
    }

    fn by_hand(&self) -> Vec<f64> {
        let powers: Vec<f64> = self.scores.iter().map(|score| (score / self.temperature).exp()).collect();
        let sum: f64 = powers.iter().sum();
        // Scores far above zero at a low temperature exceed even f64.
        match sum.is_finite() {
            true => powers.into_iter().map(|power| power / sum).collect(),
            false => {
                let most = self.scores.iter().fold(f64::NEG_INFINITY, |most, &score| most.max(score));
                let powers = self.scores.iter().map(|score| ((score - most) / self.temperature).exp());
                let sum: f64 = powers.clone().sum();
                powers.map(|power| power / sum).collect()
            }
        }
    }

    fn text(&self, weights: &[f64], difference: f64) -> String {
        let mut text =
            format!("softmax(s/t) at temperature t = {}\n\n  score    s/t      weight\n", number(self.temperature, 3));
        for (score, weight) in self.scores.iter().zip(weights) {
            text += &format!(
                "{:>7} {:>8} {:>9}\n",
                fixed(*score, 2),
                fixed(score / self.temperature, 3),
                fixed(*weight, 4)
            );
        }
        text + &format!(
            "\nEntropy of the weights: {} of at most ln {} = {}. The operation and the formula differ by at most {}.\n",
            fixed(entropy(weights), 3),
            self.scores.len(),
            fixed((self.scores.len() as f64).ln(), 3),
            number(difference, 2)
        )
    }

    fn figure(&self, weights: &[f64], temperatures: &[f64], curves: &Matrix) -> Result<Figure, FigureError> {
        let names: Vec<String> = self.scores.iter().map(|score| format!("score {}", number(*score, 3))).collect();
        let bars =
            Bars::new(Axis::linear("weight"), names.iter().cloned()).series("weight", weights.iter().copied())?;
        let mut lines = Lines::new(Axis::log("temperature"), Axis::linear("weight"));
        for (at, name) in names.iter().enumerate() {
            let points = temperatures.iter().enumerate().map(|(row, &t)| (t, curves.at(row, at)));
            lines = lines.series(Series::new(name.clone(), points.collect::<Vec<_>>()));
        }
        let now = [(self.temperature, 0.0), (self.temperature, 1.0)];
        lines = lines.series(Series::new("this temperature", now).style(LineStyle::Dashed));
        Ok(Figure::new("The softmax and its temperature")
            .panel(format!("Weights at temperature {}", number(self.temperature, 3)), bars)
            .panel("Weights at every temperature", lines)
            .note("A low temperature nearly chooses the largest score; at a high one all weights become equal."))
    }
}

/// `−Σ a ln a`, in nats.
fn entropy(weights: &[f64]) -> f64 {
    weights.iter().filter(|&&weight| weight > 0.0).map(|weight| -weight * weight.ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_follow_the_formula() {
        let found = Softmax { scores: vec![1.0, 0.0], temperature: 0.5 }.show().unwrap().json;
        let wanted = 1.0 / (1.0 + (-2f64).exp());
        assert!((found["weights"][0].as_f64().unwrap() - wanted).abs() < 1e-6, "{found}");
        assert!(found["largest_difference"].as_f64().unwrap() < 1e-6);
        let flat = Softmax { temperature: 100.0, ..Softmax::default() }.show().unwrap().json;
        assert!((flat["entropy"].as_f64().unwrap() - 4f64.ln()).abs() < 1e-3, "{flat}");
        let sharp = Softmax { scores: vec![50.0, -50.0], temperature: 0.01 }.show().unwrap().json;
        assert_eq!((sharp["weights"][0].as_f64(), sharp["by_hand"][0].as_f64()), (Some(1.0), Some(1.0)));
    }

    #[test]
    fn settings_are_checked() {
        let wrong = |scores: Vec<f64>, temperature| Softmax { scores, temperature }.show().is_err();
        assert!(wrong(vec![1.0], 1.0) && wrong(vec![1.0; 13], 1.0) && wrong(vec![f64::NAN, 1.0], 1.0));
        assert!(wrong(vec![1.0, 2.0], 0.0) && wrong(vec![1.0, 2.0], f64::NAN) && wrong(vec![1e9, 0.0], 1.0));
    }
}
