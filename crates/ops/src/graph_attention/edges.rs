//! Attention over the edges of a graph with any scores, and the dynamic scores of GATv2
//! ([Brody et al. 2022](https://arxiv.org/abs/2105.14491)).

use std::sync::Arc;

use burn::tensor::{IndexingUpdateOp, Tensor, TensorData};
use burn_flex::FlexTensor;
use regard_kernels::attention::Dropout;
use regard_kernels::graph_attention::{
    self as kernel, EdgeScoreGradients, EdgeScoreInputs, GraphAttentionShape, edge_attention_backward,
    edge_attention_forward, edge_scores_backward, edge_scores_forward,
};
use regard_kernels::unwritten;

use super::{Graph, check_slope, indices, largest, leaky};
use crate::dropout::dropout_fallback;
use crate::error::{OpError, check_probability, check_shape};
use crate::fused::{FusedOp, Purpose, apply, check_f32, contiguous, elements, host, is_fused, sizes, tensor};

/// Computes the attention of every node over the nodes that have an edge to it, by the softmax of given scores. The dropout of
/// the weights is that of [`graph_attention`](super::graph_attention).
///
/// # Shapes
/// `h` `[nodes, n_heads, d_head]`, `scores` `[edges, n_heads]` in the order of [`Graph::edges`] → `[nodes, n_heads, d_head]`.
pub fn edge_attention(
    h: Tensor<3>,
    scores: Tensor<2>,
    graph: &Graph,
    dropout: Option<Dropout>,
) -> Result<Tensor<3>, OpError> {
    check_f32("h", &h)?;
    check_f32("edge scores", &scores)?;
    let [_, n_heads, d_head] = h.dims();
    check_shape("h", h.dims(), [graph.n_nodes(), n_heads, d_head])?;
    check_shape("edge scores", scores.dims(), [graph.n_edges(), n_heads])?;
    dropout.map_or(Ok(()), |dropout| check_probability(dropout.probability))?;
    if !is_fused(&h) {
        return Ok(edge_attention_fallback(h, scores, graph, dropout));
    }
    apply(Attention { graph: graph.clone(), dropout }, [h.into_dispatch(), scores.into_dispatch()])
}

/// Computes the weights of the edges from their scores, before dropout. No gradient flows through them.
///
/// # Shapes
/// `scores` `[edges, n_heads]` → the same.
pub fn edge_attention_weights(scores: Tensor<2>, graph: &Graph) -> Result<Tensor<2>, OpError> {
    check_f32("edge scores", &scores)?;
    let [_, n_heads] = scores.dims();
    check_shape("edge scores", scores.dims(), [graph.n_edges(), n_heads])?;
    let device = scores.device().without_autodiff();
    let scores = contiguous(host(scores));
    let mut out = unwritten(graph.n_edges() * n_heads);
    kernel::edge_attention_weights(graph.kernel(), n_heads, elements(&scores), &mut out)?;
    Ok(Tensor::from_data(TensorData::new(out, [graph.n_edges(), n_heads]), &device))
}

/// [`edge_attention`] in plain Burn operations, with messages `[edges, n_heads, d_head]` and without argument checks.
pub fn edge_attention_fallback(h: Tensor<3>, scores: Tensor<2>, graph: &Graph, dropout: Option<Dropout>) -> Tensor<3> {
    let [nodes, n_heads, d_head] = h.dims();
    let device = h.device();
    if graph.n_edges() == 0 || n_heads == 0 || d_head == 0 {
        return h.zeros_like();
    }
    let sources = indices(graph.edges().map(|(source, _)| source), &device);
    let targets = indices(graph.edges().map(|(_, target)| target), &device);
    let shift = largest(scores.clone().detach(), graph);
    let exponentials = (scores - shift).exp();
    let total = Tensor::<2>::zeros([nodes, n_heads], &device);
    let total = total.select_assign(0, targets.clone(), exponentials.clone(), IndexingUpdateOp::Add);
    // A total of 1 in place of 0 avoids NaN for a node whose scores are all −∞.
    let empty = total.clone().equal_elem(0.0);
    let mut weights = exponentials / total.mask_fill(empty, 1.0).select(0, targets.clone());
    if let Some(dropout) = dropout {
        weights = dropout_fallback(weights, dropout.probability, dropout.seed);
    }
    let messages = h.select(0, sources) * weights.unsqueeze_dim(2);
    Tensor::zeros([nodes, n_heads, d_head], &device).select_assign(0, targets, messages, IndexingUpdateOp::Add)
}

/// Computes the dynamic score `a·LeakyReLU(s_j + t_i)` of each edge `j → i` in each head.
///
/// # Shapes
/// `sources` (`s`) and `targets` (`t`) `[nodes, n_heads, d_head]`, `vector` (`a`) `[n_heads, d_head]` → `[edges, n_heads]`, in the
/// order of [`Graph::edges`].
pub fn edge_scores(
    sources: Tensor<3>,
    targets: Tensor<3>,
    vector: Tensor<2>,
    graph: &Graph,
    slope: f32,
) -> Result<Tensor<2>, OpError> {
    check_f32("sources", &sources)?;
    check_f32("targets", &targets)?;
    check_f32("vector", &vector)?;
    let [_, n_heads, d_head] = sources.dims();
    check_shape("sources", sources.dims(), [graph.n_nodes(), n_heads, d_head])?;
    check_shape("targets", targets.dims(), [graph.n_nodes(), n_heads, d_head])?;
    check_shape("vector", vector.dims(), [n_heads, d_head])?;
    check_slope(slope)?;
    if !is_fused(&sources) {
        return Ok(edge_scores_fallback(sources, targets, vector, graph, slope));
    }
    let operands = [sources.into_dispatch(), targets.into_dispatch(), vector.into_dispatch()];
    apply(Scores { graph: graph.clone(), slope }, operands)
}

/// [`edge_scores`] in plain Burn operations, with sums `[edges, n_heads, d_head]` and without argument checks.
pub fn edge_scores_fallback(
    sources: Tensor<3>,
    targets: Tensor<3>,
    vector: Tensor<2>,
    graph: &Graph,
    slope: f32,
) -> Tensor<2> {
    let ([_, n_heads, d_head], device) = (sources.dims(), sources.device());
    if graph.n_edges() == 0 || n_heads == 0 || d_head == 0 {
        return Tensor::zeros([graph.n_edges(), n_heads], &device);
    }
    let from = indices(graph.edges().map(|(source, _)| source), &device);
    let to = indices(graph.edges().map(|(_, target)| target), &device);
    let z = sources.select(0, from) + targets.select(0, to);
    (leaky(z, slope) * vector.unsqueeze()).sum_dim(2).squeeze_dim(2)
}

/// Attention with given scores. Its inputs are the features and the scores.
#[derive(Debug, Clone)]
struct Attention {
    graph: Graph,
    dropout: Option<Dropout>,
}

impl FusedOp<2> for Attention {
    type Saved = ([FlexTensor; 2], Arc<Vec<f32>>);

    fn forward(&self, inputs: [FlexTensor; 2], _: Purpose) -> Result<(FlexTensor, Self::Saved), OpError> {
        let inputs = inputs.map(contiguous);
        let shape @ [nodes, n_heads, d_head] = sizes(&inputs[0]);
        let (mut out, mut log_sum_exp) = (unwritten(shape.iter().product()), unwritten(nodes * n_heads));
        let [h, scores] = inputs.each_ref().map(elements);
        let (edges, size) = (self.graph.kernel(), GraphAttentionShape { n_heads, d_head });
        edge_attention_forward(edges, size, self.dropout, h, scores, &mut out, &mut log_sum_exp)?;
        Ok((tensor(out, shape), (inputs, Arc::new(log_sum_exp))))
    }

    fn backward(
        &self,
        (inputs, log_sum_exp): Self::Saved,
        grad: FlexTensor,
        wanted: [bool; 2],
    ) -> Result<[Option<FlexTensor>; 2], OpError> {
        let grad = contiguous(grad);
        let shape @ [_, n_heads, d_head] = sizes(&inputs[0]);
        let (edges, size) = (self.graph.kernel(), GraphAttentionShape { n_heads, d_head });
        let (mut grad_h, mut grad_scores) = (unwritten(shape.iter().product()), unwritten(edges.len() * n_heads));
        let [h, scores] = inputs.each_ref().map(elements);
        let out = (&mut grad_h[..], &mut grad_scores[..]);
        edge_attention_backward(edges, size, self.dropout, h, scores, &log_sum_exp, elements(&grad), out)?;
        Ok([wanted[0].then(|| tensor(grad_h, shape)), wanted[1].then(|| tensor(grad_scores, [edges.len(), n_heads]))])
    }
}

/// Dynamic scores. The inputs are the sources, the targets and the vector.
#[derive(Debug, Clone)]
struct Scores {
    graph: Graph,
    slope: f32,
}

impl FusedOp<3> for Scores {
    type Saved = [FlexTensor; 3];

    fn forward(&self, inputs: [FlexTensor; 3], _: Purpose) -> Result<(FlexTensor, Self::Saved), OpError> {
        let inputs = inputs.map(contiguous);
        let [_, n_heads, d_head] = sizes(&inputs[0]);
        let mut out = unwritten(self.graph.n_edges() * n_heads);
        let [sources, targets, vector] = inputs.each_ref().map(elements);
        let operands = EdgeScoreInputs { sources, targets, vector };
        let size = GraphAttentionShape { n_heads, d_head };
        edge_scores_forward(self.graph.kernel(), size, self.slope, operands, &mut out)?;
        Ok((tensor(out, [self.graph.n_edges(), n_heads]), inputs))
    }

    fn backward(
        &self,
        inputs: [FlexTensor; 3],
        grad: FlexTensor,
        wanted: [bool; 3],
    ) -> Result<[Option<FlexTensor>; 3], OpError> {
        let grad = contiguous(grad);
        let shape @ [nodes, n_heads, d_head] = sizes(&inputs[0]);
        let width = n_heads * d_head;
        let (mut s, mut t, mut a) = (unwritten(nodes * width), unwritten(nodes * width), unwritten(width));
        let [sources, targets, vector] = inputs.each_ref().map(elements);
        let operands = EdgeScoreInputs { sources, targets, vector };
        let gradients = EdgeScoreGradients { sources: &mut s, targets: &mut t, vector: &mut a };
        let size = GraphAttentionShape { n_heads, d_head };
        edge_scores_backward(self.graph.kernel(), size, self.slope, operands, elements(&grad), gradients)?;
        Ok([
            wanted[0].then(|| tensor(s, shape)),
            wanted[1].then(|| tensor(t, shape)),
            wanted[2].then(|| tensor(a, [n_heads, d_head])),
        ])
    }
}
