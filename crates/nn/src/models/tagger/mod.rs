//! Tagger: predicts a tag for each word from the word, its characters and the words around it.
//!
//! A word's vector concatenates up to three parts: a learned vector of its own, one made from its characters, and the state of
//! its pieces in an encoder that may have been pre-trained on plain text. A [`Body`] makes each word aware of the others.
//! Tags are chosen word by word, or for the whole sentence at once with a CRF.

mod config;

use std::ops::Range;

use burn::module::Module;
use burn::tensor::{Int, Tensor, TensorData};
use regard_ops::{CrossEntropyOptions, cross_entropy, embedding};

pub use config::{PieceUse, TagOutput, TaggerConfig};

use super::body::Body;
use super::encoder::Encoder;
use crate::error::NnError;
use crate::layers::characters::Characters;
use crate::layers::crf::Crf;
use crate::layers::dropout::Dropout;
use crate::layers::embedding::{Embedding, check_tokens};
use crate::layers::linear::Linear;
use crate::layers::word_dropout::WordDropout;
use crate::lengths::Lengths;
use crate::pass::Pass;
use crate::rows::largest;

/// Tagger of the words in sentences; see the [module](self).
#[derive(Module, Debug)]
pub struct Tagger {
    /// Learned vectors of words.
    pub words: Option<Embedding>,
    /// Network that makes vectors of words from their characters.
    pub characters: Option<Characters>,
    /// Encoder of the words' pieces.
    pub encoder: Option<Encoder>,
    /// Body, in which words learn about each other.
    pub body: Body,
    /// Output layer `[d_out, tags]`.
    pub output: Linear,
    /// CRF over the tags of whole sentences.
    pub crf: Option<Crf>,
    word_dropout: WordDropout,
    input_dropout: Dropout,
    state_dropout: Dropout,
    #[module(skip)]
    pieces: PieceUse,
}

/// A batch of sentences to tag.
#[derive(Debug, Clone)]
pub struct TaggerBatch {
    /// Word ids `[batch, seq]`; padding may be any word.
    pub words: Tensor<2, Int>,
    /// Number of words in each sentence.
    pub lengths: Vec<usize>,
    /// Characters of the words, for a tagger that reads them.
    pub characters: Option<WordCharacters>,
    /// Pieces of the sentences, for a tagger with an encoder.
    pub pieces: Option<WordPieces>,
}

/// The characters of the words of a batch, with each distinct word once.
#[derive(Debug, Clone)]
pub struct WordCharacters {
    /// Character ids `[distinct, chars]`; padding may be any character.
    pub ids: Tensor<2, Int>,
    /// Number of characters in each distinct word.
    pub lengths: Vec<usize>,
    /// Index of the distinct word at each place, `[batch, seq]`; padding may be any of them.
    pub index: Tensor<2, Int>,
}

/// The pieces of the sentences of a batch, including the encoder's special tokens.
#[derive(Debug, Clone)]
pub struct WordPieces {
    /// Piece ids `[batch, pieces]`; padding may be any piece.
    pub ids: Tensor<2, Int>,
    /// Number of pieces in each sentence.
    pub lengths: Vec<usize>,
    /// For each sentence, the non-empty range of pieces of each of its words.
    pub words: Vec<Vec<Range<usize>>>,
}

impl Tagger {
    /// Computes the state of each word; states beyond a length are meaningless.
    ///
    /// # Shapes
    /// → `[batch, seq, d_out]`.
    pub fn states(&self, batch: &TaggerBatch, pass: &Pass) -> Result<Tensor<3>, NnError> {
        check_tokens("words", &batch.words)?;
        let shape = batch.words.dims();
        Lengths::new(Some(&batch.lengths), shape, &batch.words.device())?;
        let mut parts = Vec::with_capacity(3);
        if let Some(words) = &self.words {
            parts.push(words.forward(self.word_dropout.forward(batch.words.clone(), pass))?);
        }
        if let Some(characters) = &self.characters {
            let given = batch.characters.as_ref().ok_or_else(|| missing("characters"))?;
            check_index(&given.index, shape)?;
            let distinct = characters.forward(given.ids.clone(), Some(&given.lengths), pass)?;
            parts.push(embedding(distinct, given.index.clone())?);
        }
        if let Some(encoder) = &self.encoder {
            let given = batch.pieces.as_ref().ok_or_else(|| missing("pieces"))?;
            parts.push(self.encoded(encoder, given, &batch.lengths, shape, pass)?);
        }
        let x = if parts.len() == 1 { parts.remove(0) } else { Tensor::cat(parts, 2) };
        let x = self.input_dropout.forward(x, pass)?;
        let states = self.body.forward(x, Some(&batch.lengths), pass)?;
        Ok(self.state_dropout.forward(states, pass)?)
    }

    /// Computes the logits of each word's tags, which are the emissions of the CRF if there is one.
    ///
    /// # Shapes
    /// → `[batch, seq, tags]`.
    pub fn logits(&self, batch: &TaggerBatch, pass: &Pass) -> Result<Tensor<3>, NnError> {
        Ok(self.output.forward(self.states(batch, pass)?)?)
    }

    /// Computes the mean cross-entropy per word or, with a CRF, the negative log-likelihood of the sentences per word. A CRF
    /// does not support label smoothing.
    ///
    /// # Shapes
    /// `tags` `[batch, seq]`, where padding may be any number → `[1]`.
    pub fn loss(
        &self,
        batch: &TaggerBatch,
        tags: Tensor<2, Int>,
        label_smoothing: f32,
        pass: &Pass,
    ) -> Result<Tensor<1>, NnError> {
        let logits = self.logits(batch, pass)?;
        let [sentences, seq, n_tags] = logits.dims();
        if let Some(crf) = &self.crf {
            if label_smoothing != 0.0 {
                return Err(NnError::input("label smoothing of a CRF", "0", label_smoothing.to_string()));
            }
            return crf.loss(logits, tags, Some(&batch.lengths));
        }
        if tags.dims() != [sentences, seq] {
            return Err(NnError::input("tags", format!("[{sentences}, {seq}]"), format!("{:?}", tags.dims())));
        }
        let device = tags.device();
        let mut tags: Vec<i64> = tags.into_data().iter().collect();
        for (row, &length) in tags.chunks_exact_mut(seq).zip(&batch.lengths) {
            row[length..].fill(PADDING);
        }
        let tags = Tensor::from_data(TensorData::new(tags, [sentences * seq]), &device);
        let options = CrossEntropyOptions { label_smoothing, ignore_index: Some(PADDING) };
        Ok(cross_entropy(logits.reshape([sentences * seq, n_tags]), tags, options)?)
    }

    /// Predicts the tags of each sentence.
    pub fn predict(&self, batch: &TaggerBatch, pass: &Pass) -> Result<Vec<Vec<usize>>, NnError> {
        let logits = self.logits(batch, pass)?;
        if let Some(crf) = &self.crf {
            return crf.decode(logits, Some(&batch.lengths));
        }
        let [_, seq, n_tags] = logits.dims();
        let logits: Vec<f32> = logits.into_data().iter().collect();
        let sentences = logits.chunks_exact(seq * n_tags).zip(&batch.lengths);
        Ok(sentences.map(|(logits, &length)| logits.chunks_exact(n_tags).take(length).map(largest).collect()).collect())
    }

    /// Computes each word's vector from the encoder, `[batch, seq, d_model]`; zeros at padding.
    fn encoded(
        &self,
        encoder: &Encoder,
        given: &WordPieces,
        lengths: &[usize],
        [sentences, seq]: [usize; 2],
        pass: &Pass,
    ) -> Result<Tensor<3>, NnError> {
        let states = encoder.forward(given.ids.clone(), Some(given.lengths.clone()), pass)?;
        let ([batch, pieces, _], device) = (states.dims(), states.device());
        let fits = batch == sentences && given.words.iter().map(Vec::len).eq(lengths.iter().copied());
        if !fits {
            let got: Vec<usize> = given.words.iter().map(Vec::len).collect();
            return Err(NnError::input("words with pieces", format!("{lengths:?}"), format!("{got:?}")));
        }
        // Each word is the sum of its sentence's states with these weights.
        let mut weights = vec![0.0f32; sentences * seq * pieces];
        let rows = given.words.iter().zip(&given.lengths).enumerate();
        for (row, range, &length) in rows.flat_map(|(sentence, (words, length))| {
            words.iter().enumerate().map(move |(word, range)| (sentence * seq + word, range, length))
        }) {
            if range.is_empty() || range.end > length {
                let expected = format!("a non-empty range in 0..{length}");
                return Err(NnError::input("pieces of a word", expected, format!("{range:?}")));
            }
            let (range, weight) = match self.pieces {
                PieceUse::First => (range.start..range.start + 1, 1.0),
                PieceUse::Mean => (range.clone(), 1.0 / range.len() as f32),
            };
            weights[row * pieces..][range].fill(weight);
        }
        let weights = Tensor::<3>::from_data(TensorData::new(weights, [sentences, seq, pieces]), &device);
        let padding = Lengths::new(Some(&given.lengths), [batch, pieces], &device)?;
        Ok(weights.matmul(padding.blank(states)))
    }
}

/// Tag that the loss ignores.
const PADDING: i64 = -1;

fn missing(what: &'static str) -> NnError {
    NnError::input(what, "those of every word, because the tagger reads them", "none")
}

fn check_index(index: &Tensor<2, Int>, expected: [usize; 2]) -> Result<(), NnError> {
    if index.dims() == expected {
        return Ok(());
    }
    Err(NnError::input("index of the distinct words", format!("{expected:?}"), format!("{:?}", index.dims())))
}
