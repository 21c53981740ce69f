//! Tests of the task `pretrain`: train, eval, predict, look, and errors.

mod binary;

use std::fs;

use binary::{done, fails_with, last_document, read_document, regard_in, sets, text, write};
use serde_json::Value;

const SMALL: [&str; 9] = [
    "train.learning_rate=5e-3",
    "data.tokenizer.vocab=600",
    "data.longest=64",
    "model.d_model=32",
    "model.d_ff=64",
    "train.batch_tokens=1024",
    "train.evaluate_every=20",
    "train.evaluate_examples=20",
    "train.warmup=5",
];

#[test]
fn built_in_text_becomes_an_encoder_that_guesses() {
    let place = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| regard_in(&place, arguments);
    let output = run(&[&["train", "pretrain", "--steps", "120", "--json", "--out", "m"][..], &sets(&SMALL)].concat());
    assert!(text(&output.stderr).contains("longer than 64 tokens: left out of training"));
    let last = last_document(&done(&output));
    assert_eq!(last["finished"], true);
    let scores = last_document(&done(&run(&["eval", "m", "--json"])));
    assert_eq!(scores["metrics"], last["metrics"]);
    for name in ["loss", "perplexity", "accuracy", "accuracy_longer", "loss_longer"] {
        assert!(scores["metrics"][name].is_number(), "{scores}");
    }
    // Better than equally likely tokens.
    assert!(scores["metrics"]["loss"].as_f64().unwrap() < 600f64.ln() - 1.0, "{scores}");
    let found = last_document(&done(&run(&["predict", "m", "The king lost his <mask>.", "--json"])));
    assert_eq!(found["input"], "The king lost his <mask>.");
    assert!(found["output"].as_str().unwrap().starts_with("The king lost his"), "{found}");
    assert_eq!(found["candidates"][0].as_array().unwrap().len(), 5);
    done(&run(&["look", "m", "The king lost his <mask>.", "--out", "a.json"]));
    let maps = read_document(&place.path().join("a.json"));
    assert!(maps["tokens"].as_array().unwrap().contains(&Value::from("<mask>")), "{maps}");
    assert_eq!(maps["maps"].as_array().unwrap().len(), 8);
    done(&run(&["look", "m", "--out", "b.html"]));
    // What `model.from` needs: task, tokeniser, encoder.
    let config = read_document(&place.path().join("m/config.json"));
    assert_eq!(config["task"], "pretrain");
    assert!(place.path().join("m/tokenizer.json").exists());
    let weights = fs::read(place.path().join("m/model.safetensors")).unwrap();
    assert!(String::from_utf8_lossy(&weights[..4000]).contains("\"encoder.embedding.tokens.weight\""));
    // Errors.
    for (input, expected) in [("no mask here", "<mask>"), ("", "1 to 128"), (&"word ".repeat(300), "data.max_length")] {
        fails_with(&run(&["predict", "m", input]), 1, &[expected]);
    }
    fails_with(&run(&["generate", "m", "The"]), 2, &["train generate"]);
    // A changed byte is detected.
    let mut damaged = weights;
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(place.path().join("m/model.safetensors"), damaged).unwrap();
    fails_with(&run(&["predict", "m", "a <mask>"]), 1, &["model.safetensors"]);
}

#[test]
fn texts_that_cannot_be_learnt_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let refuses = |name: &str, content: &[u8], more: &[&str], code: i32, words: &[&str]| {
        write(&place, name, content);
        let arguments = [&["train", "pretrain", "--data", name, "--out", "m", "--steps", "1"], more].concat();
        fails_with(&regard_in(&place, &arguments), code, words);
        let _ = fs::remove_dir_all(place.path().join("m"));
    };
    refuses("empty.txt", b"", &[], 1, &["empty.txt"]);
    refuses("blank.txt", &b"\n \n".repeat(20), &[], 1, &[]);
    refuses("binary.txt", &[0, 159, 146, 150, 255], &[], 1, &["binary.txt"]);
    refuses("good.txt", &b"a line of words\n".repeat(30), &["--set", "model.kind=lstm"], 2, &["transformer"]);
    refuses("good.txt", &b"a line of words\n".repeat(30), &["--set", "data.masked=2"], 2, &["data.masked"]);
}
