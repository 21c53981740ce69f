//! Tests of `model.attention=linear` in the tasks: train, predict, look, heads and compare, and what is refused.

mod binary;

use binary::{SMALL, documents, done, fails_with, last_document, read_document, regard_in, sets};
use serde_json::Value;

const LINEAR: [&str; 2] = ["--set", "model.attention=linear"];

/// Returns the rows of all maps in a document of `look`.
fn rows(maps: &Value) -> Vec<Vec<f64>> {
    let numbers = |row: &Value| row.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
    let maps = maps["maps"].as_array().unwrap().iter();
    maps.flat_map(|map| map["weights"].as_array().unwrap().iter().map(numbers)).collect()
}

#[test]
fn every_task_with_one_stack_trains_predicts_and_shows_its_weights() {
    let place = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| regard_in(&place, arguments);
    for (task, input, more) in [
        ("tag", "I saw a saw .", &["data.sentences=200"][..]),
        ("classify", "a good film", &[]),
        ("generate", "The king", &["data.block=32"]),
        ("pretrain", "The king lost his <mask>.", &["data.tokenizer.vocab=300"]),
        ("compose", "", &["data.size=4", "data.dev=8", "data.test=8"]),
        ("image", "builtin:test/3", &["data.limit=100"]),
    ] {
        let train = ["train", task, "--steps", "6", "--out", task, "--json"];
        let settings = [&SMALL[..], more].concat();
        let last = last_document(&done(&run(&[&train[..], &LINEAR, &sets(&settings)].concat())));
        assert_eq!(last["finished"], true, "{task}");
        assert_eq!(last_document(&done(&run(&["eval", task, "--json"])))["metrics"], last["metrics"], "{task}");
        let given = if input.is_empty() { vec![] } else { vec![input] };
        done(&run(&[&["look", task][..], &given, &["--out", "maps.json"]].concat()));
        let rows = rows(&read_document(&place.path().join("maps.json")));
        assert!(!rows.is_empty(), "{task}");
        // Four decimals each.
        for row in rows {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 2e-3, "{task}: {row:?}");
            // The only weights of zero are those of later tokens in a language model.
            assert!(task == "generate" || row.iter().all(|&weight| weight > 0.0), "{task}: {row:?}");
        }
        let heads = last_document(&done(&run(&["heads", task, "--json"])));
        let own = heads["heads"].as_array().unwrap().iter().filter(|head| head["kind"] == "self");
        assert_eq!(own.count(), 2, "{task}: {heads}");
        if input.is_empty() {
            continue;
        }
        for without in ["0.1", "0.0=mean", "0.1=uniform", "0=self"] {
            let found = documents(&done(&run(&["predict", task, input, "--without", without, "--json"])));
            assert!(!found[0]["without"].is_null(), "{task} {without}: {found:?}");
        }
    }
    // The running state continues a text of any length.
    let text = done(&run(&["generate", "generate", "The king", "--tokens", "100"]));
    assert!(text.starts_with("The king") && text.chars().count() >= 108, "{text}");
}

#[test]
fn both_kinds_of_attention_can_be_compared() {
    let place = tempfile::tempdir().unwrap();
    let compare = ["compare", "classify", "--vary", "model.attention=softmax,linear", "--steps", "4", "--out", "c"];
    let table = done(&regard_in(&place, &[&compare[..], &sets(&SMALL)].concat()));
    assert!(table.contains("softmax") && table.contains("linear"), "{table}");
}

#[test]
fn what_does_not_go_with_linear_attention_is_refused_with_both_keys() {
    let place = tempfile::tempdir().unwrap();
    let refuses = |task: &str, more: &[&str], words: &[&str]| {
        let train = ["train", task, "--steps", "1", "--out", "m"];
        fails_with(&regard_in(&place, &[&train[..], &LINEAR, &sets(more)].concat()), 2, words);
    };
    for task in ["tag", "classify", "generate", "pretrain"] {
        refuses(task, &["model.position=alibi"], &["model.position = alibi", "attention is linear"]);
        refuses(task, &["model.position=relative"], &["model.position = relative", "attention is linear"]);
        let window = "model.sight={ kind = \"window\", left = 3, right = 0 }";
        refuses(task, &[window], &["model.sight = window", "attention is linear"]);
        refuses(task, &["model.attention_dropout=0.1"], &["model.attention_dropout = 0.1", "attention is linear"]);
    }
    refuses("translate", &[], &["model.attention = linear", "softmax"]);
    refuses("tag", &["model.kind=lstm"], &["model.kind=lstm has no attention", "model.kind=transformer has it"]);
    let count = regard_in(&place, &["count", "--set", "model.attention=linear"]);
    fails_with(&count, 2, &["model.attention = linear", "softmax"]);
}
