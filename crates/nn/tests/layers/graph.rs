//! Tests of graph attention against the formula in f64, with gradients by finite differences, and its properties.

use burn::tensor::{Int, Tensor, TensorData};
use proptest::prelude::*;
use regard_nn::layers::attention::graph::{GraphAttention, GraphAttentionConfig, Join, Score, Scoring};
use regard_nn::{AttentionKind, Capture, Init, Pass, Wanted};
use regard_ops::{Graph, SelfLoops};

use crate::support::{close, gradient, leaf, training, values};

const NODES: usize = 7;
const EDGES: [(usize, usize); 11] =
    [(0, 1), (1, 0), (2, 1), (3, 1), (1, 3), (4, 5), (5, 4), (2, 5), (0, 5), (6, 0), (2, 3)];

fn layer(join: Join) -> GraphAttention {
    scored(join, Scoring::Static)
}

fn scored(join: Join, scoring: Scoring) -> GraphAttention {
    let config = GraphAttentionConfig { join, scoring, ..GraphAttentionConfig::new(5, 3, 4) };
    config.init(&Init::new(3, &training()).enter("gat")).unwrap()
}

/// Computes the formula edge by edge, with the parameters `x, W, a_source, a_target, b`, or `x, W, a, W_target, b` for dynamic
/// scores.
fn reference(graph: &Graph, join: Join, scoring: Scoring, [x, w, source, target, bias]: [&[f64]; 5]) -> Vec<f64> {
    let (heads, d) = (3, 4);
    let project = |w: &[f64], node: usize, head: usize, f: usize| -> f64 {
        (0..5).map(|i| x[node * 5 + i] * w[i * heads * d + head * d + f]).sum()
    };
    let h = |node, head, f| project(w, node, head, f);
    let leaky = |e: f64| if e > 0.0 { e } else { f64::from(0.2f32) * e };
    let score = |a: &[f64], node, head| -> f64 { (0..d).map(|f| a[head * d + f] * h(node, head, f)).sum() };
    let energy = |j: usize, i: usize, head: usize| match scoring {
        Scoring::Static => leaky(score(source, j, head) + score(target, i, head)),
        Scoring::Dynamic => {
            (0..d).map(|f| source[head * d + f] * leaky(h(j, head, f) + project(target, i, head, f))).sum()
        }
    };
    let mut out = vec![0.0; NODES * bias.len()];
    for node in 0..NODES {
        out[node * bias.len()..(node + 1) * bias.len()].copy_from_slice(bias);
        for head in 0..heads {
            let energies: Vec<(usize, f64)> = graph.sources(node).map(|j| (j, energy(j, node, head))).collect();
            let total: f64 = energies.iter().map(|(_, e)| e.exp()).sum();
            for (j, e) in energies {
                for f in 0..d {
                    let part = e.exp() / total * h(j, head, f);
                    match join {
                        Join::Concat => out[node * heads * d + head * d + f] += part,
                        Join::Mean => out[node * d + f] += part / heads as f64,
                    }
                }
            }
        }
    }
    out
}

#[test]
fn outputs_and_all_gradients_match_the_formula() {
    for (join, loops, scoring) in [
        (Join::Concat, SelfLoops::Add, Scoring::Static),
        (Join::Mean, SelfLoops::AsGiven, Scoring::Static),
        (Join::Concat, SelfLoops::Add, Scoring::Dynamic),
        (Join::Mean, SelfLoops::AsGiven, Scoring::Dynamic),
    ] {
        let graph = Graph::new(NODES, &EDGES, loops).unwrap();
        let layer = scored(join, scoring);
        let [source, target] = match &layer.score {
            Score::Static(score) => [score.source.val(), score.target.val()],
            Score::Dynamic(score) => [score.vector.val(), score.target.weight.val()],
        };
        let x: Tensor<2> = leaf([NODES, 5], 1);
        let y = layer.forward(x.clone(), &graph, &Pass::inference()).unwrap();
        let weights: Tensor<2> = leaf(y.dims(), 2);
        let gradients = (y.clone() * weights.clone()).sum().backward();
        let (w, bias) = (layer.values.weight.val(), layer.bias.as_ref().unwrap().val());
        let wide = |data: Vec<f32>| data.into_iter().map(f64::from).collect::<Vec<_>>();
        let mut parameters = [
            wide(values(x.clone())),
            wide(values(w.clone())),
            wide(values(source.clone())),
            wide(values(target.clone())),
            wide(values(bias.clone())),
        ];
        let weights = wide(values(weights));
        let run =
            |parameters: &[Vec<f64>; 5]| reference(&graph, join, scoring, parameters.each_ref().map(Vec::as_slice));
        let narrow = |data: Vec<f64>| data.into_iter().map(|x| x as f32).collect::<Vec<_>>();
        close("output", &values(y), &narrow(run(&parameters)), 1e-5);
        let got = [
            gradient(&x, &gradients),
            gradient(&w, &gradients),
            gradient(&source, &gradients),
            gradient(&target, &gradients),
            gradient(&bias, &gradients),
        ];
        for (part, got) in got.iter().enumerate() {
            let mut difference = |i: usize| {
                let centre = parameters[part][i];
                let mut at = |value: f64| {
                    parameters[part][i] = value;
                    run(&parameters).iter().zip(&weights).map(|(y, w)| y * w).sum::<f64>()
                };
                let want = (at(centre + 1e-5) - at(centre - 1e-5)) / 2e-5;
                parameters[part][i] = centre;
                want
            };
            let want = (0..got.len()).map(&mut difference).collect();
            close(&format!("gradient {part}"), got, &narrow(want), 2e-6);
        }
    }
}

#[test]
fn capture_keeps_the_weights_of_the_edges() {
    let graph = Graph::new(NODES, &EDGES, SelfLoops::AsGiven).unwrap();
    let capture = Capture::new(Wanted { heads: Some(vec![1]), rows: Some(1..4), ..Wanted::default() });
    let pass = Pass::inference().with_capture(&capture);
    layer(Join::Concat).forward(leaf([NODES, 5], 1), &graph, &pass).unwrap();
    let maps = capture.into_maps();
    assert_eq!(maps.len(), 1);
    assert_eq!((maps[0].site.kind, maps[0].head, maps[0].first_row), (AttentionKind::Edges, 1, 1));
    assert_eq!(maps[0].keys, Some(vec![vec![0, 2, 3], vec![], vec![1, 2]]));
    let sums: Vec<f32> = maps[0].rows.iter().map(|row| row.iter().sum()).collect();
    close("sums of weights", &sums, &[1.0, 0.0, 1.0], 1e-6);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Renumbering the nodes renumbers the outputs.
    #[test]
    fn the_numbering_of_nodes_does_not_matter(order in Just((0..NODES).collect::<Vec<_>>()).prop_shuffle()) {
        let layer = layer(Join::Concat);
        let x: Tensor<2> = leaf([NODES, 5], 1);
        let graph = Graph::new(NODES, &EDGES, SelfLoops::Add).unwrap();
        // Node `order[i]` becomes node `i`.
        let mut name = [0; NODES];
        order.iter().enumerate().for_each(|(new, &old)| name[old] = new);
        let renamed: Vec<_> = EDGES.iter().map(|&(a, b)| (name[a], name[b])).collect();
        let renamed = Graph::new(NODES, &renamed, SelfLoops::Add).unwrap();
        let order: Vec<i32> = order.into_iter().map(|i| i as i32).collect();
        let order = Tensor::<1, Int>::from_data(TensorData::new(order, [NODES]), &training());
        let want = layer.forward(x.clone(), &graph, &Pass::inference()).unwrap().select(0, order.clone());
        let got = layer.forward(x.select(0, order), &renamed, &Pass::inference()).unwrap();
        close("renamed", &values(got), &values(want), 1e-6);
    }
}

#[test]
fn wrong_sizes_are_refused() {
    let graph = Graph::new(NODES, &EDGES, SelfLoops::Add).unwrap();
    assert!(layer(Join::Concat).forward(leaf([NODES + 1, 5], 1), &graph, &Pass::inference()).is_err());
    assert!(layer(Join::Concat).forward(leaf([NODES, 6], 1), &graph, &Pass::inference()).is_err());
    let heads = GraphAttentionConfig::new(5, 0, 4).validate().unwrap_err().to_string();
    assert_eq!(heads, "n_heads = 0: expected a whole number, 1 or more");
}
