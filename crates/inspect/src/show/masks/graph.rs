//! A graph of ten nodes as a drawing, as its adjacency matrix, as the mask that it makes, and by the weights of graph attention
//! under this mask.

use burn::tensor::Device;
use regard_figures::{CellNumbers, ColourScale, Figure, FigureError, Heatmap, Nodes, ValueRange, fixed};
use regard_nn::layers::attention::graph::{GraphAttention, GraphAttentionConfig};
use regard_nn::{Capture, ConfigError, Init, Pass, Spread};
use regard_ops::{Graph, SelfLoops};
use serde_json::{Value, json};

use crate::show::matrix::{Matrix, beside};
use crate::show::{ShowError, normals, random};

/// Number of nodes.
const NODES: usize = 10;
/// Number of features of a node.
const D: usize = 4;

/// Places of the nodes in the drawing: two groups that a bridge joins, and a tail.
const PLACES: [(f64, f64); NODES] = [
    (0.0, 0.22),
    (0.25, 0.0),
    (0.25, 0.45),
    (0.5, 0.22),
    (0.75, 0.45),
    (1.0, 0.3),
    (0.75, 0.8),
    (1.0, 0.7),
    (0.45, 1.0),
    (0.0, 0.85),
];

/// Edges in both directions.
const BOTH_WAYS: [(usize, usize); 13] =
    [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (3, 4), (4, 5), (4, 6), (5, 6), (5, 7), (6, 7), (6, 8), (8, 9)];

/// Edge in one direction: node 0 sees node 9, and node 9 does not see node 0.
const ONE_WAY: (usize, usize) = (9, 0);

/// The graph and the weights of graph attention over it.
pub(super) struct GraphSeen {
    edges: Vec<(usize, usize)>,
    /// 1 for an edge from the row to the column.
    adjacency: Matrix,
    /// 1 if the query (row) sees the key (column): the transposed adjacency matrix, with self-loops.
    mask: Matrix,
    /// Weights of the layer.
    weights: Matrix,
}

/// Creates a layer with one head. The spread of its weights makes attention neither equal nor a choice of one node.
fn layer(seed: u64) -> Result<GraphAttention, ConfigError> {
    let init = Init::new(seed, &Device::flex()).with_spread(Spread::Normal(0.5)).enter("graph");
    GraphAttentionConfig::new(D, 1, D).init(&init)
}

/// Returns random features of the nodes, `[NODES, D]`.
fn features(seed: u64) -> Matrix {
    Matrix::new(NODES, D, normals(&mut random(seed), NODES * D))
}

impl GraphSeen {
    /// Computes the weights of one head with random features and weights.
    pub fn new(seed: u64) -> Result<Self, ShowError> {
        let both = BOTH_WAYS.into_iter().flat_map(|(a, b)| [(a, b), (b, a)]);
        let edges: Vec<(usize, usize)> = both.chain([ONE_WAY]).collect();
        let graph = Graph::new(NODES, &edges, SelfLoops::Add)?;
        let capture = Capture::default();
        layer(seed)?.forward(features(seed).tensor(), &graph, &Pass::inference().with_capture(&capture))?;
        let mut weights = Matrix::from_fn(NODES, NODES, |_, _| 0.0);
        for map in capture.into_maps() {
            let keys = map.keys.iter().flatten();
            for (query, (keys, row)) in keys.zip(&map.rows).enumerate() {
                for (&key, &weight) in keys.iter().zip(row) {
                    weights.values[query * NODES + key] = f64::from(weight);
                }
            }
        }
        let has = |from: usize, to: usize| f64::from(u8::from(edges.contains(&(from, to))));
        let adjacency = Matrix::from_fn(NODES, NODES, has);
        let mut mask = Matrix::from_fn(NODES, NODES, |_, _| 0.0);
        graph.edges().for_each(|(source, target)| mask.values[target * NODES + source] = 1.0);
        Ok(Self { edges, adjacency, mask, weights })
    }

    pub fn text(&self) -> String {
        let mut text = format!(
            "\nA graph of {NODES} nodes. An edge from j to i lets i see j, so the mask is the transposed adjacency matrix, and \
             every node also sees itself.\n\n"
        );
        let marks = |title: &str, matrix: &Matrix| {
            let row = |row: usize| {
                let marks: String = matrix.row(row).iter().map(|&v| if v > 0.0 { " ■" } else { " ·" }).collect();
                format!("{row}{marks}")
            };
            let numbers: String = (0..NODES).map(|node| format!(" {node}")).collect();
            let head = [title.to_string(), format!(" {numbers}")];
            head.into_iter().chain((0..NODES).map(row)).collect::<Vec<_>>()
        };
        text += &beside(&[
            marks("adjacency: from row to column", &self.adjacency),
            marks("mask: row sees column", &self.mask),
        ]);
        text += "\nWeights of graph attention under this mask, with random features:\n\n";
        for query in 0..NODES {
            let seen = (0..NODES).filter(|&key| self.mask.at(query, key) > 0.0);
            let seen: Vec<String> =
                seen.map(|key| format!("{key} {}", fixed(self.weights.at(query, key), 3))).collect();
            text += &format!("node {query} sees  {}\n", seen.join("   "));
        }
        text
    }

    pub fn json(&self) -> Value {
        json!({
            "nodes": NODES, "edges": self.edges, "adjacency": self.adjacency.json(), "mask": self.mask.json(),
            "weights": self.weights.json(),
        })
    }

    /// Adds four panels: drawing, adjacency matrix, mask and weights.
    pub fn draw(&self, figure: &mut Figure) -> Result<(), FigureError> {
        let nodes = PLACES.iter().enumerate().map(|(node, &place)| (node.to_string(), place));
        figure.push("a graph: lines go both ways, the arrow one way", Nodes::new(nodes, self.edges.iter().copied())?);
        let unit = ColourScale::sequential(ValueRange::Fixed { low: 0.0, high: 1.0 });
        let labels = || (0..NODES).map(|node| node.to_string());
        let map = |matrix: &Matrix| -> Result<Heatmap, FigureError> {
            let map = matrix.heatmap()?.scale(unit).numbers(CellNumbers::WhereTheyFit).absent("masked").side(260);
            Ok(map.row_labels(labels()).column_labels(labels()))
        };
        let masked = |matrix: &Matrix| matrix.map(|i, j, v| if self.mask.at(i, j) > 0.0 { v } else { f64::NAN });
        figure.push("its adjacency matrix: 1 for an edge", map(&self.adjacency)?.axes("from", "to"));
        figure.push("its mask: transposed, and each node sees itself", map(&masked(&self.mask))?.axes("query", "key"));
        figure.push("weights of graph attention", map(&masked(&self.weights))?.axes("query", "key"));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use burn::module::Param;
    use burn::tensor::Tensor;
    use regard_nn::layers::attention::graph::Score;

    use super::*;

    /// `softmax_j LeakyReLU(a_source·W x_j + a_target·W x_i)` over the nodes that have an edge to `i`, in f64 from the
    /// parameters of the layer.
    fn by_formula(seed: u64, seen: &GraphSeen) -> Matrix {
        let layer = layer(seed).unwrap();
        let h = features(seed).times(&Matrix::of(layer.values.weight.val()));
        let score = |a: &Param<Tensor<2>>| h.times(&Matrix::of(a.val()).transposed());
        let Score::Static(scores) = &layer.score else { panic!("static scores") };
        let (sources, targets) = (score(&scores.source), score(&scores.target));
        let sees = |i: usize, j: usize| i == j || seen.edges.contains(&(j, i));
        let power = |i: usize, j: usize| {
            let sum = sources.at(j, 0) + targets.at(i, 0);
            if sees(i, j) { (if sum > 0.0 { sum } else { 0.2 * sum }).exp() } else { 0.0 }
        };
        let total = |i: usize| (0..NODES).map(|j| power(i, j)).sum::<f64>();
        Matrix::from_fn(NODES, NODES, |i, j| power(i, j) / total(i))
    }

    #[test]
    fn weights_are_those_of_the_formula() {
        for seed in [0, 1, 2] {
            let seen = GraphSeen::new(seed).unwrap();
            let difference = seen.weights.largest_difference(&by_formula(seed, &seen));
            assert!(difference < 1e-6, "seed {seed}: {difference}");
            // Node 6 sees five nodes, and their weights are not the equal ones of a mask alone.
            let most = seen.weights.row(6).iter().fold(0.0, |most: f64, &w| most.max(w));
            assert!(most > 0.21, "seed {seed}: {most}");
        }
    }

    #[test]
    fn the_mask_is_the_transposed_adjacency_matrix_with_self_loops() {
        let seen = GraphSeen::new(0).unwrap();
        assert_eq!(seen.adjacency.values.iter().sum::<f64>(), 27.0);
        assert_eq!(seen.mask.values.iter().sum::<f64>(), 37.0);
        let one = Matrix::from_fn(NODES, NODES, |i, j| f64::from(u8::from(i == j)));
        assert_eq!(seen.mask, seen.adjacency.transposed().plus(&one));
        assert_eq!((seen.mask.at(0, 9), seen.mask.at(9, 0)), (1.0, 0.0));
        for i in 0..NODES {
            for j in 0..NODES {
                assert_eq!(seen.weights.at(i, j) > 0.0, seen.mask.at(i, j) > 0.0, "{i} {j}");
            }
        }
    }
}
