//! Tests of `heads` and `--without`, and of invalid inputs.

mod binary;

use std::fs;
use std::path::{Path, PathBuf};

use binary::{
    Ended, command, document, documents, done, fails_with, pairs, path, read_document, regard, sets, text, write,
};
use serde_json::{Value, json};

const TINY: [&str; 6] = [
    "model.d_model=32",
    "model.d_ff=64",
    "model.n_layers=1",
    "model.n_heads=2",
    "train.batch_tokens=256",
    "train.warmup=10",
];

fn trained(place: &Path, steps: &str, more: &[&str]) -> PathBuf {
    let (data, out) = (pairs(place), place.join("model"));
    let train = ["train", "translate", "--data", &data, "--out", path(&out), "--steps", steps];
    done(&regard(&[&train[..], &sets(more)].concat()));
    out
}

#[test]
fn heads_are_named_switched_off_and_measured() {
    let place = tempfile::tempdir().unwrap();
    let model = trained(place.path(), "250", &TINY);
    let model = path(&model);
    let picture = place.path().join("heads.svg");
    let found = document(&done(&regard(&["heads", model, "--json", "--out", path(&picture)])));
    let heads = found["heads"].as_array().unwrap();
    let names: Vec<&str> = heads.iter().map(|head| head["name"].as_str().unwrap()).collect();
    let all = ["encoder.0.0", "encoder.0.1", "decoder.0.0", "decoder.0.1", "decoder.0.cross.0", "decoder.0.cross.1"];
    assert_eq!(names, all);
    assert_eq!(
        (&found["task"], &found["split"], &found["metric"]),
        (&json!("translate"), &json!("dev"), &json!("chrf"))
    );
    for head in heads {
        let number = |key: &str| head[key].as_f64().unwrap_or_else(|| panic!("{key} in {head}"));
        assert!((number("cost") - (found["score"].as_f64().unwrap() - number("score_without"))).abs() < 1e-9);
        assert!(number("entropy") >= 0.0 && number("distance") >= 0.0 && (0.0..=1.001).contains(&number("mass")));
        assert!(head["pattern"].is_string() && head["loss_without"].is_number() && head["layer"] == 0);
    }
    let drawn = fs::read_to_string(&picture).unwrap();
    assert!(["decoder.0.cross", "Entropy", "Cost"].iter().all(|word| drawn.contains(word)));
    let table = done(&regard(&["heads", model]));
    assert!(table.contains("decoder.0.cross.1") && table.contains("pattern"), "{table}");

    // A translator that cannot see its source answers differently, and the JSON has both answers.
    let input = "three one two";
    let answer =
        |more: &[&str]| documents(&done(&regard(&[&["predict", model, input, "--json"], more].concat()))).remove(0);
    let plain = answer(&[]);
    let blind = answer(&["--without", "decoder.0.cross"]);
    assert_eq!((&blind["output"], plain.get("without")), (&plain["output"], None));
    assert_ne!(blind["without"]["translation"], plain["translation"], "{blind}");
    for mode in ["zero", "mean", "uniform", "self"] {
        let less = answer(&["--without", &format!("encoder.0.1={mode},decoder.0.0={mode}")]);
        assert!(less["without"]["log_probability"].is_number(), "{mode}: {less}");
    }
    assert!(answer(&["--without", "positions"])["without"]["output"].is_string());
    let said = done(&regard(&["predict", model, input, "--without", "decoder.0.cross"]));
    assert!(said.contains("\n  without decoder.0.cross: ") && said.contains("log-probability"), "{said}");

    let everything = "encoder.0,decoder.0,decoder.0.cross";
    let output = regard(&["predict", model, input, "--without", everything]);
    assert!(text(&output.stderr).contains("note: --without switches off every head") && output.status.success());
    let scores = document(&done(&regard(&["eval", model, "--json", "--without", everything])));
    let exact = |of: &Value| of["metrics"]["exact"].as_f64().unwrap();
    assert!(exact(&scores) > exact(&scores["without"]), "{scores}");

    let maps = place.path().join("look.json");
    done(&regard(&["look", model, input, "--without", "decoder.0.cross.1=uniform", "--out", path(&maps)]));
    let both = read_document(&maps);
    let of = |view: &Value| -> Value {
        let map = view["maps"].as_array().unwrap().iter().find(|map| map["name"] == "decoder.0.cross.1").unwrap();
        map["weights"][0].clone()
    };
    assert_eq!(of(&both[1]), json!([0.25, 0.25, 0.25, 0.25]), "three words and the end");
    assert_ne!(of(&both[0]), of(&both[1]));
    assert!(both[1]["input"].as_str().unwrap().starts_with("without decoder.0.cross.1=uniform: "));
    done(&regard(&["look", model, "--layer", "cross", "--head", "1", "--out", path(&maps)]));
    assert_eq!(read_document(&maps)["maps"].as_array().unwrap().len(), 1);

    let refused = |arguments: &[&str], words: &[&str]| fails_with(&regard(arguments), 2, words);
    refused(
        &["predict", model, input, "--without", "encoder.0.2"],
        &["--without", "encoder.0.0 to encoder.0.1", "positions"],
    );
    refused(&["eval", model, "--without", "decoder.0.cross=self"], &["zero, mean or uniform"]);
    refused(&["look", model, input, "--without", "0.1=off"], &["zero, mean, uniform or self"]);
    refused(&["look", model, "--layer", "5"], &["there are encoder.0.0 to"]);
    refused(&["look", model, "--head", "2"], &["there are encoder.0.0 to"]);
}

#[test]
fn one_bad_input_does_not_stop_the_others() {
    let place = tempfile::tempdir().unwrap();
    let model = trained(place.path(), "5", &TINY);
    let model = path(&model);
    let mut lines: Vec<Vec<u8>> = (0..1_000).map(|_| b"one two three\n".to_vec()).collect();
    lines[500] = b"one \xFF two\n".to_vec();
    lines[700] = b"\n".to_vec();
    let file = write(place.path(), "in.txt", lines.concat());
    let output = regard(&["predict", model, "--input", &file, "--json"]);
    let found = documents(&text(&output.stdout));
    assert_eq!((found.len(), output.status.code()), (1_000, Some(1)));
    for (at, one) in found.iter().enumerate() {
        assert_eq!(one.get("error").is_some(), at == 500 || at == 700, "line {at}: {one}");
    }
    let told = text(&output.stderr);
    assert!(told.contains("input 501: line: expected text in UTF-8") && told.contains("input 701: "), "{told}");
    assert_eq!(told.lines().count(), 3, "one line per error, and a summary: {told}");

    let file = write(place.path(), "in.jsonl", "\"one two\"\n{\"input\": \"two one\"}\n{\"image\": \"iVBO\"}\n{\n");
    let output = regard(&["predict", model, "--input", &file, "--json"]);
    let found = documents(&text(&output.stdout));
    assert_eq!((&found[0]["input"], &found[1]["input"]), (&json!("one two"), &json!("two one")));
    assert!(found[2]["error"].as_str().unwrap().contains("a text, which this model takes, got a picture"));
    assert!(found[3]["error"].as_str().unwrap().contains("JSON"));

    let picture = write(place.path(), "cat.png", b"\x89PNG\r\n\x1a\n0000");
    fails_with(&regard(&["predict", model, &picture]), 1, &["a text", "a file with a picture"]);
    fails_with(&regard(&["predict", model, "--input", &picture]), 1, &["UTF-8", "cat.png"]);
}

#[test]
fn a_model_without_attention_says_so() {
    let place = tempfile::tempdir().unwrap();
    let model = trained(place.path(), "5", &["model.kind=lstm", "model.d_model=16", "model.score=none"]);
    let model = path(&model);
    fails_with(&regard(&["predict", model, "one", "--without", "0.1"]), 2, &["this model has no attention"]);
    fails_with(&regard(&["heads", model]), 2, &["has no attention", "model.kind=transformer"]);
    fails_with(&regard(&["look", model, "one", "--layer", "0"]), 2, &["no attention"]);
    let model = place.path().join("aligned");
    let train = ["train", "translate", "--data", &pairs(place.path()), "--out", path(&model), "--steps", "5"];
    done(&regard(&[&train[..], &sets(&["model.kind=gru", "model.d_model=16"])].concat()));
    let found = document(&done(&regard(&["heads", path(&model), "--json"])));
    assert_eq!(found["heads"][0]["name"], "alignment");
    assert_eq!(found["heads"][0]["kind"], "alignment");
    done(&regard(&["predict", path(&model), "one two", "--without", "alignment=uniform"]));
}

/// The grid form of `compose` takes numbers as input.
#[test]
fn inputs_need_not_be_text() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("grid");
    let grid = ["data.form=grid", "data.size=4", "data.width=2", "data.colours=3", "data.test=20", "data.dev=20"];
    let train = ["train", "compose", "--out", path(&out), "--steps", "5"];
    let printed = done(&regard(&[&train[..], &sets(&grid)].concat()));
    assert!(printed.contains("{\"numbers\":[["), "{printed}");
    let given = "{\"numbers\": [[2, 1, 0, 1], [3, 3, 0, 1]]}";
    let [json, typed] = [given, "2 1 0 1 | 3 3 0 1"]
        .map(|input| documents(&done(&regard(&["predict", path(&out), input, "--json"]))).remove(0));
    assert_eq!((&json["values"], &json["input"]["numbers"][0][0]), (&typed["values"], &json!(2)));
    let output = command(&["predict", path(&out), "{\"image\": \"x\"}", given]).ended();
    assert_eq!(text(&output.stdout).lines().count(), 2);
    assert!(text(&output.stderr).contains("numbers, which this model takes, got a picture"));
    done(&regard(&["look", path(&out), given, "--out", path(&place.path().join("look.svg"))]));
}
