//! Hard attention: instead of a weighted mean, one value is drawn with the weights as probabilities. The Gumbel-softmax relaxes the
//! choice: `softmax((log α + g)/τ)` with Gumbel noise `g` is nearly one-hot for a small `τ`.

use burn::tensor::{Device, Tensor, TensorData};
use regard_figures::{Axis, Bars, Figure, FigureError, Lines, Series, fixed, number};
use regard_nn::layers::attention::context::{ContextConfig, Estimator, Selection};
use regard_nn::layers::attention::score::{ScoreConfig, ScoreKind};
use regard_nn::{Init, Pass};
use regard_ops::softmax;
use serde_json::json;

use super::limits::{check_numbers, check_range, check_real};
use super::matrix::Matrix;
use super::{ShowError, Shown};

/// Settings of the example.
#[derive(Debug, Clone)]
pub struct Hard {
    /// Scores of the keys.
    pub scores: Vec<f64>,
    /// Number of choices that are drawn.
    pub draws: usize,
    /// Temperature `τ` of the Gumbel-softmax.
    pub temperature: f64,
    /// Seed of the choices.
    pub seed: u64,
}

impl Default for Hard {
    fn default() -> Self {
        Self { scores: vec![2.0, 1.0, 0.5, -1.0], draws: 1_000, temperature: 0.5, seed: 0 }
    }
}

impl Hard {
    /// Draws choices with the layer itself and counts them.
    pub fn show(&self) -> Result<Shown, ShowError> {
        check_numbers("scores", &self.scores, 2..=12, -20.0..=20.0)?;
        check_range("draws", self.draws, 1..=100_000)?;
        check_real("temperature", self.temperature, 0.05..=10.0)?;
        let scores = Matrix::new(1, self.scores.len(), self.scores.clone());
        let weights = Matrix::of(softmax(scores.tensor::<2>())?);
        let drawn = self.shares(Estimator::ScoreFunction { samples: 1 })?;
        let gumbel = self.shares(Estimator::Gumbel { temperature: self.temperature as f32 })?;
        let json = json!({
            "scores": self.scores, "draws": self.draws, "temperature": self.temperature,
            "weights": weights.row(0), "score_function": drawn, "gumbel": gumbel,
        });
        let mut text = format!("{} choices of one key\n\n  score  weight   drawn  by Gumbel noise\n", self.draws);
        for (at, score) in self.scores.iter().enumerate() {
            let [weight, drawn, gumbel] = [weights.at(0, at), drawn[at], gumbel[at]].map(|share| fixed(share, 3));
            text += &format!("{:>7} {weight:>7} {drawn:>7} {gumbel:>16}\n", fixed(*score, 2));
        }
        text += "\nBoth ways choose a key with the probability that soft attention gives it as its weight.\n";
        Ok(Shown { text, json, figure: self.figure(weights.row(0), &drawn, &gumbel)? })
    }

    /// Returns the share of choices of each key. Each query is one choice.
    fn shares(&self, estimator: Estimator) -> Result<Vec<f64>, ShowError> {
        let device = Device::flex();
        let config = ContextConfig {
            score: ScoreConfig { kind: ScoreKind::Dot, d_query: 1, d_key: 1 },
            selection: Selection::Hard { estimator },
        };
        let layer = config.init(&Init::new(self.seed, &device).enter("context"))?;
        let count = self.scores.len();
        let keys = Matrix::new(count, 1, self.scores.clone()).tensor::<3>();
        let sources = layer.prepare(keys.clone(), keys, None)?;
        let queries = Tensor::from_data(TensorData::new(vec![1.0f32; self.draws], [1, self.draws, 1]), &device);
        let found = layer.forward(queries, &sources, 0, &Pass::training(self.seed))?;
        let mut shares = vec![0.0; count];
        for key in found.choice.iter().flat_map(|choice| choice.keys.to_data().iter::<i64>().collect::<Vec<_>>()) {
            shares[key as usize] += 1.0 / self.draws as f64;
        }
        Ok(shares)
    }

    fn figure(&self, weights: &[f64], drawn: &[f64], gumbel: &[f64]) -> Result<Figure, FigureError> {
        let names = self.scores.iter().map(|score| format!("score {}", number(*score, 3)));
        let bars = Bars::new(Axis::linear("share"), names)
            .series("weight", weights.iter().copied())?
            .series("drawn", drawn.iter().copied())?
            .series("by Gumbel noise", gumbel.iter().copied())?;
        // The largest share of the relaxed choice without noise, at many temperatures.
        let relaxed = (-8..=8).map(|step| {
            let t = 2f64.powf(f64::from(step) / 2.0);
            let powers: Vec<f64> = weights.iter().map(|weight| (weight.max(1e-300).ln() / t).exp()).collect();
            let sum: f64 = powers.iter().sum();
            (t, powers.iter().fold(0.0, |most, &power| f64::max(most, power / sum)))
        });
        let lines = Lines::new(Axis::log("temperature τ"), Axis::linear("largest weight"))
            .series(Series::new("softmax(log α / τ)", relaxed.collect::<Vec<_>>()));
        Ok(Figure::new("Hard attention draws one key")
            .panel(format!("shares of {} choices", self.draws), bars)
            .panel("how nearly the relaxed choice is one key", lines)
            .note("A choice has no derivative: the score function or the relaxation by Gumbel noise replaces it in training."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_chosen_by_their_weights() {
        let found = Hard { draws: 20_000, seed: 1, ..Hard::default() }.show().unwrap().json;
        for at in 0..4 {
            let weight = found["weights"][at].as_f64().unwrap();
            for way in ["score_function", "gumbel"] {
                let share = found[way][at].as_f64().unwrap();
                // Four standard deviations of a share of 20,000 choices.
                assert!((share - weight).abs() < 4.0 * (weight / 20_000.0f64).sqrt(), "{way} {at}: {found}");
            }
        }
        assert!(Hard { draws: 0, ..Hard::default() }.show().is_err());
        assert!(Hard { temperature: f64::NAN, ..Hard::default() }.show().is_err());
    }
}
