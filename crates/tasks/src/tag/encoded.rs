//! Encoded sentences, and batches of them for the network.

use std::collections::BTreeMap;

use burn::tensor::{Device, Int, Tensor};
use regard_data::{Case, Tagged, Vocabulary};
use regard_nn::layers::characters::CharactersConfig;
use regard_nn::models::tagger::{TaggerBatch, WordCharacters, WordPieces};

use super::pieces::{PieceEncoder, Pieces};
use crate::rows::padded;
use crate::word_vectors::folded;

/// The first entries of the vocabularies of words and characters.
pub(crate) const SPECIALS: [&str; 2] = ["<pad>", "<unk>"];
/// Index of an unknown word or character.
pub(crate) const UNKNOWN: u32 = 1;
/// Number of characters read at either end of a word. They tell most about its tag, and a web address may have hundreds.
const ENDS: usize = 12;

/// The vocabularies of words, characters and tags.
#[derive(Debug)]
pub(crate) struct Lexicon {
    pub words: Vocabulary,
    pub characters: Vocabulary,
    pub labels: Vocabulary,
    case: Case,
}

/// An encoded sentence.
#[derive(Debug, Clone)]
pub struct Encoded {
    pub tokens: Vec<String>,
    /// Index of each word.
    pub words: Vec<u32>,
    /// Indices of the correct tags; tags that training does not have are numbered after the labels.
    pub tags: Vec<usize>,
    pub pieces: Option<Pieces>,
}

impl Lexicon {
    /// Collects words, characters and tags. Characters that occur once become unknown, so that the unknown one is trained.
    pub fn learn(sentences: &[&Tagged], min_count: usize, case: Case) -> Self {
        let words = || sentences.iter().flat_map(|sentence| &sentence.tokens);
        let characters = words().flat_map(|word| word.chars()).map(String::from);
        let mut labels: Vec<String> = sentences.iter().flat_map(|sentence| sentence.tags.iter().cloned()).collect();
        labels.sort();
        labels.dedup();
        Self {
            words: Vocabulary::build(words().map(|word| folded(word, case)), &SPECIALS, min_count),
            characters: Vocabulary::build(characters, &SPECIALS, 2),
            labels: Vocabulary::from_names(labels).expect("labels are distinct"),
            case,
        }
    }

    /// Creates a lexicon from the vocabularies of a model folder.
    pub fn new(words: Vocabulary, characters: Vocabulary, labels: Vocabulary, case: Case) -> Self {
        Self { words, characters, labels, case }
    }

    /// Index of a word, if it has an embedding.
    pub fn word(&self, word: &str) -> Option<u32> {
        self.words.get(&folded(word, self.case)).map(|id| id as u32)
    }

    /// Indices of a word's characters.
    fn characters(&self, word: &str) -> Vec<u32> {
        let mut buffer = [0; 4];
        let mut id = |c: char| self.characters.get(c.encode_utf8(&mut buffer)).map_or(UNKNOWN, |id| id as u32);
        let length = word.chars().count();
        let read = |&(at, _): &(usize, char)| length <= 2 * ENDS || at < ENDS || at >= length - ENDS;
        word.chars().enumerate().filter(read).map(|(_, c)| id(c)).collect()
    }

    /// Encodes a sentence with the given indices of its tags.
    pub fn encode(&self, tokens: Vec<String>, tags: Vec<usize>, encoder: Option<&PieceEncoder>) -> Encoded {
        let words = tokens.iter().map(|word| self.word(word).unwrap_or(UNKNOWN)).collect();
        let pieces = encoder.map(|encoder| encoder.pieces(&tokens));
        Encoded { tokens, words, tags, pieces }
    }

    /// Makes a batch of sentences for the network.
    pub fn batch(&self, sentences: &[&Encoded], characters: &CharactersConfig, device: &Device) -> TaggerBatch {
        let rows: Vec<&[u32]> = sentences.iter().map(|sentence| sentence.words.as_slice()).collect();
        let (words, lengths) = padded(&rows, device);
        let characters = (*characters != CharactersConfig::None).then(|| self.word_characters(sentences, device));
        let all: Option<Vec<&Pieces>> = sentences.iter().map(|sentence| sentence.pieces.as_ref()).collect();
        let pieces = all.map(|all| {
            let rows: Vec<&[u32]> = all.iter().map(|pieces| pieces.ids.as_slice()).collect();
            let (ids, lengths) = padded(&rows, device);
            WordPieces { ids, lengths, words: all.iter().map(|pieces| pieces.words.clone()).collect() }
        });
        TaggerBatch { words, lengths, characters, pieces }
    }

    /// The characters of each distinct word, in order of first occurrence.
    fn word_characters(&self, sentences: &[&Encoded], device: &Device) -> WordCharacters {
        let mut places: BTreeMap<&str, u32> = BTreeMap::new();
        let mut distinct: Vec<Vec<u32>> = Vec::new();
        let mut index: Vec<Vec<u32>> = Vec::with_capacity(sentences.len());
        for sentence in sentences {
            let place = |word| {
                *places.entry(word).or_insert_with(|| {
                    distinct.push(self.characters(word));
                    (distinct.len() - 1) as u32
                })
            };
            index.push(sentence.tokens.iter().map(String::as_str).map(place).collect());
        }
        let (ids, lengths) = padded(&distinct, device);
        WordCharacters { ids, lengths, index: padded(&index, device).0 }
    }
}

impl Encoded {
    /// Words `from..to` as a separate sentence.
    pub fn window(&self, from: usize, to: usize, encoder: Option<&PieceEncoder>) -> Self {
        let tokens = self.tokens[from..to].to_vec();
        let pieces = encoder.map(|encoder| encoder.pieces(&tokens));
        Self { tokens, words: self.words[from..to].to_vec(), tags: self.tags[from..to].to_vec(), pieces }
    }
}

/// The correct tags as a padded tensor `[batch, seq]`.
pub(crate) fn tag_tensor(sentences: &[&Encoded], device: &Device) -> Tensor<2, Int> {
    let rows: Vec<Vec<u32>> =
        sentences.iter().map(|sentence| sentence.tags.iter().map(|&tag| tag as u32).collect()).collect();
    padded(&rows, device).0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lexicon() -> Lexicon {
        let sentence = |words: &[&str]| Tagged {
            tokens: words.iter().map(|word| word.to_string()).collect(),
            tags: words.iter().map(|word| word.to_uppercase()).collect(),
        };
        let sentences = [sentence(&["The", "saw"]), sentence(&["the", "z"])];
        Lexicon::learn(&sentences.iter().collect::<Vec<_>>(), 2, Case::Lower)
    }

    #[test]
    fn rare_words_and_characters_are_unknown() {
        let lexicon = lexicon();
        assert_eq!(lexicon.words.names(), ["<pad>", "<unk>", "the"]);
        assert_eq!((lexicon.word("THE"), lexicon.word("saw")), (Some(2), None));
        assert_eq!(lexicon.labels.names(), ["SAW", "THE", "Z"]);
        assert_eq!(lexicon.characters("zez")[0], UNKNOWN);
        assert_ne!(lexicon.characters("zez")[1], UNKNOWN);
    }

    #[test]
    fn a_long_word_is_read_at_both_ends() {
        let lexicon = lexicon();
        let long = format!("h{}e", "x".repeat(400));
        let (long, short) = (lexicon.characters(&long), lexicon.characters("he"));
        assert_eq!(long.len(), 2 * ENDS);
        assert_eq!((long[0], long[2 * ENDS - 1]), (short[0], short[1]));
        assert_eq!(lexicon.characters(&"h".repeat(2 * ENDS)).len(), 2 * ENDS);
    }

    #[test]
    fn a_batch_has_each_distinct_word_once() {
        let lexicon = lexicon();
        let encoded = |text: &str| {
            let tokens: Vec<String> = text.split(' ').map(String::from).collect();
            let tags = vec![0; tokens.len()];
            lexicon.encode(tokens, tags, None)
        };
        let (a, b) = (encoded("the saw the"), encoded("The"));
        let batch = lexicon.batch(&[&a, &b], &CharactersConfig::convolution(), &Device::flex());
        assert_eq!(batch.lengths, [3, 1]);
        assert_eq!(batch.words.into_data().iter::<i64>().collect::<Vec<_>>(), [2, 1, 2, 2, 0, 0]);
        let characters = batch.characters.unwrap();
        assert_eq!(characters.lengths, [3, 3, 3], "the, saw, The");
        assert_eq!(characters.index.into_data().iter::<i64>().collect::<Vec<_>>(), [0, 1, 0, 2, 0, 0]);
    }
}
