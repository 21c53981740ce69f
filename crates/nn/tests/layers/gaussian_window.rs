//! Tests of the Gaussian window against PyTorch, as a whole and step by step, with its end and with extreme inputs.

use burn::module::Param;
use burn::tensor::{Tensor, TensorData};
use proptest::prelude::*;
use regard_nn::layers::attention::gaussian_window::{GaussianWindow, WindowConfig, WindowText};
use regard_nn::{Capture, Init, NnError, Pass};
use regard_ops::OpError;

use crate::case::{Case, each_case, weighted};
use crate::support::{close, gradient, leaf, training, values};

fn layer(case: &Case) -> GaussianWindow {
    let config = WindowConfig::new(4, case.size("n_components"));
    let mut layer = config.init(&Init::new(1, &training()).enter("window")).unwrap();
    case.set(&mut layer.projection, "weight", Some("bias"));
    layer
}

#[test]
fn the_whole_sequence_matches_pytorch() {
    each_case("gaussian_window", |case| {
        let layer = layer(&case);
        let (hidden, characters) = (case.leaf::<3>("hidden"), case.leaf::<3>("characters"));
        let position = case.leaf::<2>("position");
        let text = WindowText::new(characters.clone(), Some(case.lengths())).unwrap();
        let capture = Capture::default();
        let pass = Pass::inference().with_capture(&capture);
        let window = layer.forward(hidden.clone(), Some(position.clone()), &text, 0, &pass).unwrap();
        let loss =
            weighted(&window.windows, case.tensor("grad_out")) + weighted(&window.position, case.tensor("grad_last"));
        let gradients = loss.backward();
        case.expect("out", &values(window.windows));
        case.expect("last", &values(window.position));
        case.expect("weights", &values(window.weights));
        case.expect("grad_hidden", &gradient(&hidden, &gradients));
        case.expect("grad_characters", &gradient(&characters, &gradients));
        case.expect("grad_position", &gradient(&position, &gradients));
        case.expect_linear(&layer.projection, "weight", Some("bias"), &gradients);
        let rows: Vec<f32> = capture.into_maps().iter().flat_map(|map| map.rows.concat()).collect();
        case.expect("weights", &rows);
    });
}

#[test]
fn steps_match_pytorch_and_stop_at_the_same_place() {
    each_case("gaussian_window", |case| {
        let layer = layer(&case);
        let (hidden, characters) = (case.leaf::<3>("hidden"), case.leaf::<3>("characters"));
        let start = case.leaf::<2>("position");
        let text = WindowText::new(characters.clone(), Some(case.lengths())).unwrap();
        let capture = Capture::default();
        let pass = Pass::inference().with_capture(&capture);
        let (mut position, mut windows, mut finished) = (start.clone(), Vec::new(), Vec::new());
        for t in 0..5 {
            let h = hidden.clone().narrow(1, t, 1).squeeze_dim(1);
            let step = layer.step(h, Some(position), &text, t, &pass).unwrap();
            finished.push(step.finished());
            windows.push(step.window.unsqueeze_dim::<3>(1));
            position = step.position;
        }
        let out = Tensor::cat(windows, 1);
        let gradients =
            (weighted(&out, case.tensor("grad_out")) + weighted(&position, case.tensor("grad_last"))).backward();
        case.expect("out", &values(out));
        case.expect("last", &values(position));
        case.expect("grad_hidden", &gradient(&hidden, &gradients));
        case.expect("grad_characters", &gradient(&characters, &gradients));
        case.expect("grad_position", &gradient(&start, &gradients));
        case.expect_linear(&layer.projection, "weight", Some("bias"), &gradients);
        let rows: Vec<f32> = capture.into_maps().iter().flat_map(|map| map.rows.concat()).collect();
        case.expect("weights", &rows);
        let want = case.integers("finished");
        for (t, finished) in finished.iter().enumerate() {
            let want: Vec<bool> = (0..3).map(|sequence| want[sequence * 5 + t] == 1).collect();
            assert_eq!(finished, &want, "{} at {t}", case.name);
        }
    });
}

/// A sharp window that moves one character per step is at character `t`, and past the end after the last one.
#[test]
fn the_window_reads_one_character_after_another() {
    let mut layer = WindowConfig::new(1, 1).init(&Init::new(1, &training())).unwrap();
    layer.projection.weight = Param::from_tensor(Tensor::zeros([1, 3], &training()));
    layer.projection.bias = Some(Param::from_tensor(Tensor::from_floats([0.0, 3.0, 0.0], &training())));
    let one_hot: Vec<f32> = (0..32).map(|i| if i % 16 / 4 == i % 4 { 1.0 } else { 0.0 }).collect();
    let characters = Tensor::<3>::from_data(TensorData::new(one_hot, [2, 4, 4]), &training());
    let text = WindowText::new(characters, Some(vec![4, 2])).unwrap();
    let mut position = None;
    for t in 1..=5 {
        let step = layer.step(Tensor::zeros([2, 1], &training()), position, &text, t, &Pass::inference()).unwrap();
        // The neighbours' weight is exp(−e³) = 2·10⁻⁹.
        let want: Vec<f32> = [4, 2].iter().flat_map(|&n| (1..=4).map(move |u| f32::from(u == t && u <= n))).collect();
        close("window", &values(step.window.clone()), &want, 1e-7);
        assert_eq!(step.finished(), [t == 5, t >= 3], "step {t}");
        position = Some(step.position);
    }
}

/// Outputs and gradients stay finite for inputs far beyond the usual range.
#[test]
fn nothing_overflows() {
    for size in [1e2, 1e4, 1e30] {
        for signs in 0..8 {
            let sign = |bit: u32| if signs >> bit & 1 == 1 { size } else { -size };
            let mut layer = WindowConfig::new(1, 1).init(&Init::new(1, &training())).unwrap();
            layer.projection.bias =
                Some(Param::from_tensor(Tensor::from_floats([sign(0), sign(1), sign(2)], &training())));
            let characters = leaf([1, 3, 2], 1);
            let text = WindowText::new(characters.clone(), None).unwrap();
            let hidden = leaf([1, 50, 1], 2);
            let window = layer.forward(hidden.clone(), None, &text, 0, &Pass::inference()).unwrap();
            assert!(values(window.windows.clone()).iter().all(|x| x.is_finite()), "{size} {signs}");
            let gradients = window.windows.sum().backward();
            let bias = layer.projection.bias.as_ref().unwrap().val();
            for grad in [gradient(&hidden, &gradients), gradient(&characters, &gradients), gradient(&bias, &gradients)]
            {
                assert!(grad.iter().all(|x| x.is_finite()), "{size} {signs}");
            }
        }
    }
}

#[test]
fn the_first_move_matches_the_configuration() {
    let config = WindowConfig { first_move: 0.04, ..WindowConfig::new(3, 2) };
    let layer = config.init(&Init::new(1, &training())).unwrap();
    let text = WindowText::new(leaf([1, 4, 2], 1), None).unwrap();
    let still = Tensor::zeros([1, 3], &training());
    let step = layer.step(still, None, &text, 0, &Pass::inference()).unwrap();
    close("position", &values(step.position), &[0.04, 0.04], 1e-7);
    let gradients = step.window.sum().backward();
    assert!(layer.projection.bias.unwrap().val().grad(&gradients).is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    /// The characters at padding change neither the windows nor the end.
    #[test]
    fn padding_has_no_effect(length in 0usize..5, padding in 1usize..4, seed in 0u64..1000) {
        let layer = WindowConfig::new(3, 2).init(&Init::new(seed, &training())).unwrap();
        let characters = leaf([1, length + padding, 2], seed + 1);
        let hidden = leaf([1, 4, 3], seed + 2);
        let run = |characters: Tensor<3>| {
            let text = WindowText::new(characters, Some(vec![length])).unwrap();
            let step = layer.step(hidden.clone().narrow(1, 0, 1).squeeze_dim(1), None, &text, 0, &Pass::inference());
            let all = layer.forward(hidden.clone(), None, &text, 0, &Pass::inference()).unwrap();
            (values(all.windows), step.unwrap().finished())
        };
        let other = characters.clone().slice_assign([0..1, length..length + padding, 0..2], leaf([1, padding, 2], seed + 3));
        prop_assert_eq!(run(characters), run(other));
    }
}

#[test]
fn bad_fields_and_inputs_are_named() {
    let error = |config: WindowConfig| config.validate().unwrap_err().to_string();
    assert_eq!(error(WindowConfig::new(3, 0)), "n_components = 0: expected a whole number, 1 or more");
    let config = WindowConfig { first_move: -1.0, ..WindowConfig::new(3, 2) };
    assert_eq!(error(config), "first_move = -1: expected a finite number above 0");
    let unknown = serde_json::from_str::<WindowConfig>(r#"{"d_hidden": 3, "components": 2}"#).unwrap_err();
    assert!(unknown.to_string().contains("unknown field `components`"), "{unknown}");

    let what = |error: NnError| match error {
        NnError::Op(OpError::Shape { what, .. }) | NnError::Input { what, .. } => what,
        other => panic!("{other}"),
    };
    assert_eq!(what(WindowText::new(leaf([1, 0, 2], 1), None).unwrap_err()), "characters");
    assert_eq!(what(WindowText::new(leaf([2, 3, 2], 1), Some(vec![4, 1])).unwrap_err()), "lengths");
    let layer = WindowConfig::new(3, 2).init(&Init::new(1, &training())).unwrap();
    let text = WindowText::new(leaf([2, 3, 2], 1), None).unwrap();
    let step = |hidden, position| layer.step(hidden, position, &text, 0, &Pass::inference()).unwrap_err();
    assert_eq!(what(step(leaf([2, 4], 1), None)), "hidden");
    assert_eq!(what(step(leaf([1, 3], 1), None)), "hidden");
    assert_eq!(what(step(leaf([2, 3], 1), Some(leaf([2, 3], 1)))), "position");
}

#[test]
fn nan_in_padding_has_no_effect() {
    let layer = WindowConfig::new(4, 3).init(&Init::new(1, &training())).unwrap();
    let run = |padding: f32| {
        let characters: Tensor<3> = leaf([1, 5, 3], 1);
        let characters = characters.slice_assign([0..1, 2..5, 0..3], Tensor::full([1, 3, 3], padding, &training()));
        let text = WindowText::new(characters, Some(vec![2])).unwrap();
        let hidden: Tensor<3> = leaf([1, 4, 4], 2);
        let windows = layer.forward(hidden.clone(), None, &text, 0, &Pass::inference()).unwrap().windows;
        let gradients = windows.clone().sum().backward();
        (values(windows), gradient(&hidden, &gradients))
    };
    assert_eq!(run(0.0), run(f32::NAN));
}
