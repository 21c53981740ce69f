//! Tests of the task `classify`: train, predict, eval, look, and errors.

mod binary;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use binary::{
    SMALL, document, documents, done, fails_with, last_document, path, read_document, regard, sets, sets_beside, write,
};
use serde_json::{Value, json};

/// Returns 400 different texts, where one word decides the label.
fn reviews(label: impl Fn(usize) -> (&'static str, &'static str)) -> String {
    let mut content = "text\tlabel\n".to_string();
    for n in 0..400 {
        let (word, label) = label(n);
        writeln!(content, "number {n} is a {word} one\t{label}").unwrap();
    }
    content
}

fn trained(place: &Path, data: &str, settings: &[&str]) -> (PathBuf, Value) {
    let folder = place.join(format!("run-{}", fs::read_dir(place).unwrap().count()));
    let train = ["train", "classify", "--data", data, "--out", path(&folder), "--steps", "80", "--json"];
    let last = last_document(&done(&regard(&[&train[..], &sets_beside(settings, &SMALL), &sets(settings)].concat())));
    assert_eq!((&last["finished"], &last["split"]), (&Value::Bool(true), &Value::from("test")));
    (folder, last)
}

fn predicted(folder: &Path, inputs: &[&str]) -> Vec<Value> {
    documents(&done(&regard(&[&["predict", path(folder), "--json"], inputs].concat())))
}

#[test]
fn one_label_from_a_file_to_maps() {
    let place = tempfile::tempdir().unwrap();
    let data =
        write(&place, "reviews.tsv", reviews(|n| if n.is_multiple_of(3) { ("bad", "neg") } else { ("good", "pos") }));
    let (folder, last) = trained(place.path(), &data, &["data.fold=2/10"]);
    let name = path(&folder);
    assert_eq!(last["metrics"]["accuracy"], 1.0, "{last}");

    let found = predicted(&folder, &["number 7 is a bad one", "A GOOD one"]);
    assert_eq!((found[0]["label"].as_str(), found[0]["output"].as_str()), (Some("neg"), Some("neg")));
    assert_eq!((found[1]["label"].as_str(), found[1]["input"].as_str()), (Some("pos"), Some("A GOOD one")));
    let [neg, pos] = ["neg", "pos"].map(|label| found[1]["probabilities"][label].as_f64().unwrap());
    assert!((neg + pos - 1.0).abs() < 1e-5 && pos > 0.5, "{neg} {pos}");

    // Scores the model's own test split again, and a file with the labels reversed.
    let own = document(&done(&regard(&["eval", name, "--json"])));
    assert_eq!((&own["task"], &own["metrics"]["accuracy"]), (&Value::from("classify"), &Value::from(1.0)));
    let turned = write(&place, "turned.tsv", reviews(|_| ("bad", "pos")));
    let turned = document(&done(&regard(&["eval", name, "--data", &turned, "--json"])));
    assert!(turned["metrics"]["accuracy"].as_f64().unwrap() < 0.2 && turned["examples"] == 400, "{turned}");

    let page = place.path().join("look.html");
    done(&regard(&["look", name, "one bad", "one good", "--out", path(&page)]));
    assert!(fs::read_to_string(&page).unwrap().contains("0 (layer 1)"));
    let maps = place.path().join("look.json");
    done(&regard(&["look", name, "one bad", "--out", path(&maps)]));
    let maps = read_document(&maps);
    let pooling = maps["maps"].as_array().unwrap().iter().find(|map| map["name"] == "pooling").unwrap();
    assert_eq!((&pooling["queries"], &pooling["keys"]), (&json!(["neg"]), &json!(["one", "bad"])));
    let sum: f64 = pooling["weights"][0].as_array().unwrap().iter().map(|weight| weight.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-3, "{sum}");

    let report = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(report.contains("Confusion matrix of labels") && report.contains("precision"));

    fails_with(&regard(&["predict", name, ""]), 1, &["input", "1 to 256 tokens", "data.max_length", "got 0"]);
    fails_with(&regard(&["predict", name, &"word ".repeat(257)]), 1, &["1 to 256 tokens", "got 257"]);
    fails_with(&regard(&["look", name]), 2, &["give it a text"]);
    let unknown = write(&place, "unknown.tsv", "text\tlabel\na good one\tposs\n");
    let strange = document(&done(&regard(&["eval", name, "--data", &unknown, "--json"])));
    assert!(strange["metrics"]["accuracy"] == 0.0 && strange["metrics"].get("loss").is_none(), "{strange}");
    fs::remove_file(folder.join("labels.json")).unwrap();
    fails_with(&regard(&["predict", name, "good"]), 1, &["labels.json", "missing"]);
}

#[test]
fn several_labels_and_numbers() {
    let place = tempfile::tempdir().unwrap();
    let colours = |n: usize| [("red", "r"), ("red blue", "b|r"), ("blue", "b"), ("grey", "")][n % 4];
    let data = write(&place, "several.tsv", reviews(colours).replace("\tlabel\n", "\tlabels\n"));
    let (folder, last) = trained(place.path(), &data, &["data.target=labels", "model.kind=gru"]);
    assert!(last["metrics"]["micro_f1"].as_f64().unwrap() > 0.9, "{last}");
    assert!(last["metrics"]["subset_accuracy"].as_f64().is_some());
    let found = predicted(&folder, &["number 7 is a red blue one", "number 8 is a grey one"]);
    assert_eq!((&found[0]["labels"], &found[0]["output"]), (&json!(["b", "r"]), &Value::from("b|r")));
    assert_eq!((&found[1]["labels"], &found[1]["output"]), (&json!([]), &Value::from("(none)")));

    let data = write(&place, "numbers.tsv", reviews(|n| [("good", "108"), ("fair", "104.5"), ("bad", "101")][n % 3]));
    let (folder, last) = trained(place.path(), &data, &["data.target=value", "model.kind=bag", "model.d_ff=32"]);
    assert!(last["metrics"]["r2"].as_f64().unwrap() > 0.8, "{last}");
    let found = predicted(&folder, &["number 7 is a good one"]);
    assert!((found[0]["value"].as_f64().unwrap() - 108.0).abs() < 2.0, "{}", found[0]);
    // A bag of words has no attention.
    fails_with(&regard(&["look", path(&folder), "good"]), 2, &["cannot show attention", "model.kind=transformer"]);
}

#[test]
fn texts_longer_than_in_training_are_scored_separately() {
    let place = tempfile::tempdir().unwrap();
    let words = |n: usize| if n.is_multiple_of(2) { ("good", "pos") } else { ("very very very bad", "neg") };
    let data = write(&place, "reviews.tsv", reviews(words));
    let (_, last) = trained(place.path(), &data, &["data.longest=7"]);
    // The training data have no negative text.
    assert_eq!(last["metrics"]["accuracy_longer"], 0.0, "{last}");
    assert!(last["metrics"]["accuracy"].as_f64().unwrap() > 0.0, "{last}");
}

#[test]
fn invalid_data_and_settings_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("run");
    let out = path(&out);
    let train = |data: &str, settings: &[&str], code: i32, words: &[&str]| {
        let from = if data.is_empty() { vec![] } else { vec!["--data", data] };
        fails_with(&regard(&[&["train", "classify", "--out", out][..], &from, &sets(settings)].concat()), code, words);
        assert!(!Path::new(out).exists(), "nothing is written before the data are known to be good");
    };
    let one = write(&place, "one.tsv", reviews(|_| ("good", "pos")));
    train(&one, &[], 1, &["labels of the training examples", "two or more different labels", "only \"pos\""]);
    train(&write(&place, "empty.csv", ""), &[], 1, &["empty.csv", "empty"]);
    train(&write(&place, "binary.csv", "text,label\na\0b,c\n"), &[], 1, &["binary.csv", "NUL byte"]);
    train(&write(&place, "tab.tsv", "text\tlabel\na\tpos\nb pos\n"), &[], 1, &["tab.tsv", "line 3", "2 columns"]);
    train(&write(&place, "few.tsv", "text\tlabel\na\tpos\nb\tneg\n"), &[], 1, &["few.tsv", "too few"]);
    let good =
        write(&place, "good.tsv", reviews(|n| if n.is_multiple_of(2) { ("bad", "neg") } else { ("good", "pos") }));
    train(&good, &["data.target=value"], 1, &["number 0 is a bad one", "a number", "neg"]);
    train(&good, &["data.longest=3"], 1, &["data.longest", "1 to 3 tokens"]);
    let numbers = write(&place, "numbers.csv", "text,value\na,1\nb,2\nc,3\n");
    let folder = place.path().join("parts");
    fs::create_dir(&folder).unwrap();
    for part in ["train", "dev", "test"] {
        fs::copy(&numbers, folder.join(format!("{part}.csv"))).unwrap();
    }
    train(path(&folder), &[], 1, &["line 2", "data.target is label", "--set data.target=value"]);
    train(&good, &["model.colour=red"], 2, &["colour"]);
    train(&good, &["model.kind=intra"], 2, &["model.kind", "`transformer`, `rnn`, `lstm`, `gru`, `bag`"]);
    train(&good, &["model.kind=lstm", "model.from=nowhere"], 2, &["model.from", "model.kind=transformer"]);
    train(&good, &["model.from=nowhere"], 1, &["nowhere", "not a model folder"]);
    train(&good, &["data.target=value", "train.label_smoothing=0.1"], 2, &["train.label_smoothing"]);
    train("", &["data.fold=1/10"], 2, &["data.fold", "built-in"]);
    train("", &["data.target=labels"], 2, &["data.target", "built-in"]);
}
