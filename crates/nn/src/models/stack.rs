//! The parts that Transformer models share: an embedding of tokens and positions, a stack of blocks, and an output layer.

use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};
use regard_ops::{AttentionOptions, CrossEntropyOptions, OpError, Precision, linear_cross_entropy};

use super::transformer::{EmbeddingNorm, EmbeddingScale, OutputScale, OutputWeights, TransformerConfig};
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::layers::attention::cache::Cached;
use crate::layers::block::NormPlace;
use crate::layers::block::encoder::EncoderBlock;
use crate::layers::dropout::Dropout;
use crate::layers::embedding::{Embedding, EmbeddingConfig, check_tokens};
use crate::layers::linear::{Bias, Linear, LinearConfig};
use crate::layers::norm::Norm;
use crate::layers::position::{Places, Positions};
use crate::pass::Pass;

/// Embedding of tokens and their positions.
#[derive(Module, Debug)]
pub struct TokenEmbedding {
    /// Embedding table of the tokens.
    pub tokens: Embedding,
    /// Vectors of the token types, if there are any.
    pub types: Option<Embedding>,
    /// Positions, shared by all layers above.
    pub position: Positions,
    /// Norm of the sum, if there is one.
    pub norm: Option<Norm>,
    dropout: Dropout,
    scale: f32,
}

impl TokenEmbedding {
    /// Builds an embedding of `vocab` tokens.
    pub fn new(config: &TransformerConfig, vocab: usize, init: &Init) -> Result<Self, ConfigError> {
        let d_model = config.d_model;
        let scale = match config.embedding_scale {
            EmbeddingScale::Root => (d_model as f32).sqrt(),
            EmbeddingScale::None => 1.0,
        };
        let types = (config.token_types > 0).then_some(EmbeddingConfig { vocab: config.token_types, d_model });
        let norm = (config.embedding_norm == EmbeddingNorm::Norm).then(|| config.block().norm());
        Ok(Self {
            tokens: EmbeddingConfig { vocab, d_model }.init(&init.enter("tokens"))?,
            types: types.map(|types| types.init(&init.enter("types"))).transpose()?,
            position: config.position.init(config.position_sizes(), &init.enter("position"))?,
            norm: norm.map(|norm| norm.init(&init.enter("norm"))).transpose()?,
            dropout: Dropout::new("embedding_dropout", config.embedding_dropout(), &init.enter("dropout"))?,
            scale,
        })
    }

    /// Computes the vectors of `ids`, the first at position `offset`, and the positions that attention needs.
    ///
    /// # Shapes
    /// `ids` `[batch, seq]` → `[batch, seq, d_model]`.
    pub fn forward(&self, ids: Tensor<2, Int>, offset: usize, pass: &Pass) -> Result<(Tensor<3>, Places), NnError> {
        let seq = ids.dims()[1];
        self.forward_runs(ids, &[(offset, seq)], pass)
    }

    /// Same as [`forward`](Self::forward) for concatenated runs of tokens, each given by its first position and its length.
    ///
    /// # Shapes
    /// `ids` `[batch, seq]` → `[batch, seq, d_model]`.
    pub fn forward_runs(
        &self,
        ids: Tensor<2, Int>,
        runs: &[(usize, usize)],
        pass: &Pass,
    ) -> Result<(Tensor<3>, Places), NnError> {
        let x = self.tokens(ids, None)?;
        self.placed(x, &self.position, runs, pass)
    }

    /// Same as [`forward`](Self::forward) from position 0, with the type of each token; `None` gives all tokens type 0.
    ///
    /// # Shapes
    /// `ids` and `types` `[batch, seq]` → `[batch, seq, d_model]`.
    pub fn forward_typed(
        &self,
        ids: Tensor<2, Int>,
        types: Option<Tensor<2, Int>>,
        pass: &Pass,
    ) -> Result<(Tensor<3>, Places), NnError> {
        let seq = ids.dims()[1];
        let x = self.tokens(ids, types)?;
        self.placed(x, &self.position, &[(0, seq)], pass)
    }

    /// Same as [`forward`](Self::forward) with other positions than the embedding's own.
    pub(super) fn forward_at(
        &self,
        ids: Tensor<2, Int>,
        position: &Positions,
        offset: usize,
        pass: &Pass,
    ) -> Result<(Tensor<3>, Places), NnError> {
        let seq = ids.dims()[1];
        let x = self.tokens(ids, None)?;
        self.placed(x, position, &[(offset, seq)], pass)
    }

    /// Returns the vectors of tokens and types, without positions.
    fn tokens(&self, ids: Tensor<2, Int>, types: Option<Tensor<2, Int>>) -> Result<Tensor<3>, NnError> {
        check_tokens("tokens", &ids)?;
        let shape = ids.dims();
        let mut x = self.tokens.forward(ids)?;
        if self.scale != 1.0 {
            x = x * self.scale;
        }
        match (&self.types, types) {
            (Some(_), Some(types)) if types.dims() != shape => {
                Err(NnError::input("token types", format!("{shape:?}, one per token"), format!("{:?}", types.dims())))
            }
            (Some(table), Some(types)) => Ok(x + table.forward(types)?),
            (Some(table), None) => {
                let first = Tensor::zeros([1, 1], &x.device());
                Ok(x + table.forward(first)?)
            }
            (None, Some(_)) => Err(NnError::input("token types", "none: this model has no token types", "some")),
            (None, None) => Ok(x),
        }
    }

    /// Adds positions, then applies norm and dropout.
    fn placed(
        &self,
        x: Tensor<3>,
        position: &Positions,
        runs: &[(usize, usize)],
        pass: &Pass,
    ) -> Result<(Tensor<3>, Places), NnError> {
        let (x, places) = position.enter(x, runs, pass)?;
        let x = match &self.norm {
            Some(norm) => norm.forward(x)?,
            None => x,
        };
        Ok((self.dropout.forward(x, pass)?, places))
    }
}

/// Stack of self-attention blocks, with the final norm of a pre-norm model.
#[derive(Module, Debug)]
pub struct Stack {
    /// The blocks, the lowest first.
    pub layers: Vec<EncoderBlock>,
    /// Norm after the last block.
    pub norm: Option<Norm>,
}

impl Stack {
    /// Builds a stack of `config.n_layers` blocks.
    pub fn new(config: &TransformerConfig, init: &Init) -> Result<Self, ConfigError> {
        let block = config.block();
        let layer = |i| EncoderBlock::new(&block, &init.enter("layers").enter(i).layer(i));
        Ok(Self { layers: (0..config.n_layers).map(layer).collect::<Result<_, _>>()?, norm: last_norm(config, init)? })
    }

    /// Returns the output of every block, the lowest first. The last one is normalised in a pre-norm model.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_model]` → one tensor of the same shape per block.
    pub fn forward_all(
        &self,
        x: Tensor<3>,
        options: &AttentionOptions,
        places: &Places,
        pass: &Pass,
    ) -> Result<Vec<Tensor<3>>, NnError> {
        let mut outputs = self.forward_blocks(x, options, places, pass)?;
        if let Some(last) = outputs.last_mut() {
            *last = self.normed(last.clone())?;
        }
        Ok(outputs)
    }

    /// Returns the output of every block, the lowest first. None is normalised.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_model]` → one tensor of the same shape per block.
    pub fn forward_blocks(
        &self,
        x: Tensor<3>,
        options: &AttentionOptions,
        places: &Places,
        pass: &Pass,
    ) -> Result<Vec<Tensor<3>>, NnError> {
        let mut outputs: Vec<Tensor<3>> = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            let below = outputs.last().cloned().unwrap_or_else(|| x.clone());
            outputs.push(layer.forward(below, None, options, places, pass)?);
        }
        Ok(outputs)
    }

    /// Applies the norm after the last block, if there is one.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_model]` → the same.
    pub fn normed(&self, x: Tensor<3>) -> Result<Tensor<3>, NnError> {
        Ok(match &self.norm {
            Some(norm) => norm.forward(x)?,
            None => x,
        })
    }

    /// Returns the output of the last block, normalised in a pre-norm model. New tokens follow those in `caches`, one per block,
    /// if given.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_model]` → the same.
    pub fn forward(
        &self,
        mut x: Tensor<3>,
        caches: Option<Vec<Cached>>,
        options: &AttentionOptions,
        places: &Places,
        pass: &Pass,
    ) -> Result<Tensor<3>, NnError> {
        if let Some(caches) = &caches {
            check_caches(caches.len(), self.layers.len())?;
        }
        let mut caches = caches.into_iter().flatten();
        for layer in &self.layers {
            x = layer.forward(x, caches.next(), options, places, pass)?;
        }
        self.normed(x)
    }
}

/// Builds the norm after the last block of a pre-norm model.
pub(super) fn last_norm(config: &TransformerConfig, init: &Init) -> Result<Option<Norm>, ConfigError> {
    match config.norm_place {
        NormPlace::Post => Ok(None),
        NormPlace::Pre => config.block().norm().init(&init.enter("norm")).map(Some),
    }
}

/// Returns an error if the number of caches differs from the number of blocks.
pub(super) fn check_caches(caches: usize, layers: usize) -> Result<(), NnError> {
    if caches == layers {
        return Ok(());
    }
    Err(NnError::input("caches", format!("{layers}, one per block"), caches.to_string()))
}

/// Output layer, from states to the logits of tokens.
#[derive(Module, Debug)]
pub struct Output {
    /// Weight `[d_model, vocab]` and bias; `None` if the weight is that of the embedding.
    pub linear: Option<Linear>,
    /// Bias `[vocab]`, if the weight is that of the embedding.
    pub bias: Option<Param<Tensor<1>>>,
    scale: f32,
}

impl Output {
    /// Builds the output layer of a Transformer over `vocab` tokens.
    pub fn new(config: &TransformerConfig, vocab: usize, init: &Init) -> Result<Self, ConfigError> {
        let linear = LinearConfig { d_in: config.d_model, d_out: vocab, bias: config.output_bias };
        let scale = match config.output_scale {
            OutputScale::None => 1.0,
            OutputScale::InverseRoot => 1.0 / (config.d_model as f32).sqrt(),
        };
        Ok(Self { scale, ..Self::of(linear, config.output_weights, init)? })
    }

    /// Builds an output layer of the given sizes. If it uses the embedding's weights, only its bias is created.
    pub fn of(config: LinearConfig, weights: OutputWeights, init: &Init) -> Result<Self, ConfigError> {
        Ok(match weights {
            OutputWeights::Own => Self { linear: Some(config.init(init)?), bias: None, scale: 1.0 },
            OutputWeights::Embedding => {
                let bias = (config.bias == Bias::Learned).then(|| init.constant([config.d_out], 0.0));
                Self { linear: None, bias, scale: 1.0 }
            }
        })
    }

    /// Computes the logits at each token.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_model]` → `[batch, seq, vocab]`.
    pub fn logits(&self, x: Tensor<3>, embedding: &Embedding) -> Result<Tensor<3>, OpError> {
        let (weight, bias) = self.parameters(embedding);
        regard_ops::linear(self.scaled(x), weight, bias, None, Precision::F32)
    }

    /// Computes the mean cross-entropy of `targets` without storing all logits.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_model]`, `targets` `[batch, seq]` → `[1]`.
    pub fn loss(
        &self,
        x: Tensor<3>,
        embedding: &Embedding,
        targets: Tensor<2, Int>,
        options: CrossEntropyOptions,
        pass: &Pass,
    ) -> Result<Tensor<1>, OpError> {
        let (weight, bias) = self.parameters(embedding);
        let [batch, seq, d_model] = x.dims();
        if targets.dims() != [batch, seq] {
            let expected = format!("[{batch}, {seq}]");
            return Err(OpError::Shape { what: "targets", expected, got: targets.dims().to_vec() });
        }
        let x = self.scaled(x).reshape([batch * seq, d_model]);
        linear_cross_entropy(x, weight, bias, targets.reshape([batch * seq]), options, pass.precision())
    }

    fn scaled(&self, x: Tensor<3>) -> Tensor<3> {
        if self.scale == 1.0 { x } else { x * self.scale }
    }

    fn parameters(&self, embedding: &Embedding) -> (Tensor<2>, Option<Tensor<1>>) {
        match &self.linear {
            Some(linear) => (linear.weight.val(), linear.bias.as_ref().map(Param::val)),
            None => (embedding.weight.val().transpose(), self.bias.as_ref().map(Param::val)),
        }
    }
}
