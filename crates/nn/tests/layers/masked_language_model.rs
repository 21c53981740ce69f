//! Tests of the masked language model against PyTorch, and of the masking of tokens.

use burn::tensor::{Int, Tensor};
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use regard_nn::models::masked_language_model::{Masked, MaskedLanguageModel, Masking, mask_tokens};
use regard_nn::models::transformer::TransformerConfig;
use regard_nn::{Init, Pass};
use regard_ops::CrossEntropyOptions;

use crate::golden::Golden;
use crate::link::{Action, Link};
use crate::support::{close, training, values};

fn model() -> MaskedLanguageModel {
    let config = TransformerConfig {
        vocab: 11,
        n_layers: 1,
        d_model: 8,
        n_heads: 2,
        d_ff: 12,
        dropout: 0.0,
        ..Default::default()
    };
    MaskedLanguageModel::new(&config, &Init::new(1, &training())).unwrap()
}

#[test]
fn logits_loss_and_all_gradients_match_pytorch() {
    let golden = Golden::open("masked_language_model");
    let mut model = model();
    let link = |action, model: &mut MaskedLanguageModel| {
        let link = Link { golden: &golden, case: "model", action };
        link.plain(&mut model.encoder.embedding.tokens.weight, "tokens.weight", None);
        link.encoder_block(&mut model.encoder.stack.layers[0], "block.");
        link.linear(&mut model.transform, "transform");
        link.norm(&mut model.norm, "norm");
        link.plain(&mut model.bias, "bias.value", None);
    };
    link(Action::Load, &mut model);
    let ids = || golden.integers::<2>("model/ids", &training());
    let (lengths, positions, pass) = (|| Some(vec![5, 3]), [1, 4, 5, 7], Pass::inference());
    let logits = model.logits(ids(), lengths(), &positions, &pass).unwrap();
    close("logits", &values(logits), &golden.floats("model/logits"), 1e-5);
    let targets = golden.integers::<1>("model/targets", &training());
    let loss = model.loss(ids(), lengths(), &positions, targets, CrossEntropyOptions::default(), &pass).unwrap();
    close("loss", &values(loss.clone()), &golden.floats("model/loss"), 1e-5);
    link(Action::Compare(&loss.backward(), 2e-5), &mut model);
}

#[test]
fn bad_positions_are_named() {
    let model = model();
    let refused = |positions: &[usize]| {
        let ids = Tensor::<2, Int>::zeros([2, 3], &training());
        model.logits(ids, None, positions, &Pass::inference()).unwrap_err().to_string()
    };
    assert_eq!(refused(&[]), "positions: expected one or more, each below 6, got none");
    assert_eq!(refused(&[1, 6]), "positions: expected one or more, each below 6, got 6");
}

const MASKING: Masking = Masking { vocab: 50, specials: 5, mask: 4, probability: 0.15 };

fn masked(ids: &[i32], seq: usize, lengths: &[usize], seed: u64) -> Masked {
    mask_tokens(ids, seq, lengths, &MASKING, &mut ChaCha8Rng::seed_from_u64(seed)).unwrap()
}

proptest! {
    #[test]
    fn only_ordinary_tokens_are_chosen(
        (seq, lengths, ids) in (1usize..12).prop_flat_map(|seq| (Just(seq), prop::collection::vec(0..=seq, 1..4))).prop_flat_map(
            |(seq, lengths)| {
                let count = seq * lengths.len();
                (Just(seq), Just(lengths), prop::collection::vec(0i32..50, count))
            },
        ),
        seed in any::<u64>(),
    ) {
        let Masked { inputs, positions, targets } = masked(&ids, seq, &lengths, seed);
        let ordinary = |place: usize| place % seq < lengths[place / seq] && ids[place] >= 5;
        prop_assert!(positions.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert!(positions.iter().all(|&place| ordinary(place)));
        prop_assert_eq!(positions.is_empty(), !(0..ids.len()).any(ordinary));
        prop_assert_eq!(targets, positions.iter().map(|&place| ids[place]).collect::<Vec<_>>());
        for (place, (&before, &after)) in ids.iter().zip(&inputs).enumerate() {
            prop_assert!(before == after || positions.contains(&place));
            prop_assert!(before == after || after == 4 || (5..50).contains(&after));
        }
        prop_assert_eq!(inputs, masked(&ids, seq, &lengths, seed).inputs);
    }
}

/// 15 % of the tokens are chosen; of these 80 % are hidden, 10 % replaced, 10 % left. Each is within four deviations.
#[test]
fn shares_are_as_published() {
    let n = 100_000;
    let ids: Vec<i32> = (0..n as i32).map(|n| 5 + n % 45).collect();
    let Masked { inputs, positions, .. } = masked(&ids, n, &[n], 7);
    let near = |what: &str, count: usize, of: usize, share: f64| {
        let deviation = (of as f64 * share * (1.0 - share)).sqrt();
        let off = (count as f64 - of as f64 * share).abs();
        assert!(off <= 4.0 * deviation, "{what}: {count} of {of}");
    };
    near("chosen", positions.len(), n, 0.15);
    let count = |test: &dyn Fn(usize) -> bool| positions.iter().filter(|&&place| test(place)).count();
    near("hidden", count(&|place| inputs[place] == 4), positions.len(), 0.8);
    // One in 45 replacements is the token itself.
    let replaced = count(&|place| inputs[place] != 4 && inputs[place] != ids[place]);
    near("replaced", replaced, positions.len(), 0.1 * 44.0 / 45.0);
    assert_ne!(positions, masked(&ids, n, &[n], 8).positions);
}

#[test]
fn bad_masking_is_refused() {
    let refused = |masking: Masking, seq| {
        mask_tokens(&[5, 6], seq, &[1], &masking, &mut ChaCha8Rng::seed_from_u64(1)).unwrap_err().to_string()
    };
    assert_eq!(
        refused(MASKING, 3),
        "ids: expected 1 sequences of 3 tokens, lengths at most 3, got 2 tokens, lengths [1]"
    );
    assert_eq!(refused(Masking { specials: 50, ..MASKING }, 2), "specials = 50: expected fewer than vocab, 50");
    assert_eq!(refused(Masking { mask: 50, ..MASKING }, 2), "mask = 50: expected a token id below 50");
    assert!(refused(Masking { probability: 1.5, ..MASKING }, 2).starts_with("probability = 1.5"));
}
