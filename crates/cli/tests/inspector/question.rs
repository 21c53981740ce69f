//! Questions to a model: heads and layers off, other words, another temperature, the worth of heads; and comparison.

use serde_json::json;

use crate::models::{Stage, tagger};

const INPUT: &str = "I saw a saw.";

/// Returns a number as the page writes shares, in percent.
fn percent(share: f64) -> String {
    format!("{:.*} %", if share >= 0.0995 { 1 } else { 2 }, 100.0 * share)
}

#[test]
fn switched_off_heads_change_the_answer() {
    let Some(stage) = Stage::set(&[&format!("tagger={}", tagger())]) else { return };
    let (browser, served) = (&stage.browser, &stage.served);
    stage.open("#question?input=I+saw+a+saw.");
    browser.wait("document.querySelector('.verdict').textContent.includes('Nothing is changed yet')");
    assert_eq!(browser.text(".before .output"), browser.text(".after .output"));

    let predicted = served.done("/v1/predict", &json!({ "inputs": [INPUT], "without": "0.1" }));
    let less = &predicted["results"][0]["without"];
    browser.click(".overview button[data-name='0.1']");
    browser.wait("[...document.querySelectorAll('button')].some((one) => one.textContent === 'Switch off head 0.1')");
    browser.run(
        "[...document.querySelectorAll('button')].find((one) => one.textContent === 'Switch off head 0.1').click()",
    );
    browser.wait("document.querySelector('.verdict').textContent.startsWith('The answer')");
    stage.settled();
    assert_eq!(browser.text(".after .output"), less["output"].as_str().unwrap());
    let shown = browser.text(".after tbody tr:nth-child(2) .value");
    assert_eq!(shown, percent(less["probabilities"][1].as_f64().unwrap()));
    assert!(browser.text(".side").contains("exaggerate"), "the page says what zero means");
    assert!(browser.run("return location.hash").as_str().unwrap().contains("without=0.1"));

    // Another mode, whole layers and positions.
    let mean = served.done("/v1/predict", &json!({ "inputs": [INPUT], "without": "0.1=mean" }));
    browser.run(
        "const mode = document.querySelector('.side select'); mode.value = 'mean'; mode.dispatchEvent(new Event('change'));",
    );
    let wanted = percent(mean["results"][0]["without"]["probabilities"][1].as_f64().unwrap());
    browser.wait(&format!("document.querySelector('.after tbody tr:nth-child(2) .value').innerText === {wanted:?}"));
    browser.click(".side .check input");
    browser.wait("location.hash.includes('positions')");
    stage.settled();
    browser
        .run("[...document.querySelectorAll('button')].find((one) => one.textContent === 'Undo all changes').click()");
    browser.wait("document.querySelector('.verdict').textContent.includes('Nothing is changed yet')");
    assert!(!browser.run("return location.hash").as_str().unwrap().contains("without"));
    browser.is_calm();
}

#[test]
fn words_temperature_and_all_heads_in_turn_are_tried() {
    let Some(stage) = Stage::set(&[&format!("tagger={}", tagger())]) else { return };
    let (browser, served) = (&stage.browser, &stage.served);
    stage.open("#question?input=I+saw+a+saw.");
    browser.run(
        "const word = document.querySelectorAll('.word')[1]; word.value = 'had';
         for (const type of ['input', 'change']) word.dispatchEvent(new Event(type, { bubbles: true }));",
    );
    browser.wait("document.querySelector('.after').innerText.includes('had')");
    assert!(!browser.text(".before").contains("had"));
    stage.settled();
    browser.wait("document.querySelectorAll('.maps canvas').length === 3");

    browser.slide(".side input[type=range]", 0.5);
    browser.wait("location.hash.includes('temperature=3.162')");
    stage.settled();

    let wanted = served.done("/v1/cost", &json!({ "input": INPUT }));
    browser.run(
        "[...document.querySelectorAll('button')].find((one) => one.textContent.startsWith('Switch off each')).click()",
    );
    browser.wait("document.querySelectorAll('.cost tbody tr').length > 1");
    let heads = wanted["heads"].as_array().unwrap();
    assert_eq!(browser.run("return document.querySelectorAll('.cost tbody tr').length"), json!(heads.len()));
    assert_eq!(browser.text(".cost tbody tr th"), heads[0]["name"].as_str().unwrap());
    browser.click(".cost tbody tr button");
    browser.wait(&format!("location.hash.includes('without={}')", heads[0]["name"].as_str().unwrap()));
    browser.is_calm();
}

#[test]
fn two_inputs_and_two_models_are_compared() {
    let folder = tagger();
    let Some(stage) = Stage::set(&[&format!("one={folder}"), &format!("two={folder}")]) else { return };
    let browser = &stage.browser;
    stage.open("#compare?model=one&input=I+saw+a+saw.&head=0.1");
    browser.wait("document.querySelectorAll('.half .output').length === 2");
    browser.wait("document.querySelectorAll('.maps canvas').length === 3");
    browser.wait("document.querySelector('.maps figcaption').textContent === 'left: 0.1'");
    // The same weights: nothing differs.
    browser.wait("document.querySelector('.maps figure:last-child .hint').textContent.includes('are equal')");
    assert_eq!(browser.run("return document.querySelectorAll('.half select')[1].value"), "two");
    browser.run(
        "const area = document.querySelectorAll('.half textarea')[1]; area.value = 'I had a saw.';
         area.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));",
    );
    browser.wait("document.querySelectorAll('.half .prediction')[1].innerText.includes('had')");
    browser.wait("/up to 0.0*[1-9]/.test(document.querySelector('.maps figure:last-child .hint').textContent)");
    // Inputs of other lengths cannot be subtracted, and the page says so.
    browser.run(
        "const area = document.querySelectorAll('.half textarea')[1]; area.value = 'I saw.';
         area.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }));",
    );
    browser.wait("document.querySelector('.maps figure:last-child').innerText.includes('cannot be subtracted')");
    browser.is_calm();
}
