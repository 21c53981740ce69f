use burn::tensor::{DType, Tensor};
use proptest::prelude::*;
use regard_ops::{
    Direction, FeatureMap, LinearAttentionOptions, Normalization, OpError, linear_attention, linear_attention_fallback,
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
        let out = linear_attention(q.clone(), k.clone(), v.clone(), options).unwrap();
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
    fn agrees_with_its_fallback(batch in 1usize..3, n_heads in 1usize..4, queries in 1usize..80, keys in 1usize..12,
                                d_key in 1usize..12, d_value in 1usize..12, options in any_options()) {
        let keys = if options.direction == Direction::Causal { queries } else { keys };
        // A denominator of products with mixed signs may be close to zero, which makes the quotient ill-conditioned.
        let positive = options.feature_map == FeatureMap::Identity && options.normalization == Normalization::Sum;
        let map = |x: Tensor<4>| if positive { x.abs() + 0.5 } else { x };
        let inputs = [leaf([batch, n_heads, queries, d_key], 1), leaf([batch, n_heads, keys, d_key], 2),
                      leaf([batch, n_heads, keys, d_value], 3)];
        let fused = results(|q, k, v| linear_attention(map(q), map(k), v, options).unwrap(), &inputs);
        let fallback = results(|q, k, v| linear_attention_fallback(map(q), map(k), v, options), &inputs);
        for (n, (fused, fallback)) in fused.iter().zip(&fallback).enumerate() {
            // Up to 80 terms of up to 12 products are summed in another order. Where a query sees one key, its weight is 1
            // whatever the score, so that the gradient of the score is a sum of terms of order 1 that cancel.
            close_above(if n == 0 { FLOOR } else { 1.0 }, &format!("result {n}"), fused, fallback, 3e-5);
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
    let fused = results(|q, k, v| linear_attention(heads(q), heads(k), heads(v), options).unwrap(), &inputs);
    let fallback = results(|q, k, v| linear_attention_fallback(heads(q), heads(k), heads(v), options), &inputs);
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
    let fused = results(|q, k, v| linear_attention(q * 0.0, k, v, options).unwrap(), &inputs);
    let fallback = results(|q, k, v| linear_attention_fallback(q * 0.0, k, v, options), &inputs);
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
    let error = linear_attention(x(), leaf([1, 2, 5, 4], 2), leaf([1, 2, 5, 4], 3), options).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "keys", .. }), "{error}");
    let error = linear_attention(x(), leaf([1, 1, 3, 4], 2), leaf([1, 1, 3, 4], 3), options).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "keys", .. }), "{error}");
    let error = linear_attention(x(), x(), leaf([1, 2, 2, 4], 3), options).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "values", .. }), "{error}");
    let error = linear_attention(x(), x().cast(DType::F64), x(), options).unwrap_err();
    assert!(matches!(error, OpError::DType { what: "keys", .. }), "{error}");
}
