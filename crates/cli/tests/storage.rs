//! Tests of `--weights bf16`: models of every kind can be used with their weights in half the memory.

mod binary;

use binary::{done, fails_with, pairs, path, regard, sets, text};
use serde_json::Value;

/// Settings that most networks have.
const SMALL: [&str; 4] = ["auto=off", "model.d_model=16", "model.n_layers=1", "train.evaluate_every=10"];
const ATTENDING: [&str; 2] = ["model.n_heads=2", "model.d_ff=32"];

/// Tasks and settings of their networks.
const MODELS: [(&str, &[&[&str]]); 14] = [
    ("translate", &[&SMALL, &ATTENDING]),
    ("translate", &[&SMALL, &["model.kind=lstm"]]),
    ("tag", &[&SMALL, &ATTENDING, &["data.sentences=200"]]),
    ("tag", &[&SMALL, &["model.kind=lstm", "tags.output=crf", "train.label_smoothing=0", "data.sentences=200"]]),
    ("classify", &[&SMALL, &ATTENDING, &["model.position=relative"]]),
    ("generate", &[&SMALL, &ATTENDING]),
    ("pretrain", &[&SMALL, &ATTENDING]),
    ("image", &[&SMALL, &["model.n_heads=2", "train.batch_examples=8"]]),
    ("image", &[&["auto=off", "model.kind=attention_cnn", "train.batch_examples=8", "train.evaluate_every=10"]]),
    ("vectors", &[&SMALL, &ATTENDING]),
    ("graph", &[&["auto=off", "data.papers=200", "train.evaluate_every=10"]]),
    ("graph", &[&["auto=off", "data.papers=200", "model.kind=gcn", "train.evaluate_every=10"]]),
    ("speech", &[&SMALL, &ATTENDING, &["train.batch_examples=8"]]),
    ("write", &[&["auto=off", "model.d_model=16", "model.n_layers=1", "train.evaluate_every=10"]]),
];

/// The scores of a model, by name.
fn scores(model: &str, more: &[&str]) -> Vec<(String, f64)> {
    let printed = done(&regard(&[&["eval", model, "--split", "dev", "--json"], more].concat()));
    let document: Value = serde_json::from_str(&printed).unwrap();
    let metrics = document["metrics"].as_object().unwrap();
    metrics.iter().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect()
}

#[test]
fn weights_of_bf16_hardly_change_scores() {
    let place = tempfile::tempdir().unwrap();
    let pairs = pairs(place.path());
    for (at, (task, settings)) in MODELS.iter().enumerate() {
        let folder = place.path().join(at.to_string());
        let settings = settings.concat();
        let train = ["train", task, "--steps", "3", "--threads", "2", "--out", path(&folder)];
        let data: &[&str] = if *task == "translate" { &["--data", &pairs] } else { &[] };
        let output = regard(&[&train[..], data, &sets(&settings)].concat());
        assert!(output.status.success(), "{task} {settings:?}: {}", text(&output.stderr));
        let whole = scores(path(&folder), &[]);
        let rounded = scores(path(&folder), &["--weights", "bf16"]);
        assert_eq!(whole.len(), rounded.len());
        let has_changed = whole.iter().zip(&rounded).any(|(a, b)| a.1 != b.1);
        assert!(has_changed, "{task} {settings:?}: no weight was rounded");
        let uses: &[&[&str]] = match *task {
            "generate" => &[&["generate", path(&folder), "The", "--tokens", "5"]],
            "translate" | "tag" | "classify" => &[&["predict", path(&folder), "one two three"]],
            _ => &[],
        };
        for used in uses {
            done(&regard(&[*used, &["--weights", "bf16"]].concat()));
        }
        for ((name, whole), (_, rounded)) in whole.iter().zip(&rounded) {
            // A share may change by an example or two, a loss by the rounding.
            let most = if name == "loss" { 2e-3 * whole } else { 0.03 * whole.abs().max(1.0) };
            let near = (whole - rounded).abs() <= most;
            assert!(near, "{task} {settings:?}: {name} {whole} and {rounded}");
        }
    }
}

#[test]
fn a_model_without_such_weights_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("words");
    let train =
        ["train", "words", "--steps", "1", "--out", path(&folder), "--set", "auto=off", "--set", "model.d_model=8"];
    done(&regard(&train));
    let output = regard(&["eval", path(&folder), "--split", "dev", "--weights", "bf16"]);
    fails_with(&output, 1, &["none of its weights can be stored as bf16", "model.safetensors"]);
}
