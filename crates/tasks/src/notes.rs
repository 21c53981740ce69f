//! What a run says of its data before it starts.

use regard_data::{Split, TokenizerKind};

/// Names in a note at most.
const NAMED: usize = 8;
/// Characters of a name at most.
const LONGEST_NAME: usize = 40;

/// How many examples the splits have: `texts: 360 train, 20 dev, 20 test`.
pub(crate) fn sizes(what: &str, train: usize, dev: usize, test: Option<usize>) -> String {
    let test = test.map_or(String::new(), |test| format!(", {test} test"));
    format!("{what}: {train} train, {dev} dev{test}")
}

/// The share of tokens that the model does not know, of each split as `(split, unknown, all)`; nothing where it knows all.
pub(crate) fn unknown(what: &str, counts: &[(Split, usize, usize)]) -> Option<String> {
    let share = |(split, unknown, all): &(Split, usize, usize)| {
        format!("{:.1} % of {split}", 100.0 * *unknown as f64 / (*all).max(1) as f64)
    };
    let any = counts.iter().any(|(_, unknown, _)| *unknown > 0);
    any.then(|| format!("unknown {what}: {}", counts.iter().map(share).collect::<Vec<_>>().join(", ")))
}

/// Labels of a split that training does not have, so that no answer to them can be right.
pub(crate) fn unseen(split: Split, what: &str, names: &[String]) -> Option<String> {
    let note =
        || format!("{split} has {what} that train does not, and no answer to them can be right: {}", listed(names));
    (!names.is_empty()).then(note)
}

/// What is to be said of texts without spaces between words.
pub(crate) fn unspaced(kind: TokenizerKind) -> Option<String> {
    let told = match kind {
        TokenizerKind::Char => "their tokens are characters (data.tokenizer.kind)",
        TokenizerKind::Word => "whole phrases are taken for words; data.tokenizer.kind=char or bpe suits them better",
        TokenizerKind::Bpe => return None,
    };
    Some(format!("the texts have no spaces between words: {told}"))
}

/// The first of many names, each cut where it is long.
pub(crate) fn listed<S: AsRef<str>>(names: &[S]) -> String {
    let shown = names.iter().take(NAMED).map(|name| short(name.as_ref())).collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => "none".to_string(),
        n if n > NAMED => format!("{shown} and {} more", n - NAMED),
        _ => shown,
    }
}

fn short(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_short() {
        assert_eq!(sizes("texts", 9, 2, None), "texts: 9 train, 2 dev");
        assert_eq!(sizes("texts", 9, 2, Some(3)), "texts: 9 train, 2 dev, 3 test");
        assert_eq!(unknown("words", &[(Split::Dev, 0, 10)]), None);
        let shares = [(Split::Dev, 1, 8), (Split::Test, 0, 0)];
        assert_eq!(unknown("words", &shares).unwrap(), "unknown words: 12.5 % of dev, 0.0 % of test");
        let names: Vec<String> = (0..20).map(|n| format!("{n}{}", "x".repeat(10_000))).collect();
        let note = unseen(Split::Test, "labels", &names).unwrap();
        assert!(note.ends_with("and 12 more") && note.len() < 500, "{note}");
    }
}
