//! Tests of the task `translate`: from a file of pairs to a translator, and errors for invalid files.

mod binary;

use std::fs;
use std::path::Path;
use std::process::Command;

use binary::{
    Ended, document, documents, done, fails_with, last_document, pairs, path, read_document, regard, sets, sets_beside,
    text, write,
};

const TINY: [&str; 6] = [
    "model.d_model=32",
    "model.d_ff=64",
    "train.batch_tokens=256",
    "train.evaluate_every=20",
    "train.checkpoint_every=20",
    "train.warmup=10",
];

fn train(data: &str, out: &Path, more: &[&str]) -> String {
    let train = ["train", "translate", "--data", data, "--out", path(out)];
    done(&regard(&[&train[..], &sets_beside(more, &TINY), more].concat()))
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
        let last = last_document(&printed);
        assert_eq!(last["finished"], true);
        let exact = last["metrics"]["exact"].as_f64().unwrap();
        assert!(exact > 0.5, "{name}: {printed}");
        let model = &read_document(&out.join("config.json"))["config"]["model"];
        assert_eq!((&model["kind"], model.get("n_heads").is_some()), (&name.into(), name == "transformer"), "{model}");
        let out = path(&out);
        let found = documents(&done(&regard(&["predict", out, "--json", "three one two", "five five five"])));
        assert_eq!(found[0]["input"], "three one two");
        assert_eq!(found[0]["output"], found[0]["translation"]);
        let scores = document(&done(&regard(&["eval", out, "--json"])));
        assert_eq!(scores["metrics"], last["metrics"], "the folder scores as its training did");
        assert_eq!(scores["task"], "translate");
        let whole = document(&done(&regard(&["eval", out, "--json", "--data", &data])));
        assert_eq!(whole["examples"], 125);
        for extension in ["html", "svg", "png", "json"] {
            let picture = place.path().join(format!("{name}.{extension}"));
            done(&regard(&["look", out, "three one two", "--out", path(&picture)]));
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
    let more = sets(&["model.kind=gru", "model.n_layers=1", hard]);
    train(&data, &out, &[&more[..], &["--steps", "40"]].concat());
    let state = fs::read_to_string(out.join("checkpoints/step-40/state.json")).unwrap();
    assert!(state.contains("baseline"), "the baseline of rewards is part of the state");
    done(&regard(&["train", "translate", "--resume", "--steps", "60", "--out", path(&out)]));
}

#[test]
fn bad_data_are_refused_with_file_and_line() {
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| write(&place, name, content);
    let out = place.path().join("never");
    let train = ["train", "translate", "--out", path(&out), "--data"];
    let refused = |data: &str, words: &[&str]| fails_with(&regard(&[&train[..], &[data]].concat()), 1, words);
    refused(&file("empty.tsv", b""), &["empty.tsv", "empty"]);
    refused(&file("binary.tsv", &[0x7F, b'E', 0xFF, 0x00, 0xFE, b'\n']), &["binary.tsv", "line 1"]);
    refused(&file("untabbed.tsv", b"one\tun\ntwo deux\n"), &["untabbed.tsv", "line 2", "tab"]);
    refused(&file("pairs.jsonl", b"{\"source\": \"one\"}\n"), &["pairs.jsonl", "line 1", "target"]);
    refused(path(&place.path().join("none.tsv")), &["none.tsv"]);
    refused(&file("cut.tsv.gz", &[0x1F, 0x8B, 8, 0, 0]), &["cut.tsv.gz"]);
    assert!(!out.exists(), "nothing is written for data that cannot be read");
}

#[test]
fn a_share_of_the_pairs_is_used() {
    let place = tempfile::tempdir().unwrap();
    let data = pairs(place.path());
    let check = |share: &str| regard(&["data", "check", "translate", &data, "--set", &format!("data.share={share}")]);
    let checked = done(&check("0.5"));
    assert!(checked.contains("training pairs are used (data.share)"), "{checked}");
    fails_with(&check("1e-9"), 1, &["data.share", "leaves none of"]);
}

#[test]
fn wrong_settings_are_wrong_use() {
    let refused = |more: &[&str], words: &[&str]| {
        fails_with(&regard(&[&["train", "translate"], more].concat()), 2, words);
    };
    refused(&["--set", "model.n_head=4"], &["n_head", "n_heads"]);
    refused(&["--set", "model.n_heads=3"], &["n_heads"]);
    refused(&["--set", "model.position=ropes"], &["ropes", "rope"]);
    refused(&["--set", "train.learning_rate=-1"], &["train.learning_rate"]);
    refused(&["--set", "model.kind=bag"], &["model.kind", "lstm"]);
    refused(&["--set", "data.share=1.5"], &["data.share", "above 0", "up to 1"]);
    refused(&["--set", "steps"], &["key=value"]);
    let other = ["--set model.n_heads=8: model.kind=lstm has no n_heads", "model.kind=transformer has it"];
    refused(&["--set", "model.n_heads=8", "--set", "model.kind=lstm"], &other);
    fails_with(&regard(&["train", "nothing"]), 2, &["translate"]);
    let place = tempfile::tempdir().unwrap();
    let config = place.path().join("c.toml");
    fs::write(&config, "[train]\nsteps = \"many\"\n").unwrap();
    refused(&["--config", path(&config)], &["c.toml", "train.steps"]);
    fs::write(&config, "[model]\nkind = \"gru\"\nmemory = \"layer_by_layer\"\n").unwrap();
    refused(&["--config", path(&config)], &["c.toml: model.kind=gru has no memory", "model.kind=transformer has it"]);
    fs::write(&config, "[train\n").unwrap();
    refused(&["--config", path(&config)], &["c.toml", "line 1"]);
    fails_with(
        &regard(&["train", "translate", "--set", "model.d_model=400000", "--out", "x"]),
        1,
        &["memory", "GiB", "d_model"],
    );
}

#[test]
fn damaged_folders_are_named() {
    let place = tempfile::tempdir().unwrap();
    let data = pairs(place.path());
    let out = place.path().join("model");
    train(&data, &out, &["--steps", "2"]);
    let folder = path(&out);
    fails_with(&regard(&["predict", folder, &"one ".repeat(100)]), 1, &["60 tokens"]);
    fails_with(&regard(&["predict", folder, ""]), 1, &["1 to 60 tokens"]);
    fails_with(&regard(&["generate", folder, "one"]), 2, &["translate cannot generate"]);
    fails_with(&regard(&["look", folder, "one", "--out", "a.gif"]), 2, &["a.gif", ".svg"]);
    fails_with(&regard(&["predict", path(place.path()), "one"]), 1, &["not a model folder"]);
    for (name, at) in [("model.safetensors", 500), ("tokenizer.json", 100), ("config.json", 1)] {
        let file = out.join(name);
        let good = fs::read(&file).unwrap();
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        fs::write(&file, &bad).unwrap();
        fails_with(&regard(&["predict", folder, "one"]), 1, &[name, "damaged"]);
        fs::remove_file(&file).unwrap();
        fails_with(&regard(&["predict", folder, "one"]), 1, &[name]);
        fs::write(&file, &good).unwrap();
    }
    done(&regard(&["predict", folder, "one"]));

    // An earlier version wrote the keys of all kinds of networks.
    let config = out.join("config.json");
    let mut old = read_document(&config);
    old["format"] = 1.into();
    old["config"]["model"]["score"] = "general".into();
    fs::write(&config, old.to_string()).unwrap();
    let output = regard(&["predict", folder, "one"]);
    fails_with(&output, 1, &["config.json: written by an earlier version", "cannot be opened"]);
    assert_eq!(text(&output.stderr).lines().count(), 1);
}

/// A limit on the size of files imitates a full disk: writing fails in the middle.
#[test]
#[cfg(unix)]
fn a_full_disk_loses_nothing() {
    let place = tempfile::tempdir().unwrap();
    let data = pairs(place.path());
    let out = place.path().join("model");
    train(&data, &out, &["--steps", "20"]);
    let before = fs::read(out.join("model.safetensors")).unwrap();
    let script = "trap '' XFSZ; ulimit -f 20; exec \"$0\" train translate --resume --steps 40 --out \"$1\"";
    let output = Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_regard")]).arg(&out).ended();
    fails_with(&output, 1, &["checkpoints"]);
    assert!(fs::read(out.join("model.safetensors")).unwrap() == before);
    done(&regard(&["predict", path(&out), "one two three"]));
    done(&regard(&["train", "translate", "--resume", "--steps", "40", "--out", path(&out)]));
    let whole = place.path().join("whole");
    train(&data, &whole, &["--steps", "20"]);
    done(&regard(&["train", "translate", "--resume", "--steps", "40", "--out", path(&whole)]));
    assert!(fs::read(whole.join("model.safetensors")).unwrap() == fs::read(out.join("model.safetensors")).unwrap());
}
