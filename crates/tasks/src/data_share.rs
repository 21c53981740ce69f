//! `data.share`: training on a part of the data, to study how much of them a model needs.

use regard_data::{Splits, hash};
use regard_nn::ConfigError;

use crate::error::TaskError;

/// Returns an error if `data.share` is no share.
pub fn check_share(share: f64) -> Result<(), ConfigError> {
    match share > 0.0 && share <= 1.0 {
        true => Ok(()),
        false => Err(ConfigError::new("data.share", share, "a number above 0, up to 1")),
    }
}

/// Keeps a share of the training examples and adds a note about it. The hash of an example's `input` decides, so that every seed
/// has the same examples, and a larger share has those of a smaller one.
pub fn keep_share<T>(
    splits: &mut Splits<T>,
    share: f64,
    what: &str,
    input: impl Fn(&T) -> String,
) -> Result<(), TaskError> {
    if share >= 1.0 {
        return Ok(());
    }
    let all = splits.train.len();
    splits.train.retain(|example| place(&input(example)) < share);
    let kept = splits.train.len();
    if kept == 0 {
        let got = format!("{share}, which leaves none of {all}");
        return Err(TaskError::input("data.share", format!("a share of the training {what} that leaves some"), got));
    }
    splits.notes.push(format!("{kept} of {all} training {what} are used (data.share)"));
    Ok(())
}

/// Maps an input to a number from 0 to below 1 by its hash.
fn place(input: &str) -> f64 {
    // Not the hash that splits a file, which is not uniform within a split.
    (hash(format!("share\t{input}").as_bytes()) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(share: f64) -> Result<Splits<String>, TaskError> {
        let train = (0..2_000).map(|number| format!("example {number}")).collect();
        let mut splits = Splits::new(train, vec!["dev".to_string()], Vec::new());
        keep_share(&mut splits, share, "pairs", Clone::clone).map(|()| splits)
    }

    #[test]
    fn a_larger_share_has_the_examples_of_a_smaller_one() {
        let (fifth, half, all) = (kept(0.2).unwrap(), kept(0.5).unwrap(), kept(1.0).unwrap());
        assert!((300..500).contains(&fifth.train.len()) && (900..1100).contains(&half.train.len()));
        assert!(fifth.train.iter().all(|example| half.train.contains(example)));
        assert_eq!((all.train.len(), all.notes.len(), fifth.dev.len()), (2_000, 0, 1));
        assert_eq!(fifth.notes, [format!("{} of 2000 training pairs are used (data.share)", fifth.train.len())]);
    }

    #[test]
    fn a_share_that_leaves_nothing_is_refused() {
        assert!(kept(1e-9).unwrap_err().to_string().contains("data.share"));
        for wrong in [0.0, -0.5, 1.5, f64::NAN] {
            assert!(check_share(wrong).is_err(), "{wrong}");
        }
    }
}
