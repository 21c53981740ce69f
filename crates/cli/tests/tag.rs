//! Tests of the task `tag` with a tiny model: train, predict, eval, look, and errors.

mod binary;

use std::fs;
use std::path::Path;
use std::process::Output;

use binary::{documents, done, fails_with, read_document, regard_in, sets, sets_beside, text, write};
use serde_json::{Value, json};

/// Settings small enough to train in a second or two.
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

fn train(place: &Path, out: &str, more: &[&str]) -> Output {
    let train = ["train", "tag", "--out", out, "--steps", "40", "--json"];
    regard_in(place, &[&train[..], &sets_beside(more, &TINY), more].concat())
}

/// Returns `n` sentences whose tags follow from the words.
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
    let at = |arguments: &[&str]| regard_in(&place, arguments);
    let lines = documents(&done(&train(place.path(), "model", &["--set", "data.longest=7"])));
    let last = lines.last().unwrap();
    assert_eq!((&last["finished"], lines.len()), (&Value::Bool(true), 3));
    for file in ["words.json", "characters.json", "labels.json", "model.safetensors", "report.html"] {
        assert!(place.path().join("model").join(file).is_file(), "{file}");
    }
    let report = fs::read_to_string(place.path().join("model/report.html")).unwrap();
    assert!(report.contains("Confusion matrix of tags") && report.contains("layer 1"));

    let predictions = documents(&done(&at(&["predict", "model", "--json", "I saw a saw.", "Zorblax sleeps ."])));
    assert_eq!(predictions.len(), 2);
    assert_eq!(predictions[0]["input"], "I saw a saw.");
    assert_eq!(predictions[0]["tokens"], json!(["I", "saw", "a", "saw", "."]));
    let tags: Vec<&str> = predictions[0]["tags"].as_array().unwrap().iter().map(|tag| tag.as_str().unwrap()).collect();
    let output: Vec<String> =
        ["I", "saw", "a", "saw", "."].iter().zip(&tags).map(|(w, t)| format!("{w}/{t}")).collect();
    assert_eq!(predictions[0]["output"], output.join(" "));
    assert_eq!(tags[4], "PUNCT", "even a tiny model knows the full stop");

    let score = &documents(&done(&at(&["eval", "model", "--json"])))[0];
    assert_eq!((score["task"].as_str(), score["split"].as_str()), (Some("tag"), Some("test")));
    let metric = |name: &str| score["metrics"][name].as_f64().unwrap_or_else(|| panic!("{name} in {score}"));
    assert!(metric("accuracy") > 0.3 && metric("accuracy") < 1.0 && metric("loss") > 0.0);
    assert!((0.0..=1.0).contains(&metric("accuracy_longer")));
    assert_eq!(last["metrics"]["accuracy"].as_f64(), Some(metric("accuracy")), "eval of the same split: {last}");

    for out in ["look.html", "look.json"] {
        done(&at(&["look", "model", "I saw a saw.", "--out", out]));
    }
    let view = read_document(&place.path().join("look.json"));
    assert_eq!(view["tokens"], json!(["I", "saw", "a", "saw", "."]));
    let weights = view["maps"][0]["weights"][0].as_array().unwrap();
    let sum: f64 = weights.iter().map(|weight| weight.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-3 && view["maps"].as_array().unwrap().len() == 4, "one map per head: {view}");

    fails_with(&at(&["predict", "model", "  "]), 1, &["1 to 200 words", "data.max_length", "got 0"]);
    let long = "saw ".repeat(201);
    fails_with(&at(&["predict", "model", &long]), 1, &["1 to 200 words", "data.max_length", "got 201"]);
}

#[test]
fn spans_of_two_columns_by_every_other_network() {
    let place = tempfile::tempdir().unwrap();
    write(&place, "ner.tsv", two_columns(400));
    for kind in ["rnn", "lstm", "gru", "intra"] {
        let output = match kind {
            "lstm" => "tags.output=crf",
            _ => "tags.output=softmax",
        };
        let kind_set = format!("model.kind={kind}");
        let settings = sets(&["words.min_count=1", "train.learning_rate=1e-2", &kind_set, output]);
        let more = [&["--data", "ner.tsv"][..], &settings].concat();
        let last = documents(&done(&train(place.path(), kind, &more))).pop().unwrap();
        let metric = |name: &str| last["metrics"][name].as_f64().unwrap_or_else(|| panic!("{name} in {last}"));
        assert!(metric("f1") > 0.5 && metric("precision") > 0.5 && metric("recall") > 0.5, "{kind}: {last}");
    }
    let at = |arguments: &[&str]| regard_in(&place, arguments);
    // A tag that is not in the training data counts as wrong and is not an error.
    write(&place, "new.tsv", "Rome1\tB-LOC\n.\tX\n");
    let score = &documents(&done(&at(&["eval", "lstm", "--data", "new.tsv", "--json"])))[0];
    assert!(score["metrics"]["accuracy"].as_f64().unwrap() <= 0.5, "{score}");
    done(&at(&["look", "intra", "Anna1 saw Rome2.", "--out", "look.json"]));
    let view = read_document(&place.path().join("look.json"));
    assert_eq!(
        (&view["maps"][1]["name"], &view["maps"][1]["words"]),
        (&json!("0.1"), &json!("layer 1, read backwards"))
    );
    assert_eq!(view["maps"][1]["keys"], json!([".", "Rome2", "saw", "Anna1"]));
    fails_with(&at(&["look", "lstm", "Anna1 saw Rome2."]), 2, &["has no attention", "model.kind=transformer"]);
}

#[test]
fn bad_data_and_settings_are_refused_by_name() {
    let place = tempfile::tempdir().unwrap();
    let with = |name: &str, content: &[u8], more: &[&str]| {
        write(&place, name, content);
        train(place.path(), "never", &[&["--data", name], more].concat())
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
        ("words.characters.widths=[]", ["words.characters.widths", "one window", "at least one"]),
        ("model.word_dropout=1.5", ["model.word_dropout", "1.5", "0"]),
    ] {
        fails_with(&train(place.path(), "never", &["--set", set]), 2, &words);
    }
    let smooth = sets(&["tags.output=crf", "train.label_smoothing=0.1"]);
    fails_with(&train(place.path(), "never", &smooth), 2, &["train.label_smoothing", "crf"]);
    fails_with(&train(place.path(), "never", &["--set", "model.from=nothing"]), 1, &["nothing", "not a model folder"]);
    assert!(!place.path().join("never").exists(), "a refused run leaves no folder");
}

#[test]
fn sentences_that_are_left_out_are_counted() {
    let place = tempfile::tempdir().unwrap();
    write(&place, "ner.tsv", two_columns(400));
    let more = ["--data", "ner.tsv", "--set", "data.max_length=6", "--set", "data.share=0.5"];
    let output = train(place.path(), "model", &more);
    let message = text(&output.stderr);
    assert!(message.contains("sentences of more than 6 words (data.max_length) are left out"), "{message}");
    assert!(message.contains("training sentences are used (data.share)"), "{message}");
    // Test sentences that are too long are still scored, in pieces.
    let last = documents(&done(&output)).pop().unwrap();
    assert!(last["metrics"]["accuracy"].as_f64().unwrap() > 0.3, "{last}");
}

#[test]
fn a_pretrained_encoder_is_copied_into_the_model() {
    let place = tempfile::tempdir().unwrap();
    let at = |arguments: &[&str]| regard_in(&place, arguments);
    let plain: String = (0..200).map(|i| format!("Anna{} Smith saw Rome{} again.\n", i % 17, i % 7)).collect();
    write(&place, "plain.txt", plain);
    let small =
        ["model.d_model=16", "model.d_ff=16", "model.n_layers=1", "model.n_heads=2", "data.tokenizer.vocab=300"];
    let pretrain = ["train", "pretrain", "--data", "plain.txt", "--out", "bert", "--steps", "5", "--json"];
    documents(&done(&at(&[&pretrain[..], &sets(&small)].concat())));

    documents(&done(&train(place.path(), "model", &sets(&["model.from=bert", "words.pieces=mean"]))));
    fails_with(&train(place.path(), "never", &["--set", "model.from=model"]), 1, &["pretrain", "tag"]);
    fs::remove_dir_all(place.path().join("bert")).unwrap();
    let found = documents(&done(&at(&["predict", "model", "--json", "I saw a saw."])));
    assert_eq!(found[0]["tags"].as_array().unwrap().len(), 5);
    done(&at(&["look", "model", "I saw a saw.", "--out", "look.json"]));
    let view = read_document(&place.path().join("look.json"));
    let map = &view["maps"][0];
    assert_eq!((&map["name"], &map["keys"][0]), (&Value::from("encoder.0.0"), &Value::from("<s>")), "{map}");
}
