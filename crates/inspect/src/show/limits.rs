//! Limits of options, so that nothing runs for ever or eats all memory.

use std::ops::RangeInclusive;

use regard_nn::ConfigError;

/// Refuses a whole number outside `range`.
pub(super) fn check_range(field: &str, value: usize, range: RangeInclusive<usize>) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    let allowed = format!("a whole number from {} to {}", range.start(), range.end());
    Err(ConfigError::new(field, value, allowed))
}

/// Refuses heads whose features do not come in pairs.
pub(super) fn check_pairs(d_model: usize, n_heads: usize) -> Result<(), ConfigError> {
    if d_model.is_multiple_of(2 * n_heads) {
        return Ok(());
    }
    let allowed = format!("a multiple of {}, twice n_heads: RoPE turns pairs of a head's features", 2 * n_heads);
    Err(ConfigError::new("d_model", d_model, allowed))
}
