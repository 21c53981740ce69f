//! Character error rate: how many characters must be changed, left out or put in to correct texts.

/// The smallest number of changes that turn one text into another: characters replaced, left out or put in (Levenshtein 1966).
pub fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (n, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = n + 1;
        for (at, &b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(row[at] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

/// Returns the character error rate: the edits of all hypotheses, divided by the characters of all references. It can exceed 1.
/// Without characters it is 0.
///
/// # Panics
/// If `hypotheses` and `references` differ in length.
pub fn character_error_rate<S: AsRef<str>>(hypotheses: &[S], references: &[S]) -> f64 {
    assert_eq!(hypotheses.len(), references.len(), "one reference per hypothesis");
    let pairs = hypotheses.iter().zip(references);
    let errors: usize = pairs.map(|(hypothesis, reference)| edits(hypothesis.as_ref(), reference.as_ref())).sum();
    let characters: usize = references.iter().map(|reference| reference.as_ref().chars().count()).sum();
    super::score::ratio(errors as u64, characters as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_by_hand() {
        for (from, to, count) in
            [("", "", 0), ("abc", "", 3), ("", "ab", 2), ("kitten", "sitting", 3), ("134", "1234", 1), ("äb", "ab", 1)]
        {
            assert_eq!((edits(from, to), edits(to, from)), (count, count), "{from:?} {to:?}");
        }
        assert_eq!(character_error_rate(&["12", "345"], &["123", "345"]), 1.0 / 6.0);
        assert_eq!(character_error_rate(&["11111"], &["1"]), 4.0);
        assert_eq!(character_error_rate::<&str>(&[], &[]), 0.0);
    }
}
