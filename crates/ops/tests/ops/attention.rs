use burn::tensor::{Bool, Tensor, TensorData};
use proptest::prelude::*;
use regard_ops::{
    AttentionOptions, Distance, Dropout, Mask, OpError, SparseRows, attention, attention_crossed, attention_fallback,
    attention_packed, attention_weights,
};

use crate::golden::Golden;
use crate::support::{close, close_above, gradient, leaf, loss, training, values};

/// Magnitude of the terms in the gradient of a score, inner products over a head. They cancel where a query sees one key.
const SCORES: f64 = 1.0;

#[test]
fn agrees_with_pytorch() {
    let golden = Golden::open("attention");
    let device = training();
    for (case, settings) in golden.cases() {
        let get = |name: &str| golden.tensor::<4>(&format!("{case}/{name}"), &device);
        let (q, k, v) = (get("q").require_grad(), get("k").require_grad(), get("v").require_grad());
        let has = |name: &str| golden.has(&format!("{case}/{name}"));
        let bias = has("bias").then(|| get("bias").require_grad());
        let table = has("table").then(|| golden.tensor::<2>(&format!("{case}/table"), &device).require_grad());
        let number = |name: &str| settings[name].as_u64().map(|n| n as usize);
        let mask = match (number("left"), number("right")) {
            (None, None) => Mask::Full,
            (None, Some(0)) => Mask::Causal,
            (Some(left), Some(right)) => Mask::Window { left, right },
            other => panic!("{case}: {other:?}"),
        };
        let options = AttentionOptions {
            scale: Some(settings["scale"].as_f64().unwrap() as f32),
            mask,
            lengths: settings["lengths"].as_array().map(|l| l.iter().map(|n| n.as_u64().unwrap() as usize).collect()),
            allowed: has("mask").then(|| golden.booleans(&format!("{case}/mask"), &device)),
            bias: bias.clone(),
            distance: match &table {
                Some(table) => Distance::Relative { table: table.clone() },
                None if has("slopes") => Distance::Alibi { slopes: golden.floats(&format!("{case}/slopes")) },
                None => Distance::None,
            },
            ..AttentionOptions::default()
        };
        let out = attention(q.clone(), k.clone(), v.clone(), &options).unwrap();
        let gradients = loss(&out, &get("grad_out"));
        let check = |name: &str, got: Vec<f32>| {
            close(&format!("{case}/{name}"), &got, &golden.floats(&format!("{case}/{name}")), 3e-6);
        };
        check("out", values(out));
        check("grad_q", gradient(&q, &gradients));
        check("grad_k", gradient(&k, &gradients));
        check("grad_v", gradient(&v, &gradients));
        if let Some(bias) = bias {
            check("grad_bias", gradient(&bias, &gradients));
        }
        if let Some(table) = table {
            check("grad_table", gradient(&table, &gradients));
        }
    }
}

/// Random options for scores `[batch, heads, queries, keys]`; biases and tables are leaves.
fn any_options(shape: [usize; 4]) -> impl Strategy<Value = AttentionOptions> {
    let [batch, heads, queries, keys] = shape;
    let mask = prop_oneof![
        Just(Mask::Full),
        Just(Mask::Causal),
        (0usize..8, 0usize..8).prop_map(|(left, right)| Mask::Window { left, right })
    ];
    let repeats = || (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let broadcast = move |(b, h, q, k): (bool, bool, bool, bool)| {
        [if b { batch } else { 1 }, if h { heads } else { 1 }, if q { queries } else { 1 }, if k { keys } else { 1 }]
    };
    (
        mask,
        prop::option::of(prop::collection::vec(0..=keys, batch)),
        prop::option::of(repeats()),
        prop::option::of(repeats()),
        prop::option::weighted(0.2, prop::collection::vec(prop::collection::vec(0..keys, 0..keys), queries)),
        0usize..3,
        prop::option::of(0.0f32..0.6),
    )
        .prop_map(move |(mask, lengths, allowed, bias, sparse, distance, dropout)| AttentionOptions {
            scale: None,
            mask,
            lengths,
            allowed: allowed.map(|repeats| {
                let shape = broadcast(repeats);
                leaf(shape, 11).greater_elem(-0.6).reshape(shape)
            }),
            sparse: sparse.map(SparseRows::new),
            bias: bias.map(|repeats| leaf(broadcast(repeats), 12)),
            distance: match distance {
                0 => Distance::None,
                1 => Distance::Alibi { slopes: (0..heads).map(|h| 0.1 * (h + 1) as f32).collect() },
                _ => Distance::Relative { table: leaf([heads, 7], 13) },
            },
            dropout: dropout.map(|probability| Dropout { probability, seed: 5 }),
        })
}

fn any_call() -> impl Strategy<Value = ([usize; 6], AttentionOptions)> {
    (1usize..3, 1usize..3, 1usize..3, 1usize..12, 1usize..12, 1usize..6).prop_flat_map(
        |(batch, kv_heads, group, queries, keys, d)| {
            let heads = kv_heads * group;
            any_options([batch, heads, queries, keys])
                .prop_map(move |options| ([batch, heads, kv_heads, queries, keys, d], options))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]
    #[test]
    fn agrees_with_its_fallback(([batch, heads, kv_heads, queries, keys, d], options) in any_call()) {
        let (q, k, v) = (leaf([batch, heads, queries, d], 1), leaf([batch, kv_heads, keys, d], 2), leaf([batch, kv_heads, keys, d + 1], 3));
        let weights = leaf([batch, heads, queries, d + 1], 4);
        let results = [true, false].map(|fused| {
            let out = match fused {
                true => attention(q.clone(), k.clone(), v.clone(), &options).unwrap(),
                false => attention_fallback(q.clone(), k.clone(), v.clone(), &options),
            };
            let gradients = loss(&out, &weights);
            let mut all = vec![values(out), gradient(&q, &gradients), gradient(&k, &gradients), gradient(&v, &gradients)];
            all.extend(options.bias.as_ref().map(|bias| gradient(bias, &gradients)));
            if let Distance::Relative { table } = &options.distance {
                all.push(gradient(table, &gradients));
            }
            all
        });
        for (n, (fused, fallback)) in results[0].iter().zip(&results[1]).enumerate() {
            close_above(SCORES, &format!("result {n}"), fused, fallback, 2e-5);
        }
    }
}

#[test]
fn packed_attention_equals_attention() {
    let (batch, seq, heads, kv_heads, d) = (2, 9, 4, 2, 8);
    let qkv = leaf([batch, seq, (heads + 2 * kv_heads) * d], 1);
    let options = AttentionOptions { mask: Mask::Causal, ..AttentionOptions::default() };
    let weights = leaf([batch, seq, heads * d], 2);
    let packed = attention_packed(qkv.clone(), heads, kv_heads, &options).unwrap();
    let packed_gradient = gradient(&qkv, &loss(&packed, &weights));

    let parts = qkv.clone().reshape([batch, seq, heads + 2 * kv_heads, d]).swap_dims(1, 2);
    let part = |from: usize, to: usize| parts.clone().slice([0..batch, from..to, 0..seq, 0..d]);
    let (k, v) = (part(heads, heads + kv_heads), part(heads + kv_heads, heads + 2 * kv_heads));
    let out = attention(part(0, heads), k, v, &options).unwrap().swap_dims(1, 2).reshape([batch, seq, heads * d]);
    close("gradient", &packed_gradient, &gradient(&qkv, &loss(&out, &weights)), 1e-6);
    close("output", &values(packed), &values(out), 1e-6);
}

#[test]
fn crossed_attention_equals_attention() {
    let (batch, queries, keys, heads, kv_heads, d) = (2, 5, 9, 4, 2, 8);
    let (q, kv) = (leaf([batch, queries, heads * d], 1), leaf([batch, keys, 2 * kv_heads * d], 2));
    let bias = leaf([1, heads, queries, keys], 4);
    let options =
        AttentionOptions { lengths: Some(vec![9, 4]), bias: Some(bias.clone()), ..AttentionOptions::default() };
    let weights = leaf([batch, queries, heads * d], 3);
    let crossed = attention_crossed(q.clone(), kv.clone(), heads, kv_heads, &options).unwrap();
    let crossed_gradients = loss(&crossed, &weights);

    let part = |x: &Tensor<3>, first: usize, heads: usize| {
        let [batch, seq, width] = x.dims();
        x.clone().reshape([batch, seq, width / d, d]).swap_dims(1, 2).narrow(1, first, heads)
    };
    let (k, v) = (part(&kv, 0, kv_heads), part(&kv, kv_heads, kv_heads));
    let out = attention(part(&q, 0, heads), k, v, &options).unwrap();
    let out = out.swap_dims(1, 2).reshape([batch, queries, heads * d]);
    let gradients = loss(&out, &weights);
    for (what, x) in [("queries", &q), ("keys and values", &kv)] {
        close(what, &gradient(x, &crossed_gradients), &gradient(x, &gradients), 1e-6);
    }
    close("bias", &gradient(&bias, &crossed_gradients), &gradient(&bias, &gradients), 1e-6);
    close("output", &values(crossed), &values(out), 1e-6);

    let plain = AttentionOptions::default();
    assert!(attention_crossed(q.clone(), kv.clone(), heads, 3, &plain).is_err());
    assert!(attention_crossed(q.clone(), kv.clone(), 0, kv_heads, &plain).is_err());
    assert!(attention_crossed(q.clone(), kv.clone(), heads, 4, &plain).is_err());
    assert!(attention_crossed(q, kv, 5, 1, &plain).is_err());
}

#[test]
fn an_expanded_bias_gets_a_gradient_for_each_of_its_rows() {
    let (q, bias) = (leaf([3, 2, 5, 4], 1), leaf([1, 2, 5, 5], 2));
    let options = |bias| AttentionOptions { bias: Some(bias), ..AttentionOptions::default() };
    let weights = leaf([3, 2, 5, 4], 3);
    let run = |bias: Tensor<4>| attention(q.clone(), q.clone(), q.clone(), &options(bias)).unwrap();
    let repeated = gradient(&bias, &loss(&run(bias.clone()), &weights));
    let expanded = gradient(&bias, &loss(&run(bias.clone().expand([3, 2, 5, 5])), &weights));
    close("bias", &expanded, &repeated, 1e-6);
}

#[test]
fn weights_sum_to_one_and_give_the_output() {
    let (q, k) = (leaf([2, 2, 6, 8], 1), leaf([2, 2, 9, 8], 2));
    let v = leaf([2, 2, 9, 3], 3);
    let options = AttentionOptions { mask: Mask::Causal, ..AttentionOptions::default() };
    let out = attention(q.clone(), k.clone(), v.clone(), &options).unwrap();
    let weights = attention_weights(q, k, &options, (1, 0), 2..6).unwrap();
    assert_eq!(weights.dims(), [4, 9]);
    close("sums", &values(weights.clone().sum_dim(1)), &[1.0; 4], 1e-6);
    let v = v.inner().slice([1..2, 0..1, 0..9, 0..3]).reshape([9, 3]);
    let want = out.inner().slice([1..2, 0..1, 2..6, 0..3]).reshape([4, 3]);
    close("output", &values(weights.matmul(v)), &values(want), 1e-6);
}

#[test]
fn without_autodiff_the_output_is_not_tracked() {
    let q = leaf([1, 2, 5, 4], 1).inner();
    let out = attention(q.clone(), q.clone(), q, &AttentionOptions::default()).unwrap();
    assert!(!out.device().is_autodiff());
}

#[test]
fn bad_input_is_a_typed_error() {
    let q = || leaf([2, 4, 6, 8], 1);
    let call = |q, k, v, options: AttentionOptions| attention(q, k, v, &options).unwrap_err();
    let plain = AttentionOptions::default;
    let error = call(q(), leaf([2, 4, 6, 7], 2), q(), plain());
    assert!(matches!(error, OpError::Shape { what: "keys", .. }), "{error}");
    let error = call(q(), leaf([2, 3, 6, 8], 2), leaf([2, 3, 6, 8], 3), plain());
    assert!(matches!(error, OpError::Option { what: "n_heads", .. }), "{error}");
    let mask: Tensor<4, Bool> = Tensor::from_data(TensorData::new(vec![true; 30], [1, 1, 6, 5]), &training());
    let error = call(q(), q(), q(), AttentionOptions { allowed: Some(mask), ..plain() });
    assert!(matches!(error, OpError::Shape { what: "mask", .. }), "{error}");
    let error = call(q(), q(), q(), AttentionOptions { bias: Some(leaf([3, 1, 6, 6], 4)), ..plain() });
    assert!(matches!(error, OpError::Shape { what: "bias", .. }), "{error}");
    let error = call(q(), q(), q(), AttentionOptions { lengths: Some(vec![6, 7]), ..plain() });
    assert!(error.to_string().contains("7 at 1 of 6 keys"), "{error}");
    let error = call(q(), q(), q(), AttentionOptions { scale: Some(f32::NAN), ..plain() });
    assert!(error.to_string().contains("scale"), "{error}");
    let dropout = Some(Dropout { probability: 1.5, seed: 0 });
    let error = call(q(), q(), q(), AttentionOptions { dropout, ..plain() });
    assert!(error.to_string().contains("[0, 1)"), "{error}");
    let sparse = Some(SparseRows::new(vec![vec![9]; 6]));
    let error = call(q(), q(), q(), AttentionOptions { sparse, ..plain() });
    assert!(error.to_string().contains("row 0"), "{error}");
    let error = call(q(), q(), q(), AttentionOptions { distance: Distance::Alibi { slopes: vec![1.0] }, ..plain() });
    assert!(error.to_string().contains("expected 4, one per head, got 1"), "{error}");
    let half = q().cast(burn::tensor::DType::F64);
    let error = call(half, q(), q(), plain());
    assert!(matches!(error, OpError::DType { what: "queries", .. }), "{error}");
    let error = attention_packed(leaf([1, 3, 10], 1), 2, 1, &plain()).unwrap_err();
    assert!(error.to_string().contains("d_head"), "{error}");
    assert!(attention_packed(leaf([1, 3, 12], 1), 3, 2, &plain()).is_err());
    assert!(attention_weights(q(), q(), &plain(), (0, 4), 0..1).is_err());
}

#[test]
fn an_empty_batch_adds_nothing_to_gradients() {
    let (q, bias) = (leaf([0, 2, 4, 4], 1), leaf([1, 2, 4, 4], 2));
    let options = AttentionOptions { bias: Some(bias.clone()), ..AttentionOptions::default() };
    let out = attention(q.clone(), q.clone(), q, &options).unwrap();
    let gradients = (out.sum() + bias.clone().sum()).backward();
    close("bias", &gradient(&bias, &gradients), &[1.0; 32], 0.0);
}

#[test]
fn edge_cases_agree_with_the_fallback() {
    let minus_infinity = || Tensor::<4>::full([1, 1, 4, 4], f32::NEG_INFINITY, &training());
    let cases = [
        ([1, 2, 4, 4], AttentionOptions { bias: Some(minus_infinity()), ..AttentionOptions::default() }),
        (
            [1, 2, 4, 4],
            AttentionOptions {
                mask: Mask::Window { left: usize::MAX, right: usize::MAX },
                ..AttentionOptions::default()
            },
        ),
        ([2, 1, 90, 3], AttentionOptions { mask: Mask::Causal, ..AttentionOptions::default() }),
    ];
    for ([batch, heads, seq, d], options) in cases {
        // The keys are flipped and the values repeated over heads: views with a negative stride and a stride of 0.
        let (q, k) = (leaf([batch, heads, seq, d], 1), leaf([batch, heads, seq, d], 2));
        let v = leaf([batch, 1, seq, d], 3);
        let weights = leaf([batch, heads, seq, d], 4);
        let results = [true, false].map(|fused| {
            let (k2, v2) = (k.clone().flip([2]), v.clone().expand([batch, heads, seq, d]));
            let out = match fused {
                true => attention(q.clone(), k2, v2, &options).unwrap(),
                false => attention_fallback(q.clone(), k2, v2, &options),
            };
            let gradients = loss(&out, &weights);
            [values(out), gradient(&q, &gradients), gradient(&k, &gradients), gradient(&v, &gradients)]
        });
        for (n, (fused, fallback)) in results[0].iter().zip(&results[1]).enumerate() {
            close_above(SCORES, &format!("result {n} of {options:?}"), fused, fallback, 2e-5);
        }
    }
    assert!(attention_packed(leaf([1, 3, 12], 1), usize::MAX, 1, &AttentionOptions::default()).is_err());
}
