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

const MOST_WORDS: usize = 12;
const LONGEST_WORD: usize = 20;

/// Returns an error if there are no words, too many, or one that would not fit into a picture.
pub(super) fn check_words(words: &[String]) -> Result<(), ConfigError> {
    let count = words.len();
    if !(1..=MOST_WORDS).contains(&count) {
        return Err(ConfigError::new("words", format!("{count} words"), format!("1 to {MOST_WORDS} words")));
    }
    let fits = |word: &&String| (1..=LONGEST_WORD).contains(&word.chars().count()) && !word.contains(char::is_control);
    match words.iter().find(|word| !fits(word)) {
        Some(word) => {
            let allowed = format!("words of 1 to {LONGEST_WORD} printable characters");
            Err(ConfigError::new("words", format!("{word:?}"), allowed))
        }
        None => Ok(()),
    }
}

/// Returns an error if a number is outside `range` or no number.
pub(super) fn check_real(field: &str, value: f64, range: RangeInclusive<f64>) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(ConfigError::new(field, value, format!("a number from {} to {}", range.start(), range.end())))
}

/// Returns an error if there are too few or too many numbers, or one is outside `range`.
pub(super) fn check_numbers(
    field: &str,
    values: &[f64],
    count: RangeInclusive<usize>,
    range: RangeInclusive<f64>,
) -> Result<(), ConfigError> {
    if !count.contains(&values.len()) {
        let allowed = format!("{} to {} numbers", count.start(), count.end());
        return Err(ConfigError::new(field, format!("{} numbers", values.len()), allowed));
    }
    values.iter().try_for_each(|&value| check_real(field, value, range.clone()))
}
