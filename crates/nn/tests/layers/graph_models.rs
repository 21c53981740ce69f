//! Tests of the classifiers of nodes against PyTorch, of their sparse features, and of their errors.

use burn::tensor::Tensor;
use regard_nn::layers::attention::graph::{GraphAttentionConfig, Score, Scoring};
use regard_nn::layers::graph_convolution::normalised;
use regard_nn::layers::node_features::NodeFeatures;
use regard_nn::models::graph::{
    GatConfig, GcnConfig, GraphClassifier, GraphClassifierConfig, GraphNetworkConfig, NodeBatch, NodeLayer,
};
use regard_nn::{Ablation, Capture, Init, Pass};
use regard_ops::{Graph, SelfLoops, SparseMatrix};

use crate::golden::Golden;
use crate::link::{Action, Link};
use crate::support::{close, gradient, training, values};

const OUTPUTS: usize = 3;

fn network(case: &str) -> GraphNetworkConfig {
    let gat = |scoring| GatConfig { d_model: 6, n_heads: 2, output_heads: 2, scoring, ..GatConfig::default() };
    let dense = GcnConfig { d_model: 6, ..GcnConfig::default() };
    match case {
        "gat" => GraphNetworkConfig::Gat(gat(Scoring::Static)),
        "gatv2" => GraphNetworkConfig::Gat(gat(Scoring::Dynamic)),
        "gcn" => GraphNetworkConfig::Gcn(dense),
        "dnn" => GraphNetworkConfig::Dnn(dense),
        "propagated_gat" => {
            GraphNetworkConfig::Gat(GatConfig { propagation: 4, teleport: 0.2, ..gat(Scoring::Static) })
        }
        "propagated_dnn" => GraphNetworkConfig::Dnn(GcnConfig { propagation: 4, teleport: 0.2, ..dense }),
        _ => panic!("{case}"),
    }
}

fn model(case: &str, d_in: usize) -> (GraphClassifier, Init) {
    let init = Init::new(1, &training());
    let config = GraphClassifierConfig { d_in, outputs: OUTPUTS, network: network(case) };
    (config.init(&init).unwrap(), init)
}

fn link(link: &Link, model: &mut GraphClassifier) {
    for (n, layer) in model.layers.iter_mut().enumerate() {
        let name = |part: &str| format!("layers.{n}.{part}");
        match layer {
            NodeLayer::Attention(layer) => {
                link.transposed(&mut layer.values.weight, &name("values.weight"), None);
                match &mut layer.score {
                    Score::Static(score) => {
                        link.plain(&mut score.source, &name("source"), None);
                        link.plain(&mut score.target, &name("target"), None);
                    }
                    Score::Dynamic(score) => {
                        link.plain(&mut score.vector, &name("source"), None);
                        link.transposed(&mut score.target.weight, &name("target.weight"), None);
                    }
                }
                link.plain(layer.bias.as_mut().unwrap(), &name("bias"), None);
            }
            NodeLayer::Convolution(layer) => {
                link.transposed(&mut layer.values.weight, &name("values.weight"), None);
                link.plain(&mut layer.bias, &name("bias"), None);
            }
            NodeLayer::Dense(layer) => link.linear(layer, &format!("layers.{n}")),
        }
    }
}

/// Turns the rows of a dense matrix into their entries that are not zero.
fn sparse(x: &[f32], columns: usize) -> SparseMatrix {
    let row = |row: &[f32]| row.iter().copied().enumerate().filter(|(_, value)| *value != 0.0).collect::<Vec<_>>();
    SparseMatrix::new(columns, &x.chunks(columns).map(row).collect::<Vec<_>>()).unwrap()
}

fn batch(golden: &Golden, case: &str) -> NodeBatch {
    let name = |name: &str| format!("{case}/{name}");
    let [nodes, d_in] = golden.shape(&name("x"))[..] else { panic!("features of nodes") };
    let edges: Vec<i64> = golden.integers::<2>(&name("edges"), &training()).into_data().iter().collect();
    let (from, to) = edges.split_at(edges.len() / 2);
    let edges: Vec<(usize, usize)> = from.iter().zip(to).map(|(&from, &to)| (from as usize, to as usize)).collect();
    let graph = Graph::new(nodes, &edges, SelfLoops::AsGiven).unwrap();
    NodeBatch { features: sparse(&golden.floats(&name("x")), d_in), graph, adjacency: None }
}

#[test]
fn logits_losses_and_all_gradients_match_pytorch() {
    let golden = Golden::open("graph_models");
    for (case, _) in golden.cases() {
        let (batch, name) = (batch(&golden, &case), |name: &str| format!("{case}/{name}"));
        let (mut model, _) = model(&case, batch.features.columns());
        link(&Link { golden: &golden, case: &case, action: Action::Load }, &mut model);
        let pass = Pass::inference();
        let logits = model.logits(&batch, &pass).unwrap();
        close(&case, &values(logits), &golden.floats(&name("logits")), 1e-5);
        let targets = golden.integers::<1>(&name("targets"), &training());
        let targets: Vec<usize> = targets.into_data().iter::<i64>().map(|target| target as usize).collect();
        let labels = golden.integers::<1>(&name("labels"), &training());
        let loss = model.loss(&batch, &targets, labels, 0.1, &pass).unwrap();
        close(&case, &values(loss.clone()), &golden.floats(&name("loss")), 1e-5);
        let gradients = loss.backward();
        link(&Link { golden: &golden, case: &case, action: Action::Compare(&gradients, 2e-5) }, &mut model);
    }
}

#[test]
fn sparse_features_are_those_of_the_dense_matrix() {
    let golden = Golden::open("graph_models");
    let batch = batch(&golden, "gat");
    let [nodes, d_in] = [batch.features.rows(), batch.features.columns()];
    let layer = GraphAttentionConfig::new(d_in, 2, 4).init(&Init::new(2, &training())).unwrap();
    let dense: Tensor<2> = golden.tensor("gat/x", &training());
    let run = |x: NodeFeatures| {
        let y = layer.forward(x, &batch.graph, &Pass::inference()).unwrap();
        let gradients = y.clone().sum().backward();
        (values(y), gradient(&layer.values.weight.val(), &gradients))
    };
    let (sparse, dense) = (run(NodeFeatures::Sparse(batch.features.clone(), None)), run(dense.into()));
    close("outputs", &sparse.0, &dense.0, 1e-6);
    close("gradients", &sparse.1, &dense.1, 1e-6);
    assert_eq!(sparse.0.len(), nodes * 8);
}

#[test]
fn heads_have_names_and_can_be_switched_off() {
    let golden = Golden::open("graph_models");
    for case in ["gat", "gatv2"] {
        let batch = batch(&golden, case);
        let (model, init) = model(case, batch.features.columns());
        let inventory = init.inventory();
        let names: Vec<String> = inventory.heads().map(|(site, head)| site.head(head)).collect();
        assert_eq!(names, ["0.0", "0.1", "1.0", "1.1"]);
        let capture = Capture::default();
        let whole = values(model.logits(&batch, &Pass::inference().with_capture(&capture)).unwrap());
        let maps = capture.into_maps();
        assert_eq!(maps.len(), 4);
        for row in maps.iter().flat_map(|map| &map.rows) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{case}: {row:?}");
        }
        for name in ["0.0", "1.1", "1.0=uniform", "0=self", "0"] {
            let ablation = Ablation::parse(name, &inventory).unwrap();
            let without = values(model.logits(&batch, &Pass::inference().with_ablation(&ablation)).unwrap());
            assert!(whole.iter().zip(&without).any(|(a, b)| (a - b).abs() > 1e-6), "{case} {name}");
        }
        let off = Ablation::parse("1", &inventory).unwrap();
        let without = values(model.logits(&batch, &Pass::inference().with_ablation(&off)).unwrap());
        assert!(without.iter().all(|logit| *logit == 0.0), "{case}: the last layer is off: {without:?}");
    }
}

#[test]
fn rows_of_the_normalised_adjacency_follow_the_degrees() {
    let graph = Graph::new(3, &[(0, 1), (1, 0), (1, 2)], SelfLoops::Add).unwrap();
    let weights = normalised(&graph).unwrap();
    let row = |node| weights.row(node).collect::<Vec<_>>();
    let third = 1.0 / 6f32.sqrt();
    // Node 0 sees 0 and 1; node 1 is seen by all three nodes.
    assert_eq!(row(0), [(0, 0.5), (1, third)]);
    assert_eq!(row(2), [(1, third), (2, 1.0 / 2f32.sqrt())]);
}

#[test]
fn invalid_settings_and_sizes_are_errors() {
    let error =
        |network, d_in, outputs| GraphClassifierConfig { d_in, outputs, network }.validate().unwrap_err().to_string();
    let gat = |change: fn(&mut GatConfig)| {
        let mut config = GatConfig::default();
        change(&mut config);
        GraphNetworkConfig::Gat(config)
    };
    assert!(error(gat(|gat| gat.n_heads = 7), 5, 3).contains("network.n_heads = 7: expected a divisor of d_model, 64"));
    assert!(error(gat(|gat| gat.attention_dropout = 1.0), 5, 3).contains("attention_dropout"));
    assert!(error(gat(|gat| gat.n_layers = 0), 5, 3).contains("n_layers"));
    assert!(error(gat(|gat| gat.slope = f32::NAN), 5, 3).contains("slope"));
    assert!(error(GraphNetworkConfig::default(), 0, 3).contains("d_in"));
    assert!(error(GraphNetworkConfig::default(), 5, 1).contains("outputs"));
    let golden = Golden::open("graph_models");
    let batch = batch(&golden, "gcn");
    let (model, _) = model("gcn", batch.features.columns());
    let pass = Pass::inference();
    assert!(model.predict(&batch, &[0, 9], &pass).is_err(), "a node that does not exist");
    let other = NodeBatch { graph: Graph::new(4, &[], SelfLoops::Add).unwrap(), ..batch.clone() };
    assert!(model.logits(&other, &pass).unwrap_err().to_string().contains("rows of features"));
    let narrow = NodeBatch { features: sparse(&[1.0; 18], 2), ..batch };
    assert!(model.logits(&narrow, &pass).is_err(), "another number of features");
}
