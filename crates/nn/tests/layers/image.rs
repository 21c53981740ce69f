//! Tests of attention on feature maps against PyTorch, and its permutation equivariance.

use burn::module::Param;
use burn::tensor::{Int, Tensor, TensorData};
use proptest::prelude::*;
use regard_nn::layers::attention::image::{ChannelAttentionConfig, SkipConnection, SpatialAttentionConfig};
use regard_nn::layers::linear::Linear;
use regard_nn::{Capture, Init, NnError, Pass};
use regard_ops::OpError;

use crate::case::each_case;
use crate::support::{close, gradient, leaf, loss, training, values};

#[test]
fn matches_pytorch() {
    each_case("image_attention", |case| {
        let init = Init::new(1, &training()).enter("attention");
        let scale = case.options["scale"].as_f64().unwrap() as f32;
        let x = case.leaf::<4>("x");
        let gate = Some(Param::from_tensor(case.tensor::<1>("gate")));
        let grad_out = case.tensor("grad_out");
        if case.name == "channel" {
            let config = ChannelAttentionConfig { scale, ..ChannelAttentionConfig::default() };
            let mut layer = config.init(&init).unwrap();
            layer.gate = gate;
            let out = layer.forward(x.clone(), &Pass::inference()).unwrap();
            let gradients = loss(&out, &grad_out);
            case.expect("out", &values(out));
            case.expect("grad_x", &gradient(&x, &gradients));
            case.expect("grad_gate", &gradient(&layer.gate.unwrap().val(), &gradients));
            return;
        }
        let config = SpatialAttentionConfig {
            scale,
            ..SpatialAttentionConfig::new(4, case.size("d_key"), case.size("d_value"))
        };
        let mut layer = config.init(&init).unwrap();
        layer.gate = gate;
        let set = |linear: &mut Linear, part| case.set(linear, &format!("w_{part}"), Some(&format!("b_{part}")));
        set(&mut layer.query, "q");
        set(&mut layer.key, "k");
        set(&mut layer.value, "v");
        set(&mut layer.output, "o");
        let capture = Capture::default();
        let out = layer.forward(x.clone(), &Pass::inference().with_capture(&capture)).unwrap();
        let gradients = loss(&out, &grad_out);
        case.expect("out", &values(out));
        case.expect("grad_x", &gradient(&x, &gradients));
        case.expect("grad_gate", &gradient(&layer.gate.as_ref().unwrap().val(), &gradients));
        for (linear, part) in [(&layer.query, "q"), (&layer.key, "k"), (&layer.value, "v"), (&layer.output, "o")] {
            case.expect_linear(linear, &format!("w_{part}"), Some(&format!("b_{part}")), &gradients);
        }
        let rows: Vec<f32> = capture.into_maps().iter().flat_map(|map| map.rows.concat()).collect();
        case.expect("weights", &rows);
    });
}

/// With a gate, a new block returns its input, and the gate has a gradient.
#[test]
fn residuals_match_the_configuration() {
    let init = Init::new(1, &training());
    let x = leaf([2, 4, 3, 3], 1);
    let spatial = |residual| {
        let layer = SpatialAttentionConfig { residual, ..SpatialAttentionConfig::new(4, 2, 3) }.init(&init).unwrap();
        (layer.forward(x.clone(), &Pass::inference()).unwrap(), layer.gate)
    };
    let channel = |residual| {
        let layer = ChannelAttentionConfig { residual, ..ChannelAttentionConfig::default() }.init(&init).unwrap();
        (layer.forward(x.clone(), &Pass::inference()).unwrap(), layer.gate)
    };
    for run in [&spatial as &dyn Fn(_) -> (Tensor<4>, Option<Param<Tensor<1>>>), &channel] {
        let (gated, gate) = run(SkipConnection::Gated);
        assert_eq!(values(gated.clone()), values(x.clone()));
        let gradients = gated.powi_scalar(2).sum().backward();
        assert!(gradient(&gate.unwrap().val(), &gradients)[0] != 0.0);
        let ((sum, gate), (plain, none)) = (run(SkipConnection::Sum), run(SkipConnection::None));
        assert!(gate.is_none() && none.is_none());
        close("sum", &values(sum), &values(plain + x.clone()), 1e-6);
    }
}

/// Reorders the channels (`dim` 1) or the flattened positions (`dim` 2) of `x`.
fn reordered(x: &Tensor<4>, dim: usize, order: &[usize]) -> Tensor<4> {
    let dims @ [batch, channels, height, width] = x.dims();
    let order: Vec<i32> = order.iter().map(|&i| i as i32).collect();
    let order = Tensor::<1, Int>::from_data(TensorData::new(order.clone(), [order.len()]), &x.device());
    x.clone().reshape([batch, channels, height * width]).select(dim, order).reshape(dims)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    /// Spatial attention is equivariant under permutations of positions; channel attention under those of positions and channels.
    #[test]
    fn attention_is_permutation_equivariant(positions in Just((0..12usize).collect::<Vec<_>>()).prop_shuffle(),
                     channels in Just((0..4usize).collect::<Vec<_>>()).prop_shuffle(), seed in 0u64..1000) {
        let init = Init::new(seed, &training());
        let residual = SkipConnection::Sum;
        let spatial = SpatialAttentionConfig { residual, ..SpatialAttentionConfig::new(4, 2, 3) }.init(&init).unwrap();
        let channel = ChannelAttentionConfig { residual, scale: 0.3 }.init(&init).unwrap();
        let x = leaf([2, 4, 3, 4], seed);
        let spatial = |x| spatial.forward(x, &Pass::inference()).unwrap();
        let channel = |x| channel.forward(x, &Pass::inference()).unwrap();
        let check = |run: &dyn Fn(Tensor<4>) -> Tensor<4>, dim, order: &[usize]| {
            let got = run(reordered(&x, dim, order));
            close("order", &values(got), &values(reordered(&run(x.clone()), dim, order)), 3e-6);
        };
        check(&spatial, 2, &positions);
        check(&channel, 2, &positions);
        check(&channel, 1, &channels);
    }
}

#[test]
fn channel_attention_captures_a_channels_by_channels_map() {
    let layer = ChannelAttentionConfig::default().init(&Init::new(1, &training()).enter("channel")).unwrap();
    let capture = Capture::default();
    layer.forward(leaf([1, 4, 3, 2], 1), &Pass::inference().with_capture(&capture)).unwrap();
    let maps = capture.into_maps();
    assert_eq!((maps.len(), maps[0].head, maps[0].rows.len()), (1, 0, 4));
    assert!(maps[0].rows.iter().all(|row| row.len() == 4 && (row.iter().sum::<f32>() - 1.0).abs() < 1e-6));
}

#[test]
fn bad_fields_and_inputs_are_named() {
    let error = SpatialAttentionConfig::new(4, 0, 2).validate().unwrap_err();
    assert_eq!(error.to_string(), "d_key = 0: expected a whole number, 1 or more");
    let error = ChannelAttentionConfig { scale: 0.0, ..ChannelAttentionConfig::default() }.validate().unwrap_err();
    assert_eq!(error.to_string(), "scale = 0: expected a finite number above 0");
    let unknown = serde_json::from_str::<ChannelAttentionConfig>(r#"{"residual": "maybe"}"#).unwrap_err().to_string();
    assert!(unknown.contains("`maybe`, expected one of `gated`, `sum`, `none`"), "{unknown}");

    let layer = SpatialAttentionConfig::new(4, 2, 3).init(&Init::new(1, &training())).unwrap();
    for shape in [[1, 3, 2, 2], [1, 4, 0, 2]] {
        let error = layer.forward(leaf(shape, 1), &Pass::inference()).unwrap_err();
        assert!(matches!(error, NnError::Op(OpError::Shape { what: "feature map", .. })), "{error}");
    }
    let layer = ChannelAttentionConfig::default().init(&Init::new(1, &training())).unwrap();
    let error = layer.forward(leaf([1, 4, 0, 2], 1), &Pass::inference()).unwrap_err();
    assert!(matches!(error, NnError::Op(OpError::Shape { what: "feature map", .. })), "{error}");
}
