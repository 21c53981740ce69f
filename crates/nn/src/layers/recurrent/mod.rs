//! Recurrent networks: plain (Elman 1990), LSTM (Hochreiter & Schmidhuber 1997, forget gate of Gers 2000) and GRU (Cho
//! 2014), in one or both directions (Schuster & Paliwal 1997), with any number of layers.
//!
//! ```text
//! RNN    h_t = tanh(A [h_{t−1}; x_t] + b)
//! LSTM   Γ_u, Γ_f, Γ_o = σ(W [h_{t−1}; x_t] + b)        c̃ = tanh(W_c [h_{t−1}; x_t] + b_c)
//!        c_t = Γ_f ∘ c_{t−1} + Γ_u ∘ c̃                  h_t = Γ_o ∘ tanh(c_t)
//! GRU    r, z = σ(W [h_{t−1}; x_t] + b)                 h_t = (1 − z) ∘ n + z ∘ h_{t−1}
//!        n = tanh(W_in x_t + b_in + r ∘ (W_hn h_{t−1} + b_hn)), or with (r ∘ h_{t−1}) in the product
//! ```
//! Results for sequences of different lengths equal those of PyTorch's packed sequences.

mod config;
mod weights;

use burn::module::Module;
use burn::tensor::{DType, Int, Tensor};

pub use config::{Cell, Direction, RecurrentConfig};
pub use weights::RecurrentWeights;

use crate::error::NnError;
use crate::layers::dropout::Dropout;
use crate::lengths::Lengths;
use crate::pass::Pass;
use weights::Carried;

/// Recurrent network; see the [module](self) for the formulas.
#[derive(Module, Debug)]
pub struct Recurrent {
    /// Layers, the one that reads the input first.
    pub layers: Vec<RecurrentLayer>,
    #[module(skip)]
    config: RecurrentConfig,
}

/// One layer of a [`Recurrent`].
#[derive(Module, Debug)]
pub struct RecurrentLayer {
    /// Dropout of the layer's input; the first layer has none.
    dropout: Option<Dropout>,
    /// Weights of the forward direction, if the layer reads forward.
    pub forward: Option<RecurrentWeights>,
    /// Weights of the backward direction, if the layer reads backward.
    pub backward: Option<RecurrentWeights>,
}

/// State that a [`Recurrent`] carries from step to step, ordered by layer, then forward before backward.
#[derive(Debug, Clone)]
pub struct RecurrentState {
    /// Hidden state `h`, `[n_layers·directions, batch, d_hidden]`.
    pub hidden: Tensor<3>,
    /// Cell state `c` of an LSTM, `[n_layers·directions, batch, d_hidden]`.
    pub cell: Option<Tensor<3>>,
}

/// The result of [`Recurrent::forward`]. Gradients flow through all of its tensors.
#[derive(Debug, Clone)]
pub struct RecurrentOutput {
    /// Hidden states of the last layer after every step, `[batch, seq, directions·d_hidden]`; zero at padding.
    pub hidden: Tensor<3>,
    /// State after the last step of each sequence; in the backward direction, after its first.
    pub state: RecurrentState,
}

impl Recurrent {
    /// Runs all steps of all layers, starting from `initial` or from zeros. Without `lengths`, every sequence has `seq` steps.
    /// Padding has no effect, and an empty sequence keeps its initial state.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_in]`, `lengths` `[batch]`, `initial` as in [`RecurrentState`] → [`RecurrentOutput`].
    pub fn forward(
        &self,
        x: Tensor<3>,
        lengths: Option<&[usize]>,
        initial: Option<RecurrentState>,
        pass: &Pass,
    ) -> Result<RecurrentOutput, NnError> {
        let [batch, seq, d_in] = x.dims();
        if batch == 0 || seq == 0 || d_in != self.config.d_in {
            let expected = format!("[batch, seq, {}], each 1 or more", self.config.d_in);
            return Err(NnError::input("input", expected, format!("{:?}", x.dims())));
        }
        let lengths = Lengths::new(lengths, [batch, seq], &x.device())?;
        self.check_state(initial.as_ref(), batch)?;
        let mut hidden = lengths.blank(x);
        let mut states = Vec::with_capacity(self.layers.len() * self.config.directions());
        for layer in &self.layers {
            if let Some(dropout) = &layer.dropout {
                hidden = dropout.forward(hidden, pass)?;
            }
            let mut sides = Vec::with_capacity(self.config.directions());
            for (weights, side) in [(&layer.forward, Side::Forward), (&layer.backward, Side::Backward)] {
                let Some(weights) = weights else { continue };
                let before = initial.as_ref().map(|state| state.part(states.len()));
                let x = side.turn(hidden.clone(), &lengths);
                let (out, after) = weights.run(self.config.cell, x, &lengths, before)?;
                sides.push(side.turn(out, &lengths));
                states.push(after);
            }
            hidden = if sides.len() == 1 { sides.remove(0) } else { Tensor::cat(sides, 2) };
        }
        Ok(RecurrentOutput { hidden: lengths.blank(hidden), state: RecurrentState::of(states) })
    }

    /// Runs one step of all layers. The output of the network is [`RecurrentState::top`] of the result. A training loop
    /// gives each step its own random numbers with [`Pass::at`].
    ///
    /// # Shapes
    /// `x` `[batch, d_in]`, `state` and the result as in [`RecurrentState`].
    pub fn step(&self, x: Tensor<2>, state: RecurrentState, pass: &Pass) -> Result<RecurrentState, NnError> {
        if self.config.direction != Direction::Forward {
            let got = format!("{:?}", self.config.direction);
            return Err(NnError::input("direction", "Forward, to run step by step", got));
        }
        Ok(self.forward(x.unsqueeze_dim(1), None, Some(state), pass)?.state)
    }

    /// Returns a state of zeros.
    pub fn zero_state(&self, batch: usize) -> RecurrentState {
        let device = self.devices().into_iter().next().unwrap_or_default();
        let zeros = || Tensor::zeros(self.state_shape(batch), (&device, DType::F32));
        let cell = matches!(self.config.cell, Cell::Lstm { .. }).then(zeros);
        RecurrentState { hidden: zeros(), cell }
    }

    /// Returns the number of output features.
    pub fn d_out(&self) -> usize {
        self.config.d_out()
    }

    fn state_shape(&self, batch: usize) -> [usize; 3] {
        [self.layers.len() * self.config.directions(), batch, self.config.d_hidden]
    }

    fn check_state(&self, state: Option<&RecurrentState>, batch: usize) -> Result<(), NnError> {
        let Some(RecurrentState { hidden, cell }) = state else { return Ok(()) };
        let expected = self.state_shape(batch);
        for (what, part) in [("initial hidden state", Some(hidden)), ("initial cell state", cell.as_ref())] {
            if let Some(part) = part.filter(|part| part.dims() != expected) {
                return Err(NnError::input(what, format!("{expected:?}"), format!("{:?}", part.dims())));
            }
        }
        match (self.config.cell, cell) {
            (Cell::Lstm { .. }, Some(_)) | (Cell::Rnn | Cell::Gru { .. }, None) => Ok(()),
            (Cell::Lstm { .. }, None) => Err(NnError::input("initial cell state", "a tensor for an LSTM", "none")),
            (_, Some(_)) => Err(NnError::input("initial cell state", "none, as only an LSTM has one", "a tensor")),
        }
    }
}

impl RecurrentState {
    /// Returns the hidden state of the last layer, `[batch, d_hidden]`; the backward one if it has two.
    pub fn top(&self) -> Tensor<2> {
        self.part(self.hidden.dims()[0] - 1).hidden
    }

    /// Returns the state of the sequences `rows` of the batch, in this order, as beam search needs it.
    ///
    /// # Shapes
    /// `rows` `[new batch]`, each less than the current batch size.
    pub fn select(&self, rows: Tensor<1, Int>) -> Self {
        let select = |all: &Tensor<3>| all.clone().select(1, rows.clone());
        Self { hidden: select(&self.hidden), cell: self.cell.as_ref().map(select) }
    }

    /// Joins the states of several batches into the state of one batch with all their sequences.
    pub fn side_by_side(states: Vec<Self>) -> Self {
        let cells: Option<Vec<_>> = states.iter().map(|state| state.cell.clone()).collect();
        let hidden = states.into_iter().map(|state| state.hidden).collect();
        Self { hidden: Tensor::cat(hidden, 1), cell: cells.map(|cells| Tensor::cat(cells, 1)) }
    }

    /// Returns the same state without its gradient history.
    pub fn detach(self) -> Self {
        Self { hidden: self.hidden.detach(), cell: self.cell.map(Tensor::detach) }
    }

    fn part(&self, index: usize) -> Carried {
        let part = |all: &Tensor<3>| all.clone().narrow(0, index, 1).squeeze_dim(0);
        Carried { hidden: part(&self.hidden), cell: self.cell.as_ref().map(part) }
    }

    fn of(parts: Vec<Carried>) -> Self {
        let cells: Option<Vec<_>> = parts.iter().map(|part| part.cell.clone()).collect();
        let hidden = parts.into_iter().map(|part| part.hidden).collect();
        Self { hidden: Tensor::stack(hidden, 0), cell: cells.map(|cells| Tensor::stack(cells, 0)) }
    }
}

/// One of the two directions.
#[derive(Clone, Copy)]
enum Side {
    Forward,
    Backward,
}

impl Side {
    /// Reverses the sequences if the direction is backward. Applied twice, it restores the input.
    fn turn(self, x: Tensor<3>, lengths: &Lengths) -> Tensor<3> {
        match self {
            Side::Forward => x,
            Side::Backward => lengths.reverse(x),
        }
    }
}
