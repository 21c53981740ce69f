//! Limits of options, which keep run time and memory bounded.

use std::ops::RangeInclusive;

use regard_nn::ConfigError;

/// Returns an error if a number is outside `range`.
pub(super) fn check_range(field: &str, value: usize, range: RangeInclusive<usize>) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    let allowed = format!("a whole number from {} to {}", range.start(), range.end());
    Err(ConfigError::new(field, value, allowed))
}

/// Returns an error if the number of features per head is odd.
pub(super) fn check_pairs(d_model: usize, n_heads: usize) -> Result<(), ConfigError> {
    if d_model.is_multiple_of(2 * n_heads) {
        return Ok(());
    }
    let allowed = format!("a multiple of {}, twice n_heads: RoPE rotates pairs of a head's features", 2 * n_heads);
    Err(ConfigError::new("d_model", d_model, allowed))
}
