use burn::module::{Module, Param};
use burn::tensor::Tensor;
use regard_ops::{AdamW, AdamWOptions, Decay, Moments};

use crate::golden::Golden;
use crate::support::{close, leaf, training, values};

#[derive(Module, Debug)]
struct Pair {
    weight: Param<Tensor<2>>,
    bias: Param<Tensor<1>>,
}

#[test]
fn three_steps_agree_with_pytorch() {
    let golden = Golden::open("adamw");
    let device = training();
    for (case, settings) in golden.cases() {
        let number = |name: &str| settings[name].as_f64().unwrap() as f32;
        let options = AdamWOptions {
            learning_rate: number("learning_rate"),
            beta1: number("beta1"),
            beta2: number("beta2"),
            epsilon: number("epsilon"),
            weight_decay: number("weight_decay"),
            l2: 0.0,
        };
        let mut adamw = AdamW::new(options, settings["max_norm"].as_f64().map(|x| x as f32), Decay::All);
        let name = |step: usize, name: &str| format!("{case}/step_{step}/{name}");
        let mut pair = Pair {
            weight: Param::from_tensor(golden.tensor(&name(0, "weight"), &device)),
            bias: Param::from_tensor(golden.tensor(&name(0, "bias"), &device)),
        };
        for step in 1..=3 {
            // A loss whose gradients are those in the golden file.
            let weight = pair.weight.val() * golden.tensor::<2>(&name(step, "grad_weight"), &device);
            let bias = pair.bias.val() * golden.tensor::<1>(&name(step, "grad_bias"), &device);
            let gradients = (weight.sum() + bias.sum()).backward();
            let norm;
            (pair, norm) = adamw.step(pair, gradients).unwrap();
            if golden.has(&name(step, "norm")) {
                close("norm", &[norm], &golden.floats(&name(step, "norm")), 1e-6);
            }
            close(&name(step, "weight"), &values(pair.weight.val()), &golden.floats(&name(step, "weight")), 1e-6);
            close(&name(step, "bias"), &values(pair.bias.val()), &golden.floats(&name(step, "bias")), 1e-6);
        }
        assert_eq!(adamw.state().0, 3);
        assert_eq!(adamw.state().1.iter().map(|m| m.path.as_str()).collect::<Vec<_>>(), ["weight", "bias"]);
    }
}

fn options() -> AdamWOptions {
    AdamWOptions { learning_rate: 0.1, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.5, l2: 0.0 }
}

#[test]
fn a_gradient_that_is_not_finite_changes_nothing() {
    let pair = Pair { weight: Param::from_tensor(leaf([2, 2], 1)), bias: Param::from_tensor(leaf([2], 2)) };
    let before = values(pair.weight.val());
    let gradients = (pair.weight.val().sum() * f32::NAN).backward();
    let mut adamw = AdamW::new(options(), Some(1.0), Decay::All);
    let (pair, norm) = adamw.step(pair, gradients).unwrap();
    assert!(norm.is_nan() && adamw.state().0 == 0);
    assert_eq!(values(pair.weight.val()), before);
}

#[test]
fn decay_may_exclude_vectors_and_unused_parameters_keep_their_values() {
    let pair = Pair { weight: Param::from_tensor(leaf([2, 2], 1)), bias: Param::from_tensor(leaf([2], 2)) };
    let (weight, bias) = (values(pair.weight.val()), values(pair.bias.val()));
    // All gradients are zero, so that only the decay changes the weights.
    let gradients = ((pair.weight.val().sum() + pair.bias.val().sum()) * 0.0).backward();
    let (pair, _) = AdamW::new(options(), None, Decay::Matrices).step(pair, gradients).unwrap();
    let decayed: Vec<f32> = weight.iter().map(|x| x * (1.0 - 0.1 * 0.5)).collect();
    close("weight", &values(pair.weight.val()), &decayed, 1e-6);
    assert_eq!(values(pair.bias.val()), bias);
    // A parameter without a gradient keeps its value and remains a leaf for the next step.
    let gradients = pair.weight.val().sum().backward();
    let (pair, _) = AdamW::new(options(), None, Decay::All).step(pair, gradients).unwrap();
    assert_eq!(values(pair.bias.val()), bias);
    assert!(pair.weight.val().is_require_grad() && pair.bias.val().is_require_grad());
}

#[test]
fn training_resumed_from_a_restored_state_gives_the_same_bits() {
    let start = || Pair { weight: Param::from_tensor(leaf([3, 4], 1)), bias: Param::from_tensor(leaf([4], 2)) };
    let step = |adamw: &mut AdamW, pair: Pair| {
        let loss = (pair.weight.val().powi_scalar(2).sum() + pair.bias.val().powi_scalar(2).sum()).backward();
        adamw.step(pair, loss).unwrap().0
    };
    let mut whole = AdamW::new(options(), Some(1.0), Decay::All);
    let pair = (0..4).fold(start(), |pair, _| step(&mut whole, pair));
    let mut first = AdamW::new(options(), Some(1.0), Decay::All);
    let half = (0..2).fold(start(), |pair, _| step(&mut first, pair));
    let (steps, moments) = first.state();
    let mut second = AdamW::new(options(), Some(1.0), Decay::All);
    second.restore(&half, steps, moments.to_vec()).unwrap();
    let resumed = (0..2).fold(half, |pair, _| step(&mut second, pair));
    assert_eq!(values(pair.weight.val()), values(resumed.weight.val()));
    assert_eq!(whole.state(), second.state());
}

// NdArray does not support half precision.
#[cfg(not(feature = "ndarray"))]
#[test]
fn half_precision_weights_and_slices_of_a_tensor_are_updated_too() {
    let start = || leaf([4, 2], 1).slice([1..3, 0..2]).detach();
    let update = |weight: Tensor<2>| {
        let pair = Pair { weight: Param::from_tensor(weight), bias: Param::from_tensor(leaf([2], 2)) };
        let gradients = pair.weight.val().powi_scalar(2).sum().backward();
        AdamW::new(options(), None, Decay::All).step(pair, gradients).unwrap().0.weight.val()
    };
    let whole = update(Tensor::from_data(start().into_data(), &training()));
    close("part", &values(update(start())), &values(whole.clone()), 0.0);
    let half = update(start().cast(burn::tensor::DType::F16));
    assert_eq!(half.dtype(), burn::tensor::DType::F16);
    close("half", &values(half.cast(burn::tensor::DType::F32)), &values(whole), 1e-3);
}

#[test]
fn invalid_options_are_refused() {
    let attempt = |options: AdamWOptions, max_norm: Option<f32>| {
        let pair = Pair { weight: Param::from_tensor(leaf([2, 2], 1)), bias: Param::from_tensor(leaf([2], 2)) };
        let gradients = pair.weight.val().sum().backward();
        AdamW::new(options, max_norm, Decay::All).step(pair, gradients).map(|_| ()).unwrap_err().to_string()
    };
    assert!(attempt(options(), Some(f32::NAN)).contains("max_norm"));
    assert!(attempt(options(), Some(-1.0)).contains("max_norm"));
    assert!(attempt(AdamWOptions { beta1: 1.0, ..options() }, None).contains("beta1"));
    assert!(attempt(AdamWOptions { learning_rate: f32::INFINITY, ..options() }, None).contains("learning_rate"));
}

/// Makes a step with a gradient of the weight but none of the bias.
fn step_of_the_weight(adamw: &mut AdamW, pair: Pair) -> Pair {
    let gradients = pair.weight.val().powi_scalar(2).sum().backward();
    adamw.step(pair, gradients).unwrap().0
}

#[test]
fn averages_of_other_parameters_are_refused() {
    let pair = || Pair { weight: Param::from_tensor(leaf([2, 2], 1)), bias: Param::from_tensor(leaf([2], 2)) };
    let mut adamw = AdamW::new(options(), None, Decay::All);
    step_of_the_weight(&mut adamw, pair());
    let saved = adamw.state().1.to_vec();
    // The bias has averages from the first step on, so a file without them is damaged.
    assert_eq!(saved.iter().map(|m| m.path.as_str()).collect::<Vec<_>>(), ["weight", "bias"]);
    let refused = |moments: Vec<Moments>| {
        let mut adamw = AdamW::new(options(), None, Decay::All);
        let error = adamw.restore(&pair(), 1, moments).unwrap_err().to_string();
        assert!(adamw.state() == (0, &[][..]) && error.contains("optimiser state"), "{error}");
        error
    };
    let named = |path: &str, first: usize, second: usize| Moments {
        path: path.to_string(),
        first: vec![0.0; first],
        second: vec![0.0; second],
    };
    let weight = || saved[0].clone();
    assert!(refused(vec![weight()]).contains("bias: its running averages are missing"));
    assert!(refused(Vec::new()).contains("weight: its running averages are missing"));
    assert!(refused(vec![weight(), named("bias", 3, 2)]).contains("bias: expected 2 first moments, got 3"));
    assert!(refused(vec![weight(), named("bias", 2, 1)]).contains("bias: expected 2 second moments, got 1"));
    assert!(refused([saved.clone(), vec![named("gain", 2, 2)]].concat()).contains("gain: the model has no such"));
    assert!(refused([saved.clone(), vec![named("bias", 2, 2)]].concat()).contains("bias: the model has no such"));
    // A state saved before the first step has no averages.
    AdamW::new(options(), None, Decay::All).restore(&pair(), 0, Vec::new()).unwrap();
    // The order in the file does not matter; the restored state is in the order of the module.
    let turned: Vec<_> = saved.iter().rev().cloned().collect();
    let mut restored = AdamW::new(options(), None, Decay::All);
    restored.restore(&pair(), 1, turned).unwrap();
    assert_eq!(restored.state(), adamw.state());
}

#[test]
fn a_module_that_has_changed_is_refused() {
    let pair =
        |rows: usize| Pair { weight: Param::from_tensor(leaf([rows, 2], 1)), bias: Param::from_tensor(leaf([2], 2)) };
    let mut adamw = AdamW::new(options(), None, Decay::All);
    step_of_the_weight(&mut adamw, pair(2));
    let other = pair(3);
    let gradients = other.weight.val().sum().backward();
    let error = adamw.step(other, gradients).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("weight: the module has changed") && adamw.state().0 == 1, "{error}");
}
