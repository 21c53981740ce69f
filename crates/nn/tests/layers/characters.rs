//! Tests of word vectors from characters against PyTorch, with any lengths.

use burn::tensor::{Int, Tensor};
use proptest::prelude::*;
use regard_nn::layers::characters::{Characters, CharactersConfig, Reader};
use regard_nn::layers::recurrent::Cell;
use regard_nn::{Init, Pass};
use serde_json::Value;

use crate::case::integers;
use crate::golden::Golden;
use crate::link::{Action, Link};
use crate::support::{close, gradient, leaf, training, values};

fn layer(config: &CharactersConfig) -> Characters {
    config.init(6, &Init::new(3, &training())).unwrap().unwrap()
}

fn config(options: &Value) -> CharactersConfig {
    match options.get("widths") {
        Some(widths) => CharactersConfig::Convolution {
            d_char: 3,
            widths: serde_json::from_value(widths.clone()).unwrap(),
            filters: 4,
        },
        None => {
            let fields = serde_json::json!({"kind": "recurrent", "d_char": 3, "cell": options["cell"], "d_hidden": 2});
            serde_json::from_value(fields).unwrap()
        }
    }
}

fn each_kind() -> Vec<CharactersConfig> {
    let recurrent = |cell| CharactersConfig::Recurrent { d_char: 3, cell, d_hidden: 2 };
    let windows = |widths: &[usize]| CharactersConfig::Convolution { d_char: 3, widths: widths.to_vec(), filters: 2 };
    vec![windows(&[3]), windows(&[1, 4]), recurrent(Cell::Rnn), recurrent(Cell::lstm()), recurrent(Cell::gru())]
}

#[test]
fn outputs_and_gradients_match_pytorch() {
    let golden = Golden::open("characters");
    for (case, options) in golden.cases() {
        let lengths: Vec<usize> = serde_json::from_value(options["lengths"].clone()).unwrap();
        let config = config(&options);
        let mut layer = layer(&config);
        let link = |action, layer: &mut Characters| {
            let link = Link { golden: &golden, case: &case, action };
            link.plain(&mut layer.embedding.weight, "embedding.weight", None);
            match &mut layer.reader {
                Reader::Convolution(windows) => {
                    for (n, window) in windows.windows.iter_mut().enumerate() {
                        link.linear(&mut window.convolution, &format!("window{n}"));
                    }
                }
                Reader::Recurrent(network) => link.recurrent(network, "network"),
            }
        };
        link(Action::Load, &mut layer);
        let ids = golden.integers::<2>(&format!("{case}/ids"), &training());
        let out = layer.forward(ids, Some(&lengths), &Pass::inference()).unwrap();
        assert_eq!(out.dims()[1], config.d_out());
        close(&case, &values(out.clone()), &golden.floats(&format!("{case}/out")), 2e-6);
        let gradients = (out * golden.tensor(&format!("{case}/grad_out"), &training())).sum().backward();
        link(Action::Compare(&gradients, 3e-6), &mut layer);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    /// The characters beyond a word's end have no effect: its vector is the same alone and in a batch.
    #[test]
    fn padding_has_no_effect(
        (chars, lengths) in (1usize..6).prop_flat_map(|chars| (Just(chars), prop::collection::vec(0..=chars, 1..4))),
    ) {
        let words = lengths.len();
        for config in each_kind() {
            let layer = layer(&config);
            let id = |place: usize, other: usize| {
                if place % chars < lengths[place / chars] { (place * 5 + 1) % 6 } else { other }
            };
            let found = [0, 3].map(|other| {
                let ids: Vec<usize> = (0..words * chars).map(|place| id(place, other)).collect();
                let out = layer.forward(integers(&ids, [words, chars]), Some(&lengths), &Pass::inference()).unwrap();
                let gradients = (out.clone() * leaf(out.dims(), 9).detach()).sum().backward();
                [values(out), gradient(&layer.embedding.weight.val(), &gradients)]
            });
            prop_assert!(found[0].iter().flatten().all(|value| value.is_finite()));
            prop_assert_eq!(&found[0], &found[1]);
            for (word, (out, &length)) in found[0][0].chunks(config.d_out()).zip(&lengths).enumerate() {
                if length == 0 {
                    prop_assert!(out.iter().all(|&x| x == 0.0));
                    continue;
                }
                let ids: Vec<usize> = (0..length).map(|char| id(word * chars + char, 0)).collect();
                let alone = layer.forward(integers(&ids, [1, length]), None, &Pass::inference()).unwrap();
                close("alone", out, &values(alone), 1e-6);
            }
        }
    }
}

#[test]
fn bad_fields_and_inputs_are_named() {
    let refused = |config: CharactersConfig| config.validate().unwrap_err().to_string();
    let windows =
        |widths: &[usize], filters| CharactersConfig::Convolution { d_char: 3, widths: widths.to_vec(), filters };
    assert_eq!(refused(windows(&[], 2)), "widths = []: expected at least one window");
    assert_eq!(refused(windows(&[3, 0], 2)), "widths[1] = 0: expected a whole number, 1 or more");
    assert_eq!(refused(windows(&[3], 0)), "filters = 0: expected a whole number, 1 or more");
    let recurrent = CharactersConfig::Recurrent { d_char: 3, cell: Cell::lstm(), d_hidden: 0 };
    assert_eq!(refused(recurrent), "d_hidden = 0: expected a whole number, 1 or more");
    assert!(CharactersConfig::None.init(6, &Init::new(1, &training())).unwrap().is_none());
    let vocab = CharactersConfig::convolution().init(0, &Init::new(1, &training())).unwrap_err();
    assert_eq!(vocab.to_string(), "vocab = 0: expected a whole number, 1 or more");
    let layer = layer(&windows(&[3], 2));
    let forward = |shape: [usize; 2], lengths: &[usize]| {
        let ids = Tensor::<2, Int>::zeros(shape, &training());
        layer.forward(ids, Some(lengths), &Pass::inference()).unwrap_err().to_string()
    };
    assert_eq!(forward([2, 0], &[0, 0]), "characters: expected [words, chars], each 1 or more, got [2, 0]");
    assert_eq!(forward([2, 3], &[0, 4]), "lengths: expected each at most 3, got 4");
    let parse = |text| serde_json::from_str::<CharactersConfig>(text).map_err(|error| error.to_string());
    assert_eq!(parse(r#"{"kind": "convolution"}"#).unwrap(), CharactersConfig::convolution());
    assert_eq!(parse(r#"{"kind": "recurrent"}"#).unwrap(), CharactersConfig::recurrent());
    assert!(parse(r#"{"kind": "recurrent", "filters": 3}"#).unwrap_err().contains("unknown field `filters`"));
}
