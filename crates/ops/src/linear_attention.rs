//! Linear attention (Katharopoulos et al. 2020): attention without a softmax, in time linear in the sequence length.
//!
//! `o_i = Σ_j (φ(q_i)·φ(k_j)) v_j / D_i`, over all keys or those up to `i`. See [`regard_kernels::linear_attention`] for
//! the choices of `φ` and `D`.

use burn::tensor::activation::relu;
use burn::tensor::{Bool, Device, Tensor, TensorData};
use burn_flex::FlexTensor;
use regard_kernels::attention::{self as kernel, AttentionShape, ViewMut};
use regard_kernels::linear_attention::{
    Direction, FeatureMap, LinearAttentionGradients, LinearAttentionOptions, Normalization, linear_attention_backward,
    linear_attention_forward,
};
use regard_kernels::unwritten;

use crate::attention::layout::Layout;
use crate::attention::{join_heads, packed_shape, separate_shape, split_heads};
use crate::error::{OpError, check_shape};
use crate::fused::{FusedOp, Purpose, apply, is_fused, tensor};

/// Computes the linear attention of every query over the keys that it sees. Where `D_i` is zero, the output and all
/// gradients through it are zero. `lengths` is the number of real keys of each sequence; the rest is padding and has no
/// effect.
///
/// # Shapes
/// `q` `[batch, n_heads, queries, d_head]`, `k` `[batch, kv_heads, keys, d_head]`, `v` `[batch, kv_heads, keys, d_value]`,
/// `lengths` `[batch]` → `[batch, n_heads, queries, d_value]`. Causal attention requires as many queries as keys. `n_heads`
/// is a multiple of `kv_heads`, as in [`attention`](crate::attention()).
pub fn linear_attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    lengths: Option<&[usize]>,
    options: LinearAttentionOptions,
) -> Result<Tensor<4>, OpError> {
    let shape = separate_shape(&q, &k, &v)?;
    if options.direction == Direction::Causal {
        check_shape("keys", k.dims(), [shape.batch, shape.kv_heads, shape.queries, shape.d_head])?;
    }
    check_lengths(lengths, &shape)?;
    if !is_fused(&q) {
        return Ok(linear_attention_fallback(q, k, v, lengths, options));
    }
    let operation = LinearAttention::new(shape, Layout::Separate, lengths, options);
    apply(operation, [q.into_dispatch(), k.into_dispatch(), v.into_dispatch()])
}

/// [`linear_attention`] of a sequence over itself. Queries, keys and values lie side by side in one tensor and are not copied.
///
/// # Shapes
/// `qkv` `[batch, seq, (n_heads + 2 kv_heads) · d_head]` (all queries, then all keys, then all values), `lengths` `[batch]` →
/// `[batch, seq, n_heads · d_head]`.
pub fn linear_attention_packed(
    qkv: Tensor<3>,
    n_heads: usize,
    kv_heads: usize,
    lengths: Option<&[usize]>,
    options: LinearAttentionOptions,
) -> Result<Tensor<3>, OpError> {
    let shape = packed_shape(&qkv, n_heads, kv_heads)?;
    check_lengths(lengths, &shape)?;
    if !is_fused(&qkv) {
        let [q, k, v] = split_heads(qkv, [n_heads, kv_heads, kv_heads], shape.d_head);
        return Ok(join_heads(linear_attention_fallback(q, k, v, lengths, options)));
    }
    apply(LinearAttention::new(shape, Layout::Packed, lengths, options), [qkv.into_dispatch()])
}

/// [`linear_attention`] in plain Burn operations, with a dense matrix of scores and without argument checks.
pub fn linear_attention_fallback(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    lengths: Option<&[usize]>,
    options: LinearAttentionOptions,
) -> Tensor<4> {
    let ([batch, n_heads, queries, _], [.., keys, d_value]) = (q.dims(), v.dims());
    let (hidden, counts) = hidden(lengths, options.direction, [batch, queries, keys], &q.device());
    // Padding is overwritten: a NaN there times a weight of zero would still be NaN.
    let (k, v) = match lengths {
        Some(lengths) => {
            let padding = padding(lengths, keys, &q.device());
            let blank = |x: Tensor<4>| {
                let dims = x.dims();
                x.mask_fill(padding.clone().expand(dims), 0.0)
            };
            (blank(k), blank(v))
        }
        None => (k, v),
    };
    let (k, v) = (repeat_heads(feature_map(k, options.feature_map), n_heads), repeat_heads(v, n_heads));
    let scores = feature_map(q, options.feature_map).matmul(k.swap_dims(2, 3));
    let scores = scores.mask_fill(hidden.expand([batch, n_heads, queries, keys]), 0.0);
    let denominator = match options.normalization {
        Normalization::Sum => scores.clone().sum_dim(3),
        Normalization::Length => counts.expand([batch, n_heads, queries, 1]),
        Normalization::None => return scores.matmul(v),
    };
    // A denominator of 1 in place of 0 avoids NaN in the gradients.
    let empty = denominator.clone().equal_elem(0.0);
    let out = scores.matmul(v) / denominator.mask_fill(empty.clone(), 1.0);
    out.mask_fill(empty.expand([batch, n_heads, queries, d_value]), 0.0)
}

/// Repeats each key head for the query heads that share it, `[batch, kv_heads, seq, width]` → `[batch, n_heads, seq, width]`.
pub fn repeat_heads(x: Tensor<4>, n_heads: usize) -> Tensor<4> {
    let [batch, kv_heads, seq, width] = x.dims();
    match n_heads / kv_heads {
        1 => x,
        group => {
            let x = x.unsqueeze_dim::<5>(2).expand([batch, kv_heads, group, seq, width]);
            x.reshape([batch, n_heads, seq, width])
        }
    }
}

/// Computes the features `φ(x)` of queries or keys. The argument of `exp` is clamped to at most 0: an overflow would reach the gradient as 0 · ∞.
pub fn feature_map(x: Tensor<4>, map: FeatureMap) -> Tensor<4> {
    match map {
        FeatureMap::Identity => x,
        FeatureMap::EluPlusOne => relu(x.clone()) + x.clamp_max(0.0).exp(),
    }
}

/// Returns where a query does not see a key, `[batch, 1, queries, keys]`, and the number of keys that it sees,
/// `[batch, 1, queries, 1]`.
fn hidden(
    lengths: Option<&[usize]>,
    direction: Direction,
    [batch, queries, keys]: [usize; 3],
    device: &Device,
) -> (Tensor<4, Bool>, Tensor<4>) {
    let rows = (0..batch).flat_map(|sequence| (0..queries).map(move |query| (sequence, query)));
    let seen: Vec<usize> = rows
        .map(|(sequence, query)| {
            let length = lengths.map_or(keys, |lengths| lengths[sequence]);
            if direction == Direction::Causal { length.min(query + 1) } else { length }
        })
        .collect();
    let hidden: Vec<bool> = seen.iter().flat_map(|&seen| (0..keys).map(move |key| key >= seen)).collect();
    let counts: Vec<f32> = seen.iter().map(|&seen| seen as f32).collect();
    let hidden = Tensor::from_data(TensorData::new(hidden, [batch, 1, queries, keys]), device);
    (hidden, Tensor::from_data(TensorData::new(counts, [batch, 1, queries, 1]), device))
}

/// Returns where the padding is, `[batch, 1, keys, 1]`.
fn padding(lengths: &[usize], keys: usize, device: &Device) -> Tensor<4, Bool> {
    let padding: Vec<bool> = lengths.iter().flat_map(|&length| (0..keys).map(move |key| key >= length)).collect();
    Tensor::from_data(TensorData::new(padding, [lengths.len(), 1, keys, 1]), device)
}

/// Returns an error if the lengths do not fit the sizes.
fn check_lengths(lengths: Option<&[usize]>, shape: &AttentionShape) -> Result<(), OpError> {
    Ok(kernel::AttentionOptions { lengths, ..kernel::AttentionOptions::default() }.validate(shape)?)
}

/// The fused operation. Its inputs are queries, keys and values in their [`Layout`].
#[derive(Debug, Clone)]
struct LinearAttention {
    shape: AttentionShape,
    layout: Layout,
    lengths: Option<Vec<usize>>,
    options: LinearAttentionOptions,
}

/// Values kept for the backward pass.
#[derive(Debug, Clone)]
struct Saved {
    inputs: Vec<FlexTensor>,
    out: FlexTensor,
    normalizer: Vec<f32>,
}

impl LinearAttention {
    fn new(shape: AttentionShape, layout: Layout, lengths: Option<&[usize]>, options: LinearAttentionOptions) -> Self {
        Self { shape, layout, lengths: lengths.map(<[usize]>::to_vec), options }
    }
}

impl<const N: usize> FusedOp<N> for LinearAttention {
    type Saved = Saved;

    fn forward(&self, inputs: [FlexTensor; N], _: Purpose) -> Result<(FlexTensor, Saved), OpError> {
        let Self { shape, layout, options, .. } = *self;
        let inputs: Vec<FlexTensor> = inputs.into_iter().map(|input| layout.readable(input)).collect();
        let [q, k, v] = layout.views(&shape, &inputs);
        let (size, strides) = layout.output(&shape);
        let mut out = unwritten(size.iter().product());
        let mut normalizer = unwritten(shape.batch * shape.n_heads * shape.queries);
        let view = ViewMut::strided(&mut out, strides);
        linear_attention_forward(shape, options, self.lengths.as_deref(), q, k, v, view, &mut normalizer)?;
        let out = tensor(out, size);
        Ok((out.clone(), Saved { inputs, out, normalizer }))
    }

    fn backward(&self, saved: Saved, grad: FlexTensor, _: [bool; N]) -> Result<[Option<FlexTensor>; N], OpError> {
        let Self { shape, layout, options, .. } = *self;
        let Saved { inputs, out, normalizer } = saved;
        let [q, k, v] = layout.views(&shape, &inputs);
        let grad = layout.readable(grad);
        let [out, grad] = [&out, &grad].map(|tensor| layout.output_view(&shape, tensor));
        let mut grads: Vec<Vec<f32>> = inputs.iter().map(|input| unwritten(input.layout().num_elements())).collect();
        let [grad_q, grad_k, grad_v] = layout.views_mut(&shape, &mut grads);
        let views = LinearAttentionGradients { q: grad_q, k: grad_k, v: grad_v };
        linear_attention_backward(shape, options, self.lengths.as_deref(), q, k, v, out, &normalizer, grad, views)?;
        let mut grads = grads.into_iter().zip(&inputs);
        Ok(std::array::from_fn(|_| grads.next().map(|(data, input)| tensor(data, input.layout().shape().clone()))))
    }
}
