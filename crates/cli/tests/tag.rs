//! `tag` as a person uses it, in a tiny setting: train, predict, eval, look, and what is refused.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Small enough to be trained in a second or two.
const TINY: [&str; 8] = [
    "model.d_model=32",
    "model.d_ff=32",
    "model.n_layers=1",
    "words.d_word=16",
    "train.evaluate_every=20",
    "train.checkpoint_every=40",
    "train.warmup=10",
    "data.sentences=300",
];

fn regard(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_regard")).args(arguments).current_dir(folder).output().unwrap()
}

fn train(folder: &Path, out: &str, more: &[&str]) -> Output {
    let sets = TINY.iter().flat_map(|set| ["--set", set]);
    let arguments =
        ["train", "tag", "--out", out, "--steps", "40", "--json"].into_iter().chain(sets).chain(more.iter().copied());
    regard(folder, &arguments.collect::<Vec<_>>())
}

fn done(output: Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn fails_with(output: &Output, code: i32, words: &[&str]) {
    // Reports are wrapped to the terminal: the words count, not the lines.
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    let message = text.replace('│', "").split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
    assert!(!message.contains("panicked"), "{message}");
}

/// Sentences whose tags follow from the words, `n` of them.
fn two_columns(n: usize) -> String {
    let sentence = |i: usize| {
        let long = if i.is_multiple_of(5) { "very\tO\nvery\tO\nvery\tO\n" } else { "" };
        format!("{long}Anna{}\tB-PER\nSmith\tI-PER\nsaw\tO\nRome{}\tB-LOC\n.\tO\n\n", i % 17, i % 7)
    };
    (0..n).map(sentence).collect()
}

#[test]
fn from_built_in_sentences_to_tags_scores_and_maps() {
    let place = tempfile::tempdir().unwrap();
    let at = |arguments: &[&str]| regard(place.path(), arguments);
    let lines = done(train(place.path(), "model", &["--set", "data.longest=7"]));
    let last = lines.last().unwrap();
    assert_eq!((&last["finished"], lines.len()), (&Value::Bool(true), 3));
    for file in ["words.json", "characters.json", "labels.json", "model.safetensors", "report.html"] {
        assert!(place.path().join("model").join(file).is_file(), "{file}");
    }
    let report = fs::read_to_string(place.path().join("model/report.html")).unwrap();
    assert!(report.contains("Which tag is taken for which") && report.contains("layer 1"));

    let predictions = done(at(&["predict", "model", "--json", "I saw a saw.", "Zorblax sleeps ."]));
    assert_eq!(predictions.len(), 2);
    assert_eq!(predictions[0]["input"], "I saw a saw.");
    assert_eq!(predictions[0]["tokens"], serde_json::json!(["I", "saw", "a", "saw", "."]));
    let tags: Vec<&str> = predictions[0]["tags"].as_array().unwrap().iter().map(|tag| tag.as_str().unwrap()).collect();
    let output: Vec<String> =
        ["I", "saw", "a", "saw", "."].iter().zip(&tags).map(|(w, t)| format!("{w}/{t}")).collect();
    assert_eq!(predictions[0]["output"], output.join(" "));
    assert_eq!(tags[4], "PUNCT", "even a tiny model knows the full stop");

    let score = &done(at(&["eval", "model", "--json"]))[0];
    assert_eq!((score["task"].as_str(), score["split"].as_str()), (Some("tag"), Some("test")));
    let metric = |name: &str| score["metrics"][name].as_f64().unwrap_or_else(|| panic!("{name} in {score}"));
    assert!(metric("accuracy") > 0.3 && metric("accuracy") < 1.0 && metric("loss") > 0.0);
    assert!((0.0..=1.0).contains(&metric("accuracy_longer")));
    assert_eq!(last["metrics"]["accuracy"].as_f64(), Some(metric("accuracy")), "eval of the same split: {last}");

    for out in ["look.html", "look.json"] {
        let output = at(&["look", "model", "I saw a saw.", "--out", out]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let view: Value = serde_json::from_slice(&fs::read(place.path().join("look.json")).unwrap()).unwrap();
    assert_eq!(view["tokens"], serde_json::json!(["I", "saw", "a", "saw", "."]));
    let weights = view["maps"][0]["weights"][0].as_array().unwrap();
    let sum: f64 = weights.iter().map(|weight| weight.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-3 && view["maps"].as_array().unwrap().len() == 4, "a map a head: {view}");

    fails_with(&at(&["predict", "model", "  "]), 1, &["1 to 200 words", "data.max_length", "got 0"]);
    let long = "saw ".repeat(201);
    fails_with(&at(&["predict", "model", &long]), 1, &["1 to 200 words", "data.max_length", "got 201"]);
}

#[test]
fn spans_of_two_columns_by_every_other_network() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("ner.tsv"), two_columns(400)).unwrap();
    let data = ["--data", "ner.tsv", "--set", "words.min_count=1", "--set", "train.learning_rate=1e-2"];
    for kind in ["rnn", "lstm", "gru", "intra"] {
        let output = match kind {
            "lstm" => "tags.output=crf",
            _ => "tags.output=softmax",
        };
        let kind_set = format!("model.kind={kind}");
        let more: Vec<&str> = data.into_iter().chain(["--set", &kind_set, "--set", output]).collect();
        let last = done(train(place.path(), kind, &more)).pop().unwrap();
        let metric = |name: &str| last["metrics"][name].as_f64().unwrap_or_else(|| panic!("{name} in {last}"));
        assert!(metric("f1") > 0.5 && metric("precision") > 0.5 && metric("recall") > 0.5, "{kind}: {last}");
    }
    let at = |arguments: &[&str]| regard(place.path(), arguments);
    // A tag that training has not is wrong, never an error.
    fs::write(place.path().join("new.tsv"), "Rome1\tB-LOC\n.\tX\n").unwrap();
    let score = &done(at(&["eval", "lstm", "--data", "new.tsv", "--json"]))[0];
    assert!(score["metrics"]["accuracy"].as_f64().unwrap() <= 0.5, "{score}");
    let intra = at(&["look", "intra", "Anna1 saw Rome2.", "--out", "look.json"]);
    assert!(intra.status.success());
    let view: Value = serde_json::from_slice(&fs::read(place.path().join("look.json")).unwrap()).unwrap();
    assert_eq!(view["maps"][1]["layer"], "layer 1, read backwards");
    assert_eq!(view["maps"][1]["keys"], serde_json::json!([".", "Rome2", "saw", "Anna1"]));
    fails_with(&at(&["look", "lstm", "Anna1 saw Rome2."]), 2, &["has none", "model.kind=transformer"]);
}

#[test]
fn bad_data_and_settings_are_refused_by_name() {
    let place = tempfile::tempdir().unwrap();
    let with = |name: &str, content: &[u8], more: &[&str]| {
        fs::write(place.path().join(name), content).unwrap();
        let more: Vec<&str> = ["--data", name].into_iter().chain(more.iter().copied()).collect();
        train(place.path(), "never", &more)
    };
    fails_with(&with("empty.tsv", b"", &[]), 1, &["empty.tsv", "empty"]);
    fails_with(&with("binary.tsv", &[0xff, 0xfe, 0, 1, 2], &[]), 1, &["binary.tsv", "line 1", "UTF-8"]);
    let no_tab = "Anna\tNOUN\nsaw\n";
    fails_with(&with("tab.tsv", no_tab.as_bytes(), &[]), 1, &["tab.tsv", "line 2", "token<TAB>tag", "\"saw\""]);
    let one: String = (0..400).map(|i| format!("word{i}\tNOUN\n\n")).collect();
    fails_with(&with("one.tsv", one.as_bytes(), &[]), 1, &["two or more different tags", "only NOUN"]);
    let all = two_columns(400);
    let short = ["--set", "data.max_length=2"];
    fails_with(&with("long.tsv", all.as_bytes(), &short), 1, &["training data", "none that is short enough"]);
    fails_with(&train(place.path(), "never", &["--data", "none.tsv"]), 1, &["none.tsv"]);
    for (set, words) in [
        ("data.colum=xpos", ["data", "colum", "column"]),
        ("data.column=pos", ["data.column", "upos", "xpos"]),
        ("data.share=0", ["data.share", "above 0", "up to 1"]),
        ("data.longest=500", ["data.longest", "max_length", "200"]),
        ("model.kind=bag", ["model.kind", "transformer", "intra"]),
        ("words.characters.widths=[]", ["words.characters.widths", "one window", "more"]),
        ("model.word_dropout=1.5", ["model.word_dropout", "1.5", "0"]),
    ] {
        fails_with(&train(place.path(), "never", &["--set", set]), 2, &words);
    }
    let smooth = ["--set", "tags.output=crf", "--set", "train.label_smoothing=0.1"];
    fails_with(&train(place.path(), "never", &smooth), 2, &["train.label_smoothing", "crf"]);
    fails_with(&train(place.path(), "never", &["--set", "model.from=nothing"]), 1, &["nothing", "no model folder"]);
    assert!(!place.path().join("never").exists(), "what is refused leaves no folder");
}

#[test]
fn sentences_that_are_left_out_are_counted() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("ner.tsv"), two_columns(400)).unwrap();
    let more = ["--data", "ner.tsv", "--set", "data.max_length=6", "--set", "data.share=0.5"];
    let output = train(place.path(), "model", &more);
    let message = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(message.contains("sentences of more than 6 words (data.max_length) are left out"), "{message}");
    assert!(message.contains("training sentences are used (data.share)"), "{message}");
    // Those of the test split that are too long are scored all the same, in pieces.
    let last = done(output).pop().unwrap();
    assert!(last["metrics"]["accuracy"].as_f64().unwrap() > 0.3, "{last}");
}

#[test]
fn a_pretrained_encoder_is_taken_over_and_then_not_needed() {
    let place = tempfile::tempdir().unwrap();
    let at = |arguments: &[&str]| regard(place.path(), arguments);
    let text: String = (0..200).map(|i| format!("Anna{} Smith saw Rome{} again.\n", i % 17, i % 7)).collect();
    fs::write(place.path().join("plain.txt"), text).unwrap();
    let sets = ["model.d_model=16", "model.d_ff=16", "model.n_layers=1", "model.n_heads=2", "data.tokenizer.vocab=300"];
    let sets = sets.iter().flat_map(|set| ["--set", set]);
    let pretrain = ["train", "pretrain", "--data", "plain.txt", "--out", "bert", "--steps", "5", "--json"];
    done(at(&pretrain.into_iter().chain(sets).collect::<Vec<_>>()));

    let from = ["--set", "model.from=bert", "--set", "words.pieces=mean"];
    done(train(place.path(), "model", &from));
    fails_with(&train(place.path(), "never", &["--set", "model.from=model"]), 1, &["pretrain", "tag"]);
    fs::remove_dir_all(place.path().join("bert")).unwrap();
    let found = done(at(&["predict", "model", "--json", "I saw a saw."]));
    assert_eq!(found[0]["tags"].as_array().unwrap().len(), 5);
    let look = at(&["look", "model", "I saw a saw.", "--out", "look.json"]);
    assert!(look.status.success(), "{}", String::from_utf8_lossy(&look.stderr));
    let view: Value = serde_json::from_slice(&fs::read(place.path().join("look.json")).unwrap()).unwrap();
    let map = &view["maps"][0];
    assert_eq!((&map["layer"], &map["keys"][0]), (&Value::from("encoder layer 1"), &Value::from("<s>")), "{map}");
}
