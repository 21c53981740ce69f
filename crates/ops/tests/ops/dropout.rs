use burn::tensor::DType;
use proptest::prelude::*;
use regard_ops::{OpError, dropout, dropout_fallback};

use crate::support::{gradient, leaf, loss, values};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn agrees_with_its_fallback(batch in 1usize..4, seq in 1usize..90, d_model in 1usize..80,
                                probability in 0.0_f32..0.99, seed: u64) {
        let (x, weights) = (leaf([batch, seq, d_model], 1), leaf([batch, seq, d_model], 2));
        let results = [
            dropout(x.clone(), probability, seed).unwrap(),
            dropout_fallback(x.clone(), probability, seed),
        ]
        .map(|out| {
            let gradients = loss(&out, &weights);
            (values(out), gradient(&x, &gradients))
        });
        prop_assert_eq!(&results[0], &results[1]);
    }
}

#[test]
fn drops_the_expected_share_and_scales_the_rest() {
    let x = leaf([100, 200], 1).ones_like();
    let out = values(dropout(x.clone(), 0.3, 7).unwrap());
    let n = out.len() as f64;
    let dropped = out.iter().filter(|&&x| x == 0.0).count() as f64 / n;
    // The tolerance is four standard errors.
    assert!((dropped - 0.3).abs() < 4.0 * (0.3 * 0.7 / n).sqrt(), "{dropped}");
    assert!(out.iter().all(|&x| x == 0.0 || (x - 1.0 / 0.7).abs() < 1e-6));
    assert_eq!(out, values(dropout(x.clone(), 0.3, 7).unwrap()));
    assert_ne!(out, values(dropout(x, 0.3, 8).unwrap()));
}

#[test]
fn dropped_elements_depend_on_their_index_not_on_the_memory_layout() {
    let x = leaf([5, 30], 1);
    let view = x.clone().reshape([30, 5]).transpose();
    let copy = leaf([5, 30], 1).zeros_like() + view.clone();
    assert_eq!(values(dropout(view, 0.5, 3).unwrap()), values(dropout(copy, 0.5, 3).unwrap()));
}

#[test]
fn nothing_is_dropped_with_probability_zero() {
    let x = leaf([3, 4], 1);
    assert_eq!(values(dropout(x.clone(), 0.0, 1).unwrap()), values(x));
}

#[test]
fn bad_input_is_a_typed_error() {
    for probability in [1.0, -0.1, f32::NAN, f32::INFINITY] {
        let error = dropout(leaf([2, 3], 1), probability, 1).unwrap_err();
        assert!(matches!(error, OpError::Option { what: "dropout probability", .. }), "{error}");
    }
    let error = dropout(leaf([2, 3], 1).cast(DType::F64), 0.5, 1).unwrap_err();
    assert!(matches!(error, OpError::DType { what: "input", .. }), "{error}");
}
