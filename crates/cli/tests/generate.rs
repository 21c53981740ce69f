//! Tests of the task `generate`: train, eval, predict, generate, look, and errors.

mod binary;

use std::fs;
use std::path::Path;
use std::process::Output;

use binary::{documents, done, fails_with, last_document, read_document, regard_in, sets_beside, write};

const SMALL: [&str; 10] = [
    "train.learning_rate=5e-3",
    "data.block=32",
    "model.d_model=32",
    "model.n_layers=2",
    "model.d_ff=64",
    "train.batch_examples=8",
    "train.evaluate_every=20",
    "train.evaluate_examples=20",
    "train.warmup=5",
    "decode.max_len=20",
];

fn train(place: &Path, more: &[&str]) -> Output {
    let train = ["train", "generate", "--steps", "40", "--out", "m"];
    regard_in(place, &[&train[..], &sets_beside(more, &SMALL), more].concat())
}

#[test]
fn built_in_text_becomes_a_model_that_writes() {
    let place = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| regard_in(&place, arguments);
    let last = last_document(&done(&train(place.path(), &["--set", "data.evaluate_block=64", "--json"])));
    assert_eq!(last["finished"], true);
    // Already far below the loss of equally likely letters.
    assert!(last["metrics"]["loss"].as_f64().unwrap() < 3.0, "{last}");
    let scores = last_document(&done(&run(&["eval", "m", "--json"])));
    assert_eq!(scores["task"], "generate");
    assert_eq!(scores["metrics"], last["metrics"]);
    for name in ["loss", "perplexity", "bits_per_character", "loss_longer"] {
        assert!(scores["metrics"][name].is_number(), "{scores}");
    }
    let found = documents(&done(&run(&["predict", "m", "The king", "A dog", "--json"])));
    assert_eq!(found[0]["input"], "The king");
    assert_eq!(found[0]["output"].as_str().unwrap().chars().count(), 20);
    // The seed decides the text, which follows the prompt.
    let write =
        |seed: &str| done(&run(&["generate", "m", "The king", "--tokens", "50", "--seed", seed, "--top-k", "9"]));
    assert_eq!(write("1"), write("1"));
    assert_ne!(write("1"), write("2"));
    assert!(write("1").starts_with("The king"));
    let document = last_document(&done(&run(&["generate", "m", "--json", "--top-p", "0.9", "--tokens", "70"])));
    assert_eq!(document["output"].as_str().unwrap().chars().count(), 70);
    done(&run(&["look", "m", "The king", "--out", "a.json"]));
    let maps = read_document(&place.path().join("a.json"));
    assert_eq!(maps["tokens"][3], "␣");
    assert_eq!(maps["maps"].as_array().unwrap().len(), 8);
    done(&run(&["look", "m", "--out", "b.html"]));
    assert!(fs::read_to_string(place.path().join("b.html")).unwrap().contains("layer 2"));
    // Errors.
    fails_with(&run(&["generate", "m", "Ünïcode"]), 1, &["\"Ü\"", "\"ï\""]);
    fails_with(&run(&["generate", "m", "The", "--top-p", "1.5"]), 2, &["top_p"]);
    fails_with(&run(&["predict", "m", ""]), 1, &["at least one"]);
    fails_with(&run(&["look", "m", &"a".repeat(33), "--out", "c.html"]), 1, &["data.block", "33"]);
}

#[test]
fn recurrent_models_and_byte_pairs_work_the_same_way() {
    let place = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| regard_in(&place, arguments);
    write(&place, "t.txt", "Où est le café ? Là-bas, près de l'église.\n".repeat(60));
    let more = ["--data", "t.txt", "--set", "model.kind=lstm", "--set", "data.tokenizer.kind=bpe"];
    done(&train(place.path(), &more));
    let text = done(&run(&["generate", "m", "Où", "--tokens", "60"]));
    assert!(text.starts_with("Où") && text.len() > 60, "{text}");
    // Byte pairs encode any text.
    done(&run(&["generate", "m", "κ", "--tokens", "5"]));
    fails_with(&run(&["look", "m", "Où", "--out", "a.html"]), 2, &["model.kind=transformer"]);
}

#[test]
fn texts_that_cannot_be_learnt_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let refuses = |name: &str, content: &[u8], more: &[&str], code: i32, words: &[&str]| {
        write(&place, name, content);
        let arguments = [&["train", "generate", "--data", name, "--out", "m", "--steps", "1"], more].concat();
        fails_with(&regard_in(&place, &arguments), code, words);
        let _ = fs::remove_dir_all(place.path().join("m"));
    };
    refuses("empty.txt", b"", &[], 1, &["empty.txt"]);
    refuses("binary.txt", &[0, 159, 146, 150, 255], &[], 1, &["binary.txt"]);
    refuses("short.txt", b"Only a few words.", &[], 1, &["data.block, 16", "15"]);
    refuses("good.txt", &b"word ".repeat(100), &["--set", "model.posision=rope"], 2, &["posision", "position"]);
    refuses("good.txt", &b"word ".repeat(100), &["--set", "model.kind=bag"], 2, &["transformer"]);
}
