use burn::tensor::DType;
use proptest::prelude::*;
use regard_ops::{OpError, rms_norm, rms_norm_fallback};

use crate::golden::Golden;
use crate::support::{close, gradient, leaf, loss, training, values};

#[test]
fn agrees_with_pytorch() {
    let golden = Golden::open("rms_norm");
    let device = training();
    for (case, settings) in golden.cases() {
        let name = |name: &str| format!("{case}/{name}");
        let x = golden.tensor::<2>(&name("x"), &device).require_grad();
        let gamma = golden.tensor::<1>(&name("weight"), &device).require_grad();
        let out = rms_norm(x.clone(), gamma.clone(), settings["eps"].as_f64().unwrap() as f32).unwrap();
        let gradients = loss(&out, &golden.tensor(&name("grad_out"), &device));
        close(&name("out"), &values(out), &golden.floats(&name("out")), 2e-6);
        close(&name("grad_x"), &gradient(&x, &gradients), &golden.floats(&name("grad_x")), 2e-6);
        close(&name("grad_gamma"), &gradient(&gamma, &gradients), &golden.floats(&name("grad_weight")), 2e-6);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn agrees_with_its_fallback(batch in 1usize..4, seq in 1usize..9, d_model in 1usize..40, seed: u64,
                                epsilon in prop::sample::select(vec![1e-5_f32, 1e-2, 1.0])) {
        let (x, gamma) = (leaf([batch, seq, d_model], seed), leaf([d_model], 2));
        let weights = leaf([batch, seq, d_model], 3);
        let results = [
            rms_norm(x.clone(), gamma.clone(), epsilon).unwrap(),
            rms_norm_fallback(x.clone(), gamma.clone(), epsilon),
        ]
        .map(|out| {
            let gradients = loss(&out, &weights);
            [values(out), gradient(&x, &gradients), gradient(&gamma, &gradients)]
        });
        for (n, (fused, fallback)) in results[0].iter().zip(&results[1]).enumerate() {
            // The gradient of a narrow row is a small difference of numbers up to 1/√epsilon.
            close(&format!("result {n}"), fused, fallback, 1e-4);
        }
    }
}

#[test]
fn gradients_are_the_same_if_only_one_input_is_tracked() {
    let (x, gamma, weights) = (leaf([4, 6], 1), leaf([6], 2), leaf([4, 6], 3));
    let both = loss(&rms_norm(x.clone(), gamma.clone(), 1e-6).unwrap(), &weights);
    let of_x = loss(&rms_norm(x.clone(), gamma.clone().set_require_grad(false), 1e-6).unwrap(), &weights);
    assert_eq!(gradient(&x, &of_x), gradient(&x, &both));
    assert!(gamma.grad(&of_x).is_none());
    let of_gamma = loss(&rms_norm(x.clone().set_require_grad(false), gamma.clone(), 1e-6).unwrap(), &weights);
    assert_eq!(gradient(&gamma, &of_gamma), gradient(&gamma, &both));
    assert!(x.grad(&of_gamma).is_none());
}

#[test]
fn a_vector_is_one_row() {
    let (x, gamma) = (leaf([7], 1), leaf([7], 2));
    let want = values(rms_norm_fallback(x.clone(), gamma.clone(), 1e-6));
    close("out", &values(rms_norm(x, gamma, 1e-6).unwrap()), &want, 1e-6);
}

#[test]
fn bad_input_is_a_typed_error() {
    let error = rms_norm(leaf([2, 3], 1), leaf([4], 2), 1e-6).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "gamma", .. }), "{error}");
    let error = rms_norm(leaf([2, 0], 1), leaf([0], 2), 1e-6).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "input", .. }), "{error}");
    for epsilon in [-1e-6, f32::NAN, f32::INFINITY] {
        let error = rms_norm(leaf([2, 3], 1), leaf([3], 2), epsilon).unwrap_err();
        assert!(matches!(error, OpError::Option { what: "epsilon", .. }), "{error}");
    }
    let error = rms_norm(leaf([2, 3], 1), leaf([3], 2).cast(DType::F64), 1e-6).unwrap_err();
    assert!(matches!(error, OpError::DType { what: "gamma", .. }), "{error}");
}
