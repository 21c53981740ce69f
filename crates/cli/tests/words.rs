//! Tests of the task `words`: training, predictions, pictures, and errors.

mod binary;

use std::fs;
use std::path::Path;

use binary::{document, documents, done, fails_with, path, read_document, regard, sets, text, write};
use serde_json::Value;

const FEW: [&str; 2] = ["model.d_model=24", "train.epochs=6"];

#[test]
fn vectors_from_built_in_stories() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("words");
    let folder = path(&folder);
    let told = documents(&done(&regard(&[&["train", "words", "--json", "--out", folder][..], &sets(&FEW)].concat())));
    let last = told.last().unwrap();
    assert_eq!((&last["finished"], &last["split"]), (&Value::from(true), &Value::from("test")));
    // The loss before training is 6 ln 2.
    let loss = last["metrics"]["loss"].as_f64().unwrap();
    assert!(loss < 3.0, "{last}");
    assert!(last["metrics"]["analogy_accuracy"].as_f64().unwrap() > 0.1, "{last}");

    let scores = &documents(&done(&regard(&["eval", folder, "--json"])))[0];
    assert_eq!(scores["task"], "words");
    assert_eq!(scores["metrics"], last["metrics"]);

    let inputs = ["Monday", "king queen", "paris - france + italy", "man woman king"];
    let told = documents(&done(&regard(&[&["predict", folder, "--json"], &inputs[..]].concat())));
    assert_eq!(told[0]["neighbours"].as_array().unwrap().len(), 10);
    let (first, second) = (&told[0]["neighbours"][0], &told[0]["neighbours"][1]);
    assert!(first["cosine"].as_f64() >= second["cosine"].as_f64() && first["word"] != "monday", "{told:?}");
    assert!(told[1]["cosine"].as_f64().unwrap() <= 1.0);
    assert_eq!(told[2]["output"], told[2]["neighbours"][0]["word"]);
    assert!(!["paris", "france", "italy"].contains(&told[2]["output"].as_str().unwrap()));
    assert_eq!(told[3]["input"], "man woman king");

    fails_with(&regard(&["predict", folder, "kign"]), 1, &["\"kign\"", "did you mean king"]);
    fails_with(&regard(&["predict", folder, ""]), 1, &["paris - france + italy"]);

    // The format that other programs read: a header, then a word and its numbers per line.
    let vectors = fs::read_to_string(Path::new(folder).join("vectors.txt")).unwrap();
    let mut rows = vectors.lines();
    let (count, width) = rows.next().unwrap().split_once(' ').unwrap();
    assert_eq!((rows.clone().count().to_string().as_str(), width), (count, "24"));
    assert!(rows.all(|row| row.split(' ').skip(1).filter(|x| x.parse::<f32>().is_ok()).count() == 24));
    let config = read_document(&Path::new(folder).join("config.json"));
    assert!(config["files"]["vectors.txt"].is_string());

    let picture = place.path().join("words.svg");
    done(&regard(&["look", folder, "--out", path(&picture)]));
    let svg = fs::read_to_string(&picture).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("capitals") && svg.contains("paris"));
    let numbers = place.path().join("words.json");
    done(&regard(&["look", folder, "king paris", "--out", path(&numbers)]));
    let numbers = read_document(&numbers);
    let words = numbers["words"].as_array().unwrap();
    assert!(words.len() > 10 && words[0]["word"] == "king" && words[0]["group"] == "king", "{numbers}");
    let report = fs::read_to_string(Path::new(folder).join("report.html")).unwrap();
    assert!(report.contains("capitals to countries") && report.contains("Word vectors"));
}

#[test]
fn a_text_file_and_cbow() {
    let place = tempfile::tempdir().unwrap();
    // Cats and dogs have the same neighbours, stones have others.
    let lines = (0..400).map(|i| match i % 4 {
        0 => "the cat eats food and the cat sleeps\n",
        1 => "the dog eats food and the dog sleeps\n",
        2 => "a grey stone lies under water\n",
        _ => "a grey rock lies under water\n",
    });
    let file = write(&place, "text.txt", lines.collect::<String>());
    let questions = write(&place, "questions.txt", ": beings\ncat dog stone rock\ncat dog stone unicorn\n");
    let folder = place.path().join("model");
    let folder = path(&folder);
    let analogies = format!("data.analogies={questions}");
    let settings = sets(&["model.kind=cbow", &analogies, "data.subsample=0"]);
    let train = ["train", "words", "--data", &file, "--out", folder];
    let output = regard(&[&train[..], &settings, &sets(&FEW)].concat());
    done(&output);
    let told = text(&output.stderr);
    assert!(told.contains("1 of 2 analogies"), "{told}");
    let told = document(&done(&regard(&["predict", folder, "--json", "cat"])));
    let near: Vec<&str> =
        told["neighbours"].as_array().unwrap().iter().take(3).map(|near| near["word"].as_str().unwrap()).collect();
    assert!(near.contains(&"dog"), "{near:?}");
    // Without known groups, the picture finds some.
    done(&regard(&["look", folder, "--out", path(&place.path().join("w.png"))]));
}

#[test]
fn unusable_texts_and_settings_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("model");
    let refused = |more: &[&str], code: i32, words: &[&str]| {
        fails_with(&regard(&[&["train", "words", "--out", path(&out)], more].concat()), code, words);
    };
    let file = |content: &[u8]| write(&place, "t.txt", content);
    refused(&["--data", &file(b"")], 1, &["empty"]);
    refused(&["--data", &file(&[0x66, 0xff, 0xfe, 0x00, 0x80])], 1, &["UTF-8"]);
    refused(&["--data", &file(b"a few words that are all rare\n")], 1, &["data.min_count"]);
    refused(&["--set", "model.windwo=3"], 2, &["windwo", "window"]);
    for (set, field) in [
        ("model.negatives=0", "model.negatives"),
        ("model.negatives=1001", "model.negatives"),
        ("model.window=257", "model.window"),
        ("model.d_model=100000000", "model.d_model"),
        ("train.label_smoothing=0.1", "train.label_smoothing"),
    ] {
        refused(&["--set", set], 2, &[field]);
    }
    let analogies = format!("data.analogies={}", file(b"a b c\n"));
    refused(&["--set", &analogies], 1, &["line 1", "four words"]);
    assert!(!out.exists(), "a refused run leaves no folder");
}
