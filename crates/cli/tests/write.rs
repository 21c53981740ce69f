//! Tests of `write`: train, eval, predict, generate and look, with good and with bad input.

mod binary;

use std::fs;

use binary::{Ended, command, document, documents, done, fails_with, path, regard, sets};

const FEW: [&str; 5] = [
    "model.d_model=16",
    "train.batch_examples=8",
    "train.evaluate_every=5",
    "train.evaluate_examples=4",
    "train.warmup=0",
];

#[test]
fn a_model_writes_by_hand() {
    let place = tempfile::tempdir().unwrap();
    let (model, data) = (place.path().join("model"), place.path().join("data"));
    done(&regard(&["data", "make", "write", "--out", path(&data)]));
    // A part of the built-in lines is enough.
    let kept: Vec<String> = ["train", "dev", "test"]
        .map(|part| data.join(format!("{part}.jsonl")))
        .iter()
        .map(|file| {
            let some: Vec<String> = fs::read_to_string(file).unwrap().lines().take(40).map(str::to_string).collect();
            fs::write(file, some.join("\n")).unwrap();
            some[0].clone()
        })
        .collect();
    let train = ["train", "write", "--data", path(&data), "--steps", "6", "--out", path(&model)];
    done(&command(&[&train[..], &sets(&FEW)].concat()).ended());
    let checked = done(&regard(&["data", "check", "write", path(&data)]));
    assert!(checked.contains("lines: 40 train, 40 dev, 40 test"), "{checked}");
    let scored = document(&done(&regard(&["eval", path(&model), "--data", path(&data.join("test.jsonl")), "--json"])));
    assert!(scored["metrics"]["log_likelihood"].is_number(), "{scored}");

    let inputs = place.path().join("texts.txt");
    fs::write(&inputs, "on\nON\nat\n\n").unwrap();
    let output = regard(&["predict", path(&model), "--input", path(&inputs), "--json"]);
    let found = documents(&String::from_utf8_lossy(&output.stdout));
    let told: Vec<bool> = found.iter().map(|one| one.get("strokes").is_some()).collect();
    assert_eq!((output.status.code(), &told[..3]), (Some(1), &[true, false, true][..]), "{found:?}");
    assert!(found[1]["error"].to_string().contains("NO"), "{}", found[1]);

    let (svg, html) = (place.path().join("a.svg"), place.path().join("a.html"));
    for out in [&svg, &html] {
        done(&regard(&["generate", path(&model), "on", "--out", path(out), "--bias", "1", "--times", "2"]));
        let many = ["generate", path(&model), "on", "--out", path(out), "--times", "100000000000"];
        fails_with(&regard(&many), 2, &["--times 100000000000", "at most 10000 lines"]);
    }
    assert!(fs::read_to_string(&svg).unwrap().starts_with("<svg"));
    let page = fs::read_to_string(&html).unwrap();
    assert!(page.contains("@keyframes") && !page.contains("http"), "the page fetches nothing");
    let generate = |more: &[&str]| regard(&[&["generate", path(&model), "--json"], more].concat());
    let one = document(&done(&generate(&["on"])));
    assert_eq!(one, document(&done(&generate(&["on", "--seed", "0"]))), "the same seed writes the same strokes");
    assert_ne!(one["strokes"], document(&done(&generate(&["on", "--seed", "1"])))["strokes"]);
    let prime = place.path().join("prime.jsonl");
    fs::write(&prime, &kept[0]).unwrap();
    let primed = document(&done(&generate(&["on", "--prime", path(&prime)])));
    assert_ne!(one["strokes"], primed["strokes"], "another hand");
    let drawn = done(&regard(&["generate", path(&model), "on"]));
    assert!(drawn.contains(|c: char| ('\u{2801}'..'\u{2900}').contains(&c)), "{drawn}");

    // One line that cannot be written does not keep the others from being written.
    let output = generate(&["on\nÄ\nat"]);
    let found = document(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(1));
    assert!(found[0]["strokes"].is_array() && found[1]["error"].is_string() && found[2]["strokes"].is_array());
    let long = "on ".repeat(40_000);
    for (arguments, code, told) in [
        (vec![long.as_str()], 1, "characters (data.max_length"),
        (vec![""], 1, "1 to 80 characters"),
        (vec!["on", "--bias", "-1"], 2, "0 or more"),
        (vec!["on", "--temperature", "1"], 2, "--temperature"),
        (vec!["on", "--out", "a.png"], 2, ".svg or .html"),
        (vec!["on", "--prime", "nowhere.jsonl"], 1, "nowhere.jsonl"),
        (vec!["on", "--prime", path(&data.join("dev.jsonl"))], 1, "one line"),
    ] {
        fails_with(&regard(&[&["generate", path(&model)], &arguments[..]].concat()), code, &[told]);
    }

    let look = place.path().join("look.svg");
    done(&regard(&["look", path(&model), "on", "--out", path(&look)]));
    assert!(fs::read_to_string(&look).unwrap().contains("density of the next point"));
    let heads = document(&done(&regard(&["heads", path(&model), "--json", "--examples", "4"])));
    assert_eq!(heads["heads"].as_array().map(Vec::len), Some(1), "{heads}");
}

#[test]
fn bad_data_and_recordings_are_named() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("model");
    for (name, content, told) in [
        ("a.jsonl", "{\"text\": \"a\", \"strokes\": [[[1, 2], [3]]]}\n", "line 1"),
        ("b.jsonl", "{\"text\": \"a\", \"strokes\": []}\n", "at least one stroke"),
        ("c.jsonl", "{\"text\": \"a\", \"strokes\": [[[0, 1]]]}\n", "too few"),
    ] {
        let file = place.path().join(name);
        fs::write(&file, content).unwrap();
        fails_with(&regard(&["train", "write", "--data", path(&file), "--out", path(&out)]), 1, &[name, told]);
        assert!(!out.exists(), "{name}: nothing was learnt");
    }
    let file = place.path().join("note.txt");
    fs::write(&file, "hello").unwrap();
    let make = ["data", "make", "write", "--from", path(&file), "--out", path(&out)];
    fails_with(&regard(&make), 1, &["note.txt", "UNIPEN"]);
    let make = ["data", "make", "tag", "--from", path(&file), "--out", path(&out)];
    fails_with(&regard(&make), 2, &["tag has no recordings"]);
}
