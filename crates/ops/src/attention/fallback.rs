//! Attention in plain Burn operations, with a dense matrix of scores, for other backends and for tests.

use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Device, Tensor, TensorData};
use regard_kernels::attention::{AttentionShape, alibi_distances, dropout_decisions};

use super::options::{AttentionOptions, Distance, Mask};

/// [`attention`](super::attention) in plain Burn operations, without its argument checks.
pub fn attention_fallback(q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, options: &AttentionOptions) -> Tensor<4> {
    let [batch, n_heads, queries, _] = q.dims();
    let [_, kv_heads, keys, d_value] = v.dims();
    let device = q.device();
    // Burn panics when a tensor is expanded to a size of 0.
    if [batch, n_heads, queries, keys, d_value].contains(&0) {
        return Tensor::zeros([batch, n_heads, queries, d_value], &device);
    }
    let mut weights = weights(q, k, options);
    if let Some(dropout) = options.dropout {
        let kept = dropout_decisions(dropout.probability, dropout.seed, batch * n_heads * queries, keys);
        let kept = floats(kept, [batch, n_heads, queries, keys], &device);
        weights = weights * kept;
    }
    weights.matmul(repeat_heads(v, [batch, kv_heads, keys, d_value], n_heads))
}

/// Computes the weights before dropout, `[batch, n_heads, queries, keys]`.
pub(super) fn weights(q: Tensor<4>, k: Tensor<4>, options: &AttentionOptions) -> Tensor<4> {
    let [batch, n_heads, queries, d_head] = q.dims();
    let [_, kv_heads, keys, _] = k.dims();
    let shape = AttentionShape { batch, n_heads, kv_heads, queries, keys, d_head, d_value: d_head };
    let device = q.device();
    let k = repeat_heads(k, [batch, kv_heads, keys, d_head], n_heads);
    let mut scores = q.matmul(k.swap_dims(2, 3)) * options.scale_for(&shape);
    if let Some(bias) = &options.bias {
        scores = scores + bias.clone();
    }
    scores = match &options.distance {
        Distance::None => scores,
        Distance::Alibi { slopes } => {
            let distances = alibi_distances(slopes, queries, keys);
            let columns = (queries + keys).saturating_sub(1);
            let dense =
                by_distance(&shape, |h, distance| distances[h * columns + (distance + keys as isize - 1) as usize]);
            scores + floats(dense, [1, n_heads, queries, keys], &device)
        }
        Distance::Relative { table } => scores + relative(table.clone(), &shape),
    };
    // A bias of −∞ also hides a key.
    let hidden = hidden(&shape, options, &device).bool_or(scores.clone().equal_elem(f32::NEG_INFINITY));
    // With −∞, a row that sees no key would be NaN. A finite stand-in avoids that; its weights are then set to zero.
    let weights = softmax(scores.mask_fill(hidden.clone(), -1e30), 3);
    weights.mask_fill(hidden, 0.0)
}

/// Returns a mask that is true where a query may not see a key, `[batch, n_heads, queries, keys]`.
fn hidden(shape: &AttentionShape, options: &AttentionOptions, device: &Device) -> Tensor<4, Bool> {
    let AttentionShape { batch, n_heads, queries, keys, .. } = *shape;
    let mut visible = Vec::with_capacity(batch * queries * keys);
    for b in 0..batch {
        let length = options.lengths.as_ref().map_or(keys, |lengths| lengths[b]);
        for i in 0..queries {
            let listed = options.sparse.as_ref().map(|s| &s.columns[s.offsets[i]..s.offsets[i + 1]]);
            for j in 0..keys {
                let distance = j as isize - (i as isize + keys as isize - queries as isize);
                let near = match options.mask {
                    Mask::Full => true,
                    Mask::Causal => distance <= 0,
                    Mask::Window { left, .. } if distance <= 0 => distance.unsigned_abs() <= left,
                    Mask::Window { right, .. } => distance.unsigned_abs() <= right,
                };
                visible.push(near && j < length && listed.is_none_or(|listed| listed.binary_search(&j).is_ok()));
            }
        }
    }
    let hidden = visible.into_iter().map(|visible| !visible).collect();
    let hidden: TensorData = TensorData::new::<bool, _>(hidden, [batch, 1, queries, keys]);
    let hidden = Tensor::<4, Bool>::from_data(hidden, &device.clone().without_autodiff());
    let hidden = match &options.allowed {
        None => hidden,
        Some(allowed) => {
            let full = [batch, n_heads, queries, keys];
            hidden.expand(full).bool_or(allowed.clone().bool_not().expand(full))
        }
    };
    hidden.expand([batch, n_heads, queries, keys])
}

/// Expands a learned table of clipped distances to a dense bias `[1, n_heads, queries, keys]`.
fn relative(table: Tensor<2>, shape: &AttentionShape) -> Tensor<4> {
    let [n_heads, width] = table.dims();
    let max = (width / 2) as isize;
    let single = AttentionShape { n_heads: 1, ..*shape };
    let index = by_distance(&single, |_, distance| (distance.clamp(-max, max) + max) as i64);
    let size = shape.queries * shape.keys;
    let index = Tensor::from_data(TensorData::new(index, [size]), &table.device().without_autodiff());
    table.select(1, index).reshape([1, n_heads, shape.queries, shape.keys])
}

/// Evaluates `f(head, distance)` for all of `[n_heads, queries, keys]`.
fn by_distance<T>(shape: &AttentionShape, f: impl Fn(usize, isize) -> T) -> Vec<T> {
    let AttentionShape { n_heads, queries, keys, .. } = *shape;
    let mut out = Vec::with_capacity(n_heads * queries * keys);
    for h in 0..n_heads {
        for i in 0..queries {
            let position = i as isize + keys as isize - queries as isize;
            out.extend((0..keys).map(|j| f(h, j as isize - position)));
        }
    }
    out
}

/// Repeats the heads of keys or values so that each query head has its own.
fn repeat_heads(x: Tensor<4>, [batch, kv_heads, keys, d]: [usize; 4], n_heads: usize) -> Tensor<4> {
    if kv_heads == n_heads {
        return x;
    }
    let group = n_heads / kv_heads;
    x.reshape([batch, kv_heads, 1, keys, d])
        .expand([batch, kv_heads, group, keys, d])
        .reshape([batch, n_heads, keys, d])
}

fn floats(data: Vec<f32>, shape: [usize; 4], device: &Device) -> Tensor<4> {
    Tensor::from_data(TensorData::new(data, shape), device)
}
