//! The loss of a recurrent writer with hard attention, whose reward baseline is kept between steps.

use burn::tensor::Tensor;
use regard_nn::layers::attention::score_function::Baseline;
use regard_nn::models::recurrent_writer::RecurrentLoss;
use serde_json::Value;

use crate::error::TaskError;

/// Decay of the moving average of rewards that serves as baseline for hard attention.
const BASELINE_DECAY: f32 = 0.99;
/// Weight of the entropy bonus of hard attention, which keeps it from deciding too early.
const ENTROPY_BONUS: f32 = 0.01;

/// Returns the total to minimise. If there are rewards, the baseline in the task's memory is used and updated.
pub(crate) fn total(found: RecurrentLoss, memory: &mut Value) -> Result<Tensor<1>, TaskError> {
    let mut baseline = match memory.get("baseline") {
        Some(saved) => serde_json::from_value(saved.clone())
            .map_err(|error| TaskError::input("checkpoint", "a baseline of rewards", error.to_string()))?,
        None => Baseline::new("baseline", BASELINE_DECAY)?,
    };
    let is_rewarded = found.rewarded.is_some();
    let total = found.total(&mut baseline, ENTROPY_BONUS)?;
    if is_rewarded {
        memory["baseline"] = serde_json::json!(baseline);
    }
    Ok(total)
}
