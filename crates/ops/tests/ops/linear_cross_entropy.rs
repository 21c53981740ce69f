use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use proptest::prelude::*;
use regard_ops::{CrossEntropyOptions, OpError, Precision, linear_cross_entropy, linear_cross_entropy_fallback};

use crate::golden::Golden;
use crate::support::{close, gradient, leaf, training, values};

/// The weight is the identity, so that the input of the layer is the logits of the golden file.
#[test]
fn agrees_with_pytorch() {
    let golden = Golden::open("cross_entropy");
    let device = training();
    for (case, settings) in golden.cases() {
        let name = |name: &str| format!("{case}/{name}");
        let logits = golden.tensor::<2>(&name("logits"), &device).require_grad();
        let targets = golden.integers::<1>(&name("targets"), &device);
        let vocab = logits.dims()[1];
        let identity = Tensor::<2>::eye(vocab, &device);
        let options = CrossEntropyOptions {
            ignore_index: settings["ignore_index"].as_i64(),
            label_smoothing: settings["smoothing"].as_f64().unwrap() as f32,
        };
        let loss = linear_cross_entropy(logits.clone(), identity, None, targets, options, Precision::F32).unwrap();
        let gradients = loss.backward();
        close(&name("loss"), &values(loss), &golden.floats(&name("loss")), 2e-6);
        let got = gradient(&logits, &gradients);
        close(&name("grad_logits"), &got, &golden.floats(&name("grad_logits")), 1e-6);
    }
}

/// More rows than are computed at once, some of them ignored.
#[test]
fn a_weight_stored_in_bf16_is_read_as_its_rounded_values() {
    let (rows, d, vocab) = (3_000, 5, 2_999);
    // Such weights are for inference on the CPU backend.
    let device = Device::flex();
    let plain = |x: Tensor<2>| Tensor::<2>::from_data(TensorData::new(values(x.clone()), x.dims()), &device);
    let (x, half) = (plain(leaf([rows, d], 1)), plain(leaf([d, vocab], 2)).cast(DType::BF16));
    let numbers: Vec<i64> = (0..rows as i64).map(|i| if i % 3 == 0 { -100 } else { i * 7 % vocab as i64 }).collect();
    let options = CrossEntropyOptions { ignore_index: Some(-100), label_smoothing: 0.1 };
    let loss = |weight: Tensor<2>| {
        let targets: Tensor<1, Int> = Tensor::from_data(TensorData::new(numbers.clone(), [rows]), &device);
        values(linear_cross_entropy(x.clone(), weight, None, targets, options, Precision::F32).unwrap())
    };
    close("loss", &loss(half.clone()), &loss(half.cast(DType::F32)), 2e-6);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn agrees_with_its_fallback(rows in 1usize..40, d in 1usize..9, vocab in 1usize..30, with_bias: bool, tied: bool,
                                smoothing in prop_oneof![Just(0.0f32), 0.0f32..0.5], ignored: bool) {
        // A tied layer reads the transposed embedding.
        let (x, weight) = (leaf([rows, d], 1), leaf(if tied { [vocab, d] } else { [d, vocab] }, 2));
        let bias = with_bias.then(|| leaf([vocab], 3));
        let numbers: Vec<i64> =
            (0..rows as i64).map(|i| if ignored && i % 3 == 0 { -100 } else { (i * 7) % vocab as i64 }).collect();
        let targets: Tensor<1, Int> = Tensor::from_data(TensorData::new(numbers, [rows]), &training());
        let options = CrossEntropyOptions { ignore_index: Some(-100), label_smoothing: smoothing };
        let results = [true, false].map(|fused| {
            let (x2, bias2, targets) = (x.clone(), bias.clone(), targets.clone());
            let weight2 = if tied { weight.clone().transpose() } else { weight.clone() };
            let loss = match fused {
                true => linear_cross_entropy(x2, weight2, bias2, targets, options, Precision::F32).unwrap(),
                false => linear_cross_entropy_fallback(x2, weight2, bias2, targets, options),
            };
            // The output gradient is 3, so that the backward pass has to scale.
            let gradients = (loss.clone() * 3.0).backward();
            let mut all = vec![values(loss), gradient(&x, &gradients), gradient(&weight, &gradients)];
            all.extend(bias.as_ref().map(|bias| gradient(bias, &gradients)));
            all
        });
        for (n, (fused, fallback)) in results[0].iter().zip(&results[1]).enumerate() {
            close(&format!("result {n}"), fused, fallback, 1e-5);
        }
    }
}

#[test]
fn bad_input_is_a_typed_error() {
    let targets = |numbers: Vec<i64>| -> Tensor<1, Int> {
        let count = numbers.len();
        Tensor::from_data(TensorData::new(numbers, [count]), &training())
    };
    let call = |numbers, options| {
        linear_cross_entropy(leaf([2, 3], 1), leaf([3, 5], 2), None, targets(numbers), options, Precision::F32)
            .unwrap_err()
    };
    let plain = CrossEntropyOptions::default();
    assert!(matches!(call(vec![0], plain), OpError::Shape { what: "targets", .. }));
    let error = call(vec![0, 5], plain);
    assert!(error.to_string().contains("5 in row 1 is not in 0..5"), "{error}");
    let error = call(vec![0, 1], CrossEntropyOptions { label_smoothing: 1.5, ..plain });
    assert!(error.to_string().contains("label smoothing"), "{error}");
}
