//! Tests of context attention with all four scores against PyTorch, step by step and over images.

use burn::module::Param;
use burn::tensor::{Tensor, TensorData};
use regard_nn::layers::attention::context::{ContextAttention, ContextConfig, Estimator, Selection};
use regard_nn::layers::attention::score::{ScoreConfig, ScoreKind};
use regard_nn::{AttentionKind, AttentionMap, Capture, Init, NnError, Pass, Side, Site, Wanted};
use regard_ops::OpError;

use crate::case::{Case, each_case};
use crate::support::{close, gradient, leaf, loss, training, values};

fn score(case: &Case) -> ScoreConfig {
    let kind = match case.name.as_str() {
        "additive" => ScoreKind::Additive { d_hidden: case.size("d_hidden") },
        "dot" => ScoreKind::Dot,
        "general" => ScoreKind::General,
        "scaled_dot" => ScoreKind::ScaledDot,
        other => panic!("{other}"),
    };
    ScoreConfig { kind, d_query: case.size("d_query"), d_key: case.size("d_key") }
}

fn layer(case: &Case, selection: Selection) -> ContextAttention {
    let config = ContextConfig { score: score(case), selection };
    let mut layer = config.init(&Init::new(1, &training()).enter("attention")).unwrap();
    match case.name.as_str() {
        "additive" => {
            case.set(layer.score.query.as_mut().unwrap(), "w", Some("b"));
            case.set(layer.score.key.as_mut().unwrap(), "u", None);
            case.set(layer.score.vector.as_mut().unwrap(), "v", None);
        }
        // `W` of `qᵀ W k` is `[d_query, d_key]` in PyTorch and in the layer.
        "general" => layer.score.query.as_mut().unwrap().weight = Param::from_tensor(case.tensor("w")),
        _ => {}
    }
    layer
}

fn rows(maps: &[AttentionMap]) -> Vec<f32> {
    maps.iter().flat_map(|map| map.rows.concat()).collect()
}

#[test]
fn soft_attention_matches_pytorch() {
    each_case("context_attention", |case| {
        let layer = layer(&case, Selection::default());
        let [queries, keys, items] = ["queries", "keys", "values"].map(|name| case.leaf::<3>(name));
        let scores = layer.score.forward(queries.clone(), &layer.score.prepare(keys.clone()).unwrap()).unwrap();
        case.expect("scores", &values(scores));

        let capture = Capture::default();
        let sources = layer.prepare(keys.clone(), items.clone(), Some(case.lengths())).unwrap();
        let found = layer.forward(queries.clone(), &sources, 0, &Pass::inference().with_capture(&capture)).unwrap();
        assert!(found.choice.is_none());
        let gradients = loss(&found.context, &case.tensor("grad_out"));
        case.expect("out", &values(found.context));
        for (name, leaf) in [("grad_queries", &queries), ("grad_keys", &keys), ("grad_values", &items)] {
            case.expect(name, &gradient(leaf, &gradients));
        }
        match case.name.as_str() {
            "additive" => {
                case.expect_linear(layer.score.query.as_ref().unwrap(), "w", Some("b"), &gradients);
                case.expect_linear(layer.score.key.as_ref().unwrap(), "u", None, &gradients);
                case.expect_linear(layer.score.vector.as_ref().unwrap(), "v", None, &gradients);
            }
            "general" => {
                let weight = layer.score.query.as_ref().unwrap().weight.val();
                case.expect("grad_w", &gradient(&weight, &gradients));
            }
            _ => {}
        }
        case.expect("weights", &rows(&capture.into_maps()));
    });
}

/// One query at a time, with sources prepared once, gives the same outputs, gradients and maps.
#[test]
fn steps_match_the_whole_sequence() {
    each_case("context_attention", |case| {
        let layer = layer(&case, Selection::default());
        let [queries, keys, items] = ["queries", "keys", "values"].map(|name| case.leaf::<3>(name));
        let sources = layer.prepare(keys.clone(), items.clone(), Some(case.lengths())).unwrap();
        let capture = Capture::default();
        let pass = Pass::inference().with_capture(&capture);
        let step = |t| layer.forward(queries.clone().narrow(1, t, 1), &sources, t, &pass).unwrap().context;
        let out = Tensor::cat(vec![step(0), step(1)], 1);
        let gradients = loss(&out, &case.tensor("grad_out"));
        case.expect("out", &values(out));
        for (name, leaf) in [("grad_queries", &queries), ("grad_keys", &keys), ("grad_values", &items)] {
            case.expect(name, &gradient(leaf, &gradients));
        }
        case.expect("weights", &rows(&capture.into_maps()));
    });
}

/// Hard attention chooses by the weights of soft attention, whatever the score.
#[test]
fn hard_attention_chooses_by_the_same_weights() {
    each_case("context_attention", |case| {
        for estimator in [Estimator::ScoreFunction { samples: 1 }, Estimator::Gumbel { temperature: 0.7 }] {
            for pass in [Pass::inference(), Pass::training(5)] {
                let layer = layer(&case, Selection::Hard { estimator });
                let [queries, keys, items] = ["queries", "keys", "values"].map(|name| case.leaf::<3>(name));
                let sources = layer.prepare(keys, items.clone(), Some(case.lengths())).unwrap();
                let capture = Capture::default();
                let found = layer.forward(queries.clone(), &sources, 0, &pass.with_capture(&capture)).unwrap();
                let weights = case.floats("weights");
                case.expect("weights", &rows(&capture.into_maps()));
                let choice = found.choice.unwrap();
                let chosen: Vec<usize> = choice.keys.into_data().iter::<i64>().map(|key| key as usize).collect();
                let items = values(items);
                let context: Vec<f32> = (chosen.iter().enumerate())
                    .flat_map(|(row, key)| {
                        let empty = case.lengths()[row / 2] == 0;
                        let value = (row / 2 * 6 + key) * 3;
                        items[value..value + 3].iter().map(move |&x| if empty { 0.0 } else { x })
                    })
                    .collect();
                assert_eq!(values(found.context.clone()), context, "{}", case.name);
                let (mut log_probability, mut entropy) = (Vec::new(), Vec::new());
                for (row, &key) in weights.chunks_exact(6).zip(&chosen) {
                    let sum: f32 = row.iter().sum();
                    log_probability.push(if sum == 0.0 { 0.0 } else { row[key].ln() });
                    entropy.push(-row.iter().filter(|&&w| w > 0.0).map(|w| w * w.ln()).sum::<f32>());
                }
                close("log probability", &values(choice.log_probability.clone()), &log_probability, 1e-5);
                close("entropy", &values(choice.entropy.clone()), &entropy, 1e-5);
                let sum = found.context.sum() + choice.log_probability.sum() + choice.entropy.sum();
                let gradients = sum.backward();
                assert!(gradient(&queries, &gradients).iter().all(|x| x.is_finite()), "{}", case.name);
            }
        }
    });
}

/// Features of an image serve as keys and values: attention finds the place that matches the query.
#[test]
fn attends_to_the_queried_place_of_an_image() {
    let [height, width, channels] = [3, 4, 8];
    let grid = leaf([2, channels, height, width], 3);
    let features = grid.reshape([2, channels, height * width]).swap_dims(1, 2);
    let asked = [7, 2];
    let query = |sequence: usize| features.clone().narrow(0, sequence, 1).narrow(1, asked[sequence], 1) * 20.0;
    let queries = Tensor::cat(vec![query(0), query(1)], 0);
    let score = ScoreConfig { kind: ScoreKind::ScaledDot, d_query: channels, d_key: channels };
    for selection in [Selection::default(), Selection::Hard { estimator: Estimator::ScoreFunction { samples: 1 } }] {
        let layer = ContextConfig { score, selection }.init(&Init::new(1, &training())).unwrap();
        let sources = layer.prepare(features.clone(), features.clone(), None).unwrap();
        let capture = Capture::default();
        let pass = Pass::inference().with_capture(&capture);
        let found = layer.forward(queries.clone(), &sources, 0, &pass).unwrap();
        let maps = capture.into_maps();
        assert_eq!(maps.len(), 2);
        for (map, &place) in maps.iter().zip(&asked) {
            let row = &map.rows[0];
            assert_eq!(row.len(), height * width);
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            assert!(row.iter().enumerate().all(|(key, &weight)| key == place || weight < row[place]));
        }
        if let Some(choice) = found.choice {
            let chosen: Vec<i64> = choice.keys.into_data().iter().collect();
            assert_eq!(chosen, [7, 2]);
            assert_eq!(values(found.context * 20.0), values(queries.clone()));
        }
    }
}

#[test]
fn bad_fields_are_named() {
    let score = ScoreConfig { kind: ScoreKind::Dot, d_query: 4, d_key: 5 };
    let error = |config: ContextConfig| config.validate().unwrap_err().to_string();
    assert_eq!(
        error(ContextConfig::new(score)),
        "score.d_key = 5: expected d_query = 4, or a score of kind general or additive"
    );
    assert!(ContextConfig::new(ScoreConfig { kind: ScoreKind::General, ..score }).validate().is_ok());
    let additive = ScoreConfig { kind: ScoreKind::Additive { d_hidden: 0 }, ..score };
    assert_eq!(error(ContextConfig::new(additive)), "score.kind.d_hidden = 0: expected a whole number, 1 or more");
    let score = ScoreConfig { d_key: 4, ..score };
    let selection = Selection::Hard { estimator: Estimator::Gumbel { temperature: 0.0 } };
    assert_eq!(
        error(ContextConfig { score, selection }),
        "selection.estimator.temperature = 0: expected a finite number of at least 0.0001"
    );

    let parse = |text: &str| serde_json::from_str::<ContextConfig>(text).map_err(|error| error.to_string());
    let sizes = r#""d_query": 4, "d_key": 4"#;
    let unknown = parse(&format!(r#"{{"score": {{"kind": "cosine", {sizes}}}}}"#)).unwrap_err();
    assert!(unknown.contains("`cosine`, expected one of `additive`, `dot`, `general`, `scaled_dot`"), "{unknown}");
    let foreign = r#"{"kind": "dot", "d_hidden": 3}"#;
    let unknown = parse(&format!(r#"{{"score": {{"kind": {foreign}, {sizes}}}}}"#)).unwrap_err();
    assert!(unknown.contains("unknown field `d_hidden`"), "{unknown}");
    let hard = r#"{"kind": "hard", "estimator": "score_function"}"#;
    let parsed = parse(&format!(r#"{{"score": {{"kind": "dot", {sizes}}}, "selection": {hard}}}"#)).unwrap();
    assert_eq!(parsed.selection, Selection::Hard { estimator: Estimator::ScoreFunction { samples: 1 } });
    assert_eq!(parsed, parse(&serde_json::to_string(&parsed).unwrap()).unwrap());
    let additive = r#"{"kind": "additive", "d_hidden": 3}"#;
    let parsed = parse(&format!(r#"{{"score": {{"kind": {additive}, {sizes}}}, "selection": "soft"}}"#)).unwrap();
    assert_eq!(parsed.score.kind, ScoreKind::Additive { d_hidden: 3 });
}

#[test]
fn bad_inputs_are_typed_errors() {
    let score = ScoreConfig { kind: ScoreKind::Additive { d_hidden: 3 }, d_query: 4, d_key: 5 };
    let layer = ContextConfig::new(score).init(&Init::new(1, &training())).unwrap();
    let shape = |error: NnError| match error {
        NnError::Op(OpError::Shape { what, .. } | OpError::DType { what, .. }) => what,
        other => panic!("{other}"),
    };
    let (keys, items) = (leaf([2, 6, 5], 1), leaf([2, 6, 3], 2));
    let prepare = |keys, items, lengths| layer.prepare(keys, items, lengths).unwrap_err();
    assert_eq!(shape(prepare(leaf([2, 6, 4], 1), items.clone(), None)), "keys");
    assert_eq!(shape(prepare(leaf([2, 0, 5], 1), items.clone(), None)), "keys");
    assert_eq!(shape(prepare(keys.clone(), leaf([2, 5, 3], 1), None)), "values");
    let doubled = items.clone().cast(burn::tensor::DType::F64);
    assert_eq!(shape(prepare(keys.clone(), doubled, None)), "values");
    for (lengths, expected) in [(vec![6], "2, one per sequence, got 1"), (vec![6, 7], "each at most 6, got 7")] {
        let error = prepare(keys.clone(), items.clone(), Some(lengths));
        assert_eq!(error.to_string(), format!("lengths: expected {expected}"));
    }
    let sources = layer.prepare(keys.clone(), items.clone(), None).unwrap();
    for queries in [leaf([2, 1, 5], 1), leaf([1, 1, 4], 1), leaf([2, 0, 4], 1)] {
        let error = layer.forward(queries, &sources, 0, &Pass::inference()).unwrap_err();
        assert_eq!(shape(error), "queries");
    }
    // Keys prepared by a different score.
    let other = ScoreConfig { kind: ScoreKind::General, d_query: 4, d_key: 5 }.init(&Init::new(1, &training()));
    let prepared = other.unwrap().prepare(keys).unwrap();
    assert_eq!(shape(layer.score.forward(leaf([2, 1, 4], 1), &prepared).unwrap_err()), "prepared keys");
}

/// A capture of other layers keeps nothing of this one and does not change its output.
#[test]
fn a_capture_changes_nothing() {
    let score = ScoreConfig { kind: ScoreKind::General, d_query: 4, d_key: 5 };
    let layer = ContextConfig::new(score).init(&Init::new(1, &training()).enter("decoder")).unwrap();
    let sources = layer.prepare(leaf([1, 6, 5], 1), leaf([1, 6, 3], 2), None).unwrap();
    let queries = Tensor::<3>::from_data(TensorData::new(vec![0.5f32; 8], [1, 2, 4]), &training());
    let run = |pass: &Pass| values(layer.forward(queries.clone(), &sources, 0, pass).unwrap().context);
    let other = Site { side: Some(Side::Encoder), layer: 0, kind: AttentionKind::SelfAttention };
    let capture = Capture::new(Wanted { layers: Some(vec![other]), ..Wanted::default() });
    assert_eq!(run(&Pass::inference()), run(&Pass::inference().with_capture(&capture)));
    assert!(capture.into_maps().is_empty());
}

/// The content of padding, even NaN, changes neither the context nor a gradient.
#[test]
fn padding_has_no_effect() {
    for kind in [ScoreKind::Additive { d_hidden: 5 }, ScoreKind::General] {
        for selection in [
            Selection::Soft,
            Selection::Hard { estimator: Estimator::ScoreFunction { samples: 1 } },
            Selection::Hard { estimator: Estimator::Gumbel { temperature: 1.0 } },
        ] {
            let score = ScoreConfig { kind, d_query: 4, d_key: 6 };
            let layer = ContextConfig { score, selection }.init(&Init::new(1, &training())).unwrap();
            let run = |padding: f32| {
                let spoil = |x: Tensor<3>| {
                    let width = x.dims()[2];
                    x.slice_assign([0..1, 2..5, 0..width], Tensor::full([1, 3, width], padding, &training()))
                };
                let queries: Tensor<3> = leaf([2, 3, 4], 1);
                let (keys, values_of) = (spoil(leaf([2, 5, 6], 2)), spoil(leaf([2, 5, 7], 3)));
                let sources = layer.prepare(keys, values_of, Some(vec![2, 5])).unwrap();
                let found = layer.forward(queries.clone(), &sources, 0, &Pass::training(4)).unwrap();
                let mut total = found.context.clone().sum();
                if let Some(choice) = found.choice {
                    total = total + choice.log_probability.sum();
                }
                let gradients = total.backward();
                let query = layer.score.query.as_ref().unwrap().weight.val();
                (values(found.context), gradient(&queries, &gradients), gradient(&query, &gradients))
            };
            let (zero, nan) = (run(0.0), run(f32::NAN));
            assert_eq!(zero, nan, "{kind:?} {selection:?}");
        }
    }
}
