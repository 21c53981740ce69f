//! Loss of a language model on a text, and the share of exactly right sentences.

use serde::{Deserialize, Serialize};

/// The summed loss of a text, with the numbers of tokens and characters. The losses of several parts can be added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TextLoss {
    /// Sum of the losses of all tokens in nats, `−Σ ln p`.
    pub nats: f64,
    /// Number of tokens predicted.
    pub tokens: u64,
    /// Number of characters in those tokens.
    pub characters: u64,
}

impl TextLoss {
    /// Adds the loss of another part of the text.
    pub fn add(&mut self, other: TextLoss) {
        self.nats += other.nats;
        self.tokens += other.tokens;
        self.characters += other.characters;
    }

    /// Returns the loss per token in nats; `None` without tokens.
    pub fn loss(&self) -> Option<f64> {
        (self.tokens > 0).then(|| self.nats / self.tokens as f64)
    }

    /// Returns the perplexity, `exp` of the loss per token; `None` without tokens.
    pub fn perplexity(&self) -> Option<f64> {
        self.loss().map(f64::exp)
    }

    /// Returns `nats / (ln 2 · characters)`, which does not depend on the tokeniser; `None` without characters.
    pub fn bits_per_character(&self) -> Option<f64> {
        (self.characters > 0).then(|| self.nats / (std::f64::consts::LN_2 * self.characters as f64))
    }
}

/// Returns the share of hypotheses that equal one of their references, apart from spaces at both ends; 0 without hypotheses.
///
/// # Panics
/// If `hypotheses` and `references` differ in length.
pub fn exact_match(hypotheses: &[String], references: &[Vec<String>]) -> f64 {
    assert_eq!(hypotheses.len(), references.len(), "one list of references per hypothesis");
    let right = hypotheses
        .iter()
        .zip(references)
        .filter(|(hypothesis, references)| references.iter().any(|one| one.trim() == hypothesis.trim()));
    super::score::ratio(right.count() as u64, hypotheses.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fair_coin_has_one_bit_and_perplexity_two() {
        let mut loss = TextLoss { nats: 3.0 * std::f64::consts::LN_2, tokens: 3, characters: 3 };
        loss.add(TextLoss { nats: std::f64::consts::LN_2, tokens: 1, characters: 1 });
        assert!((loss.perplexity().unwrap() - 2.0).abs() < 1e-12);
        assert!((loss.bits_per_character().unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(TextLoss::default().perplexity(), None);
        assert_eq!(TextLoss::default().bits_per_character(), None);
    }

    #[test]
    fn one_of_the_references_is_enough() {
        let hypotheses = ["a b ".to_owned(), "c".to_owned()];
        let references = [vec!["x".to_owned(), "a b".to_owned()], vec!["C".to_owned()]];
        assert_eq!(exact_match(&hypotheses, &references), 0.5);
        assert_eq!(exact_match(&[], &[]), 0.0);
    }
}
