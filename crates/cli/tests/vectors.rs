//! Tests of `vectors`: train, eval, predict and look, with good and with bad input.

mod binary;

use std::fs;

use binary::{Ended, command, document, documents, done, fails_with, path, regard, sets};
use serde_json::json;

const FEW: [&str; 5] =
    ["model.d_model=16", "model.n_heads=2", "train.batch_examples=16", "train.evaluate_every=5", "model.d_ff=16"];

#[test]
fn a_model_answers_for_each_input() {
    let place = tempfile::tempdir().unwrap();
    let (model, data) = (place.path().join("model"), place.path().join("data.csv"));
    let rows = (0..60).flat_map(|id| {
        let label = if id % 2 == 0 { "even" } else { "odd" };
        (0..4).map(move |step| format!("{id},{step},{},{}.5,{label}\n", id + step, id * step))
    });
    fs::write(&data, format!("id,step,x,y,label\n{}", rows.collect::<String>())).unwrap();
    let train = ["train", "vectors", "--data", path(&data), "--steps", "5", "--out", path(&model)];
    let output = command(&[&train[..], &sets(&FEW)].concat()).ended();
    done(&output);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("2 labels: "), "{told}");

    let checked = done(&regard(&["data", "check", "vectors", path(&data)]));
    let head = checked.lines().next().unwrap();
    assert!(head.contains("vectors") && !checked.contains("words"), "{checked}");

    let scored = document(&done(&regard(&["eval", path(&model), "--data", path(&data), "--json"])));
    assert!(scored["metrics"]["accuracy"].is_number(), "{scored}");

    let inputs = place.path().join("inputs.jsonl");
    let lines =
        ["{\"vectors\": [[1, 2], [3, 4]]}", "{\"vectors\": [[1, 2], [3]]}", "[[5, 6]]", "[[1, NaN]]", "[[1, 1e38]]"];
    fs::write(&inputs, lines.join("\n")).unwrap();
    let output = regard(&["predict", path(&model), "--input", path(&inputs), "--json"]);
    let found = documents(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(1), "three inputs are wrong");
    let told: Vec<bool> = found.iter().map(|one| one.get("label").is_some()).collect();
    assert_eq!(told, [true, false, true, false, false], "{found:?}");
    assert!(found[4]["error"].to_string().contains("within 1e12 standard deviations"), "{}", found[4]);
    assert!(found[1]["error"].to_string().contains("vectors[1]"), "{}", found[1]);

    // A file of vectors is a file of inputs, too.
    let found = documents(&done(&regard(&["predict", path(&model), "--input", path(&data), "--json"])));
    assert_eq!(found.len(), 60);
    assert_eq!(found[0]["input"], json!({"vectors": [[0.0, 0.5], [1.0, 0.5], [2.0, 0.5], [3.0, 0.5]]}));

    let out = place.path().join("look.svg");
    done(&regard(&["look", path(&model), "[[1, 2], [3, 4], [0, 1]]", "--out", path(&out)]));
    let drawn = fs::read_to_string(&out).unwrap();
    assert!(drawn.contains("path of features 1 and 2") && drawn.contains("feature 2"), "the picture has the path");
    fails_with(&regard(&["predict", path(&model), "hello"]), 1, &["vectors of 2 numbers"]);
}

#[test]
fn bad_data_are_named_by_file_and_line() {
    let place = tempfile::tempdir().unwrap();
    for (name, content, told) in [
        ("a.jsonl", "{\"vectors\": [[1], [2, 3]], \"label\": \"a\"}\n", "line 1"),
        ("b.csv", "id,x,label\n1,2,a\n1,nan,a\n", "line 3"),
        ("c.csv", "id,x,label\n1,2,a\n1,3,b\n", "line 3"),
    ] {
        let file = place.path().join(name);
        fs::write(&file, content).unwrap();
        let out = place.path().join("model");
        let train = ["train", "vectors", "--data", path(&file), "--out", path(&out)];
        fails_with(&regard(&train), 1, &[name, told]);
        assert!(!out.exists(), "{name}: nothing was learnt");
    }
}
