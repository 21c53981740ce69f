//! Inputs that are no typed text: a dropped picture, a dropped sound, a clicked node; and a text that becomes handwriting.

use regard_data::{Image, ImageSize, Sound, encode_wav};
use serde_json::json;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::models::{Stage, trained};

const IMAGE: [&str; 6] = [
    "auto=off",
    "model.d_model=16",
    "model.n_layers=1",
    "model.n_heads=2",
    "train.batch_examples=8",
    "train.evaluate_every=10",
];

#[test]
fn a_dropped_picture_is_answered() {
    let folder = trained("image", "image", "2", &IMAGE);
    let Some(stage) = Stage::set(&[&format!("pictures={folder}")]) else { return };
    let browser = &stage.browser;
    stage.open("");
    let size = ImageSize { channels: 1, height: 28, width: 28 };
    let png = Image { size, pixels: (0..28 * 28).map(|at| if at % 28 < 14 { 255 } else { 0 }).collect() }.to_png();
    let wanted = stage.served.done("/v1/predict", &json!({ "inputs": [{ "image": STANDARD.encode(&png) }] }));
    browser.drop_file(".drop", "half.png", "image/png", &png);
    let label = wanted["results"][0]["output"].as_str().unwrap();
    let share = wanted["results"][0]["probabilities"][label].as_f64().unwrap();
    let first = format!("{:.1} %", 100.0 * share);
    browser.wait(&format!("document.querySelector('.bars .value').innerText === {first:?}"));
    assert_eq!(browser.text(".output"), label);
    stage.settled();
    // The picture under the weights of a place that the mouse points at.
    browser.wait("document.querySelector('.gaze').width > 100");
    browser.hover(".gaze", 30.0, 30.0);
    browser.wait("/“0,[0-9]”/.test(document.querySelector('.picture .hint').textContent)");
    assert!(browser.run("return location.hash").as_str().unwrap().contains("json"));
    browser.is_calm();
}

#[test]
fn a_dropped_sound_is_answered() {
    let settings = ["auto=off", "model.d_model=16", "model.n_layers=1", "model.n_heads=2", "model.d_ff=16"];
    let folder = trained("speech", "speech", "2", &settings);
    let Some(stage) = Stage::set(&[&format!("sounds={folder}")]) else { return };
    let browser = &stage.browser;
    stage.open("");
    let sound = Sound { rate: 8_000, samples: (0..3_200).map(|n| 0.3 * (0.3 * n as f32).sin()).collect() };
    let wav = encode_wav(&sound);
    let wanted = stage.served.done("/v1/predict", &json!({ "inputs": [{ "audio": STANDARD.encode(&wav) }] }));
    browser.drop_file(".drop", "tone.wav", "audio/wav", &wav);
    let label = wanted["results"][0]["output"].as_str().unwrap();
    let share = format!("{:.1} %", 100.0 * wanted["results"][0]["probabilities"][label].as_f64().unwrap());
    browser.wait(&format!("document.querySelector('.bars .value').innerText === {share:?}"));
    stage.settled();
    browser.wait("document.querySelector('.gaze').width > 100 && document.querySelector('.picture .hint').textContent.includes('attends')");
    browser.is_calm();
}

#[test]
fn a_clicked_node_is_answered() {
    let settings = ["model.d_model=16", "model.n_heads=2"];
    let folder = trained("graph", "graph", "5", &settings);
    let Some(stage) = Stage::set(&[&format!("papers={folder}")]) else { return };
    let browser = &stage.browser;
    stage.open("");
    browser.wait("document.querySelectorAll('.graph .node[data-node]').length > 0");
    let node = browser.run("return document.querySelector('.graph .node[data-node]').dataset.node");
    let wanted = stage.served.done("/v1/predict", &json!({ "inputs": [{ "node": node }] }));
    browser.click(".graph .node[data-node] circle");
    browser.wait(&format!("document.querySelector('input.input').value === {node}"));
    browser.wait(&format!("document.querySelector('.graph .own text').textContent.startsWith({node})"));
    assert_eq!(browser.text(".output"), wanted["results"][0]["output"].as_str().unwrap());
    browser.is_calm();
}

#[test]
fn a_word_is_written_by_hand() {
    let settings =
        ["model.d_model=16", "train.batch_examples=8", "train.evaluate_every=5", "train.evaluate_examples=4"];
    let folder = trained("write", "write", "3", &settings);
    let Some(stage) = Stage::set(&[&format!("pen={folder}")]) else { return };
    let browser = &stage.browser;
    stage.open("");
    browser.type_into("textarea", "on\u{e007}");
    browser.wait("document.querySelector('.window').innerText.replace(/\\s/g, '') === 'on'");
    stage.settled();
    let points = browser.run("return Number(document.querySelector('.picture input[type=range]').max)");
    assert!(points.as_u64().unwrap() > 1, "{points}");
    browser.slide(".picture input[type=range]", 2.0);
    browser.wait("document.querySelector('.picture output').textContent.startsWith('2 of')");
    // The window at this point is the row of the map.
    browser.wait("document.querySelector('.said').textContent.startsWith('“2”')");
    let ink = browser.run(
        "const canvas = document.querySelector('.ink');
         const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
         return data.some((value, at) => at % 4 === 3 && value > 0);",
    );
    assert_eq!(ink, true);
    browser.is_calm();
}
