//! `regard show` for what attention is made of and costs: heads, convolution, dense, lstm, cells,
//! complexity.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const SMALL_COMPLEXITY: [&str; 9] = ["complexity", "--from", "4", "--to", "16", "--d-model", "8", "--repeats", "1"];

fn show(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_regard")).arg("show").args(arguments).output().unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = show(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(arguments: &[&str], words: &[&str]) {
    let output = show(arguments);
    // Reports are wrapped to the terminal: the words count, not the lines.
    let message = String::from_utf8(output.stderr).unwrap().replace('│', "");
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
    assert!(output.stdout.is_empty() && !message.contains("panicked"), "{message}");
}

/// Draws it in every format, prints text that says `words`.
fn drawn(arguments: &[&str], words: &[&str]) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("show_structure");
    std::fs::create_dir_all(&folder).unwrap();
    for (extension, start) in [("svg", "<svg"), ("png", "\u{fffd}PNG"), ("html", "<!doctype html>")] {
        let path = folder.join(format!("{}.{extension}", arguments[0]));
        let output = show(&[arguments, &["--out", path.to_str().unwrap()]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        let drawing = std::fs::read(&path).unwrap();
        let head = String::from_utf8_lossy(&drawing[..drawing.len().min(40)]).to_lowercase();
        assert!(head.starts_with(&start.to_lowercase()), "{head}");
    }
}

#[test]
fn heads_add_up() {
    let shown = json(&["heads", "--tokens", "5", "--d-model", "8", "--n-heads", "2"]);
    assert!(shown["largest_difference"].as_f64().unwrap() < 1e-5);
    assert!(shown["largest_output"].as_f64().unwrap() > 0.1);
    assert_eq!(shown["heads"].as_array().unwrap().len(), 2);
    drawn(&["heads"], &["sum over heads", "largest difference"]);
    refused(&["heads", "--n-heads", "5"], &["n_heads = 5", "divisors"]);
}

#[test]
fn a_convolution_is_heads() {
    let shown = json(&["convolution", "--size", "6", "--sharpness", "0.5,32"]);
    assert_eq!(shown["heads"], 9);
    let difference = |row: usize, kind: &str| shown["rows"][row][kind].as_f64().unwrap();
    for kind in ["edges", "random"] {
        assert!(difference(0, kind) > 0.1 && difference(1, kind) < 1e-5, "{shown}");
    }
    drawn(&["convolution", "--size", "6"], &["9 attention heads"]);
    refused(&["convolution", "--kernel", "4"], &["kernel = 4", "1, 3 or 5"]);
    refused(&["convolution", "--sharpness", "3,1"], &["sharpness = 3,1", "rising"]);
}

#[test]
fn a_dense_layer_is_counted() {
    let shown = json(&["dense", "--tokens", "4", "--d-model", "3"]);
    assert!(shown["largest_difference"].as_f64().unwrap() < 1e-5);
    assert_eq!((&shown["dense_weights"], &shown["attention_weights"]), (&Value::from(144), &Value::from(36)));
    drawn(&["dense"], &["vec(Y) = (A ⊗ W_Vᵀ) vec(X)", "2,304"]);
    refused(&["dense", "--tokens", "100"], &["tokens = 100", "from 2 to 32"]);
}

#[test]
fn an_lstm_remembers() {
    let shown = json(&["lstm"]);
    assert!(shown["largest_difference"].as_f64().unwrap() < 1e-5);
    let cell = |t: usize| shown["units"][0]["steps"][t]["cell"].as_f64().unwrap();
    assert!(cell(15) > 0.9 && cell(18).abs() < 0.05 && cell(31) < -0.9);
    assert!(json(&["lstm", "--weights", "random", "--seed", "4"])["largest_difference"].as_f64().unwrap() < 1e-5);
    drawn(&["lstm", "--unit", "2"], &["Γ_f", "on demand", "largest difference"]);
    refused(&["lstm", "--steps", "3"], &["steps = 3"]);
    refused(&["lstm", "--weights", "none"], &["by-hand", "random"]);
}

#[test]
fn costs_are_listed_and_measured() {
    for backward in [&[][..], &["--backward"]] {
        let shown = json(&[&SMALL_COMPLEXITY, backward].concat());
        assert_eq!(shown["lengths"], serde_json::json!([4, 8, 16]));
        let layers = shown["layers"].as_array().unwrap();
        assert_eq!(layers.len(), 5);
        for layer in layers {
            assert_eq!(layer["milliseconds"].as_array().unwrap().len(), 3, "{layer}");
            assert!(layer["slope"].as_f64().unwrap().is_finite(), "{layer}");
        }
        assert_eq!(layers[0]["flops"][2], 4.0 * 16.0 * 16.0 * 8.0);
    }
    drawn(&SMALL_COMPLEXITY, &["self-attention", "O(n² d)", "slope"]);
    refused(&["complexity", "--to", "65536", "--d-model", "1024"], &["to = 65536"]);
    refused(&["complexity", "--window", "1"], &["window = 1", "from 3"]);
}

#[test]
fn cells_are_trained_counted_and_timed() {
    let arguments = ["cells", "--d-hidden", "8", "--delay", "2", "--steps", "20"];
    let rows = json(&arguments)["rows"].as_array().unwrap().clone();
    let names: Vec<_> = rows.iter().map(|row| row["cell"].as_str().unwrap()).collect();
    assert_eq!(names, ["RNN", "LSTM", "LSTM, forget bias 1", "GRU"]);
    assert!(rows.iter().all(|row| row["step_ms"].as_f64().unwrap() > 0.0 && row["accuracy"].is_number()));
    drawn(&arguments, &["LSTM", "parameters", "accuracy"]);
    refused(&["cells", "--delay", "0"], &["--delay", "1 or more"]);
    refused(&["cells", "--delay", "501"], &["delay = 501", "1 to 500"]);
}
