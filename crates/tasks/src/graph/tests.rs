//! Tests of the task on graphs: settings, neighbourhoods, drawn neighbours, weights of edges, and what `look` draws.

use std::fs;

use regard_nn::Wanted;
use serde_json::json;

use super::*;
use crate::opened::viewed;
use crate::task::testing::{answers, configured};

const SMALL: [&str; 4] = ["data.papers=120", "model.d_model=8", "model.n_heads=2", "train.steps=2"];

/// A task on the built-in graph with an untrained network.
fn started(more: &[&str]) -> (Nodes, Parts<Part>, GraphClassifier) {
    let is_gat = !more.iter().any(|set| set.starts_with("model.kind"));
    let small = SMALL.into_iter().filter(|set| is_gat || !set.starts_with("model.n_heads"));
    let sets: Vec<&str> = small.chain(more.iter().copied()).collect();
    let (task, parts) = Nodes::start(configured::<Nodes>(&sets).unwrap()).unwrap();
    let model = task.model(&Init::new(1, &Device::flex())).unwrap();
    (task, parts, model)
}

#[test]
fn settings_are_checked() {
    for (sets, words) in [
        (&["data.papers=3"][..], "data.papers"),
        (&["data.features=10"], "data.features"),
        (&["data.neighbours=[5]"], "as many numbers as model.n_layers, 2"),
        (&["data.neighbours=[5, 0]"], "data.neighbours"),
        (&["data.neighbours=[5, 5]", "model.propagation=2"], "none with model.propagation"),
        (&["model.propagation=1000"], "model.propagation"),
        (&["model.teleport=0"], "model.teleport"),
        (&["model.n_heads=5"], "model.n_heads = 5: expected a divisor of d_model, 64"),
        (&["model.kind=gcn", "model.n_heads=4"], "model.kind=gcn has no n_heads"),
        (&["train.l2=-1"], "train.l2"),
    ] {
        let config = configured::<Nodes>(sets);
        let error = config.and_then(|config| {
            config.train.validate()?;
            crate::task::Validate::validate(&config)
        });
        let told = error.unwrap_err().to_string();
        assert!(told.contains(words), "{sets:?}: {told}");
    }
}

/// The answer for a node depends only on nodes as far away as the network reaches, so its neighbourhood gives the same answer.
#[test]
fn a_neighbourhood_gives_the_answers_of_the_whole_graph() {
    for more in [
        &[][..],
        &["model.scoring=dynamic"],
        &["model.kind=gcn"],
        &["model.kind=dnn"],
        &["data.directed=true"],
        &["model.propagation=2"],
        &["model.kind=dnn", "model.propagation=1", "data.directed=true"],
    ] {
        let (task, parts, model) = started(more);
        let whole = task.outputs(&model, &parts.dev.batch, &parts.dev.nodes, &Pass::inference()).unwrap();
        let names: Vec<&str> = parts.dev.nodes.iter().map(|&node| parts.dev.whole.names[node].as_str()).collect();
        for (found, want) in answers(&task, &model, &names).unwrap().iter().zip(&whole) {
            let all: Vec<f64> =
                found.more["probabilities"].as_object().unwrap().values().map(|p| p.as_f64().unwrap()).collect();
            let near = all.iter().zip(want).all(|(a, b)| (a - f64::from(*b)).abs() < 1e-5);
            assert!(near, "{more:?}: {all:?} {want:?}");
        }
    }
}

#[test]
fn weights_of_edges_are_exported() {
    let (task, parts, model) = started(&[]);
    let node = *parts.dev.nodes.iter().max_by_key(|&&node| parts.dev.whole.degree(node)).unwrap();
    let whole = parts.dev.whole.clone();
    let name = whole.names[node].as_str();
    // The same node twice, and others beside it.
    let found = answers(&task, &model, &[name, whole.names[0].as_str(), name]).unwrap();
    assert_eq!(found[0], found[2]);
    assert_eq!(found[0].more["heads"], json!(["0.0", "0.1", "1.0"]));
    let edges = found[0].more["edges"].as_array().unwrap();
    assert_eq!(edges.len(), whole.degree(node) + 1, "its neighbours and itself");
    for head in 0..3 {
        let sum: f64 = edges.iter().map(|edge| edge["weight"][head].as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-5, "head {head}: {sum}");
    }
    assert!(edges.iter().all(|edge| edge["to"] == name));

    let table = String::from_utf8(task.extras(&model).unwrap().remove("edges.tsv").unwrap()).unwrap();
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("from\tto\t0.0\t0.1\t1.0"));
    let own: Vec<Vec<&str>> =
        lines.map(|line| line.split('\t').collect()).filter(|edge: &Vec<_>| edge[1] == name).collect();
    assert_eq!(own.len(), edges.len());
    for edge in own {
        let same = edges.iter().find(|other| other["from"] == edge[0]).unwrap();
        let weight: f64 = edge[2].parse().unwrap();
        assert!((weight - same["weight"][0].as_f64().unwrap()).abs() < 1e-5, "{edge:?} {same}");
    }
    let (task, _, model) = started(&["model.kind=gcn"]);
    assert!(task.extras(&model).unwrap().is_empty());
    assert!(!answers(&task, &model, &["p1"]).unwrap()[0].more.contains_key("edges"));
}

#[test]
fn drawn_neighbours_depend_on_the_pass_alone() {
    let (task, parts, model) = started(&["data.neighbours=[2, 2]", "model.dropout=0", "model.attention_dropout=0"]);
    assert!(task.is_divisible());
    let loss = |batch: &[usize], seed: u64| {
        let pass = Pass::training(seed);
        let loss = task.loss(&parts.train, batch, &model, &mut Value::Null, &pass).unwrap();
        (loss.mean.into_scalar::<f32>(), loss.targets, loss.tokens)
    };
    let all: Vec<usize> = (0..6).collect();
    assert_eq!(loss(&all, 1), loss(&all, 1));
    assert_ne!(loss(&all, 1).0, loss(&all, 2).0, "other neighbours");
    // The loss of a batch is the mean of those of its parts.
    let (first, second) = (loss(&all[..2], 1), loss(&all[2..], 1));
    let mean = (first.0 * 2.0 + second.0 * 4.0) / 6.0;
    assert!((mean - loss(&all, 1).0).abs() < 1e-5, "{mean} {:?}", loss(&all, 1));
    let block = Block::drawn(&parts.train.batch, &parts.train.nodes[..4], &[2, 2], |node| {
        Pass::training(1).at("node", node).random(&task.drawing)
    });
    let block = block.unwrap();
    let (nodes, edges) = block::most(4, &[2, 2]);
    assert!(block.nodes.len() <= nodes && block.batch.graph.n_edges() <= edges);
    for at in 0..block.within[1] {
        assert!(block.batch.graph.sources(at).count() <= 3, "itself and two neighbours");
    }
    // More than there are is all of them, and then nothing is drawn.
    let (task, parts, model) = started(&["data.neighbours=[999, 999]", "model.dropout=0", "model.attention_dropout=0"]);
    let drawn = task.loss(&parts.train, &all, &model, &mut Value::Null, &Pass::training(3)).unwrap();
    let (task, parts, _) = started(&["model.dropout=0", "model.attention_dropout=0"]);
    assert!(!task.is_divisible());
    let whole = task.loss(&parts.train, &all, &model, &mut Value::Null, &Pass::training(4)).unwrap();
    let (drawn, whole) = (drawn.mean.into_scalar::<f32>(), whole.mean.into_scalar::<f32>());
    assert!((drawn - whole).abs() < 1e-5, "{drawn} {whole}");
}

#[test]
fn an_inductive_run_does_not_see_the_edges_of_held_out_nodes() {
    let (_, parts, _) = started(&["data.inductive=true"]);
    let hidden: Vec<usize> = parts.dev.nodes.iter().chain(&parts.test.as_ref().unwrap().nodes).copied().collect();
    let edges = |batch: &NodeBatch| batch.graph.edges().filter(|(from, to)| from != to).collect::<Vec<_>>();
    assert!(edges(&parts.train.batch).iter().all(|(from, to)| !hidden.contains(from) && !hidden.contains(to)));
    assert!(edges(&parts.dev.batch).len() > edges(&parts.train.batch).len());
    assert!(parts.notes.iter().any(|note| note.starts_with("training sees")), "{:?}", parts.notes);
}

#[test]
fn a_node_and_its_neighbours_are_drawn() {
    for (more, layers) in [
        (&[][..], 2),
        (&["model.n_layers=1"], 1),
        (&["model.n_layers=3"], 3),
        (&["model.propagation=2"], 2),
        (&["model.kind=gcn"], 0),
    ] {
        let (task, _, model) = started(more);
        let input = task.telling(&model).unwrap();
        let (view, draw) = viewed(&task, &model, &input, Wanted::default(), &Pass::inference()).unwrap();
        assert_eq!(view.groups.len(), layers, "{more:?}");
        for group in &view.groups {
            for row in group.heads.iter().flat_map(|head| &head.rows) {
                let sum: f32 = row.iter().sum();
                assert!((sum - 1.0).abs() < 1e-5, "{more:?} {}: {sum}", group.name);
            }
        }
        if let Some(last) = view.groups.last() {
            assert_eq!(last.queries.len(), 1, "the last layer has one query");
        }
        let picture = draw.unwrap()(&view).unwrap();
        assert!(picture.figure.to_svg().contains("itself"), "{more:?}");
        assert_eq!(picture.data["layers"].as_array().unwrap().len(), layers);
    }
}

/// Writes a graph with a node without edges, one without features, and one whose label training does not have.
fn graph(folder: &std::path::Path, more: &str) {
    let nodes = "node\tsplit\tlabel\tfeatures\na\ttrain\tred\t0 1\nb\ttrain\tblue\t2 3\nc\tdev\tred\t0\nd\tdev\tblue\t3\n\
                 lone\ttest\tblue\t2\nempty\ttest\tred\t\nodd\ttest\tgreen\t1\nfree\tnone\t\t0 3\n";
    fs::write(folder.join("nodes.tsv"), format!("{nodes}{more}")).unwrap();
    fs::write(folder.join("edges.tsv"), "a\tc\nb\td\na\tempty\nfree\ta\nodd\tb\n").unwrap();
}

#[test]
fn strange_nodes_get_answers() {
    let place = tempfile::tempdir().unwrap();
    graph(place.path(), "");
    for more in [&[][..], &["data.self_loops=false"], &["model.kind=gcn"], &["model.kind=gcn", "data.self_loops=false"]]
    {
        let path = format!("data.path={}", place.path().display());
        let is_gat = more.iter().all(|set| !set.starts_with("model.kind"));
        let sizes = if is_gat { &["model.d_model=8", "model.n_heads=2"][..] } else { &["model.d_model=8"] };
        let sets: Vec<&str> =
            [path.as_str()].into_iter().chain(sizes.iter().copied()).chain(more.iter().copied()).collect();
        let (task, parts) = Nodes::start(configured::<Nodes>(&sets).unwrap()).unwrap();
        let model = task.model(&Init::new(1, &Device::flex())).unwrap();
        let found = answers(&task, &model, &["lone", "empty", "odd", "free"]).unwrap();
        for answer in &found {
            let sum: f64 =
                answer.more["probabilities"].as_object().unwrap().values().map(|p| p.as_f64().unwrap()).sum();
            assert!((sum - 1.0).abs() < 1e-5, "{more:?} {answer:?}");
        }
        let test = parts.test.as_ref().unwrap();
        assert_eq!(test.unseen, ["green"]);
        let scores = task.evaluate(test, &model, None, &Pass::inference()).unwrap();
        assert_eq!(scores.examples, 3);
        assert!(parts.notes.iter().any(|note| note.contains("nodes without neighbours")), "{:?}", parts.notes);
        for name in ["lone", "empty"] {
            let input = task.input(&name.into()).unwrap();
            let (view, draw) = viewed(&task, &model, &input, Wanted::default(), &Pass::inference()).unwrap();
            draw.unwrap()(&view).unwrap();
        }
    }
}

#[test]
fn a_node_is_asked_for_by_its_name() {
    let (task, _, _) = started(&[]);
    let node = |given: Given| task.input(&given).map(|asked| asked.node);
    assert_eq!(node("p7".into()).unwrap(), 7);
    assert_eq!(node(Given::Json(json!({"node": "p7"}))).unwrap(), 7);
    assert_eq!(node(Given::Json(json!("p7"))).unwrap(), 7);
    for (given, words) in [
        (Given::from("p999"), "expected a node of the graph, which has 120, such as p0, p1, p2, got \"p999\""),
        (Given::Json(json!({"node": 7})), "got \"7\""),
        (Given::Json(json!({"node": [1]})), "the name of a node"),
        (Given::Json(json!({"text": "p7"})), "a node, which this model takes"),
    ] {
        let told = node(given).unwrap_err().to_string();
        assert!(told.contains(words), "{told}");
    }
}
