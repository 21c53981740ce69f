//! The binary as a person uses it: what it prints and how it ends.

mod binary;

use binary::{command, document, done, fails_with, regard};

#[test]
fn json_is_one_document_and_nothing_else() {
    let work = "attention/causal/1x2x16x8/both";
    let told = document(&done(&regard(&["bench", "kernels", "--only", work, "--seconds", "0", "--json"])));
    assert_eq!(told["results"][0]["work"], work);
    assert!(told["results"][0]["ours_ms"].as_f64().unwrap() > 0.0);
}

#[test]
fn every_kind_of_work_runs_at_a_small_size() {
    for kind in ["full", "causal", "window", "dropout", "bias", "boolean"] {
        for phase in ["forward", "backward", "both"] {
            let work = format!("attention/{kind}/2x2x20x8/{phase}");
            done(&regard(&["bench", "--only", &work, "--seconds", "0"]));
        }
    }
    for (subject, work) in [
        ("kernels", "lstm/2x3x4x5"),
        ("train", "train/2x4x8x2x1x16x11"),
        ("icl", "icl/fields/3x5x40"),
        ("icl", "icl/node/3x20x2000"),
    ] {
        done(&regard(&["bench", subject, "--only", work, "--seconds", "0"]));
    }
}

#[test]
fn wrong_use_is_code_2_with_a_message() {
    fails_with(&regard(&["bench", "--only", "attention/x/1x1x1x1/forward"]), 2, &["unknown kind", "causal"]);
    fails_with(&regard(&["bench", "--only", "train/2x4x8x2x1x16x11"]), 2, &["regard bench train"]);
    fails_with(&regard(&["bench", "--threads", "0"]), 2, &["threads"]);
    fails_with(&regard(&["bench", "--seconds", "-1"]), 2, &["seconds"]);
    fails_with(&regard(&["bench", "kernel"]), 2, &["kernels"]);
    fails_with(&regard(&[]), 2, &["Usage"]);
    let output = command(&["bench"]).env("REGARD_ISA", "sse9").output().unwrap();
    fails_with(&output, 2, &["REGARD_ISA", "sse9", "scalar"]);
}

#[test]
fn a_work_that_does_not_fit_is_refused_with_the_estimate() {
    for (subject, work) in [
        ("kernels", "attention/causal/16777216x16777216x16777216x1/forward"),
        ("kernels", "attention/bias/1x8x16777216x64/both"),
        ("train", "train/16777216x16777216x256x4x4x1024x8000"),
    ] {
        fails_with(&regard(&["bench", subject, "--only", work]), 1, &["GiB", "choose smaller sizes"]);
    }
}

#[test]
fn help_and_version() {
    for flag in ["--help", "--version"] {
        assert!(done(&regard(&[flag])).contains("regard"));
    }
}
