//! Tests of checkpoints that are trained further: from a folder of transformers to predictions, and to such a folder again.

mod binary;

use std::fs;
use std::path::Path;

use binary::{document, documents, done, fails_with, path, regard, sets, text, write};
use serde_json::Value;

fn golden(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/hugging_face").join(name);
    path(&folder).to_string()
}

/// Settings of a short training.
const SHORT: [&str; 7] = [
    "train.steps=150",
    "train.learning_rate=5e-3",
    "train.warmup=5",
    "train.evaluate_every=20",
    "train.checkpoint_every=20",
    "train.batch_examples=8",
    "train.keep=last",
];

/// Writes texts whose label is whether they have a cat.
fn texts(place: &Path) -> String {
    let words = ["the", "a", "big", "small", "red", "old"];
    let mut lines = "text\tlabel\n".to_string();
    for first in words {
        for second in words {
            lines += &format!("{first} {second} cat ran\tyes\n{second} {first} dog ran\tno\n");
        }
    }
    write(place, "texts.tsv", &lines)
}

/// Trains a checkpoint and returns the last document that the command prints.
fn trained(task: &str, name: &str, data: &str, out: &Path, more: &[&str]) -> Value {
    let from = format!("model.from={}", golden(name));
    let settings = sets(&[&[from.as_str()], &SHORT[..], more].concat());
    let arguments = [&["train", task, "--data", data, "--out", path(out), "--json", "--threads", "1"], &settings[..]];
    documents(&done(&regard(&arguments.concat()))).pop().unwrap()
}

#[test]
fn a_classifier_learns_predicts_and_goes_back() {
    let place = tempfile::tempdir().unwrap();
    let data = texts(place.path());
    for (name, more, least) in [
        ("bert-masked", &[][..], 0.9),
        ("bert-masked", &["lora.rank=4", "lora.targets=all-linear", "train.learning_rate=2e-2"][..], 0.9),
        ("sentences", &["model.kind=embedding", "train.learning_rate=0.1"][..], 0.9),
    ] {
        let out = place.path().join(format!("{name}-{}", more.len()));
        let last = trained("classify", name, &data, &out, more);
        assert_eq!(last["finished"], true);
        let answer = document(&done(&regard(&["predict", path(&out), "the old cat ran", "--json"])));
        assert_eq!(answer["label"], "yes", "{answer}");
        let scores = document(&done(&regard(&["eval", path(&out), "--data", &data, "--json"])));
        assert_eq!((&scores["task"], &scores["examples"]), (&"classify".into(), &72.into()));
        assert!(scores["metrics"]["accuracy"].as_f64().unwrap() >= least, "{more:?}: {scores}");
        let shown = place.path().join("look.svg");
        done(&regard(&["look", path(&out), "the old cat ran", "--out", path(&shown)]));
        assert!(fs::read_to_string(&shown).unwrap().contains("[CLS]"));
        let back = place.path().join(format!("back-{}", more.len()));
        let export = regard(&["export", path(&out), "--to", "hugging-face", path(&back)]);
        if name == "sentences" {
            fails_with(&export, 2, &["no class there"]);
            continue;
        }
        done(&export);
        let again = document(&done(&regard(&["predict", path(&back), "the old cat ran", "--json"])));
        let (ours, theirs) = (&answer["probabilities"]["yes"], &again["probabilities"]["yes"]);
        assert!((ours.as_f64().unwrap() - theirs.as_f64().unwrap()).abs() < 1e-5, "{ours} {theirs}");
        assert_eq!(out.join("adapter_config.json").is_file(), more.len() == 3);
    }
}

#[test]
fn a_run_resumes_to_the_same_bits() {
    let place = tempfile::tempdir().unwrap();
    let data = texts(place.path());
    let (whole, cut) = (place.path().join("whole"), place.path().join("cut"));
    let lora = ["lora.rank=2", "lora.dropout=0.1"];
    trained("classify", "bert-classifier", &data, &whole, &lora);
    trained("classify", "bert-classifier", &data, &cut, &[&lora[..], &["train.steps=100"]].concat());
    // The schedule depends on the number of steps, so the same run is stopped by its time limit.
    let stopped = place.path().join("stopped");
    let from = format!("model.from={}", golden("bert-classifier"));
    let settings = sets(&[&[from.as_str()], &SHORT[..], &lora[..]].concat());
    let limits =
        ["train", "classify", "--data", &data, "--out", path(&stopped), "--threads", "1", "--minutes", "0.0001"];
    done(&regard(&[&limits[..], &settings].concat()));
    done(&regard(&["train", "classify", "--resume", "--out", path(&stopped), "--threads", "1"]));
    let weights = |folder: &Path| fs::read(folder.join("model.safetensors")).unwrap();
    assert!(weights(&stopped) == weights(&whole), "the weights differ");
    assert!(weights(&cut) != weights(&whole));
}

#[test]
fn a_tagger_and_a_language_model_learn() {
    let place = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    for first in ["the", "a"] {
        for adjective in ["big", "small", "red", "old"] {
            for noun in ["cat", "dog", "mat", "park"] {
                for verb in ["ran", "sat", "saw"] {
                    lines += &format!("{first}\tD\n{adjective}\tA\n{noun}s\tN\n{verb}\tV\n\n");
                }
            }
        }
    }
    let data = write(place.path(), "tags.tsv", &lines);
    let out = place.path().join("tags");
    let last = trained("tag", "bert-tagger", &data, &out, &[]);
    assert!(last["metrics"]["accuracy"].as_f64().unwrap() > 0.9, "{last}");
    let told = done(&regard(&["predict", path(&out), "the old cats sat"]));
    assert!(told.contains("the/D old/A cats/N sat/V"), "{told}");
    done(&regard(&["export", path(&out), "--to", "hugging-face", path(&place.path().join("tags-back"))]));

    let data = write(place.path(), "text.txt", "the cat sat on the mat. the cat ran.\n".repeat(60));
    let out = place.path().join("text");
    let last = trained("generate", "gpt2", &data, &out, &["data.block=16"]);
    assert!(last["metrics"]["loss"].as_f64().unwrap() < 2.0, "{last}");
    let told = done(&regard(&["generate", path(&out), "the cat", "--temperature", "0", "--tokens", "8"]));
    assert!(told.contains("the cat"), "{told}");
    let back = place.path().join("text-back");
    done(&regard(&["export", path(&out), "--to", "hugging-face", path(&back)]));
    let again = done(&regard(&["generate", path(&back), "the cat", "--temperature", "0", "--tokens", "8"]));
    assert_eq!(told, again);
}

#[test]
fn wrong_use_is_explained() {
    let place = tempfile::tempdir().unwrap();
    let data = texts(place.path());
    let fails = |task: &str, settings: &[&str], said: &[&str]| {
        let output = regard(&[&["train", task, "--data", &data], &sets(settings)[..]].concat());
        assert!(!output.status.success() && !place.path().join("runs").exists());
        let told = text(&output.stderr);
        assert!(said.iter().all(|said| told.contains(said)), "{told}");
    };
    let (bert, gpt2) = (format!("model.from={}", golden("bert")), format!("model.from={}", golden("gpt2")));
    fails("classify", &[&gpt2], &["a language model; regard train generate"]);
    fails("classify", &[&bert], &["tokenizer.json"]);
    fails("classify", &[&bert, "model.d_model=8"], &["d_model", "unknown field"]);
    fails("classify", &[&bert, "model.freeze=9"], &["model.freeze", "0 to 2"]);
    fails("classify", &[&bert, "lora.rank=2", "lora.targets=queries"], &["lora.targets", "query"]);
    fails("classify", &[&bert, "model.layer_decay=1.5"], &["model.layer_decay"]);
    fails("classify", &[&bert, "lora.targets=query"], &["lora.rank", "at least 1"]);
    fails("classify", &["model.kind=embedding"], &["model.from", "a folder of transformers"]);
    fails("classify", &["model.from=/nowhere"], &["/nowhere"]);
    fails("generate", &[&bert], &["an encoder of texts"]);
    fails("words", &[&bert], &["from"]);
}

#[test]
fn a_language_model_of_our_own_that_is_a_gpt2_goes_out() {
    let place = tempfile::tempdir().unwrap();
    let data = write(place.path(), "text.txt", "the cat sat on the mat. the cat ran.\n".repeat(40));
    let plain =
        ["auto=off", "model.d_model=16", "model.n_heads=2", "model.d_ff=32", "model.n_layers=1", "data.block=16"];
    let gpt2 = [
        "model.position=learned",
        "model.activation=gelu_tanh",
        "model.embedding_scale=none",
        "model.output_weights=embedding",
        "model.output_bias=none",
    ];
    for (name, more, fits) in [("gpt2", &gpt2[..], true), ("other", &["model.norm=rms"][..], false)] {
        let (out, back) = (place.path().join(name), place.path().join(format!("{name}-back")));
        let settings = sets(&[&plain[..], more].concat());
        let arguments = ["train", "generate", "--data", &data, "--out", path(&out), "--steps", "200", "--threads", "1"];
        done(&regard(&[&arguments[..], &settings].concat()));
        let export = regard(&["export", path(&out), "--to", "hugging-face", path(&back)]);
        if !fits {
            fails_with(&export, 2, &["GPT-2", "model.norm=layer", "model.position=learned"]);
            continue;
        }
        done(&export);
        let continued =
            |model: &Path| done(&regard(&["generate", path(model), "the cat", "--temperature", "0", "--tokens", "6"]));
        assert_eq!(continued(&out), continued(&back));
    }
}
