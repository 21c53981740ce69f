//! How queries, keys and values lie in the input tensors of an attention operation, and its output in its tensor.

use burn_flex::FlexTensor;
use regard_kernels::attention::{AttentionShape, View, ViewMut};

use crate::fused::{contiguous, elements, sizes};

/// How queries, keys and values are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Three tensors `[batch, heads, seq, d]`.
    Separate,
    /// One tensor `[batch, seq, (n_heads + 2 kv_heads) · d_head]`.
    Packed,
    /// Queries in one tensor `[batch, queries, n_heads · d_head]`, keys and values in another `[batch, keys,
    /// 2 kv_heads · d_head]`.
    Crossed,
}

impl Layout {
    /// Returns the number of inputs that hold queries, keys and values.
    pub(crate) fn operands(self) -> usize {
        match self {
            Layout::Separate => 3,
            Layout::Packed => 1,
            Layout::Crossed => 2,
        }
    }

    /// Returns a tensor of this layout, an operand or the gradient of the output, that the views can read. Where heads are
    /// split or joined by a transposition, Burn passes a transposed tensor, which is read in place.
    pub(crate) fn readable(self, tensor: FlexTensor) -> FlexTensor {
        if self == Layout::Separate { usable(tensor) } else { contiguous(tensor) }
    }

    /// Returns views of queries, keys and values.
    pub(crate) fn views<'a>(self, shape: &AttentionShape, inputs: &'a [FlexTensor]) -> [View<'a>; 3] {
        let AttentionShape { n_heads, kv_heads, queries, keys, d_head, .. } = *shape;
        match self {
            Layout::Separate => [view(&inputs[0]), view(&inputs[1]), view(&inputs[2])],
            Layout::Packed => side_by_side(&inputs[0], keys, [n_heads, kv_heads, kv_heads], d_head),
            Layout::Crossed => {
                let [q] = side_by_side(&inputs[0], queries, [n_heads], d_head);
                let [k, v] = side_by_side(&inputs[1], keys, [kv_heads, kv_heads], d_head);
                [q, k, v]
            }
        }
    }

    /// Returns views of the gradients of queries, keys and values, one buffer for each operand.
    pub(crate) fn views_mut<'a>(self, shape: &AttentionShape, grads: &'a mut [Vec<f32>]) -> [ViewMut<'a>; 3] {
        let AttentionShape { batch, n_heads, kv_heads, queries, keys, d_head, d_value } = *shape;
        match (self, grads) {
            (Layout::Separate, [q, k, v]) => [
                ViewMut::contiguous(q, [batch, n_heads, queries, d_head]),
                ViewMut::contiguous(k, [batch, kv_heads, keys, d_head]),
                ViewMut::contiguous(v, [batch, kv_heads, keys, d_value]),
            ],
            (Layout::Packed, [qkv]) => ViewMut::packed(qkv, keys, [n_heads, kv_heads, kv_heads], d_head),
            (Layout::Crossed, [q, kv]) => {
                let [q] = ViewMut::packed(q, queries, [n_heads], d_head);
                let [k, v] = ViewMut::packed(kv, keys, [kv_heads, kv_heads], d_head);
                [q, k, v]
            }
            _ => unreachable!("the number of operands follows from the layout"),
        }
    }

    /// Returns the shape and the strides of the output.
    pub(crate) fn output(self, shape: &AttentionShape) -> (Vec<usize>, [usize; 3]) {
        let AttentionShape { batch, n_heads, queries, d_value, .. } = *shape;
        match self {
            Layout::Separate => {
                (vec![batch, n_heads, queries, d_value], [n_heads * queries * d_value, queries * d_value, d_value])
            }
            Layout::Packed | Layout::Crossed => {
                (vec![batch, queries, n_heads * d_value], [queries * n_heads * d_value, d_value, n_heads * d_value])
            }
        }
    }

    /// Returns a view of the output or of its gradient.
    pub(crate) fn output_view<'a>(self, shape: &AttentionShape, output: &'a FlexTensor) -> View<'a> {
        match self {
            Layout::Separate => view(output),
            Layout::Packed | Layout::Crossed => {
                let (_, [s0, s1, s2]) = self.output(shape);
                View { data: elements(output), strides: [s0, s1, s2, 1] }
            }
        }
    }
}

/// Returns a tensor that the kernels can read: one without negative strides.
pub(super) fn usable(tensor: FlexTensor) -> FlexTensor {
    if tensor.layout().strides().iter().all(|&stride| stride >= 0) { tensor } else { tensor.to_contiguous() }
}

/// Returns a strided view of a tensor of rank 4. Dimensions of size 1 get stride 0, so that they repeat.
pub(super) fn view(tensor: &FlexTensor) -> View<'_> {
    let layout = tensor.layout();
    let shape: [usize; 4] = sizes(tensor);
    let strides = std::array::from_fn(|d| if shape[d] == 1 { 0 } else { layout.strides()[d].unsigned_abs() });
    let data: &[f32] = tensor.storage();
    View { data: &data[layout.start_offset().min(data.len())..], strides }
}

/// Returns views of groups of heads that lie side by side in a contiguous `[batch, seq, Σ heads · d_head]`.
fn side_by_side<const N: usize>(tensor: &FlexTensor, seq: usize, heads: [usize; N], d_head: usize) -> [View<'_>; N] {
    let (data, row) = (elements(tensor), heads.iter().sum::<usize>() * d_head);
    let mut offset = 0;
    heads.map(|heads| {
        let first = offset;
        offset += heads * d_head;
        View { data: &data[first.min(data.len())..], strides: [seq * row, d_head, row, 1] }
    })
}
