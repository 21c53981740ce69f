//! The mechanisms of the catalogue: what each shows, its formula, its options with their limits, and how it is computed.

use regard_ops::Mask;

use super::{Kind, Mechanism, Setting};
use crate::show::attention::Attention;
use crate::show::convolution::Convolution;
use crate::show::dense::Dense;
use crate::show::embedding::Embedding;
use crate::show::equivariance::Equivariance;
use crate::show::hard::Hard;
use crate::show::heads::Heads;
use crate::show::identity::Identity;
use crate::show::linear::Linear;
use crate::show::lstm::{Lstm, Weights};
use crate::show::masks::Masks;
use crate::show::position::{Position, kind_names};
use crate::show::scaling::Scaling;
use crate::show::softmax::Softmax;
use crate::show::window::Window;

/// Returns what an option is, in a few words.
fn about(name: &str) -> &'static str {
    match name {
        "mask" => "which tokens a token may see",
        "scores" => "scores of the keys",
        "temperature" => "what the scores are divided by",
        "largest" => "largest number of features",
        "keys" => "number of keys",
        "length" => "number of positions",
        "left" => "keys before the query that its window covers",
        "right" => "keys after the query that its window covers",
        "kind" => "kind of positions",
        "d_model" => "number of features of a token",
        "n_heads" => "number of heads",
        "shift" => "positions that the sinusoids are shifted by",
        "tokens" => "number of tokens",
        "d" => "number of features",
        "text" => "text that the window reads",
        "steps" => "number of steps",
        "height" => "height of the window",
        "sharpness" => "sharpness",
        "speed" => "characters that the window moves in a step",
        "draws" => "number of choices",
        "size" => "side of the picture in pixels",
        "kernel" => "side of the kernel: 1, 3 or 5",
        "channels" => "number of channels",
        "weights" => "origin of the weights",
        "unit" => "unit whose numbers are printed",
        "words" => "words of the example",
        _ => "",
    }
}

fn whole(name: &'static str, default: usize, least: usize, most: usize) -> Setting {
    Setting { name, about: about(name), kind: Kind::Whole { default, least, most } }
}

fn real(name: &'static str, default: f64, least: f64, most: f64) -> Setting {
    Setting { name, about: about(name), kind: Kind::Number { default, least, most } }
}

fn reals(name: &'static str, default: Vec<f64>, least: f64, most: f64) -> Setting {
    Setting { name, about: about(name), kind: Kind::Numbers { default, least, most } }
}

fn choice(name: &'static str, default: &'static str, values: Vec<&'static str>) -> Setting {
    Setting { name, about: about(name), kind: Kind::Choice { default, values } }
}

fn words(default: &[String]) -> Setting {
    Setting { name: "words", about: about("words"), kind: Kind::Words { default: default.join(" ") } }
}

/// Names of the kinds of positions, after a name for all of them together.
fn kinds_or_all() -> Vec<&'static str> {
    std::iter::once("all").chain(kind_names()).collect()
}

/// Returns all mechanisms, in an order to learn them.
pub fn mechanisms() -> Vec<Mechanism> {
    vec![
        Mechanism {
            name: "attention",
            about: "Attention worked out step by step, with small numbers.",
            formula: "softmax(Q Kᵀ / √d) V",
            options: vec![words(&Attention::default().words), choice("mask", "full", vec!["full", "causal"])],
            source: "crates/nn/src/layers/attention/self_attention.rs",
            show: |given| {
                let mask = if given.text("mask") == "causal" { Mask::Causal } else { Mask::Full };
                Attention { words: given.words("words"), mask, seed: given.seed }.show()
            },
        },
        Mechanism {
            name: "softmax",
            about: "What the temperature of a softmax does to the weights.",
            formula: "a_i = exp(s_i/t) / Σ_j exp(s_j/t)",
            options: vec![
                reals("scores", Softmax::default().scores, -50.0, 50.0),
                real("temperature", Softmax::default().temperature, 0.05, 20.0),
            ],
            source: "crates/nn/src/temperature.rs",
            show: |given| Softmax { scores: given.numbers("scores"), temperature: given.number("temperature") }.show(),
        },
        Mechanism {
            name: "scaling",
            about: "Why scores are divided by √d: large scores make the softmax a choice.",
            formula: "Var(q·k) = d, Var(q·k / √d) = 1",
            options: vec![whole("largest", 512, 2, 1_024), whole("keys", 32, 2, 128)],
            source: "crates/nn/src/layers/attention/multi_head.rs",
            show: |given| {
                let (largest, keys) = (given.whole("largest"), given.whole("keys"));
                Scaling { largest, keys, samples: 100, seed: given.seed }.show()
            },
        },
        Mechanism {
            name: "masks",
            about: "All masks and biases: which token may see which.",
            formula: "softmax(Q Kᵀ / √d + mask)",
            options: vec![whole("length", 8, 4, 24), whole("left", 2, 0, 24), whole("right", 1, 0, 24)],
            source: "crates/ops/src/attention/options.rs",
            show: |given| {
                let [length, left, right] = ["length", "left", "right"].map(|name| given.whole(name));
                Masks { length, left, right, seed: given.seed }.show()
            },
        },
        Mechanism {
            name: "position",
            about: "Every kind of position encoding, and how it changes with distance.",
            formula: "sinusoids: sin(p / 10000^(2i/d)), cos(p / 10000^(2i/d))",
            options: vec![
                choice("kind", "all", kinds_or_all()),
                whole("length", 48, 2, 128),
                whole("d_model", 32, 2, 128),
                whole("n_heads", 4, 1, 8),
                whole("shift", 5, 0, 64),
            ],
            source: "crates/nn/src/layers/position/mod.rs",
            show: |given| {
                let [length, d_model, n_heads, shift] =
                    ["length", "d_model", "n_heads", "shift"].map(|name| given.whole(name));
                let kind = Some(given.text("kind").to_string()).filter(|kind| kind != "all");
                Position { length, d_model, n_heads, kind, shift, seed: given.seed }.show()
            },
        },
        Mechanism {
            name: "equivariance",
            about: "Whether attention sees the order of its tokens, with and without positions.",
            formula: "f(P X) = P f(X)",
            options: vec![
                choice("kind", "sinusoidal", kind_names()),
                whole("tokens", 8, 3, 24),
                whole("d_model", 16, 2, 64),
                whole("n_heads", 2, 1, 8),
            ],
            source: "crates/nn/src/layers/attention/self_attention.rs",
            show: |given| {
                let [tokens, d_model, n_heads] = ["tokens", "d_model", "n_heads"].map(|name| given.whole(name));
                let kind = given.text("kind").to_string();
                Equivariance { tokens, d_model, n_heads, kind, seed: given.seed }.show()
            },
        },
        Mechanism {
            name: "heads",
            about: "Multi-head attention is a sum over its heads.",
            formula: "Σ_i A_i X W_V^i W_O^i",
            options: vec![whole("tokens", 8, 2, 24), whole("d_model", 12, 1, 64), whole("n_heads", 3, 1, 8)],
            source: "crates/nn/src/layers/attention/multi_head.rs",
            show: |given| {
                let [tokens, d_model, n_heads] = ["tokens", "d_model", "n_heads"].map(|name| given.whole(name));
                Heads { tokens, d_model, n_heads, seed: given.seed }.show()
            },
        },
        Mechanism {
            name: "linear",
            about: "Linear attention may multiply its matrices in another order.",
            formula: "(φ(Q) φ(K)ᵀ) V = φ(Q) (φ(K)ᵀ V)",
            options: vec![whole("tokens", 8, 2, 64), whole("d", 4, 1, 32)],
            source: "crates/nn/src/layers/attention/linear_attention.rs",
            show: |given| Linear { tokens: given.whole("tokens"), d: given.whole("d"), seed: given.seed }.show(),
        },
        Mechanism {
            name: "window",
            about: "The Gaussian window of handwriting slides along a text.",
            formula: "φ(t, u) = α exp(−β (κ_t − u)²), κ_t = κ_{t−1} + v",
            options: vec![
                Setting { name: "text", about: about("text"), kind: Kind::Text { default: Window::default().text } },
                whole("steps", 48, 1, 200),
                real("height", 1.0, 0.1, 10.0),
                real("sharpness", 1.0, 0.05, 20.0),
                real("speed", 0.25, 0.01, 2.0),
            ],
            source: "crates/nn/src/layers/attention/gaussian_window.rs",
            show: |given| {
                let [height, sharpness, speed] = ["height", "sharpness", "speed"].map(|name| given.number(name));
                Window { text: given.text("text").to_string(), steps: given.whole("steps"), height, sharpness, speed }
                    .show()
            },
        },
        Mechanism {
            name: "hard",
            about: "Hard attention draws one key; soft attention takes a mean.",
            formula: "z ~ Discrete(softmax(s)), C = v_z",
            options: vec![
                reals("scores", Hard::default().scores, -20.0, 20.0),
                whole("draws", 1_000, 1, 20_000),
                real("temperature", 0.5, 0.05, 10.0),
            ],
            source: "crates/nn/src/layers/attention/context.rs",
            show: |given| {
                let (scores, draws) = (given.numbers("scores"), given.whole("draws"));
                Hard { scores, draws, temperature: given.number("temperature"), seed: given.seed }.show()
            },
        },
        Mechanism {
            name: "identity",
            about: "When attention changes nothing: large, nearly orthogonal tokens.",
            formula: "softmax(X Xᵀ / √d) X ≈ X",
            options: vec![whole("tokens", 12, 2, 32), reals("d", vec![4.0, 16.0, 64.0], 2.0, 256.0)],
            source: "crates/nn/src/layers/attention/self_attention.rs",
            show: |given| {
                let d = given.numbers("d").into_iter().map(|d| d as usize).collect();
                Identity { tokens: given.whole("tokens"), d, seed: given.seed }.show()
            },
        },
        Mechanism {
            name: "dense",
            about: "Attention as one dense layer on the flattened tokens.",
            formula: "vec(Y) = (A ⊗ W_Vᵀ) vec(X)",
            options: vec![whole("tokens", 6, 2, 12), whole("d_model", 8, 2, 12)],
            source: "crates/nn/src/layers/attention/self_attention.rs",
            show: |given| {
                Dense { tokens: given.whole("tokens"), d_model: given.whole("d_model"), seed: given.seed }.show()
            },
        },
        Mechanism {
            name: "convolution",
            about: "Attention heads imitate a convolution as they become sharper.",
            formula: "A_h → shift by the offset h as α → ∞",
            options: vec![
                whole("size", 10, 4, 16),
                whole("kernel", 3, 1, 5),
                whole("channels", 2, 1, 4),
                reals("sharpness", vec![0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0], 0.01, 100.0),
            ],
            source: "crates/inspect/src/show/convolution.rs",
            show: |given| {
                let [size, kernel, channels] = ["size", "kernel", "channels"].map(|name| given.whole(name));
                Convolution { size, kernel, channels, sharpness: given.numbers("sharpness"), seed: given.seed }.show()
            },
        },
        Mechanism {
            name: "embedding",
            about: "A one-hot vector times the embedding matrix is a row of it.",
            formula: "e_i W = W_i",
            options: vec![words(&Embedding::default().words), whole("d_model", 4, 1, 16)],
            source: "crates/nn/src/layers/embedding.rs",
            show: |given| {
                Embedding { words: given.words("words"), d_model: given.whole("d_model"), seed: given.seed }.show()
            },
        },
        Mechanism {
            name: "lstm",
            about: "The gates of an LSTM over time, with weights set by hand or random.",
            formula: "c_t = f ⊙ c_{t−1} + i ⊙ g, h_t = o ⊙ tanh c_t",
            options: vec![
                choice("weights", "by-hand", vec!["by-hand", "random"]),
                whole("steps", 32, 8, 100),
                whole("unit", 1, 1, 4),
            ],
            source: "crates/nn/src/layers/recurrent/mod.rs",
            show: |given| {
                let weights = if given.text("weights") == "random" { Weights::Random } else { Weights::ByHand };
                Lstm { steps: given.whole("steps"), weights, unit: given.whole("unit"), seed: given.seed }.show()
            },
        },
    ]
}
