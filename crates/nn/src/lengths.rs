//! Handling of padding in batches whose sequences differ in length.
//!
//! Padding is overwritten, never multiplied by zero, so that even a NaN there has no effect.

use burn::tensor::{Bool, Device, Tensor, TensorData};

use crate::error::NnError;
use crate::rows::indices;

/// The lengths of a batch's sequences, at least one of which is shorter than `seq`.
#[derive(Debug, Clone)]
pub(crate) struct Lengths {
    /// Steps of each sequence, at least 1: an empty sequence is computed as one step of zeros and left out of the results.
    steps: Vec<usize>,
    /// True at padding, `[batch, seq, 1]`.
    padding: Tensor<3, Bool>,
    /// True for empty sequences, `[batch, 1]`; `None` if no sequence is empty.
    empty: Option<Tensor<2, Bool>>,
    device: Device,
}

impl Lengths {
    /// Checks the lengths of a batch and prepares them on `device`. Returns `None` if there is no padding.
    pub(crate) fn new(
        lengths: Option<&[usize]>,
        [batch, seq]: [usize; 2],
        device: &Device,
    ) -> Result<Option<Self>, NnError> {
        let Some(lengths) = lengths else { return Ok(None) };
        if lengths.len() != batch {
            return Err(NnError::input("lengths", format!("{batch}, one per sequence"), lengths.len().to_string()));
        }
        if let Some(length) = lengths.iter().find(|&&length| length > seq) {
            return Err(NnError::input("lengths", format!("each at most {seq}"), length.to_string()));
        }
        if lengths.iter().all(|&length| length == seq) {
            return Ok(None);
        }
        let padding: Vec<bool> = lengths.iter().flat_map(|&length| (0..seq).map(move |step| step >= length)).collect();
        let padding = Tensor::from_data(TensorData::new(padding, [batch, seq, 1]), device);
        let empty: Vec<bool> = lengths.iter().map(|&length| length == 0).collect();
        let empty =
            empty.contains(&true).then(|| Tensor::from_data(TensorData::new(empty.clone(), [batch, 1]), device));
        let steps = lengths.iter().map(|&length| length.max(1)).collect();
        Ok(Some(Self { steps, padding, empty, device: device.clone() }))
    }

    /// Returns the number of steps of each sequence, 1 for an empty one.
    pub(crate) fn steps(&self) -> &[usize] {
        &self.steps
    }

    /// Sets the padding to zero, `[batch, seq, width]` → the same.
    pub(crate) fn blank(&self, x: Tensor<3>) -> Tensor<3> {
        self.fill(x, 0.0)
    }

    /// Sets the padding to `value`, `[batch, seq, width]` → the same.
    pub(crate) fn fill(&self, x: Tensor<3>, value: f32) -> Tensor<3> {
        let dims = x.dims();
        x.mask_fill(self.padding.clone().expand(dims), value)
    }

    /// Computes the mean of each sequence's steps, `[batch, seq, width]` → `[batch, width]`; zero for an empty sequence.
    pub(crate) fn mean(&self, x: Tensor<3>) -> Tensor<2> {
        let counts: Vec<f32> = self.steps.iter().map(|&steps| steps as f32).collect();
        let counts = Tensor::<2>::from_data(TensorData::new(counts, [self.steps.len(), 1]), &self.device);
        self.blank(x).sum_dim(1).squeeze_dim::<2>(1) / counts
    }

    /// Reverses each sequence from its own last step, leaving the padding in place; `[batch, seq, width]` → the same.
    pub(crate) fn reverse(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, seq, width] = x.dims();
        let rows = self.steps.iter().enumerate().flat_map(|(sequence, &steps)| {
            (0..seq).map(move |step| sequence * seq + if step < steps { steps - 1 - step } else { step })
        });
        x.reshape([batch * seq, width]).select(0, indices(rows, &self.device)).reshape([batch, seq, width])
    }

    /// Returns the last step of each sequence, `[batch, seq, width]` → `[batch, width]`.
    pub(crate) fn last(&self, x: Tensor<3>) -> Tensor<2> {
        let [batch, seq, width] = x.dims();
        let rows = self.steps.iter().enumerate().map(|(sequence, &steps)| sequence * seq + steps - 1);
        x.reshape([batch * seq, width]).select(0, indices(rows, &self.device))
    }

    /// Restores the state of empty sequences to `initial`, or to zero if it is not given; `[batch, width]` → the same.
    pub(crate) fn unmoved(&self, state: Tensor<2>, initial: Option<&Tensor<2>>) -> Tensor<2> {
        let Some(empty) = &self.empty else { return state };
        let empty = empty.clone().expand(state.dims());
        match initial {
            Some(initial) => state.mask_where(empty, initial.clone()),
            None => state.mask_fill(empty, 0.0),
        }
    }
}
