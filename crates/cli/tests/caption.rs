//! Tests of `caption`: train on a folder of pictures, eval, predict, look, and answers to bad pictures.

mod binary;

use std::fs;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binary::{document, documents, done, fails_with, path, regard, sets, text};
use regard_data::builtin::{Sizes, scenes};
use serde_json::json;

const SMALL: [&str; 6] = [
    "model.d_model=8",
    "model.channels=[4, 4]",
    "model.groups=2",
    "train.batch_examples=2",
    "train.evaluate_every=2",
    "train.warmup=1",
];

/// Writes three pictures for each split.
fn folder(place: &Path) {
    let mut lines = "file\tcaption\tsplit\n".to_string();
    for (at, scene) in scenes(Sizes { train: 9, dev: 0, test: 0 }, 1).train.iter().enumerate() {
        fs::write(place.join(format!("{at}.png")), scene.image.to_png()).unwrap();
        lines += &format!("{at}.png\t{}\t{}\n", scene.sentence, ["train", "dev", "test"][at / 3]);
    }
    fs::write(place.join("captions.tsv"), lines).unwrap();
}

/// A PNG whose header says 100,000 × 100,000 pixels.
fn huge() -> Vec<u8> {
    let mut header = b"IHDR".to_vec();
    header.extend([100_000u32.to_be_bytes(), 100_000u32.to_be_bytes()].concat());
    header.extend([8, 2, 0, 0, 0]);
    let crc = header.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 })
    });
    [b"\x89PNG\r\n\x1a\n\0\0\0\x0d".as_slice(), &header, &(!crc).to_be_bytes()].concat()
}

#[test]
fn a_folder_of_pictures_is_learnt_described_and_drawn() {
    let place = tempfile::tempdir().unwrap();
    folder(place.path());
    let (data, out) = (path(place.path()), place.path().join("model"));
    let model = path(&out);
    let checked = done(&regard(&["data", "check", "caption", data]));
    assert!(checked.contains("train") && !checked.contains("warning"), "{checked}");
    done(&regard(&[&["train", "caption", "--data", data, "--steps", "4", "--out", model][..], &sets(&SMALL)].concat()));
    assert!(fs::read_to_string(out.join("report.html")).unwrap().contains("Pictures and the captions of the model"));
    let scored =
        document(&done(&regard(&["eval", model, "--data", path(&place.path().join("captions.tsv")), "--json"])));
    assert_eq!(scored["examples"], 9, "{scored}");

    // A picture is the same from a file, as base64 and as a built-in one: the first three scenes of train.
    let file = place.path().join("1.png");
    let encoded = json!({ "image": STANDARD.encode(fs::read(&file).unwrap()) }).to_string();
    let answers = documents(&done(&regard(&["predict", model, path(&file), &encoded, "builtin:train/1", "--json"])));
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(|answer| answer["caption"] == answers[0]["output"]), "{answers:?}");
    // One line per picture that captions.tsv names.
    let all = done(&regard(&["predict", model, "--input", path(&place.path().join("captions.tsv"))]));
    assert_eq!(all.lines().count(), 9, "{all}");

    let looked = document(&done(&regard(&["look", model, path(&file), "--json"])));
    let picture = &looked["picture"];
    assert_eq!((&picture["grid"], &picture["caption"]), (&json!([8, 8]), &answers[0]["caption"]));
    assert_eq!(picture["words"].as_array().unwrap().last().unwrap()["word"], "</s>");
    let drawing = place.path().join("look.svg");
    done(&regard(&["look", model, "builtin:test/3", "--out", path(&drawing)]));
    assert!(fs::read_to_string(drawing).unwrap().contains("Where the model looks for each word"));
    let drawing = place.path().join("positions.svg");
    done(&regard(&["look", model, "--positions", "--out", path(&drawing)]));
}

#[test]
fn a_bad_picture_is_an_error_for_that_input_alone() {
    let place = tempfile::tempdir().unwrap();
    folder(place.path());
    let (data, out) = (path(place.path()), place.path().join("model"));
    let model = path(&out);
    done(&regard(&[&["train", "caption", "--data", data, "--steps", "1", "--out", model][..], &sets(&SMALL)].concat()));
    let good = place.path().join("0.png");
    let bytes = fs::read(&good).unwrap();
    let mut list = format!("{}\n", path(&good));
    let bad: [(&str, &[u8], &str); 3] = [
        ("half.png", &bytes[..bytes.len() / 2], "truncated"),
        ("huge.png", &huge(), "100000"),
        ("text.png", b"not a picture", "a PNG or JPEG picture"),
    ];
    for (name, content, _) in bad {
        let file = place.path().join(name);
        fs::write(&file, content).unwrap();
        list += &format!("{}\n", path(&file));
    }
    list += &format!("{}\nbuiltin:test/1000\nbuiltin:train/0\n", path(&place.path().join("none.png")));
    let inputs = place.path().join("list.txt");
    fs::write(&inputs, list).unwrap();
    let output = regard(&["predict", model, "--input", path(&inputs), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let answers = documents(&text(&output.stdout));
    assert_eq!(answers.len(), 7, "{}", text(&output.stderr));
    assert!(answers[0]["caption"].is_string() && answers[0]["caption"] == answers[6]["caption"], "{answers:?}");
    let messages = bad.map(|(_, _, message)| message).into_iter().chain(["no such file", "a built-in scene of test"]);
    for (answer, message) in answers[1..].iter().zip(messages) {
        assert!(answer["error"].as_str().unwrap().contains(message), "{message}: {answer}");
    }
    fails_with(&regard(&["predict", model, "none.png"]), 1, &["none.png: there is no such file"]);
    assert_eq!(done(&regard(&["predict", model, "--input", path(&good)])).lines().count(), 1);
}

#[test]
fn data_check_names_every_bad_line() {
    let place = tempfile::tempdir().unwrap();
    folder(place.path());
    let file = place.path().join("captions.tsv");
    let more = "20.png\tmissing\ttest\nno tab\n0.png\t\ttrain\n../0.png\toutside\ttrain\n";
    fs::write(&file, fs::read_to_string(&file).unwrap() + more).unwrap();
    for data in [place.path(), &file] {
        let output = regard(&["data", "check", "caption", path(data)]);
        fails_with(&output, 1, &["4 problems"]);
        let told = text(&output.stdout);
        for message in [
            "captions.tsv, line 11: expected the name of a picture in the folder of captions.tsv, found \"20.png\"",
            "captions.tsv, line 12: expected file<TAB>sentence, found no tab",
            "captions.tsv, line 13: expected file<TAB>sentence, found no sentence for \"0.png\"",
            "captions.tsv, line 14: expected the name of a picture in the folder of captions.tsv, found \"../0.png\"",
        ] {
            assert!(told.contains(message), "{message}: {told}");
        }
    }
}
