//! Tests of the feed-forward part against its formula in plain Burn operations, and of its configuration.

use burn::tensor::activation::{relu, silu};
use regard_nn::layers::feed_forward::{FeedForwardConfig, Gate};
use regard_nn::{Init, Pass};
use regard_ops::Activation;

use crate::support::{close, gradient, leaf, training, values};

#[test]
fn plain_and_gated_match_the_formula() {
    for gate in [Gate::None, Gate::Product] {
        let activation = if gate == Gate::None { Activation::Relu } else { Activation::Silu };
        let config = FeedForwardConfig { activation, gate, ..FeedForwardConfig::new(6, 10) };
        let layer = config.init(&Init::new(3, &training())).unwrap();
        let x = leaf([2, 5, 6], 1);
        let got = layer.forward(x.clone(), &Pass::inference()).unwrap();
        let up = x.clone().matmul(layer.up.weight.val().unsqueeze());
        let hidden = match &layer.gate {
            Some(gate) => silu(x.clone().matmul(gate.weight.val().unsqueeze())) * up,
            None => relu(up),
        };
        let want = hidden.matmul(layer.down.weight.val().unsqueeze());
        let grads = [got.clone(), want.clone()].map(|y| {
            let grads = (y.clone() * y).sum().backward();
            (gradient(&x, &grads), gradient(&layer.up.weight.val(), &grads))
        });
        close("output", &values(got), &values(want), 1e-6);
        close("gradient of the input", &grads[0].0, &grads[1].0, 1e-5);
        close("gradient of a weight", &grads[0].1, &grads[1].1, 1e-5);
    }
}

#[test]
fn dropout_is_only_in_training_and_depends_on_the_seed() {
    let config = FeedForwardConfig { dropout: 0.5, ..FeedForwardConfig::new(6, 10) };
    let layer = config.init(&Init::new(3, &training())).unwrap();
    let x = leaf([2, 5, 6], 1);
    let run = |pass: Pass| values(layer.forward(x.clone(), &pass).unwrap());
    assert_eq!(run(Pass::training(1)), run(Pass::training(1)));
    assert_ne!(run(Pass::training(1)), run(Pass::training(2)));
    assert_ne!(run(Pass::training(1)), run(Pass::training(1).at("word", 0)));
    assert_eq!(run(Pass::inference()), run(Pass::inference()));
}

#[test]
fn bad_fields_are_named() {
    let config = FeedForwardConfig { dropout: 1.0, ..FeedForwardConfig::new(6, 10) };
    assert_eq!(config.validate().unwrap_err().to_string(), "dropout = 1: expected a number from 0 to below 1");
    let parse = |text| serde_json::from_str::<FeedForwardConfig>(text).map_err(|error| error.to_string());
    let unknown = parse(r#"{"d_model": 4, "d_ff": 8, "activation": "swish"}"#).unwrap_err();
    assert!(unknown.contains("`swish`, expected one of `relu`, `gelu`, `gelu_tanh`, `silu`"), "{unknown}");
    assert!(parse(r#"{"d_model": 4, "dff": 8}"#).unwrap_err().contains("unknown field `dff`"));
    let parsed = parse(r#"{"d_model": 4, "d_ff": 8, "activation": "gelu"}"#).unwrap();
    assert_eq!(parsed.activation, Activation::Gelu);
}
