//! Properties of every kind of body of a tagger or classifier.

use burn::tensor::{Tensor, TensorData};
use proptest::prelude::*;
use regard_nn::models::body::{Body, BodyConfig, BodySizes, TransformerBodyConfig};
use regard_nn::{Init, Pass};

use crate::support::{close, gradient, leaf, training, values};

const SIZES: BodySizes = BodySizes { d_in: 3, d_model: 8, n_layers: 2, dropout: 0.0 };

const KINDS: [&str; 7] = ["none", "rnn", "lstm", "gru", "intra_attention", "transformer", "linear"];

fn config(kind: &str) -> BodyConfig {
    let value = match kind {
        "linear" => serde_json::json!({ "kind": "transformer", "attention": "linear" }),
        kind => serde_json::json!({ "kind": kind }),
    };
    serde_json::from_value(value).unwrap()
}

fn body(kind: &str) -> Body {
    config(kind).init(SIZES, &Init::new(3, &training())).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(15))]
    /// The states of a sequence are the same alone and in a batch, whatever its padding contains.
    #[test]
    fn padding_has_no_effect(
        (seq, lengths) in (1usize..6).prop_flat_map(|seq| (Just(seq), prop::collection::vec(1..=seq, 1..4))),
    ) {
        let batch = lengths.len();
        let numbers = values(leaf([batch, seq, 3], 1));
        for kind in KINDS {
            let body = body(kind);
            for value in [0.0, f32::NAN, 1e30] {
                let put = |(place, &x): (usize, &f32)| if place / 3 % seq < lengths[place / 3 / seq] { x } else { value };
                let x: Vec<f32> = numbers.iter().enumerate().map(put).collect();
                let x = Tensor::<3>::from_data(TensorData::new(x, [batch, seq, 3]), &training()).require_grad();
                let out = body.forward(x.clone(), Some(&lengths), &Pass::inference()).unwrap();
                for (sequence, &length) in lengths.iter().enumerate() {
                    let alone = TensorData::new(numbers[sequence * seq * 3..][..length * 3].to_vec(), [1, length, 3]);
                    let alone = body.forward(Tensor::from_data(alone, &training()), None, &Pass::inference()).unwrap();
                    let whole = out.clone().narrow(0, sequence, 1).narrow(1, 0, length);
                    close(&format!("{kind} with {value}"), &values(whole), &values(alone), 3e-6);
                }
            }
        }
    }
}

/// The state of each word depends on every other word, except without a body.
#[test]
fn each_word_depends_on_every_other() {
    for kind in KINDS {
        let (body, x) = (body(kind), leaf([1, 4, 3], 1));
        for word in 0..4 {
            let state = body.forward(x.clone(), None, &Pass::inference()).unwrap().narrow(1, word, 1);
            // The plain sum of a norm's output is the same for any word, so the features are weighted.
            let weights = leaf(state.dims(), 5).detach();
            let found = gradient(&x, &(state * weights).sum().backward());
            for (other, row) in found.chunks(3).enumerate() {
                let known = row.iter().any(|&x| x != 0.0);
                assert_eq!(known, kind != "none" || other == word, "{kind}: word {word} of word {other}");
            }
        }
    }
}

/// Intra-attention in both directions: swapping the two networks and reversing the input reverses the output.
#[test]
fn swapping_the_directions_mirrors_the_output() {
    let mut intra = body("intra_attention");
    let x: Tensor<3> = leaf([2, 5, 3], 1);
    let turned = x.clone().flip([1]);
    let run = |body: &Body, x| body.forward(x, None, &Pass::inference()).unwrap();
    let Body::IntraAttention(layers) = &mut intra else { panic!("expected intra-attention") };
    layers.layers.truncate(1);
    let plain = run(&intra, x);
    let Body::IntraAttention(layers) = &mut intra else { panic!("expected intra-attention") };
    let layer = &mut layers.layers[0];
    std::mem::swap(&mut layer.forward, &mut layer.backward);
    let other = run(&intra, turned).flip([1]);
    assert_eq!(values(plain.clone().narrow(2, 0, 4)), values(other.clone().narrow(2, 4, 4)));
    assert_eq!(values(plain.narrow(2, 4, 4)), values(other.narrow(2, 0, 4)));
}

#[test]
fn dropout_is_only_in_training() {
    for kind in ["rnn", "lstm", "gru", "intra_attention", "transformer"] {
        let body = config(kind).init(BodySizes { dropout: 0.5, ..SIZES }, &Init::new(3, &training())).unwrap();
        let run = |pass: Pass| values(body.forward(leaf([2, 5, 3], 1), Some(&[5, 3]), &pass).unwrap());
        assert_eq!(run(Pass::training(1)), run(Pass::training(1)), "{kind}");
        assert_ne!(run(Pass::training(1)), run(Pass::training(2)), "{kind}");
        assert_ne!(run(Pass::training(1)), run(Pass::inference()), "{kind}");
    }
}

#[test]
fn bad_fields_are_named() {
    let refused = |config: BodyConfig, sizes| config.validate(sizes).unwrap_err().to_string();
    let odd = BodySizes { d_model: 7, ..SIZES };
    assert_eq!(refused(BodyConfig::Lstm, odd), "d_model = 7: expected an even number, half for each direction");
    let none = BodySizes { n_layers: 0, ..SIZES };
    assert_eq!(refused(BodyConfig::Gru, none), "n_layers = 0: expected a whole number, 1 or more");
    let heads = BodyConfig::Transformer(TransformerBodyConfig { n_heads: 3, ..Default::default() });
    assert!(refused(heads, SIZES).starts_with("body.n_heads = 3"), "{}", refused(heads, SIZES));
    assert!(BodyConfig::None.validate(BodySizes { n_layers: 0, d_model: 0, ..SIZES }).is_ok());
    let parse = |text| serde_json::from_str::<BodyConfig>(text).map_err(|error| error.to_string());
    assert!(parse(r#"{"kind": "lstm", "n_heads": 3}"#).unwrap_err().contains("unknown field `n_heads`"));
    assert!(parse(r#"{"kind": "transformer", "heads": 3}"#).unwrap_err().contains("unknown field `heads`"));
    let parsed = parse(r#"{"kind": "transformer", "n_heads": 2, "position": "rope"}"#);
    assert!(matches!(parsed, Ok(BodyConfig::Transformer(config)) if config.n_heads == 2), "{parsed:?}");
}
