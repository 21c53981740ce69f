//! Splitting of typed sentences into words: "I saw a saw." has five. Text without spaces is split at known words, the longest
//! first.

use regard_data::{is_han, is_unspaced, lacks_spaces};

/// Endings that corpora write as separate words.
const ENDINGS: [&str; 8] = ["n't", "'s", "'re", "'ve", "'ll", "'d", "'m", "'"];

/// Splits a text into words at spaces, and separates punctuation before and after each word. A word for which `is_known`
/// returns true ("Mr.", "'s") stays whole, and so do punctuation that stands alone and abbreviations with a full stop inside
/// and at the end ("U.S.").
pub(crate) fn words(text: &str, is_known: impl Fn(&str) -> bool) -> Vec<String> {
    let mut words = Vec::new();
    // Spaces between letters of a script without spaces mean that the text is already split.
    let chunks: Vec<&str> = text.split_whitespace().collect();
    let between = |pair: &[&str]| pair[0].ends_with(is_unspaced) && pair[1].starts_with(is_unspaced);
    let is_cut = chunks.windows(2).any(between) && !lacks_spaces([text]);
    for chunk in chunks {
        match !is_cut && chunk.contains(is_unspaced) {
            true => cut_unspaced(chunk, &is_known, &mut words),
            false => cut(chunk, &is_known, &mut words),
        }
    }
    words
}

/// Maximum characters of a known word that is searched for in text without spaces.
const LONGEST: usize = 16;

/// Splits a chunk with letters of a script without spaces at the longest known words. Elsewhere a Chinese character is a
/// word, and other letters form one word up to the next known word.
fn cut_unspaced(chunk: &str, is_known: &dyn Fn(&str) -> bool, words: &mut Vec<String>) {
    let mut unknown = String::new();
    let mut rest = chunk;
    while let Some(first) = rest.chars().next() {
        let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).take(LONGEST).collect::<Vec<_>>();
        // Within an unknown word, a single known letter does not count as a word.
        let least = if unknown.is_empty() || is_han(first) { 1 } else { 2 };
        let known = ends.iter().skip(least - 1).rev().find(|&&end| is_known(&rest[..end])).copied();
        let (end, is_alone) = match known {
            Some(end) => (end, true),
            // Punctuation and Chinese characters stand alone; Latin words and numbers are split as elsewhere.
            None if is_han(first) || !is_unspaced(first) && !first.is_alphanumeric() => (first.len_utf8(), true),
            None if !is_unspaced(first) => {
                words.extend((!unknown.is_empty()).then(|| std::mem::take(&mut unknown)));
                let end = rest.find(is_unspaced).unwrap_or(rest.len());
                cut(&rest[..end], is_known, words);
                rest = &rest[end..];
                continue;
            }
            None => (first.len_utf8(), false),
        };
        match is_alone {
            true => {
                words.extend((!unknown.is_empty()).then(|| std::mem::take(&mut unknown)));
                words.push(rest[..end].to_string());
            }
            false => unknown.push(first),
        }
        rest = &rest[end..];
    }
    words.extend((!unknown.is_empty()).then_some(unknown));
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

/// Number of bytes of the first character and its repetitions, so that "..." is one word.
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
    fn punctuation_is_separated() {
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
        assert_eq!(cut("we'll"), ["we'll"], "an unknown ending");
    }

    #[test]
    fn text_without_spaces_is_split_at_known_words() {
        let cut = |text: &str| {
            words(text, |word| ["我", "喜欢", "电影", "看电影", "映画", "は", "ฉัน", "ชอบ"].contains(&word))
        };
        assert_eq!(cut("我喜欢看电影。"), ["我", "喜欢", "看电影", "。"]);
        assert_eq!(cut("他喜欢 iPhone15手机！"), ["他", "喜欢", "iPhone15", "手", "机", "！"]);
        assert_eq!(cut("映画はおもしろい"), ["映画", "は", "おもしろい"]);
        assert_eq!(cut("ฉันชอบกาแฟ"), ["ฉัน", "ชอบ", "กาแฟ"]);
        assert_eq!(cut("我 喜欢 手机"), ["我", "喜欢", "手机"], "already split");
    }

    proptest! {
        #[test]
        fn no_character_is_lost_and_no_word_is_empty(text in "[a-b.,'\"!() 电影。のก]{0,30}") {
            let words = cut(&text);
            let without = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(words.concat(), without(&text));
            prop_assert!(words.iter().all(|word| !word.is_empty()));
        }
    }
}
