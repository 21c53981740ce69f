//! Tests of `regard show` for heads, convolution, dense, lstm, cells and complexity.

mod binary;

use binary::{drawn, show_refuses, shown};
use serde_json::{Value, json};

const SMALL_COMPLEXITY: [&str; 9] = ["complexity", "--from", "4", "--to", "16", "--d-model", "8", "--repeats", "1"];

#[test]
fn heads_add_up() {
    let told = shown(&["heads", "--tokens", "5", "--d-model", "8", "--n-heads", "2"]);
    assert!(told["largest_difference"].as_f64().unwrap() < 1e-5);
    assert!(told["largest_output"].as_f64().unwrap() > 0.1);
    assert_eq!(told["heads"].as_array().unwrap().len(), 2);
    drawn(&["heads"], &["sum over heads", "largest difference"]);
    show_refuses(&["heads", "--n-heads", "5"], &["n_heads = 5", "a divisor of d_model"]);
}

#[test]
fn heads_imitate_a_convolution() {
    let told = shown(&["convolution", "--size", "6", "--sharpness", "0.5,32"]);
    assert_eq!(told["heads"], 9);
    let difference = |row: usize, kind: &str| told["rows"][row][kind].as_f64().unwrap();
    for kind in ["edges", "random"] {
        assert!(difference(0, kind) > 0.1 && difference(1, kind) < 1e-5, "{told}");
    }
    drawn(&["convolution", "--size", "6"], &["9 attention heads"]);
    show_refuses(&["convolution", "--kernel", "4"], &["kernel = 4", "1, 3 or 5"]);
    show_refuses(&["convolution", "--sharpness", "3,1"], &["sharpness = 3,1", "rising"]);
}

#[test]
fn a_dense_layer_is_counted() {
    let told = shown(&["dense", "--tokens", "4", "--d-model", "3"]);
    assert!(told["largest_difference"].as_f64().unwrap() < 1e-5);
    assert_eq!((&told["dense_weights"], &told["attention_weights"]), (&Value::from(144), &Value::from(36)));
    drawn(&["dense"], &["vec(Y) = (A ⊗ W_Vᵀ) vec(X)", "2,304"]);
    show_refuses(&["dense", "--tokens", "100"], &["tokens = 100", "from 2 to 32"]);
}

#[test]
fn an_lstm_remembers() {
    let told = shown(&["lstm"]);
    assert!(told["largest_difference"].as_f64().unwrap() < 1e-5);
    let cell = |t: usize| told["units"][0]["steps"][t]["cell"].as_f64().unwrap();
    assert!(cell(15) > 0.9 && cell(18).abs() < 0.05 && cell(31) < -0.9);
    assert!(shown(&["lstm", "--weights", "random", "--seed", "4"])["largest_difference"].as_f64().unwrap() < 1e-5);
    drawn(&["lstm", "--unit", "2"], &["Γ_f", "on demand", "largest difference"]);
    show_refuses(&["lstm", "--steps", "3"], &["steps = 3"]);
    show_refuses(&["lstm", "--weights", "none"], &["by-hand", "random"]);
}

#[test]
fn costs_are_listed_and_measured() {
    for backward in [&[][..], &["--backward"]] {
        let told = shown(&[&SMALL_COMPLEXITY, backward].concat());
        assert_eq!(told["lengths"], json!([4, 8, 16]));
        let layers = told["layers"].as_array().unwrap();
        assert_eq!(layers.len(), 5);
        for layer in layers {
            assert_eq!(layer["milliseconds"].as_array().unwrap().len(), 3, "{layer}");
            assert!(layer["slope"].as_f64().unwrap().is_finite(), "{layer}");
        }
        assert_eq!(layers[0]["flops"][2], 4.0 * 16.0 * 16.0 * 8.0);
    }
    drawn(&SMALL_COMPLEXITY, &["self-attention", "O(n² d)", "slope"]);
    show_refuses(&["complexity", "--to", "65536", "--d-model", "1024"], &["to = 65536"]);
    show_refuses(&["complexity", "--window", "1"], &["window = 1", "from 3"]);
}

#[test]
fn cells_are_trained_counted_and_timed() {
    let arguments = ["cells", "--d-hidden", "8", "--delay", "2", "--steps", "20"];
    let rows = shown(&arguments)["rows"].as_array().unwrap().clone();
    let names: Vec<_> = rows.iter().map(|row| row["cell"].as_str().unwrap()).collect();
    assert_eq!(names, ["RNN", "LSTM", "LSTM, forget bias 1", "GRU"]);
    assert!(rows.iter().all(|row| row["step_ms"].as_f64().unwrap() > 0.0 && row["accuracy"].is_number()));
    drawn(&arguments, &["LSTM", "parameters", "accuracy"]);
    show_refuses(&["cells", "--delay", "0"], &["--delay", "1 or more"]);
    show_refuses(&["cells", "--delay", "501"], &["delay = 501", "1 to 500"]);
}
