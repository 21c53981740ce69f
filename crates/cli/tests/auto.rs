//! Tests of the automatic choice: what is printed and saved, what is set by hand, and the plain defaults.

mod binary;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use binary::{done, fails_with, path, read_document, regard, sets, text, write};
use serde_json::Value;

/// Returns 300 tagged sentences in the format token<TAB>tag.
fn sentences() -> String {
    let mut content = String::new();
    for n in 0..300 {
        let (noun, verb) = (["cat", "dog", "cow"][n % 3], ["sees", "hears"][n / 3 % 2]);
        write!(content, "the\tDET\n{noun}\tNOUN\n{verb}\tVERB\nnumber{n}\tNUM\n\n").unwrap();
    }
    content
}

fn trained(out: &Path, data: &str, more: &[&str]) -> (Value, String) {
    let train = ["train", "tag", "--data", data, "--out", path(out), "--steps", "4", "--threads", "1", "--json"];
    let output = regard(&[&train[..], more].concat());
    done(&output);
    (read_document(&out.join("config.json")), text(&output.stderr))
}

#[test]
fn what_was_chosen_is_printed_saved_and_reported() {
    let place = tempfile::tempdir().unwrap();
    let data = write(&place, "tagged.tsv", sentences());
    let out = place.path().join("run");
    let (saved, said) = trained(&out, &data, &["--set", "model.dropout=0.25"]);
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("auto: ")).collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert_eq!(saved["chosen"], Value::from(lines.clone()));
    assert_eq!((&saved["config"]["auto"], &saved["config"]["model"]["kind"]), (&"on".into(), &"lstm".into()));
    assert_eq!(saved["config"]["model"]["dropout"], 0.25);
    assert!(lines[1].contains("model.kind=lstm") && !lines[1].contains("model.dropout"), "{lines:?}");
    assert!(!lines[2].contains("train.steps="), "set by hand: {lines:?}");
    let report = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(report.contains("Chosen for these data") && report.contains("words in"));

    // A run that goes on keeps its choice, whatever a new one would be.
    let mut moved = saved.clone();
    let resumed =
        regard(&["train", "tag", "--resume", "--out", path(&out), "--steps", "6", "--threads", "1", "--json"]);
    done(&resumed);
    assert!(!text(&resumed.stderr).contains("auto: "), "{}", text(&resumed.stderr));
    let mut after = read_document(&out.join("config.json"));
    for document in [&mut moved, &mut after] {
        document["config"]["train"]["steps"] = Value::Null;
    }
    assert_eq!((&moved["config"], &moved["chosen"]), (&after["config"], &after["chosen"]));

    // `data check` says what a training would choose.
    let checked = done(&regard(&["data", "check", "tag", &data]));
    assert_eq!(checked.matches("auto: ").count(), 3, "{checked}");
}

#[test]
fn off_gives_the_plain_defaults() {
    let place = tempfile::tempdir().unwrap();
    let data = write(&place, "tagged.tsv", sentences());
    let weights = |name: &str, more: &[&str]| {
        let out = place.path().join(name);
        let (saved, said) = trained(&out, &data, more);
        (fs::read(out.join("model.safetensors")).unwrap(), saved, said)
    };
    let (plain, off, said) = weights("off", &["--set", "auto=off"]);
    assert!(!said.contains("auto: ") && off.get("chosen").is_none(), "{said}");
    assert_eq!(off["config"]["model"]["kind"], "transformer");

    // All keys that are chosen, set by hand to their defaults, give the same weights.
    let (_, chosen, _) = weights("on", &[]);
    let lines: Vec<String> = serde_json::from_value(chosen["chosen"].clone()).unwrap();
    let mut by_hand = vec!["model.kind=transformer".to_string()];
    for setting in lines.iter().flat_map(|line| line.rsplit(": ").next().unwrap().split(", ")) {
        let Some((key, _)) = setting.split_once('=').filter(|(key, _)| key.contains('.') && !key.contains(' ')) else {
            continue;
        };
        let value = key.split('.').fold(&off["config"], |value, part| &value[part]);
        // In TOML a table has = where JSON has a colon.
        let value = value.to_string().replace("\":", "\"=");
        by_hand.push(format!("{key}={value}"));
    }
    // A Transformer has a key that the chosen LSTM does not have.
    by_hand.push(format!("model.d_ff={}", off["config"]["model"]["d_ff"]));
    assert!(by_hand.len() > 10, "{by_hand:?}");
    let settings: Vec<&str> = by_hand.iter().map(String::as_str).collect();
    let (same, _, _) = weights("by-hand", &sets(&settings));
    assert!(plain == same, "the weights differ: {by_hand:?}");
}

#[test]
fn built_in_data_keep_the_defaults() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("run");
    let train = ["train", "tag", "--out", path(&out), "--steps", "2", "--set", "data.sentences=50", "--json"];
    let output = regard(&train);
    done(&output);
    assert!(!text(&output.stderr).contains("auto: "));
    let saved = read_document(&out.join("config.json"));
    assert_eq!((saved.get("chosen"), &saved["config"]["model"]["kind"]), (None, &"transformer".into()));
}

#[test]
fn variants_of_a_comparison_are_chosen_around_the_varied_key() {
    let place = tempfile::tempdir().unwrap();
    let data = write(&place, "tagged.tsv", sentences());
    let out = place.path().join("compare");
    let vary = ["--vary", "model.n_heads=2,3", "--steps", "2", "--threads", "1"];
    done(&regard(&[&["compare", "tag", "--data", &data, "--out", path(&out)], &vary[..]].concat()));
    for heads in [2, 3] {
        let found = fs::read_dir(&out).unwrap().flatten().map(|entry| entry.path().join("seed-1/config.json"));
        let saved: Vec<Value> = found.filter(|path| path.exists()).map(|path| read_document(&path)).collect();
        let of = saved.iter().find(|saved| saved["config"]["model"]["n_heads"] == heads).unwrap();
        assert_eq!(of["config"]["model"]["kind"], "transformer");
        assert_eq!(of["chosen"].as_array().unwrap().len(), 3);
    }
}

#[test]
fn keys_are_judged_by_the_chosen_kind_of_network() {
    let place = tempfile::tempdir().unwrap();
    let data = write(&place, "tagged.tsv", sentences());
    // Only recurrent networks have the key, and the default kind is a Transformer.
    let checked = done(&regard(&["data", "check", "tag", &data, "--set", "model.d_hidden=20"]));
    assert!(checked.contains("model.kind=lstm"), "{checked}");
    let out = place.path().join("compare");
    let vary = ["--vary", "model.d_hidden=8,16", "--steps", "2", "--threads", "1"];
    done(&regard(&[&["compare", "tag", "--data", &data, "--out", path(&out)], &vary[..]].concat()));
    // The choice keeps a Transformer for one key of a Transformer, so that of a recurrent network is not used.
    let both = sets(&["model.d_hidden=20", "model.n_heads=2"]);
    let output = regard(&[&["data", "check", "tag", &data][..], &both].concat());
    fails_with(&output, 2, &["model.d_hidden", "lstm"]);
    let output =
        regard(&["compare", "tag", "--data", &data, "--vary", "model.n_heads=2,3", "--set", "model.d_hidden=8"]);
    fails_with(&output, 2, &["d_hidden", "lstm"]);
}

#[test]
fn sizes_set_by_hand_need_to_fit_the_chosen_model_only() {
    let place = tempfile::tempdir().unwrap();
    let pairs = (0..300).fold(String::new(), |pairs, n| pairs + &format!("number {n}\tnombre {n}\n"));
    let data = write(&place, "pairs.tsv", pairs);
    let out = place.path().join("run");
    let train = ["train", "translate", "--data", &data, "--out", path(&out), "--steps", "1", "--json"];
    // The default width, 128, is no multiple of 3.
    done(&regard(&[&train[..], &sets(&["model.n_heads=3", "data.tokenizer.kind=word"])].concat()));
    let saved = read_document(&out.join("config.json"));
    assert_eq!(saved["config"]["model"]["d_model"].as_u64().unwrap() % 6, 0);
    assert!(!saved["chosen"].to_string().contains("data.tokenizer.vocab"), "{}", saved["chosen"]);
    let output = regard(&["train", "translate", "--data", &data, "--set", "model.n_heads=0"]);
    fails_with(&output, 2, &["n_heads", "0"]);
}

#[test]
fn a_wrong_value_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let data = write(&place, "tagged.tsv", sentences());
    let output = regard(&["train", "tag", "--data", &data, "--set", "auto=maybe"]);
    fails_with(&output, 2, &["auto", "maybe", "on", "off"]);
}
