use burn::tensor::{DType, Tensor, TensorData};
use proptest::prelude::*;
use regard_ops::{CtcTargets, OpError, ctc_loss, ctc_loss_fallback};

use crate::golden::Golden;
use crate::support::{close, gradient, leaf, loss, training, values};

fn texts(settings: &serde_json::Value) -> CtcTargets {
    let numbers = |value: &serde_json::Value| -> Vec<u64> {
        value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
    };
    CtcTargets {
        frames: numbers(&settings["frames"]).into_iter().map(|n| n as usize).collect(),
        texts: settings["texts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|text| numbers(text).into_iter().map(|n| n as u32).collect())
            .collect(),
        blank: settings["blank"].as_u64().unwrap() as u32,
    }
}

#[test]
fn agrees_with_pytorch() {
    let golden = Golden::open("ctc");
    let device = training();
    for (case, settings) in golden.cases() {
        let name = |name: &str| format!("{case}/{name}");
        let logits = golden.tensor::<2>(&name("logits"), &device).require_grad();
        let out = ctc_loss(logits.clone(), texts(&settings)).unwrap();
        close(&name("losses"), &values(out.clone()), &golden.floats(&name("losses")), 1e-6);
        let gradients = loss(&out, &golden.tensor::<1>(&name("grad_losses"), &device));
        // The plain recursion in f32, which other backends use, has an error of 4e-6.
        let tolerance = if cfg!(feature = "ndarray") { 8e-6 } else { 1e-6 };
        close(&name("grad_logits"), &gradient(&logits, &gradients), &golden.floats(&name("grad_logits")), tolerance);
    }
}

/// Returns the losses and the gradient of the operation and of its fallback.
fn both(logits: &Tensor<2>, targets: &CtcTargets) -> [(Vec<f32>, Vec<f32>); 2] {
    let outs = [ctc_loss(logits.clone(), targets.clone()).unwrap(), ctc_loss_fallback(logits.clone(), targets)];
    outs.map(|out| {
        let count = targets.frames.len();
        assert_eq!(out.dims(), [count]);
        let weights: Vec<f32> = (0..count).map(|at| 1.0 + at as f32).collect();
        let gradients = loss(&out, &Tensor::from_data(TensorData::new(weights, [count]), &training()));
        (values(out), gradient(logits, &gradients))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn agrees_with_its_fallback(sequences in prop::collection::vec((prop::collection::vec(1u32..6, 0..5), 1usize..6), 1..4),
                                last_is_blank: bool, seed: u64) {
        let targets = CtcTargets {
            frames: sequences.iter().map(|(text, more)| CtcTargets::frames_needed(text) + more).collect(),
            texts: sequences.iter().map(|(text, _)| text.iter().map(|l| l - u32::from(last_is_blank)).collect()).collect(),
            blank: if last_is_blank { 5 } else { 0 },
        };
        let logits = leaf([targets.frames.iter().sum(), 6], seed);
        let [fused, fallback] = both(&logits, &targets);
        close("losses", &fused.0, &fallback.0, 1e-5);
        close("grad_logits", &fused.1, &fallback.1, 1e-5);
    }
}

#[test]
fn bad_input_is_a_typed_error() {
    let targets = |frames: &[usize], texts: &[&[u32]], blank| CtcTargets {
        frames: frames.to_vec(),
        texts: texts.iter().map(|text| text.to_vec()).collect(),
        blank,
    };
    let fails = |logits: Tensor<2>, targets: CtcTargets| ctc_loss(logits, targets).unwrap_err();
    let error = fails(leaf([3, 4], 1), targets(&[3], &[&[1, 1, 2]], 0));
    assert!(error.to_string().contains("text 0 needs 4 frames or more, its sequence has 3"), "{error}");
    assert!(matches!(error, OpError::Option { what: "frames", .. }));
    let error = fails(leaf([3, 4], 1), targets(&[3], &[&[4]], 0));
    assert!(matches!(error, OpError::Option { what: "texts", .. }), "{error}");
    let error = fails(leaf([3, 4], 1), targets(&[3], &[&[2, 0]], 0));
    assert!(error.to_string().contains("not the blank 0"), "{error}");
    let error = fails(leaf([3, 4], 1), targets(&[3], &[&[1]], 4));
    assert!(matches!(error, OpError::Option { what: "blank", .. }), "{error}");
    let error = fails(leaf([3, 4], 1), targets(&[2], &[&[1]], 0));
    assert!(matches!(error, OpError::Shape { what: "logits", .. }), "{error}");
    let error = fails(leaf([3, 4], 1), targets(&[2, 1], &[&[1]], 0));
    assert!(matches!(error, OpError::Option { what: "texts", .. }), "{error}");
    let error = fails(leaf([3, 4], 1).cast(DType::F64), targets(&[3], &[&[1]], 0));
    assert!(matches!(error, OpError::DType { what: "logits", .. }), "{error}");
}
