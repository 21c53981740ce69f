use burn::tensor::{DType, Device, Tensor, TensorData};
use proptest::prelude::*;
use regard_ops::{OpError, Pairing, rope, rope_angles, rope_fallback, rope_packed, rope_packed_fallback};

use crate::golden::Golden;
use crate::support::{close, device, gradient, leaf, loss, training, values};

#[test]
fn agrees_with_pytorch() {
    let golden = Golden::open("rope");
    let device = training();
    for (case, settings) in golden.cases() {
        let name = |name: &str| format!("{case}/{name}");
        let pairing = match settings["pairing"].as_str().unwrap() {
            "interleaved" => Pairing::Interleaved,
            "halves" => Pairing::Halves,
            other => panic!("{case}: {other}"),
        };
        let x = golden.tensor::<4>(&name("x"), &device).require_grad();
        let angles = golden.tensor::<2>(&name("angles"), &device).require_grad();
        if let Some(base) = settings["base"].as_f64() {
            let [_, _, seq, d_head] = x.dims();
            close(&name("angles"), &rope_angles(seq, d_head, base as f32, 0), &values(angles.clone()), 1e-7);
        }
        let out = rope(x.clone(), angles.clone(), pairing).unwrap();
        let gradients = loss(&out, &golden.tensor(&name("grad_out"), &device));
        close(&name("out"), &values(out), &golden.floats(&name("out")), 1e-6);
        close(&name("grad_x"), &gradient(&x, &gradients), &golden.floats(&name("grad_x")), 1e-6);
        close(&name("grad_angles"), &gradient(&angles, &gradients), &golden.floats(&name("grad_angles")), 2e-6);
    }
}

fn any_pairing() -> impl Strategy<Value = Pairing> {
    prop::sample::select(vec![Pairing::Interleaved, Pairing::Halves])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn agrees_with_its_fallback(batch in 1usize..3, heads in 1usize..4, seq in 1usize..9, half in 1usize..20,
                                pairing in any_pairing(), learned: bool, seed: u64) {
        let shape = [batch, heads, seq, 2 * half];
        let (x, angles, weights) = (leaf(shape, seed), leaf([seq, half], 2), leaf(shape, 3));
        let [fused, fallback] = [true, false].map(|fused| {
            let angles = if learned { angles.clone() } else { angles.clone().set_require_grad(false) };
            let turns = angles.clone() * 3.0;
            let out = match fused {
                true => rope(x.clone(), turns, pairing).unwrap(),
                false => rope_fallback(x.clone(), turns, pairing),
            };
            let gradients = loss(&out, &weights);
            (angles.grad(&gradients).is_some(), [values(out), gradient(&x, &gradients), gradient(&angles, &gradients)])
        });
        prop_assert_eq!([fused.0, fallback.0], [learned; 2]);
        for (n, (fused, fallback)) in fused.1.iter().zip(&fallback.1).enumerate() {
            close(&format!("result {n}"), fused, fallback, 1e-5);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn rope_packed_agrees_with_its_fallback(batch in 1usize..3, heads in 1usize..5, turned in 0usize..5, seq in 1usize..9,
                                            half in 1usize..20, pairing in any_pairing(), learned: bool, seed: u64) {
        let turned = turned.min(heads);
        let shape = [batch, seq, heads * 2 * half];
        let (x, angles, weights) = (leaf(shape, seed), leaf([seq, half], 2), leaf(shape, 3));
        let [fused, fallback] = [true, false].map(|fused| {
            let angles = if learned { angles.clone() } else { angles.clone().set_require_grad(false) };
            let turns = angles.clone() * 3.0;
            let out = match fused {
                true => rope_packed(x.clone(), turned, turns, pairing).unwrap(),
                false => rope_packed_fallback(x.clone(), turned, turns, pairing),
            };
            let gradients = loss(&out, &weights);
            [values(out), gradient(&x, &gradients), gradient(&angles, &gradients)]
        });
        for (n, (fused, fallback)) in fused.iter().zip(&fallback).enumerate() {
            close(&format!("result {n}"), fused, fallback, 1e-5);
        }
    }
}

#[test]
fn a_transposed_view_of_heads_gives_the_right_output() {
    let (x, angles) = (leaf([2, 5, 3, 8], 1), leaf([5, 4], 2));
    for pairing in [Pairing::Interleaved, Pairing::Halves] {
        let heads = x.clone().swap_dims(1, 2);
        let want = values(rope_fallback(heads.clone(), angles.clone(), pairing));
        close("out", &values(rope(heads, angles.clone(), pairing).unwrap()), &want, 1e-6);
    }
}

#[test]
fn angles_may_be_untracked() {
    let (x, weights) = (leaf([2, 3, 5, 8], 1), leaf([2, 3, 5, 8], 2));
    let angles = |device: &Device| Tensor::from_data(TensorData::new(rope_angles(5, 8, 100.0, 2), [5, 4]), device);
    let results = [training(), device()].map(|device| {
        let out = rope(x.clone(), angles(&device), Pairing::Halves).unwrap();
        let gradients = loss(&out, &weights);
        (values(out), gradient(&x, &gradients))
    });
    assert_eq!(results[0], results[1]);
    let out = rope(x.inner(), angles(&device()), Pairing::Halves).unwrap();
    assert_eq!(values(out), results[0].0);
}

#[test]
fn an_angle_is_the_position_divided_by_a_power_of_the_base() {
    close("angles", &rope_angles(2, 4, 100.0, 0), &[0.0, 0.0, 1.0, 0.1], 1e-7);
    let all = rope_angles(9, 6, 10_000.0, 0);
    assert_eq!(rope_angles(4, 6, 10_000.0, 5), all[5 * 3..]);
    assert!(rope_angles(0, 6, 10_000.0, 5).is_empty());
}

#[test]
fn bad_input_is_a_typed_error() {
    for d_head in [7, 0] {
        let error = rope(leaf([1, 2, 3, d_head], 1), leaf([3, d_head / 2], 2), Pairing::Halves).unwrap_err();
        assert!(matches!(error, OpError::Shape { what: "input", .. }), "{error}");
        assert!(error.to_string().contains("even"), "{error}");
    }
    for angles in [[3, 3], [4, 4]] {
        let error = rope(leaf([1, 2, 3, 8], 1), leaf(angles, 2), Pairing::Halves).unwrap_err();
        assert!(matches!(error, OpError::Shape { what: "angles", .. }), "{error}");
    }
    for (width, turned) in [(24, 4), (20, 1), (0, 1)] {
        let error = rope_packed(leaf([1, 3, width], 1), turned, leaf([3, 4], 2), Pairing::Halves).unwrap_err();
        assert!(matches!(error, OpError::Shape { what: "input", .. }), "{error}");
    }
    let error = rope(leaf([1, 2, 3, 8], 1), leaf([3, 4], 2).cast(DType::F64), Pairing::Halves).unwrap_err();
    assert!(matches!(error, OpError::DType { what: "angles", .. }), "{error}");
}
