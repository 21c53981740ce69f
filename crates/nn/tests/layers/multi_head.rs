//! Tests of multi-head attention against PyTorch, of its properties by perturbation, of the cache and of the capture.

use burn::module::Param;
use burn::tensor::{Bool, Int, Tensor, TensorData};
use proptest::prelude::*;
use regard_nn::layers::attention::cache::{AttentionCache, Cached};
use regard_nn::layers::attention::cross_attention::CrossAttention;
use regard_nn::layers::attention::multi_head::MultiHeadConfig;
use regard_nn::layers::attention::self_attention::SelfAttention;
use regard_nn::layers::position::{Places, Position, PositionSizes, Positions};
use regard_nn::{AttentionKind, Capture, Init, Pass, Site, Wanted};
use regard_ops::{AttentionOptions, Mask, SparseRows};

use crate::golden::Golden;
use crate::link::{Action, Link, compare};
use crate::support::{close, gradient, leaf, loss, training, values};

#[test]
fn outputs_weights_and_all_gradients_match_pytorch() {
    let golden = Golden::open("multi_head");
    for (case, options) in golden.cases() {
        let name = |tensor: &str| format!("{case}/{tensor}");
        let n_heads = options["n_heads"].as_u64().unwrap() as usize;
        let lengths = options["lengths"].as_array();
        let lengths = lengths.map(|list| list.iter().map(|n| n.as_u64().unwrap() as usize).collect());
        let mask = if options["causal"].as_bool().unwrap() { Mask::Causal } else { Mask::Full };
        let attention = AttentionOptions { mask, lengths, ..AttentionOptions::default() };
        let x: Tensor<3> = golden.tensor(&name("x"), &training()).require_grad();
        let config = MultiHeadConfig::new(x.dims()[2], n_heads);
        let init = Init::new(1, &training());
        let load = Link { golden: &golden, case: &case, action: Action::Load };
        let capture = Capture::default();
        let pass = Pass::inference().with_capture(&capture);
        let grad_out = golden.tensor(&name("grad_out"), &training());
        if options["cross"].as_bool().unwrap() {
            let source: Tensor<3> = golden.tensor(&name("source"), &training()).require_grad();
            let mut layer = CrossAttention::new(&config, source.dims()[2], &init).unwrap();
            let separate = |layer: &mut CrossAttention| {
                load.transposed(&mut layer.query.weight, "q_proj_weight", None);
                let [k, v] = ["k_proj_weight", "v_proj_weight"]
                    .map(|n| golden.tensor::<2>(&name(&format!("weight/{n}")), &training()).transpose());
                let both: Tensor<2> = Tensor::cat(vec![k, v], 1);
                let both = both.into_data();
                layer.key_value.weight = Param::from_tensor(Tensor::from_data(both, &training()));
                let d = layer.query.weight.dims()[1];
                load.plain(layer.query.bias.as_mut().unwrap(), "in_proj_bias", Some(0..d));
                load.plain(layer.key_value.bias.as_mut().unwrap(), "in_proj_bias", Some(d..3 * d));
                load.linear(&mut layer.output, "out_proj");
            };
            separate(&mut layer);
            let keys = layer.source(source.clone()).unwrap();
            let out = layer.forward(x.clone(), &keys, &attention, 0, &pass).unwrap();
            let gradients = loss(&out, &grad_out);
            close("output", &values(out), &golden.floats(&name("out")), 1e-5);
            compare("source", &gradient(&source, &gradients), &golden.floats(&name("grad_source")), 1e-5);
            compare("input", &gradient(&x, &gradients), &golden.floats(&name("grad_x")), 1e-5);
            let check = Link { golden: &golden, case: &case, action: Action::Compare(&gradients, 1e-5) };
            check.transposed(&mut layer.query.weight, "q_proj_weight", None);
            check.plain(layer.query.bias.as_mut().unwrap(), "in_proj_bias", Some(0..12));
            check.plain(layer.key_value.bias.as_mut().unwrap(), "in_proj_bias", Some(12..36));
            check.linear(&mut layer.output, "out_proj");
            let got = layer.key_value.weight.val().grad(&gradients).unwrap();
            for (n, range) in [("k_proj_weight", 0..12), ("v_proj_weight", 12..24)] {
                let part = got.clone().slice([0..source.dims()[2], range]).transpose();
                compare(n, &values(part), &golden.floats(&name(&format!("grad/{n}"))), 1e-5);
            }
        } else {
            let mut layer = SelfAttention::new(&config, &init).unwrap();
            load.self_attention(&mut layer, "");
            let out = layer.forward(x.clone(), &attention, &Places::default(), &pass).unwrap();
            let gradients = loss(&out, &grad_out);
            close("output", &values(out), &golden.floats(&name("out")), 1e-5);
            compare("input", &gradient(&x, &gradients), &golden.floats(&name("grad_x")), 1e-5);
            Link { golden: &golden, case: &case, action: Action::Compare(&gradients, 1e-5) }
                .self_attention(&mut layer, "");
        }
        let maps = capture.into_maps();
        assert_eq!(maps.len(), x.dims()[0] * n_heads);
        let got: Vec<f32> = maps.into_iter().flat_map(|map| map.rows.concat()).collect();
        close("captured weights", &got, &golden.floats(&name("weights")), 1e-5);
    }
}

const SEQ: usize = 6;

fn layer() -> SelfAttention {
    let config = MultiHeadConfig { kv_heads: Some(2), ..MultiHeadConfig::new(16, 4) };
    SelfAttention::new(&config, &Init::new(7, &training()).enter("layer")).unwrap()
}

fn run(layer: &SelfAttention, x: Tensor<3>, options: &AttentionOptions, places: &Places) -> Vec<f32> {
    values(layer.forward(x, options, places, &Pass::inference()).unwrap())
}

/// Returns whether output `i` changes when input `j` changes, as `[i][j]`.
fn influence(options: &AttentionOptions) -> Vec<Vec<bool>> {
    let (layer, x) = (layer(), leaf([1, SEQ, 16], 3));
    let before = run(&layer, x.clone(), options, &Places::default());
    let after = |j: usize| {
        let shift = Tensor::<3>::ones([1, 1, 16], &training());
        let moved = x.clone().slice_assign([0..1, j..j + 1, 0..16], x.clone().narrow(1, j, 1) + shift);
        run(&layer, moved, options, &Places::default())
    };
    let after: Vec<_> = (0..SEQ).map(after).collect();
    let row = |output: &[f32], i: usize| output[i * 16..(i + 1) * 16].to_vec();
    let moves = |i: usize| after.iter().map(|after| row(&before, i) != row(after, i)).collect();
    (0..SEQ).map(moves).collect()
}

#[test]
fn inputs_change_only_the_outputs_that_may_see_them() {
    let allowed = |sees: &dyn Fn(usize, usize) -> bool| -> Vec<Vec<bool>> {
        (0..SEQ).map(|i| (0..SEQ).map(|j| i == j || sees(i, j)).collect()).collect()
    };
    let mask = |mask| AttentionOptions { mask, ..AttentionOptions::default() };
    assert_eq!(influence(&mask(Mask::Full)), allowed(&|_, _| true));
    assert_eq!(influence(&mask(Mask::Causal)), allowed(&|i, j| j <= i));
    let window = Mask::Window { left: 2, right: 1 };
    assert_eq!(influence(&mask(window)), allowed(&|i, j| j + 2 >= i && j <= i + 1));
    let edges = |i: usize, j: usize| (i + 2 * j).is_multiple_of(3) || i == j;
    let sparse = SparseRows::new((0..SEQ).map(|i| (0..SEQ).filter(|&j| edges(i, j)).collect()).collect());
    assert_eq!(influence(&AttentionOptions { sparse: Some(sparse), ..AttentionOptions::default() }), allowed(&edges));
    let boolean: Vec<bool> = (0..SEQ * SEQ).map(|n| edges(n / SEQ, n % SEQ)).collect();
    let boolean: Tensor<4, Bool> = Tensor::from_data(TensorData::new(boolean, [1, 1, SEQ, SEQ]), &training());
    assert_eq!(influence(&AttentionOptions { allowed: Some(boolean), ..AttentionOptions::default() }), allowed(&edges));
}

#[test]
fn padding_has_no_effect() {
    let (layer, x) = (layer(), leaf([2, SEQ, 16], 3));
    let options = |lengths: [usize; 2]| AttentionOptions { lengths: Some(lengths.to_vec()), ..Default::default() };
    let got = run(&layer, x.clone(), &options([4, 6]), &Places::default());
    let other = x.clone().slice_assign([0..1, 4..6, 0..16], Tensor::full([1, 2, 16], 1e3, &training()));
    assert_eq!(got[..4 * 16], run(&layer, other, &options([4, 6]), &Places::default())[..4 * 16]);
    let alone = run(&layer, x.narrow(0, 0, 1).narrow(1, 0, 4), &AttentionOptions::default(), &Places::default());
    close("without the padding", &got[..4 * 16], &alone, 1e-6);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Attention is permutation equivariant without positions, and not with them.
    #[test]
    fn attention_is_permutation_equivariant(order in Just((0..SEQ as i32).collect::<Vec<_>>()).prop_shuffle()) {
        let (layer, x) = (layer(), leaf([1, SEQ, 16], 3));
        let indices = Tensor::<1, Int>::from_data(TensorData::new(order.clone(), [SEQ]), &training());
        let options = AttentionOptions::default();
        let first = layer.forward(x.clone(), &options, &Places::default(), &Pass::inference()).unwrap();
        let permuted = x.clone().select(1, indices.clone());
        let got = run(&layer, permuted.clone(), &options, &Places::default());
        close("permuted", &got, &values(first.select(1, indices.clone())), 1e-5);
        // ALiBi cannot tell a sequence from its reverse.
        if !order.is_sorted() && !order.iter().rev().is_sorted() {
            let sizes = PositionSizes { d_model: 16, n_heads: 4, d_head: 4 };
            for position in [Position::Alibi, Position::Rope(Default::default())] {
                let positions = position.init(sizes, &Init::new(1, &training())).unwrap();
                let places = positions.places(SEQ, 0, &training());
                let first = layer.forward(x.clone(), &options, &places, &Pass::inference()).unwrap();
                let want = values(first.select(1, indices.clone()));
                let got = run(&layer, permuted.clone(), &options, &places);
                let largest = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                prop_assert!(largest > 1e-4, "{position:?} ignores the order: {largest}");
            }
        }
    }

    /// Decoding in pieces of any size equals the whole sequence at once, for every kind of position in attention.
    #[test]
    fn cached_decoding_equals_the_full_pass(pieces in prop::collection::vec(1usize..6, 1..6)) {
        let seq = pieces.iter().sum();
        let (layer, x) = (layer(), leaf([2, seq, 16], 3));
        let sizes = PositionSizes { d_model: 16, n_heads: 4, d_head: 4 };
        for position in [Position::None, Position::Alibi, Position::Rope(Default::default()), Position::Relative(Default::default())] {
            let mut positions = position.init(sizes, &Init::new(1, &training())).unwrap();
            if let Positions::Relative(layer) = &mut positions {
                layer.weight = Param::from_tensor(leaf(layer.weight.dims(), 9));
            }
            for mask in [Mask::Causal, Mask::Window { left: 2, right: 0 }] {
                let options = AttentionOptions { mask, ..AttentionOptions::default() };
                let capture = Capture::default();
                let full = run(&layer, x.clone(), &options, &positions.places(seq, 0, &training()));
                let mut cache = AttentionCache::new();
                let mut parts = Vec::new();
                for &piece in &pieces {
                    let start = cache.len();
                    let places = positions.places(piece, start, &training());
                    let pass = Pass::inference().with_capture(&capture);
                    let part = x.clone().narrow(1, start, piece);
                    parts.push(layer.forward_onto(part, None, Some(Cached::Together(&mut cache)), &options, &places, &pass).unwrap());
                }
                close("cached", &values(Tensor::cat(parts, 1)), &full, 1e-5);
                let maps = capture.into_maps();
                prop_assert_eq!(maps.len(), 2 * 4);
                prop_assert!(maps.iter().all(|map| map.rows.len() == seq && map.first_row == 0));
            }
        }
    }
}

#[test]
fn a_cache_keeps_the_chosen_sequences() {
    let (layer, x) = (layer(), leaf([3, 4, 16], 3));
    let options = AttentionOptions { mask: Mask::Causal, ..AttentionOptions::default() };
    let step = |cache: &mut AttentionCache, x: Tensor<3>| {
        layer
            .forward_onto(x, None, Some(Cached::Together(cache)), &options, &Places::default(), &Pass::inference())
            .unwrap()
    };
    let mut cache = AttentionCache::new();
    step(&mut cache, x.clone().narrow(1, 0, 3));
    let rows = Tensor::<1, Int>::from_data(TensorData::new(vec![2, 0], [2]), &training());
    cache.select(rows.clone());
    let chosen = x.select(0, rows);
    let got = values(step(&mut cache, chosen.clone().narrow(1, 3, 1)));
    let want = run(&layer, chosen, &options, &Places::default());
    close("chosen", &got, &[&want[3 * 16..4 * 16], &want[7 * 16..]].concat(), 1e-6);
    let cached = Some(Cached::Together(&mut cache));
    let wrong = layer.forward_onto(leaf([5, 1, 16], 1), None, cached, &options, &Places::default(), &Pass::inference());
    assert!(wrong.unwrap_err().to_string().contains("[2, 2, new, 4] as in the cache"));
    assert_eq!(cache.len(), 4);
}

#[test]
fn a_capture_keeps_the_selected_weights_and_changes_nothing() {
    let (layer, x) = (layer(), leaf([2, SEQ, 16], 3));
    let wanted = Wanted {
        layers: Some(vec![Site { side: None, layer: 0, kind: AttentionKind::SelfAttention }]),
        sequences: Some(vec![1]),
        heads: Some(vec![0, 3]),
        rows: Some(2..4),
    };
    let capture = Capture::new(wanted.clone());
    let other = Site { side: None, layer: 1, kind: AttentionKind::SelfAttention };
    let elsewhere = Capture::new(Wanted { layers: Some(vec![other]), ..wanted });
    let options = AttentionOptions::default();
    let plain = run(&layer, x.clone(), &options, &Places::default());
    for capture in [&capture, &elsewhere] {
        let pass = Pass::inference().with_capture(capture);
        assert_eq!(plain, values(layer.forward(x.clone(), &options, &Places::default(), &pass).unwrap()));
    }
    assert!(elsewhere.into_maps().is_empty());
    let maps = capture.into_maps();
    let found: Vec<_> = maps.iter().map(|map| (map.sequence, map.head, map.first_row, map.rows.len())).collect();
    assert_eq!(found, [(1, 0, 2, 2), (1, 3, 2, 2)]);
    for row in maps.iter().flat_map(|map| &map.rows) {
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6 && row.len() == SEQ);
    }
}

#[test]
fn bad_sizes_are_named_with_what_is_allowed() {
    let message = |config: MultiHeadConfig| config.validate().unwrap_err().to_string();
    let heads = message(MultiHeadConfig::new(10, 3));
    assert_eq!(heads, "n_heads = 3: expected a divisor of d_model (1, 2, 5, 10), or set d_head");
    MultiHeadConfig { d_head: Some(4), ..MultiHeadConfig::new(10, 3) }.validate().unwrap();
    let kv = message(MultiHeadConfig { kv_heads: Some(3), ..MultiHeadConfig::new(8, 4) });
    assert_eq!(kv, "kv_heads = 3: expected a divisor of n_heads (1, 2, 4)");
    assert!(message(MultiHeadConfig::new(0, 4)).starts_with("d_model = 0: expected"));
}
