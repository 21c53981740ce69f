//! `classify` as a person uses it: train, predict, eval, look, and what it refuses.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A network small enough to learn in a second.
const SMALL: &[&str] = &[
    "--set",
    "model.d_model=16",
    "--set",
    "model.n_heads=2",
    "--set",
    "model.d_ff=32",
    "--set",
    "model.n_layers=1",
    "--set",
    "train.evaluate_every=20",
    "--set",
    "train.warmup=5",
    "--set",
    "train.learning_rate=1e-2",
];

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_regard")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn succeeds(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn fails_with(arguments: &[&str], code: i32, words: &[&str]) {
    let output = run(arguments);
    // Reports are wrapped to the terminal: the letters count, not the lines.
    let squeeze = |text: &str| text.replace('│', "").split_whitespace().collect::<String>();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
    assert!(words.iter().all(|word| squeeze(&message).contains(&squeeze(word))), "{message}");
    assert!(!message.contains("panicked"), "{message}");
}

fn document(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

fn write(place: &TempDir, name: &str, content: &str) -> String {
    let path = place.path().join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_string()
}

/// Texts of which a word tells the label, with numbers to tell them apart.
fn reviews(label: impl Fn(usize) -> (&'static str, &'static str)) -> String {
    let mut content = "text\tlabel\n".to_string();
    for n in 0..400 {
        let (word, label) = label(n);
        writeln!(content, "number {n} is a {word} one\t{label}").unwrap();
    }
    content
}

fn trained(place: &TempDir, data: &str, more: &[&str]) -> (PathBuf, Value) {
    let folder = place.path().join(format!("run-{}", std::fs::read_dir(place.path()).unwrap().count()));
    let mut arguments =
        vec!["train", "classify", "--data", data, "--out", folder.to_str().unwrap(), "--steps", "80", "--json"];
    arguments.extend(SMALL);
    arguments.extend(more);
    let printed = succeeds(&arguments);
    let last = document(printed.lines().last().unwrap());
    assert_eq!((&last["finished"], &last["split"]), (&Value::Bool(true), &Value::from("test")));
    (folder, last)
}

fn predicted(folder: &Path, inputs: &[&str]) -> Vec<Value> {
    let mut arguments = vec!["predict", folder.to_str().unwrap(), "--json"];
    arguments.extend(inputs);
    succeeds(&arguments).lines().map(document).collect()
}

#[test]
fn one_label_from_a_file_to_maps() {
    let place = tempfile::tempdir().unwrap();
    let data =
        write(&place, "reviews.tsv", &reviews(|n| if n.is_multiple_of(3) { ("bad", "neg") } else { ("good", "pos") }));
    let (folder, last) = trained(&place, &data, &["--set", "data.fold=2/10"]);
    let name = folder.to_str().unwrap();
    assert_eq!(last["metrics"]["accuracy"], 1.0, "{last}");

    let found = predicted(&folder, &["number 7 is a bad one", "A GOOD one"]);
    assert_eq!((found[0]["label"].as_str(), found[0]["output"].as_str()), (Some("neg"), Some("neg")));
    assert_eq!((found[1]["label"].as_str(), found[1]["input"].as_str()), (Some("pos"), Some("A GOOD one")));
    let [neg, pos] = ["neg", "pos"].map(|label| found[1]["probabilities"][label].as_f64().unwrap());
    assert!((neg + pos - 1.0).abs() < 1e-5 && pos > 0.5, "{neg} {pos}");

    // The model's own split again, and a file with the labels turned round.
    let own = document(&succeeds(&["eval", name, "--json"]));
    assert_eq!((&own["task"], &own["metrics"]["accuracy"]), (&Value::from("classify"), &Value::from(1.0)));
    let turned = write(&place, "turned.tsv", &reviews(|_| ("bad", "pos")));
    let turned = document(&succeeds(&["eval", name, "--data", &turned, "--json"]));
    assert!(turned["metrics"]["accuracy"].as_f64().unwrap() < 0.2 && turned["examples"] == 400, "{turned}");

    let page = place.path().join("look.html");
    succeeds(&["look", name, "one bad", "one good", "--out", page.to_str().unwrap()]);
    assert!(std::fs::read_to_string(&page).unwrap().contains("encoder layer 1"));
    let maps = place.path().join("look.json");
    succeeds(&["look", name, "one bad", "--out", maps.to_str().unwrap()]);
    let maps = document(&std::fs::read_to_string(&maps).unwrap());
    let pooling = maps["maps"].as_array().unwrap().iter().find(|map| map["layer"] == "pooling").unwrap();
    assert_eq!(
        (&pooling["queries"], &pooling["keys"]),
        (&serde_json::json!(["neg"]), &serde_json::json!(["one", "bad"]))
    );
    let sum: f64 = pooling["weights"][0].as_array().unwrap().iter().map(|weight| weight.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-3, "{sum}");

    let report = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(report.contains("Which label was taken for which") && report.contains("precision"));

    fails_with(&["predict", name, ""], 1, &["input", "1 to 256 tokens", "data.max_length", "got 0"]);
    fails_with(&["predict", name, &"word ".repeat(257)], 1, &["1 to 256 tokens", "got 257"]);
    fails_with(&["look", name], 2, &["give it a text"]);
    let unknown = write(&place, "unknown.tsv", "text\tlabel\na good one\tposs\n");
    let strange = document(&succeeds(&["eval", name, "--data", &unknown, "--json"]));
    assert!(strange["metrics"]["accuracy"] == 0.0 && strange["metrics"].get("loss").is_none(), "{strange}");
    std::fs::remove_file(folder.join("labels.json")).unwrap();
    fails_with(&["predict", name, "good"], 1, &["labels.json", "missing"]);
}

#[test]
fn several_labels_and_numbers() {
    let place = tempfile::tempdir().unwrap();
    let sets = |n: usize| [("red", "r"), ("red blue", "b|r"), ("blue", "b"), ("grey", "")][n % 4];
    let data = write(&place, "several.tsv", &reviews(sets).replace("\tlabel\n", "\tlabels\n"));
    let (folder, last) = trained(&place, &data, &["--set", "data.target=labels", "--set", "model.kind=gru"]);
    assert!(last["metrics"]["micro_f1"].as_f64().unwrap() > 0.9, "{last}");
    assert!(last["metrics"]["subset_accuracy"].as_f64().is_some());
    let found = predicted(&folder, &["number 7 is a red blue one", "number 8 is a grey one"]);
    assert_eq!((&found[0]["labels"], &found[0]["output"]), (&serde_json::json!(["b", "r"]), &Value::from("b|r")));
    assert_eq!((&found[1]["labels"], &found[1]["output"]), (&serde_json::json!([]), &Value::from("(none)")));

    let data = write(&place, "numbers.tsv", &reviews(|n| [("good", "108"), ("fair", "104.5"), ("bad", "101")][n % 3]));
    let (folder, last) = trained(&place, &data, &["--set", "data.target=value", "--set", "model.kind=bag"]);
    assert!(last["metrics"]["r2"].as_f64().unwrap() > 0.8, "{last}");
    let found = predicted(&folder, &["number 7 is a good one"]);
    assert!((found[0]["value"].as_f64().unwrap() - 108.0).abs() < 2.0, "{}", found[0]);
    // A bag of words has no attention to look at.
    fails_with(&["look", folder.to_str().unwrap(), "good"], 2, &["cannot show attention", "model.kind=transformer"]);
}

#[test]
fn longer_texts_than_trained_on_are_scored_apart() {
    let place = tempfile::tempdir().unwrap();
    let words = |n: usize| if n.is_multiple_of(2) { ("good", "pos") } else { ("very very very bad", "neg") };
    let data = write(&place, "reviews.tsv", &reviews(words));
    let (_, last) = trained(&place, &data, &["--set", "data.longest=7"]);
    // Training has seen no negative text at all.
    assert_eq!(last["metrics"]["accuracy_longer"], 0.0, "{last}");
    assert!(last["metrics"]["accuracy"].as_f64().unwrap() > 0.0, "{last}");
}

#[test]
fn data_and_settings_that_make_no_sense_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("run");
    let out = out.to_str().unwrap();
    let train = |data: &str, sets: &[&str], code: i32, words: &[&str]| {
        let mut arguments = vec!["train", "classify", "--out", out];
        if !data.is_empty() {
            arguments.extend(["--data", data]);
        }
        sets.iter().for_each(|set| arguments.extend(["--set", set]));
        fails_with(&arguments, code, words);
        assert!(!Path::new(out).exists(), "nothing is written before the data are known to be good");
    };
    let one = write(&place, "one.tsv", &reviews(|_| ("good", "pos")));
    train(&one, &[], 1, &["labels of the training examples", "two different ones", "only \"pos\""]);
    train(&write(&place, "empty.csv", ""), &[], 1, &["empty.csv", "empty"]);
    train(&write(&place, "binary.csv", "text,label\na\0b,c\n"), &[], 1, &["binary.csv", "NUL byte"]);
    train(&write(&place, "tab.tsv", "text\tlabel\na\tpos\nb pos\n"), &[], 1, &["tab.tsv", "line 3", "2 columns"]);
    train(&write(&place, "few.tsv", "text\tlabel\na\tpos\nb\tneg\n"), &[], 1, &["few.tsv", "too few"]);
    let good =
        write(&place, "good.tsv", &reviews(|n| if n.is_multiple_of(2) { ("bad", "neg") } else { ("good", "pos") }));
    train(&good, &["data.target=value"], 1, &["number 0 is a bad one", "a number", "neg"]);
    train(&good, &["data.longest=3"], 1, &["data.longest", "1 to 3 tokens"]);
    let numbers = write(&place, "numbers.csv", "text,value\na,1\nb,2\nc,3\n");
    let folder = place.path().join("parts");
    std::fs::create_dir(&folder).unwrap();
    for part in ["train", "dev", "test"] {
        std::fs::copy(&numbers, folder.join(format!("{part}.csv"))).unwrap();
    }
    train(folder.to_str().unwrap(), &[], 1, &["line 2", "data.target is label", "--set data.target=value"]);
    train(&good, &["model.colour=red"], 2, &["colour"]);
    train(&good, &["model.kind=intra"], 2, &["model.kind", "transformer, rnn, lstm, gru, bag"]);
    train(&good, &["model.kind=lstm", "model.from=nowhere"], 2, &["model.from", "model.kind=transformer"]);
    train(&good, &["model.from=nowhere"], 1, &["nowhere", "no model folder"]);
    train(&good, &["data.target=value", "train.label_smoothing=0.1"], 2, &["train.label_smoothing"]);
    train("", &["data.fold=1/10"], 2, &["data.fold", "built-in"]);
    train("", &["data.target=labels"], 2, &["data.target", "built-in"]);
}
