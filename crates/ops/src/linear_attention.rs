//! Linear attention (Katharopoulos et al. 2020): attention without a softmax, in time linear in the sequence length.
//!
//! `o_i = Σ_j (φ(q_i)·φ(k_j)) v_j / D_i`, over all keys or those up to `i`. See [`regard_kernels::linear_attention`] for
//! the choices of `φ` and `D`.

use burn::tensor::activation::relu;
use burn::tensor::{DType, Tensor, TensorData};
use burn_flex::FlexTensor;
use regard_kernels::linear_attention::{
    Direction, FeatureMap, LinearAttentionOptions, LinearAttentionShape, Normalization, linear_attention_backward,
    linear_attention_forward,
};
use regard_kernels::unwritten;

use crate::error::{OpError, check_shape};
use crate::fused::{FusedOp, Purpose, apply, check_f32, contiguous, elements, is_fused, sizes, tensor};

/// Computes the linear attention of every query over the keys that it sees. Where `D_i` is zero, the output and all
/// gradients through it are zero.
///
/// # Shapes
/// `q` `[batch, n_heads, queries, d_key]`, `k` `[batch, n_heads, keys, d_key]`, `v` `[batch, n_heads, keys, d_value]` →
/// `[batch, n_heads, queries, d_value]`. Causal attention requires as many queries as keys.
pub fn linear_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    options: LinearAttentionOptions,
) -> Result<Tensor<4>, OpError> {
    let shape = check(&q, &k, &v, options)?;
    if !is_fused(&q) {
        return Ok(linear_attention_fallback(q, k, v, options));
    }
    apply(LinearAttention { shape, options }, [q.into_dispatch(), k.into_dispatch(), v.into_dispatch()])
}

/// [`linear_attention`] in plain Burn operations, with a dense matrix of scores and without argument checks.
pub fn linear_attention_fallback(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    options: LinearAttentionOptions,
) -> Tensor<4> {
    let [.., queries, _] = q.dims();
    let [batch, n_heads, keys, d_value] = v.dims();
    let device = q.device();
    let scores = feature_map(q, options.feature_map).matmul(feature_map(k, options.feature_map).swap_dims(2, 3));
    let scores = match options.direction {
        Direction::Bidirectional => scores,
        Direction::Causal => scores.tril(0),
    };
    let denominator = match options.normalization {
        Normalization::Sum => scores.clone().sum_dim(3),
        Normalization::Length => {
            let seen = |query: usize| match options.direction {
                Direction::Bidirectional => keys as f32,
                Direction::Causal => (query + 1) as f32,
            };
            let seen = TensorData::new((0..queries).map(seen).collect(), [1, 1, queries, 1]);
            Tensor::<4>::from_data(seen, (&device, DType::F32)).expand([batch, n_heads, queries, 1])
        }
        Normalization::None => return scores.matmul(v),
    };
    // A denominator of 1 in place of 0 avoids NaN in the gradients.
    let empty = denominator.clone().equal_elem(0.0);
    let out = scores.matmul(v) / denominator.mask_fill(empty.clone(), 1.0);
    out.mask_fill(empty.expand([batch, n_heads, queries, d_value]), 0.0)
}

/// Computes the features `φ(x)` of queries or keys. The argument of `exp` is clamped to at most 0: an overflow would reach the gradient as 0 · ∞.
pub fn feature_map(x: Tensor<4>, map: FeatureMap) -> Tensor<4> {
    match map {
        FeatureMap::Identity => x,
        FeatureMap::EluPlusOne => relu(x.clone()) + x.clamp_max(0.0).exp(),
    }
}

/// Checks the arguments and returns their sizes.
fn check(
    q: &Tensor<4>,
    k: &Tensor<4>,
    v: &Tensor<4>,
    options: LinearAttentionOptions,
) -> Result<LinearAttentionShape, OpError> {
    check_f32("queries", q)?;
    check_f32("keys", k)?;
    check_f32("values", v)?;
    let [batch, n_heads, queries, d_key] = q.dims();
    let keys = match options.direction {
        Direction::Bidirectional => k.dims()[2],
        Direction::Causal => queries,
    };
    let d_value = v.dims()[3];
    check_shape("keys", k.dims(), [batch, n_heads, keys, d_key])?;
    check_shape("values", v.dims(), [batch, n_heads, keys, d_value])?;
    Ok(LinearAttentionShape { outer: batch * n_heads, queries, keys, d_key, d_value })
}

/// The fused operation. Its inputs are queries, keys and values.
#[derive(Debug, Clone)]
struct LinearAttention {
    shape: LinearAttentionShape,
    options: LinearAttentionOptions,
}

#[derive(Debug, Clone)]
struct Saved {
    inputs: [FlexTensor; 3],
    out: FlexTensor,
    normalizer: Vec<f32>,
}

impl FusedOp<3> for LinearAttention {
    type Saved = Saved;

    fn forward(&self, inputs: [FlexTensor; 3], _: Purpose) -> Result<(FlexTensor, Saved), OpError> {
        let LinearAttentionShape { outer, queries, d_value, .. } = self.shape;
        let inputs = inputs.map(contiguous);
        let [q, k, v] = inputs.each_ref().map(elements);
        let (mut out, mut normalizer) = (unwritten(outer * queries * d_value), unwritten(outer * queries));
        linear_attention_forward(self.shape, self.options, q, k, v, &mut out, &mut normalizer)?;
        let [batch, n_heads, ..] = sizes::<4>(&inputs[0]);
        let out = tensor(out, [batch, n_heads, queries, d_value]);
        Ok((out.clone(), Saved { inputs, out, normalizer }))
    }

    fn backward(&self, saved: Saved, grad: FlexTensor, _: [bool; 3]) -> Result<[Option<FlexTensor>; 3], OpError> {
        let Saved { inputs, out, normalizer } = saved;
        let [q, k, v] = inputs.each_ref().map(elements);
        let grad = contiguous(grad);
        let mut grads = [q, k, v].map(|input| unwritten(input.len()));
        let [grad_q, grad_k, grad_v] = &mut grads;
        linear_attention_backward(
            self.shape,
            self.options,
            q,
            k,
            v,
            elements(&out),
            &normalizer,
            elements(&grad),
            grad_q,
            grad_k,
            grad_v,
        )?;
        let [grad_q, grad_k, grad_v] = grads;
        let [q, k, v] = inputs.each_ref().map(sizes::<4>);
        Ok([Some(tensor(grad_q, q)), Some(tensor(grad_k, k)), Some(tensor(grad_v, v))])
    }
}
