//! Tests of the classifier against PyTorch, and of its errors.

use burn::tensor::Tensor;
use regard_nn::layers::pooling::PoolingConfig;
use regard_nn::models::body::{Body, BodyConfig, TransformerBodyConfig};
use regard_nn::models::classifier::{Classifier, ClassifierConfig};
use regard_nn::models::target::{Answers, Target};
use regard_nn::models::transformer::TransformerConfig;
use regard_nn::{Capture, Init, Pass};

use crate::case::ids;
use crate::golden::Golden;
use crate::link::{Action, Link};
use crate::support::{close, leaf, training, values};

fn config(case: &str) -> ClassifierConfig {
    let base = ClassifierConfig {
        vocab: 7,
        outputs: 3,
        d_word: 4,
        d_model: 6,
        n_layers: 1,
        dropout: 0.0,
        ..Default::default()
    };
    let bag = ClassifierConfig { body: BodyConfig::None, hidden: vec![5], ..base.clone() };
    let transformer = TransformerBodyConfig { n_heads: 2, d_ff: Some(12), ..Default::default() };
    match case {
        "one" => ClassifierConfig { body: BodyConfig::Rnn, ..base },
        "several" => ClassifierConfig { target: Target::Several, pooling: PoolingConfig::Mean, ..bag },
        "value" => ClassifierConfig { target: Target::Value, outputs: 2, pooling: PoolingConfig::Sum, ..bag },
        "transformer" => ClassifierConfig {
            body: BodyConfig::Transformer(transformer),
            pooling: PoolingConfig::First,
            d_model: 8,
            n_layers: 2,
            ..base
        },
        _ => panic!("{case}"),
    }
}

fn model(config: &ClassifierConfig) -> Classifier {
    config.init(&Init::new(1, &training())).unwrap()
}

fn link(link: &Link, model: &mut Classifier) {
    link.plain(&mut model.words.as_mut().unwrap().weight, "words.weight", None);
    match &mut model.body {
        Body::Recurrent(network) => link.recurrent(network, "body"),
        body @ Body::Transformer(_) => link.body(body),
        Body::None(_) | Body::IntraAttention(_) => {}
    }
    if model.pooling.attention.is_some() {
        link.pooling(&mut model.pooling, "score.");
    }
    let names = if model.output.layers.len() == 2 { vec!["hidden", "output"] } else { vec!["output"] };
    for (layer, name) in model.output.layers.iter_mut().zip(names) {
        link.linear(&mut layer.linear, name);
    }
}

#[test]
fn logits_losses_and_all_gradients_match_pytorch() {
    let golden = Golden::open("classifier");
    for (case, options) in golden.cases() {
        let mut model = model(&config(&case));
        link(&Link { golden: &golden, case: &case, action: Action::Load }, &mut model);
        let name = |name: &str| format!("{case}/{name}");
        let lengths: Vec<usize> = serde_json::from_value(options["lengths"].clone()).unwrap();
        let (ids, pass) = (golden.integers::<2>(&name("ids"), &training()), Pass::inference());
        let logits = model.logits(ids.clone(), &lengths, &pass).unwrap();
        close(&case, &values(logits.clone()), &golden.floats(&name("logits")), 1e-5);
        let answers = name("answers");
        let (answers, smoothing) = match case.as_str() {
            "several" => (Answers::Several(golden.integers(&answers, &training())), 0.0),
            "value" => (Answers::Value(golden.tensor(&answers, &training())), 0.0),
            _ => (Answers::One(golden.integers(&answers, &training())), 0.1),
        };
        let loss = model.loss(ids.clone(), &lengths, answers, smoothing, &pass).unwrap();
        close(&case, &values(loss.clone()), &golden.floats(&name("loss")), 1e-5);
        link(&Link { golden: &golden, case: &case, action: Action::Compare(&loss.backward(), 2e-5) }, &mut model);

        let logits = values(logits);
        let want: Vec<f32> = match case.as_str() {
            "several" => logits.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect(),
            "value" => logits,
            _ => {
                let row = |row: &[f32]| {
                    let sum: f32 = row.iter().map(|x| x.exp()).sum();
                    row.iter().map(|x| x.exp() / sum).collect::<Vec<_>>()
                };
                logits.chunks(3).flat_map(row).collect()
            }
        };
        close(&case, &values(model.predict(ids, &lengths, &pass).unwrap()), &want, 1e-5);
    }
}

/// A bag of words ignores the order of words, a Transformer does not; both ignore padding.
#[test]
fn order_and_padding() {
    let run = |model: &Classifier, data| values(model.logits(data, &[3, 2], &Pass::inference()).unwrap());
    let bag = model(&config("several"));
    let (plain, turned) = (ids([[1, 2, 3], [4, 5, 0]]), ids([[3, 1, 2], [5, 4, 6]]));
    close("bag", &run(&bag, turned.clone()), &run(&bag, plain.clone()), 1e-6);
    let attention = model(&ClassifierConfig { pooling: PoolingConfig::attention(), ..config("transformer") });
    let far = run(&attention, plain.clone()).iter().zip(run(&attention, turned)).any(|(a, b)| (a - b).abs() > 1e-3);
    assert!(far);
    assert_eq!(run(&attention, plain), run(&attention, ids([[1, 2, 3], [4, 5, 6]])));
}

#[test]
fn pooling_and_the_heads_of_an_encoder_are_captured() {
    let encoder = TransformerConfig { vocab: 7, n_layers: 1, d_model: 8, n_heads: 2, d_ff: 8, ..Default::default() };
    let config = ClassifierConfig { encoder: Some(encoder), body: BodyConfig::None, ..config("one") };
    let model = model(&config);
    assert!(model.words.is_none());
    let capture = Capture::default();
    let pass = Pass::inference().with_capture(&capture);
    let logits = model.logits(ids([[1, 2, 3], [4, 5, 6]]), &[3, 2], &pass).unwrap();
    assert_eq!(logits.dims(), [2, 3]);
    let layers: Vec<String> = capture.into_maps().into_iter().map(|map| map.site.to_string()).collect();
    let count = |prefix: &str| layers.iter().filter(|layer| layer.starts_with(prefix)).count();
    assert_eq!((count("0"), count("pooling"), layers.len()), (4, 2, 6), "{layers:?}");
}

#[test]
fn bad_fields_and_answers_are_named() {
    let refused = |config: ClassifierConfig| config.validate().unwrap_err().to_string();
    let one = || config("one");
    let few = "outputs = 1: expected 2 or more labels to choose one from";
    assert_eq!(refused(ClassifierConfig { outputs: 1, ..one() }), few);
    assert!(ClassifierConfig { outputs: 1, ..config("value") }.validate().is_ok());
    assert_eq!(refused(ClassifierConfig { vocab: 0, ..one() }), "vocab = 0: expected a whole number, 1 or more");
    assert_eq!(refused(ClassifierConfig { unknown: 7, ..one() }), "unknown = 7: expected a token id below 7");
    assert_eq!(
        refused(ClassifierConfig { hidden: vec![3, 0], ..one() }),
        "hidden[1] = 0: expected a whole number, 1 or more"
    );
    let pooling = PoolingConfig::Attention { d_hidden: Some(0) };
    assert!(refused(ClassifierConfig { pooling, ..one() }).starts_with("pooling.d_hidden = 0"));
    let text = serde_json::to_string(&one()).unwrap();
    assert_eq!(serde_json::from_str::<ClassifierConfig>(&text).unwrap(), one());
    let named: ClassifierConfig = serde_json::from_str(r#"{"body": "gru", "pooling": "max"}"#).unwrap();
    assert_eq!((named.body, named.pooling), (BodyConfig::Gru, PoolingConfig::Max));

    let loss = |case: &str, answers, smoothing| {
        let tokens = ids([[1, 2, 3], [4, 5, 6]]);
        model(&config(case)).loss(tokens, &[3, 2], answers, smoothing, &Pass::inference()).unwrap_err().to_string()
    };
    let labels = |data: [i32; 2]| Answers::One(Tensor::from_ints(data, &training()));
    assert_eq!(loss("several", labels([0, 1]), 0.0), "answers: expected Several, the target of the model, got One");
    assert_eq!(loss("one", labels([0, 3]), 0.0), "targets: 3 in row 1 is not in 0..3");
    let several = Answers::Several(ids([[0, 1], [0, 1]]));
    assert_eq!(loss("several", several, 0.0), "labels: expected [2, 3], got [2, 2]");
    let several = Answers::Several(ids([[0, 1, 2], [0, 1, 0]]));
    assert_eq!(loss("several", several, 0.0), "targets: 2 in row 2 is not in 0..2");
    assert_eq!(loss("value", Answers::Value(leaf([2, 3], 1)), 0.0), "values: expected [2, 2], got [2, 3]");
    assert_eq!(loss("value", Answers::Value(leaf([2, 2], 1)), 0.1), "label smoothing of numbers: expected 0, got 0.1");
}
