//! Linear attention over heads, for all layers that use it: whole sequences, and tokens that follow a running state.

use std::ops::Range;

use burn::tensor::{Tensor, TensorData};
use regard_ops::{
    AttentionOptions, Direction, LinearAttentionOptions, Mask, Normalization, feature_map, linear_attention,
    repeat_heads,
};

use super::check::{Size, check_input};
use crate::error::{ConfigError, NnError};
use crate::heads::{Heads, uniform};
use crate::pass::Pass;

/// State of causal attention after some tokens. Its size does not depend on their number.
#[derive(Debug, Clone)]
pub struct LinearAttentionState {
    /// `Σ_j φ(k_j) v_jᵀ`, `[batch, kv_heads, d_head, d_value]`.
    pub products: Tensor<4>,
    /// `Σ_j φ(k_j)`, `[batch, kv_heads, 1, d_head]`.
    pub keys: Tensor<4>,
    /// `Σ_j v_j`, `[batch, kv_heads, 1, d_value]`.
    pub values: Tensor<4>,
    /// Number of tokens so far.
    pub count: usize,
}

impl LinearAttentionState {
    /// Applies `change` to the three sums.
    pub(super) fn map(self, change: impl Fn(Tensor<4>) -> Tensor<4>) -> Self {
        let Self { products, keys, values, count } = self;
        Self { products: change(products), keys: change(keys), values: change(values), count }
    }

    /// Adds the sums of further tokens.
    fn add(self, new: Self) -> Result<Self, NnError> {
        check_input("state products", &self.products, new.products.dims().map(Size::Is))?;
        check_input("state keys", &self.keys, new.keys.dims().map(Size::Is))?;
        check_input("state values", &self.values, new.values.dims().map(Size::Is))?;
        Ok(Self {
            products: self.products + new.products,
            keys: self.keys + new.keys,
            values: self.values + new.values,
            count: self.count + new.count,
        })
    }
}

/// Linear attention with the heads of a layer, which capture and replace its results.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinearHeads<'a> {
    pub heads: &'a Heads,
    pub options: LinearAttentionOptions,
}

impl LinearHeads<'_> {
    /// Computes attention over whole sequences with the capture and ablation of the pass.
    ///
    /// # Shapes
    /// The shapes of [`linear_attention`].
    pub fn attend(
        &self,
        q: Tensor<4>,
        k: Tensor<4>,
        v: Tensor<4>,
        lengths: Option<&[usize]>,
        pass: &Pass,
    ) -> Result<Tensor<4>, NnError> {
        self.capture(&q, &k, lengths, pass)?;
        let (n_heads, queries) = (q.dims()[1], q.dims()[2]);
        let mixed = linear_attention(q, k, v.clone(), lengths, self.options)?;
        if !self.heads.needs_outputs(pass) {
            return Ok(mixed);
        }
        self.heads.ablate(mixed, &v, || uniform(&v, n_heads, queries, &self.seen(lengths)), pass)
    }

    /// Computes attention for tokens that follow those of `state`, and the state after them. Together with the earlier tokens
    /// they get the same outputs as from [`attend`](Self::attend). A capture gets no weights, because the state does not keep
    /// individual keys.
    ///
    /// # Shapes
    /// The shapes of [`linear_attention`], with the new tokens as queries and keys.
    pub fn attend_after(
        &self,
        state: Option<LinearAttentionState>,
        q: Tensor<4>,
        k: Tensor<4>,
        v: Tensor<4>,
        pass: &Pass,
    ) -> Result<(Tensor<4>, LinearAttentionState), NnError> {
        if self.options.direction != Direction::Causal {
            return Err(ConfigError::new("direction", "bidirectional", "causal, to go token by token").into());
        }
        let ([_, n_heads, new, _], features) = (q.dims(), feature_map(k.clone(), self.options.feature_map));
        let added = LinearAttentionState {
            products: features.clone().swap_dims(2, 3).matmul(v.clone()),
            keys: features.sum_dim(2),
            values: v.clone().sum_dim(2),
            count: new,
        };
        let Some(past) = state else {
            let mixed = linear_attention(q, k, v.clone(), None, self.options)?;
            let equal = || uniform(&v, n_heads, new, &self.seen(None));
            let mixed = if self.heads.needs_outputs(pass) { self.heads.ablate(mixed, &v, equal, pass)? } else { mixed };
            return Ok((mixed, added));
        };
        let next = past.clone().add(added)?;
        let mixed = self.after(&past, q, k, v.clone())?;
        if !self.heads.needs_outputs(pass) {
            return Ok((mixed, next));
        }
        let equal = || {
            let [seen, all] = [0, past.count].map(|before| counts(before, new, &v));
            let group = |x: Tensor<4>| repeat_heads(x, n_heads);
            Ok((uniform(&v, n_heads, new, &self.seen(None))? * seen + group(past.values.clone())) / all)
        };
        Ok((self.heads.ablate(mixed, &v, equal, pass)?, next))
    }

    /// Computes the outputs of tokens that follow those of `past`.
    fn after(
        &self,
        past: &LinearAttentionState,
        q: Tensor<4>,
        k: Tensor<4>,
        v: Tensor<4>,
    ) -> Result<Tensor<4>, NnError> {
        let [batch, n_heads, new, d_head] = q.dims();
        let kv_heads = k.dims()[1];
        let features = feature_map(q.clone(), self.options.feature_map);
        // Query heads that share a key head are read as more queries of that head.
        let features = features.reshape([batch, kv_heads, n_heads / kv_heads * new, d_head]);
        let undivided = LinearAttentionOptions { normalization: Normalization::None, ..self.options };
        let sum = |v: Tensor<4>, past: Tensor<4>| {
            let width = v.dims()[3];
            let before = features.clone().matmul(past).reshape([batch, n_heads, new, width]);
            Ok::<_, NnError>(linear_attention(q.clone(), k.clone(), v, None, undivided)? + before)
        };
        let numerator = sum(v.clone(), past.products.clone())?;
        Ok(match self.options.normalization {
            Normalization::None => numerator,
            Normalization::Length => numerator / counts(past.count, new, &v),
            Normalization::Sum => {
                let ones = v.clone().narrow(3, 0, 1).ones_like();
                let denominator = sum(ones, past.keys.clone().swap_dims(2, 3))?;
                let (empty, dims) = (denominator.clone().equal_elem(0.0), numerator.dims());
                (numerator / denominator.mask_fill(empty.clone(), 1.0)).mask_fill(empty.expand(dims), 0.0)
            }
        })
    }

    /// Captures the weights of whole sequences if the pass asks for them.
    pub fn capture(&self, q: &Tensor<4>, k: &Tensor<4>, lengths: Option<&[usize]>, pass: &Pass) -> Result<(), NnError> {
        let ([batch, n_heads, queries, _], keys) = (q.dims(), k.dims()[2]);
        self.heads.record([batch, n_heads, queries, keys], &self.seen(lengths), 0, pass, |sequence, head, rows| {
            Ok(self.weights(q, k, lengths, (sequence, head), rows))
        })
    }

    /// Computes the weights that the queries `rows` of one head give to each key, row by row.
    fn weights(
        &self,
        q: &Tensor<4>,
        k: &Tensor<4>,
        lengths: Option<&[usize]>,
        (sequence, head): (usize, usize),
        rows: Range<usize>,
    ) -> Vec<f32> {
        let ([_, n_heads, ..], [_, kv_heads, keys, d_head]) = (q.dims(), k.dims());
        let part = |x: &Tensor<4>, head: usize, rows: Range<usize>| {
            let part = x.clone().slice([sequence..sequence + 1, head..head + 1, rows, 0..d_head]);
            feature_map(part, self.options.feature_map)
        };
        let keys_of = part(k, head * kv_heads / n_heads, 0..keys);
        let scores = part(q, head, rows.clone()).matmul(keys_of.swap_dims(2, 3)).into_data();
        let mut weights: Vec<f32> = scores.iter().collect();
        let length = lengths.map_or(keys, |lengths| lengths[sequence]);
        for (query, row) in rows.zip(weights.chunks_exact_mut(keys)) {
            let seen = match self.options.direction {
                Direction::Bidirectional => length,
                Direction::Causal => length.min(query + 1),
            };
            row[seen..].fill(0.0);
            let divisor = match self.options.normalization {
                Normalization::None => 1.0,
                Normalization::Length => seen as f32,
                Normalization::Sum => row.iter().sum(),
            };
            // A query whose products sum to zero has weights of zero.
            row.iter_mut().for_each(|weight| *weight = if divisor == 0.0 { 0.0 } else { *weight / divisor });
        }
        weights
    }

    /// Returns the keys that a query sees, as attention options.
    fn seen(&self, lengths: Option<&[usize]>) -> AttentionOptions {
        let mask = match self.options.direction {
            Direction::Bidirectional => Mask::Full,
            Direction::Causal => Mask::Causal,
        };
        AttentionOptions { mask, lengths: lengths.map(<[usize]>::to_vec), ..AttentionOptions::default() }
    }
}

/// Returns the numbers of tokens that each of `new` tokens sees after `before` others, `[1, 1, new, 1]`.
fn counts(before: usize, new: usize, like: &Tensor<4>) -> Tensor<4> {
    let counts: Vec<f32> = (1..=new).map(|n| (before + n) as f32).collect();
    Tensor::from_data(TensorData::new(counts, [1, 1, new, 1]), &like.device())
}
