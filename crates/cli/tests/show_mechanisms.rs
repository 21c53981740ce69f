//! `regard show` for positions, the worked example, masks, identity and order, as a person runs it.

use std::process::{Command, Output, Stdio};

fn regard(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_regard")).arg("show").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = regard(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Wrong use: exit code 2 and a message that names the field.
fn refuses(arguments: &[&str], words: &[&str]) {
    let output = regard(arguments);
    let message = text(&output.stderr).replace('│', "").split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    assert!(words.iter().all(|word| message.contains(word)), "{arguments:?}: {message}");
    assert!(!message.contains("panicked"), "{message}");
}

#[test]
fn every_mechanism_prints_and_draws_in_every_format() {
    let folder = std::env::temp_dir().join(format!("regard-show-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (mechanism, words) in [
        ("position", "sinusoidal"),
        ("attention", "softmax"),
        ("masks", "causal"),
        ("identity", "Q = K = V = X"),
        ("equivariance", "positions"),
    ] {
        for (extension, start) in [("svg", &b"<svg"[..]), ("png", &b"\x89PNG"[..]), ("html", &b"<!DOCTYPE html>"[..])] {
            let path = folder.join(format!("{mechanism}.{extension}"));
            let output = regard(&[mechanism, "--out", path.to_str().unwrap()]);
            assert!(output.status.success(), "{mechanism}: {}", text(&output.stderr));
            assert!(text(&output.stdout).contains(words), "{mechanism}");
            let drawn = std::fs::read(&path).unwrap();
            assert!(drawn.to_ascii_lowercase().starts_with(&start.to_ascii_lowercase()), "{mechanism}.{extension}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn positions_have_their_rotation_and_their_decay() {
    let document = json(&["position", "--length", "32", "--d-model", "16", "--n-heads", "2", "--shift", "3"]);
    assert_eq!(document["rotation"]["shift"], 3);
    assert!(document["rotation"]["largest_difference"].as_f64().unwrap() < 1e-6);
    let kinds = document["kinds"].as_array().unwrap();
    let names: Vec<&str> = kinds.iter().map(|kind| kind["kind"].as_str().unwrap()).collect();
    for name in ["none", "sinusoidal", "learned", "relative", "rope", "alibi"] {
        assert!(names.contains(&name), "{names:?}");
    }
    // ALiBi's slopes for two heads are 2⁻⁴ and 2⁻⁸.
    let alibi = json(&["position", "--kind", "alibi", "--length", "5", "--d-model", "16", "--n-heads", "2"]);
    let curves = &alibi["kinds"][0]["curves"];
    assert_eq!(curves[0]["distances"], serde_json::json!([-4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0]));
    assert_eq!((curves[0]["values"][0].as_f64(), curves[1]["values"][8].as_f64()), (Some(-0.25), Some(-0.015625)));
}

#[test]
fn the_worked_example_takes_words_quoted_or_not() {
    let apart = json(&["attention", "you", "see", "you"]);
    assert_eq!(apart, json(&["attention", "you see you"]));
    let output = &apart["matrices"]["output"];
    assert_eq!(output[0], output[2]);
    assert!(apart["largest_difference"].as_f64().unwrap() < 1e-5);
    let causal = json(&["attention", "you see you", "--mask", "causal"]);
    assert_eq!(causal["matrices"]["weights"][0], serde_json::json!([1.0, 0.0, 0.0]));
    assert_ne!(apart, json(&["attention", "you see you", "--seed", "1"]));
}

#[test]
fn masks_count_what_is_seen() {
    let document = json(&["masks", "--length", "6", "--left", "1", "--right", "2"]);
    let seen: Vec<u64> =
        document["masks"].as_array().unwrap().iter().map(|mask| mask["seen"].as_u64().unwrap()).collect();
    // Full, causal, window, causal window, padding, both, a ring of 5 with a chord, two packed, cache, biases.
    // The graph and the packed ones also together with causal and window, the biases with causal.
    assert_eq!(seen, [36, 21, 20, 11, 24, 18, 12, 6, 18, 16, 15, 36, 36, 36, 21, 21]);
    assert_eq!(document["masks"][6]["blind_queries"], serde_json::json!([5]));
}

#[test]
fn large_tokens_stay_and_order_is_not_seen() {
    let document = json(&["identity", "--tokens", "6", "--d", "64"]);
    let rows = document["rows"].as_array().unwrap();
    assert!(rows[0]["weights"].as_f64().unwrap() > 0.8 && rows[rows.len() - 1]["weights"].as_f64().unwrap() < 1e-6);
    let document = json(&["equivariance", "--tokens", "6", "--kind", "rope"]);
    for row in document["rows"].as_array().unwrap() {
        let sees_order = row["largest_difference"].as_f64().unwrap() > 1e-5;
        assert_eq!(sees_order, row["position"] != "none", "{row}");
    }
}

#[test]
fn bad_options_are_named() {
    refuses(&["position", "--kind", "rotary"], &["rotary", "--kind", "sinusoidal", "floater", "rnn"]);
    refuses(&["position", "--length", "100000"], &["length = 100000", "2 to 512"]);
    refuses(&["position", "--d-model", "10"], &["d_model = 10", "multiple of 8"]);
    refuses(&["attention", " "], &["words = 0 words"]);
    refuses(&["attention", "--mask", "none"], &["--mask", "causal"]);
    refuses(&["masks", "--length", "2"], &["length = 2", "4 to 24"]);
    refuses(&["masks", "--left", "99"], &["left = 99"]);
    refuses(&["identity", "--d", "64,1"], &["d = 1", "2 to 4096"]);
    refuses(&["identity", "--tokens", "1"], &["tokens = 1", "2 to 64"]);
    refuses(&["equivariance", "--tokens", "99"], &["tokens = 99", "3 to 24"]);
    refuses(&["equivariance", "--kind", "x"], &["'x'", "--kind", "alibi", "rnn"]);
    refuses(&["scaling", "--largest", "65536", "--keys", "4096"], &["largest = 65536", "less"]);
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
        refuses(arguments, &[flag, allowed]);
    }
    refuses(&["convolution", "--sharpness", "-1"], &["sharpness = -1"]);
    refuses(&["masks", "--seed", "99999999999999999999"], &["--seed", "too large"]);
}

#[test]
fn a_picture_that_cannot_be_written_is_refused_before_the_work() {
    let folder = std::env::temp_dir().join(format!("regard-show-nowhere-{}", std::process::id()));
    let missing = folder.join("masks.svg");
    for (path, code, word) in [("masks.pdf", 2, ".svg, .png or .html"), (missing.to_str().unwrap(), 1, "folder")] {
        let output = regard(&["masks", "--out", path]);
        let message = text(&output.stderr).replace('│', "").split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(code), "{message}");
        assert!(message.contains(word), "{message}");
        assert!(output.stdout.is_empty(), "nothing was computed");
    }
    assert!(!folder.exists());
}

#[test]
fn every_kind_of_positions_is_in_the_help() {
    let document = json(&["position", "--length", "4", "--d-model", "8"]);
    let kinds = document["kinds"].as_array().unwrap().iter().map(|kind| kind["kind"].as_str().unwrap());
    let kinds: Vec<&str> = kinds.collect();
    assert!(kinds.len() >= 8);
    for mechanism in ["position", "equivariance"] {
        let help = text(&regard(&[mechanism, "--help"]).stdout);
        assert!(help.contains(&format!("[possible values: {}]", kinds.join(", "))), "{help}");
    }
}

#[test]
fn a_reader_who_has_seen_enough_is_no_error() {
    let bench = ["bench", "--only", "attention/causal/1x2x16x8/both", "--seconds", "0", "--json"];
    for arguments in [&["show", "position", "--json"][..], &["show", "position"], &bench] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_regard"));
        let mut child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Closed before anything comes.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let message = text(&output.stderr);
        assert!(output.status.success() && !message.contains("panicked"), "{arguments:?}: {message}");
    }
}
