use burn::tensor::{DType, Tensor};
use proptest::prelude::*;
use regard_ops::{
    Direction, FeatureMap, LinearAttentionOptions, Normalization, OpError, join_heads, linear_attention,
    linear_attention_fallback, linear_attention_packed, split_heads,
};

use crate::golden::Golden;
use crate::support::{FLOOR, close, close_above, gradient, leaf, loss, training, values};

#[test]
fn agrees_with_pytorch() {
    let golden = Golden::open("linear_attention");
    let device = training();
    for (case, settings) in golden.cases() {
        let name = |name: &str| format!("{case}/{name}");
        let options = LinearAttentionOptions {
            feature_map: match settings["feature_map"].as_str().unwrap() {
                "elu_plus_one" => FeatureMap::EluPlusOne,
                "identity" => FeatureMap::Identity,
                other => panic!("{other}"),
            },
            normalization: match settings["normalisation"].as_str().unwrap() {
                "sum" => Normalization::Sum,
                "1/keys" => Normalization::Length,
                other => panic!("{other}"),
            },
            direction: if settings["causal"] == true { Direction::Causal } else { Direction::Bidirectional },
        };
        let [q, k, v] = ["q", "k", "v"].map(|input| golden.tensor::<4>(&name(input), &device).require_grad());
        let out = linear_attention(q.clone(), k.clone(), v.clone(), None, options).unwrap();
        let gradients = loss(&out, &golden.tensor(&name("grad_out"), &device));
        close(&name("out"), &values(out), &golden.floats(&name("out")), 2e-6);
        for (input, leaf) in [("grad_q", &q), ("grad_k", &k), ("grad_v", &v)] {
            close(&name(input), &gradient(leaf, &gradients), &golden.floats(&name(input)), 2e-6);
        }
    }
}

fn any_options() -> impl Strategy<Value = LinearAttentionOptions> {
    let feature_map = prop::sample::select(vec![FeatureMap::Identity, FeatureMap::EluPlusOne]);
    let normalization = prop::sample::select(vec![Normalization::Sum, Normalization::Length, Normalization::None]);
    let direction = prop::sample::select(vec![Direction::Bidirectional, Direction::Causal]);
    (feature_map, normalization, direction).prop_map(|(feature_map, normalization, direction)| LinearAttentionOptions {
        feature_map,
        normalization,
        direction,
    })
}

/// Returns the output and the gradients of queries, keys and values.
fn results(
    operation: impl Fn(Tensor<4>, Tensor<4>, Tensor<4>) -> Tensor<4>,
    [q, k, v]: &[Tensor<4>; 3],
) -> [Vec<f32>; 4] {
    let out = operation(q.clone(), k.clone(), v.clone());
    let gradients = loss(&out, &leaf(out.dims(), 4));
    [values(out), gradient(q, &gradients), gradient(k, &gradients), gradient(v, &gradients)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn agrees_with_its_fallback(batch in 1usize..3, kv_heads in 1usize..4, group in 1usize..3, queries in 1usize..80,
                                keys in 1usize..12, d_key in 1usize..12, d_value in 1usize..12, options in any_options(),
                                lengths in prop::option::of([0.0..=1.0f32, 0.0..=1.0f32])) {
        let (n_heads, keys) = (kv_heads * group, if options.direction == Direction::Causal { queries } else { keys });
        let lengths = lengths.map(|shares| shares.map(|share| (share * keys as f32).round() as usize));
        let lengths = lengths.as_ref().map(|lengths| &lengths[..batch]);
        // A denominator of products with mixed signs may be close to zero, which makes the quotient ill-conditioned.
        let positive = options.feature_map == FeatureMap::Identity && options.normalization == Normalization::Sum;
        let map = |x: Tensor<4>| if positive { x.abs() + 0.5 } else { x };
        let inputs = [leaf([batch, n_heads, queries, d_key], 1), leaf([batch, kv_heads, keys, d_key], 2),
                      leaf([batch, kv_heads, keys, d_value], 3)];
        let fused = results(|q, k, v| linear_attention(map(q), map(k), v, lengths, options).unwrap(), &inputs);
        let fallback = results(|q, k, v| linear_attention_fallback(map(q), map(k), v, lengths, options), &inputs);
        for (n, (fused, fallback)) in fused.iter().zip(&fallback).enumerate() {
            // Up to 80 terms of up to 12 products are summed in another order. Where a query sees one key, its weight is 1
            // whatever the score, so that the gradient of the score is a sum of terms of order 1 that cancel.
            close_above(if n == 0 { FLOOR } else { 1.0 }, &format!("result {n}"), fused, fallback, 3e-5);
        }
    }

    #[test]
    fn packed_heads_agree_with_separate_ones(batch in 1usize..3, kv_heads in 1usize..3, group in 1usize..3,
                                             seq in 1usize..70, d_head in 1usize..9, options in any_options()) {
        let options = LinearAttentionOptions { feature_map: FeatureMap::EluPlusOne, ..options };
        let n_heads = kv_heads * group;
        let qkv = leaf([batch, seq, (n_heads + 2 * kv_heads) * d_head], 1);
        let lengths: Vec<usize> = (0..batch).map(|sequence| seq - sequence.min(seq)).collect();
        let weights = leaf([batch, seq, n_heads * d_head], 4);
        let [packed, separate] = [true, false].map(|packed| {
            let out = if packed {
                linear_attention_packed(qkv.clone(), n_heads, kv_heads, Some(&lengths), options).unwrap()
            } else {
                let [q, k, v] = split_heads(qkv.clone(), [n_heads, kv_heads, kv_heads], d_head);
                join_heads(linear_attention(q, k, v, Some(&lengths), options).unwrap())
            };
            let gradients = loss(&out, &weights);
            [values(out), gradient(&qkv, &gradients)]
        });
        prop_assert_eq!(packed, separate);
    }
}

/// A NaN in the padding reaches neither outputs nor gradients.
#[test]
fn padding_has_no_effect() {
    for direction in [Direction::Bidirectional, Direction::Causal] {
        let (feature_map, normalization) = (FeatureMap::EluPlusOne, Normalization::Sum);
        let options = LinearAttentionOptions { feature_map, normalization, direction };
        let [q, k, v] = [1, 2, 3].map(|seed| leaf([2, 2, 5, 3], seed));
        let lengths = [5, 3];
        let padding = Tensor::<4>::full([1, 2, 2, 3], f32::NAN, &training());
        let spoilt = |x: &Tensor<4>| x.clone().slice_assign([1..2, 0..2, 3..5, 0..3], padding.clone()).detach();
        let bad = [q.clone(), spoilt(&k).require_grad(), spoilt(&v).require_grad()];
        let run = |inputs: &[Tensor<4>; 3]| {
            results(|q, k, v| linear_attention(q, k, v, Some(&lengths), options).unwrap(), inputs)
        };
        let (clean, bad) = (run(&[q, k, v]), run(&bad));
        assert_eq!(clean, bad, "{direction:?}");
        let rows = |sequence: usize, head: usize| (sequence * 2 + head) * 15 + 9..(sequence * 2 + head) * 15 + 15;
        for gradient in &bad[2..] {
            assert!(gradient[rows(1, 0)].iter().chain(&gradient[rows(1, 1)]).all(|&g| g == 0.0), "{direction:?}");
        }
    }
}

#[test]
fn transposed_views_of_heads_agree_with_the_fallback() {
    let options = LinearAttentionOptions {
        feature_map: FeatureMap::EluPlusOne,
        normalization: Normalization::Sum,
        direction: Direction::Causal,
    };
    // The inputs are `[batch, seq, n_heads, d_head]`, as a projection returns them.
    let inputs = [1, 2, 3].map(|seed| leaf([2, 5, 3, 4], seed));
    let heads = |x: Tensor<4>| x.swap_dims(1, 2);
    let fused = results(|q, k, v| linear_attention(heads(q), heads(k), heads(v), None, options).unwrap(), &inputs);
    let fallback = results(|q, k, v| linear_attention_fallback(heads(q), heads(k), heads(v), None, options), &inputs);
    for (fused, fallback) in fused.iter().zip(&fallback) {
        close("result", fused, fallback, 1e-5);
    }
}

#[test]
fn a_denominator_of_zero_gives_zeros() {
    let options = LinearAttentionOptions {
        feature_map: FeatureMap::Identity,
        normalization: Normalization::Sum,
        direction: Direction::Bidirectional,
    };
    let inputs = [leaf([1, 1, 3, 4], 1), leaf([1, 1, 5, 4], 2), leaf([1, 1, 5, 2], 3)];
    let fused = results(|q, k, v| linear_attention(q * 0.0, k, v, None, options).unwrap(), &inputs);
    let fallback = results(|q, k, v| linear_attention_fallback(q * 0.0, k, v, None, options), &inputs);
    assert!(fused.iter().chain(&fallback).flatten().all(|&x| x == 0.0), "{fused:?} {fallback:?}");
}

#[test]
fn bad_input_is_a_typed_error() {
    let options = LinearAttentionOptions {
        feature_map: FeatureMap::EluPlusOne,
        normalization: Normalization::Sum,
        direction: Direction::Causal,
    };
    let x = || leaf([1, 2, 3, 4], 1);
    let run = |k, v, lengths| linear_attention(x(), k, v, lengths, options).unwrap_err();
    let error = run(leaf([1, 2, 5, 4], 2), leaf([1, 2, 5, 4], 3), None);
    assert!(matches!(error, OpError::Shape { what: "keys", .. }), "{error}");
    let error = run(leaf([1, 3, 3, 4], 2), leaf([1, 3, 3, 4], 3), None);
    assert!(matches!(error, OpError::Option { what: "n_heads", .. }), "{error}");
    let error = run(x(), leaf([1, 2, 2, 4], 3), None);
    assert!(matches!(error, OpError::Shape { what: "values", .. }), "{error}");
    let error = run(x().cast(DType::F64), x(), None);
    assert!(matches!(error, OpError::DType { what: "keys", .. }), "{error}");
    for lengths in [&[3, 3][..], &[4]] {
        let error = run(x(), x(), Some(lengths)).to_string();
        assert!(error.contains("lengths"), "{error}");
    }
    let error = linear_attention_packed(leaf([1, 3, 9], 1), 2, 2, None, options).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "queries, keys and values", .. }), "{error}");
}
