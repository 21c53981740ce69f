//! Fused scaled dot-product attention with masks, biases, dropout and grouped key heads.
//!
//! `softmax(scale · Q Kᵀ + bias) V`, in memory linear in the sequence length; see [`regard_kernels::attention`] for the
//! formulas. A query that may see no key outputs zeros; a query that sees a NaN outputs NaN.

mod fallback;
mod fused;
pub(crate) mod layout;
mod options;

use std::ops::Range;

use burn::tensor::Tensor;
use regard_kernels::attention::AttentionShape;

pub use fallback::attention_fallback;
pub use options::{AttentionOptions, Distance, Mask, SparseRows};

use crate::error::{OpError, check_shape};
use crate::fused::{apply, check_f32, is_fused};
use fused::Operation;
use layout::Layout;

/// Calls [`apply`] on an operation with its operands, followed by the learned bias and distance table if present.
macro_rules! apply_with {
    ($operation:expr, $options:expr, $($operand:expr),+) => {{
        let bias = $options.bias.clone().map(Tensor::into_dispatch);
        let table = $options.distance.table().map(Tensor::into_dispatch);
        match (bias, table) {
            (None, None) => apply($operation, [$($operand.into_dispatch()),+]),
            (Some(learned), None) | (None, Some(learned)) => apply($operation, [$($operand.into_dispatch(),)+ learned]),
            (Some(bias), Some(table)) => apply($operation, [$($operand.into_dispatch(),)+ bias, table]),
        }
    }};
}

/// Computes the attention of every query over the keys that it may see.
///
/// # Shapes
/// `q` `[batch, n_heads, queries, d_head]`, `k` `[batch, kv_heads, keys, d_head]`, `v` `[batch, kv_heads, keys,
/// d_value]` → `[batch, n_heads, queries, d_value]`. `n_heads` is a multiple of `kv_heads`; query head `h` uses key
/// head `h / (n_heads / kv_heads)`.
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use regard_ops::{AttentionOptions, Mask, attention};
///
/// let device = Device::flex().autodiff();
/// let q = Tensor::<4>::random([2, 4, 10, 8], Distribution::Default, &device).require_grad();
/// let options = AttentionOptions { mask: Mask::Causal, ..AttentionOptions::default() };
/// let y = attention(q.clone(), q.clone(), q.clone(), &options)?;
/// assert_eq!(y.dims(), [2, 4, 10, 8]);
/// let gradients = y.sum().backward();
/// assert!(q.grad(&gradients).is_some());
/// # Ok::<(), regard_ops::OpError>(())
/// ```
pub fn attention(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, options: &AttentionOptions) -> Result<Tensor<4>, OpError> {
    let shape = check(&q, &k, &v, options)?;
    if !is_fused(&q) {
        return Ok(attention_fallback(q, k, v, options));
    }
    let operation = Operation::new(shape, Layout::Separate, options)?;
    apply_with!(operation, options, q, k, v)
}

/// [`attention`] of a sequence over itself. Queries, keys and values lie side by side in one tensor and are not copied.
///
/// # Shapes
/// `qkv` `[batch, seq, (n_heads + 2 kv_heads) · d_head]` (all queries, then all keys, then all values) →
/// `[batch, seq, n_heads · d_head]`.
pub fn attention_packed(
    qkv: Tensor<3>,
    n_heads: usize,
    kv_heads: usize,
    options: &AttentionOptions,
) -> Result<Tensor<3>, OpError> {
    let shape = packed_shape(&qkv, n_heads, kv_heads)?;
    options.check(&shape)?;
    if !is_fused(&qkv) {
        let [q, k, v] = split_heads(qkv, [n_heads, kv_heads, kv_heads], shape.d_head);
        return Ok(join_heads(attention_fallback(q, k, v, options)));
    }
    let operation = Operation::new(shape, Layout::Packed, options)?;
    apply_with!(operation, options, qkv)
}

/// [`attention`] of one sequence over another. Keys and values lie side by side in one tensor and are not copied.
///
/// # Shapes
/// `q` `[batch, queries, n_heads · d_head]`, `kv` `[batch, keys, 2 kv_heads · d_head]` (all keys, then all values) →
/// `[batch, queries, n_heads · d_head]`.
pub fn attention_crossed(
    q: Tensor<3>,
    kv: Tensor<3>,
    n_heads: usize,
    kv_heads: usize,
    options: &AttentionOptions,
) -> Result<Tensor<3>, OpError> {
    check_f32("queries", &q)?;
    check_f32("keys and values", &kv)?;
    check_heads(n_heads, kv_heads)?;
    let ([batch, queries, width], keys) = (q.dims(), kv.dims()[1]);
    if !width.is_multiple_of(n_heads) {
        let expected = format!("[batch, queries, {n_heads} · d_head]");
        return Err(OpError::Shape { what: "queries", expected, got: q.dims().to_vec() });
    }
    let d_head = width / n_heads;
    check_shape("keys and values", kv.dims(), [batch, keys, kv_heads.saturating_mul(2).saturating_mul(d_head)])?;
    let shape = AttentionShape { batch, n_heads, kv_heads, queries, keys, d_head, d_value: d_head };
    options.check(&shape)?;
    if !is_fused(&q) {
        let ([q], [k, v]) = (split_heads(q, [n_heads], d_head), split_heads(kv, [kv_heads, kv_heads], d_head));
        return Ok(join_heads(attention_fallback(q, k, v, options)));
    }
    let operation = Operation::new(shape, Layout::Crossed, options)?;
    apply_with!(operation, options, q, kv)
}

/// Splits groups of heads that lie side by side, without a copy.
///
/// # Shapes
/// `packed` `[batch, seq, Σ heads · d_head]` → `[batch, heads, seq, d_head]` for each number in `heads`.
pub fn split_heads<const N: usize>(packed: Tensor<3>, heads: [usize; N], d_head: usize) -> [Tensor<4>; N] {
    let [batch, seq, _] = packed.dims();
    let parts = packed.reshape([batch, seq, heads.iter().sum(), d_head]).swap_dims(1, 2);
    let mut first = 0;
    heads.map(|heads| {
        first += heads;
        if N == 1 { parts.clone() } else { parts.clone().narrow(1, first - heads, heads) }
    })
}

/// Joins heads side by side.
///
/// # Shapes
/// `[batch, n_heads, seq, d_head]` → `[batch, seq, n_heads · d_head]`.
pub fn join_heads(heads: Tensor<4>) -> Tensor<3> {
    let [batch, n_heads, seq, d_head] = heads.dims();
    heads.swap_dims(1, 2).reshape([batch, seq, n_heads * d_head])
}

/// Computes the weights that the queries `rows` of one head of one sequence give to all keys, before dropout.
///
/// The weights are computed anew, since [`attention`] does not store them. No gradient flows through them.
///
/// # Shapes
/// `q` and `k` as in [`attention`] → `[rows.len(), keys]`.
pub fn attention_weights(
    q: Tensor<4>,
    k: Tensor<4>,
    options: &AttentionOptions,
    (batch, head): (usize, usize),
    rows: Range<usize>,
) -> Result<Tensor<2>, OpError> {
    let shape = check(&q, &k, &k, options)?;
    if batch >= shape.batch || head >= shape.n_heads || rows.start > rows.end || rows.end > shape.queries {
        let AttentionShape { batch: sequences, n_heads, queries, .. } = shape;
        let why = format!("expected within [{sequences}, {n_heads}, {queries}], got [{batch}, {head}, {rows:?}]");
        return Err(OpError::Option { what: "[batch, head, rows] of attention weights", why });
    }
    if !is_fused(&q) {
        let weights =
            fallback::weights(q, k, options).slice([batch..batch + 1, head..head + 1, rows.clone(), 0..shape.keys]);
        return Ok(weights.reshape([rows.len(), shape.keys]));
    }
    fused::weights(shape, q, k, options, (batch, head), rows)
}

/// Checks the arguments of [`attention`] and returns their sizes.
fn check(q: &Tensor<4>, k: &Tensor<4>, v: &Tensor<4>, options: &AttentionOptions) -> Result<AttentionShape, OpError> {
    let shape = separate_shape(q, k, v)?;
    options.check(&shape)?;
    Ok(shape)
}

/// Checks that queries, keys and values fit together and returns their sizes.
pub(crate) fn separate_shape(q: &Tensor<4>, k: &Tensor<4>, v: &Tensor<4>) -> Result<AttentionShape, OpError> {
    check_f32("queries", q)?;
    check_f32("keys", k)?;
    check_f32("values", v)?;
    let [batch, n_heads, queries, d_head] = q.dims();
    let [_, kv_heads, keys, _] = k.dims();
    let d_value = v.dims()[3];
    check_shape("keys", k.dims(), [batch, kv_heads, keys, d_head])?;
    check_shape("values", v.dims(), [batch, kv_heads, keys, d_value])?;
    check_heads(n_heads, kv_heads)?;
    Ok(AttentionShape { batch, n_heads, kv_heads, queries, keys, d_head, d_value })
}

/// Checks queries, keys and values that lie side by side and returns their sizes.
pub(crate) fn packed_shape(qkv: &Tensor<3>, n_heads: usize, kv_heads: usize) -> Result<AttentionShape, OpError> {
    check_f32("queries, keys and values", qkv)?;
    let [batch, seq, width] = qkv.dims();
    check_heads(n_heads, kv_heads)?;
    let heads = kv_heads.saturating_mul(2).saturating_add(n_heads);
    if !width.is_multiple_of(heads) {
        let expected = format!("[batch, seq, ({n_heads} + 2·{kv_heads}) · d_head]");
        return Err(OpError::Shape { what: "queries, keys and values", expected, got: vec![batch, seq, width] });
    }
    let d_head = width / heads;
    Ok(AttentionShape { batch, n_heads, kv_heads, queries: seq, keys: seq, d_head, d_value: d_head })
}

/// Returns an error unless the query heads can share the key heads evenly.
fn check_heads(n_heads: usize, kv_heads: usize) -> Result<(), OpError> {
    if n_heads == 0 || kv_heads == 0 || !n_heads.is_multiple_of(kv_heads) {
        let why = format!("expected a positive multiple of kv_heads = {kv_heads}, got {n_heads}");
        return Err(OpError::Option { what: "n_heads", why });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};

    use super::*;

    #[test]
    fn packed_heads_are_split_and_joined() {
        let numbers: Vec<f32> = (0..2 * 3 * 12).map(|n| n as f32).collect();
        let packed = Tensor::<3>::from_data(TensorData::new(numbers.clone(), [2, 3, 12]), &Device::flex());
        let [q, k, v] = split_heads(packed.clone(), [2, 1, 1], 3);
        assert_eq!((q.dims(), k.dims(), v.dims()), ([2, 2, 3, 3], [2, 1, 3, 3], [2, 1, 3, 3]));
        // Sequence 1, token 2: the keys are features 6 to 8 of the 12 in its row.
        let row = k.slice([1..2, 0..1, 2..3, 0..3]).into_data().iter::<f32>().collect::<Vec<_>>();
        assert_eq!(row, numbers[5 * 12 + 6..5 * 12 + 9]);
        let [all] = split_heads(packed, [4], 3);
        assert_eq!(join_heads(all).into_data().iter::<f32>().collect::<Vec<_>>(), numbers);
    }
}
