use burn::tensor::{DType, Tensor, TensorData, activation};
use proptest::prelude::*;
use regard_ops::{
    AttentionOptions, Dropout, Graph, GraphAttentionOptions, OpError, SelfLoops, SparseRows, attention, dropout,
    edge_attention, edge_attention_fallback, edge_attention_weights, edge_scores, edge_scores_fallback,
    graph_attention, graph_attention_fallback, graph_attention_weights,
};

use crate::golden::Golden;
use crate::support::{FLOOR, close, close_above, device, gradient, leaf, loss, training, values};

/// Magnitude of the terms in the gradient of a score, inner products over a head. They cancel in nodes with one edge.
const SCORES: f64 = 1.0;

#[test]
fn agrees_with_pytorch() {
    let golden = Golden::open("graph_attention");
    let device = training();
    for (case, settings) in golden.cases() {
        let name = |name: &str| format!("{case}/{name}");
        let edges: Vec<i64> = golden.integers::<2>(&name("edges"), &device).into_data().iter::<i64>().collect();
        let edges: Vec<_> = edges.chunks(2).map(|edge| (edge[0] as usize, edge[1] as usize)).collect();
        let h = golden.tensor::<3>(&name("h"), &device).require_grad();
        let [s, t] = ["source_scores", "target_scores"].map(|x| golden.tensor::<2>(&name(x), &device).require_grad());
        let graph = Graph::new(h.dims()[0], &edges, SelfLoops::AsGiven).unwrap();
        assert_eq!(graph.edges().collect::<Vec<_>>(), edges, "{case}");
        let slope = settings["slope"].as_f64().unwrap() as f32;
        let options = GraphAttentionOptions { slope, dropout: None };
        let weights = graph_attention_weights(s.clone(), t.clone(), &graph, &options).unwrap();
        close(&name("weights"), &values(weights), &golden.floats(&name("weights")), 1e-6);
        let out = graph_attention(h.clone(), s.clone(), t.clone(), &graph, &options).unwrap();
        let gradients = loss(&out, &golden.tensor(&name("grad_out"), &device));
        close(&name("out"), &values(out), &golden.floats(&name("out")), 2e-6);
        close(&name("grad_h"), &gradient(&h, &gradients), &golden.floats(&name("grad_h")), 2e-6);
        for (input, leaf) in [("grad_source_scores", &s), ("grad_target_scores", &t)] {
            close_above(SCORES, &name(input), &gradient(leaf, &gradients), &golden.floats(&name(input)), 4e-6);
        }
    }
}

/// Builds a graph with each edge present with probability `share`. Node 1 has no incoming edge except a possible self-loop.
fn random_graph(nodes: usize, share: f64, seed: u64, self_loops: SelfLoops) -> Graph {
    let hash = |i: usize| (seed ^ i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 11;
    let pairs = (0..nodes * nodes).filter(|&i| (hash(i) as f64) < share * (1u64 << 53) as f64);
    let edges: Vec<_> = pairs.map(|i| (i / nodes, i % nodes)).filter(|&(_, target)| target != 1).collect();
    Graph::new(nodes, &edges, self_loops).unwrap()
}

struct Inputs {
    h: Tensor<3>,
    s: Tensor<2>,
    t: Tensor<2>,
}

fn inputs(nodes: usize, n_heads: usize, d_head: usize) -> Inputs {
    let scores = |seed| {
        let data = values(leaf([nodes, n_heads], seed) * 3.0);
        Tensor::from_data(TensorData::new(data, [nodes, n_heads]), &training()).require_grad()
    };
    Inputs { h: leaf([nodes, n_heads, d_head], 1), s: scores(2), t: scores(3) }
}

/// Returns the output and the gradients of features, source scores and target scores.
fn results(
    operation: impl Fn(Tensor<3>, Tensor<2>, Tensor<2>) -> Tensor<3>,
    Inputs { h, s, t }: &Inputs,
) -> [Vec<f32>; 4] {
    let out = operation(h.clone(), s.clone(), t.clone());
    let gradients = loss(&out, &leaf(out.dims(), 4));
    [values(out), gradient(h, &gradients), gradient(s, &gradients), gradient(t, &gradients)]
}

#[track_caller]
fn all_close(got: &[Vec<f32>; 4], want: &[Vec<f32>; 4], tolerance: f32) {
    let names = [("out", FLOOR), ("grad_h", FLOOR), ("grad_s", SCORES), ("grad_t", SCORES)];
    for ((name, floor), (got, want)) in names.into_iter().zip(got.iter().zip(want)) {
        close_above(floor, name, got, want, tolerance);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn agrees_with_its_fallback(nodes in 1usize..30, n_heads in 1usize..9, d_head in 1usize..20, share in 0.0..1.0,
                                seed: u64, slope in 0.0_f32..1.0, probability in 0.0_f32..0.9, add: bool) {
        let graph = random_graph(nodes, share, seed, if add { SelfLoops::Add } else { SelfLoops::AsGiven });
        let inputs = inputs(nodes, n_heads, d_head);
        let options = GraphAttentionOptions { slope, dropout: Some(Dropout { probability, seed }) };
        let fused = results(|h, s, t| graph_attention(h, s, t, &graph, &options).unwrap(), &inputs);
        let fallback = results(|h, s, t| graph_attention_fallback(h, s, t, &graph, &options), &inputs);
        all_close(&fused, &fallback, 2e-5);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn dynamic_scores_agree_with_their_fallback(nodes in 1usize..30, n_heads in 1usize..9, d_head in 1usize..20,
                                                share in 0.0..1.0, seed: u64, slope in 0.0_f32..1.0) {
        let graph = random_graph(nodes, share, seed, SelfLoops::Add);
        let run = |is_fused: bool| {
            let (s, t) = (leaf::<3>([nodes, n_heads, d_head], 1), leaf::<3>([nodes, n_heads, d_head], 2));
            let a = leaf::<2>([n_heads, d_head], 3);
            let out = match is_fused {
                true => edge_scores(s.clone(), t.clone(), a.clone(), &graph, slope).unwrap(),
                false => edge_scores_fallback(s.clone(), t.clone(), a.clone(), &graph, slope),
            };
            let gradients = loss(&out, &leaf(out.dims(), 4));
            [values(out), gradient(&s, &gradients), gradient(&t, &gradients), gradient(&a, &gradients)]
        };
        let names = [("scores", FLOOR), ("grad_s", SCORES), ("grad_t", SCORES), ("grad_a", 4.0)];
        for ((name, floor), (got, want)) in names.into_iter().zip(run(true).iter().zip(&run(false))) {
            close_above(floor, name, got, want, 2e-5);
        }
    }

    #[test]
    fn attention_with_given_scores_agrees_with_its_fallback(nodes in 1usize..30, n_heads in 1usize..9, d_head in 1usize..20,
                                                           share in 0.01..1.0, seed: u64, probability in 0.0_f32..0.9) {
        let graph = random_graph(nodes, share, seed, SelfLoops::Add);
        let dropout = Some(Dropout { probability, seed });
        let run = |is_fused: bool| {
            let (h, e) = (leaf::<3>([nodes, n_heads, d_head], 1), leaf::<2>([graph.n_edges(), n_heads], 2));
            let out = match is_fused {
                true => edge_attention(h.clone(), e.clone(), &graph, dropout).unwrap(),
                false => edge_attention_fallback(h.clone(), e.clone(), &graph, dropout),
            };
            let gradients = loss(&out, &leaf(out.dims(), 4));
            [values(out), gradient(&h, &gradients), gradient(&e, &gradients)]
        };
        let names = [("out", FLOOR), ("grad_h", FLOOR), ("grad_scores", SCORES)];
        for ((name, floor), (got, want)) in names.into_iter().zip(run(true).iter().zip(&run(false))) {
            close_above(floor, name, got, want, 2e-5);
        }
    }
}

#[test]
fn given_scores_are_those_of_the_nodes() {
    let graph = random_graph(9, 0.4, 3, SelfLoops::Add);
    let Inputs { h, s, t } = inputs(9, 2, 4);
    let options = GraphAttentionOptions { slope: 0.2, dropout: Some(Dropout { probability: 0.3, seed: 5 }) };
    let (from, to) = (values(s.clone()), values(t.clone()));
    let score = |sum: f32| if sum > 0.0 { sum } else { 0.2 * sum };
    let scores: Vec<f32> =
        graph.edges().flat_map(|(a, b)| [0, 1].map(|head| score(from[2 * a + head] + to[2 * b + head]))).collect();
    let scores = Tensor::<2>::from_data(TensorData::new(scores, [graph.n_edges(), 2]), &training());
    let weights = edge_attention_weights(scores.clone(), &graph).unwrap();
    let same = graph_attention_weights(s.clone(), t.clone(), &graph, &options).unwrap();
    close("weights", &values(weights), &values(same), 1e-6);
    let out = edge_attention(h.clone(), scores.clone(), &graph, options.dropout).unwrap();
    close("out", &values(out), &values(graph_attention(h.clone(), s, t, &graph, &options).unwrap()), 1e-6);
    assert!(edge_attention(h.clone(), leaf([3, 2], 1), &graph, None).is_err(), "a score for each edge");
    assert!(edge_scores(h.clone(), h.clone(), leaf([2, 3], 1), &graph, 0.2).is_err(), "a number for each feature");
    assert!(edge_scores(h.clone(), h, leaf([2, 4], 1), &graph, f32::NAN).is_err(), "a finite slope");
}

#[test]
fn equals_a_dense_masked_softmax() {
    let (nodes, n_heads, d_head) = (12, 3, 5);
    let graph = random_graph(nodes, 0.3, 7, SelfLoops::Add);
    let options = GraphAttentionOptions::default();
    let mut hidden = vec![f32::NEG_INFINITY; nodes * nodes];
    graph.edges().for_each(|(source, target)| hidden[target * nodes + source] = 0.0);
    let hidden = Tensor::<3>::from_data(TensorData::new(hidden, [1, nodes, nodes]), &training());
    let dense = |h: Tensor<3>, s: Tensor<2>, t: Tensor<2>| {
        // `[n_heads, target, source]`.
        let scores = t.transpose().reshape([n_heads, nodes, 1]) + s.transpose().reshape([n_heads, 1, nodes]);
        let weights = activation::softmax(activation::leaky_relu(scores, 0.2) + hidden.clone(), 2);
        weights.matmul(h.swap_dims(0, 1)).swap_dims(0, 1)
    };
    let inputs = inputs(nodes, n_heads, d_head);
    let fused = results(|h, s, t| graph_attention(h, s, t, &graph, &options).unwrap(), &inputs);
    all_close(&fused, &results(dense, &inputs), 5e-6);
}

#[test]
fn a_graph_is_a_mask_of_dot_product_attention() {
    // With queries of zero all visible keys have equal weights, as with scores of zero.
    let (nodes, n_heads, d_head) = (9, 2, 4);
    let graph = random_graph(nodes, 0.4, 3, SelfLoops::AsGiven);
    let v = leaf([nodes, n_heads, d_head], 1);
    let heads = |x: Tensor<3>| x.swap_dims(0, 1).unsqueeze_dim::<4>(0);
    let zeros = Tensor::<2>::zeros([nodes, n_heads], &training());
    let options = AttentionOptions { sparse: Some(SparseRows::from(&graph)), ..AttentionOptions::default() };
    let dot = attention(heads(v.zeros_like()), heads(v.zeros_like()), heads(v.clone()), &options).unwrap();
    let dot = values(dot.squeeze_dim::<3>(0).swap_dims(0, 1));
    let out = graph_attention(v, zeros.clone(), zeros, &graph, &GraphAttentionOptions::default()).unwrap();
    close("out", &values(out), &dot, 2e-6);
}

#[test]
fn weights_sum_to_one_and_give_the_output() {
    let (nodes, n_heads) = (20, 3);
    let graph = random_graph(nodes, 0.2, 5, SelfLoops::AsGiven);
    let Inputs { s, t, .. } = inputs(nodes, n_heads, 1);
    let dropped = GraphAttentionOptions { dropout: Some(Dropout { probability: 0.5, seed: 3 }), ..Default::default() };
    let weights = graph_attention_weights(s.clone(), t.clone(), &graph, &dropped).unwrap();
    assert_eq!(weights.dims(), [graph.n_edges(), n_heads]);
    let sums = |weights: Vec<f32>| {
        let mut sums = vec![0.0; nodes * n_heads];
        for ((_, target), weights) in graph.edges().zip(weights.chunks(n_heads)) {
            weights.iter().enumerate().for_each(|(head, weight)| sums[target * n_heads + head] += weight);
        }
        sums
    };
    let sees = |i: usize| if graph.sources(i / n_heads).next().is_some() { 1.0 } else { 0.0 };
    close("sums", &sums(values(weights.clone())), &(0..nodes * n_heads).map(sees).collect::<Vec<_>>(), 1e-6);
    // All features are 1, so that the output is the sum of the weights after dropout.
    let ones = leaf([nodes, n_heads, 1], 1).ones_like();
    let out = graph_attention(ones, s, t, &graph, &dropped).unwrap();
    close("dropped sums", &values(out), &sums(values(dropout(weights, 0.5, 3).unwrap())), 2e-6);
}

#[test]
fn graphs_with_few_or_no_edges_agree_with_the_fallback() {
    let options = GraphAttentionOptions::default();
    for (nodes, edges) in [(0, vec![]), (1, vec![]), (1, vec![(0, 0)]), (4, vec![]), (4, vec![(1, 2)])] {
        let graph = Graph::new(nodes, &edges, SelfLoops::AsGiven).unwrap();
        let inputs = inputs(nodes, 2, 3);
        let fused = results(|h, s, t| graph_attention(h, s, t, &graph, &options).unwrap(), &inputs);
        let fallback = results(|h, s, t| graph_attention_fallback(h, s, t, &graph, &options), &inputs);
        all_close(&fused, &fallback, 1e-6);
        assert!(fused[2].iter().chain(&fused[3]).all(|&x| x == 0.0), "a lone edge has weight 1 whatever its score");
    }
}

#[test]
fn untracked_tensors_and_views_give_the_same_output() {
    let graph = random_graph(8, 0.4, 3, SelfLoops::Add);
    let options = GraphAttentionOptions::default();
    let Inputs { h, s, t } = inputs(8, 2, 3);
    let want = values(graph_attention(h.clone(), s.clone(), t.clone(), &graph, &options).unwrap());
    let plain = |shape: &[usize], data: Vec<f32>| TensorData::new(data, shape.to_vec());
    let [ps, pt] = [&s, &t].map(|x| Tensor::<2>::from_data(plain(&[8, 2], values(x.clone())), &device()));
    let ph = Tensor::<3>::from_data(plain(&[8, 2, 3], values(h.clone())), &device());
    let out = graph_attention(ph, ps.clone(), pt, &graph, &options).unwrap();
    assert!(!out.is_require_grad());
    assert_eq!(values(out), want);
    // Only the target scores are tracked, and the features are a transposed view.
    let view = h.detach().swap_dims(0, 1) * 1.0;
    let view = view.swap_dims(0, 1);
    let out = graph_attention(view, ps, t.clone(), &graph, &options).unwrap();
    assert_eq!(values(out.clone()), want);
    assert!(t.grad(&out.sum().backward()).is_some());
    assert!(t.clone().is_require_grad());
    let weights = graph_attention_weights(s, t, &graph, &options).unwrap();
    assert!(!weights.is_require_grad());
}

#[test]
fn edges_are_sorted_and_counted_once() {
    let graph = Graph::new(3, &[(2, 0), (1, 0), (2, 0), (1, 1)], SelfLoops::AsGiven).unwrap();
    assert_eq!(graph.edges().collect::<Vec<_>>(), [(1, 0), (2, 0), (1, 1)]);
    assert_eq!((graph.n_nodes(), graph.n_edges()), (3, 3));
    let graph = Graph::new(3, &[(2, 0), (1, 1)], SelfLoops::Add).unwrap();
    assert_eq!(graph.edges().collect::<Vec<_>>(), [(0, 0), (2, 0), (1, 1), (2, 2)]);
}

#[test]
fn an_edge_out_of_range_is_named() {
    for edge in [(3, 0), (0, 3), (usize::MAX, 0)] {
        let error = Graph::new(3, &[(0, 1), edge], SelfLoops::Add).unwrap_err();
        assert_eq!(error, OpError::Edge { index: 1, edge, nodes: 3 });
        assert!(error.to_string().contains(&format!("{} → {}", edge.0, edge.1)), "{error}");
    }
    let error = Graph::new(usize::MAX, &[], SelfLoops::AsGiven).unwrap_err();
    assert!(matches!(error, OpError::Option { what: "nodes", .. }), "{error}");
}

#[test]
fn bad_input_is_a_typed_error() {
    let graph = random_graph(4, 0.5, 1, SelfLoops::Add);
    let options = GraphAttentionOptions::default();
    let Inputs { h, s, t } = inputs(4, 2, 3);
    let call = |h: &Tensor<3>, s: &Tensor<2>, t: &Tensor<2>, options: &GraphAttentionOptions| {
        graph_attention(h.clone(), s.clone(), t.clone(), &graph, options).unwrap_err()
    };
    let shape = |error, wanted| assert!(matches!(&error, OpError::Shape { what, .. } if *what == wanted), "{error}");
    shape(call(&leaf([5, 2, 3], 1), &s, &t, &options), "h");
    shape(call(&h, &leaf([4, 3], 1), &t, &options), "source scores");
    shape(call(&h, &s, &leaf([5, 2], 1), &options), "target scores");
    shape(graph_attention_weights(s.clone(), leaf([4, 3], 1), &graph, &options).unwrap_err(), "target scores");
    let error = call(&h.clone().cast(DType::F64), &s, &t, &options);
    assert!(matches!(error, OpError::DType { what: "h", .. }), "{error}");
    let error = call(&h, &s.clone().cast(DType::F64), &t, &options);
    assert!(matches!(error, OpError::DType { what: "source scores", .. }), "{error}");
    let error = call(&h, &s, &t, &GraphAttentionOptions { slope: f32::NAN, dropout: None });
    assert!(matches!(error, OpError::Option { what: "slope", .. }), "{error}");
    for probability in [1.0, -0.1, f32::NAN] {
        let dropout = Some(Dropout { probability, seed: 1 });
        let error = call(&h, &s, &t, &GraphAttentionOptions { dropout, ..options });
        assert!(matches!(error, OpError::Option { what: "dropout probability", .. }), "{error}");
    }
}
