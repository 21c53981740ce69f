//! Attention on Flex: passes tensors to the kernels as strided views and returns the gradients as tensors.

use std::ops::Range;
use std::sync::Arc;

use burn::backend::{BackendTensor, DispatchTensorKind};
use burn::tensor::{Bool, Tensor};
use burn_flex::FlexTensor;
use regard_kernels::attention::{
    self as kernel, AttentionGradients, AttentionShape, BooleanMask, ViewMut, alibi_distances, relative_distances,
    relative_distances_backward,
};
use regard_kernels::unwritten;

use super::layout::{Layout, usable, view};
use super::options::{AttentionOptions, Distance};
use crate::error::OpError;
use crate::fused::{FusedOp, Purpose, contiguous, elements, host, sizes, tensor};

/// One attention call. Its inputs are queries, keys and values in their [`Layout`], then optionally the bias and the table.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    shape: AttentionShape,
    layout: Layout,
    scale: f32,
    band: kernel::Band,
    lengths: Option<Arc<Vec<usize>>>,
    allowed: Option<(FlexTensor, [usize; 4])>,
    sparse: Option<super::SparseRows>,
    /// Expanded biases of ALiBi. Biases of a relative table are expanded from its tensor instead.
    alibi: Option<Arc<Vec<f32>>>,
    dropout: Option<kernel::Dropout>,
    has_bias: bool,
    has_table: bool,
}

/// Values kept for the backward pass.
#[derive(Debug, Clone)]
pub(super) struct Saved {
    inputs: Vec<FlexTensor>,
    out: FlexTensor,
    log_sum_exp: Arc<Vec<f32>>,
}

impl Operation {
    pub(super) fn new(shape: AttentionShape, layout: Layout, options: &AttentionOptions) -> Result<Self, OpError> {
        let alibi = match &options.distance {
            Distance::Alibi { slopes } => Some(Arc::new(alibi_distances(slopes, shape.queries, shape.keys))),
            Distance::None | Distance::Relative { .. } => None,
        };
        Ok(Self {
            shape,
            layout,
            scale: options.scale_for(&shape),
            band: options.mask.band(),
            lengths: options.lengths.clone().map(Arc::new),
            allowed: options.allowed.clone().map(boolean).transpose()?,
            sparse: options.sparse.clone(),
            alibi,
            dropout: options.dropout,
            has_bias: options.bias.is_some(),
            has_table: matches!(options.distance, Distance::Relative { .. }),
        })
    }

    fn bias<'a>(&self, inputs: &'a [FlexTensor]) -> Option<&'a FlexTensor> {
        self.has_bias.then(|| &inputs[self.layout.operands()])
    }

    fn table<'a>(&self, inputs: &'a [FlexTensor]) -> Option<&'a FlexTensor> {
        self.has_table.then(|| &inputs[self.layout.operands() + usize::from(self.has_bias)])
    }

    /// Expands the relative table, if present, to one bias per head and distance.
    fn distances(&self, inputs: &[FlexTensor]) -> Result<Option<Vec<f32>>, OpError> {
        let AttentionShape { queries, keys, .. } = self.shape;
        self.table(inputs)
            .map(|table| {
                let [_, width] = sizes(table);
                let table = contiguous(table.clone());
                Ok(relative_distances(elements(&table), width / 2, queries, keys)?)
            })
            .transpose()
    }

    /// Returns the options for the kernel.
    fn options<'a>(
        &'a self,
        inputs: &'a [FlexTensor],
        distances: &'a Option<Vec<f32>>,
    ) -> kernel::AttentionOptions<'a> {
        kernel::AttentionOptions {
            scale: self.scale,
            band: self.band,
            lengths: self.lengths.as_deref().map(Vec::as_slice),
            mask: self.allowed.as_ref().map(|(mask, strides)| BooleanMask { data: bytes(mask), strides: *strides }),
            sparse: self.sparse.as_ref().map(|s| kernel::SparseRows { offsets: &s.offsets, columns: &s.columns }),
            bias: self.bias(inputs).map(view),
            distance: distances.as_deref().or(self.alibi.as_deref().map(Vec::as_slice)),
            dropout: self.dropout,
        }
    }
}

impl<const N: usize> FusedOp<N> for Operation {
    type Saved = Saved;

    fn forward(&self, inputs: [FlexTensor; N], _: Purpose) -> Result<(FlexTensor, Saved), OpError> {
        let operands = self.layout.operands();
        let layout = |(at, input): (usize, FlexTensor)| match at < operands {
            true => self.layout.readable(input),
            // An expanded bias gets a gradient for each of its rows, so the rows must not share memory.
            false => contiguous(input),
        };
        let inputs: Vec<FlexTensor> = inputs.into_iter().enumerate().map(layout).collect();
        let distances = self.distances(&inputs)?;
        let [q, k, v] = self.layout.views(&self.shape, &inputs);
        let (shape, strides) = self.layout.output(&self.shape);
        let mut out = unwritten(shape.iter().product());
        let mut log_sum_exp = unwritten(self.shape.batch * self.shape.n_heads * self.shape.queries);
        let options = self.options(&inputs, &distances);
        let out_view = ViewMut::strided(&mut out, strides);
        kernel::attention_forward(self.shape, &options, q, k, v, out_view, &mut log_sum_exp)?;
        let out = tensor(out, shape);
        Ok((out.clone(), Saved { inputs, out, log_sum_exp: Arc::new(log_sum_exp) }))
    }

    fn backward(&self, saved: Saved, grad: FlexTensor, wanted: [bool; N]) -> Result<[Option<FlexTensor>; N], OpError> {
        let Saved { inputs, out, log_sum_exp } = saved;
        let AttentionShape { n_heads, queries, keys, .. } = self.shape;
        let distances = self.distances(&inputs)?;
        let [q, k, v] = self.layout.views(&self.shape, &inputs);
        let (out_view, grad) = (self.layout.output_view(&self.shape, &out), self.layout.readable(grad));
        let grad_view = self.layout.output_view(&self.shape, &grad);
        let want = |at: usize| wanted.get(at).copied().unwrap_or(false);
        let operands = self.layout.operands();
        let bias_layout = self.bias(&inputs).map(|bias| BiasGradient::new(bias, &self.shape));
        let mut bias = bias_layout.as_ref().filter(|_| want(operands)).map(|layout| unwritten(layout.size()));
        let table_at = operands + usize::from(self.has_bias);
        let mut distance =
            (self.has_table && want(table_at)).then(|| unwritten(n_heads * (queries + keys).saturating_sub(1)));

        let mut grads: Vec<Vec<f32>> =
            inputs[..operands].iter().map(|input| unwritten(input.layout().num_elements())).collect();
        let [grad_q, grad_k, grad_v] = self.layout.views_mut(&self.shape, &mut grads);
        let gradients = AttentionGradients {
            q: grad_q,
            k: grad_k,
            v: grad_v,
            bias: bias.as_deref_mut(),
            distance: distance.as_deref_mut(),
        };
        let options = self.options(&inputs, &distances);
        kernel::attention_backward(self.shape, &options, q, k, v, out_view, &log_sum_exp, grad_view, gradients)?;

        let mut results: [Option<FlexTensor>; N] = std::array::from_fn(|_| None);
        for (at, data) in grads.into_iter().enumerate() {
            results[at] = want(at).then(|| tensor(data, inputs[at].layout().shape().clone()));
        }
        if let (Some(data), Some(layout)) = (bias, bias_layout) {
            results[operands] = Some(layout.tensor(data));
        }
        if let (Some(distance), Some(table)) = (distance, self.table(&inputs)) {
            let [heads, width] = sizes(table);
            let mut grad = unwritten(heads * width);
            relative_distances_backward(&distance, width / 2, queries, keys, &mut grad)?;
            results[table_at] = Some(tensor(grad, [heads, width]));
        }
        Ok(results)
    }
}

/// Computes the weights of one head for [`attention_weights`](super::attention_weights).
pub(super) fn weights(
    shape: AttentionShape,
    q: Tensor<4>,
    k: Tensor<4>,
    options: &AttentionOptions,
    place: (usize, usize),
    rows: Range<usize>,
) -> Result<Tensor<2>, OpError> {
    let device = q.device().without_autodiff();
    let plain = |tensor: Tensor<4>| usable(host(tensor));
    let mut inputs = vec![plain(q), plain(k.clone()), plain(k)];
    inputs.extend(options.bias.clone().map(plain));
    inputs.extend(options.distance.table().map(|table| usable(host(table))));
    let operation = Operation::new(shape, Layout::Separate, options)?;
    let distances = operation.distances(&inputs)?;
    let [q, k, _] = operation.layout.views(&shape, &inputs);
    let mut out = unwritten(rows.len() * shape.keys);
    let size = [rows.len(), shape.keys];
    kernel::attention_weights(shape, &operation.options(&inputs, &distances), q, k, None, place, rows, &mut out)?;
    Ok(Tensor::from_data(burn::tensor::TensorData::new(out, size), &device))
}

/// The gradient of a bias. The kernel sums over repeated batches and heads; this type sums over repeated queries and keys.
struct BiasGradient {
    /// Shape that the kernel writes.
    full: [usize; 4],
    /// Shape of the bias.
    bias: [usize; 4],
}

impl BiasGradient {
    fn new(bias: &FlexTensor, shape: &AttentionShape) -> Self {
        let strides = view(bias).strides;
        let kept = |extent: usize, stride: usize| if stride == 0 { extent.min(1) } else { extent };
        let full = [kept(shape.batch, strides[0]), kept(shape.n_heads, strides[1]), shape.queries, shape.keys];
        Self { full, bias: sizes(bias) }
    }

    fn size(&self) -> usize {
        self.full.iter().product()
    }

    fn tensor(&self, data: Vec<f32>) -> FlexTensor {
        if self.full == self.bias {
            return tensor(data, self.full);
        }
        // The bias also repeats over queries or keys: sum over them in order.
        let [_, h, q, k] = self.full;
        let [nb, nh, nq, nk] = self.bias;
        let mut out = vec![0.0; nb * nh * nq * nk];
        if out.is_empty() {
            return tensor(out, self.bias);
        }
        for (n, x) in data.iter().enumerate() {
            let index = [n / (h * q * k), n / (q * k) % h, n / k % q, n % k];
            let [b, h, q, k] = std::array::from_fn(|d| index[d].min(self.bias[d] - 1));
            out[((b * nh + h) * nq + q) * nk + k] += x;
        }
        tensor(out, self.bias)
    }
}

/// Returns a contiguous boolean tensor and its strides. Dimensions of size 1 get stride 0, so that they repeat.
fn boolean(allowed: Tensor<4, Bool>) -> Result<(FlexTensor, [usize; 4]), OpError> {
    let shape = allowed.dims();
    let tensor = match allowed.into_dispatch().kind {
        DispatchTensorKind::Flex(BackendTensor::Bool(tensor)) => tensor,
        _ => return Err(OpError::other_device()),
    };
    let tensor = contiguous(tensor);
    let [_, h, q, k] = shape;
    let strides = [h * q * k, q * k, k, 1];
    Ok((tensor, std::array::from_fn(|d| if shape[d] == 1 { 0 } else { strides[d] })))
}

/// Returns the bytes of a contiguous boolean tensor.
fn bytes(mask: &FlexTensor) -> &[u8] {
    let (start, end) = mask.layout().contiguous_offsets().expect("`boolean` makes the mask contiguous");
    &mask.bytes()[start..end]
}
