//! Lessons: mechanisms are computed by the server as sliders move.

use serde_json::json;

use crate::models::{Stage, tagger};

#[test]
fn every_lesson_computes() {
    let Some(stage) = Stage::set(&[&format!("tagger={}", tagger())]) else { return };
    let browser = &stage.browser;
    stage.open("#learn");
    browser.wait("document.querySelectorAll('.lessons a').length > 5");
    let lessons =
        browser.run("return [...document.querySelectorAll('.lessons a')].map((one) => one.getAttribute('href'))");
    for lesson in lessons.as_array().unwrap() {
        let lesson = lesson.as_str().unwrap();
        stage.open(lesson);
        browser.wait("document.querySelector('.result img')?.naturalWidth > 0");
        browser.wait("document.querySelector('.result pre').textContent.length > 20");
        assert!(!browser.text(".source code").is_empty(), "{lesson}");
        browser.is_calm();
    }
}

#[test]
fn sliders_of_the_spin_glass_change_its_ground_state() {
    let Some(stage) = Stage::set(&[&format!("tagger={}", tagger())]) else { return };
    let browser = &stage.browser;
    stage.open("#learn?lesson=spin-glass");
    browser.wait("/[0-9]/.test(document.querySelector('.verdict')?.textContent)");
    assert!(browser.run("return document.querySelectorAll('.formula math').length").as_u64().unwrap() >= 2);
    let said = browser.text(".verdict");
    // The third slider is that of P, on a logarithmic scale: a thousand prompts.
    browser.slide(".option:nth-child(3) input", 3.0);
    browser.wait(&format!("document.querySelector('.verdict').textContent !== {said:?}"));
    browser.wait("location.hash.includes('p=1000')");
    let asked = json!({ "d": 8, "n": 16, "p": 1000, "lambda": 0.01, "seed": 1 });
    let wanted = stage.served.done("/v1/icl", &asked)["test_error"].as_f64().unwrap();
    let shown: f64 = browser.text(".verdict").rsplit(' ').next().unwrap().parse().unwrap();
    assert!((shown - wanted).abs() <= 0.006 * wanted, "{shown}, {wanted}");
    browser.is_calm();
}
