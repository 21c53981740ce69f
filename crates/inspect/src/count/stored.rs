//! The number of parameters in safetensors files, read from their headers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::error::CountError;

/// Largest header that is read, in bytes; the same limit as in the `safetensors` library.
pub const HEADER_LIMIT: u64 = 100_000_000;

/// Number of parameters stored in one or more files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stored {
    /// Number of parameters.
    pub parameters: u128,
    /// Number of parameters by element type, such as `F32`.
    pub dtypes: BTreeMap<String, u128>,
    /// Number of stored elements that are not parameters: masks, position ids, frequencies.
    pub buffers: u128,
}

impl Stored {
    /// Adds the tensors of a file. `header` is the JSON after the 8-byte length.
    pub fn add(&mut self, header: &[u8]) -> Result<(), CountError> {
        let refuse = |why: String| CountError::Stored(format!("safetensors header: {why}"));
        let header: Value = serde_json::from_slice(header).map_err(|error| refuse(error.to_string()))?;
        let tensors = header.as_object().ok_or_else(|| refuse("expected a table of tensors".into()))?;
        for (name, tensor) in tensors.iter().filter(|(name, _)| *name != "__metadata__") {
            let dtype = tensor["dtype"].as_str().ok_or_else(|| refuse(format!("{name} has no dtype")))?;
            let shape = tensor["shape"].as_array().ok_or_else(|| refuse(format!("{name} has no shape")))?;
            let size = shape.iter().try_fold(1u128, |size, d| size.checked_mul(u128::from(d.as_u64()?)));
            let size = size.ok_or_else(|| refuse(format!("the shape of {name} is not a list of sizes")))?;
            let too_large = || CountError::TooLarge;
            if is_buffer(name, dtype, shape.len()) {
                self.buffers = self.buffers.checked_add(size).ok_or_else(too_large)?;
            } else {
                self.parameters = self.parameters.checked_add(size).ok_or_else(too_large)?;
                // Cannot overflow, because it is at most the sum.
                *self.dtypes.entry(dtype.to_string()).or_default() += size;
            }
        }
        Ok(())
    }

    /// Returns the likely reason why the number of parameters differs from `counted`, or `None` if they are equal.
    pub fn difference(&self, counted: u128) -> Option<String> {
        let (more, by) = match self.parameters.cmp(&counted) {
            std::cmp::Ordering::Equal => return None,
            std::cmp::Ordering::Greater => ("more", self.parameters - counted),
            std::cmp::Ordering::Less => ("fewer", counted - self.parameters),
        };
        let why = match more {
            "more" => "a tied output stored beside its embedding, fixed positions, or the head of another task",
            _ => "the file has no head or pooler, or other layers than the configuration says",
        };
        Some(format!("{by} {more} than counted; likely {why}"))
    }
}

/// Returns true for tensors that frameworks store beside the parameters.
fn is_buffer(name: &str, dtype: &str, rank: usize) -> bool {
    let float = dtype.starts_with('F') || dtype.starts_with("BF");
    let causal_mask = name.ends_with("attn.bias") && rank == 4;
    !float || causal_mask || name.ends_with("masked_bias") || name.ends_with("rotary_emb.inv_freq")
}

/// Returns the file names in the index of a model that is split over several files, sorted and without duplicates.
pub fn shards(index: &Value) -> Result<Vec<String>, CountError> {
    let refuse = |why: String| CountError::Stored(format!("safetensors index: {why}"));
    let map = index["weight_map"].as_object().ok_or_else(|| refuse("expected a table weight_map".into()))?;
    let mut files = BTreeSet::new();
    for file in map.values() {
        let name = file.as_str().unwrap_or_default();
        if name.is_empty() || name.contains(['/', '\\']) || name.starts_with('.') {
            return Err(refuse(format!("{file} is not the name of a file in the same folder")));
        }
        files.insert(name.to_string());
    }
    Ok(files.into_iter().collect())
}
