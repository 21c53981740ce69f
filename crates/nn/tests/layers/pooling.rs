//! Tests of pooling against PyTorch, with lengths and captured weights.

use burn::tensor::{Tensor, TensorData};
use proptest::prelude::*;
use regard_nn::layers::pooling::{Pooling, PoolingConfig};
use regard_nn::{Capture, Init, Pass};

use crate::golden::Golden;
use crate::link::{Action, Link};
use crate::support::{close, gradient, leaf, training, values};

const KINDS: [PoolingConfig; 5] = [
    PoolingConfig::Mean,
    PoolingConfig::Sum,
    PoolingConfig::Max,
    PoolingConfig::First,
    PoolingConfig::Attention { d_hidden: Some(5) },
];

fn layer(config: PoolingConfig) -> Pooling {
    config.init(3, &Init::new(3, &training()).enter("pooling")).unwrap()
}

#[test]
fn outputs_weights_and_gradients_match_pytorch() {
    let golden = Golden::open("pooling");
    for config in KINDS {
        let case = serde_json::to_value(config).unwrap()["kind"].as_str().unwrap().to_string();
        let name = |name: &str| format!("{case}/{name}");
        let mut layer = layer(config);
        let link = |action, layer: &mut Pooling| {
            if layer.attention.is_some() {
                Link { golden: &golden, case: &case, action }.pooling(layer, "");
            }
        };
        link(Action::Load, &mut layer);
        let x = golden.tensor::<3>(&name("x"), &training()).require_grad();
        let capture = Capture::default();
        let pass = Pass::inference().with_capture(&capture);
        let out = layer.forward(x.clone(), Some(&[4, 0, 2]), &pass).unwrap();
        close(&case, &values(out.clone()), &golden.floats(&name("out")), 2e-6);
        let gradients = (out * golden.tensor(&name("grad_out"), &training())).sum().backward();
        close(&name("grad_x"), &gradient(&x, &gradients), &golden.floats(&name("grad_x")), 3e-6);
        link(Action::Compare(&gradients, 3e-6), &mut layer);

        let maps = capture.into_maps();
        if layer.attention.is_none() {
            assert!(maps.is_empty());
            continue;
        }
        assert_eq!(maps.len(), 3);
        for (map, want) in maps.iter().zip(golden.floats(&name("weights")).chunks(4)) {
            assert_eq!((map.site.to_string().as_str(), map.rows.len()), ("pooling", 1));
            close("weights", &map.rows[0], want, 2e-6);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn padding_has_no_effect(
        (seq, lengths) in (1usize..6).prop_flat_map(|seq| (Just(seq), prop::collection::vec(0..=seq, 1..4))),
    ) {
        let batch = lengths.len();
        let x = values(leaf([batch, seq, 3], 1));
        for config in KINDS {
            let layer = layer(config);
            let found = [0.0, f32::NAN, 3e38].map(|value| {
                let put = |(place, &x): (usize, &f32)| if place / 3 % seq < lengths[place / 3 / seq] { x } else { value };
                let x: Vec<f32> = x.iter().enumerate().map(put).collect();
                let x = Tensor::<3>::from_data(TensorData::new(x, [batch, seq, 3]), &training()).require_grad();
                let out = layer.forward(x.clone(), Some(&lengths), &Pass::inference()).unwrap();
                let gradients = (out.clone() * leaf([batch, 3], 2).detach()).sum().backward();
                [values(out), gradient(&x, &gradients)]
            });
            prop_assert!(found[0].iter().flatten().all(|value| value.is_finite()));
            prop_assert_eq!(&found[0], &found[1]);
            prop_assert_eq!(&found[0], &found[2]);
            for (sequence, (out, &length)) in found[0][0].chunks(3).zip(&lengths).enumerate() {
                let alone = match length {
                    0 => vec![0.0; 3],
                    _ => {
                        let x = TensorData::new(x[sequence * seq * 3..][..length * 3].to_vec(), [1, length, 3]);
                        let x = Tensor::from_data(x, &training());
                        values(layer.forward(x, None, &Pass::inference()).unwrap())
                    }
                };
                close("alone", out, &alone, 1e-6);
            }
        }
    }
}

#[test]
fn bad_fields_and_inputs_are_named() {
    let none = PoolingConfig::Attention { d_hidden: Some(0) }.validate().unwrap_err().to_string();
    assert_eq!(none, "d_hidden = 0: expected a whole number, 1 or more");
    let refused = |x, lengths: &[usize]| {
        layer(PoolingConfig::Mean).forward(x, Some(lengths), &Pass::inference()).unwrap_err().to_string()
    };
    let shape = "tokens: expected [batch, seq, 3], each 1 or more, got";
    assert_eq!(refused(leaf([1, 2, 4], 1), &[2]), format!("{shape} [1, 2, 4]"));
    assert_eq!(refused(leaf([1, 2, 3], 1), &[3]), "lengths: expected each at most 2, got 3");
}
