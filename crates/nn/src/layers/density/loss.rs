//! Loss of a density: the negative log-likelihood, summed over all steps except padding.

use burn::tensor::{Tensor, TensorData};
use serde::{Deserialize, Serialize};

use crate::error::NnError;

/// The number by which the sum over all steps is divided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// The number of steps, padding excluded.
    #[default]
    MeanStep,
    /// The number of sequences, as in published results on handwriting.
    MeanSequence,
    /// No division.
    Sum,
}

/// Computes the reduced `−log p`. Steps from a sequence's length on are padding and are ignored.
///
/// # Shapes
/// `log_likelihood` `[batch, seq, 1]`, `lengths` `[batch]` → `[1]`.
pub fn negative_log_likelihood(
    log_likelihood: Tensor<3>,
    lengths: Option<&[usize]>,
    reduction: Reduction,
) -> Result<Tensor<1>, NnError> {
    let shape @ [batch, seq, width] = log_likelihood.dims();
    if width != 1 || batch == 0 || seq == 0 {
        return Err(NnError::input("log_likelihood", "[batch, seq, 1], each 1 or more", format!("{shape:?}")));
    }
    let (kept, steps) = match lengths {
        None => (log_likelihood, batch * seq),
        Some(lengths) => {
            if lengths.len() != batch || lengths.iter().any(|&length| length > seq) {
                let expected = format!("{batch} numbers, each at most {seq}");
                return Err(NnError::input("lengths", expected, format!("{lengths:?}")));
            }
            let padding: Vec<bool> = lengths.iter().flat_map(|&length| (0..seq).map(move |i| i >= length)).collect();
            let padding = Tensor::from_data(TensorData::new(padding, shape), &log_likelihood.device());
            (log_likelihood.mask_fill(padding, 0.0), lengths.iter().sum())
        }
    };
    let divisor = match reduction {
        // A batch that is all padding has a loss of zero.
        Reduction::MeanStep => steps.max(1),
        Reduction::MeanSequence => batch,
        Reduction::Sum => 1,
    };
    Ok(-kept.sum() / divisor as f32)
}
