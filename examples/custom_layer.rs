//! An attention layer of your own that can be captured and ablated like every layer of Regard.
//!
//! Cosine attention (Henry et al. 2020) compares directions only: queries and keys are scaled to length 1, and a learned
//! sharpness per head replaces the factor `1/√d_head`. The layer asks [`Init::heads`] for its [`Heads`] and attends through
//! them; names, attention maps and ablation follow from that. A [`Pass`] carries what the caller wants of a forward pass:
//! training or inference, what to capture, what to switch off.
//!
//! ```sh
//! cargo run --release --example custom_layer -- cosine.html
//! ```

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use regard_inspect::{AttentionView, MapGroup};
use regard_nn::layers::linear::{Linear, LinearConfig};
use regard_nn::{Ablation, AttentionKind, Capture, ConfigError, Heads, Init, NnError, Pass};
use regard_ops::{AttentionOptions, Mask};

/// Multi-head cosine attention: `softmax(g · q̂ k̂ᵀ) v`, with `q̂` and `k̂` of length 1.
#[derive(Module, Debug)]
struct CosineAttention {
    /// Projection to queries, keys and values, `[d_model, 3 · d_model]`.
    qkv: Linear,
    /// Output projection, `[d_model, d_model]`.
    output: Linear,
    /// Sharpness `g` of each head, `[n_heads]`.
    sharpness: Param<Tensor<1>>,
    n_heads: usize,
    /// Names of the heads. They hold no weights, so the module skips them.
    #[module(skip)]
    heads: Heads,
}

impl CosineAttention {
    fn new(d_model: usize, n_heads: usize, init: &Init) -> Result<Self, ConfigError> {
        if n_heads == 0 || !d_model.is_multiple_of(n_heads) {
            return Err(ConfigError::new("n_heads", n_heads, "a divisor of d_model"));
        }
        Ok(Self {
            qkv: LinearConfig::new(d_model, 3 * d_model).init(&init.enter("qkv"))?,
            output: LinearConfig::new(d_model, d_model).init(&init.enter("output"))?,
            // Cosines lie between −1 and 1; a factor of 10 lets a head single out one key.
            sharpness: init.constant([n_heads], 10.0),
            n_heads,
            heads: init.heads(AttentionKind::SelfAttention, n_heads),
        })
    }

    /// Mixes each token with the tokens that `options` lets it see.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_model]` → the same.
    fn forward(&self, x: Tensor<3>, options: &AttentionOptions, pass: &Pass) -> Result<Tensor<3>, NnError> {
        let [batch, seq, d_model] = x.dims();
        let (n_heads, d_head) = (self.n_heads, d_model / self.n_heads);
        let qkv = self.qkv.forward(x)?;
        let [q, k, v] = [0, 1, 2].map(|part| {
            let part = qkv.clone().narrow(2, part * d_model, d_model);
            part.reshape([batch, seq, n_heads, d_head]).swap_dims(1, 2)
        });
        // The small number keeps a zero vector from becoming NaN.
        let unit = |x: Tensor<4>| x.clone() / (x.clone() * x).sum_dim(3).add_scalar(1e-6).sqrt();
        let q = unit(q) * self.sharpness.val().reshape([1, n_heads, 1, 1]);
        // The sharpness replaces the usual scale.
        let options = AttentionOptions { scale: Some(1.0), ..options.clone() };
        // 0 is the position of the first query; it differs when decoding with a cache.
        let mixed = self.heads.attend(q, unit(k), v, &options, 0, pass)?;
        if self.heads.are_off(pass) {
            // With all heads switched off the layer adds nothing to the residual stream, not even the output bias.
            return Ok(Tensor::zeros([batch, seq, d_model], &mixed.device()));
        }
        Ok(self.output.forward(mixed.swap_dims(1, 2).reshape([batch, seq, d_model]))?)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::flex().autodiff();
    let init = Init::new(7, &device);
    let layer = CosineAttention::new(16, 2, &init)?;
    let tokens = ["the", "cat", "saw", "the", "dog"];
    // Vectors that depend on the word alone: "the" occurs twice, so its two vectors are equal.
    let value = |word: &str, i: usize| (word.bytes().map(usize::from).sum::<usize>() as f32 * (i + 1) as f32).sin();
    let numbers: Vec<f32> = tokens.iter().flat_map(|word| (0..16).map(|i| value(word, i))).collect();
    let x = Tensor::<3>::from_data(TensorData::new(numbers, [1, 5, 16]), &device);
    let options = AttentionOptions { mask: Mask::Causal, ..AttentionOptions::default() };

    // Capture: the pass collects the weights of every head.
    let capture = Capture::default();
    let y = layer.forward(x.clone(), &options, &Pass::inference().with_capture(&capture))?;
    let maps = capture.into_maps();
    for map in &maps {
        println!("head {}", map.site.head(map.head));
        for (token, row) in tokens.iter().zip(&map.rows) {
            let row: Vec<String> = row.iter().map(|weight| format!("{weight:.2}")).collect();
            println!("  {token:>4}  {}", row.join("  "));
        }
    }
    assert_eq!(maps.len(), 2);
    // The second "the" cannot tell the two apart: attention without positions does not see the order.
    assert!(maps.iter().all(|map| (map.rows[3][0] - map.rows[3][3]).abs() < 1e-6));

    // Ablation: the same layer without head 1 of layer 0.
    let without = Ablation::parse("0.1", &init.inventory())?;
    let changed = layer.forward(x.clone(), &options, &Pass::inference().with_ablation(&without))?;
    println!("largest change without layer 0, head 1: {:.3}", (y.clone() - changed).abs().max().into_scalar::<f32>());

    // Gradients: every parameter learns, the sharpness too.
    let gradients = y.sum().backward();
    let gradient = layer.sharpness.val().grad(&gradients).expect("the output depends on the sharpness");
    println!("gradient of the sharpness: {:?}", gradient.into_data().iter::<f32>().collect::<Vec<_>>());

    if let Some(path) = std::env::args().nth(1) {
        let view =
            AttentionView::from_maps("Cosine attention", &maps, |map| Some(MapGroup::of(map.site, tokens, tokens)))?;
        // The result tells which characters no font has.
        let _ = view.save(&path)?;
        println!("wrote {path}");
    }
    Ok(())
}
