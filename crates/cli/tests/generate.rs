//! `regard train generate` and what follows from it, as people use them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const SMALL: [&str; 22] = [
    "--set",
    "train.learning_rate=5e-3",
    "--set",
    "data.block=32",
    "--set",
    "model.d_model=32",
    "--set",
    "model.n_layers=2",
    "--set",
    "model.d_ff=64",
    "--set",
    "train.batch_examples=8",
    "--set",
    "train.evaluate_every=20",
    "--set",
    "train.evaluate_examples=20",
    "--set",
    "train.warmup=5",
    "--set",
    "decode.max_len=20",
    "--steps",
    "40",
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
fn built_in_text_becomes_a_model_that_writes() {
    let place = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| regard(place.path(), arguments);
    let longer = ["--set", "data.evaluate_block=64", "--json", "--out", "m"];
    let told = done(run(&[&["train", "generate"], &SMALL[..], &longer].concat()));
    let last = last_document(&told);
    assert_eq!(last["finished"], true);
    // Far from 27 letters and marks of equal probability already.
    assert!(last["metrics"]["loss"].as_f64().unwrap() < 3.0, "{last}");
    let scores = last_document(&done(run(&["eval", "m", "--json"])));
    assert_eq!(scores["task"], "generate");
    assert_eq!(scores["metrics"], last["metrics"]);
    for name in ["loss", "perplexity", "bits_per_character", "loss_longer"] {
        assert!(scores["metrics"][name].is_number(), "{scores}");
    }
    let found = done(run(&["predict", "m", "The king", "A dog", "--json"]));
    let first: Value = serde_json::from_str(found.lines().next().unwrap()).unwrap();
    assert_eq!(first["input"], "The king");
    assert_eq!(first["output"].as_str().unwrap().chars().count(), 20);
    // A seed decides the text; the prompt stands before it.
    let write =
        |seed: &str| done(run(&["generate", "m", "The king", "--tokens", "50", "--seed", seed, "--top-k", "9"]));
    assert_eq!(write("1"), write("1"));
    assert_ne!(write("1"), write("2"));
    assert!(write("1").starts_with("The king"));
    let document = last_document(&done(run(&["generate", "m", "--json", "--top-p", "0.9", "--tokens", "70"])));
    assert_eq!(document["output"].as_str().unwrap().chars().count(), 70);
    done(run(&["look", "m", "The king", "--out", "a.json"]));
    let maps: Value = serde_json::from_slice(&fs::read(place.path().join("a.json")).unwrap()).unwrap();
    assert_eq!(maps["tokens"][3], "␣");
    assert_eq!(maps["maps"].as_array().unwrap().len(), 8);
    done(run(&["look", "m", "--out", "b.html"]));
    assert!(fs::read_to_string(place.path().join("b.html")).unwrap().contains("layer 2"));
    // What cannot be.
    let (code, told) = refused(run(&["generate", "m", "Ünïcode"]));
    assert!(code == 1 && told.contains("\"Ü\"") && told.contains("\"ï\""), "{code} {told}");
    let (code, told) = refused(run(&["generate", "m", "The", "--top-p", "1.5"]));
    assert!(code == 2 && told.contains("top_p"), "{code} {told}");
    let (code, told) = refused(run(&["predict", "m", ""]));
    assert!(code == 1 && told.contains("at least one"), "{code} {told}");
    let (code, told) = refused(run(&["look", "m", &"a".repeat(33), "--out", "c.html"]));
    assert!(code == 1 && told.contains("data.block") && told.contains("33"), "{code} {told}");
}

#[test]
fn recurrent_models_and_byte_pairs_go_the_same_way() {
    let place = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| regard(place.path(), arguments);
    fs::write(place.path().join("t.txt"), "Où est le café ? Là-bas, près de l'église.\n".repeat(60)).unwrap();
    let more = ["--data", "t.txt", "--set", "model.kind=lstm", "--set", "data.tokenizer.kind=bpe", "--out", "m"];
    done(run(&[&["train", "generate"], &SMALL[..], &more].concat()));
    let text = done(run(&["generate", "m", "Où", "--tokens", "60"]));
    assert!(text.starts_with("Où") && text.len() > 60, "{text}");
    // Any text has bytes.
    done(run(&["generate", "m", "κ", "--tokens", "5"]));
    let (code, told) = refused(run(&["look", "m", "Où", "--out", "a.html"]));
    assert!(code == 2 && told.contains("model.kind=transformer"), "{code} {told}");
}

#[test]
fn texts_that_cannot_be_learnt_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let train = |name: &str, content: &[u8], more: &[&str]| {
        fs::write(place.path().join(name), content).unwrap();
        let arguments = [&["train", "generate", "--data", name, "--out", "m", "--steps", "1"], more].concat();
        let refusal = refused(regard(place.path(), &arguments));
        let _ = fs::remove_dir_all(place.path().join("m"));
        refusal
    };
    let (code, told) = train("empty.txt", b"", &[]);
    assert!(code == 1 && told.contains("empty.txt"), "{code} {told}");
    let (code, told) = train("binary.txt", &[0, 159, 146, 150, 255], &[]);
    assert!(code == 1 && told.contains("binary.txt"), "{code} {told}");
    let (code, told) = train("short.txt", b"Only a few words.", &[]);
    assert!(code == 1 && told.contains("data.block, 128") && told.contains("15"), "{code} {told}");
    let (code, told) = train("good.txt", &b"word ".repeat(100), &["--set", "model.posision=rope"]);
    assert!(code == 2 && told.contains("posision") && told.contains("position"), "{code} {told}");
    let (code, told) = train("good.txt", &b"word ".repeat(100), &["--set", "model.kind=bag"]);
    assert!(code == 2 && told.contains("transformer"), "{code} {told}");
}
