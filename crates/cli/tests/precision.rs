//! Tests of `regard train --precision`.

mod binary;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use binary::{Ended, command, done, fails_with, path, read_document, regard, sets, text};
use regard_ops::Precision;

const SETTINGS: [&str; 6] = [
    "data.size=6",
    "data.test=50",
    "model.d_model=32",
    "model.d_ff=64",
    "model.dropout=0.1",
    "train.checkpoint_every=15",
];

fn train(out: &Path, more: &[&str]) -> Command {
    command(&[&["train", "compose", "--threads", "2", "--out", path(out)], more].concat())
}

fn begin(out: &Path, precision: &str) -> Command {
    train(out, &[&sets(&SETTINGS)[..], &["--steps", "60", "--precision", precision]].concat())
}

fn weights(folder: &Path) -> Vec<u8> {
    fs::read(folder.join("model.safetensors")).unwrap()
}

/// Returns whether this processor can train in bf16; checks the message if it cannot.
fn is_available() -> bool {
    if Precision::Bf16.check_available().is_ok() {
        return true;
    }
    let place = tempfile::tempdir().unwrap();
    refuses(&begin(&place.path().join("run"), "bf16").ended(), &place.path().join("run"));
    false
}

#[track_caller]
fn refuses(output: &Output, folder: &Path) {
    fails_with(output, 2, &["train.precision", "AVX-512 BF16", "vdpbf16ps", "f32 runs everywhere"]);
    assert!(!folder.exists(), "a refused run leaves no folder");
}

#[test]
fn a_run_in_bf16_keeps_its_precision_and_resumes_to_the_same_bits() {
    if !is_available() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let [half, single] = ["bf16", "f32"].map(|precision| {
        let folder = place.path().join(precision);
        done(&begin(&folder, precision).ended());
        assert_eq!(read_document(&folder.join("config.json"))["config"]["train"]["precision"], precision);
        folder
    });
    let expected = weights(&half);
    assert!(expected != weights(&single), "the precision has no effect");

    fs::remove_dir_all(half.join("checkpoints/step-60")).unwrap();
    fails_with(&train(&half, &["--resume", "--precision", "f32"]).ended(), 2, &["--precision", "own configuration"]);
    let output = train(&half, &["--resume"]).ended();
    done(&output);
    assert!(text(&output.stderr).contains("from step 45"), "{}", text(&output.stderr));
    assert!(weights(&half) == expected);
}

#[test]
fn a_model_of_bf16_is_used_in_f32_by_other_instructions() {
    if !is_available() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    done(&begin(&folder, "bf16").ended());
    let refused = place.path().join("refused");
    let output = begin(&refused, "bf16").env("REGARD_ISA", "scalar").ended();
    refuses(&output, &refused);
    fails_with(&output, 2, &["REGARD_ISA=scalar"]);
    let ask = ["predict", path(&folder), "5 4 3 2 1 0 | 0 1 2 3 4 5"];
    let answer = done(&regard(&ask));
    assert_eq!(done(&command(&ask).env("REGARD_ISA", "scalar").ended()), answer);
}

#[test]
fn another_type_is_refused() {
    fails_with(&regard(&["train", "compose", "--precision", "f16"]), 2, &["f16", "bf16", "f32"]);
    fails_with(&regard(&["train", "compose", "--set", "train.precision=f16"]), 2, &["train.precision", "f16", "bf16"]);
}
