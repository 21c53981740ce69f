//! Tests of the binary in general: output, exit codes, help, suggestions, completions.

mod binary;

use binary::{Ended, command, document, done, fails_with, path, regard};

#[test]
fn json_is_one_document_and_nothing_else() {
    let work = "attention/causal/1x2x16x8/both";
    let told = document(&done(&regard(&["bench", "kernels", "--only", work, "--seconds", "0", "--json"])));
    assert_eq!(told["results"][0]["work"], work);
    assert!(told["results"][0]["ours_ms"].as_f64().unwrap() > 0.0);
}

#[test]
fn every_benchmark_runs_at_a_small_size() {
    for kind in ["full", "causal", "window", "dropout", "bias", "boolean"] {
        for phase in ["forward", "backward", "both"] {
            let work = format!("attention/{kind}/2x2x20x8/{phase}");
            done(&regard(&["bench", "--only", &work, "--seconds", "0"]));
        }
    }
    for (subject, work) in [
        ("kernels", "linear_attention/full/2x2x20x8"),
        ("kernels", "linear_attention/causal/2x2x20x8"),
        ("kernels", "lstm/2x3x4x5"),
        ("kernels", "gru/2x3x4x5"),
        ("kernels", "embedding/5x3x7"),
        ("kernels", "convolution/2x3x4x5x3x2/both"),
        ("kernels", "group_norm/2x4x5x2/both"),
        ("train", "train/2x4x8x2x1x16x11"),
        ("train", "train/vit/2x4x2x8x2x1x16"),
        ("train", "train/cnn/2x5x2x4x4x6"),
        ("infer", "decode/2x4x8x2x1x16x11"),
        ("infer", "evaluate/2x4x8x2x1x16x11"),
        ("infer", "evaluate/gat/50x2x9x3x10x2x2"),
        ("infer", "step/lstm/2x3x4"),
        ("infer", "step/gru/2x3x4"),
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
    fails_with(&regard(&["bench", "--only", "step/gru/1x2x3"]), 2, &["regard bench infer"]);
    fails_with(&regard(&["bench", "--threads", "0"]), 2, &["threads"]);
    fails_with(&regard(&["bench", "--seconds", "-1"]), 2, &["seconds"]);
    fails_with(&regard(&["bench", "kernel"]), 2, &["kernels"]);
    let output = command(&["bench"]).env("REGARD_ISA", "sse9").ended();
    fails_with(&output, 2, &["REGARD_ISA", "sse9", "scalar"]);
}

#[test]
fn a_benchmark_that_does_not_fit_in_memory_is_refused() {
    for (subject, work) in [
        ("kernels", "attention/causal/16777216x16777216x16777216x1/forward"),
        ("kernels", "attention/bias/1x8x16777216x64/both"),
        ("kernels", "linear_attention/full/16777216x16777216x16777216x1"),
        ("infer", "decode/16777216x16777216x256x4x4x1024x8000"),
        ("train", "train/16777216x16777216x256x4x4x1024x8000"),
        ("train", "train/vit/16777216x4096x4x64x4x4x256"),
        ("train", "train/cnn/16777216x4096x8x64x64x64"),
    ] {
        fails_with(&regard(&["bench", subject, "--only", work]), 1, &["GiB", "choose smaller sizes"]);
    }
}

#[test]
fn the_first_screen_is_short_and_its_commands_exist() {
    let screen = done(&regard(&[]));
    assert!(screen.lines().count() <= 12, "{screen}");
    let tried = screen.lines().filter_map(|line| line.trim().strip_prefix("regard ")?.split_once("  "));
    let tried: Vec<&str> = tried.map(|(command, _)| command).collect();
    assert_eq!(tried.len(), 3, "{screen}");
    for command in tried {
        // Training takes too long here; it is enough that the arguments are accepted.
        let check = if command.starts_with("train") { " --print-config" } else { "" };
        done(&regard(&format!("{command}{check}").split_whitespace().collect::<Vec<_>>()));
    }
}

#[test]
fn typing_errors_get_a_suggestion() {
    for (arguments, near) in [
        (&["tran"][..], "'train'"),
        (&["train", "tagg"], "'tag'"),
        (&["train", "tag", "--step", "3"], "'--steps'"),
        (&["train", "translate", "--set", "model.n_head=3"], "did you mean `n_heads`?"),
        (&["train", "translate", "--set", "n_heads=3"], "did you mean `model.n_heads`?"),
        (&["train", "translate", "--set", "model.position=roppe"], "did you mean `rope`?"),
        (&["train", "translate", "--set", "train.schedule=cosin"], "did you mean `cosine`?"),
        (&["count", "--preset", "gpt-2"], "did you mean gpt2?"),
        (&["count", "--set", "model.n_head=3"], "did you mean `n_heads`?"),
        (&["show", "attenton"], "'attention'"),
        (&["icl", "sove"], "'solve'"),
        (&["man", "tran"], "did you mean train?"),
        (&["completions", "bsh"], "'bash'"),
    ] {
        fails_with(&regard(arguments), 2, &[near]);
    }
}

#[test]
fn completions_and_manual_pages_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = done(&regard(&["completions", shell]));
        assert!(["train", "print-config", "preset"].iter().all(|word| script.contains(word)), "{shell}");
        // clap's script for fish completes commands and flags, but not the values of positional arguments.
        assert!(shell == "fish" || script.contains("translate"), "{shell}");
    }
    let page = done(&regard(&["man"]));
    assert!(page.contains(".TH regard 1") && page.contains("regard\\-train(1)"), "{page}");
    let page = done(&regard(&["man", "show", "attention"]));
    assert!(page.contains("regard\\-show\\-attention") && page.contains("mask"), "{page}");
    let place = tempfile::tempdir().unwrap();
    done(&regard(&["man", "--out", path(place.path())]));
    for name in ["regard.1", "regard-train.1", "regard-show-attention.1", "regard-icl-solve.1"] {
        assert!(place.path().join(name).exists(), "{name}");
    }
}

#[test]
fn help_and_version() {
    for flag in ["--help", "--version"] {
        assert!(done(&regard(&[flag])).contains("regard"));
    }
}
