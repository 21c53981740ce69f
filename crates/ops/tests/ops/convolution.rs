use burn::tensor::{DType, Tensor};
use proptest::prelude::*;
use regard_ops::{ConvolutionOptions, OpError, convolution, convolution_fallback};

use crate::golden::Golden;
use crate::support::{close, gradient, leaf, loss, training, values};

#[test]
fn agrees_with_pytorch() {
    let golden = Golden::open("convolution");
    let device = training();
    for (case, options) in golden.cases() {
        let name = |name: &str| format!("{case}/{name}");
        let pair = |key: &str| [0, 1].map(|axis| options[key][axis].as_u64().unwrap() as usize);
        let options = ConvolutionOptions { stride: pair("stride"), padding: pair("padding") };
        let x = golden.tensor::<4>(&name("x"), &device).require_grad();
        let weight = golden.tensor::<4>(&name("weight"), &device).require_grad();
        let bias = golden.has(&name("bias")).then(|| golden.tensor::<1>(&name("bias"), &device).require_grad());
        let out = convolution(x.clone(), weight.clone(), bias.clone(), &options).unwrap();
        assert_eq!(out.dims().to_vec(), golden.shape(&name("out")), "{case}");
        let gradients = loss(&out, &golden.tensor(&name("grad_out"), &device));
        close(&name("out"), &values(out), &golden.floats(&name("out")), 2e-6);
        close(&name("grad_x"), &gradient(&x, &gradients), &golden.floats(&name("grad_x")), 2e-6);
        close(&name("grad_weight"), &gradient(&weight, &gradients), &golden.floats(&name("grad_weight")), 2e-6);
        if let Some(bias) = bias {
            close(&name("grad_bias"), &gradient(&bias, &gradients), &golden.floats(&name("grad_bias")), 2e-6);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn agrees_with_its_fallback(batch in 1usize..4, channels in [1usize..6, 1usize..20], size in [5usize..13, 5usize..13],
                                kernel in [1usize..6, 1usize..6], stride in [1usize..4, 1usize..4],
                                padding in [0usize..3, 0usize..3], with_bias: bool) {
        let [in_channels, out_channels] = channels;
        let options = ConvolutionOptions { stride, padding };
        let x = leaf([batch, in_channels, size[0], size[1]], 1);
        let weight = leaf([out_channels, in_channels, kernel[0], kernel[1]], 2);
        let bias = with_bias.then(|| leaf([out_channels], 3));
        let results = [true, false].map(|fused| {
            let out = match fused {
                true => convolution(x.clone(), weight.clone(), bias.clone(), &options).unwrap(),
                false => convolution_fallback(x.clone(), weight.clone(), bias.clone(), &options),
            };
            let gradients = loss(&out, &leaf(out.dims(), 4));
            let mut all = vec![values(out), gradient(&x, &gradients), gradient(&weight, &gradients)];
            all.extend(bias.as_ref().map(|bias| gradient(bias, &gradients)));
            all
        });
        for (n, (fused, fallback)) in results[0].iter().zip(&results[1]).enumerate() {
            close(&format!("result {n}"), fused, fallback, 1e-5);
        }
    }
}

#[test]
fn a_transposed_image_gives_the_right_output() {
    let options = ConvolutionOptions::square(1, 1);
    let (x, weight) = (leaf([2, 3, 5, 4], 1).swap_dims(2, 3), leaf([2, 3, 3, 3], 2));
    let copy = Tensor::<4>::from_data(x.clone().into_data(), &training());
    let [got, want] = [x, copy].map(|x| values(convolution(x, weight.clone(), None, &options).unwrap()));
    assert_eq!(got, want);
}

#[cfg(not(feature = "ndarray"))]
#[test]
fn an_empty_batch_gives_an_empty_output() {
    let (x, weight) = (leaf([0, 3, 5, 4], 1), leaf([2, 3, 3, 3], 2));
    let out = convolution(x, weight.clone(), None, &ConvolutionOptions::default()).unwrap();
    assert_eq!(out.dims(), [0, 2, 3, 2]);
}

#[test]
fn bad_input_is_a_typed_error() {
    let (x, weight) = (leaf([2, 3, 5, 5], 1), leaf([4, 3, 3, 3], 2));
    let plain = ConvolutionOptions::default();
    let error = convolution(leaf([2, 2, 5, 5], 1), weight.clone(), None, &plain).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "input", .. }), "{error}");
    let error = convolution(x.clone(), weight.clone(), Some(leaf([3], 3)), &plain).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "bias", .. }), "{error}");
    let error = convolution(x.clone().cast(DType::F64), weight.clone(), None, &plain).unwrap_err();
    assert!(matches!(error, OpError::DType { what: "input", .. }), "{error}");
    for options in [ConvolutionOptions::square(0, 1), ConvolutionOptions::square(1, usize::MAX / 3)] {
        let error = convolution(x.clone(), weight.clone(), None, &options).unwrap_err();
        assert!(matches!(error, OpError::Kernel(_)), "{error}");
    }
    let error = convolution(x.clone(), leaf([4, 3, 6, 3], 2), None, &plain).unwrap_err();
    assert!(error.to_string().contains("at most 5"), "{error}");
    let error = convolution(x, weight, None, &ConvolutionOptions::square(1, 1 << 40)).unwrap_err();
    assert!(error.to_string().contains("do not fit"), "{error}");
}
