//! Notes about the data that a run prints before it starts.

use regard_data::{Split, TokenizerKind, listed};

/// Formats the sizes of the splits: `texts: 360 train, 20 dev, 20 test`.
pub(crate) fn sizes(what: &str, train: usize, dev: usize, test: Option<usize>) -> String {
    let test = test.map_or(String::new(), |test| format!(", {test} test"));
    format!("{what}: {train} train, {dev} dev{test}")
}

/// Formats the share of unknown tokens in each split; `None` if all are known. `unknown` is the id of the unknown token, and
/// `splits` has the token ids of each split.
pub(crate) fn unknown<'a, Ids: Iterator<Item = &'a u32>>(
    what: &str,
    unknown: u32,
    splits: impl IntoIterator<Item = (Split, Ids)>,
) -> Option<String> {
    let mut any = false;
    let share = |(split, ids): (Split, Ids)| {
        let (count, all) =
            ids.fold((0usize, 0usize), |(count, all), id| (count + usize::from(*id == unknown), all + 1));
        any |= count > 0;
        format!("{:.1} % of {split}", 100.0 * count as f64 / all.max(1) as f64)
    };
    let shares: Vec<String> = splits.into_iter().map(share).collect();
    any.then(|| format!("unknown {what}: {}", shares.join(", ")))
}

/// Formats the names of labels that a split has and training does not; `None` if there are none.
pub(crate) fn unseen(split: Split, what: &str, names: &[String]) -> Option<String> {
    let note =
        || format!("{split} has {what} that train does not, so the model cannot predict them: {}", listed(names));
    (!names.is_empty()).then(note)
}

/// Returns a note on how texts without spaces between words are tokenised, if there is something to note.
pub(crate) fn unspaced(kind: TokenizerKind) -> Option<String> {
    let told = match kind {
        TokenizerKind::Char => "their tokens are characters (data.tokenizer.kind)",
        TokenizerKind::Word => "whole phrases are taken for words; data.tokenizer.kind=char or bpe suits them better",
        TokenizerKind::Bpe => return None,
    };
    Some(format!("the texts have no spaces between words: {told}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_short() {
        assert_eq!(sizes("texts", 9, 2, None), "texts: 9 train, 2 dev");
        assert_eq!(sizes("texts", 9, 2, Some(3)), "texts: 9 train, 2 dev, 3 test");
        assert_eq!(unknown("words", 0, [(Split::Dev, [1, 2].iter())]), None);
        let splits: [(Split, &[u32]); 2] = [(Split::Dev, &[0, 1, 1, 1, 1, 1, 1, 1]), (Split::Test, &[])];
        let note = unknown("words", 0, splits.map(|(split, ids)| (split, ids.iter()))).unwrap();
        assert_eq!(note, "unknown words: 12.5 % of dev, 0.0 % of test");
        let names: Vec<String> = (0..20).map(|n| format!("{n}{}", "x".repeat(10_000))).collect();
        let note = unseen(Split::Test, "labels", &names).unwrap();
        assert!(note.ends_with("and 12 more") && note.len() < 500, "{note}");
    }
}
