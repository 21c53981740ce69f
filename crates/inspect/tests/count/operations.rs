//! Tests the number of operations against plain counting.

use proptest::prelude::*;
use regard_inspect::count::{Architecture, Count, Description, Sizes, seen_pairs};
use regard_nn::layers::attention::multi_head::Weighing;
use regard_nn::layers::block::NormPlace;
use regard_nn::layers::feed_forward::Gate;
use regard_nn::layers::position::Position;
use regard_nn::models::image::cnn::{AttentionBlocks, AttentionBlocksConfig, CnnConfig};
use regard_nn::models::image::dnn::DnnConfig;
use regard_nn::models::image::vision_transformer::{Stem, VisionTransformerConfig};
use regard_nn::models::image::{ImageClassifierConfig, ImageShape, NetworkConfig};
use regard_nn::models::transformer::{Sight, TransformerConfig};
use regard_ops::Mask;

use super::{counted, part};

/// Counts the pairs that see each other one by one.
fn brute(mask: Mask, seq: usize) -> u128 {
    let sees = |i: usize, j: usize| match mask {
        Mask::Full => true,
        Mask::Causal => j <= i,
        Mask::Window { left, right } => j + left >= i && j <= i + right,
    };
    (0..seq).flat_map(|i| (0..seq).map(move |j| (i, j))).filter(|&(i, j)| sees(i, j)).count() as u128
}

proptest! {
    #[test]
    fn the_number_of_pairs_agrees_with_counting(seq in 1usize..40, left in 0usize..50, right in 0usize..50) {
        for mask in [Mask::Full, Mask::Causal, Mask::Window { left, right }] {
            prop_assert_eq!(seen_pairs(mask, seq), Some(brute(mask, seq)), "{:?}", mask);
        }
    }
}

#[test]
fn pairs_of_long_sequences() {
    assert_eq!(seen_pairs(Mask::Causal, 1 << 20), Some((1 << 19) * ((1 << 20) + 1)));
    assert_eq!(seen_pairs(Mask::Window { left: usize::MAX, right: usize::MAX }, 7), Some(49));
    // (2⁶⁴ − 1)² fits in 128 bits, and so do all intermediate results.
    assert_eq!(seen_pairs(Mask::Causal, usize::MAX), Some(u128::from(u64::MAX) << 63));
}

const CONFIG: TransformerConfig = TransformerConfig {
    vocab: 50,
    target_vocab: Some(70),
    n_layers: 3,
    n_decoder_layers: Some(2),
    d_model: 12,
    n_heads: 4,
    kv_heads: Some(2),
    d_head: Some(6),
    d_ff: 20,
    activation: regard_ops::Activation::Relu,
    gate: Gate::Product,
    norm: regard_nn::layers::norm::NormKind::Rms,
    epsilon: 1e-5,
    norm_place: NormPlace::Pre,
    bias: regard_nn::layers::linear::Bias::Learned,
    qkv_bias: None,
    score_scale: regard_nn::layers::attention::multi_head::ScoreScale::Root,
    query_key_norm: regard_nn::layers::attention::multi_head::QueryKeyNorm::None,
    position: Position::None,
    sight: Sight::Window { left: 2, right: 1 },
    attention: Weighing::Softmax,
    embedding_scale: regard_nn::models::transformer::EmbeddingScale::None,
    token_types: 0,
    embedding_norm: regard_nn::models::transformer::EmbeddingNorm::None,
    output_weights: regard_nn::models::transformer::OutputWeights::Embedding,
    output_bias: regard_nn::layers::linear::Bias::None,
    output_scale: regard_nn::models::transformer::OutputScale::None,
    memory: regard_nn::models::transformer::Memory::Last,
    dropout: 0.0,
    attention_dropout: 0.0,
    feed_forward_dropout: 0.0,
    embedding_dropout: None,
    attention_output_dropout: None,
    state_dropout: regard_nn::models::transformer::StateDropout::None,
};

fn count(architecture: Architecture) -> Count {
    let sizes = Sizes { batch: 5, seq: 9, target_seq: Some(7) };
    counted(&Description { sizes, ..Description::new(architecture) })
}

/// Returns the operations of a product with `rows` rows.
fn product(rows: u128, d_in: u128, d_out: u128) -> u128 {
    2 * rows * d_in * d_out
}

#[test]
fn products_of_every_shape() {
    // Rows: 5 sequences of 9 source and 7 target tokens. Queries are 24 features wide, keys 12.
    let (source, target) = (5 * 9, 5 * 7);
    let feed_forward = |rows| 3 * product(rows, 12, 20);
    let around = |rows| product(rows, 12, 24 + 2 * 12) + product(rows, 24, 12);
    let pairs = |pairs: u128| 5 * 4 * pairs * 4 * 6;
    let window = brute(Mask::Window { left: 2, right: 1 }, 9);
    let encoder = 3 * (around(source) + feed_forward(source) + pairs(window));
    assert_eq!(count(Architecture::Encoder(CONFIG)).flops.forward, encoder);

    let back = brute(Mask::Window { left: 2, right: 0 }, 9);
    let layers = 3 * (around(source) + feed_forward(source) + pairs(back));
    let sight = Sight::Window { left: 2, right: 0 };
    let decoder = count(Architecture::Decoder(TransformerConfig { sight, ..CONFIG }));
    assert_eq!(decoder.flops.forward, layers + product(source, 12, 50));
    assert_eq!(decoder.flops.training_step, 3 * decoder.flops.forward);

    let cross = product(target, 12, 24) + product(source, 12, 24) + product(target, 24, 12) + pairs(7 * 9);
    let upper = 2 * (around(target) + pairs(7 * 8 / 2) + cross + feed_forward(target));
    let whole = count(Architecture::EncoderDecoder(CONFIG));
    assert_eq!(part(&whole, &["decoder"]).total.flops, upper + product(target, 12, 70));
    assert_eq!(whole.flops.forward, encoder + upper + product(target, 12, 70));
    assert_eq!(whole.memory.logits, 4 * target * 70);
    // Two layers; keys and values of 12 features in f32, for the target and for the source.
    assert_eq!(whole.memory.kv_cache, 2 * 2 * 12 * 4 * (target + source));
    assert_eq!(decoder.memory.kv_cache, 3 * 2 * 12 * 4 * source);
}

#[test]
fn products_of_classifiers_of_images() {
    let image = ImageShape { channels: 2, height: 6, width: 5 };
    let count = |network, image| {
        count(Architecture::Image(ImageClassifierConfig { image, outputs: 3, network, ..Default::default() }))
            .flops
            .forward
    };
    // Each convolution is a product over its outputs' positions: 5 images of 6 × 5, then of 3 × 3.
    let both = AttentionBlocks::Both(AttentionBlocksConfig::default());
    let cnn = CnnConfig { channels: vec![4, 8], groups: 2, attention: both, ..Default::default() };
    let (large, small) = (5 * 6 * 5, 5 * 3 * 3);
    let convolutions = product(large, 9 * 2, 4)
        + 2 * product(large, 9 * 4, 4)
        + product(small, 9 * 4, 8)
        + product(small, 9 * 8, 8)
        + product(small, 4, 8);
    // Between 9 positions with keys of 1 and values of 4 features, and between 8 channels with 9 features each.
    let spatial = product(small, 8, 1 + 1 + 4) + product(small, 4, 8) + 5 * product(9, 9, 1 + 4);
    let channel = 5 * 2 * product(8, 8, 9);
    assert_eq!(count(NetworkConfig::Cnn(cnn), image), convolutions + spatial + channel + product(5, 8, 3));

    // An image of 6 × 4 has 6 patches of 2 × 2, and a class token before them.
    let vit = VisionTransformerConfig { patch: 2, d_model: 8, n_layers: 3, n_heads: 2, ..Default::default() };
    let tokens = 5 * 7;
    let layer = product(tokens, 8, 24) + product(tokens, 8, 8) + 2 * product(tokens, 8, 32) + 5 * 2 * product(7, 7, 8);
    let image = ImageShape { width: 4, ..image };
    let whole = product(5 * 6, 2 * 4, 8) + 3 * layer + product(5, 8, 3);
    assert_eq!(count(NetworkConfig::Vit(vit), image), whole);
    // Convolutions read 3 × 3 pixels for each patch, and the embedding their 8 channels.
    let stem = product(5 * 6, 2 * 9, 8) + product(5 * 6, 8, 8);
    let convolutions = VisionTransformerConfig { stem: Stem::Convolutions, ..vit };
    assert_eq!(count(NetworkConfig::Vit(convolutions), image), whole - product(5 * 6, 2 * 4, 8) + stem);
    let dnn = DnnConfig { hidden: vec![7], ..Default::default() };
    assert_eq!(count(NetworkConfig::Dnn(dnn), image), product(5, 2 * 6 * 4, 7) + product(5, 7, 3));
}

#[test]
fn linear_attention_costs_a_state_and_no_pairs() {
    let linear = TransformerConfig { attention: Weighing::Linear, sight: Sight::Full, ..CONFIG };
    let softmax = TransformerConfig { attention: Weighing::Softmax, ..linear };
    let [linear, softmax] = [linear, softmax].map(|config| count(Architecture::Decoder(config)));
    assert_eq!(linear.parameters(), softmax.parameters());
    // 3 layers and 5 sequences of 9 tokens; 2 key heads fill a state of 6 × 6, and 4 query heads read it.
    let products = |count: &Count| part(count, &["layers", "attention", "products"]).total.flops;
    assert_eq!(products(&linear), 5 * (2 * product(9, 6, 6) + 4 * product(9, 6, 6)));
    assert_eq!(products(&softmax), 5 * 4 * (9 * 10 / 2) * 4 * 6);
    // One denominator for each query instead of one log-sum-exp.
    assert_eq!(linear.memory.activations, softmax.memory.activations);
    assert_eq!(linear.memory.activations_dense, linear.memory.activations);
    // 2 key heads keep a state of 6 × 6 numbers, a sum of keys and a sum of values.
    assert_eq!(linear.memory.kv_cache, 4 * 3 * 5 * 2 * (6 * 6 + 6 + 6));
    let long = Description {
        sizes: Sizes { batch: 5, seq: 900, target_seq: None },
        ..Description::new(Architecture::Decoder(TransformerConfig {
            attention: Weighing::Linear,
            sight: Sight::Full,
            ..CONFIG
        }))
    };
    assert_eq!(counted(&long).memory.kv_cache, linear.memory.kv_cache);
}

#[test]
fn a_shared_vocabulary_shares_parameters_but_not_work() {
    let rope = Position::Rope(Default::default());
    for position in [Position::Floater(Default::default()), Position::Rnn(Default::default()), rope] {
        let apart = TransformerConfig { position, target_vocab: Some(50), ..CONFIG };
        let shared = TransformerConfig { target_vocab: None, ..apart };
        let [apart, shared] = [apart, shared].map(|config| count(Architecture::EncoderDecoder(config)));
        assert_eq!(shared.flops, apart.flops, "{position:?}");
        assert_eq!(shared.memory.activations, apart.memory.activations, "{position:?}");
        let once = ["embedding", "positions"].map(|name| part(&shared, &[name]).total.parameters);
        assert_eq!(apart.parameters() - shared.parameters(), once.iter().sum::<u128>(), "{position:?}");
    }
}

#[test]
fn a_dense_attention_keeps_its_weights() {
    for seq in [64, 128] {
        let sizes = Sizes { batch: 5, seq, target_seq: None };
        let description = Description { sizes, ..Description::new(Architecture::Encoder(CONFIG)) };
        let memory = counted(&description).memory;
        // Instead of one log-sum-exp per query, a weight for each key; in 3 layers, 5 sequences, 4 heads.
        let more = 3 * 5 * 4 * seq as u128 * (seq as u128 - 1) * 4;
        assert_eq!(memory.activations_dense - memory.activations, more);
        assert_eq!(memory.training, 4 * memory.weights + memory.activations);
    }
}
