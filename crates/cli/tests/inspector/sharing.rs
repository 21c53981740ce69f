//! Sharing: files of the maps, and the self-contained page, which opens without a server.

use std::fs;

use crate::binary::{document, wait_until};
use crate::models::{Stage, tagger};

#[test]
fn maps_are_exported_and_the_exported_page_opens() {
    let Some(stage) = Stage::set(&[&format!("tagger={}", tagger())]) else { return };
    let browser = &stage.browser;
    let place = tempfile::tempdir().unwrap();
    browser.save_into(place.path());
    stage.open("#look?input=I+saw+a+saw.&head=0.1");
    let save = |words: &str, name: &str| {
        browser.click("#share summary");
        browser.run(&format!(
            "[...document.querySelectorAll('#share button')].find((one) => one.textContent.includes({words:?})).click()"
        ));
        let file = place.path().join(name);
        wait_until(name, || fs::metadata(&file).is_ok_and(|found| found.len() > 0));
        file
    };
    let json = document(&fs::read_to_string(save("JSON", "tagger.json")).unwrap());
    assert!(json["maps"].as_array().unwrap().len() > 1, "{json}");
    let svg = fs::read_to_string(save("SVG", "tagger.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains(">saw</text>"));
    assert!(fs::read(save("PNG", "tagger.png")).unwrap().starts_with(b"\x89PNG"));
    let page = save("HTML", "tagger.html");
    assert!(!fs::read_to_string(&page).unwrap().contains("http"), "the page needs no server");
    browser.is_calm();
    // The exported page is that of `regard look --out`: the same grid, map and lines.
    let weight = |browser: &crate::browser::Browser| {
        browser.click(".overview button[data-name='0.1']");
        browser.keys(".map", "\u{e015}\u{e015}");
        browser.wait("/: [0-9.]+$/.test(document.querySelector('.said').textContent)");
        browser.text(".said")
    };
    let served = weight(browser);
    browser.open(&format!("file://{}", page.display()));
    browser.wait("document.querySelectorAll('.overview button').length > 2");
    assert_eq!(weight(browser), served);
    assert!(browser.console().is_empty());
}
