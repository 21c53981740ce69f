//! Tests of `regard show` for position, attention, embedding, masks, identity, equivariance and scaling.

mod binary;

use std::process::Stdio;

use binary::{command, done, drawn, fails_with, path, regard, show_refuses, shown, text};
use serde_json::json;

#[test]
fn every_mechanism_prints_and_draws_in_every_format() {
    for (mechanism, words) in [
        ("position", "sinusoidal"),
        ("attention", "softmax"),
        ("embedding", "one-hot"),
        ("masks", "causal"),
        ("identity", "Q = K = V = X"),
        ("equivariance", "positions"),
    ] {
        drawn(&[mechanism], &[words]);
    }
}

#[test]
fn positions_have_their_rotation_and_their_decay() {
    let document = shown(&["position", "--length", "32", "--d-model", "16", "--n-heads", "2", "--shift", "3"]);
    assert_eq!(document["rotation"]["shift"], 3);
    assert!(document["rotation"]["largest_difference"].as_f64().unwrap() < 1e-6);
    let kinds = document["kinds"].as_array().unwrap();
    let names: Vec<&str> = kinds.iter().map(|kind| kind["kind"].as_str().unwrap()).collect();
    for name in ["none", "sinusoidal", "learned", "relative", "rope", "alibi"] {
        assert!(names.contains(&name), "{names:?}");
    }
    // Angles of the positions 0, 1 and 2 with four features: p and p/100.
    let by_hand = |path: &str| document.pointer(path).unwrap().as_f64().unwrap();
    for p in 0..3 {
        let (fast, slow) = (f64::from(p), f64::from(p) / 100.0);
        for (column, want) in [fast.sin(), fast.cos(), slow.sin(), slow.cos()].into_iter().enumerate() {
            assert!((by_hand(&format!("/by_hand/sinusoidal/{p}/{column}")) - want).abs() < 1e-6, "{p} {column}");
        }
        assert!((by_hand(&format!("/by_hand/rope/{p}/0/1")) + fast.sin()).abs() < 1e-6);
        assert!((by_hand(&format!("/by_hand/rope/{p}/3/2")) - slow.sin()).abs() < 1e-6);
    }
    // ALiBi's slopes for two heads are 2⁻⁴ and 2⁻⁸.
    let alibi = shown(&["position", "--kind", "alibi", "--length", "5", "--d-model", "16", "--n-heads", "2"]);
    let curves = &alibi["kinds"][0]["curves"];
    assert_eq!(curves[0]["distances"], json!([-4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0]));
    assert_eq!((curves[0]["values"][0].as_f64(), curves[1]["values"][8].as_f64()), (Some(-0.25), Some(-0.015625)));
}

#[test]
fn the_worked_example_takes_words_quoted_or_not() {
    let apart = shown(&["attention", "you", "see", "you"]);
    assert_eq!(apart, shown(&["attention", "you see you"]));
    let output = &apart["matrices"]["output"];
    assert_eq!(output[0], output[2]);
    assert!(apart["largest_difference"].as_f64().unwrap() < 1e-5);
    let causal = shown(&["attention", "you see you", "--mask", "causal"]);
    assert_eq!(causal["matrices"]["weights"][0], json!([1.0, 0.0, 0.0]));
    assert_ne!(apart, shown(&["attention", "you see you", "--seed", "1"]));
}

#[test]
fn masks_count_what_is_seen() {
    let document = shown(&["masks", "--length", "6", "--left", "1", "--right", "2"]);
    let seen: Vec<u64> =
        document["masks"].as_array().unwrap().iter().map(|mask| mask["seen"].as_u64().unwrap()).collect();
    // Full, causal, window, causal window, padding, both, a ring of 5 with a chord, two packed, cache, biases.
    // The graph and the packed ones also together with causal and window, the biases with causal.
    assert_eq!(seen, [36, 21, 20, 11, 24, 18, 12, 6, 18, 16, 15, 36, 36, 36, 21, 21]);
    assert_eq!(document["masks"][6]["blind_queries"], json!([5]));
    let graph = &document["graph"];
    let weights = graph["weights"].as_array().unwrap();
    assert_eq!((&graph["nodes"], weights.len()), (&json!(10), 10));
    for (node, row) in weights.iter().enumerate() {
        let sum: f64 = row.as_array().unwrap().iter().map(|weight| weight.as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-5, "node {node}: {sum}");
    }
}

#[test]
fn a_one_hot_word_times_the_matrix_is_a_row() {
    let document = shown(&["embedding", "red red", "blue", "--d-model", "3"]);
    assert_eq!((&document["ids"], &document["different_elements"]), (&json!([0, 0, 1]), &json!(0)));
    assert_eq!(document["one_hot"], json!([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]));
    assert_eq!(document["product"][2], document["w"][1]);
    show_refuses(&["embedding", "--d-model", "99"], &["d_model = 99", "1 to 16"]);
    show_refuses(&["embedding", " "], &["words = 0 words"]);
}

#[test]
fn large_tokens_stay_unchanged_and_order_needs_positions() {
    let document = shown(&["identity", "--tokens", "6", "--d", "64"]);
    let rows = document["rows"].as_array().unwrap();
    assert!(rows[0]["weights"].as_f64().unwrap() > 0.8 && rows[rows.len() - 1]["weights"].as_f64().unwrap() < 1e-6);
    let document = shown(&["equivariance", "--tokens", "6", "--kind", "rope"]);
    for row in document["rows"].as_array().unwrap() {
        let sees_order = row["largest_difference"].as_f64().unwrap() > 1e-5;
        assert_eq!(sees_order, row["position"] != "none", "{row}");
    }
}

#[test]
fn bad_options_are_named() {
    show_refuses(&["position", "--kind", "rotary"], &["rotary", "--kind", "sinusoidal", "floater", "rnn"]);
    show_refuses(&["position", "--length", "100000"], &["length = 100000", "2 to 512"]);
    show_refuses(&["position", "--d-model", "10"], &["d_model = 10", "multiple of 8"]);
    show_refuses(&["attention", " "], &["words = 0 words"]);
    show_refuses(&["attention", "--mask", "none"], &["--mask", "causal"]);
    show_refuses(&["masks", "--length", "2"], &["length = 2", "4 to 24"]);
    show_refuses(&["masks", "--left", "99"], &["left = 99"]);
    show_refuses(&["identity", "--d", "64,1"], &["d = 1", "2 to 4096"]);
    show_refuses(&["identity", "--tokens", "1"], &["tokens = 1", "2 to 64"]);
    show_refuses(&["equivariance", "--tokens", "99"], &["tokens = 99", "3 to 24"]);
    show_refuses(&["equivariance", "--kind", "x"], &["'x'", "--kind", "alibi", "rnn"]);
    show_refuses(&["scaling", "--largest", "65536", "--keys", "4096"], &["largest = 65536", "less"]);
}

#[test]
fn numbers_are_refused_with_what_is_allowed() {
    let least_0 = "expected a whole number, 0 or more";
    let least_1 = "expected a whole number, 1 or more";
    for (arguments, flag, allowed) in [
        (&["masks", "--left", "-1"][..], "--left", least_0),
        (&["masks", "--left=-1"], "--left", least_0),
        (&["masks", "--right", "two"], "--right", least_0),
        (&["masks", "--seed", "-3"], "--seed", least_0),
        (&["--seed", "-3", "masks"], "--seed", least_0),
        (&["position", "--shift", "-1"], "--shift", least_0),
        (&["position", "--length", "-1"], "--length", least_1),
        (&["identity", "--d", "64,-2"], "--d", least_1),
        (&["identity", "--d", "-2"], "--d", least_1),
        (&["equivariance", "--tokens", "2.5"], "--tokens", least_1),
        (&["scaling", "--keys", "0"], "--keys", least_1),
        (&["heads", "--n-heads", "-1"], "--n-heads", least_1),
        (&["convolution", "--size", "-1"], "--size", least_1),
        (&["convolution", "--sharpness", "1,x"], "--sharpness", "expected a number"),
        (&["dense", "--d-model", "-1"], "--d-model", least_1),
        (&["lstm", "--unit", "-1"], "--unit", least_1),
        (&["complexity", "--to", "-1"], "--to", least_1),
    ] {
        show_refuses(arguments, &[flag, allowed]);
    }
    show_refuses(&["convolution", "--sharpness", "-1"], &["sharpness = -1"]);
    show_refuses(&["masks", "--seed", "99999999999999999999"], &["--seed", "too large"]);
}

#[test]
fn a_picture_that_cannot_be_written_is_refused_at_once() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("nowhere");
    let missing = folder.join("masks.svg");
    for (picture, code, word) in [("masks.pdf", 2, ".svg, .png or .html"), (path(&missing), 1, "folder")] {
        let output = regard(&["show", "masks", "--out", picture]);
        fails_with(&output, code, &[word]);
        assert!(output.stdout.is_empty(), "nothing was computed");
    }
    assert!(!folder.exists());
}

#[test]
fn every_kind_of_positions_is_in_the_help() {
    let document = shown(&["position", "--length", "4", "--d-model", "8"]);
    let kinds = document["kinds"].as_array().unwrap().iter().map(|kind| kind["kind"].as_str().unwrap());
    let kinds: Vec<&str> = kinds.collect();
    assert!(kinds.len() >= 8);
    for mechanism in ["position", "equivariance"] {
        let help = done(&regard(&["show", mechanism, "--help"]));
        assert!(help.contains(&format!("[possible values: {}]", kinds.join(", "))), "{help}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let bench = ["bench", "--only", "attention/causal/1x2x16x8/both", "--seconds", "0", "--json"];
    for arguments in [&["show", "position", "--json"][..], &["show", "position"], &bench] {
        let mut child = command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Closed before anything is printed.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        done(&output);
        assert!(!text(&output.stderr).contains("panicked"), "{arguments:?}: {}", text(&output.stderr));
    }
}

/// Uses a private character, which no font on the machine has.
#[test]
fn missing_characters_are_reported() {
    let place = tempfile::tempdir().unwrap();
    let told = |name: &str, word: &str| {
        let output = regard(&["show", "attention", "I", "saw", word, "--out", path(&place.path().join(name))]);
        done(&output);
        text(&output.stderr)
    };
    let png = told("drawing.png", "\u{10fffd}");
    assert!(png.contains("note: no font here has \u{10fffd}") && png.contains(".svg or .html"), "{png}");
    assert!(!told("drawing.svg", "\u{10fffd}").contains("note") && !told("drawing.png", "Ελλάδα").contains("note"));
}
