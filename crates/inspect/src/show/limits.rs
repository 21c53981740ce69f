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
