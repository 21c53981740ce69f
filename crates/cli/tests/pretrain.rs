//! `regard train pretrain` and what follows from it, as people use them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const SMALL: [&str; 18] = [
    "--set",
    "train.learning_rate=5e-3",
    "--set",
    "data.tokenizer.vocab=600",
    "--set",
    "model.d_model=32",
    "--set",
    "model.d_ff=64",
    "--set",
    "train.batch_tokens=1024",
    "--set",
    "train.evaluate_every=20",
    "--set",
    "train.evaluate_examples=20",
    "--set",
    "train.warmup=5",
    "--steps",
    "120",
];

fn regard(place: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_regard")).current_dir(place).args(arguments).output().unwrap()
}

fn done(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Exit code and message.
fn refused(output: Output) -> (i32, String) {
    let told = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap_or(-1), told.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn last_document(text: &str) -> Value {
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn built_in_text_becomes_an_encoder_that_guesses() {
    let place = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| regard(place.path(), arguments);
    let more = ["--set", "data.longest=64", "--json", "--out", "m"];
    let output = run(&[&["train", "pretrain"], &SMALL[..], &more].concat());
    assert!(String::from_utf8_lossy(&output.stderr).contains("longer than 64 tokens: left out of training"));
    let last = last_document(&done(output));
    assert_eq!(last["finished"], true);
    let scores = last_document(&done(run(&["eval", "m", "--json"])));
    assert_eq!(scores["metrics"], last["metrics"]);
    for name in ["loss", "perplexity", "accuracy", "accuracy_longer", "loss_longer"] {
        assert!(scores["metrics"][name].is_number(), "{scores}");
    }
    // Better than any token being as likely as the other.
    assert!(scores["metrics"]["loss"].as_f64().unwrap() < 600f64.ln() - 1.0, "{scores}");
    let found = last_document(&done(run(&["predict", "m", "The king lost his <mask>.", "--json"])));
    assert_eq!(found["input"], "The king lost his <mask>.");
    assert!(found["output"].as_str().unwrap().starts_with("The king lost his"), "{found}");
    assert_eq!(found["candidates"][0].as_array().unwrap().len(), 5);
    done(run(&["look", "m", "The king lost his <mask>.", "--out", "a.json"]));
    let maps: Value = serde_json::from_slice(&fs::read(place.path().join("a.json")).unwrap()).unwrap();
    assert!(maps["tokens"].as_array().unwrap().contains(&Value::from("<mask>")), "{maps}");
    assert_eq!(maps["maps"].as_array().unwrap().len(), 8);
    done(run(&["look", "m", "--out", "b.html"]));
    // The contract of a start from it: task, tokeniser, encoder.
    let config: Value = serde_json::from_slice(&fs::read(place.path().join("m/config.json")).unwrap()).unwrap();
    assert_eq!(config["task"], "pretrain");
    assert!(place.path().join("m/tokenizer.json").exists());
    let weights = fs::read(place.path().join("m/model.safetensors")).unwrap();
    assert!(String::from_utf8_lossy(&weights[..4000]).contains("\"encoder.embedding.tokens.weight\""));
    // What cannot be.
    for (text, expected) in [("no mask here", "<mask>"), ("", "1 to 128"), (&"word ".repeat(300), "data.max_length")] {
        let (code, told) = refused(run(&["predict", "m", text]));
        assert!(code == 1 && told.contains(expected), "{code} {told}");
    }
    let (code, told) = refused(run(&["generate", "m", "The"]));
    assert!(code == 2 && told.contains("train generate"), "{code} {told}");
    // A byte that has changed is found.
    let mut damaged = weights;
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(place.path().join("m/model.safetensors"), damaged).unwrap();
    let (code, told) = refused(run(&["predict", "m", "a <mask>"]));
    assert!(code == 1 && told.contains("model.safetensors"), "{code} {told}");
}

#[test]
fn texts_that_cannot_be_learnt_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let train = |name: &str, content: &[u8], more: &[&str]| {
        fs::write(place.path().join(name), content).unwrap();
        let arguments = [&["train", "pretrain", "--data", name, "--out", "m", "--steps", "1"], more].concat();
        let refusal = refused(regard(place.path(), &arguments));
        let _ = fs::remove_dir_all(place.path().join("m"));
        refusal
    };
    let (code, told) = train("empty.txt", b"", &[]);
    assert!(code == 1 && told.contains("empty.txt"), "{code} {told}");
    let (code, told) = train("blank.txt", &b"\n \n".repeat(20), &[]);
    assert!(code == 1, "{code} {told}");
    let (code, told) = train("binary.txt", &[0, 159, 146, 150, 255], &[]);
    assert!(code == 1 && told.contains("binary.txt"), "{code} {told}");
    let (code, told) = train("good.txt", &b"a line of words\n".repeat(30), &["--set", "model.kind=lstm"]);
    assert!(code == 2 && told.contains("transformer"), "{code} {told}");
    let (code, told) = train("good.txt", &b"a line of words\n".repeat(30), &["--set", "data.masked=2"]);
    assert!(code == 2 && told.contains("data.masked"), "{code} {told}");
}
