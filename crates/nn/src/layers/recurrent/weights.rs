//! Weights of one direction of one recurrent layer, and the pass over a whole sequence.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use regard_ops::{
    GruWeights, LstmOutput, LstmState, LstmWeights, OpError, RnnWeights, gru, lstm, lstm_with_lengths, rnn,
};

use super::config::Cell;
use crate::init::Init;
use crate::lengths::Lengths;

/// The parameters of one direction of one layer. The order of the gates is `i, f, g, o` (Γ_u, Γ_f, c̃, Γ_o) in an LSTM and
/// `r, z, n` in a GRU.
#[derive(Module, Debug)]
pub struct RecurrentWeights {
    /// Input weights, `[d_in, gates·d_hidden]`.
    pub w_ih: Param<Tensor<2>>,
    /// Recurrent weights, `[d_hidden, gates·d_hidden]`.
    pub w_hh: Param<Tensor<2>>,
    /// Bias, `[gates·d_hidden]`: of the input product in a GRU, otherwise the sum of PyTorch's two biases.
    pub bias: Param<Tensor<1>>,
    /// Bias of the recurrent product in a GRU, `[gates·d_hidden]`.
    pub bias_hh: Option<Param<Tensor<1>>>,
}

/// State carried from step to step.
#[derive(Debug, Clone)]
pub(super) struct Carried {
    /// Hidden state, `[batch, d_hidden]`.
    pub(super) hidden: Tensor<2>,
    /// Cell state of an LSTM, `[batch, d_hidden]`; zeros if missing.
    pub(super) cell: Option<Tensor<2>>,
}

impl RecurrentWeights {
    pub(super) fn new(cell: Cell, d_in: usize, d_hidden: usize, init: &Init) -> Self {
        let (width, bound) = (cell.gates() * d_hidden, 1.0 / (d_hidden as f32).sqrt());
        let mut bias = init.uniform("bias", [width], bound);
        if let Cell::Lstm { forget_bias } = cell {
            bias = Param::from_tensor(add_to_forget_gate(bias.val(), forget_bias, d_hidden));
        }
        Self {
            w_ih: init.uniform("w_ih", [d_in, width], bound),
            w_hh: init.uniform("w_hh", [d_hidden, width], bound),
            bias,
            bias_hh: matches!(cell, Cell::Gru { .. }).then(|| init.uniform("bias_hh", [width], bound)),
        }
    }

    /// Returns the hidden states of every step, and the state after the last step of each sequence.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_in]` → `[batch, seq, d_hidden]`.
    pub(super) fn run(
        &self,
        cell: Cell,
        x: Tensor<3>,
        lengths: &Lengths,
        initial: Option<Carried>,
    ) -> Result<(Tensor<3>, Carried), OpError> {
        let (w_ih, w_hh, bias) = (self.w_ih.val(), self.w_hh.val(), self.bias.val());
        let before = initial.as_ref().map(|state| state.hidden.clone());
        let hidden = match cell {
            Cell::Rnn => rnn(x, RnnWeights { w_ih, w_hh, bias }, before)?,
            Cell::Gru { reset } => {
                let bias_hh = self.bias_hh.as_ref().expect("a GRU is made with two biases").val();
                gru(x, GruWeights { w_ih, w_hh, bias_ih: bias, bias_hh }, reset, before)?
            }
            Cell::Lstm { .. } => return self.run_lstm(x, lengths, initial),
        };
        let last = lengths.unmoved(lengths.last(hidden.clone()), initial.map(|state| state.hidden).as_ref());
        Ok((hidden, Carried { hidden: last, cell: None }))
    }

    fn run_lstm(
        &self,
        x: Tensor<3>,
        lengths: &Lengths,
        initial: Option<Carried>,
    ) -> Result<(Tensor<3>, Carried), OpError> {
        let weights = LstmWeights { w_ih: self.w_ih.val(), w_hh: self.w_hh.val(), bias: self.bias.val() };
        let initial = initial
            .map(|Carried { hidden, cell }| LstmState { cell: cell.unwrap_or_else(|| hidden.zeros_like()), hidden });
        let LstmOutput { hidden, state } = match lengths.steps() {
            Some(steps) => lstm_with_lengths(x, weights, initial.clone(), steps)?,
            None => lstm(x, weights, initial.clone())?,
        };
        let before = initial.as_ref();
        let last = lengths.unmoved(state.hidden, before.map(|state| &state.hidden));
        let cell = lengths.unmoved(state.cell, before.map(|state| &state.cell));
        Ok((hidden, Carried { hidden: last, cell: Some(cell) }))
    }
}

/// Adds `added` to the part of `bias` that belongs to the forget gate, and detaches the result.
fn add_to_forget_gate(bias: Tensor<1>, added: f32, d_hidden: usize) -> Tensor<1> {
    let range = d_hidden..2 * d_hidden;
    let gate = bias.clone().slice([range.clone()]) + added;
    bias.slice_assign([range], gate).detach()
}
