//! Training steps of a small model on the backend under test, compared with those on Flex.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};
use regard_nn::models::language_model::LanguageModel;
use regard_nn::models::transformer::TransformerConfig;
use regard_nn::{Init, Pass};
use regard_ops::{AdamW, AdamWOptions, CrossEntropyOptions, Decay};

use crate::support::{close, training, values};

/// Values of all parameters of a model, concatenated.
#[derive(Default)]
struct All(Vec<f32>);

impl ModuleVisitor for All {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.extend(values(param.val()));
    }
}

/// Trains three steps. Returns the loss before each, and the weights after them.
fn trained(device: &Device) -> (Vec<f32>, Vec<f32>) {
    let config = TransformerConfig {
        vocab: 13,
        n_layers: 1,
        d_model: 8,
        n_heads: 2,
        d_ff: 16,
        dropout: 0.0,
        ..Default::default()
    };
    let mut model = LanguageModel::new(&config, &Init::new(1, device)).unwrap();
    // With so large an ε, steps are proportional to the gradients.
    let options =
        AdamWOptions { learning_rate: 1e2, beta1: 0.9, beta2: 0.98, epsilon: 1e2, weight_decay: 1e-4, l2: 0.0 };
    let mut adamw = AdamW::new(options, Some(1.0), Decay::Matrices);
    let ids = |shift: i64| {
        let ids = (0..12i64).map(|n| (n * n + shift * (2 * n + 1)) % 13).collect::<Vec<_>>();
        Tensor::<2, Int>::from_data(TensorData::new(ids, [2, 6]), device)
    };
    let mut losses = Vec::new();
    for step in 0..3 {
        let pass = Pass::training(1).at("step", step);
        let loss = model.loss(ids(0), ids(1), CrossEntropyOptions::default(), &pass).unwrap();
        losses.extend(values(loss.clone()));
        let norm;
        (model, norm) = adamw.step(model, loss.backward()).unwrap();
        assert!(norm > 0.0 && norm.is_finite(), "{norm}");
    }
    let mut all = All::default();
    model.visit(&mut all);
    (losses, all.0)
}

#[test]
fn steps_reduce_the_loss_and_match_flex() {
    let (losses, weights) = trained(&training());
    assert!(losses[2] < losses[0], "{losses:?}");
    let flex = trained(&Device::flex().autodiff());
    close("losses", &losses, &flex.0, 1e-5);
    close("weights", &weights, &flex.1, 1e-5);
}
