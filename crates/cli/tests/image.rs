//! Tests of the task on pictures with files: train, check, predict, eval, look, compare.

mod binary;

use std::fs;
use std::path::Path;

use binary::{documents, done, fails_with, last_document, path, regard, sets, text};
use regard_data::{Image, ImageSize};
use serde_json::json;

const SMALL: [&str; 9] = [
    "data.shift=0",
    "model.dropout=0",
    "train.learning_rate=1e-2",
    "model.d_model=16",
    "model.n_layers=1",
    "model.n_heads=2",
    "train.batch_examples=8",
    "train.warmup=2",
    "train.evaluate_every=10",
];

/// A picture whose left or right half is bright.
fn half(is_left: bool, shade: u8, side: usize) -> Image {
    let size = ImageSize { channels: 1, height: side, width: side };
    let bright = |at: usize| (at % side < side / 2) == is_left;
    Image { size, pixels: (0..side * side).map(|at| if bright(at) { 200 + shade % 50 } else { shade }).collect() }
}

/// Writes folders of left and right halves.
fn halves(place: &Path) {
    for (split, count) in [("train", 12), ("dev", 4), ("test", 4)] {
        for (label, is_left) in [("left", true), ("right", false)] {
            let folder = place.join(split).join(label);
            fs::create_dir_all(&folder).unwrap();
            for at in 0..count {
                let shade = (split.len() * 13 + at * 7) as u8;
                fs::write(folder.join(format!("{at}.png")), half(is_left, shade, 8).to_png()).unwrap();
            }
        }
    }
}

#[test]
fn a_folder_for_each_label_is_learned_and_used() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("halves");
    halves(&data);
    fs::write(data.join("train/left/notes.txt"), "x").unwrap();
    let out = place.path().join("model");
    let model = path(&out);
    let train = ["train", "image", "--data", path(&data), "--out", model, "--steps", "60"];
    let told = regard(&[&train[..], &sets(&SMALL)].concat());
    let said = done(&told) + &text(&told.stderr);
    for words in ["24 train, 8 dev, 8 test", "size: 8 × 8 in grey", "left 12, right 12", "left out, not PNG or JPEG"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let scored = last_document(&done(&regard(&["eval", model, "--json"])));
    assert_eq!(scored["metrics"]["accuracy"], 1.0, "{scored}");

    // A bad picture is refused alone: truncated, too large, missing, of another format.
    let whole = half(true, 3, 20).to_png();
    let larger = place.path().join("larger.png");
    fs::write(&larger, &whole).unwrap();
    let cut = place.path().join("cut.png");
    fs::write(&cut, &whole[..whole.len() - 20]).unwrap();
    let huge = place.path().join("huge.png");
    let mut header = whole.clone();
    header[16..24].copy_from_slice(&[100_000u32.to_be_bytes(), 100_000u32.to_be_bytes()].concat());
    fs::write(&huge, &header).unwrap();
    let list = place.path().join("list.txt");
    let right = data.join("test/right/0.png");
    let lines =
        [&larger, &cut, &huge, &place.path().join("none.png"), &list, &right].map(|file| path(file).to_string());
    fs::write(&list, lines.join("\n")).unwrap();
    let output = regard(&["predict", model, "--input", path(&list), "--json"]);
    let answers = documents(&text(&output.stdout));
    assert_eq!(answers.len(), 6, "{}", text(&output.stderr));
    assert_eq!((&answers[0]["label"], &answers[5]["label"]), (&json!("left"), &json!("right")));
    for (at, words) in
        [(1, "whole PNG picture, found a truncated file"), (3, "no such file"), (4, "a PNG or JPEG picture")]
    {
        assert!(answers[at]["error"].as_str().unwrap().contains(words), "{}", answers[at]);
    }
    assert!(answers[2]["error"].as_str().unwrap().contains("cut.png") || answers[2]["error"].is_string());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(done(&regard(&["predict", model, "--input", path(&right)])).trim(), "right");

    // A split with a label that training does not have.
    let other = place.path().join("other");
    fs::create_dir_all(other.join("middle")).unwrap();
    fs::create_dir_all(other.join("left")).unwrap();
    fs::write(other.join("middle/1.png"), half(false, 9, 8).to_png()).unwrap();
    fs::write(other.join("left/1.png"), half(true, 9, 8).to_png()).unwrap();
    let scored = last_document(&done(&regard(&["eval", model, "--data", path(&other), "--json"])));
    assert_eq!(scored["metrics"]["accuracy"], 0.5, "{scored}");

    let drawing = place.path().join("look.svg");
    done(&regard(&["look", model, path(&right), "--out", path(&drawing)]));
    let drawing = fs::read_to_string(drawing).unwrap();
    assert!(drawing.contains("rolled out") && drawing.contains("probabilities"), "{}", &drawing[..500]);
    let report = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(report.contains("Features of a patch") && report.contains("rolled out"));
}

#[test]
fn data_are_checked_before_training() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("halves");
    halves(&data);
    fs::copy(data.join("train/left/0.png"), data.join("test/left/copy.png")).unwrap();
    fs::copy(data.join("train/left/1.png"), data.join("train/right/wrong.png")).unwrap();
    let said = done(&regard(&["data", "check", "image", path(&data)]));
    for words in
        ["right 13, left 12", "1 input of test is also in train", "1 input of train is there with different labels"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("words") && !said.contains("longest"), "pictures have neither: {said}");
    let cut = data.join("train/left/cut.png");
    fs::write(&cut, &half(true, 1, 8).to_png()[..50]).unwrap();
    fails_with(&regard(&["data", "check", "image", path(&data)]), 1, &["cut.png", "truncated file"]);
    fails_with(&regard(&["train", "image", "--data", path(&data)]), 1, &["cut.png", "truncated file"]);
    let wrong = place.path().join("train-images-idx3-ubyte");
    fs::write(&wrong, [0, 0, 8, 3, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, 9]).unwrap();
    fails_with(&regard(&["train", "image", "--data", path(&wrong)]), 1, &["4294967295 × 9 × 9 images", "found 16"]);
}

#[test]
fn built_in_digits_can_be_written_and_read_back() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("digits");
    done(&regard(&["data", "make", "image", "--out", path(&out)]));
    let checked = last_document(&done(&regard(&["data", "check", "image", path(&out), "--json"])));
    let counts: Vec<u64> =
        checked["splits"].as_array().unwrap().iter().map(|split| split["examples"].as_u64().unwrap()).collect();
    assert_eq!(counts, [4000, 500, 1000]);
}

#[test]
fn training_set_sizes_are_compared_as_curves() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("curves");
    let vary = ["--vary", "model.kind=vit,dnn", "--vary", "data.limit=16,64,256"];
    let compare = ["compare", "image", "--steps", "2", "--out", path(&out)];
    let small = sets(&["train.batch_examples=8", "train.evaluate_examples=20"]);
    let table = done(&regard(&[&compare[..], &vary, &small].concat()));
    assert!(table.contains("vit, 16") && table.contains("dnn, 256"), "{table}");
    let svg = fs::read_to_string(out.join("compare.svg")).unwrap();
    assert!(svg.contains("data.limit") && svg.contains(">vit<") && svg.contains(">dnn<"));
}
