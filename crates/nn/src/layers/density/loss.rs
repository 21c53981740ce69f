//! Loss of a density: the negative log-likelihood, summed over all steps except padding.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::error::NnError;
use crate::lengths::Lengths;

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
    let kept = Lengths::new(lengths, [batch, seq], &log_likelihood.device())?.blank(log_likelihood);
    let divisor = match reduction {
        // A batch that is all padding has a loss of zero.
        Reduction::MeanStep => lengths.map_or(batch * seq, |lengths| lengths.iter().sum()).max(1),
        Reduction::MeanSequence => batch,
        Reduction::Sum => 1,
    };
    Ok(-kept.sum() / divisor as f32)
}
