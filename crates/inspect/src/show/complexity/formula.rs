//! Costs by formula (Vaswani et al. 2017, table 1). A multiply-add counts as two operations.

/// A kind of layer that mixes tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// Attention in which every token sees every token.
    SelfAttention,
    /// Attention in which every token sees a window.
    TruncatedAttention,
    /// Attention without a softmax, through a `d × d` state.
    LinearAttention,
    /// Convolution, with weights by position in a window.
    Convolution,
    /// Recurrent layer, which goes step by step.
    Recurrent,
}

/// Sizes of a sequence and of the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Number of tokens.
    pub n: usize,
    /// Number of features of a token.
    pub d: usize,
    /// Number of tokens that a convolution sees.
    pub k: usize,
    /// Number of keys that a query of truncated attention sees.
    pub w: usize,
}

impl Layer {
    /// All layers, in the order of the tables.
    pub const ALL: [Layer; 5] =
        [Layer::SelfAttention, Layer::TruncatedAttention, Layer::LinearAttention, Layer::Convolution, Layer::Recurrent];

    /// Returns the readable name.
    pub fn name(self) -> &'static str {
        match self {
            Layer::SelfAttention => "self-attention",
            Layer::TruncatedAttention => "truncated attention",
            Layer::LinearAttention => "linear attention",
            Layer::Convolution => "CNN",
            Layer::Recurrent => "RNN",
        }
    }

    /// Returns how the cost of mixing tokens grows.
    pub fn complexity(self) -> &'static str {
        match self {
            Layer::SelfAttention => "O(n² d)",
            Layer::TruncatedAttention => "O(n w d)",
            Layer::LinearAttention => "O(n d²)",
            Layer::Convolution => "O(k n d²)",
            Layer::Recurrent => "O(n d²)",
        }
    }

    /// Returns how the number of sequential steps grows.
    pub fn sequential(self) -> &'static str {
        match self {
            Layer::Recurrent => "O(n)",
            _ => "O(1)",
        }
    }

    /// Returns how the number of layers or steps between the two most distant tokens grows.
    pub fn path(self) -> &'static str {
        match self {
            Layer::SelfAttention | Layer::LinearAttention => "O(1)",
            Layer::TruncatedAttention => "O(n/w)",
            Layer::Convolution => "O(n/k)",
            Layer::Recurrent => "O(n)",
        }
    }

    /// Returns the number of operations of the mixing in a forward pass.
    pub fn mixing_flops(&self, sizes: &Sizes) -> f64 {
        let [n, d, k, w] = [sizes.n, sizes.d, sizes.k, sizes.w].map(|size| size as f64);
        match self {
            // Scores and the weighted sum of values.
            Layer::SelfAttention => 4.0 * n * n * d,
            Layer::TruncatedAttention => 4.0 * n * w.min(n) * d,
            // Keys times values into the state, queries times the state.
            Layer::LinearAttention => 4.0 * n * d * d,
            Layer::Convolution => 2.0 * k * n * d * d,
            // The product of the input and that of the state.
            Layer::Recurrent => 4.0 * n * d * d,
        }
    }

    /// Returns the number of operations of the projections to queries, keys, values and output.
    pub fn projection_flops(&self, sizes: &Sizes) -> f64 {
        match self {
            Layer::SelfAttention | Layer::TruncatedAttention | Layer::LinearAttention => {
                8.0 * sizes.n as f64 * (sizes.d as f64).powi(2)
            }
            Layer::Convolution | Layer::Recurrent => 0.0,
        }
    }

    /// Returns [`Layer::path`] as a number, in the direction that takes longer.
    pub fn path_length(&self, sizes: &Sizes) -> usize {
        let distance = sizes.n.saturating_sub(1);
        // An even window reaches one token less far on one side.
        let within = |seen: usize| distance.div_ceil((seen.saturating_sub(1) / 2).max(1));
        match self {
            Layer::SelfAttention | Layer::LinearAttention => distance.min(1),
            Layer::TruncatedAttention => within(sizes.w),
            Layer::Convolution => within(sizes.k),
            Layer::Recurrent => distance,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_by_hand() {
        let sizes = Sizes { n: 100, d: 10, k: 3, w: 21 };
        let flops = Layer::ALL.map(|layer| layer.mixing_flops(&sizes));
        assert_eq!(flops, [400_000.0, 84_000.0, 40_000.0, 60_000.0, 40_000.0]);
        assert_eq!(Layer::ALL.map(|layer| layer.projection_flops(&sizes)), [80_000.0, 80_000.0, 80_000.0, 0.0, 0.0]);
        assert_eq!(Layer::ALL.map(|layer| layer.path_length(&sizes)), [1, 10, 1, 99, 99]);
    }

    #[test]
    fn a_window_wider_than_the_sequence_is_all_of_it() {
        let sizes = Sizes { n: 16, d: 4, k: 5, w: 99 };
        assert_eq!(Layer::TruncatedAttention.mixing_flops(&sizes), Layer::SelfAttention.mixing_flops(&sizes));
        assert_eq!(Layer::TruncatedAttention.path_length(&sizes), 1);
    }

    #[test]
    fn paths_are_walked() {
        // Finds the longest path by spreading from the first token, layer by layer.
        for (n, k) in [(2, 3), (17, 3), (40, 7), (33, 6)] {
            let (mut reached, mut layers) = (0, 0);
            while reached < n - 1 {
                // A window reaches k/2 tokens to one side and k − 1 − k/2 to the other; the shorter reach counts.
                reached += (k / 2).min(k - 1 - k / 2);
                layers += 1;
            }
            assert_eq!(Layer::Convolution.path_length(&Sizes { n, d: 1, k, w: 3 }), layers, "{n} {k}");
        }
    }
}
