//! Tests of dropout in training: each key of a `config.json` acts where `transformers` applies it, and nowhere else.
//!
//! The matrices around a place are replaced by the identity, so that what is dropped there is zero in the output. The share of zeros
//! over many passes must then be the probability, and what is left must be scaled up.

use std::fs;

use burn::tensor::Device;
use regard_nn::{Init, Pass};
use regard_ops::AttentionOptions;
use serde_json::{Value, json};

use super::base_model::{Base, Goal, ours};
use super::config::{LoraKeys, NetworkKeys};
use crate::hugging_face::network::{Network, Texts, padded};
use crate::hugging_face::tests::copied;
use crate::weights;

/// Number of training passes over which shares are taken.
const PASSES: u64 = 300;
/// Features of a state in all tiny models.
const WIDTH: usize = 16;
/// Keys of all dropouts that a test sets to 0 unless it says otherwise.
const DROPOUTS: [&str; 13] = [
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "classifier_dropout",
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "seq_classif_dropout",
    "qa_dropout",
    "dropout_rate",
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
    "summary_first_dropout",
];

/// Starts training a copy of a tiny model in which only some dropouts are on, with some parameters replaced.
fn started(
    name: &str,
    on: &[(&str, f64)],
    goal: &Goal,
    keys: NetworkKeys,
    replace: impl Fn(&str, &[usize]) -> Option<Vec<f32>>,
) -> Network {
    let place = copied(name);
    let path = place.path().join("config.json");
    let mut settings: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for key in DROPOUTS.iter().filter(|key| settings.get(**key).is_some()).collect::<Vec<_>>() {
        settings[*key] = json!(0.0);
    }
    on.iter().for_each(|(key, probability)| settings[*key] = json!(probability));
    fs::write(&path, settings.to_string()).unwrap();
    let keys = NetworkKeys { from: Some(place.path().to_path_buf()), ..keys };
    let (base, _) = Base::start(&keys, &LoraKeys::default(), goal).unwrap();
    let network = base.model(&Init::new(1, &Device::flex())).unwrap();
    let network = base.warm(network).unwrap();
    weights::replace_some(network, |path, shape| Ok(replace(ours(path), shape))).unwrap()
}

/// Returns a matrix with ones on its diagonal, repeated if it is wider than high.
fn identity(shape: &[usize]) -> Vec<f32> {
    let [rows, columns] = [shape[0], shape[1]];
    (0..rows * columns).map(|at| if at / columns == (at % columns) % rows { 1.0 } else { 0.0 }).collect()
}

/// Turns the layers of a head into identities; a rectified hidden layer gets a bias that keeps it above 0.
fn plain_head(name: &str, shape: &[usize]) -> Option<Vec<f32>> {
    match name {
        "head.hidden.weight" | "head.output.weight" => Some(identity(shape)),
        "head.hidden.bias" => Some(vec![9.0; shape[0]]),
        "head.output.bias" => Some(vec![0.0; shape[0]]),
        _ => None,
    }
}

/// A goal with as many outputs as a state has features.
fn classes() -> Vec<String> {
    (0..WIDTH).map(|class| class.to_string()).collect()
}

fn texts() -> Texts {
    Texts::new(vec![vec![5, 9, 11, 7, 23], vec![12, 6, 19, 10, 3]])
}

/// Returns the share of zeros over many training passes, after comparing what is left with the values without dropout, which is
/// scaled up by `scale` where the output is linear in it.
fn dropped(values: impl Fn(&Pass) -> Vec<f32>, scale: Option<f32>) -> f64 {
    let still = values(&Pass::inference());
    assert!(still.iter().all(|value| *value != 0.0), "{still:?}");
    let (mut zeros, mut all) = (0usize, 0usize);
    for seed in 0..PASSES {
        for (found, still) in values(&Pass::training(seed)).iter().zip(&still) {
            all += 1;
            zeros += usize::from(*found == 0.0);
            if let Some(scale) = scale.filter(|_| *found != 0.0) {
                assert!((found - scale * still).abs() <= 1e-4 * still.abs().max(1.0), "{found} {still}");
            }
        }
    }
    zeros as f64 / all as f64
}

#[track_caller]
fn assert_share(found: f64, expected: f64) {
    assert!((found - expected).abs() < 0.03, "a share of {found}, expected {expected}");
}

fn numbers<const D: usize>(tensor: burn::tensor::Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter().collect()
}

/// The logits of a network with a head.
fn logits(network: &Network) -> impl Fn(&Pass) -> Vec<f32> + '_ {
    |pass| numbers(network.head_outputs(&texts(), &Device::flex(), pass).unwrap())
}

/// The states after the embedding (0) or after a block.
fn states(network: &Network, at: usize) -> impl Fn(&Pass) -> Vec<f32> + '_ {
    move |pass| numbers(network.run(&texts(), None, &Device::flex(), pass).unwrap().states[at].clone())
}

#[test]
fn a_head_drops_as_its_class_does() {
    let whole = || Goal::Whole(classes(), None);
    let tokens = || Goal::Tokens(classes());
    let none = NetworkKeys::default;
    for (name, on, goal, share) in [
        // One dropout before the last layer; that of features if the key of the head is missing.
        ("bert-classifier", vec![("classifier_dropout", 0.3)], whole(), 0.3),
        ("bert-classifier", vec![("classifier_dropout", 0.0)], whole(), 0.0),
        ("bert-tagger", vec![("classifier_dropout", 0.4)], tokens(), 0.4),
        // RoBERTa also drops the states.
        ("roberta-classifier", vec![("classifier_dropout", 0.3)], whole(), 0.3),
        // Only the classifier of texts has a key of its own.
        ("distilbert-classifier", vec![("seq_classif_dropout", 0.25)], whole(), 0.25),
        ("distilbert-masked", vec![("seq_classif_dropout", 0.25)], tokens(), 0.0),
    ] {
        let network = started(name, &on, &goal, none(), plain_head);
        // Before an identity with a bias, dropout of states makes no zeros.
        assert_share(dropped(logits(&network), None), share);
    }
    let taggers = started("distilbert-masked", &[("dropout", 0.4)], &tokens(), none(), plain_head);
    assert_share(dropped(logits(&taggers), None), 0.4);
    // `model.dropout` is that of all features.
    let keys = NetworkKeys { dropout: Some(0.2), ..none() };
    let tuned = started("distilbert-classifier", &[("seq_classif_dropout", 0.9)], &whole(), keys, plain_head);
    assert_share(dropped(logits(&tuned), None), 0.2);
}

#[test]
fn roberta_drops_the_states_that_its_head_reads() {
    // Without a bias, tanh of a dropped state is zero.
    let unbiased = |name: &str, shape: &[usize]| match name {
        "head.hidden.bias" => Some(vec![0.0; shape[0]]),
        _ => plain_head(name, shape),
    };
    let goal = || Goal::Whole(classes(), None);
    let on = [("classifier_dropout", 0.3)];
    let roberta = started("roberta-classifier", &on, &goal(), NetworkKeys::default(), unbiased);
    assert_share(dropped(logits(&roberta), None), 1.0 - 0.7 * 0.7);
    let bert = started("bert-classifier", &on, &goal(), NetworkKeys::default(), unbiased);
    assert_share(dropped(logits(&bert), Some(1.0 / 0.7)), 0.3);
}

#[test]
fn embeddings_have_the_dropout_of_their_key() {
    let network = |name, on: &[_], goal| started(name, on, &goal, NetworkKeys::default(), |_, _| None);
    let whole = || Goal::Whole(classes(), None);
    let gpt2 = |on: &[_]| network("gpt2", on, Goal::Next);
    assert_share(dropped(states(&gpt2(&[("embd_pdrop", 0.3)]), 0), Some(1.0 / 0.7)), 0.3);
    for key in ["resid_pdrop", "attn_pdrop"] {
        let model = gpt2(&[(key, 0.3)]);
        assert_eq!(dropped(states(&model, 0), Some(1.0)), 0.0, "{key}");
        assert_ne!(states(&model, 1)(&Pass::training(1)), states(&model, 1)(&Pass::inference()), "{key}");
    }
    for (name, key) in [("llama", "attention_dropout"), ("qwen3", "attention_dropout")] {
        let model = network(name, &[(key, 0.3)], Goal::Next);
        assert_eq!(dropped(states(&model, 0), Some(1.0)), 0.0, "{name}");
        assert_ne!(states(&model, 1)(&Pass::training(1)), states(&model, 1)(&Pass::inference()), "{name}");
    }
    for (name, key) in [("bert", "hidden_dropout_prob"), ("distilbert-classifier", "dropout")] {
        assert_share(dropped(states(&network(name, &[(key, 0.3)], whole()), 0), Some(1.0 / 0.7)), 0.3);
    }
    let keys = NetworkKeys { dropout: Some(0.2), ..NetworkKeys::default() };
    let model = started("gpt2", &[("embd_pdrop", 0.6)], &Goal::Next, keys, |_, _| None);
    assert_share(dropped(states(&model, 0), Some(1.0 / 0.8)), 0.2);
}

#[test]
fn distilbert_does_not_drop_the_output_of_attention() {
    // The feed-forward part gives nothing, so that only attention can make a difference.
    let silent =
        |name: &str, shape: &[usize]| name.contains("feed_forward.down.").then(|| vec![0.0; shape.iter().product()]);
    for (name, key, is_dropped) in
        [("distilbert-classifier", "dropout", false), ("bert-classifier", "hidden_dropout_prob", true)]
    {
        let goal = Goal::Whole(classes(), None);
        let Network::Encoder(model) = started(name, &[(key, 0.5)], &goal, NetworkKeys::default(), silent) else {
            panic!("an encoder")
        };
        let ids = padded(&texts().ids, &Device::flex()).unwrap();
        let (x, places) = model.encoder.embedding.forward(ids, 0, &Pass::inference()).unwrap();
        let block = &model.encoder.stack.layers[0];
        let run =
            |pass: &Pass| numbers(block.forward(x.clone(), None, &AttentionOptions::default(), &places, pass).unwrap());
        assert_eq!(run(&Pass::training(1)) != run(&Pass::inference()), is_dropped, "{name}");
    }
}

#[test]
fn t5_drops_the_last_states_of_both_sides() {
    let plain =
        |name: &str, shape: &[usize]| name.ends_with("cross_attention.key_value.weight").then(|| identity(shape));
    for (name, key, share) in [("t5", "dropout_rate", 0.3), ("marian", "dropout", 0.0)] {
        let network = started(name, &[(key, 0.3)], &Goal::Translation, NetworkKeys::default(), plain);
        let last = |pass: &Pass| {
            let outputs = network.run(&texts(), Some(&texts()), &Device::flex(), pass).unwrap();
            numbers(outputs.last)
        };
        assert_share(dropped(last, None), share);
        let Network::Translation(model) = &network else { panic!("a translator") };
        let ids = || padded(&texts().ids, &Device::flex()).unwrap();
        // Marian's keys have a bias, which is never zero.
        let keys = |pass: &Pass| numbers(model.encode(ids(), None, pass).unwrap().keys_values(0).unwrap().clone());
        assert_share(dropped(keys, None), share);
    }
}

#[test]
fn layers_that_would_be_left_out_are_refused() {
    let place = copied("marian");
    let path = place.path().join("config.json");
    let mut settings: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    settings["encoder_layerdrop"] = json!(0.1);
    fs::write(&path, settings.to_string()).unwrap();
    let keys = NetworkKeys { from: Some(place.path().to_path_buf()), ..NetworkKeys::default() };
    let error = Base::start(&keys, &LoraKeys::default(), &Goal::Translation).err().unwrap().to_string();
    assert!(error.contains("encoder_layerdrop") && error.lines().count() == 1, "{error}");
}

#[test]
fn sinusoids_stay_as_they_are() {
    let place = copied("distilbert-classifier");
    let path = place.path().join("config.json");
    let mut settings: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for is_fixed in [false, true] {
        settings["sinusoidal_pos_embds"] = json!(is_fixed);
        fs::write(&path, settings.to_string()).unwrap();
        let keys = NetworkKeys { from: Some(place.path().to_path_buf()), ..NetworkKeys::default() };
        let goal = Goal::Whole(classes(), None);
        let (base, _) = Base::start(&keys, &LoraKeys::default(), &goal).unwrap();
        assert_eq!(base.is_trained("encoder.embedding.position.Learned.weight"), !is_fixed);
        assert!(base.is_trained("encoder.embedding.tokens.weight"));
    }
}
