//! Handling of padding in batches whose sequences differ in length.
//!
//! Padding is overwritten, never multiplied by zero, so that even a NaN there has no effect.

use burn::tensor::{Bool, Device, Tensor, TensorData};

use crate::error::NnError;
use crate::rows::indices;

/// The lengths of a batch's sequences. If none is shorter than `seq`, there is no padding and nothing to overwrite.
#[derive(Debug, Clone)]
pub(crate) struct Lengths(Option<Padding>);

#[derive(Debug, Clone)]
struct Padding {
    /// Steps of each sequence, at least 1: an empty sequence is computed as one step of zeros and left out of the results.
    steps: Vec<usize>,
    /// True at padding, `[batch, seq, 1]`.
    mask: Tensor<3, Bool>,
    /// True for empty sequences, `[batch, 1]`; `None` if no sequence is empty.
    empty: Option<Tensor<2, Bool>>,
}

impl Lengths {
    /// Checks the lengths of a batch and prepares them on `device`.
    pub(crate) fn new(lengths: Option<&[usize]>, [batch, seq]: [usize; 2], device: &Device) -> Result<Self, NnError> {
        let Some(lengths) = lengths else { return Ok(Self(None)) };
        if lengths.len() != batch {
            return Err(NnError::input("lengths", format!("{batch}, one per sequence"), lengths.len().to_string()));
        }
        if let Some(length) = lengths.iter().find(|&&length| length > seq) {
            return Err(NnError::input("lengths", format!("each at most {seq}"), length.to_string()));
        }
        if lengths.iter().all(|&length| length == seq) {
            return Ok(Self(None));
        }
        let mask: Vec<bool> = lengths.iter().flat_map(|&length| (0..seq).map(move |step| step >= length)).collect();
        let mask = Tensor::from_data(TensorData::new(mask, [batch, seq, 1]), device);
        let empty: Vec<bool> = lengths.iter().map(|&length| length == 0).collect();
        let empty =
            empty.contains(&true).then(|| Tensor::from_data(TensorData::new(empty.clone(), [batch, 1]), device));
        let steps = lengths.iter().map(|&length| length.max(1)).collect();
        Ok(Self(Some(Padding { steps, mask, empty })))
    }

    /// Returns the number of steps of each sequence, 1 for an empty one; `None` if there is no padding.
    pub(crate) fn steps(&self) -> Option<&[usize]> {
        self.0.as_ref().map(|padding| padding.steps.as_slice())
    }

    /// Sets the padding to zero, `[batch, seq, width]` → the same.
    pub(crate) fn blank(&self, x: Tensor<3>) -> Tensor<3> {
        self.fill(x, 0.0)
    }

    /// Sets the padding to `value`, `[batch, seq, width]` → the same.
    pub(crate) fn fill(&self, x: Tensor<3>, value: f32) -> Tensor<3> {
        let Some(Padding { mask, .. }) = &self.0 else { return x };
        let dims = x.dims();
        x.mask_fill(mask.clone().expand(dims), value)
    }

    /// Sets scores or weights of the padding to `value`, `[batch, queries, seq]` → the same.
    pub(crate) fn fill_keys(&self, x: Tensor<3>, value: f32) -> Tensor<3> {
        let Some(Padding { mask, .. }) = &self.0 else { return x };
        let dims = x.dims();
        x.mask_fill(mask.clone().swap_dims(1, 2).expand(dims), value)
    }

    /// Computes the mean of each sequence's steps, `[batch, seq, width]` → `[batch, width]`; zero for an empty sequence.
    pub(crate) fn mean(&self, x: Tensor<3>) -> Tensor<2> {
        let Some(steps) = self.steps() else { return x.mean_dim(1).squeeze_dim(1) };
        let counts: Vec<f32> = steps.iter().map(|&steps| steps as f32).collect();
        let counts = Tensor::<2>::from_data(TensorData::new(counts, [steps.len(), 1]), &x.device());
        self.blank(x).sum_dim(1).squeeze_dim::<2>(1) / counts
    }

    /// Reverses each sequence from its own last step, leaving the padding in place; `[batch, seq, width]` → the same.
    pub(crate) fn reverse(&self, x: Tensor<3>) -> Tensor<3> {
        let Some(steps) = self.steps() else { return x.flip([1]) };
        let ([batch, seq, width], device) = (x.dims(), x.device());
        let rows = steps.iter().enumerate().flat_map(|(sequence, &steps)| {
            (0..seq).map(move |step| sequence * seq + if step < steps { steps - 1 - step } else { step })
        });
        x.reshape([batch * seq, width]).select(0, indices(rows, &device)).reshape([batch, seq, width])
    }

    /// Returns the last step of each sequence, `[batch, seq, width]` → `[batch, width]`.
    pub(crate) fn last(&self, x: Tensor<3>) -> Tensor<2> {
        let ([batch, seq, width], device) = (x.dims(), x.device());
        let Some(steps) = self.steps() else { return x.narrow(1, seq - 1, 1).squeeze_dim(1) };
        let rows = steps.iter().enumerate().map(|(sequence, &steps)| sequence * seq + steps - 1);
        x.reshape([batch * seq, width]).select(0, indices(rows, &device))
    }

    /// Restores the state of empty sequences to `initial`, or to zero if it is not given; `[batch, width]` → the same.
    pub(crate) fn unmoved(&self, state: Tensor<2>, initial: Option<&Tensor<2>>) -> Tensor<2> {
        let Some(Padding { empty: Some(empty), .. }) = &self.0 else { return state };
        let empty = empty.clone().expand(state.dims());
        match initial {
            Some(initial) => state.mask_where(empty, initial.clone()),
            None => state.mask_fill(empty, 0.0),
        }
    }

    /// Sets the results of empty sequences to zero, `[batch, queries, width]` → the same.
    pub(crate) fn zero_empty(&self, x: Tensor<3>) -> Tensor<3> {
        let Some(Padding { empty: Some(empty), .. }) = &self.0 else { return x };
        let dims = x.dims();
        x.mask_fill(empty.clone().unsqueeze_dim::<3>(2).expand(dims), 0.0)
    }
}
