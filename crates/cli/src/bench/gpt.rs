//! The GPT of the speed table, the same as in `bench/peer_torch.py`: pre-norm, GELU, learned positions.

use regard_nn::layers::block::NormPlace;
use regard_nn::layers::position::Position;
use regard_nn::layers::position::learned::{Beyond, LearnedConfig};
use regard_nn::models::transformer::{EmbeddingScale, TransformerConfig};
use regard_ops::Activation;

/// The sizes of a GPT and its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GptShape {
    pub batch: usize,
    pub seq: usize,
    pub d_model: usize,
    pub n_heads: usize,
    pub n_layers: usize,
    pub d_ff: usize,
    pub vocab: usize,
}

impl GptShape {
    /// The model that the speed table measures.
    pub const REFERENCE: Self =
        Self { batch: 16, seq: 256, d_model: 256, n_heads: 4, n_layers: 4, d_ff: 1024, vocab: 8000 };
    /// A tiny model, whose time is nearly all overhead.
    pub const TINY: Self = Self { batch: 2, seq: 16, d_model: 64, n_heads: 4, n_layers: 4, d_ff: 128, vocab: 256 };

    /// Checks sizes in the order of a benchmark's name.
    pub fn new([batch, seq, d_model, n_heads, n_layers, d_ff, vocab]: [usize; 7]) -> Result<Self, String> {
        if !d_model.is_multiple_of(n_heads) {
            return Err(format!("d_model {d_model} is not a multiple of n_heads {n_heads}"));
        }
        Ok(Self { batch, seq, d_model, n_heads, n_layers, d_ff, vocab })
    }

    pub fn sizes(&self) -> [usize; 7] {
        [self.batch, self.seq, self.d_model, self.n_heads, self.n_layers, self.d_ff, self.vocab]
    }

    /// Returns the FLOPs of the matrix products of a training step: three times those of the forward pass.
    pub fn training_flops(&self) -> f64 {
        let Self { batch, seq, d_model, n_layers, d_ff, vocab, .. } = *self;
        let weights = n_layers * (4 * d_model * d_model + 2 * d_model * d_ff) + d_model * vocab;
        // Causal attention computes half of two products of seq × seq × d_model per layer.
        6.0 * (batch * seq) as f64 * (weights as f64 + (n_layers * seq * d_model) as f64)
    }

    /// Estimates the numbers that a training step holds. A float, because huge sizes would overflow an integer.
    pub fn training_numbers(&self) -> f64 {
        let [batch, seq, d, _, n_layers, d_ff, vocab] = self.sizes().map(|size| size as f64);
        let weights = n_layers * d * (4.0 * d + 2.0 * d_ff) + d * (2.0 * vocab + seq);
        // Weights, gradients and AdamW's two moments; activations for the backward pass; a chunk of logits.
        4.0 * weights + batch * seq * n_layers * (9.0 * d + 2.0 * d_ff) + 512.0 * vocab
    }

    /// Returns the configuration of the model.
    pub fn config(&self) -> TransformerConfig {
        let Self { seq, d_model, n_heads, n_layers, d_ff, vocab, .. } = *self;
        TransformerConfig {
            vocab,
            n_layers,
            d_model,
            n_heads,
            d_ff,
            activation: Activation::Gelu,
            norm_place: NormPlace::Pre,
            position: Position::Learned(LearnedConfig { max_length: seq, beyond: Beyond::Refuse, first: 0 }),
            embedding_scale: EmbeddingScale::None,
            dropout: 0.0,
            ..TransformerConfig::default()
        }
    }
}
