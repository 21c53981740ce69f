use burn::tensor::{DType, Tensor, TensorData};
use proptest::prelude::*;
use regard_ops::{OpError, log_softmax, log_softmax_fallback, softmax, softmax_fallback};

use crate::golden::Golden;
use crate::support::{close, gradient, leaf, loss, training, values};

#[test]
fn agrees_with_pytorch() {
    let golden = Golden::open("softmax");
    let device = training();
    for (case, _) in golden.cases() {
        let name = |name: &str| format!("{case}/{name}");
        let x = golden.tensor::<2>(&name("x"), &device).require_grad();
        let out = if case.starts_with("log") { log_softmax(x.clone()) } else { softmax(x.clone()) }.unwrap();
        let gradients = loss(&out, &golden.tensor(&name("grad_out"), &device));
        close(&name("out"), &values(out), &golden.floats(&name("out")), 1e-6);
        close(&name("grad_x"), &gradient(&x, &gradients), &golden.floats(&name("grad_x")), 2e-6);
    }
}

/// Returns a leaf `[rows, 1, width]` with −∞ where `masked(row, column)` is true.
fn masked_leaf(rows: usize, width: usize, seed: u64, masked: impl Fn(usize, usize) -> bool) -> Tensor<3> {
    let mut data = values(leaf([rows, width], seed) * 5.0);
    for (i, x) in data.iter_mut().enumerate() {
        if masked(i / width, i % width) {
            *x = f32::NEG_INFINITY;
        }
    }
    Tensor::from_data(TensorData::new(data, [rows, 1, width]), &training()).require_grad()
}

/// Returns the output and the gradient of the operation and of its fallback.
fn both(x: &Tensor<3>, logarithm: bool) -> [(Vec<f32>, Vec<f32>); 2] {
    let outs = match logarithm {
        false => [softmax(x.clone()).unwrap(), softmax_fallback(x.clone())],
        true => [log_softmax(x.clone()).unwrap(), log_softmax_fallback(x.clone())],
    };
    let weights = leaf(x.dims(), 2);
    outs.map(|out| {
        let gradients = loss(&out, &weights);
        (values(out), gradient(x, &gradients))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn agrees_with_its_fallback(rows in 1usize..9, width in 1usize..40, seed: u64, share in 0u64..5, logarithm: bool) {
        // Row 1 is fully masked, row 2 is not masked at all.
        let hash = |r: usize, c: usize| (seed ^ (r * 64 + c) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 61;
        let x = masked_leaf(rows, width, seed, |r, c| r == 1 || r != 2 && hash(r, c) < share);
        let [fused, fallback] = both(&x, logarithm);
        close("out", &fused.0, &fallback.0, 1e-5);
        close("grad_x", &fused.1, &fallback.1, 1e-5);
    }
}

#[test]
fn a_fully_masked_row_has_no_weights_and_no_gradient() {
    let x = masked_leaf(3, 5, 1, |r, _| r == 1);
    for (logarithm, want) in [(false, 0.0), (true, f32::NEG_INFINITY)] {
        for (out, grad) in both(&x, logarithm) {
            assert_eq!(out[5..10], [want; 5]);
            assert_eq!(grad[5..10], [0.0; 5]);
            assert!(out[..5].iter().chain(&grad).all(|x| x.is_finite()));
        }
    }
}

#[test]
fn bad_input_is_a_typed_error() {
    for softmax in [softmax::<2>, log_softmax::<2>] {
        let error = softmax(leaf([2, 0], 1)).unwrap_err();
        assert!(matches!(error, OpError::Shape { what: "input", .. }), "{error}");
        let error = softmax(leaf([2, 3], 1).cast(DType::F64)).unwrap_err();
        assert!(matches!(error, OpError::DType { what: "input", .. }), "{error}");
        assert_eq!(softmax(leaf([0, 3], 1)).unwrap().dims(), [0, 3]);
    }
}
