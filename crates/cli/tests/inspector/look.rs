//! The view of an input: an example that is answered at once, typed text, maps with the numbers of the model, lines, patterns.

use serde_json::json;

use crate::binary::{document, done, regard};
use crate::client::golden;
use crate::models::{Stage, tagger, trained};

/// Keys as WebDriver names them.
const RIGHT: &str = "\u{e014}";
const DOWN: &str = "\u{e015}";
const ENTER: &str = "\u{e007}";

/// Reads `“a” (2) → “b” (3): 0.1234` as row, column (from 0) and weight.
fn pointed(line: &str) -> (usize, usize, f64) {
    let read = |text: &str| {
        let inner = text.rsplit_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(number, _)| number);
        inner.and_then(|number| number.parse::<usize>().ok()).unwrap_or_else(|| panic!("{line}")) - 1
    };
    let (query, rest) = line.split_once(" → ").unwrap_or_else(|| panic!("{line}"));
    let (key, weight) = rest.rsplit_once(": ").unwrap_or_else(|| panic!("{line}"));
    (read(query), read(key), weight.parse().unwrap_or_else(|_| panic!("{line}")))
}

#[test]
fn maps_have_the_numbers_of_dump() {
    let folder = golden("bert-tagger");
    let Some(stage) = Stage::set(&[&format!("tagger={folder}")]) else { return };
    let browser = &stage.browser;
    stage.open("");
    // The page opens with an example that is answered already.
    assert!(!browser.text(".prediction").is_empty());
    browser.wait("document.querySelectorAll('.overview button').length > 3");
    browser.wait("document.querySelector('textarea').value.length > 0");

    let text = "the cat sat";
    browser.type_into("textarea", &format!("{text}{ENTER}"));
    browser.wait("document.querySelector('.looking').innerText.includes('cat')");
    stage.settled();
    let dumped = document(&done(&regard(&["dump", &folder, "--text", text, "--json"])));
    let tokens = dumped["tokens"].as_array().unwrap();
    assert_eq!(browser.run("return document.querySelectorAll('.looking span').length"), json!(tokens.len()));
    let heads = dumped["attentions"][0].as_array().unwrap().len();
    for (layer, head) in [(0, 0), (1, heads - 1)] {
        browser.click(&format!(".overview button[data-name='{layer}.{head}']"));
        browser.wait("!document.querySelector('.map').hidden");
        // By keys: each cell of the first row, then one further down.
        browser.keys(".map", RIGHT);
        for _ in 0..2 {
            browser.keys(".map", RIGHT);
        }
        browser.keys(".map", DOWN);
        browser.wait("/: [0-9.]+$/.test(document.querySelector('.said').textContent)");
        let (row, column, weight) = pointed(&browser.text(".said"));
        assert_eq!((row, column), (1, 2));
        let wanted = dumped["attentions"][layer][head][row][column].as_f64().unwrap();
        assert!((weight - wanted).abs() < 6e-5, "{layer}.{head} [{row}, {column}]: {weight}, dump has {wanted}");
        // By the mouse.
        browser.hover(".map canvas", 190.0, 150.0);
        browser.wait("document.querySelector('.said').textContent.includes(' → ')");
        let (row, column, weight) = pointed(&browser.text(".said"));
        let wanted = dumped["attentions"][layer][head][row][column].as_f64().unwrap();
        assert!((weight - wanted).abs() < 6e-5, "{layer}.{head} [{row}, {column}]: {weight}, dump has {wanted}");
    }
    browser.is_calm();
}

#[test]
fn lines_rollout_and_patterns_are_shown_and_the_address_keeps_them() {
    let Some(stage) = Stage::set(&[&format!("tagger={}", tagger())]) else { return };
    let browser = &stage.browser;
    stage.open("#look?input=I+saw+a+saw.&head=0.1");
    assert_eq!(browser.text(".overview button[aria-pressed=true]"), "");
    let chosen = "return document.querySelector('.overview button[aria-pressed=true]').dataset.name";
    assert_eq!(browser.run(chosen), "0.1");
    browser.wait("document.querySelector(\".overview button[data-name='rollout']\")");
    let title = browser.run("return document.querySelector(\".overview button[data-name='0.1']\").title");
    assert!(["entropy", "distance"].iter().all(|word| title.as_str().unwrap().contains(word)), "{title}");
    // Lines instead of a map, in both directions.
    browser.run(
        "const shape = [...document.querySelectorAll('.controls select')].find((one) => one.value === 'map');
         shape.value = 'lines'; shape.dispatchEvent(new Event('change'));",
    );
    browser.wait("!document.querySelector('.lines').hidden && document.querySelector('.map').hidden");
    browser.keys(".lines", DOWN);
    browser.wait("document.querySelector('.said').textContent.includes('attends most to')");
    browser.keys(".lines", RIGHT);
    browser.wait("document.querySelector('.said').textContent.includes('is attended to most by')");
    // The heads of a pattern.
    browser.click(".patterns button");
    browser.wait("document.querySelector('.patterns button').getAttribute('aria-pressed') === 'true'");
    let address = browser.run("return location.hash");
    assert!(address.as_str().unwrap().contains("shape=lines"), "{address}");
    let head = browser.run(chosen);
    stage.open(address.as_str().unwrap());
    assert_eq!(browser.run(chosen), head);
    browser.wait("!document.querySelector('.lines').hidden");
    browser.is_calm();
}

/// A language model of six layers that reads long texts; a step of training is enough to look into it.
fn six_layers() -> String {
    let settings = [
        "auto=off",
        "model.n_layers=6",
        "model.d_model=48",
        "model.n_heads=6",
        "model.d_ff=64",
        "data.block=2048",
        "train.batch_tokens=2048",
    ];
    trained("six-layers", "generate", "1", &settings)
}

#[test]
fn six_layers_are_seen_within_a_second_of_the_answer() {
    let Some(stage) = Stage::set(&[&format!("gpt={}", six_layers())]) else { return };
    let browser = &stage.browser;
    stage.open("");
    browser.wait("performance.getEntriesByName('drawn').length > 0");
    let took = browser.run(
        "const answered = performance.getEntriesByType('resource').find((one) => one.name.endsWith('/v1/attention'));
         return performance.getEntriesByName('drawn')[0].startTime - answered.responseEnd;",
    );
    println!("first view {took} ms after the answer");
    assert!(took.as_f64().unwrap() < 1000.0, "{took}");
    assert_eq!(browser.run("return document.querySelectorAll('.overview button[data-name^=\"5.\"]').length"), 6);
    // A language model says what it would write next, in every layer and at the end.
    browser.wait("document.querySelectorAll('.lens tbody tr').length >= 6");
    browser.wait("document.querySelectorAll('.prediction .bars tbody tr').length > 2");
    browser.is_calm();
}

#[test]
fn two_thousand_tokens_stay_usable() {
    let Some(stage) = Stage::set(&[&format!("gpt={}", six_layers())]) else { return };
    let browser = &stage.browser;
    stage.open("");
    let text = "the cat ".repeat(250);
    browser.run(&format!(
        "const area = document.querySelector('textarea'); area.value = {text:?};
         area.dispatchEvent(new KeyboardEvent('keydown', {{ key: 'Enter', bubbles: true, cancelable: true }}));"
    ));
    browser.wait("document.querySelectorAll('.looking span').length === 2000");
    stage.settled();
    browser.click(".overview button[data-name='1.0']");
    // A cell far from the first part: its weight is fetched when it comes into sight.
    browser.keys(".map", &DOWN.repeat(300));
    browser.wait("/ [(]300[)] → .*: [0-9.]+$/.test(document.querySelector('.said').textContent)");
    let (row, column, weight) = pointed(&browser.text(".said"));
    let asked = json!({ "input": text, "layers": ["1.0"], "rows": [row, row + 1] });
    let wanted = stage.served.done("/v1/attention", &asked)["maps"][0]["rows"][0][column].as_f64().unwrap();
    assert!((weight - wanted).abs() < 6e-5, "{weight}, the server has {wanted}");
    let nodes = browser.run("return document.querySelectorAll('*').length");
    assert!(nodes.as_u64().unwrap() < 6_000, "{nodes} elements");
    let pixels =
        browser.run("const canvas = document.querySelector('.map canvas'); return canvas.width * canvas.height");
    assert!(pixels.as_u64().unwrap() < 4_000_000, "the canvas holds only what is visible: {pixels} pixels");
    browser.is_calm();
}
