use burn::tensor::{DType, Int, Tensor, TensorData};
use proptest::prelude::*;
use regard_ops::{CrossEntropyOptions, OpError, cross_entropy, cross_entropy_fallback};

use crate::golden::Golden;
use crate::support::{close, gradient, leaf, training, values};

#[test]
fn agrees_with_pytorch() {
    let golden = Golden::open("cross_entropy");
    let device = training();
    for (case, settings) in golden.cases() {
        let name = |name: &str| format!("{case}/{name}");
        let logits = golden.tensor::<2>(&name("logits"), &device).require_grad();
        let targets = golden.integers::<1>(&name("targets"), &device);
        let options = CrossEntropyOptions {
            ignore_index: settings["ignore_index"].as_i64(),
            label_smoothing: settings["smoothing"].as_f64().unwrap() as f32,
        };
        let out = cross_entropy(logits.clone(), targets, options).unwrap();
        close(&name("loss"), &values(out.clone()), &golden.floats(&name("loss")), 1e-6);
        // The output gradient is 3.
        let gradients = (out * 3.0).backward();
        let want: Vec<f32> = golden.floats(&name("grad_logits")).iter().map(|grad| 3.0 * grad).collect();
        close(&name("grad_logits"), &gradient(&logits, &gradients), &want, 1e-6);
    }
}

fn integers(data: Vec<i64>) -> Tensor<1, Int> {
    let rows = data.len();
    Tensor::from_data(TensorData::new(data, [rows]), (&training(), DType::I64))
}

/// Returns the loss and the gradient of the operation and of its fallback.
fn both(logits: &Tensor<2>, targets: Vec<i64>, options: CrossEntropyOptions) -> [(Vec<f32>, Vec<f32>); 2] {
    let targets = integers(targets);
    let outs = [
        cross_entropy(logits.clone(), targets.clone(), options).unwrap(),
        cross_entropy_fallback(logits.clone(), targets, options),
    ];
    outs.map(|out| {
        assert_eq!(out.dims(), [1]);
        let gradients = (out.clone() * 100.0).backward();
        (values(out), gradient(logits, &gradients))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn agrees_with_its_fallback(rows in 1usize..20, vocab in 1usize..50, seed: u64,
                                ignore_index in prop::option::of(prop::sample::select(vec![-100i64, 0])),
                                label_smoothing in prop::sample::select(vec![0.0_f32, 0.1, 1.0])) {
        let logits = leaf([rows, vocab], seed);
        let target = |row: usize| match row % 4 {
            1 => ignore_index.unwrap_or(0),
            _ => ((seed >> 20).wrapping_add(row as u64 * 7) % vocab as u64) as i64,
        };
        let options = CrossEntropyOptions { ignore_index, label_smoothing };
        let [fused, fallback] = both(&logits, (0..rows).map(target).collect(), options);
        close("loss", &fused.0, &fallback.0, 1e-5);
        close("grad_logits", &fused.1, &fallback.1, 1e-5);
    }
}

#[test]
fn an_ignored_row_may_contain_nan() {
    let logits = vec![1.0, 2.0, 3.0, f32::NAN, f32::INFINITY, 0.0];
    let logits = Tensor::<2>::from_data(TensorData::new(logits, [2, 3]), &training()).require_grad();
    let options = CrossEntropyOptions { ignore_index: Some(-1), label_smoothing: 0.1 };
    for (loss, grad) in both(&logits, vec![2, -1], options) {
        assert!(loss[0].is_finite());
        assert!(grad[..3].iter().all(|x| x.is_finite() && *x != 0.0));
        assert_eq!(grad[3..], [0.0; 3]);
    }
}

#[test]
fn the_loss_is_zero_if_all_targets_are_ignored() {
    let options = CrossEntropyOptions { ignore_index: Some(-1), ..Default::default() };
    for (loss, grad) in both(&leaf([3, 4], 1), vec![-1; 3], options) {
        assert_eq!(loss, [0.0]);
        assert_eq!(grad, [0.0; 12]);
    }
}

#[test]
fn targets_may_have_any_integer_type() {
    let logits = leaf([4, 6], 1);
    let targets = integers(vec![5, 0, 3, 3]);
    let options = CrossEntropyOptions::default();
    let want = values(cross_entropy(logits.clone(), targets.clone(), options).unwrap());
    for dtype in [DType::I64, DType::I32, DType::I16, DType::I8, DType::U64, DType::U32, DType::U16, DType::U8] {
        let targets = targets.clone().cast(dtype);
        assert_eq!(targets.dtype(), dtype);
        assert_eq!(values(cross_entropy(logits.clone(), targets, options).unwrap()), want, "{dtype:?}");
    }
}

#[test]
fn bad_input_is_a_typed_error() {
    let options = CrossEntropyOptions::default();
    let error = cross_entropy(leaf([2, 3], 1), integers(vec![0; 3]), options).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "targets", .. }), "{error}");
    let error = cross_entropy(leaf([2, 0], 1), integers(vec![0; 2]), options).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "logits", .. }), "{error}");
    let error = cross_entropy(leaf([2, 3], 1).cast(DType::F64), integers(vec![0; 2]), options).unwrap_err();
    assert!(matches!(error, OpError::DType { what: "logits", .. }), "{error}");
    for target in [3, -1, i64::MAX] {
        let error = cross_entropy(leaf([2, 3], 1), integers(vec![0, target]), options).unwrap_err();
        assert!(matches!(error, OpError::Option { what: "targets", .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains(&format!("{target} in row 1")), "{message}");
    }
    let huge: Tensor<1, Int> = Tensor::from_data(TensorData::new(vec![u64::MAX], [1]), (&training(), DType::U64));
    assert!(matches!(cross_entropy(leaf([1, 3], 1), huge, options), Err(OpError::Option { what: "targets", .. })));
    for label_smoothing in [-0.1, 1.1, f32::NAN] {
        let options = CrossEntropyOptions { label_smoothing, ..options };
        let error = cross_entropy(leaf([1, 3], 1), integers(vec![0]), options).unwrap_err();
        assert!(matches!(error, OpError::Option { what: "label smoothing", .. }), "{error}");
    }
}
