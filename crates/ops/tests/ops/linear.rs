use proptest::prelude::*;
use regard_ops::{Activation, OpError, Precision, linear, linear_fallback, linear_onto};

use crate::golden::Golden;
use crate::support::{close, gradient, leaf, loss, training, transposed, values};

#[test]
fn agrees_with_pytorch() {
    for (file, activation) in [("linear", None), ("linear_gelu", Some(Activation::Gelu))] {
        let golden = Golden::open(file);
        let device = training();
        for (case, _) in golden.cases() {
            let name = |name: &str| format!("{case}/{name}");
            let x = golden.tensor::<3>(&name("x"), &device).require_grad();
            let weight = golden.tensor::<2>(&name("weight"), &device).transpose().detach().require_grad();
            let bias = golden.has(&name("bias")).then(|| golden.tensor::<1>(&name("bias"), &device).require_grad());
            let out = linear(x.clone(), weight.clone(), bias.clone(), activation, Precision::F32).unwrap();
            let gradients = loss(&out, &golden.tensor(&name("grad_out"), &device));
            close("out", &values(out), &golden.floats(&name("out")), 2e-6);
            close("grad_x", &gradient(&x, &gradients), &golden.floats(&name("grad_x")), 2e-6);
            let [d_in, d_out] = weight.dims();
            let want = transposed(&golden.floats(&name("grad_weight")), d_out, d_in);
            close("grad_weight", &gradient(&weight, &gradients), &want, 2e-6);
            if let Some(bias) = bias {
                close("grad_bias", &gradient(&bias, &gradients), &golden.floats(&name("grad_bias")), 2e-6);
            }
        }
    }
}

fn any_activation() -> impl Strategy<Value = Option<Activation>> {
    use Activation::*;
    prop_oneof![Just(None), prop::sample::select(vec![Relu, Gelu, GeluTanh, Silu, Tanh, Sigmoid]).prop_map(Some)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn agrees_with_its_fallback(batch in 1usize..4, seq in 1usize..9, d_in in 1usize..20, d_out in 1usize..20,
                                with_bias: bool, activation in any_activation()) {
        let (x, weight) = (leaf([batch, seq, d_in], 1), leaf([d_in, d_out], 2));
        let bias = with_bias.then(|| leaf([d_out], 3));
        let weights = leaf([batch, seq, d_out], 4);
        let results = [true, false].map(|fused| {
            let out = match fused {
                true => linear(x.clone(), weight.clone(), bias.clone(), activation, Precision::F32).unwrap(),
                false => linear_fallback(x.clone(), weight.clone(), bias.clone(), activation),
            };
            let gradients = loss(&out, &weights);
            let mut all = vec![values(out), gradient(&x, &gradients), gradient(&weight, &gradients)];
            all.extend(bias.as_ref().map(|bias| gradient(bias, &gradients)));
            all
        });
        for (n, (fused, fallback)) in results[0].iter().zip(&results[1]).enumerate() {
            close(&format!("result {n}"), fused, fallback, 1e-5);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    #[test]
    fn adding_a_residual_gives_the_same_bits_as_a_separate_sum(batch in 1usize..4, seq in 1usize..9, d_in in 1usize..20,
                                                               d_out in 1usize..20, with_bias: bool) {
        let (x, weight) = (leaf([batch, seq, d_in], 1), leaf([d_in, d_out], 2));
        let bias = with_bias.then(|| leaf([d_out], 3));
        let (onto, weights) = (leaf([batch, seq, d_out], 4), leaf([batch, seq, d_out], 5));
        let results = [true, false].map(|fused| {
            let out = match fused {
                true => linear_onto(x.clone(), weight.clone(), bias.clone(), onto.clone(), Precision::F32).unwrap(),
                false => onto.clone() + linear(x.clone(), weight.clone(), bias.clone(), None, Precision::F32).unwrap(),
            };
            let gradients = loss(&out, &weights);
            let [x, onto] = [&x, &onto].map(|leaf| gradient(leaf, &gradients));
            let bias = bias.as_ref().map(|bias| gradient(bias, &gradients));
            (values(out), x, gradient(&weight, &gradients), onto, bias)
        });
        prop_assert_eq!(&results[0], &results[1]);
    }
}

#[test]
fn a_transposed_weight_gives_the_right_output() {
    let (x, weight) = (leaf([5, 3], 1), leaf([4, 3], 2));
    let out = linear(x.clone(), weight.clone().transpose(), None, None, Precision::F32).unwrap();
    close("out", &values(out), &values(x.matmul(weight.transpose())), 1e-6);
}

#[test]
fn bad_input_is_a_typed_error() {
    let error = linear(leaf([2, 3], 1), leaf([4, 5], 2), None, None, Precision::F32).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "input", .. }), "{error}");
    let error = linear(leaf([2, 4], 1), leaf([4, 5], 2), Some(leaf([4], 3)), None, Precision::F32).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "bias", .. }), "{error}");
    let error = linear(leaf([2, 4], 1).cast(burn::tensor::DType::F64), leaf([4, 5], 2), None, None, Precision::F32)
        .unwrap_err();
    assert!(matches!(error, OpError::DType { what: "input", .. }), "{error}");
    let error = linear_onto(leaf([2, 4], 1), leaf([4, 5], 2), None, leaf([2, 4], 3), Precision::F32).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "residual", .. }), "{error}");
}
