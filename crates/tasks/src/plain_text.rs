//! Plain text, the data of the tasks `generate` and `pretrain`.

use std::path::Path;

use regard_data::{Splits, builtin, split_text};

use crate::error::TaskError;

/// Seed of the built-in text, which is the same for every run.
const SEED: u64 = 1;

/// Loads the splits of a text, one string each: of the file or folder at `path`, or of the built-in text without one.
pub(crate) fn load(path: Option<&Path>) -> Result<Splits<String>, TaskError> {
    match path {
        Some(path) => Ok(split_text(path)?),
        None => Ok(divided(&builtin::text(SEED))),
    }
}

/// Splits a text at ends of lines: the first 90 % for training, 5 % for dev and 5 % for test.
fn divided(text: &str) -> Splits<String> {
    let cut = |share: usize| {
        let near = text.len() * share / 100;
        // Searching bytes is safe for any text: a cut after a newline is on a character boundary.
        text.bytes().skip(near).position(|byte| byte == b'\n').map_or(text.len(), |line| near + line + 1)
    };
    let (dev, test) = (cut(90), cut(95));
    let part = |range: std::ops::Range<usize>| vec![text[range].to_string()];
    Splits::new(part(0..dev), part(dev..test), part(test..text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_splits_make_up_the_text_and_end_with_lines() {
        let text = builtin::text(SEED);
        let parts = divided(&text);
        let (train, dev, test) = (&parts.train[0], &parts.dev[0], &parts.test[0]);
        assert_eq!(format!("{train}{dev}{test}"), text);
        assert!(train.ends_with('\n') && dev.ends_with('\n'));
        for (part, share) in [(train, 0.90), (dev, 0.05), (test, 0.05)] {
            assert!((part.len() as f64 / text.len() as f64 - share).abs() < 0.005, "{}", part.len());
        }
        assert_eq!(divided("été\n été").train, ["été\n été"]);
    }
}
