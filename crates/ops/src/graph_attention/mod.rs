//! Graph attention ([Veličković et al. 2018](https://arxiv.org/abs/1710.10903)): each node attends to the nodes that
//! have an edge to it.
//!
//! `o_i = Σ_j drop(softmax_j LeakyReLU(s_j + t_i)) h_j` over the edges `j → i`; see [`regard_kernels::graph_attention`]
//! for the formulas. A node without incoming edges outputs zeros.

mod edges;
mod graph;

use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_flex::FlexTensor;
use regard_kernels::attention::Dropout;
use regard_kernels::graph_attention::{
    self as kernel, GraphAttentionGradients, GraphAttentionInputs, GraphAttentionShape, graph_attention_backward,
    graph_attention_forward,
};
use regard_kernels::unwritten;

pub use edges::{edge_attention, edge_attention_fallback, edge_attention_weights, edge_scores, edge_scores_fallback};
pub use graph::{Graph, SelfLoops};

use crate::error::{OpError, check_probability, check_shape};
use crate::fused::{FusedOp, Purpose, apply, check_f32, contiguous, elements, host, is_fused, sizes, tensor};

/// Options of [`graph_attention`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GraphAttentionOptions {
    /// Slope of the leaky ReLU below zero; 0.2 by default, as in the paper.
    pub slope: f32,
    /// Dropout of the weights, the same as [`dropout`](crate::dropout) of a tensor `[edges, n_heads]`.
    pub dropout: Option<Dropout>,
}

impl Default for GraphAttentionOptions {
    fn default() -> Self {
        Self { slope: 0.2, dropout: None }
    }
}

/// Computes the attention of every node over the nodes that have an edge to it.
///
/// The scores are usually `s = Σ_d h · a_source` and `t = Σ_d h · a_target`, with two learned vectors per head.
///
/// # Shapes
/// `h` `[nodes, n_heads, d_head]`, `source_scores` (`s`) and `target_scores` (`t`) `[nodes, n_heads]` →
/// `[nodes, n_heads, d_head]`.
///
/// ```
/// use burn::tensor::{Device, Distribution, Tensor};
/// use regard_ops::{Graph, GraphAttentionOptions, SelfLoops, graph_attention};
///
/// let device = Device::flex().autodiff();
/// let graph = Graph::new(3, &[(0, 1), (1, 2)], SelfLoops::Add)?;
/// let h = Tensor::<3>::random([3, 8, 4], Distribution::Default, &device).require_grad();
/// let s = Tensor::<2>::random([3, 8], Distribution::Default, &device);
/// let y = graph_attention(h.clone(), s.clone(), s, &graph, &GraphAttentionOptions::default())?;
/// assert_eq!(y.dims(), [3, 8, 4]);
/// let gradients = y.sum().backward();
/// assert!(h.grad(&gradients).is_some());
/// # Ok::<(), regard_ops::OpError>(())
/// ```
pub fn graph_attention(
    h: Tensor<3>,
    source_scores: Tensor<2>,
    target_scores: Tensor<2>,
    graph: &Graph,
    options: &GraphAttentionOptions,
) -> Result<Tensor<3>, OpError> {
    check_f32("h", &h)?;
    let [nodes, n_heads, d_head] = h.dims();
    check_shape("h", [nodes, n_heads, d_head], [graph.n_nodes(), n_heads, d_head])?;
    check(&source_scores, &target_scores, graph, n_heads, options)?;
    if !is_fused(&h) {
        return Ok(graph_attention_fallback(h, source_scores, target_scores, graph, options));
    }
    let operation = Operation { graph: graph.clone(), options: *options };
    apply(operation, [h.into_dispatch(), source_scores.into_dispatch(), target_scores.into_dispatch()])
}

/// Computes the weights of the edges before dropout, in the order of [`Graph::edges`]. No gradient flows through them.
///
/// # Shapes
/// `source_scores` and `target_scores` `[nodes, n_heads]` → `[edges, n_heads]`.
pub fn graph_attention_weights(
    source_scores: Tensor<2>,
    target_scores: Tensor<2>,
    graph: &Graph,
    options: &GraphAttentionOptions,
) -> Result<Tensor<2>, OpError> {
    let [_, n_heads] = source_scores.dims();
    check(&source_scores, &target_scores, graph, n_heads, options)?;
    let device = source_scores.device().without_autodiff();
    let [source_scores, target_scores] = [source_scores, target_scores].map(|scores| contiguous(host(scores)));
    let (edges, mut out) = (graph.kernel(), unwritten(graph.n_edges() * n_heads));
    let (source_scores, target_scores) = (elements(&source_scores), elements(&target_scores));
    kernel::graph_attention_weights(edges, n_heads, options.slope, source_scores, target_scores, &mut out)?;
    Ok(Tensor::from_data(TensorData::new(out, [graph.n_edges(), n_heads]), &device))
}

/// [`graph_attention`] in plain Burn operations, with messages `[edges, n_heads, d_head]` and without argument checks.
pub fn graph_attention_fallback(
    h: Tensor<3>,
    source_scores: Tensor<2>,
    target_scores: Tensor<2>,
    graph: &Graph,
    options: &GraphAttentionOptions,
) -> Tensor<3> {
    let device = h.device();
    if graph.n_edges() == 0 || h.shape().num_elements() == 0 {
        return h.zeros_like();
    }
    let sources = indices(graph.edges().map(|(source, _)| source), &device);
    let targets = indices(graph.edges().map(|(_, target)| target), &device);
    let sum = source_scores.select(0, sources) + target_scores.select(0, targets);
    edge_attention_fallback(h, leaky(sum, options.slope), graph, options.dropout)
}

/// The leaky ReLU with this slope below zero, in plain Burn operations.
fn leaky<const D: usize>(x: Tensor<D>, slope: f32) -> Tensor<D> {
    let negative = x.clone().lower_equal_elem(0.0);
    x.clone().mask_where(negative, x * slope)
}

/// Returns for each edge the largest of the `scores` `[edges, n_heads]` with the same target, or 0 if that is −∞.
///
/// Burn has no maximum by group, so each edge takes the maximum over the next 1, 2, 4, … edges of its target.
fn largest(mut scores: Tensor<2>, graph: &Graph) -> Tensor<2> {
    let device = scores.device();
    let incoming: Vec<_> = (0..graph.n_nodes()).map(|target| graph.kernel().incoming(target)).collect();
    let most = incoming.iter().map(|edges| edges.len()).max().unwrap_or(0);
    let mut reach = 1;
    while reach < most {
        let ahead = incoming.iter().flat_map(|all| all.clone().map(move |edge| (edge + reach).min(all.end - 1)));
        scores = scores.clone().max_pair(scores.select(0, indices(ahead, &device)));
        reach *= 2;
    }
    let first = incoming.iter().flat_map(|all| all.clone().map(move |_| all.start));
    let largest = scores.select(0, indices(first, &device));
    let infinite = largest.clone().equal_elem(f32::NEG_INFINITY);
    largest.mask_fill(infinite, 0.0)
}

pub(crate) fn indices(values: impl Iterator<Item = usize>, device: &Device) -> Tensor<1, Int> {
    let values: Vec<i64> = values.map(|value| value as i64).collect();
    let count = values.len();
    Tensor::from_data(TensorData::new(values, [count]), &device.clone().without_autodiff())
}

/// Returns an error if scores or options are invalid.
fn check(
    source_scores: &Tensor<2>,
    target_scores: &Tensor<2>,
    graph: &Graph,
    n_heads: usize,
    options: &GraphAttentionOptions,
) -> Result<(), OpError> {
    check_f32("source scores", source_scores)?;
    check_f32("target scores", target_scores)?;
    check_shape("source scores", source_scores.dims(), [graph.n_nodes(), n_heads])?;
    check_shape("target scores", target_scores.dims(), [graph.n_nodes(), n_heads])?;
    check_slope(options.slope)?;
    options.dropout.map_or(Ok(()), |dropout| check_probability(dropout.probability))
}

/// Returns an error unless the slope of the leaky ReLU is finite.
fn check_slope(slope: f32) -> Result<(), OpError> {
    if slope.is_finite() {
        return Ok(());
    }
    Err(OpError::Option { what: "slope", why: format!("expected a finite number, got {slope}") })
}

/// The fused operation. Its inputs are the features, the source scores and the target scores.
#[derive(Debug, Clone)]
struct Operation {
    graph: Graph,
    options: GraphAttentionOptions,
}

#[derive(Debug, Clone)]
struct Saved {
    inputs: [FlexTensor; 3],
    log_sum_exp: Arc<Vec<f32>>,
}

impl Operation {
    /// Returns the sizes, options and inputs for the kernel.
    fn call<'a>(
        &self,
        inputs: &'a [FlexTensor; 3],
    ) -> (GraphAttentionShape, kernel::GraphAttentionOptions, GraphAttentionInputs<'a>) {
        let [_, n_heads, d_head] = sizes(&inputs[0]);
        let [h, source_scores, target_scores] = inputs.each_ref().map(elements);
        (
            GraphAttentionShape { n_heads, d_head },
            kernel::GraphAttentionOptions { slope: self.options.slope, dropout: self.options.dropout },
            GraphAttentionInputs { h, source_scores, target_scores },
        )
    }
}

impl FusedOp<3> for Operation {
    type Saved = Saved;

    fn forward(&self, inputs: [FlexTensor; 3], _: Purpose) -> Result<(FlexTensor, Saved), OpError> {
        let inputs = inputs.map(contiguous);
        let shape: [usize; 3] = sizes(&inputs[0]);
        let (mut out, mut log_sum_exp) = (unwritten(shape.iter().product()), unwritten(shape[0] * shape[1]));
        let (sizes, options, operands) = self.call(&inputs);
        graph_attention_forward(self.graph.kernel(), sizes, options, operands, &mut out, &mut log_sum_exp)?;
        Ok((tensor(out, shape), Saved { inputs, log_sum_exp: Arc::new(log_sum_exp) }))
    }

    fn backward(&self, saved: Saved, grad: FlexTensor, wanted: [bool; 3]) -> Result<[Option<FlexTensor>; 3], OpError> {
        let Saved { inputs, log_sum_exp } = saved;
        let grad = contiguous(grad);
        let shape @ [nodes, n_heads, _] = sizes(&inputs[0]);
        let mut h = unwritten(shape.iter().product());
        let (mut source_scores, mut target_scores) = (unwritten(nodes * n_heads), unwritten(nodes * n_heads));
        let gradients =
            GraphAttentionGradients { h: &mut h, source_scores: &mut source_scores, target_scores: &mut target_scores };
        let (sizes, options, operands) = self.call(&inputs);
        let edges = self.graph.kernel();
        graph_attention_backward(edges, sizes, options, operands, &log_sum_exp, elements(&grad), gradients)?;
        Ok([
            wanted[0].then(|| tensor(h, shape)),
            wanted[1].then(|| tensor(source_scores, [nodes, n_heads])),
            wanted[2].then(|| tensor(target_scores, [nodes, n_heads])),
        ])
    }
}
