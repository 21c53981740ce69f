//! From a file of pairs to a translator, and what happens to files that are not what they should be.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn regard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_regard")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn succeeds(arguments: &[&str]) -> String {
    let output = regard(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Fails with this exit code and a message that has all of these; nothing that looks like a panic.
fn fails(arguments: &[&str], code: i32, parts: &[&str]) {
    let output = regard(arguments);
    let message = said(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
    // Long lines are broken, perhaps within a path.
    let plain = |text: &str| text.replace([' ', '│'], "");
    for part in parts {
        assert!(plain(&message).contains(&plain(part)), "{part:?} is not in {message}");
    }
    assert!(!message.contains("panicked"), "{message}");
}

/// Numbers as words, which a tiny model can learn.
fn pairs(folder: &Path) -> PathBuf {
    let words = [("one", "un"), ("two", "deux"), ("three", "trois"), ("four", "quatre"), ("five", "cinq")];
    let mut text = String::new();
    for a in words {
        for b in words {
            for c in words {
                text += &format!("{} {} {}\t{} {} {}\n", a.0, b.0, c.0, a.1, b.1, c.1);
            }
        }
    }
    let path = folder.join("pairs.tsv");
    fs::write(&path, text).unwrap();
    path
}

const TINY: [&str; 12] = [
    "--set",
    "model.d_model=32",
    "--set",
    "model.d_ff=64",
    "--set",
    "train.batch_tokens=256",
    "--set",
    "train.evaluate_every=20",
    "--set",
    "train.checkpoint_every=20",
    "--set",
    "train.warmup=10",
];

fn train(data: &Path, out: &Path, more: &[&str]) -> String {
    let (data, out) = (data.to_str().unwrap(), out.to_str().unwrap());
    succeeds(&[&["train", "translate", "--data", data, "--out", out], &TINY[..], more].concat())
}

#[test]
fn a_file_becomes_a_model_that_translates() {
    let place = tempfile::tempdir().unwrap();
    let data = pairs(place.path());
    for (name, more) in [
        ("transformer", &["--steps", "250"][..]),
        ("gru", &["--steps", "250", "--set", "model.kind=gru", "--set", "model.n_layers=1", "--set", "decode.size=3"]),
    ] {
        let out = place.path().join(name);
        let printed = train(&data, &out, &[more, &["--json"]].concat());
        let last: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
        assert_eq!(last["finished"], true);
        let exact = last["metrics"]["exact"].as_f64().unwrap();
        assert!(exact > 0.5, "{name}: {printed}");
        let out = out.to_str().unwrap();
        let predicted = succeeds(&["predict", out, "--json", "three one two", "five five five"]);
        let first: Value = serde_json::from_str(predicted.lines().next().unwrap()).unwrap();
        assert_eq!(first["input"], "three one two");
        assert_eq!(first["output"], first["translation"]);
        let scores: Value = serde_json::from_str(&succeeds(&["eval", out, "--json"])).unwrap();
        assert_eq!(scores["metrics"], last["metrics"], "the folder scores as its training did");
        assert_eq!(scores["task"], "translate");
        let whole: Value =
            serde_json::from_str(&succeeds(&["eval", out, "--json", "--data", data.to_str().unwrap()])).unwrap();
        assert_eq!(whole["examples"], 125);
        for extension in ["html", "svg", "png", "json"] {
            let picture = place.path().join(format!("{name}.{extension}"));
            succeeds(&["look", out, "three one two", "--out", picture.to_str().unwrap()]);
            assert!(fs::metadata(picture).unwrap().len() > 100);
        }
        assert!(fs::read_to_string(Path::new(out).join("report.html")).unwrap().contains("three"));
    }
}

#[test]
fn hard_attention_trains_and_resumes() {
    let place = tempfile::tempdir().unwrap();
    let data = pairs(place.path());
    let out = place.path().join("hard");
    let hard = "model.selection={ kind = \"hard\", estimator = \"score_function\" }";
    let more = ["--set", "model.kind=gru", "--set", "model.n_layers=1", "--set", hard];
    train(&data, &out, &[&more[..], &["--steps", "40"]].concat());
    let state = fs::read_to_string(out.join("checkpoints/step-40/state.json")).unwrap();
    assert!(state.contains("baseline"), "the baseline of rewards is a part of the state");
    succeeds(&["train", "translate", "--resume", "--steps", "60", "--out", out.to_str().unwrap()]);
}

#[test]
fn bad_data_are_refused_with_their_place() {
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = place.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_string()
    };
    let out = place.path().join("never").to_str().unwrap().to_string();
    let refused = |data: &str, parts: &[&str]| fails(&["train", "translate", "--data", data, "--out", &out], 1, parts);
    refused(&file("empty.tsv", b""), &["empty.tsv", "empty"]);
    refused(&file("binary.tsv", &[0x7F, b'E', 0xFF, 0x00, 0xFE, b'\n']), &["binary.tsv", "line 1"]);
    refused(&file("untabbed.tsv", b"one\tun\ntwo deux\n"), &["untabbed.tsv", "line 2", "tab"]);
    refused(&file("pairs.jsonl", b"{\"source\": \"one\"}\n"), &["pairs.jsonl", "line 1", "target"]);
    refused(place.path().join("none.tsv").to_str().unwrap(), &["none.tsv"]);
    refused(&file("cut.tsv.gz", &[0x1F, 0x8B, 8, 0, 0]), &["cut.tsv.gz"]);
    assert!(!Path::new(&out).exists(), "nothing is written for data that cannot be read");
}

#[test]
fn wrong_settings_are_wrong_use() {
    fails(&["train", "translate", "--set", "model.n_head=4"], 2, &["n_head", "n_heads"]);
    fails(&["train", "translate", "--set", "model.n_heads=3"], 2, &["n_heads"]);
    fails(&["train", "translate", "--set", "model.position=ropes"], 2, &["ropes", "rope"]);
    fails(&["train", "translate", "--set", "train.learning_rate=-1"], 2, &["train.learning_rate"]);
    fails(&["train", "translate", "--set", "model.kind=bag"], 2, &["model.kind", "lstm"]);
    fails(&["train", "translate", "--set", "steps"], 2, &["key=value"]);
    fails(&["train", "nothing"], 2, &["translate"]);
    let place = tempfile::tempdir().unwrap();
    let config = place.path().join("c.toml");
    fs::write(&config, "[train]\nsteps = \"many\"\n").unwrap();
    fails(&["train", "translate", "--config", config.to_str().unwrap()], 2, &["c.toml", "train.steps"]);
    fs::write(&config, "[train\n").unwrap();
    fails(&["train", "translate", "--config", config.to_str().unwrap()], 2, &["c.toml", "line 1"]);
    fails(&["train", "translate", "--set", "model.d_model=400000", "--out", "x"], 1, &["memory", "GiB", "d_model"]);
}

#[test]
fn damaged_folders_are_named() {
    let place = tempfile::tempdir().unwrap();
    let data = pairs(place.path());
    let out = place.path().join("model");
    train(&data, &out, &["--steps", "2"]);
    let folder = out.to_str().unwrap();
    fails(&["predict", folder, &"one ".repeat(100)], 1, &["60 tokens"]);
    fails(&["predict", folder, ""], 1, &["1 to 60 tokens"]);
    fails(&["generate", folder, "one"], 2, &["translate cannot generate"]);
    fails(&["look", folder, "one", "--out", "a.gif"], 2, &["a.gif", ".svg"]);
    fails(&["predict", place.path().to_str().unwrap(), "one"], 1, &["no model folder"]);
    for (name, at) in [("model.safetensors", 500), ("tokenizer.json", 100), ("config.json", 1)] {
        let path = out.join(name);
        let good = fs::read(&path).unwrap();
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        fs::write(&path, &bad).unwrap();
        fails(&["predict", folder, "one"], 1, &[name, "damaged"]);
        fs::remove_file(&path).unwrap();
        fails(&["predict", folder, "one"], 1, &[name]);
        fs::write(&path, &good).unwrap();
    }
    succeeds(&["predict", folder, "one"]);
}

/// A limit on the size of files stands for a disk that is full: writing fails in the middle.
#[test]
#[cfg(unix)]
fn a_full_disk_loses_nothing() {
    let place = tempfile::tempdir().unwrap();
    let data = pairs(place.path());
    let out = place.path().join("model");
    train(&data, &out, &["--steps", "20"]);
    let before = fs::read(out.join("model.safetensors")).unwrap();
    let script = "trap '' XFSZ; ulimit -f 20; exec \"$0\" train translate --resume --steps 40 --out \"$1\"";
    let output = Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_regard")]).arg(&out).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("checkpoints"), "{}", said(&output));
    assert!(fs::read(out.join("model.safetensors")).unwrap() == before);
    succeeds(&["predict", out.to_str().unwrap(), "one two three"]);
    succeeds(&["train", "translate", "--resume", "--steps", "40", "--out", out.to_str().unwrap()]);
    let whole = place.path().join("whole");
    train(&data, &whole, &["--steps", "20"]);
    succeeds(&["train", "translate", "--resume", "--steps", "40", "--out", whole.to_str().unwrap()]);
    assert!(fs::read(whole.join("model.safetensors")).unwrap() == fs::read(out.join("model.safetensors")).unwrap());
}
