//! Decoding of generated tokens into text, piece by piece.

/// Maximum tokens of a character, one for each of its four bytes.
const LONGEST_CHARACTER: usize = 4;
/// Maximum tokens kept while a character stays incomplete.
const MOST_TOKENS: usize = 64;

/// A function that returns the text of tokens.
type Decode<'a> = Box<dyn Fn(&[u32]) -> String + 'a>;

/// A text that is being generated. The text of a token can depend on the token before it (a space between words) and can
/// end within a character (one of its bytes). A piece is therefore the difference between two decoded texts, and an
/// incomplete character at the end is held back.
pub(crate) struct Writing<'a> {
    decode: Decode<'a>,
    /// The last tokens, including those of the prompt.
    recent: Vec<u32>,
    /// Number of characters of their text that have been returned.
    out: usize,
    /// Number of characters of their text; the last one may be incomplete.
    characters: usize,
    /// Number of consecutive tokens that have not changed `characters`.
    same: usize,
}

impl<'a> Writing<'a> {
    /// Starts after `prompt`, whose text is not returned.
    pub fn after(decode: impl Fn(&[u32]) -> String + 'a, prompt: &[u32]) -> Self {
        let decode = Box::new(decode);
        let mut writing = Self { decode, recent: prompt.to_vec(), out: 0, characters: 0, same: 0 };
        writing.forget();
        writing
    }

    /// Adds a token and returns the text that is complete now, if any.
    pub fn add(&mut self, token: u32) -> Option<String> {
        self.recent.push(token);
        let text: Vec<char> = self.text().chars().collect();
        self.same = if text.len() == self.characters { self.same + 1 } else { 0 };
        self.characters = text.len();
        // A replacement character at the end is an incomplete character, unless it has lasted too long to be one.
        let half = text.last() == Some(&char::REPLACEMENT_CHARACTER)
            && self.same + 1 < LONGEST_CHARACTER
            && self.recent.len() < MOST_TOKENS;
        let end = text.len() - usize::from(half);
        let piece: String = text.get(self.out..end).unwrap_or_default().iter().collect();
        self.out = self.out.max(end);
        if !half {
            self.forget();
        }
        (!piece.is_empty()).then_some(piece)
    }

    /// Returns the text that was held back, at the end.
    pub fn rest(self) -> String {
        self.text().chars().skip(self.out).collect()
    }

    fn text(&self) -> String {
        (self.decode)(&self.recent)
    }

    /// Drops all tokens that the text of the next one cannot depend on, and marks the rest as returned.
    fn forget(&mut self) {
        self.recent.drain(..self.recent.len().saturating_sub(LONGEST_CHARACTER));
        self.characters = self.text().chars().count();
        (self.out, self.same) = (self.characters, 0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regard_data::{Case, Tokenizer, TokenizerConfig, TokenizerKind};

    use super::*;

    fn tokenizer(kind: TokenizerKind, texts: &[&str]) -> Tokenizer {
        let config = TokenizerConfig { kind, vocab: 300, case: Case::Keep, min_count: 1 };
        Tokenizer::train(&config, texts.iter().copied()).unwrap()
    }

    fn written(tokenizer: &Tokenizer, prompt: &[u32], tokens: &[u32]) -> Vec<String> {
        let mut writing = Writing::after(|ids: &[u32]| tokenizer.decode(ids), prompt);
        let mut pieces: Vec<String> = tokens.iter().filter_map(|&token| writing.add(token)).collect();
        pieces.push(writing.rest());
        pieces
    }

    #[test]
    fn bytes_wait_for_their_character() {
        let tokenizer = tokenizer(TokenizerKind::Bpe, &["plain"]);
        let ids = tokenizer.ids("a€b");
        assert_eq!(ids.len(), 5);
        assert_eq!(written(&tokenizer, &tokenizer.ids("x"), &ids), ["a", "€", "b", ""]);
        // Text that ends within a character is returned, not lost.
        assert_eq!(written(&tokenizer, &[], &ids[..2]), ["a", "\u{fffd}"]);
        // Invalid bytes do not hold back the text for ever.
        let broken: Vec<u32> = std::iter::repeat_n(ids[1], 9).chain([ids[0]]).collect();
        assert!(written(&tokenizer, &[], &broken).concat().ends_with('a'));
    }

    #[test]
    fn words_keep_their_spaces() {
        let text = "the cat sat, and it was the hat.";
        let tokenizer = tokenizer(TokenizerKind::Word, &[text]);
        let ids = tokenizer.ids(text);
        assert_eq!(written(&tokenizer, &ids[..2], &ids[2..]).concat(), &text["the cat".len()..]);
    }

    proptest! {
        #[test]
        fn pieces_make_the_text(prompt in "[a-c€é ]{1,6}", text in "\\PC{0,30}") {
            // A replacement character in the text itself cannot be distinguished from an incomplete character.
            prop_assume!(!text.contains(char::REPLACEMENT_CHARACTER));
            for kind in [TokenizerKind::Bpe, TokenizerKind::Char] {
                let tokenizer = tokenizer(kind, &[&prompt, &text]);
                let pieces = written(&tokenizer, &tokenizer.ids(&prompt), &tokenizer.ids(&text));
                prop_assert_eq!(pieces.concat(), text.clone());
            }
        }
    }
}
