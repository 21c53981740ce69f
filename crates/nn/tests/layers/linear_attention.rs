//! Tests of linear attention against its column form in PyTorch, and of its running state against the whole sequence.

use burn::tensor::Tensor;
use proptest::prelude::*;
use regard_nn::layers::attention::linear_attention::{
    LinearAttention, LinearAttentionConfig, LinearAttentionKind, LinearAttentionState,
};
use regard_nn::{Capture, Init, NnError, Pass};
use regard_ops::{Direction, FeatureMap, Normalization, OpError};

use crate::case::{Case, each_case};
use crate::support::{close, gradient, leaf, loss, training, values};

fn config(case: &Case) -> LinearAttentionConfig {
    let (d_model, n_heads, d_head) = (case.size("d_model"), case.size("n_heads"), case.size("d_head"));
    let kind = match case.name.as_str() {
        "merged" => LinearAttentionKind::Merged,
        "separate" => LinearAttentionKind::Separate,
        "full" | "causal_full" => LinearAttentionKind::Full,
        "multi_head_wide" => LinearAttentionKind::MultiHead { n_heads, d_head: Some(d_head) },
        _ => LinearAttentionKind::MultiHead { n_heads, d_head: None },
    };
    let mut config = LinearAttentionConfig::new(d_model, kind);
    if case.options["causal"] == true {
        config.direction = Direction::Causal;
    }
    if case.options["elu"] == true {
        (config.feature_map, config.normalization) = (FeatureMap::EluPlusOne, Normalization::Sum);
    }
    config
}

/// Returns the matrix of the column form that is the layer's query: the one that acts on the reading token.
fn reader(case: &Case) -> &'static str {
    if case.name == "merged" { "w" } else { "w_k" }
}

fn layer(case: &Case) -> LinearAttention {
    let mut layer = config(case).init(&Init::new(1, &training()).enter("attention")).unwrap();
    case.set(&mut layer.query, reader(case), None);
    let optional = [("w_q", &mut layer.key), ("w_v", &mut layer.value), ("w_o", &mut layer.output)];
    for (name, linear) in optional {
        if let Some(linear) = linear {
            case.set(linear, name, None);
        }
    }
    layer
}

fn expect(case: &Case, layer: &LinearAttention, x: &Tensor<3>, out: Tensor<3>) {
    let gradients = loss(&out, &case.tensor("grad_out"));
    case.expect("out", &values(out));
    case.expect("grad_x", &gradient(x, &gradients));
    case.expect_linear(&layer.query, reader(case), None, &gradients);
    for (name, linear) in [("w_q", &layer.key), ("w_v", &layer.value), ("w_o", &layer.output)] {
        if let Some(linear) = linear {
            case.expect_linear(linear, name, None, &gradients);
        }
    }
}

fn steps(layer: &LinearAttention, x: &Tensor<3>) -> Tensor<3> {
    let mut state = None;
    let mut out = Vec::new();
    for t in 0..x.dims()[1] {
        let (y, next) = layer.step(x.clone().narrow(1, t, 1).squeeze_dim(1), state, &Pass::inference()).unwrap();
        assert_eq!(next.count, t + 1);
        out.push(y.unsqueeze_dim::<3>(1));
        state = Some(next);
    }
    Tensor::cat(out, 1)
}

#[test]
fn matches_the_column_form() {
    each_case("linear_attention_layer", |case| {
        let layer = layer(&case);
        let x = case.leaf::<3>("x");
        expect(&case, &layer, &x, layer.forward(x.clone(), &Pass::inference()).unwrap());
    });
}

#[test]
fn the_running_state_matches_the_column_form() {
    each_case("linear_attention_layer", |case| {
        if case.options["causal"] == true {
            let layer = layer(&case);
            let x = case.leaf::<3>("x");
            expect(&case, &layer, &x, steps(&layer, &x));
        }
    });
}

fn any_config() -> impl Strategy<Value = LinearAttentionConfig> {
    let kind = prop::sample::select(vec![
        LinearAttentionKind::Merged,
        LinearAttentionKind::Separate,
        LinearAttentionKind::Full,
        LinearAttentionKind::MultiHead { n_heads: 2, d_head: None },
        LinearAttentionKind::MultiHead { n_heads: 3, d_head: Some(2) },
    ]);
    // A sum of products of any sign may be nearly zero, so only elu + 1 is divided by a sum.
    let rest = prop::sample::select(vec![
        (FeatureMap::Identity, Normalization::Length),
        (FeatureMap::Identity, Normalization::None),
        (FeatureMap::EluPlusOne, Normalization::Length),
        (FeatureMap::EluPlusOne, Normalization::Sum),
    ]);
    (kind, rest).prop_map(|(kind, (feature_map, normalization))| LinearAttentionConfig {
        feature_map,
        normalization,
        direction: Direction::Causal,
        ..LinearAttentionConfig::new(4, kind)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn steps_match_the_whole_sequence(config in any_config(), batch in 1usize..3, seq in 1usize..20, seed in 0u64..1000) {
        let layer = config.init(&Init::new(seed, &training())).unwrap();
        let x = leaf([batch, seq, 4], seed);
        let weights = leaf([batch, seq, 4], seed + 1);
        let [whole, steps] = [layer.forward(x.clone(), &Pass::inference()).unwrap(), steps(&layer, &x)].map(|out| {
            let gradients = loss(&out, &weights);
            [values(out), gradient(&x, &gradients), gradient(&layer.query.weight.val(), &gradients)]
        });
        for (whole, steps) in whole.iter().zip(&steps) {
            // Up to 20 terms are summed in a different order, and without a denominator the sum grows with the length.
            close("steps", steps, whole, 2e-5);
        }
    }

    /// Changing the last token does not change the outputs before it.
    #[test]
    fn later_tokens_do_not_change_earlier_outputs(config in any_config(), seq in 2usize..12, seed in 0u64..1000) {
        let layer = config.init(&Init::new(seed, &training())).unwrap();
        let x = leaf([1, seq, 4], seed);
        let changed = x.clone().slice_assign([0..1, seq - 1..seq, 0..4], leaf([1, 1, 4], seed + 1));
        let run = |x: Tensor<3>| values(layer.forward(x, &Pass::inference()).unwrap());
        let (a, b) = (run(x), run(changed));
        prop_assert_eq!(&a[..(seq - 1) * 4], &b[..(seq - 1) * 4]);
    }
}

/// The captured map `A` gives the output `Y = A X` if the values are the tokens.
#[test]
fn captured_weights_give_the_output() {
    for direction in [Direction::Bidirectional, Direction::Causal] {
        let config =
            LinearAttentionConfig { direction, ..LinearAttentionConfig::new(4, LinearAttentionKind::Separate) };
        let layer = config.init(&Init::new(3, &training()).enter("attention")).unwrap();
        let x = leaf([2, 5, 4], 1);
        let capture = Capture::default();
        let out = layer.forward(x.clone(), &Pass::inference().with_capture(&capture)).unwrap();
        assert_eq!(values(out.clone()), values(layer.forward(x.clone(), &Pass::inference()).unwrap()));
        let maps = capture.into_maps();
        assert_eq!(maps.len(), 2);
        let x = values(x);
        let mut want = Vec::new();
        for map in &maps {
            assert_eq!((map.head, map.rows.len()), (0, 5));
            for (i, row) in map.rows.iter().enumerate() {
                assert!(direction == Direction::Bidirectional || row[i + 1..].iter().all(|&weight| weight == 0.0));
                for feature in 0..4 {
                    want.push((0..5).map(|j| row[j] * x[(map.sequence * 5 + j) * 4 + feature]).sum());
                }
            }
        }
        close("output", &values(out), &want, 1e-6);
    }
}

#[test]
fn bad_fields_and_inputs_are_named() {
    let heads = |n_heads, d_head| LinearAttentionConfig::new(5, LinearAttentionKind::MultiHead { n_heads, d_head });
    let error = |config: LinearAttentionConfig| config.validate().unwrap_err().to_string();
    assert_eq!(error(heads(2, None)), "kind.n_heads = 2: expected a divisor of d_model = 5, or set kind.d_head");
    assert_eq!(error(heads(0, None)), "kind.n_heads = 0: expected a whole number, 1 or more");
    assert_eq!(error(heads(2, Some(0))), "kind.d_head = 0: expected a whole number, 1 or more");
    assert!(heads(2, Some(3)).validate().is_ok());

    let parse = |text| serde_json::from_str::<LinearAttentionConfig>(text).map_err(|error| error.to_string());
    let unknown = parse(r#"{"d_model": 4, "kind": "half"}"#).unwrap_err();
    assert!(unknown.contains("`half`, expected one of `merged`, `separate`, `full`, `multi_head`"), "{unknown}");
    let unknown = parse(r#"{"d_model": 4, "kind": "full", "feature_map": "relu"}"#).unwrap_err();
    assert!(unknown.contains("`relu`, expected `identity` or `elu_plus_one`"), "{unknown}");
    let parsed =
        parse(r#"{"d_model": 4, "kind": {"kind": "multi_head", "n_heads": 2}, "direction": "causal"}"#).unwrap();
    assert_eq!(parsed.direction, Direction::Causal);
    assert_eq!(parsed, parse(&serde_json::to_string(&parsed).unwrap()).unwrap());

    let layer = heads(5, None).init(&Init::new(1, &training())).unwrap();
    let error = layer.forward(leaf([1, 3, 4], 1), &Pass::inference()).unwrap_err();
    assert!(matches!(error, NnError::Op(OpError::Shape { what: "tokens", .. })), "{error}");
    let error = layer.step(leaf([1, 5], 1), None, &Pass::inference()).unwrap_err();
    assert_eq!(error.to_string(), "direction = bidirectional: expected causal, to go token by token");
    let causal = LinearAttentionConfig { direction: Direction::Causal, ..heads(5, None) };
    let layer = causal.init(&Init::new(1, &training())).unwrap();
    let (_, state) = layer.step(leaf([1, 5], 1), None, &Pass::inference()).unwrap();
    let error = layer.step(leaf([2, 5], 1), Some(state.clone()), &Pass::inference()).unwrap_err();
    assert!(matches!(error, NnError::Op(OpError::Shape { what: "state products", .. })), "{error}");
    let wrong = LinearAttentionState { keys: leaf([1, 5, 1, 2], 1), ..state };
    let error = layer.step(leaf([1, 5], 1), Some(wrong), &Pass::inference()).unwrap_err();
    assert!(matches!(error, NnError::Op(OpError::Shape { what: "state keys", .. })), "{error}");
}
