//! Word vectors by their command: trained, asked, drawn, and what is refused.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn regard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_regard")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).to_string()
}

fn done(arguments: &[&str]) -> String {
    let output = regard(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The exit code and what was told; line breaks of the message do not matter.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = regard(arguments);
    assert!(!output.status.success(), "{arguments:?}: {}", text(&output.stdout));
    let told: Vec<String> = text(&output.stderr).replace('│', " ").split_whitespace().map(str::to_string).collect();
    (output.status.code(), told.join(" "))
}

fn lines(told: &str) -> Vec<Value> {
    told.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const FEW: [&str; 4] = ["--set", "model.d_model=24", "--set", "train.epochs=6"];

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn vectors_from_built_in_stories() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("words");
    let folder = path(&folder);
    let told = lines(&done(&[&["train", "words", "--json", "--out", folder], &FEW[..]].concat()));
    let last = told.last().unwrap();
    assert_eq!((&last["finished"], &last["split"]), (&Value::from(true), &Value::from("test")));
    // Before training it is six times ln 2.
    let loss = last["metrics"]["loss"].as_f64().unwrap();
    assert!(loss < 3.0, "{last}");
    assert!(last["metrics"]["analogy_accuracy"].as_f64().unwrap() > 0.1, "{last}");

    let scores = &lines(&done(&["eval", folder, "--json"]))[0];
    assert_eq!(scores["task"], "words");
    assert_eq!(scores["metrics"], last["metrics"]);

    let told = lines(&done(&[
        "predict",
        folder,
        "--json",
        "Monday",
        "king queen",
        "paris - france + italy",
        "man woman king",
    ]));
    assert_eq!(told[0]["neighbours"].as_array().unwrap().len(), 10);
    let (first, second) = (&told[0]["neighbours"][0], &told[0]["neighbours"][1]);
    assert!(first["cosine"].as_f64() >= second["cosine"].as_f64() && first["word"] != "monday", "{told:?}");
    assert!(told[1]["cosine"].as_f64().unwrap() <= 1.0);
    assert_eq!(told[2]["output"], told[2]["neighbours"][0]["word"]);
    assert!(!["paris", "france", "italy"].contains(&told[2]["output"].as_str().unwrap()));
    assert_eq!(told[3]["input"], "man woman king");

    let (code, told) = refused(&["predict", folder, "kign"]);
    assert!(code == Some(1) && told.contains("\"kign\"") && told.contains("did you mean king"), "{told}");
    let (_, told) = refused(&["predict", folder, ""]);
    assert!(told.contains("paris - france + italy"), "{told}");

    // What other programs read: a header, then a word and its numbers a line.
    let vectors = fs::read_to_string(Path::new(folder).join("vectors.txt")).unwrap();
    let mut rows = vectors.lines();
    let (count, width) = rows.next().unwrap().split_once(' ').unwrap();
    assert_eq!((rows.clone().count().to_string().as_str(), width), (count, "24"));
    assert!(rows.all(|row| row.split(' ').skip(1).filter(|x| x.parse::<f32>().is_ok()).count() == 24));
    let config: Value = serde_json::from_slice(&fs::read(Path::new(folder).join("config.json")).unwrap()).unwrap();
    assert!(config["files"]["vectors.txt"].is_string());

    let picture = place.path().join("words.svg");
    done(&["look", folder, "--out", path(&picture)]);
    let svg = fs::read_to_string(&picture).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("capitals") && svg.contains("paris"));
    let numbers = place.path().join("words.json");
    done(&["look", folder, "king paris", "--out", path(&numbers)]);
    let numbers: Value = serde_json::from_slice(&fs::read(&numbers).unwrap()).unwrap();
    let words = numbers["words"].as_array().unwrap();
    assert!(words.len() > 10 && words[0]["word"] == "king" && words[0]["group"] == "king", "{numbers}");
    let report = fs::read_to_string(Path::new(folder).join("report.html")).unwrap();
    assert!(report.contains("capitals to countries") && report.contains("Word vectors"));
}

#[test]
fn a_text_of_ones_own_and_cbow() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("text.txt");
    // Cats and dogs keep the same company, stones another.
    let lines = (0..400).map(|i| match i % 4 {
        0 => "the cat eats food and the cat sleeps\n",
        1 => "the dog eats food and the dog sleeps\n",
        2 => "a grey stone lies under water\n",
        _ => "a grey rock lies under water\n",
    });
    fs::write(&file, lines.collect::<String>()).unwrap();
    let questions = place.path().join("questions.txt");
    fs::write(&questions, ": beings\ncat dog stone rock\ncat dog stone unicorn\n").unwrap();
    let folder = place.path().join("model");
    let analogies = format!("data.analogies={}", path(&questions));
    let arguments =
        ["train", "words", "--data", path(&file), "--out", path(&folder), "--set", "model.kind=cbow", "--set"];
    let output = regard(&[&arguments[..], &[&analogies, "--set", "data.subsample=0"], &FEW[..]].concat());
    let told = text(&output.stderr);
    assert!(output.status.success() && told.contains("1 of 2 analogies"), "{told}");
    let told = lines_of(&done(&["predict", path(&folder), "--json", "cat"]));
    let near: Vec<&str> =
        told["neighbours"].as_array().unwrap().iter().take(3).map(|near| near["word"].as_str().unwrap()).collect();
    assert!(near.contains(&"dog"), "{near:?}");
    // Groups are found where none are known.
    done(&["look", path(&folder), "--out", path(&place.path().join("w.png"))]);
}

fn lines_of(told: &str) -> Value {
    serde_json::from_str(told.trim()).unwrap()
}

#[test]
fn what_cannot_be_learnt_from_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("t.txt");
    let out = place.path().join("model");
    let train = |more: &[&str]| refused(&[&["train", "words", "--out", path(&out)], more].concat());
    fs::write(&file, "").unwrap();
    let (code, told) = train(&["--data", path(&file)]);
    assert!(code == Some(1) && told.contains("empty"), "{told}");
    fs::write(&file, [0x66, 0xff, 0xfe, 0x00, 0x80]).unwrap();
    assert!(train(&["--data", path(&file)]).1.contains("UTF-8"));
    fs::write(&file, "a few words that are all rare\n").unwrap();
    let (_, told) = train(&["--data", path(&file)]);
    assert!(told.contains("data.min_count"), "{told}");
    let (code, told) = train(&["--set", "model.windwo=3"]);
    assert!(code == Some(2) && told.contains("windwo") && told.contains("window"), "{told}");
    for (set, field) in [
        ("model.negatives=0", "model.negatives"),
        ("model.negatives=1001", "model.negatives"),
        ("model.window=257", "model.window"),
        ("model.d_model=100000000", "model.d_model"),
        ("train.label_smoothing=0.1", "train.label_smoothing"),
    ] {
        let (code, told) = train(&["--set", set]);
        assert!(code == Some(2) && told.contains(field), "{set}: {told}");
    }
    fs::write(&file, "a b c\n").unwrap();
    let (_, told) = train(&["--set", &format!("data.analogies={}", path(&file))]);
    assert!(told.contains("line 1") && told.contains("four words"), "{told}");
    assert!(!out.exists(), "nothing is left of what was refused");
}
