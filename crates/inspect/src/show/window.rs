//! The Gaussian window of handwriting synthesis (Graves 2013): `φ(t, u) = α exp(−β (κ_t − u)²)` slides along a text, since
//! `κ_t = κ_{t−1} + v` can only grow.

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use regard_figures::{Axis, ColourScale, Figure, FigureError, Lines, Series, ValueRange, fixed, number};
use regard_nn::layers::attention::gaussian_window::{GaussianWindow, WindowConfig, WindowText};
use regard_nn::{Init, Pass};
use serde_json::json;

use super::limits::{check_range, check_real};
use super::matrix::Matrix;
use super::{ShowError, Shown};

/// Settings of the window.
#[derive(Debug, Clone)]
pub struct Window {
    /// The text that the window reads.
    pub text: String,
    /// Number of steps.
    pub steps: usize,
    /// Height `α`.
    pub height: f64,
    /// Sharpness `β`.
    pub sharpness: f64,
    /// Number of characters that the window moves in a step.
    pub speed: f64,
}

impl Default for Window {
    fn default() -> Self {
        Self { text: "attention".to_string(), steps: 48, height: 1.0, sharpness: 1.0, speed: 0.25 }
    }
}

impl Window {
    /// Computes the window of every step with the layer itself.
    pub fn show(&self) -> Result<Shown, ShowError> {
        let count = self.text.chars().count();
        check_range("characters of text", count, 1..=40)?;
        check_range("steps", self.steps, 1..=400)?;
        check_real("height", self.height, 0.01..=100.0)?;
        check_real("sharpness", self.sharpness, 0.01..=100.0)?;
        check_real("speed", self.speed, 0.001..=10.0)?;
        let weights = self.weights(count)?;
        let by_hand = Matrix::from_fn(self.steps, count, |step, at| {
            let distance = self.speed * (step + 1) as f64 - (at + 1) as f64;
            self.height * (-self.sharpness * distance * distance).exp()
        });
        let difference = weights.largest_difference(&by_hand);
        let json = json!({
            "text": self.text, "steps": self.steps, "height": self.height, "sharpness": self.sharpness,
            "speed": self.speed, "weights": weights.json(), "largest_difference": difference,
        });
        Ok(Shown { text: self.written(&weights, difference), json, figure: self.figure(&weights)? })
    }

    /// Runs a layer whose biases are the settings, so that its input does not matter.
    fn weights(&self, count: usize) -> Result<Matrix, ShowError> {
        let device = Device::flex();
        let init = Init::new(0, &device).enter("window");
        let mut layer: GaussianWindow = WindowConfig::new(1, 1).init(&init)?;
        let logs = [self.height, self.sharpness, self.speed].map(|value| value.ln() as f32);
        layer.projection.bias =
            Some(Param::from_tensor(Tensor::from_data(TensorData::new(logs.to_vec(), [3]), &device)));
        let text = WindowText::new(Tensor::ones([1, count, 1], &device), None)?;
        let hidden = Tensor::zeros([1, self.steps, 1], &device);
        Ok(Matrix::of(layer.forward(hidden, None, &text, 0, &Pass::inference())?.weights))
    }

    fn written(&self, weights: &Matrix, difference: f64) -> String {
        let mut text = format!(
            "φ(t, u) = α exp(−β (κ_t − u)²) with α = {}, β = {}, κ_t = {} t\n\n  step      κ  reads  weight\n",
            number(self.height, 3),
            number(self.sharpness, 3),
            number(self.speed, 3)
        );
        let characters: Vec<char> = self.text.chars().collect();
        for step in (0..self.steps).step_by(self.steps.div_ceil(16)) {
            let row = weights.row(step);
            let best = (0..row.len()).fold(0, |best, at| if row[at] > row[best] { at } else { best });
            let centre = self.speed * (step + 1) as f64;
            text += &format!(
                "{:>6} {:>6} {:>6} {:>7}\n",
                step + 1,
                fixed(centre, 2),
                characters[best],
                fixed(row[best], 3)
            );
        }
        text + &format!("\nThe layer and the formula differ by at most {}.\n", number(difference, 2))
    }

    fn figure(&self, weights: &Matrix) -> Result<Figure, FigureError> {
        let map = weights.heatmap()?.scale(ColourScale::sequential(ValueRange::Data)).axes("step", "character");
        let map = map.column_labels(self.text.chars().map(|character| character.to_string()));
        let mut lines = Lines::new(Axis::linear("character"), Axis::linear("weight"));
        for step in [0, self.steps / 3, 2 * self.steps / 3, self.steps - 1] {
            let points = weights.row(step).iter().enumerate().map(|(at, &weight)| ((at + 1) as f64, weight));
            lines = lines.series(Series::new(format!("step {}", step + 1), points.collect::<Vec<_>>()));
        }
        Ok(Figure::new("A Gaussian window slides along a text")
            .panel("weights: one row per step", map)
            .panel("the window at four steps", lines)
            .note("The window moves forwards only. The weights of a step need not add up to 1."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layer_follows_the_formula() {
        let found = Window::default().show().unwrap().json;
        assert!(found["largest_difference"].as_f64().unwrap() < 1e-4, "{found}");
        let narrow = Window { sharpness: 50.0, speed: 1.0, steps: 9, ..Window::default() }.show().unwrap().json;
        for step in 0..9 {
            assert!((narrow["weights"][step][step].as_f64().unwrap() - 1.0).abs() < 1e-4, "{narrow}");
        }
    }

    #[test]
    fn settings_are_checked() {
        assert!(Window { text: String::new(), ..Window::default() }.show().is_err());
        assert!(Window { text: "x".repeat(41), ..Window::default() }.show().is_err());
        assert!(Window { steps: 0, ..Window::default() }.show().is_err());
        assert!(Window { sharpness: f64::INFINITY, ..Window::default() }.show().is_err());
    }
}
