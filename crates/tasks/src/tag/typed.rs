//! Words of a sentence as people type it: "I saw a saw." has five.

/// Endings that corpora write as words of their own.
const ENDINGS: [&str; 8] = ["n't", "'s", "'re", "'ve", "'ll", "'d", "'m", "'"];

/// The words of a text: what stands between spaces, without the marks before and after it, which are words of their own.
/// What `is_known` says to be a word ("Mr.", "'s") stays whole; so do marks that stand alone, and a word with a full stop
/// inside and at its end ("U.S.").
pub(super) fn words(text: &str, is_known: impl Fn(&str) -> bool) -> Vec<String> {
    let mut words = Vec::new();
    for chunk in text.split_whitespace() {
        cut(chunk, &is_known, &mut words);
    }
    words
}

fn cut(chunk: &str, is_known: &dyn Fn(&str) -> bool, words: &mut Vec<String>) {
    let is_mark = |c: char| !c.is_alphanumeric();
    let mut rest = chunk;
    while !rest.is_empty() && !is_known(rest) && !rest.chars().all(is_mark) && rest.starts_with(is_opening) {
        let (mark, after) = rest.split_at(run(rest.chars()));
        words.push(mark.to_string());
        rest = after;
    }
    let mut marks = Vec::new();
    while !is_known(rest) && !rest.chars().all(is_mark) && !is_abbreviation(rest) && rest.ends_with(is_closing) {
        let (before, mark) = rest.split_at(rest.len() - run(rest.chars().rev()));
        marks.push(mark.to_string());
        rest = before;
    }
    if !rest.is_empty() {
        let ending =
            ENDINGS.iter().find(|ending| rest.len() > ending.len() && rest.ends_with(**ending) && is_known(ending));
        match ending {
            Some(ending) if !is_known(rest) => {
                let (stem, ending) = rest.split_at(rest.len() - ending.len());
                words.extend([stem.to_string(), ending.to_string()]);
            }
            _ => words.push(rest.to_string()),
        }
    }
    words.extend(marks.into_iter().rev());
}

/// Bytes of the first character with those like it, so that "..." is one mark.
fn run(mut characters: impl Iterator<Item = char>) -> usize {
    let Some(first) = characters.next() else { return 0 };
    first.len_utf8() * (1 + characters.take_while(|&c| c == first).count())
}

fn is_opening(c: char) -> bool {
    "\"'([{“‘«¿¡".contains(c)
}

fn is_closing(c: char) -> bool {
    ".,;:!?\"')]}”’»…".contains(c)
}

fn is_abbreviation(word: &str) -> bool {
    word.strip_suffix('.').is_some_and(|rest| rest.contains('.') && !rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::words;

    fn cut(text: &str) -> Vec<String> {
        words(text, |word| ["'s", "n't", "Mr.", ":)"].contains(&word))
    }

    #[test]
    fn marks_are_words() {
        assert_eq!(cut("I saw a saw."), ["I", "saw", "a", "saw", "."]);
        assert_eq!(cut("I saw a saw ."), ["I", "saw", "a", "saw", "."]);
        assert_eq!(cut("(\"Really?!\")"), ["(", "\"", "Really", "?", "!", "\"", ")"]);
        assert_eq!(cut("Wait... no"), ["Wait", "...", "no"]);
        assert_eq!(cut("  "), Vec::<String>::new());
    }

    #[test]
    fn known_words_and_abbreviations_stay_whole() {
        assert_eq!(cut("Mr. X left the U.S."), ["Mr.", "X", "left", "the", "U.S."]);
        assert_eq!(cut("fine :) --"), ["fine", ":)", "--"]);
        assert_eq!(cut("Anna's cat didn't"), ["Anna", "'s", "cat", "did", "n't"]);
        assert_eq!(cut("we'll"), ["we'll"], "an ending that the data do not have");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_words_stay_words(text in "[a-b.,'\"!() ]{0,30}") {
            let words = cut(&text);
            let without = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(words.concat(), without(&text));
            prop_assert!(words.iter().all(|word| !word.is_empty()));
        }
    }
}
