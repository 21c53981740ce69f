//! Gaussian window that slides along a text during handwriting synthesis (Graves 2013).
//!
//! ```text
//! (α̂, β̂, κ̂) = W h_t + b        α = exp α̂,  β = exp β̂,  κ_t = κ_{t−1} + exp κ̂,  κ_0 = 0
//! φ(t, u) = Σ_j α_j exp(−β_j (κ_j − u)²)        u = 1 … U
//! w_t = Σ_u φ(t, u) c_u
//! ```
//!
//! Writing is finished when `φ(t, U + 1)` exceeds every `φ(t, u)`. A capture gets the weights `φ`, which do not sum to 1.
//! `α̂`, `β̂` and `κ̂` are clamped at values far above what a text needs ([`MAX_LOG_HEIGHT`] for weights of e²⁰,
//! [`MAX_LOG_SHARPNESS`] for windows about 10⁻⁵ characters wide, [`MAX_LOG_MOVE`] for moves of 22,000 characters), so that
//! neither the exponentials nor their gradients overflow: after 10⁴ such moves, `β (κ − u)²` is 10²⁵.

use burn::module::{Module, Param};
use burn::tensor::{Tensor, TensorData};
pub use regard_kernels::recurrent::lstm::window::{MAX_LOG_HEIGHT, MAX_LOG_MOVE, MAX_LOG_SHARPNESS};
use serde::{Deserialize, Serialize};

use super::check::{Size, check_input};
use crate::config::{check_above_zero, check_positive};
use crate::error::{ConfigError, NnError};
use crate::heads::{AttentionKind, Heads};
use crate::init::Init;
use crate::layers::linear::{Linear, LinearConfig};
use crate::lengths::Lengths;
use crate::pass::Pass;

/// Configuration of a [`GaussianWindow`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowConfig {
    /// Number of features of `h_t`.
    pub d_hidden: usize,
    /// Number of Gaussians.
    pub n_components: usize,
    /// Number of characters that an untrained window moves in a step, set by the bias of `κ̂`. A character takes about 25
    /// pen positions, so 0.04 keeps the window from running off the text; 1 is a bias of zero.
    #[serde(default = "one")]
    pub first_move: f32,
}

fn one() -> f32 {
    1.0
}

impl WindowConfig {
    /// Returns a configuration with biases of zero.
    pub fn new(d_hidden: usize, n_components: usize) -> Self {
        Self { d_hidden, n_components, first_move: one() }
    }

    /// Returns an error if a field has an invalid value.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_positive("d_hidden", self.d_hidden)?;
        check_positive("n_components", self.n_components)?;
        check_above_zero("first_move", self.first_move)
    }

    /// Creates the layer.
    pub fn init(&self, init: &Init) -> Result<GaussianWindow, ConfigError> {
        self.validate()?;
        let Self { d_hidden, n_components, first_move } = *self;
        let mut projection = LinearConfig::new(d_hidden, 3 * n_components).init(&init.enter("projection"))?;
        let still = Tensor::zeros([2 * n_components], init.device());
        let moving = Tensor::full([n_components], first_move.ln(), init.device());
        projection.bias = Some(Param::from_tensor(Tensor::cat(vec![still, moving], 0)));
        Ok(GaussianWindow { projection, n_components, heads: init.heads(AttentionKind::Alignment, 1) })
    }
}

/// Gaussian window layer; see the [module](self) for the formula.
#[derive(Module, Debug)]
pub struct GaussianWindow {
    /// `W` `[d_hidden, 3 · n_components]` and `b`: all of `α̂`, then all of `β̂`, then all of `κ̂`.
    pub projection: Linear,
    n_components: usize,
    #[module(skip)]
    heads: Heads,
}

/// The text that windows slide along.
#[derive(Debug, Clone)]
pub struct WindowText {
    characters: Tensor<3>,
    lengths: Vec<usize>,
    padding: Lengths,
}

impl WindowText {
    /// Prepares texts as one-hot vectors or embeddings of characters. `lengths`, in characters, are `U` by default.
    ///
    /// # Shapes
    /// `characters` `[batch, U, d_char]`, `lengths` `[batch]`.
    pub fn new(characters: Tensor<3>, lengths: Option<Vec<usize>>) -> Result<Self, NnError> {
        check_input("characters", &characters, [Size::Any("batch"), Size::Any("U"), Size::Any("d_char")])?;
        let [batch, width, _] = characters.dims();
        let padding = Lengths::new(lengths.as_deref(), [batch, width], &characters.device())?;
        let lengths = lengths.unwrap_or_else(|| vec![width; batch]);
        Ok(Self { characters: padding.blank(characters), lengths, padding })
    }
}

/// The window at one step.
#[derive(Debug, Clone)]
pub struct WindowStep {
    /// Window `w_t`, `[batch, d_char]`.
    pub window: Tensor<2>,
    /// Position `κ_t`, `[batch, n_components]`, from which the next step starts.
    pub position: Tensor<2>,
    /// Weights `φ(t, u)`, `[batch, U]`, zero at padding.
    pub weights: Tensor<2>,
    /// `α̂ − β (κ − u)²` for `u = 1 … U + 1`, `[batch, U + 1, n_components]`.
    exponents: Tensor<3>,
    lengths: Vec<usize>,
}

impl WindowStep {
    /// Returns for each text whether it is finished: whether `φ` one past the last character exceeds `φ` of every
    /// character. It compares logarithms, because far past the text all weights are zero in `f32`.
    pub fn finished(&self) -> Vec<bool> {
        let [_, places, n_components] = self.exponents.dims();
        let exponents: Vec<f64> = self.exponents.clone().into_data().iter().collect();
        let log_density = |row: &[f64]| {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            largest + row.iter().map(|x| (x - largest).exp()).sum::<f64>().ln()
        };
        let density: Vec<f64> = exponents.chunks_exact(n_components).map(log_density).collect();
        let ends = |(row, &length): (&[f64], &usize)| row[..length].iter().all(|&weight| row[length] > weight);
        density.chunks_exact(places).zip(&self.lengths).map(ends).collect()
    }
}

/// The windows of a whole sequence.
#[derive(Debug, Clone)]
pub struct Window {
    /// Windows `w_t`, `[batch, seq, d_char]`.
    pub windows: Tensor<3>,
    /// Position `κ` after the last step, `[batch, n_components]`.
    pub position: Tensor<2>,
    /// Weights `φ(t, u)`, `[batch, seq, U]`, zero at padding.
    pub weights: Tensor<3>,
}

impl GaussianWindow {
    /// Computes the window of one step. In the paper, the window is an input of the network that computes the next `h`, so
    /// steps are computed one by one. Without a `position` it starts at 0. `row` is the index of the step, for a capture.
    ///
    /// # Shapes
    /// `hidden` `[batch, d_hidden]`, `position` `[batch, n_components]` → window `[batch, d_char]`.
    pub fn step(
        &self,
        hidden: Tensor<2>,
        position: Option<Tensor<2>>,
        text: &WindowText,
        row: usize,
        pass: &Pass,
    ) -> Result<WindowStep, NnError> {
        let (Window { windows, position, weights }, exponents) =
            self.evaluate(hidden.unsqueeze_dim(1), position, text, row, pass)?;
        let (window, weights, exponents) = (windows.squeeze_dim(1), weights.squeeze_dim(1), exponents.squeeze_dim(1));
        Ok(WindowStep { window, position, weights, exponents, lengths: text.lengths.clone() })
    }

    /// Computes all steps at once, if `h` does not depend on the windows. `first_row` is the index of the first step.
    ///
    /// # Shapes
    /// `hidden` `[batch, seq, d_hidden]`, `position` `[batch, n_components]` → windows `[batch, seq, d_char]`.
    pub fn forward(
        &self,
        hidden: Tensor<3>,
        position: Option<Tensor<2>>,
        text: &WindowText,
        first_row: usize,
        pass: &Pass,
    ) -> Result<Window, NnError> {
        Ok(self.evaluate(hidden, position, text, first_row, pass)?.0)
    }

    /// Computes the windows, and `α̂ − β (κ − u)²` without gradients, `[batch, seq, U + 1, n_components]`.
    fn evaluate(
        &self,
        hidden: Tensor<3>,
        position: Option<Tensor<2>>,
        text: &WindowText,
        first_row: usize,
        pass: &Pass,
    ) -> Result<(Window, Tensor<4>), NnError> {
        pass.check_no_temperature("a Gaussian window")?;
        let ([batch, width, _], n_components) = (text.characters.dims(), self.n_components);
        let d_hidden = self.projection.weight.dims()[0];
        check_input("hidden", &hidden, [Size::Is(batch), Size::Any("seq"), Size::Is(d_hidden)])?;
        let seq = hidden.dims()[1];
        let raw = self.projection.forward(hidden)?;
        let part = |index, max| raw.clone().narrow(2, index * n_components, n_components).clamp_max(max);
        let log_height = part(0, MAX_LOG_HEIGHT).unsqueeze_dim::<4>(2);
        let sharpness = part(1, MAX_LOG_SHARPNESS).exp().unsqueeze_dim::<4>(2);
        let mut centres = part(2, MAX_LOG_MOVE).exp().cumsum(1);
        if let Some(position) = position {
            check_input("position", &position, [Size::Is(batch), Size::Is(n_components)])?;
            centres = centres + position.unsqueeze_dim(1);
        }
        let position = centres.clone().narrow(1, seq - 1, 1).squeeze_dim(1);

        // One place more than the text has, to detect its end.
        let places: Vec<f32> = (1..=width + 1).map(|u| u as f32).collect();
        let places = Tensor::<4>::from_data(TensorData::new(places, [1, 1, width + 1, 1]), &raw.device());
        let distance = centres.unsqueeze_dim::<4>(2) - places;
        // `α̂` is added inside the exponential, so that a large `α` times a tiny Gaussian stays finite.
        let exponents = log_height - sharpness * (distance.clone() * distance);
        let density = exponents.clone().narrow(2, 0, width).exp().sum_dim(3).squeeze_dim::<3>(3);
        let weights = text.padding.fill_keys(density, 0.0);
        let lengths = Some(text.lengths.as_slice());
        self.heads.capture_weights(&weights, lengths, first_row, pass)?;
        let windows = weights.clone().matmul(text.characters.clone());
        let windows = self.heads.ablate_single(windows, &text.characters, lengths, pass)?;
        Ok((Window { windows, position, weights }, exponents.detach()))
    }
}
