//! Tests of self-attention with linear weights: blocks against PyTorch, decoding from the running state, what is captured, and
//! what is refused.

use burn::module::Module;
use burn::tensor::{Int, Tensor};
use proptest::prelude::*;
use regard_nn::layers::attention::cache::{AttentionCache, Cached};
use regard_nn::layers::attention::cross_attention::CrossAttention;
use regard_nn::layers::attention::multi_head::{MultiHeadConfig, Weighing};
use regard_nn::layers::attention::self_attention::SelfAttention;
use regard_nn::layers::block::encoder::EncoderBlock;
use regard_nn::layers::block::{BlockConfig, NormPlace};
use regard_nn::layers::position::{Places, Position};
use regard_nn::models::encoder::Encoder;
use regard_nn::models::encoder_decoder::EncoderDecoder;
use regard_nn::models::language_model::LanguageModel;
use regard_nn::models::transformer::{Sight, TransformerConfig};
use regard_nn::{Ablation, Capture, Init, Pass};
use regard_ops::{Activation, AttentionOptions, Dropout, Mask, SparseRows};

use crate::case::{each_case, ids, integers};
use crate::golden::Golden;
use crate::link::{Action, Link, compare};
use crate::support::{close, gradient, leaf, loss, training, values};

fn options(mask: Mask, lengths: Option<Vec<usize>>) -> AttentionOptions {
    AttentionOptions { mask, lengths, ..AttentionOptions::default() }
}

/// A language model with grouped heads.
fn config(position: Position) -> TransformerConfig {
    TransformerConfig {
        vocab: 11,
        n_layers: 2,
        d_model: 16,
        n_heads: 4,
        kv_heads: Some(2),
        d_ff: 24,
        position,
        attention: Weighing::Linear,
        ..TransformerConfig::default()
    }
}

fn positions() -> impl Iterator<Item = Position> {
    Position::all().filter(|position| !matches!(position, Position::Alibi | Position::Relative(_)))
}

fn tokens(seq: usize) -> Vec<usize> {
    (0..seq).map(|i| (i * i + 3 * i) % 11).collect()
}

#[test]
fn blocks_match_pytorch() {
    let golden = Golden::open("linear_blocks");
    each_case("linear_blocks", |case| {
        let norm_place = if case.options["pre"] == true { NormPlace::Pre } else { NormPlace::Post };
        let block = BlockConfig { norm_place, activation: Activation::Gelu, ..BlockConfig::new(8, 2, 16) };
        let config = BlockConfig { weighing: Weighing::Linear, ..block };
        let mut block = EncoderBlock::new(&config, &Init::new(1, &training())).unwrap();
        Link { golden: &golden, case: &case.name, action: Action::Load }.encoder_block(&mut block, "");
        let mask = if case.options["causal"] == true { Mask::Causal } else { Mask::Full };
        let (x, lengths) = (case.leaf::<3>("x"), case.lengths());
        let (options, capture) = (options(mask, Some(lengths)), Capture::default());
        let run = |pass: &Pass| block.forward(x.clone(), None, &options, &Places::default(), pass).unwrap();
        let out = run(&Pass::inference());
        assert_eq!(values(out.clone()), values(run(&Pass::inference().with_capture(&capture))));
        let weights: Vec<f32> = capture.into_maps().into_iter().flat_map(|map| map.rows).flatten().collect();
        case.expect("weights", &weights);
        let gradients = loss(&out, &case.tensor("grad_out"));
        case.expect("out", &values(out));
        compare("input", &gradient(&x, &gradients), &case.floats("grad_x"), 1e-5);
        let action = Action::Compare(&gradients, 1e-5);
        Link { golden: &golden, case: &case.name, action }.encoder_block(&mut block, "");
    });
}

#[test]
fn parameters_are_those_of_softmax_attention() {
    let linear = config(Position::Sinusoidal);
    let softmax = TransformerConfig { attention: Weighing::Softmax, ..linear };
    let [linear, softmax] =
        [linear, softmax].map(|config| LanguageModel::new(&config, &Init::new(5, &training())).unwrap());
    let weights = |model: &LanguageModel| values(model.stack.layers[1].attention.qkv.weight.val());
    assert_eq!(weights(&linear), weights(&softmax));
    assert_eq!(linear.num_params(), softmax.num_params());
    let logits = |model: &LanguageModel| values(model.logits(ids([[1, 2, 3, 4]]), &Pass::inference()).unwrap());
    assert_ne!(logits(&linear), logits(&softmax));
    let old: TransformerConfig = serde_json::from_str(r#"{"vocab": 3}"#).unwrap();
    assert_eq!(old.attention, Weighing::Softmax);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Decoding in pieces of any size equals the whole sequence at once, for every kind of position.
    #[test]
    fn cached_decoding_equals_the_full_pass(pieces in prop::collection::vec(1usize..6, 1..6)) {
        let seq: usize = pieces.iter().sum();
        let (pass, all) = (Pass::inference(), tokens(seq));
        for position in positions() {
            let model = LanguageModel::new(&config(position), &Init::new(2, &training())).unwrap();
            let full = values(model.logits(integers(&all, [1, seq]), &pass).unwrap());
            let (mut caches, mut parts, mut start) = (model.caches(), Vec::new(), 0);
            for &piece in &pieces {
                let new = integers(&all[start..start + piece], [1, piece]);
                parts.push(model.logits_cached(new, &mut caches, &pass).unwrap());
                start += piece;
                prop_assert!(caches.iter().all(|cache| cache.len() == start));
            }
            close(position.name(), &values(Tensor::cat(parts, 1)), &full, 2e-5);
        }
    }

    /// Sequences of unequal length that pass through the model together get the logits that they get alone.
    #[test]
    fn sequences_with_their_own_states_do_not_mix(lengths in prop::collection::vec((1usize..6, 1usize..4), 1..4)) {
        let model = LanguageModel::new(&config(Position::Sinusoidal), &Init::new(2, &training())).unwrap();
        let pass = Pass::inference();
        let rows: Vec<Vec<u32>> = lengths.iter().enumerate()
            .map(|(row, (first, more))| tokens(first + more).iter().map(|&token| (token + row) as u32 % 11).collect())
            .collect();
        let mut caches = model.caches_apart(rows.len());
        let new: Vec<&[u32]> = rows.iter().zip(&lengths).map(|(row, (first, _))| &row[..*first]).collect();
        model.logits_apart(&new, &mut caches, &pass).unwrap();
        let new: Vec<&[u32]> = rows.iter().zip(&lengths).map(|(row, (first, _))| &row[*first..]).collect();
        let got = values(model.logits_apart(&new, &mut caches, &pass).unwrap());
        for (row, got) in rows.iter().zip(got.chunks(11)) {
            let ids: Vec<usize> = row.iter().map(|&id| id as usize).collect();
            let alone = values(model.logits(integers(&ids, [1, ids.len()]), &pass).unwrap());
            close("row", got, &alone[(ids.len() - 1) * 11..], 2e-5);
        }
    }

    /// Changing a token changes no logits before it, and some at it and after it.
    #[test]
    fn later_tokens_do_not_change_earlier_logits(seq in 2usize..90, share in 0.0f32..1.0) {
        let model = LanguageModel::new(&config(Position::Sinusoidal), &Init::new(2, &training())).unwrap();
        let (first, cut) = (tokens(seq), 1 + (share * (seq - 1) as f32) as usize);
        let mut second = first.clone();
        second[cut] = (second[cut] + 1) % 11;
        let run = |ids: &[usize]| values(model.logits(integers(ids, [1, seq]), &Pass::inference()).unwrap());
        let (a, b) = (run(&first), run(&second));
        prop_assert_eq!(&a[..cut * 11], &b[..cut * 11]);
        prop_assert!(a[(seq - 1) * 11..] != b[(seq - 1) * 11..]);
    }
}

#[test]
fn padding_does_not_change_the_states_of_an_encoder() {
    for (position, sight) in positions().flat_map(|position| [(position, Sight::Full), (position, Sight::Causal)]) {
        let config = TransformerConfig { sight, ..config(position) };
        let encoder = Encoder::new(&config, &Init::new(2, &training())).unwrap();
        let run = |ids: Tensor<2, Int>, lengths| values(encoder.forward(ids, lengths, &Pass::inference()).unwrap());
        let alone = run(integers(&tokens(4), [1, 4]), None);
        for padding in [0, 9] {
            let row = [tokens(4), vec![padding; 3], tokens(7)].concat();
            let both = run(integers(&row, [2, 7]), Some(vec![4, 7]));
            close(position.name(), &both[..4 * 16], &alone, 3e-6);
        }
    }
}

#[test]
fn captured_weights_are_positive_and_sum_to_one() {
    let model = LanguageModel::new(&config(Position::Rope(Default::default())), &Init::new(2, &training())).unwrap();
    let capture = Capture::default();
    model.logits(integers(&tokens(14), [2, 7]), &Pass::inference().with_capture(&capture)).unwrap();
    let maps = capture.into_maps();
    assert_eq!(maps.len(), 2 * 2 * 4, "layers, sequences and heads");
    for (i, row) in maps.iter().flat_map(|map| map.rows.iter().enumerate()) {
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6, "{row:?}");
        assert!(row[..=i].iter().all(|&weight| weight > 0.0) && row[i + 1..].iter().all(|&weight| weight == 0.0));
    }
}

#[test]
fn heads_can_be_switched_off_in_whole_and_cached_passes() {
    let init = Init::new(3, &training());
    let heads = MultiHeadConfig { weighing: Weighing::Linear, kv_heads: Some(2), ..MultiHeadConfig::new(16, 4) };
    let layer = SelfAttention::new(&heads, &init).unwrap();
    let (x, causal) = (leaf([2, 6, 16], 1), options(Mask::Causal, None));
    let plain = values(layer.forward(x.clone(), &causal, &Places::default(), &Pass::inference()).unwrap());
    for names in ["0.0", "0.1=uniform", "0.2=self", "0=uniform", "0"] {
        let off = Ablation::parse(names, &init.inventory()).unwrap();
        let pass = Pass::inference().with_ablation(&off);
        let whole = values(layer.forward(x.clone(), &causal, &Places::default(), &pass).unwrap());
        assert_ne!(whole, plain, "{names}");
        let (mut cache, mut parts, mut start) = (AttentionCache::new(), Vec::new(), 0);
        for piece in [2, 1, 3] {
            let (part, cached) = (x.clone().narrow(1, start, piece), Some(Cached::Together(&mut cache)));
            parts.push(layer.forward_onto(part, None, cached, &causal, &Places::default(), &pass).unwrap());
            start += piece;
        }
        close(names, &values(Tensor::cat(parts, 1)), &whole, 1e-5);
    }
    // The mean over the visible keys, computed by hand for head 0, which uses key head 0.
    let off = Ablation::parse("0.0=uniform,0.1,0.2,0.3", &init.inventory()).unwrap();
    let full = options(Mask::Full, Some(vec![6, 3]));
    let got = layer.forward(x.clone(), &full, &Places::default(), &Pass::inference().with_ablation(&off)).unwrap();
    let v = layer.qkv.forward(x.clone()).unwrap().narrow(2, 16 + 8, 4);
    let mean = |sequence: usize, length: usize| v.clone().narrow(0, sequence, 1).narrow(1, 0, length).mean_dim(1);
    let mixed = Tensor::cat(vec![mean(0, 6), mean(1, 3)], 0).repeat_dim(1, 6);
    let mixed = Tensor::cat(vec![mixed.clone(), Tensor::zeros([2, 6, 12], &training())], 2);
    close("uniform", &values(got), &values(layer.output.forward(mixed).unwrap()), 1e-5);
}

#[test]
fn a_cache_keeps_the_chosen_sequences() {
    let model = LanguageModel::new(&config(Position::Sinusoidal), &Init::new(2, &training())).unwrap();
    let (mut caches, pass) = (model.caches(), Pass::inference());
    let rows = [tokens(3), vec![9, 8, 7], vec![1, 1, 2]];
    model.logits_cached(integers(&rows.concat(), [3, 3]), &mut caches, &pass).unwrap();
    let chosen = Tensor::<1, Int>::from_ints([2, 0], &training());
    caches.iter_mut().for_each(|cache| cache.select(chosen.clone()));
    let got = values(model.logits_cached(integers(&[5, 6], [2, 1]), &mut caches, &pass).unwrap());
    let whole = [&rows[2][..], &[5], &rows[0], &[6]].concat();
    let want = values(model.logits(integers(&whole, [2, 4]), &pass).unwrap());
    close("chosen", &got, &[&want[3 * 11..4 * 11], &want[7 * 11..]].concat(), 2e-5);
    // A cache of the other kind of attention is refused.
    let softmax = TransformerConfig { attention: Weighing::Softmax, ..config(Position::Sinusoidal) };
    let softmax = LanguageModel::new(&softmax, &Init::new(2, &training())).unwrap();
    let error = softmax.logits_cached(integers(&[5, 6], [2, 1]), &mut caches, &pass).unwrap_err().to_string();
    assert_eq!(error, "cache: expected one of softmax attention, got one of linear attention");
    let mut other = softmax.caches();
    softmax.logits_cached(integers(&[5, 6], [2, 1]), &mut other, &pass).unwrap();
    let error = model.logits_cached(integers(&[5, 6], [2, 1]), &mut other, &pass).unwrap_err().to_string();
    assert_eq!(error, "cache: expected one of linear attention, got one of softmax attention");
}

#[test]
fn what_linear_attention_does_not_have_is_refused_by_name() {
    let message = |config: TransformerConfig| config.validate().unwrap_err().to_string();
    for position in [Position::Alibi, Position::Relative(Default::default())] {
        let error = message(config(position));
        let expected = "none, sinusoidal, learned, rope, floater or rnn when attention is linear";
        assert!(error.starts_with(&format!("position = {}: expected {expected}", position.name())), "{error}");
    }
    let plain = config(Position::None);
    let window = Sight::Window { left: 2, right: 0 };
    let error = message(TransformerConfig { sight: window, ..plain });
    assert_eq!(error, "sight = window: expected full or causal when attention is linear");
    let error = message(TransformerConfig { attention_dropout: 0.1, ..plain });
    assert_eq!(error, "attention_dropout = 0.1: expected 0 when attention is linear, which has no single weights");
    let init = Init::new(1, &training());
    let error = EncoderDecoder::new(&plain, &init).unwrap_err().to_string();
    assert_eq!(error, "attention = linear: expected softmax, the only one of a translator");
    let heads = MultiHeadConfig { weighing: Weighing::Linear, ..MultiHeadConfig::new(8, 2) };
    assert!(MultiHeadConfig { dropout: 0.1, ..heads }.validate().unwrap_err().to_string().starts_with("dropout = 0.1"));
    let error = CrossAttention::new(&heads, 8, &init).unwrap_err().to_string();
    assert_eq!(error, "weighing = linear: expected softmax in cross-attention");

    let layer = SelfAttention::new(&heads, &init).unwrap();
    let refused = |options: AttentionOptions, cached: bool| {
        let mut cache = AttentionCache::new();
        let cache = cached.then_some(Cached::Together(&mut cache));
        let x = leaf([1, 3, 8], 1);
        layer.forward_onto(x, None, cache, &options, &Places::default(), &Pass::inference()).unwrap_err().to_string()
    };
    let plain = AttentionOptions::default();
    let dropout = Some(Dropout { probability: 0.1, seed: 1 });
    for (given, name) in [
        (options(Mask::Window { left: 1, right: 0 }, None), "window"),
        (AttentionOptions { scale: Some(2.0), ..plain.clone() }, "scale"),
        (AttentionOptions { sparse: Some(SparseRows::new(vec![vec![0]; 3])), ..plain.clone() }, "sparse mask"),
        (AttentionOptions { bias: Some(leaf([1, 1, 3, 3], 1)), ..plain.clone() }, "bias"),
        (AttentionOptions { dropout, ..plain.clone() }, "dropout of weights"),
    ] {
        let error = refused(given, false);
        assert!(error.contains(name) && error.contains("linear attention does not have it"), "{error}");
    }
    assert!(refused(plain, true).contains("causal"));
    assert!(refused(options(Mask::Causal, Some(vec![2])), true).contains("no padding"));
}
