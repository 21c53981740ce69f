//! Tests of models of our own that go out as folders of transformers: what our loader reads from them computes the same.

mod binary;

use std::fs;
use std::path::{Path, PathBuf};

use binary::{document, done, fails_with, path, regard, sets, write};
use serde_json::Value;

/// Settings of a small network.
const SMALL: [&str; 5] = ["auto=off", "model.d_model=16", "model.n_heads=2", "model.d_ff=32", "model.n_layers=2"];
/// Settings with which an encoder is a BERT.
const BERT: [&str; 5] = [
    "model.position=learned",
    "model.norm_place=post",
    "model.embedding_norm=norm",
    "model.embedding_scale=none",
    "model.activation=gelu",
];

/// Trains a small model for some steps.
fn trained(task: &str, data: &str, out: &Path, steps: &str, more: &[&str]) {
    let arguments = ["train", task, "--data", data, "--out", path(out), "--steps", steps, "--threads", "1"];
    done(&regard(&[&arguments[..], &sets(&[&SMALL[..], more].concat())].concat()));
}

/// Writes the same lines for every split and returns their folder.
fn split(folder: &Path, lines: &str) -> String {
    fs::create_dir_all(folder).unwrap();
    for split in ["train", "dev", "test"] {
        write(folder, &format!("{split}.tsv"), lines);
    }
    path(folder).to_string()
}

/// Exports a model and returns its folder.
fn exported(model: &Path) -> PathBuf {
    let back = model.with_extension("back");
    done(&regard(&["export", path(model), "--to", "hugging-face", path(&back)]));
    back
}

/// Returns the answer of a model to a text.
fn answer(model: &Path, text: &str) -> Value {
    document(&done(&regard(&["predict", path(model), text, "--json"])))
}

/// Fails unless two answers give all labels the same probabilities.
fn assert_same(ours: &Value, theirs: &Value) {
    let all = ours["probabilities"].as_object().unwrap();
    assert!(all.len() > 1);
    for (label, probability) in all {
        let apart = (probability.as_f64().unwrap() - theirs["probabilities"][label].as_f64().unwrap()).abs();
        assert!(apart < 1e-5, "{label}: {ours} {theirs}");
    }
}

#[test]
fn encoders_and_classifiers_go_out_as_bert() {
    let place = tempfile::tempdir().unwrap();
    let text = write(place.path(), "text.txt", "the cat sat on the mat\nthe dog ran in the old park\n".repeat(40));
    let out = place.path().join("bert");
    trained("pretrain", &text, &out, "60", &[&BERT[..], &["data.tokenizer.kind=word"]].concat());
    let back = exported(&out);
    let (ours, theirs) = (answer(&out, "the <mask> sat on"), answer(&back, "the <mask> sat on"));
    let candidate = |answer: &Value| {
        let first = &answer["candidates"][0][0];
        (first["token"].as_str().unwrap().to_string(), first["probability"].as_f64().unwrap())
    };
    assert_eq!(candidate(&ours).0, candidate(&theirs).0, "{ours} {theirs}");
    assert!((candidate(&ours).1 - candidate(&theirs).1).abs() < 1e-5, "{ours} {theirs}");

    let mut lines = "text\tlabel\n".to_string();
    for word in ["the", "old", "on", "in", "park", "mat"].repeat(4) {
        lines += &format!("{word} cat ran\tyes\n{word} dog ran\tno\n");
    }
    let labels = split(&place.path().join("labels"), &lines);
    let head = ["model.pooling=first", "model.hidden=1"];
    let from = format!("model.from={}", path(&out));
    // From the pre-trained encoder, whose sizes replace the given ones, and from random weights.
    for (name, more) in [("tuned", vec![from.as_str()]), ("fresh", BERT.to_vec())] {
        let out = place.path().join(name);
        trained("classify", &labels, &out, "40", &[&head[..], &more].concat());
        assert_same(&answer(&out, "the cat ran"), &answer(&exported(&out), "the cat ran"));
    }

    let other = place.path().join("other");
    trained("pretrain", &text, &other, "2", &["model.norm=rms"]);
    let export = regard(&["export", path(&other), "--to", "hugging-face", path(&place.path().join("none"))]);
    let named =
        ["BERT", "model.norm=layer", "model.norm_place=post", "model.embedding_norm=norm", "model.position=learned"];
    fails_with(&export, 2, &named);
    let pooled = place.path().join("pooled");
    trained("classify", &labels, &pooled, "2", &BERT);
    let export = regard(&["export", path(&pooled), "--to", "hugging-face", path(&place.path().join("none"))]);
    fails_with(&export, 2, &["model.pooling=first", "model.hidden=1"]);
}

#[test]
fn translators_go_out_as_marian() {
    let place = tempfile::tempdir().unwrap();
    let pairs = ["a\tx", "b\ty", "a b\ty x", "b a\tx y", "a a\tx x", "b b\ty y", "a b b\ty y x", "b a a\tx x y"];
    let data = split(&place.path().join("pairs"), &(pairs.join("\n") + "\n"));
    let marian =
        ["model.norm_place=post", "model.output_weights=embedding", "decode.size=1", "data.tokenizer.kind=word"];
    for (name, more) in [
        ("plain", &[][..]),
        ("other", &["model.output_bias=none", "model.embedding_scale=none", "model.activation=gelu"]),
    ] {
        let out = place.path().join(name);
        trained("translate", &data, &out, "150", &[&marian[..], more].concat());
        let back = exported(&out);
        let mut texts = Vec::new();
        for text in ["a", "b a", "a b b a", "b b b b a a"] {
            let (ours, theirs) = (answer(&out, text), answer(&back, text));
            assert_eq!(ours["translation"], theirs["translation"], "{text}");
            texts.push(ours["translation"].to_string());
        }
        texts.dedup();
        assert!(texts.len() > 1, "{texts:?}");
    }
    let other = place.path().join("pre-norm");
    trained("translate", &data, &other, "2", &["model.position=rope", "data.tokenizer.kind=word"]);
    let export = regard(&["export", path(&other), "--to", "hugging-face", path(&place.path().join("none"))]);
    fails_with(&export, 2, &["Marian", "model.norm_place=post", "model.position=sinusoidal"]);
    let recurrent = place.path().join("recurrent");
    let arguments = ["train", "translate", "--data", &data, "--out", path(&recurrent), "--steps", "2"];
    done(&regard(&[&arguments[..], &sets(&["auto=off", "model.kind=gru", "data.tokenizer.kind=word"])].concat()));
    let export = regard(&["export", path(&recurrent), "--to", "hugging-face", path(&place.path().join("none"))]);
    fails_with(&export, 2, &["no recurrent networks"]);
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
