//! Handwriting (Graves 2013): layers of LSTM with skip connections predict the next movement of a pen. The prediction network
//! sees the pen alone; the synthesis network also sees a text, through a Gaussian window that slides along it.
//!
//! ```text
//! h¹_t = LSTM([x_t; w_{t−1}])         w_t = window(h¹_t)         hⁿ_t = LSTM([x_t; w_t; hⁿ⁻¹_t])
//! p(x_{t+1}) = density(V [h¹_t; …; hᴺ_t] + c)
//! ```
//! A point `x` is a movement `(Δx, Δy)` and 1 at the end of a stroke. The density is a
//! [`StrokeMixture`].

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use regard_ops::{LstmWeights, WindowLstmOutput, WindowLstmWeights, window_lstm};
use serde::{Deserialize, Serialize};

use crate::config::{check_dropout, check_layers, check_positive, check_product};
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::attention::gaussian_window::{GaussianWindow, WindowConfig, WindowStep, WindowText};
use crate::layers::density::{DensityConfig, DensityHead, Reduction, StrokeMixture, negative_log_likelihood};
use crate::layers::dropout::Dropout;
use crate::layers::recurrent::{Cell, Recurrent, RecurrentConfig, RecurrentState};
use crate::pass::Pass;

/// Number of features of a point.
const POINT: usize = StrokeMixture::DIMENSIONS;

/// Configuration of a [`Handwriting`] network.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HandwritingConfig {
    /// Window over the text of the synthesis network; `None` for the prediction network.
    pub window: Option<TextWindow>,
    /// Number of LSTM layers.
    pub n_layers: usize,
    /// Features of the state of each layer.
    pub d_hidden: usize,
    /// Number of Gaussians of the density of the next movement.
    pub components: usize,
    /// Dropout of the states that go to the next layer and to the output.
    pub dropout: f32,
}

/// The window of a synthesis network.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextWindow {
    /// Number of distinct characters.
    pub characters: usize,
    /// Number of Gaussians.
    pub components: usize,
    /// Number of characters that an untrained window moves in a step.
    pub first_move: f32,
}

impl Default for HandwritingConfig {
    fn default() -> Self {
        Self { window: None, n_layers: 3, d_hidden: 400, components: 20, dropout: 0.0 }
    }
}

impl HandwritingConfig {
    /// Returns an error if the configuration is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        check_layers("n_layers", self.n_layers)?;
        check_positive("d_hidden", self.d_hidden)?;
        let d_in = self.d_in(1);
        check_product("d_hidden", &[self.d_hidden, 4, self.d_hidden.saturating_add(d_in)])?;
        check_product("n_layers", &[self.n_layers, self.d_hidden, self.density().outputs()])?;
        check_dropout("dropout", self.dropout)?;
        self.density().validate()?;
        match self.window {
            Some(window) => self.window_config(window).validate().map_err(|error| error.within("window")),
            None => Ok(()),
        }
    }

    /// Returns the density of the next movement.
    pub fn density(&self) -> StrokeMixture {
        StrokeMixture { components: self.components }
    }

    /// Returns the number of input features of a layer, counted from 0.
    pub fn d_in(&self, layer: usize) -> usize {
        let below = if layer == 0 { 0 } else { self.d_hidden };
        POINT.saturating_add(self.window.map_or(0, |window| window.characters)).saturating_add(below)
    }

    fn window_config(&self, window: TextWindow) -> WindowConfig {
        WindowConfig { d_hidden: self.d_hidden, n_components: window.components, first_move: window.first_move }
    }
}

/// Handwriting network; see the [module](self).
#[derive(Module, Debug)]
pub struct Handwriting {
    /// LSTM layers; the first reads the window of the step before, the others the window of the step and the layer below.
    pub layers: Vec<Recurrent>,
    /// Window over the text, in a synthesis network.
    pub window: Option<GaussianWindow>,
    /// Output layer and density.
    pub output: DensityHead,
    dropout: Vec<Dropout>,
    characters: usize,
}

/// Texts of a batch, as characters below the number that the network knows.
#[derive(Debug, Clone)]
pub struct Texts {
    ids: Vec<Vec<u32>>,
    one_hot: WindowText,
}

/// State of the pen between two steps.
#[derive(Debug, Clone)]
pub struct PenState {
    layers: Vec<RecurrentState>,
    /// `w_{t−1}` and `κ_{t−1}`; absent before the first step.
    window: Option<(Tensor<2>, Tensor<2>)>,
    /// Number of steps made.
    steps: usize,
}

/// The result of a step.
#[derive(Debug, Clone)]
pub struct PenStep {
    /// Raw outputs of the density of the next point, `[batch, 6K + 1]`.
    pub raw: Tensor<2>,
    /// Window of a synthesis network.
    pub window: Option<WindowStep>,
}

impl Handwriting {
    /// Builds the network.
    pub fn new(config: &HandwritingConfig, init: &Init) -> Result<Self, ConfigError> {
        config.validate()?;
        let layer = |n: usize| {
            RecurrentConfig::new(Cell::lstm(), config.d_in(n), config.d_hidden).init(&init.enter("layers").enter(n))
        };
        let window = |window| config.window_config(window).init(&init.enter("window"));
        let dropout = |n| Dropout::new("dropout", config.dropout, &init.enter("dropout").enter(n));
        let density = DensityConfig::Stroke(config.density());
        Ok(Self {
            layers: (0..config.n_layers).map(layer).collect::<Result<_, _>>()?,
            window: config.window.map(window).transpose()?,
            output: density.init(config.n_layers * config.d_hidden, &init.enter("output"))?,
            dropout: (0..config.n_layers).map(dropout).collect::<Result<_, _>>()?,
            characters: config.window.map_or(0, |window| window.characters),
        })
    }

    /// Prepares texts for the window of a synthesis network. Returns an error for an empty text, an unknown character or a
    /// prediction network.
    pub fn texts(&self, ids: Vec<Vec<u32>>, device: &Device) -> Result<Texts, NnError> {
        if self.window.is_none() {
            return Err(NnError::input("texts", "none for a network without a window", ids.len().to_string()));
        }
        if let Some(row) = ids.iter().position(Vec::is_empty) {
            return Err(NnError::input("texts", "at least one character each", format!("none in text {row}")));
        }
        if let Some(id) = ids.iter().flatten().find(|id| **id as usize >= self.characters) {
            return Err(NnError::input("texts", format!("characters below {}", self.characters), id.to_string()));
        }
        let longest = ids.iter().map(Vec::len).max().unwrap_or(0);
        let lengths: Vec<usize> = ids.iter().map(Vec::len).collect();
        let mut data = vec![0.0f32; ids.len() * longest * self.characters];
        for (row, text) in ids.iter().enumerate() {
            for (place, &id) in text.iter().enumerate() {
                data[(row * longest + place) * self.characters + id as usize] = 1.0;
            }
        }
        let shape = [ids.len(), longest, self.characters];
        let one_hot = WindowText::new(Tensor::from_data(TensorData::new(data, shape), device), Some(lengths))?;
        Ok(Texts { ids, one_hot })
    }

    /// Computes the raw outputs of the density of the point after each point. `lengths` are the points of each sequence.
    ///
    /// # Shapes
    /// `points` `[batch, seq, 3]`, `lengths` `[batch]` → `[batch, seq, 6K + 1]`.
    pub fn forward(
        &self,
        points: Tensor<3>,
        texts: Option<&Texts>,
        lengths: &[usize],
        pass: &Pass,
    ) -> Result<Tensor<3>, NnError> {
        self.check(&points, texts)?;
        // An ablation changes the window, which the next step reads.
        if pass.ablation().is_some() && self.window.is_some() {
            return self.forward_in_steps(points, texts, pass);
        }
        let (hidden, windows) = match (&self.window, texts) {
            (Some(window), Some(texts)) => self.first(window, points.clone(), texts, pass)?,
            _ => (self.layers[0].forward(points.clone(), Some(lengths), None, pass)?.hidden, None),
        };
        let mut states = vec![self.dropout[0].forward(hidden, pass)?];
        for (layer, dropout) in self.layers.iter().zip(&self.dropout).skip(1) {
            let below = states[states.len() - 1].clone();
            let inputs = [Some(points.clone()), windows.clone(), Some(below)].into_iter().flatten().collect();
            let hidden = layer.forward(Tensor::cat(inputs, 2), Some(lengths), None, pass)?.hidden;
            states.push(dropout.forward(hidden, pass)?);
        }
        Ok(self.output.forward(Tensor::cat(states, 2))?)
    }

    /// Computes the mean of `−log p` over all points. `points` are read, and each predicts the one of `targets` at its place.
    ///
    /// # Shapes
    /// `points` and `targets` `[batch, seq, 3]`, `lengths` `[batch]` → `[1]`.
    pub fn loss(
        &self,
        points: Tensor<3>,
        targets: Tensor<3>,
        texts: Option<&Texts>,
        lengths: &[usize],
        pass: &Pass,
    ) -> Result<Tensor<1>, NnError> {
        let likelihood = self.log_likelihood(points, targets, texts, lengths, pass)?;
        negative_log_likelihood(likelihood, Some(lengths), Reduction::MeanStep)
    }

    /// Computes `log p` of each target; values at padding mean nothing.
    ///
    /// # Shapes
    /// `points` and `targets` `[batch, seq, 3]`, `lengths` `[batch]` → `[batch, seq, 1]`.
    pub fn log_likelihood(
        &self,
        points: Tensor<3>,
        targets: Tensor<3>,
        texts: Option<&Texts>,
        lengths: &[usize],
        pass: &Pass,
    ) -> Result<Tensor<3>, NnError> {
        self.output.density().log_likelihood(self.forward(points, texts, lengths, pass)?, targets)
    }

    /// Returns the state of a pen that has not moved.
    pub fn start(&self, batch: usize) -> PenState {
        PenState { layers: self.layers.iter().map(|layer| layer.zero_state(batch)).collect(), window: None, steps: 0 }
    }

    /// Reads one point of each sequence and advances `state`.
    ///
    /// # Shapes
    /// `point` `[batch, 3]`.
    pub fn step(
        &self,
        point: Tensor<2>,
        texts: Option<&Texts>,
        state: &mut PenState,
        pass: &Pass,
    ) -> Result<PenStep, NnError> {
        self.check(&point.clone().unsqueeze_dim(1), texts)?;
        let (device, batch) = (point.device(), point.dims()[0]);
        let (mut position, mut seen) = (None, Vec::new());
        if self.window.is_some() {
            let (window, at) = match state.window.take() {
                Some((window, at)) => (window, Some(at)),
                None => (Tensor::zeros([batch, self.characters], &device), None),
            };
            (position, seen) = (at, vec![window]);
        }
        let pass = &pass.at("point", state.steps);
        let mut step = None;
        let mut states: Vec<Tensor<2>> = Vec::with_capacity(self.layers.len());
        for (n, (layer, dropout)) in self.layers.iter().zip(&self.dropout).enumerate() {
            let inputs = [point.clone()].into_iter().chain(seen.iter().cloned()).chain(states.last().cloned());
            let x = Tensor::cat(inputs.collect(), 1);
            state.layers[n] = layer.step(x, state.layers[n].clone(), pass)?;
            let hidden = state.layers[n].top();
            if n == 0
                && let (Some(window), Some(texts)) = (&self.window, texts)
            {
                let found = window.step(hidden.clone(), position.take(), &texts.one_hot, state.steps, pass)?;
                seen = vec![found.window.clone()];
                state.window = Some((found.window.clone(), found.position.clone()));
                step = Some(found);
            }
            states.push(dropout.forward(hidden, pass)?);
        }
        state.steps += 1;
        Ok(PenStep { raw: self.output.forward(Tensor::cat(states, 1))?, window: step })
    }

    /// Runs the first layer with its window: hidden states and windows.
    fn first(
        &self,
        window: &GaussianWindow,
        points: Tensor<3>,
        texts: &Texts,
        pass: &Pass,
    ) -> Result<(Tensor<3>, Option<Tensor<3>>), NnError> {
        let Some(weights) = self.layers[0].layers.first().and_then(|layer| layer.forward.as_ref()) else {
            return Err(NnError::input("first layer", "a forward direction", "none"));
        };
        let Some(bias) = &window.projection.bias else {
            return Err(NnError::input("projection of the window", "a bias", "none"));
        };
        let weights = WindowLstmWeights {
            lstm: LstmWeights { w_ih: weights.w_ih.val(), w_hh: weights.w_hh.val(), bias: weights.bias.val() },
            projection: window.projection.weight_f32(),
            projection_bias: bias.val(),
        };
        let WindowLstmOutput { hidden, windows } = window_lstm(points, texts.ids.clone(), weights)?;
        if pass.capture().is_some() {
            // The fused operation keeps no weights; the layer computes those of all steps from the hidden states.
            window.forward(hidden.clone().detach(), None, &texts.one_hot, 0, pass)?;
        }
        Ok((hidden, Some(windows)))
    }

    /// [`forward`](Self::forward) step by step.
    fn forward_in_steps(&self, points: Tensor<3>, texts: Option<&Texts>, pass: &Pass) -> Result<Tensor<3>, NnError> {
        let [batch, seq, _] = points.dims();
        let mut state = self.start(batch);
        let mut raw = Vec::with_capacity(seq);
        for step in 0..seq {
            pass.check_cancelled()?;
            let point = points.clone().narrow(1, step, 1).squeeze_dim(1);
            raw.push(self.step(point, texts, &mut state, pass)?.raw);
        }
        Ok(Tensor::stack(raw, 1))
    }

    fn check(&self, points: &Tensor<3>, texts: Option<&Texts>) -> Result<(), NnError> {
        let dims @ [batch, seq, width] = points.dims();
        if batch == 0 || seq == 0 || width != POINT {
            let expected = format!("[batch, seq, {POINT}], each 1 or more");
            return Err(NnError::input("points", expected, format!("{dims:?}")));
        }
        match (self.window.is_some(), texts) {
            (true, None) => Err(NnError::input("texts", "one for each sequence", "none")),
            (false, Some(_)) => Err(NnError::input("texts", "none for a network without a window", "some")),
            (true, Some(texts)) if texts.ids.len() != batch => {
                Err(NnError::input("texts", format!("{batch}, one for each sequence"), texts.ids.len().to_string()))
            }
            _ => Ok(()),
        }
    }
}
