use burn::tensor::DType;
use proptest::prelude::*;
use regard_ops::{Activation, OpError, activation, activation_fallback};

use crate::golden::Golden;
use crate::support::{close, gradient, leaf, loss, training, values};

const ALL: [(&str, Activation); 6] = [
    ("relu", Activation::Relu),
    ("gelu", Activation::Gelu),
    ("gelu_tanh", Activation::GeluTanh),
    ("silu", Activation::Silu),
    ("tanh", Activation::Tanh),
    ("sigmoid", Activation::Sigmoid),
];

#[test]
fn agrees_with_pytorch() {
    let golden = Golden::open("activations");
    let device = training();
    let cases = golden.cases();
    assert_eq!(cases.len(), ALL.len());
    for (case, _) in cases {
        let (_, kind) = ALL.into_iter().find(|(name, _)| *name == case).unwrap();
        let name = |name: &str| format!("{case}/{name}");
        let x = golden.tensor::<1>(&name("x"), &device).require_grad();
        let out = activation(x.clone(), kind).unwrap();
        let gradients = loss(&out, &golden.tensor(&name("grad_out"), &device));
        close(&name("out"), &values(out), &golden.floats(&name("out")), 1e-6);
        close(&name("grad_x"), &gradient(&x, &gradients), &golden.floats(&name("grad_x")), 3e-6);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn agrees_with_its_fallback(batch in 1usize..4, seq in 1usize..9, d_model in 1usize..40, seed: u64,
                                kind in prop::sample::select(ALL.to_vec())) {
        let (x, weights) = (leaf([batch, seq, d_model], seed), leaf([batch, seq, d_model], 2));
        let results = [true, false].map(|fused| {
            let wide = x.clone() * 4.0;
            let out = if fused { activation(wide, kind.1).unwrap() } else { activation_fallback(wide, kind.1) };
            let gradients = loss(&out, &weights);
            (values(out), gradient(&x, &gradients))
        });
        close(&format!("{} out", kind.0), &results[0].0, &results[1].0, 1e-5);
        close(&format!("{} grad_x", kind.0), &results[0].1, &results[1].1, 1e-5);
    }
}

#[test]
fn a_transposed_view_gives_the_right_output() {
    let (x, weights) = (leaf([3, 5], 1), leaf([5, 3], 2));
    let results = [
        activation(x.clone().transpose(), Activation::Silu).unwrap(),
        activation(x.clone(), Activation::Silu).unwrap().transpose(),
    ]
    .map(|out| {
        let gradients = loss(&out, &weights);
        (values(out), gradient(&x, &gradients))
    });
    assert_eq!(results[0], results[1]);
}

#[test]
fn bad_input_is_a_typed_error() {
    let error = activation(leaf([2, 3], 1).cast(DType::F64), Activation::Gelu).unwrap_err();
    assert!(matches!(error, OpError::DType { what: "input", got: DType::F64, .. }), "{error}");
}
