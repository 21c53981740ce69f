//! Generated text, piece by piece.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::decode::{Decoder, Next, Plan, Ranking, SearchOptions, Start, sample_by_rules, search};
use crate::error::TaskError;

/// Maximum tokens of a character, one for each of its four bytes.
const LONGEST_CHARACTER: usize = 4;
/// Maximum tokens kept while a character stays incomplete.
const MOST_TOKENS: usize = 64;

/// A function that returns the text of tokens.
type Decode<'a> = &'a dyn Fn(&[u32]) -> String;

/// A text that is being generated. The text of a token can depend on the token before it (a space between words) and can
/// end within a character (one of its bytes). A piece is therefore the difference between two decoded texts, and an
/// incomplete character at the end is held back.
#[derive(Debug, Clone)]
pub(crate) struct Writing {
    /// The last tokens, including those of the prompt.
    recent: Vec<u32>,
    /// Number of characters of their text that have been returned.
    out: usize,
    /// Number of characters of their text; the last one may be incomplete.
    characters: usize,
    /// Number of consecutive tokens that have not changed `characters`.
    same: usize,
}

impl Writing {
    /// Starts after `prompt`, whose text is not returned.
    pub fn after(decode: Decode, prompt: &[u32]) -> Self {
        let mut writing = Self { recent: prompt.to_vec(), out: 0, characters: 0, same: 0 };
        writing.forget(decode);
        writing
    }

    /// Adds a token and returns the text that is complete now, if any.
    pub fn add(&mut self, decode: Decode, token: u32) -> Option<String> {
        self.recent.push(token);
        let text: Vec<char> = decode(&self.recent).chars().collect();
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
            self.forget(decode);
        }
        (!piece.is_empty()).then_some(piece)
    }

    /// Returns the text that was held back, at the end.
    pub fn rest(&self, decode: Decode) -> String {
        decode(&self.recent).chars().skip(self.out).collect()
    }

    /// Drops all tokens that the text of the next one cannot depend on, and marks the rest as returned.
    fn forget(&mut self, decode: Decode) {
        self.recent.drain(..self.recent.len().saturating_sub(LONGEST_CHARACTER));
        self.characters = decode(&self.recent).chars().count();
        (self.out, self.same) = (self.characters, 0);
    }
}

/// Text that is checked for strings that end it. A piece that may be the beginning of such a string is held back.
#[derive(Debug, Clone)]
pub(crate) struct Stops {
    strings: Vec<String>,
    held: String,
    /// Whether a string has ended the text.
    pub is_over: bool,
}

impl Stops {
    /// Creates the check for these strings.
    pub fn new(strings: &[String]) -> Self {
        Self { strings: strings.to_vec(), held: String::new(), is_over: false }
    }

    /// Adds a piece and returns the text that can be shown now.
    pub fn add(&mut self, piece: &str) -> String {
        if self.is_over {
            return String::new();
        }
        self.held.push_str(piece);
        if let Some(end) = self.strings.iter().filter_map(|stop| self.held.find(stop.as_str())).min() {
            self.is_over = true;
            self.held.truncate(end);
            return std::mem::take(&mut self.held);
        }
        let starts = self.held.char_indices().map(|(at, _)| at);
        let begins = |at: &usize| self.strings.iter().any(|stop| stop.starts_with(&self.held[*at..]));
        let kept = starts.into_iter().find(begins).unwrap_or(self.held.len());
        let rest = self.held.split_off(kept);
        std::mem::replace(&mut self.held, rest)
    }

    /// Adds the last piece and returns all that can be shown, with what was held back.
    pub fn end(&mut self, piece: &str) -> String {
        let mut text = self.add(piece);
        text.push_str(&std::mem::take(&mut self.held));
        text
    }
}

/// What the text of generated tokens depends on.
pub(crate) struct Texting<'a> {
    /// Returns the text of tokens.
    pub decode: &'a dyn Fn(&[u32]) -> String,
    /// Whether the text goes on from that of the start tokens.
    pub is_continued: bool,
}

/// Generates text after each start, each with its own seed, and calls `piece` with the index of a start and the next piece of its
/// text. A beam search has one piece, at its end.
pub(crate) fn write(
    decoder: &mut impl Decoder,
    starts: &[Start],
    seeds: &[u64],
    plan: &Plan,
    texting: &Texting,
    piece: &mut dyn FnMut(usize, &str),
) -> Result<(), TaskError> {
    plan.validate()?;
    let mut writers: Vec<(Writing, Stops)> = starts
        .iter()
        .map(|start| {
            let before: &[u32] = if texting.is_continued { &start.tokens } else { &[] };
            (Writing::after(texting.decode, before), Stops::new(&plan.stop))
        })
        .collect();
    let mut hear = |at: usize, token: u32| -> Next {
        let (writing, stops) = &mut writers[at];
        let text = writing.add(texting.decode, token).map(|text| stops.add(&text)).unwrap_or_default();
        if !text.is_empty() {
            piece(at, &text);
        }
        if stops.is_over { Next::Stop } else { Next::Continue }
    };
    if plan.beams > 1 {
        for (at, tokens) in searched(decoder, starts, plan, texting.decode)?.into_iter().enumerate() {
            for token in tokens {
                if hear(at, token) == Next::Stop {
                    break;
                }
            }
        }
    } else {
        let mut random: Vec<ChaCha8Rng> = seeds.iter().map(|&seed| ChaCha8Rng::seed_from_u64(seed)).collect();
        sample_by_rules(decoder, starts, &plan.sampling, &plan.rules, &mut random, hear)?;
    }
    for (at, (writing, mut stops)) in writers.into_iter().enumerate() {
        if stops.is_over {
            continue;
        }
        let text = stops.end(&writing.rest(texting.decode));
        if !text.is_empty() {
            piece(at, &text);
        }
    }
    Ok(())
}

/// Returns the tokens of the best hypothesis after each start.
pub(crate) fn searched(
    decoder: &mut impl Decoder,
    starts: &[Start],
    plan: &Plan,
    decode: Decode,
) -> Result<Vec<Vec<u32>>, TaskError> {
    let options = SearchOptions {
        size: plan.beams,
        length_penalty: plan.length_penalty,
        ranking: Ranking::Power(plan.patience),
        ends: plan.sampling.stop.clone(),
        rules: plan.rules.clone(),
    };
    let found = search(decoder, starts, &options, |tokens| is_over(tokens, &plan.stop, decode))?;
    Ok(found.into_iter().map(|all| all.into_iter().next().map(|one| one.tokens).unwrap_or_default()).collect())
}

/// Returns whether the text of tokens contains one of the strings, which their last token completes.
pub(crate) fn is_over(tokens: &[u32], stop: &[String], decode: Decode) -> bool {
    let longest = stop.iter().map(String::len).max().unwrap_or(0);
    // A token has at least one byte, except for some that have none.
    let recent = &tokens[tokens.len().saturating_sub(2 * longest + LONGEST_CHARACTER)..];
    longest > 0 && {
        let text = decode(recent);
        stop.iter().any(|stop| text.contains(stop.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regard_data::{Case, Tokenizer, TokenizerConfig, TokenizerKind};

    use super::*;

    #[test]
    fn text_ends_before_a_stop_string_that_comes_in_pieces() {
        let strings = ["END".to_string(), "EN\n".to_string()];
        for (pieces, shown, is_over) in [
            (vec!["a E", "N", "D b"], vec!["a ", "", ""], true),
            (vec!["a E", "N", " b"], vec!["a ", "", "EN b"], false),
            (vec!["EEN", "\nx"], vec!["E", ""], true),
            (vec!["€E", "€END"], vec!["€", "E€"], true),
        ] {
            let mut stops = Stops::new(&strings);
            let found: Vec<String> = pieces.iter().map(|piece| stops.add(piece)).collect();
            assert_eq!((found.iter().map(String::as_str).collect::<Vec<_>>(), stops.is_over), (shown, is_over));
        }
    }

    fn tokenizer(kind: TokenizerKind, texts: &[&str]) -> Tokenizer {
        let config = TokenizerConfig { kind, vocab: 300, case: Case::Keep, min_count: 1 };
        Tokenizer::train(&config, texts.iter().copied()).unwrap()
    }

    fn written(tokenizer: &Tokenizer, prompt: &[u32], tokens: &[u32]) -> Vec<String> {
        let decode = |ids: &[u32]| tokenizer.decode(ids);
        let mut writing = Writing::after(&decode, prompt);
        let mut pieces: Vec<String> = tokens.iter().filter_map(|&token| writing.add(&decode, token)).collect();
        pieces.push(writing.rest(&decode));
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
