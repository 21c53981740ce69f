//! The logit lens (nostalgebraist 2020): what each layer of a language model would predict if it were the last.
//!
//! The hidden state of a token after a layer goes through the final norm and the output layer, as that of the last layer does.

use burn::tensor::Tensor;
use regard_nn::models::language_model::LanguageModel;
use regard_nn::{NnError, Pass};
use serde::Serialize;

use crate::decode::Wish;
use crate::error::TaskError;
use crate::rows::{device_of, matrix};
use crate::writer::{Beginning, Writer};

/// Largest number of tokens of an input: the output layer is computed for each of them after each layer.
const MOST_TOKENS: usize = 512;
/// Number of tokens whose logits are in memory at once.
const TOGETHER: usize = 64;

/// What each layer would predict after each token.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lens {
    /// Tokens of the input.
    pub tokens: Vec<String>,
    /// The embedding and the layers above it, the lowest first.
    pub layers: Vec<LensLayer>,
}

/// What one layer would predict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LensLayer {
    /// `embedding`, or the name of the layer, such as `0`.
    pub name: String,
    /// The most probable next tokens at each token of the input, the most probable first.
    pub positions: Vec<Vec<Guess>>,
}

/// A token with its probability.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Guess {
    /// The token as text.
    pub token: String,
    /// Number of the token in the vocabulary.
    pub id: u32,
    /// Probability of the token.
    pub probability: f64,
}

/// Computes what each layer would predict at each token of a text, as the `top` most probable tokens.
pub fn lens(writer: &dyn Writer, text: &str, top: usize, pass: &Pass) -> Result<Lens, TaskError> {
    let ids = read_tokens(writer, text)?;
    if ids.len() > MOST_TOKENS {
        let expected = format!("at most {MOST_TOKENS} tokens to look through every layer");
        return Err(TaskError::input("input", expected, ids.len().to_string()));
    }
    let network = writer.network();
    let states = network.states_all(matrix(&[&ids], &device_of(network)), pass)?;
    let last = states.len() - 1;
    let mut layers = Vec::with_capacity(states.len());
    for (at, states) in states.into_iter().enumerate() {
        let name = if at == 0 { "embedding".to_string() } else { (at - 1).to_string() };
        // The states of the last layer are normalised already.
        let states = if at == last { states } else { network.stack.normed(states)? };
        let mut positions = Vec::with_capacity(ids.len());
        for first in (0..ids.len()).step_by(TOGETHER) {
            pass.check_cancelled()?;
            let some = states.clone().narrow(1, first, TOGETHER.min(ids.len() - first));
            positions.extend(rows(network, some)?.iter().map(|logits| guesses(writer, logits, top)));
        }
        layers.push(LensLayer { name, positions });
    }
    Ok(Lens { tokens: ids.iter().map(|&id| writer.decode(&[id])).collect(), layers })
}

/// Computes the `top` most probable tokens after a text.
pub fn next_tokens(writer: &dyn Writer, text: &str, top: usize, pass: &Pass) -> Result<Vec<Guess>, TaskError> {
    let all = next(writer.network(), &read_tokens(writer, text)?, pass)?;
    Ok(most_probable(writer, &all, top))
}

/// Returns the tokens of a text as the model reads them before it goes on; only the last ones, if it cannot look back on all.
pub fn read_tokens(writer: &dyn Writer, text: &str) -> Result<Vec<u32>, TaskError> {
    let wish = Wish { max_len: Some(1), beams: Some(1), ..Wish::default() };
    let tokens = writer.begin(&Beginning::Text(text.to_string()), &wish, 0)?.into_prompt();
    let first = writer.window().map_or(0, |window| tokens.len().saturating_sub(window));
    Ok(tokens[first..].to_vec())
}

/// Computes the log-probabilities of the token after the last of `ids`.
pub(crate) fn next(network: &LanguageModel, ids: &[u32], pass: &Pass) -> Result<Vec<f64>, NnError> {
    let states = network.states(matrix(&[ids], &device_of(network)), pass)?;
    let logits = rows(network, states.narrow(1, ids.len() - 1, 1))?;
    Ok(logits.first().map_or_else(Vec::new, |logits| log_softmax(logits)))
}

/// Computes the logits of states `[1, tokens, d_model]`, one row per token.
fn rows(network: &LanguageModel, states: Tensor<3>) -> Result<Vec<Vec<f32>>, NnError> {
    let logits = network.output.logits(states, &network.embedding.tokens)?;
    let vocab = logits.dims()[2];
    let values: Vec<f32> = logits.into_data().iter().collect();
    Ok(values.chunks_exact(vocab).map(<[f32]>::to_vec).collect())
}

fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let most = logits.iter().fold(f32::NEG_INFINITY, |most, &value| most.max(value));
    let sum: f64 = logits.iter().map(|&value| f64::from(value - most).exp()).sum();
    logits.iter().map(|&value| f64::from(value - most) - sum.ln()).collect()
}

/// Returns the most probable tokens.
fn guesses(writer: &dyn Writer, logits: &[f32], top: usize) -> Vec<Guess> {
    most_probable(writer, &log_softmax(logits), top)
}

/// Returns the most probable tokens by their log-probabilities.
fn most_probable(writer: &dyn Writer, all: &[f64], top: usize) -> Vec<Guess> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    let top = top.min(order.len());
    let descending = |a: &usize, b: &usize| all[*b].total_cmp(&all[*a]).then(a.cmp(b));
    if top < order.len() {
        order.select_nth_unstable_by(top, descending);
    }
    order.truncate(top);
    order.sort_unstable_by(descending);
    let guess = |at: usize| Guess { token: writer.decode(&[at as u32]), id: at as u32, probability: all[at].exp() };
    order.into_iter().map(guess).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use regard_nn::{Ablation, AttentionKind, Mode, Site};

    use super::*;

    const TEXT: &str = "a cat sat";

    fn with_model(name: &str, check: impl FnOnce(&dyn Writer, &[u32])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/hugging_face").join(name);
        let model = crate::open(&folder).unwrap();
        let writer = model.writer().unwrap();
        let ids = read_tokens(writer.as_ref(), TEXT).unwrap();
        check(writer.as_ref(), &ids);
    }

    #[test]
    fn a_layer_predicts_what_the_network_without_those_above_it_predicts() {
        with_model("gpt2", |writer, ids| {
            let found = lens(writer, TEXT, 3, &Pass::inference()).unwrap();
            let network = writer.network();
            assert_eq!(found.layers.len(), network.stack.layers.len() + 1);
            assert_eq!((found.tokens.len(), found.layers[1].name.as_str()), (ids.len(), "0"));
            for (depth, layer) in found.layers.iter().enumerate() {
                let mut cut = network.clone();
                cut.stack.layers.truncate(depth);
                for (at, guesses) in layer.positions.iter().enumerate() {
                    let wanted = next(&cut, &ids[..=at], &Pass::inference()).unwrap();
                    let best = (0..wanted.len()).max_by(|&a, &b| wanted[a].total_cmp(&wanted[b])).unwrap();
                    assert_eq!(guesses[0].id as usize, best, "layer {depth}, token {at}");
                    for guess in guesses {
                        let wanted = wanted[guess.id as usize].exp();
                        assert!(
                            (guess.probability - wanted).abs() < 1e-5,
                            "layer {depth}, token {at}: {guess:?} {wanted}"
                        );
                    }
                    assert!(guesses[0].probability >= guesses[2].probability && guesses.len() == 3);
                }
            }
        });
    }

    #[test]
    fn heads_that_are_switched_off_show_in_the_lens() {
        with_model("gpt2", |writer, _| {
            let whole = lens(writer, TEXT, 2, &Pass::inference()).unwrap();
            let site = Site { side: None, layer: 1, kind: AttentionKind::SelfAttention };
            let off = Ablation::of(site, None, Mode::Zero);
            let less = lens(writer, TEXT, 2, &Pass::inference().with_ablation(&off)).unwrap();
            assert_eq!(whole.layers[..2], less.layers[..2]);
            assert_ne!(whole.layers[2], less.layers[2]);
        });
    }
}
