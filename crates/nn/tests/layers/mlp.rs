//! Tests of the multilayer perceptron against its formula in f64, with gradients by the chain rule.

use burn::module::Param;
use regard_nn::layers::linear::Linear;
use regard_nn::layers::mlp::{LastLayer, MlpConfig};
use regard_nn::{Init, Pass};
use regard_ops::Activation;

use crate::support::{close, gradient, leaf, loss, training, values};

/// Computes the output and the gradients of `Σ y ∘ grad` with respect to the input and each layer's weight and bias.
fn reference(
    sizes: &[usize],
    weights: &[(Vec<f32>, Vec<f32>)],
    x: &[f32],
    grad: &[f32],
    last: LastLayer,
) -> Vec<Vec<f32>> {
    let single = |values: &[f64]| values.iter().map(|&value| value as f32).collect::<Vec<_>>();
    let layers = weights.len();
    let d_out = sizes[layers];
    let mut out = Vec::new();
    let mut grad_x = Vec::new();
    let mut grads: Vec<_> = weights.iter().map(|(w, b)| (vec![0.0; w.len()], vec![0.0; b.len()])).collect();
    for (row, grad) in x.chunks(sizes[0]).zip(grad.chunks(d_out)) {
        let mut ys: Vec<Vec<f64>> = vec![row.iter().map(|&x| f64::from(x)).collect()];
        for (n, (w, b)) in weights.iter().enumerate() {
            let width = b.len();
            let sum = |j: usize| -> f64 {
                ys[n].iter().enumerate().map(|(i, y)| y * f64::from(w[i * width + j])).sum::<f64>() + f64::from(b[j])
            };
            let linear = n + 1 == layers && last == LastLayer::Linear;
            ys.push((0..width).map(|j| if linear { sum(j) } else { sum(j).tanh() }).collect());
        }
        out.extend_from_slice(&ys[layers]);
        let mut dy: Vec<f64> = grad.iter().map(|&g| f64::from(g)).collect();
        for (n, (w, b)) in weights.iter().enumerate().rev() {
            let width = b.len();
            let linear = n + 1 == layers && last == LastLayer::Linear;
            // d tanh(z) = 1 − y²
            let dz: Vec<f64> =
                dy.iter().zip(&ys[n + 1]).map(|(dy, y)| if linear { *dy } else { dy * (1.0 - y * y) }).collect();
            for (j, dz) in dz.iter().enumerate() {
                grads[n].1[j] += dz;
                for (i, y) in ys[n].iter().enumerate() {
                    grads[n].0[i * width + j] += y * dz;
                }
            }
            dy = (0..ys[n].len())
                .map(|i| dz.iter().enumerate().map(|(j, dz)| dz * f64::from(w[i * width + j])).sum())
                .collect();
        }
        grad_x.extend(dy);
    }
    let mut all = vec![single(&out), single(&grad_x)];
    all.extend(grads.iter().flat_map(|(w, b)| [single(w), single(b)]));
    all
}

#[test]
fn stacked_tanh_layers_match_the_formula() {
    for (sizes, last) in
        [(vec![3, 5, 4, 2], LastLayer::Linear), (vec![3, 5, 2], LastLayer::Activated), (vec![3, 2], LastLayer::Linear)]
    {
        let mut layer = MlpConfig { last, ..MlpConfig::new(sizes.clone()) }.init(&Init::new(3, &training())).unwrap();
        for (n, layer) in layer.layers.iter_mut().enumerate() {
            layer.linear.bias = Some(Param::from_tensor(leaf([sizes[n + 1]], n as u64 + 7)));
        }
        let (x, grad) = (leaf([2, 4, 3], 1), leaf([2, 4, 2], 2));
        let out = layer.forward(x.clone(), &Pass::inference()).unwrap();
        let gradients = loss(&out, &grad);
        let linears: Vec<_> = layer.layers.iter().map(|layer| &layer.linear).collect();
        let bias = |linear: &Linear| linear.bias.as_ref().unwrap().val();
        let weights: Vec<_> =
            linears.iter().map(|linear| (values(linear.weight.val()), values(bias(linear)))).collect();
        let mut got = vec![values(out), gradient(&x, &gradients)];
        for linear in linears {
            got.extend([gradient(&linear.weight.val(), &gradients), gradient(&bias(linear), &gradients)]);
        }
        let want = reference(&sizes, &weights, &values(x), &values(grad), last);
        assert_eq!(got.len(), want.len());
        for (n, (got, want)) in got.iter().zip(&want).enumerate() {
            close(&format!("{sizes:?} result {n}"), got, want, 2e-6);
        }
    }
}

#[test]
fn dropout_applies_to_hidden_features_in_training() {
    let run = |sizes: Vec<usize>, pass: Pass| {
        let layer = MlpConfig { dropout: 0.5, ..MlpConfig::new(sizes) }.init(&Init::new(3, &training())).unwrap();
        values(layer.forward(leaf([4, 3], 1), &pass).unwrap())
    };
    let deep = || vec![3, 16, 2];
    assert_eq!(run(deep(), Pass::training(1)), run(deep(), Pass::training(1)));
    assert_ne!(run(deep(), Pass::training(1)), run(deep(), Pass::training(2)));
    assert_ne!(run(deep(), Pass::training(1)), run(deep(), Pass::inference()));
    // Neither the input nor the output has dropout.
    assert_eq!(run(vec![3, 2], Pass::training(1)), run(vec![3, 2], Pass::inference()));
}

#[test]
fn bad_fields_are_named() {
    let refused = |sizes: &[usize]| MlpConfig::new(sizes).validate().unwrap_err().to_string();
    assert_eq!(refused(&[3]), "sizes = [3]: expected at least two numbers: input and output features");
    assert_eq!(refused(&[3, 0, 2]), "sizes[1] = 0: expected a whole number, 1 or more");
    let config = MlpConfig { dropout: -0.1, ..MlpConfig::new([3, 2]) };
    assert!(config.validate().unwrap_err().to_string().starts_with("dropout = -0.1"));
    let parse = |text| serde_json::from_str::<MlpConfig>(text).map_err(|error| error.to_string());
    assert_eq!(parse(r#"{"sizes": [3, 2]}"#).unwrap(), MlpConfig::new([3, 2]));
    let other = parse(r#"{"sizes": [3, 2], "activation": "relu", "last": "activated"}"#).unwrap();
    assert_eq!((other.activation, other.last), (Activation::Relu, LastLayer::Activated));
    assert!(parse(r#"{"sizes": [3, 2], "last": "softmax"}"#).unwrap_err().contains("expected `linear` or `activated`"));
}
