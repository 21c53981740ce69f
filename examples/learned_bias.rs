//! Attention with a learned bias, as a bare operation: no layer, no model.
//!
//! Queries and keys are zero here, so the weights are the softmax of the bias alone. Training the bias to copy the previous
//! token shows that its gradient flows through the fused operation, and the picture shows what it has learned.
//!
//! ```sh
//! cargo run --release --example learned_bias -- bias.svg
//! ```

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use regard_figures::{ColourScale, Figure, Heatmap, ValueRange};
use regard_nn::Init;
use regard_ops::{AdamW, AdamWOptions, AttentionOptions, Decay, Mask, OpError, attention, attention_weights};

const SEQ: usize = 12;

/// A bias on the scores, the same for all sequences.
#[derive(Module, Debug)]
struct LearnedBias {
    /// `[1, 1, SEQ, SEQ]`; sizes of 1 are repeated for every sequence and head.
    bias: Param<Tensor<4>>,
}

impl LearnedBias {
    fn options(&self) -> AttentionOptions {
        AttentionOptions { mask: Mask::Causal, bias: Some(self.bias.val()), ..AttentionOptions::default() }
    }

    /// Computes attention over `v` with weights that depend on positions only.
    ///
    /// # Shapes
    /// `v` `[batch, 1, SEQ, d]` → the same.
    fn forward(&self, v: Tensor<4>) -> Result<Tensor<4>, OpError> {
        attention(v.zeros_like(), v.zeros_like(), v, &self.options())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::flex().autodiff();
    let init = Init::new(1, &device);
    let mut model = LearnedBias { bias: init.constant([1, 1, SEQ, SEQ], 0.0) };
    let options =
        AdamWOptions { learning_rate: 0.1, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weight_decay: 0.0, l2: 0.0 };
    // No limit on the norm of the gradients.
    let mut optimiser = AdamW::new(options, None, Decay::All);
    for step in 0..=200 {
        // New random vectors at every step, drawn from the seed and the name of the step.
        let v = init.normal(&format!("batch {step}"), [16, 1, SEQ, 8], 1.0).val().detach();
        let previous = v.clone().narrow(2, 0, SEQ - 1);
        let difference = model.forward(v)?.narrow(2, 1, SEQ - 1) - previous;
        let loss = (difference.clone() * difference).mean();
        if step % 50 == 0 {
            println!("step {step:>3}: loss {:.4}", loss.clone().into_scalar::<f32>());
        }
        let gradients = loss.backward();
        (model, _) = optimiser.step(model, gradients)?;
    }
    // The weights of sequence 0, head 0, all queries. Queries and keys are zero, so one feature is enough.
    let zeros = Tensor::zeros([1, 1, SEQ, 1], &device);
    let weights = attention_weights(zeros.clone(), zeros, &model.options(), (0, 0), 0..SEQ)?;
    let weights: Vec<f32> = weights.into_data().iter().collect();
    let least = (1..SEQ).map(|query| weights[query * SEQ + query - 1]).fold(1.0, f32::min);
    println!("least weight on the previous token: {least:.3}");
    assert!(least > 0.9, "the bias has not learned to look at the previous token");

    if let Some(path) = std::env::args().nth(1) {
        let map =
            Heatmap::new(SEQ, SEQ, weights)?.axes("query", "key").scale(ColourScale::sequential(ValueRange::FromZero));
        // The result tells which characters no font has.
        let _ = Figure::new("A bias that learned to look at the previous token").panel("weights", map).save(&path)?;
        println!("wrote {path}");
    }
    Ok(())
}
