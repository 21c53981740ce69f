//! The binary as a person uses it: what it prints and how it ends.

use std::process::{Command, Output};

fn regard(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_regard"));
    command.args(arguments);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn fails_with(output: &Output, code: i32, words: &[&str]) {
    // Reports are wrapped to the terminal: the words count, not the lines.
    let message = text(&output.stderr).replace('│', "").split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
    assert!(!message.contains("panicked"), "{message}");
}

#[test]
fn json_is_one_document_and_nothing_else() {
    let work = "attention/causal/1x2x16x8/both";
    let output = regard(&["bench", "kernels", "--only", work, "--seconds", "0", "--json"]).output().unwrap();
    assert!(output.status.success());
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["results"][0]["work"], work);
    assert!(document["results"][0]["ours_ms"].as_f64().unwrap() > 0.0);
}

#[test]
fn every_kind_of_work_runs_at_a_small_size() {
    for kind in ["full", "causal", "window", "dropout", "bias", "boolean"] {
        for phase in ["forward", "backward", "both"] {
            let work = format!("attention/{kind}/2x2x20x8/{phase}");
            let output = regard(&["bench", "--only", &work, "--seconds", "0"]).output().unwrap();
            assert!(output.status.success(), "{work}: {}", text(&output.stderr));
        }
    }
    for (subject, work) in [("kernels", "lstm/2x3x4x5"), ("train", "train/2x4x8x2x1x16x11")] {
        let output = regard(&["bench", subject, "--only", work, "--seconds", "0"]).output().unwrap();
        assert!(output.status.success(), "{work}: {}", text(&output.stderr));
    }
}

#[test]
fn wrong_use_is_code_2_with_a_message() {
    let run = |arguments: &[&str]| regard(arguments).output().unwrap();
    fails_with(&run(&["bench", "--only", "attention/x/1x1x1x1/forward"]), 2, &["unknown kind", "causal"]);
    fails_with(&run(&["bench", "--only", "train/2x4x8x2x1x16x11"]), 2, &["regard bench train"]);
    fails_with(&run(&["bench", "--threads", "0"]), 2, &["threads"]);
    fails_with(&run(&["bench", "--seconds", "-1"]), 2, &["seconds"]);
    fails_with(&run(&["bench", "kernel"]), 2, &["kernels"]);
    fails_with(&run(&[]), 2, &["Usage"]);
    let output = regard(&["bench"]).env("REGARD_ISA", "sse9").output().unwrap();
    fails_with(&output, 2, &["REGARD_ISA", "sse9", "scalar"]);
}

#[test]
fn a_work_that_does_not_fit_is_refused_with_the_estimate() {
    for (subject, work) in [
        ("kernels", "attention/causal/16777216x16777216x16777216x1/forward"),
        ("kernels", "attention/bias/1x8x16777216x64/both"),
        ("train", "train/16777216x16777216x256x4x4x1024x8000"),
    ] {
        let output = regard(&["bench", subject, "--only", work]).output().unwrap();
        fails_with(&output, 1, &["GiB", "choose smaller sizes"]);
    }
}

#[test]
fn help_and_version() {
    for flag in ["--help", "--version"] {
        let output = regard(&[flag]).output().unwrap();
        assert!(output.status.success() && text(&output.stdout).contains("regard"));
    }
}
