//! `regard verify`: compares a checkpoint with reference outputs.

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use regard_nn::Pass;
use serde_json::json;

use super::checkpoint;
use crate::failure::{failure, wrong_use};
use crate::print::print;
use crate::value::number;

/// The arguments of `regard verify`.
#[derive(Args)]
pub struct Verify {
    /// A checkpoint folder with config.json and model.safetensors
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// A safetensors file with inputs and outputs, such as input_ids, attention_mask, logits, hidden_states.0, attentions.0
    #[arg(long, value_name = "F.safetensors")]
    reference: PathBuf,
    /// Largest difference that is allowed, as a share of the largest value of a tensor
    #[arg(long, value_name = "T", default_value = "0.0001", allow_negative_numbers = true, value_parser = number)]
    tolerance: f64,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub fn run(self) -> Result<()> {
        if !(self.tolerance.is_finite() && self.tolerance >= 0.0) {
            return Err(wrong_use(anyhow!("--tolerance {}: expected a number, 0 or more", self.tolerance)));
        }
        let model = checkpoint(&self.folder)?;
        let found = model.verify(&self.reference, &Pass::inference()).map_err(failure)?;
        let is_far = |relative: f64| relative.is_nan() || relative > self.tolerance;
        let far = found.iter().filter(|one| is_far(one.relative)).count();
        if self.json {
            let document = json!({ "tensors": found, "tolerance": self.tolerance, "equal": far == 0 });
            print(&format!("{document}\n"))?;
        } else {
            let mut lines =
                format!("{:<24} {:>9} {:>10} {:>10}  agreement\n", "tensor", "values", "largest", "relative");
            for one in &found {
                let agreement = one.agreement.map_or(String::new(), |share| format!("{:.2} %", 100.0 * share));
                let mark = if is_far(one.relative) { " differs" } else { "" };
                let (largest, relative) = (one.largest, one.relative);
                lines += &format!(
                    "{:<24} {:>9} {largest:>10.2e} {relative:>10.2e}  {agreement}{mark}\n",
                    one.name, one.values
                );
            }
            print(&lines)?;
        }
        match far {
            0 => Ok(()),
            _ => {
                bail!("{far} of {} tensors differ by more than {} of their largest value", found.len(), self.tolerance)
            }
        }
    }
}
