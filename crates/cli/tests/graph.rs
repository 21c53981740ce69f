//! Tests of the task on graphs with files: train, check, predict, eval, look, heads, and mistakes in the data.

mod binary;

use std::fs;
use std::path::Path;

use binary::{document, documents, done, fails_with, last_document, path, regard, sets, text};
use serde_json::json;

const SMALL: [&str; 4] = ["model.d_model=16", "model.n_heads=2", "train.learning_rate=2e-2", "train.patience=0"];

/// Writes two groups of nodes: `r…` are linked to each other and so are `b…`, and features are mostly noise.
fn groups(place: &Path) {
    fs::create_dir_all(place).unwrap();
    let (mut nodes, mut edges) = ("node\tsplit\tlabel\tfeatures\n".to_string(), String::new());
    for at in 0..30 {
        let split = ["train", "train", "val", "test", "none"][at % 5];
        for (letter, label, own) in [("r", "red", 0), ("b", "blue", 1)] {
            let feature = if split == "train" { own } else { 2 };
            nodes += &format!("{letter}{at}\t{split}\t{label}\t{feature} {}\n", 3 + at % 4);
            for step in [1, 3] {
                edges += &format!("{letter}{at}\t{letter}{}\n", (at + step) % 30);
            }
        }
    }
    nodes += "lone\tnone\t\t2\n";
    fs::write(place.join("nodes.tsv"), nodes).unwrap();
    fs::write(place.join("edges.tsv"), edges).unwrap();
}

#[test]
fn a_graph_is_learned_and_used() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("groups");
    groups(&data);
    let out = place.path().join("model");
    let model = path(&out);
    let train = ["train", "graph", "--data", path(&data), "--out", model, "--steps", "80"];
    let told = regard(&[&train[..], &sets(&SMALL)].concat());
    let said = done(&told) + &text(&told.stderr);
    for words in
        ["24 train, 12 dev, 12 test", "61 nodes, 301 edges", "only their own features tell about: 1", "blue 12, red 12"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let scored = last_document(&done(&regard(&["eval", model, "--json"])));
    assert_eq!(scored["metrics"]["accuracy"], 1.0, "{scored}");

    // The weights are kept that are the best so far by accuracy and by loss.
    let (mut highest, mut lowest, mut kept) = (f64::NEG_INFINITY, f64::INFINITY, 0);
    for line in documents(&fs::read_to_string(out.join("metrics.jsonl")).unwrap()) {
        if line["split"] == "dev" {
            let [accuracy, loss] = ["accuracy", "loss"].map(|name| line["metrics"][name].as_f64().unwrap());
            assert_eq!(line["best"], accuracy >= highest && loss <= lowest, "{line}");
            (highest, lowest) = (highest.max(accuracy), lowest.min(loss));
            kept = if line["best"] == true { line["step"].as_u64().unwrap() } else { kept };
        }
    }
    assert!(said.contains(&format!("step {kept}, which had the best accuracy and loss")), "{kept}: {said}");

    // One unknown node is refused alone, and a node without neighbours is answered.
    let list = place.path().join("list.txt");
    fs::write(&list, "r3\nnobody\n{\"node\": \"b8\"}\nlone\n").unwrap();
    let output = regard(&["predict", model, "--input", path(&list), "--json"]);
    let answers = documents(&text(&output.stdout));
    assert_eq!(answers.len(), 4, "{}", text(&output.stderr));
    assert_eq!((&answers[0]["label"], &answers[2]["label"]), (&json!("red"), &json!("blue")));
    let refused = answers[1].to_string() + &text(&output.stderr);
    assert!(refused.contains("a node of the graph"), "{refused}");
    let edges = answers[0]["edges"].as_array().unwrap();
    assert_eq!((edges.len(), edges[0]["weight"].as_array().unwrap().len()), (5, 3), "{}", answers[0]);
    assert_eq!(answers[3]["edges"].as_array().unwrap().len(), 1, "only itself: {}", answers[3]);
    let without = last_document(&done(&regard(&["predict", model, "r3", "--json", "--without", "0.1"])));
    assert!(without["without"]["label"].is_string(), "{without}");

    let table = fs::read_to_string(out.join("edges.tsv")).unwrap();
    assert_eq!(table.lines().count(), 302, "a line for each edge, and a header");
    for file in ["look.svg", "look.html", "look.json"] {
        let file = place.path().join(file);
        done(&regard(&["look", model, "r3", "--out", path(&file)]));
        assert!(fs::read_to_string(&file).unwrap().contains("r4"), "{}", file.display());
    }
    let heads = last_document(&done(&regard(&["heads", model, "--json"])));
    let names: Vec<&str> =
        heads["heads"].as_array().unwrap().iter().map(|head| head["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["0.0", "0.1", "1.0"]);
    assert!(heads["heads"][0]["entropy"].as_f64().unwrap() > 0.0 && heads["heads"][0]["distance"].is_null());
    let counted = document(&done(&regard(&["count", model, "--json"])));
    assert_eq!(counted["parameters"]["total"], 7 * 16 + 2 * 16 + 16 + 16 * 2 + 2 * 2 + 2, "{counted}");

    // The model can score another graph, and says what is missing when its own is gone.
    let other = place.path().join("other");
    groups(&other);
    let scored = last_document(&done(&regard(&["eval", model, "--data", path(&other), "--json"])));
    assert_eq!(scored["examples"], 60, "{scored}");
    fs::remove_dir_all(&data).unwrap();
    fails_with(&regard(&["predict", model, "r3"]), 1, &["put the graph back"]);
    assert!(done(&regard(&["eval", model, "--data", path(&other), "--json"])).contains("accuracy"));
}

#[test]
fn mistakes_in_a_graph_are_named() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("bad");
    groups(&data);
    let nodes = fs::read_to_string(data.join("nodes.tsv")).unwrap();
    let edges = fs::read_to_string(data.join("edges.tsv")).unwrap();
    let out = place.path().join("model");
    let refuses = |words: &str| {
        let output = regard(&["train", "graph", "--data", path(&data), "--out", path(&out), "--steps", "1"]);
        fails_with(&output, 1, &[words]);
        assert!(!out.exists(), "nothing is written");
    };
    fs::write(data.join("edges.tsv"), format!("{edges}r0\tghost\n")).unwrap();
    refuses("edges.tsv, line 121: expected nodes of nodes.tsv, found \"ghost\"");
    fs::write(data.join("edges.tsv"), &edges).unwrap();
    for (line, words) in [
        ("r0\ttrain\tred\t1", "nodes.tsv, line 63: expected each node once, found \"r0\" again, after line 2"),
        ("new\ttrain\tred\t1:nan", "line 63: expected a finite number as the value of a feature"),
        ("new\tlater\tred\t1", "line 63: expected train, dev, test or none as the split, found \"later\""),
        ("new\ttrain\tred\t99999999999", "line 63: expected a feature below"),
        ("new\ttrain\t\t1", "line 63: expected a label"),
    ] {
        fs::write(data.join("nodes.tsv"), format!("{nodes}{line}\n")).unwrap();
        refuses(words);
    }
    fs::write(data.join("nodes.tsv"), nodes.replace("\ttrain\t", "\tnone\t")).unwrap();
    refuses("expected nodes with the split train");
    fs::write(data.join("nodes.tsv"), nodes.replace("\tblue\t", "\tred\t")).unwrap();
    refuses("two or more different labels");
    fs::remove_file(data.join("edges.tsv")).unwrap();
    refuses("a graph as nodes.tsv and edges.tsv");

    // `data check` names all bad lines.
    fs::write(data.join("nodes.tsv"), format!("{nodes}x\tlater\tred\t1\ny\ttrain\tred\tone\n")).unwrap();
    fs::write(data.join("edges.tsv"), &edges).unwrap();
    let output = regard(&["data", "check", "graph", path(&data)]);
    let said = text(&output.stdout);
    assert!(said.contains("line 63") && said.contains("line 64") && !output.status.success(), "{said}");
}

#[test]
fn built_in_papers_can_be_written_and_read() {
    let place = tempfile::tempdir().unwrap();
    let (data, out) = (place.path().join("papers"), place.path().join("model"));
    done(&regard(&["data", "make", "graph", "--out", path(&data)]));
    let small = sets(&["model.d_model=16", "data.neighbours=[3, 2]", "train.evaluate_every=5"]);
    let train = ["train", "graph", "--data", path(&data), "--out", path(&out), "--steps", "20"];
    let told = regard(&[&train[..], &small].concat());
    let said = done(&told) + &text(&told.stderr);
    assert!(said.contains("accuracy"), "{said}");
    fails_with(&regard(&["look", path(&out), "--positions"]), 2, &["positions"]);
}
