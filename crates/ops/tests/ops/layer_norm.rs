use proptest::prelude::*;
use regard_ops::{OpError, layer_norm, layer_norm_fallback};

use crate::golden::Golden;
use crate::support::{close, gradient, leaf, loss, training, values};

#[test]
fn agrees_with_pytorch() {
    let golden = Golden::open("layer_norm");
    let device = training();
    for (case, settings) in golden.cases() {
        let name = |name: &str| format!("{case}/{name}");
        let x = golden.tensor::<2>(&name("x"), &device).require_grad();
        let gamma = golden.tensor::<1>(&name("weight"), &device).require_grad();
        let beta = golden.tensor::<1>(&name("bias"), &device).require_grad();
        let epsilon = settings["eps"].as_f64().unwrap() as f32;
        let out = layer_norm(x.clone(), gamma.clone(), Some(beta.clone()), epsilon).unwrap();
        let gradients = loss(&out, &golden.tensor(&name("grad_out"), &device));
        // If the mean is large, rounding it leaves an error after it is subtracted.
        let tolerance = if case == "far_from_zero" { 2e-4 } else { 3e-6 };
        close(&name("out"), &values(out), &golden.floats(&name("out")), tolerance);
        close(&name("grad_x"), &gradient(&x, &gradients), &golden.floats(&name("grad_x")), tolerance);
        close(&name("grad_weight"), &gradient(&gamma, &gradients), &golden.floats(&name("grad_weight")), tolerance);
        close(&name("grad_bias"), &gradient(&beta, &gradients), &golden.floats(&name("grad_bias")), tolerance);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn agrees_with_its_fallback(batch in 1usize..4, seq in 1usize..9, width in 2usize..40, with_beta: bool) {
        let (x, gamma) = (leaf([batch, seq, width], 1), leaf([width], 2));
        let beta = with_beta.then(|| leaf([width], 3));
        let weights = leaf([batch, seq, width], 4);
        let results = [true, false].map(|fused| {
            let out = match fused {
                true => layer_norm(x.clone(), gamma.clone(), beta.clone(), 1e-5).unwrap(),
                false => layer_norm_fallback(x.clone(), gamma.clone(), beta.clone(), 1e-5),
            };
            let gradients = loss(&out, &weights);
            let mut all = vec![values(out), gradient(&x, &gradients), gradient(&gamma, &gradients)];
            all.extend(beta.as_ref().map(|beta| gradient(beta, &gradients)));
            all
        });
        for (n, (fused, fallback)) in results[0].iter().zip(&results[1]).enumerate() {
            close(&format!("result {n}"), fused, fallback, 1e-4);
        }
    }
}

#[test]
fn bad_input_is_a_typed_error() {
    let error = layer_norm(leaf([2, 3], 1), leaf([4], 2), None, 1e-5).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "gamma", .. }), "{error}");
    let error = layer_norm(leaf([2, 0], 1), leaf([0], 2), None, 1e-5).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "input", .. }), "{error}");
    let error = layer_norm(leaf([2, 3], 1), leaf([3], 2), None, f32::NAN).unwrap_err();
    assert!(matches!(error, OpError::Option { what: "epsilon", .. }), "{error}");
}
