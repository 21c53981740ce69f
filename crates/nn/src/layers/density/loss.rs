//! The loss of a density: minus the log-likelihood, added up over the steps that are there.

use burn::tensor::{Tensor, TensorData};
use serde::{Deserialize, Serialize};

use crate::error::NnError;

/// What the sum over all steps is divided by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// The number of steps that count.
    #[default]
    MeanStep,
    /// The number of sequences, as results on handwriting are given.
    MeanSequence,
    /// Nothing.
    Sum,
}

/// `−log p`, reduced; steps from a sequence's length on are padding and count for nothing.
///
/// # Shapes
/// `log_likelihood` `[batch, seq, 1]`, a length for each sequence → `[1]`.
pub fn negative_log_likelihood(
    log_likelihood: Tensor<3>,
    lengths: Option<&[usize]>,
    reduction: Reduction,
) -> Result<Tensor<1>, NnError> {
    let shape @ [batch, seq, width] = log_likelihood.dims();
    if width != 1 || batch == 0 || seq == 0 {
        return Err(NnError::input("log_likelihood", "a shape [batch, seq, 1] without zeros", format!("{shape:?}")));
    }
    let (kept, steps) = match lengths {
        None => (log_likelihood, batch * seq),
        Some(lengths) => {
            if lengths.len() != batch || lengths.iter().any(|&length| length > seq) {
                let expected = format!("{batch} of them, each at most {seq}");
                return Err(NnError::input("lengths", expected, format!("{lengths:?}")));
            }
            let padding: Vec<bool> = lengths.iter().flat_map(|&length| (0..seq).map(move |i| i >= length)).collect();
            let padding = Tensor::from_data(TensorData::new(padding, shape), &log_likelihood.device());
            (log_likelihood.mask_fill(padding, 0.0), lengths.iter().sum())
        }
    };
    let divisor = match reduction {
        // A batch of nothing but padding has a loss of zero.
        Reduction::MeanStep => steps.max(1),
        Reduction::MeanSequence => batch,
        Reduction::Sum => 1,
    };
    Ok(-kept.sum() / divisor as f32)
}
