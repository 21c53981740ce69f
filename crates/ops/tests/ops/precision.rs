//! Products in bf16: the operands are rounded, in the forward pass and in both gradients, and nothing else is.

use burn::tensor::{Int, Tensor, TensorData};
use half::bf16;
use regard_ops::{Activation, CrossEntropyOptions, OpError, Precision, linear, linear_cross_entropy, linear_onto};

use crate::support::{close, gradient, leaf, loss, training, values};

/// Returns whether products in bf16 run here; checks the error if they do not.
fn is_available() -> bool {
    let (x, weight) = (leaf([2, 3], 1), leaf([3, 4], 2));
    match linear(x, weight, None, None, Precision::Bf16) {
        Ok(_) => true,
        Err(OpError::Kernel(error)) => {
            assert!(error.to_string().contains("vdpbf16ps"), "{error}");
            false
        }
        Err(error) => {
            assert!(cfg!(feature = "ndarray") && error.to_string().contains("Flex"), "{error}");
            false
        }
    }
}

fn rounded<const D: usize>(x: &Tensor<D>) -> Tensor<D> {
    let (shape, device) = (x.dims(), x.device());
    let data = values(x.clone()).into_iter().map(|x| bf16::from_f32(x).to_f32()).collect();
    Tensor::from_data(TensorData::new(data, shape), &device)
}

/// Largest error of a product beside f32, relative to the root mean square of its elements. A rounded product is off by at most 2⁻⁸ of
/// itself; the sizes of the 40 to 300 products of an element add up to several times the element, and their errors partly cancel.
const ROUNDING: f32 = 1.0 / 32.0;

#[test]
fn a_linear_layer_rounds_the_operands_of_its_three_products_alone() {
    if !is_available() {
        return;
    }
    let (x, weight, bias) = (leaf([3, 20, 40], 1), leaf([40, 70], 2), leaf([70], 3));
    let (onto, grad) = (leaf([3, 20, 70], 4), leaf([3, 20, 70], 5));
    let run = |precision| {
        let out = linear_onto(x.clone(), weight.clone(), Some(bias.clone()), onto.clone(), precision).unwrap();
        let gradients = loss(&out, &grad);
        let leaves = [gradient(&x, &gradients), gradient(&weight, &gradients)];
        (values(out), leaves, [gradient(&bias, &gradients), gradient(&onto, &gradients)])
    };
    let (out, [grad_x, grad_weight], exact) = run(Precision::Bf16);
    let (wide_out, [wide_x, wide_weight], wide_exact) = run(Precision::F32);
    assert_eq!(exact, wide_exact, "no product gives these gradients");
    for (what, got, wide) in [("out", &out, &wide_out), ("x", &grad_x, &wide_x), ("weight", &grad_weight, &wide_weight)]
    {
        close(what, got, wide, ROUNDING);
        assert_ne!(got, wide, "{what} is not rounded");
    }
    // The same products in f32 of operands that were rounded before.
    let plain = |x: Tensor<2>, weight: Tensor<2>| values(linear(x, weight, None, None, Precision::F32).unwrap());
    let (x, weight, grad) = (rounded(&x).reshape([60, 40]), rounded(&weight), rounded(&grad).reshape([60, 70]));
    let added = bias.unsqueeze::<2>() + onto.reshape([60, 70]);
    let product = Tensor::<2>::from_data(TensorData::new(plain(x.clone(), weight.clone()), [60, 70]), &training());
    close("out", &out, &values(product + added), 2e-6);
    close("grad x", &grad_x, &plain(grad.clone(), weight.transpose()), 2e-6);
    close("grad weight", &grad_weight, &plain(x.transpose(), grad), 2e-6);
}

#[test]
fn an_activation_stays_in_f32() {
    if !is_available() {
        return;
    }
    let (x, weight, grad) = (leaf([50, 40], 1), leaf([40, 30], 2), leaf([50, 30], 3));
    let run = |x: &Tensor<2>, weight: &Tensor<2>, precision| {
        let out = linear(x.clone(), weight.clone(), None, Some(Activation::Gelu), precision).unwrap();
        let gradients = loss(&out, &grad);
        [values(out), gradient(x, &gradients), gradient(weight, &gradients)]
    };
    let got = run(&x, &weight, Precision::Bf16);
    let [out, ..] = run(&rounded(&x), &rounded(&weight), Precision::F32);
    close("out", &got[0], &out, 2e-6);
    for (got, want) in got.iter().zip(run(&x, &weight, Precision::F32)) {
        close("beside f32", got, &want, ROUNDING);
    }
}

#[test]
fn the_loss_of_an_output_layer_agrees_with_f32() {
    if !is_available() {
        return;
    }
    let (x, embedding, bias) = (leaf([50, 40], 1), leaf([300, 40], 2), leaf([300], 3));
    let numbers: Vec<i64> = (0..50).map(|i| i * 37 % 300).collect();
    let targets: Tensor<1, Int> = Tensor::from_data(TensorData::new(numbers, [50]), &training());
    let run = |precision| {
        let (x, weight, bias) = (x.clone(), embedding.clone().transpose(), Some(bias.clone()));
        linear_cross_entropy(x, weight, bias, targets.clone(), CrossEntropyOptions::default(), precision).unwrap()
    };
    let results = [Precision::Bf16, Precision::F32].map(|precision| {
        // Gradients of order 1, as the comparison expects.
        let loss = run(precision) * 50.0;
        let gradients = loss.backward();
        [values(loss), gradient(&x, &gradients), gradient(&embedding, &gradients), gradient(&bias, &gradients)]
    });
    for (n, (got, want)) in results[0].iter().zip(&results[1]).enumerate() {
        close(&format!("result {n}"), got, want, ROUNDING);
        assert_ne!(got, want, "result {n} is not rounded");
    }
}

#[test]
fn weights_stored_in_bf16_are_refused() {
    if !is_available() {
        return;
    }
    let (x, weight) = (leaf([2, 3], 1).detach(), leaf([3, 4], 2).detach().cast(burn::tensor::DType::BF16));
    let error = linear(x, weight, None, None, Precision::Bf16).unwrap_err();
    assert!(matches!(error, OpError::DType { .. }), "{error}");
}
