use burn::tensor::{DType, Tensor};
use proptest::prelude::*;
use regard_ops::{GroupNormOptions, OpError, Rectifier, group_norm, group_norm_fallback};

use crate::golden::Golden;
use crate::support::{close, gradient, leaf, loss, training, values};

fn options(groups: usize, rectifier: Rectifier) -> GroupNormOptions {
    GroupNormOptions { groups, epsilon: 1e-5, rectifier }
}

#[test]
fn agrees_with_pytorch() {
    let golden = Golden::open("group_norm");
    let device = training();
    for (case, settings) in golden.cases() {
        let name = |name: &str| format!("{case}/{name}");
        let rectifier = if settings["relu"].as_bool().unwrap() { Rectifier::Relu } else { Rectifier::None };
        let groups = settings["groups"].as_u64().unwrap() as usize;
        let epsilon = settings["eps"].as_f64().unwrap() as f32;
        let x = golden.tensor::<4>(&name("x"), &device).require_grad();
        let gamma = golden.tensor::<1>(&name("weight"), &device).require_grad();
        let beta = golden.tensor::<1>(&name("bias"), &device).require_grad();
        let onto = golden.has(&name("onto")).then(|| golden.tensor::<4>(&name("onto"), &device).require_grad());
        let options = GroupNormOptions { epsilon, ..options(groups, rectifier) };
        let out = group_norm(x.clone(), gamma.clone(), beta.clone(), onto.clone(), &options).unwrap();
        let gradients = loss(&out, &golden.tensor(&name("grad_out"), &device));
        // If the mean is large, rounding it leaves an error after it is subtracted.
        let tolerance = if case == "far_from_zero" { 2e-4 } else { 3e-6 };
        close(&name("out"), &values(out), &golden.floats(&name("out")), tolerance);
        close(&name("grad_x"), &gradient(&x, &gradients), &golden.floats(&name("grad_x")), tolerance);
        close(&name("grad_weight"), &gradient(&gamma, &gradients), &golden.floats(&name("grad_weight")), tolerance);
        close(&name("grad_bias"), &gradient(&beta, &gradients), &golden.floats(&name("grad_bias")), tolerance);
        if let Some(onto) = onto {
            close(&name("grad_onto"), &gradient(&onto, &gradients), &golden.floats(&name("grad_onto")), tolerance);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn agrees_with_its_fallback(batch in 1usize..4, groups in 1usize..4, per_group in 1usize..5, size in [2usize..8, 2usize..8],
                                with_onto: bool, with_relu: bool) {
        let shape = [batch, groups * per_group, size[0], size[1]];
        let (x, gamma, beta) = (leaf(shape, 1), leaf([shape[1]], 2), leaf([shape[1]], 3));
        let onto = with_onto.then(|| leaf(shape, 4));
        let options = options(groups, if with_relu { Rectifier::Relu } else { Rectifier::None });
        let weights = leaf(shape, 5);
        let results = [true, false].map(|fused| {
            let out = match fused {
                true => group_norm(x.clone(), gamma.clone(), beta.clone(), onto.clone(), &options).unwrap(),
                false => group_norm_fallback(x.clone(), gamma.clone(), beta.clone(), onto.clone(), &options),
            };
            let gradients = loss(&out, &weights);
            let mut all = vec![values(out), gradient(&x, &gradients), gradient(&gamma, &gradients), gradient(&beta, &gradients)];
            all.extend(onto.as_ref().map(|onto| gradient(onto, &gradients)));
            all
        });
        for (n, (fused, fallback)) in results[0].iter().zip(&results[1]).enumerate() {
            close(&format!("result {n}"), fused, fallback, 1e-4);
        }
    }
}

#[test]
fn a_transposed_image_gives_the_right_output() {
    let x = leaf([2, 4, 5, 3], 1).swap_dims(2, 3);
    let copy = Tensor::<4>::from_data(x.clone().into_data(), &training());
    let run = |x| group_norm(x, leaf([4], 2), leaf([4], 3), None, &options(2, Rectifier::Relu)).unwrap();
    assert_eq!(values(run(x)), values(run(copy)));
}

#[test]
fn bad_input_is_a_typed_error() {
    let (x, gamma, plain) = (leaf([2, 4, 3, 3], 1), leaf([4], 2), options(2, Rectifier::None));
    let error = group_norm(x.clone(), leaf([3], 2), gamma.clone(), None, &plain).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "gamma", .. }), "{error}");
    let error = group_norm(x.clone(), gamma.clone(), leaf([3], 2), None, &plain).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "beta", .. }), "{error}");
    let onto = Some(leaf([2, 4, 3, 2], 3));
    let error = group_norm(x.clone(), gamma.clone(), gamma.clone(), onto, &plain).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "residual", .. }), "{error}");
    let error = group_norm(x.clone().cast(DType::F64), gamma.clone(), gamma.clone(), None, &plain).unwrap_err();
    assert!(matches!(error, OpError::DType { what: "input", .. }), "{error}");
    let wrong = GroupNormOptions { epsilon: f32::NAN, ..plain };
    let error = group_norm(x.clone(), gamma.clone(), gamma.clone(), None, &wrong).unwrap_err();
    assert!(matches!(error, OpError::Option { what: "epsilon", .. }), "{error}");
    for groups in [0, 3] {
        let error = group_norm(x.clone(), gamma.clone(), gamma.clone(), None, &options(groups, Rectifier::None));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("expected a divisor of the 4 channels"), "{error}");
    }
    let error = group_norm(leaf([2, 4, 0, 3], 1), gamma.clone(), gamma, None, &plain).unwrap_err();
    assert!(matches!(error, OpError::Kernel(_)), "{error}");
}
