//! What holds for every view: accessible names and contrasts, narrow windows, both schemes of colours, the token, a server that is gone,
//! and texts that look like markup.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::browser::{Browser, Scheme};
use crate::client::serve;
use crate::models::{Stage, tagger};

const VIEWS: [&str; 5] = [
    "#look?input=I+saw+a+saw.&head=0.1",
    "#question?input=I+saw+a+saw.&without=0.1",
    "#compare?input=I+saw+a+saw.&input2=I+had+a+saw.",
    "#learn?lesson=scores",
    "#watch",
];

/// Fetches the accessibility checker; it is not part of the repository.
fn axe(place: &Path) -> Option<String> {
    let fetched = Command::new("npm")
        .args(["pack", "axe-core@4", "--silent"])
        .current_dir(place)
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success());
    let packed: Option<PathBuf> = fetched.map(|output| place.join(String::from_utf8_lossy(&output.stdout).trim()));
    let unpacked = packed.filter(|packed| {
        let unpack = Command::new("tar").arg("xzf").arg(packed).arg("package/axe.min.js").current_dir(place).status();
        unpack.is_ok_and(|status| status.success())
    });
    match unpacked {
        Some(_) => std::fs::read_to_string(place.join("package/axe.min.js")).ok(),
        None => {
            eprintln!("skipped: needs npm and its registry, for axe-core");
            None
        }
    }
}

#[test]
fn the_accessibility_checker_finds_nothing_serious() {
    let place = tempfile::tempdir().unwrap();
    let Some(axe) = axe(place.path()) else { return };
    let folder = tagger();
    let runs = Path::new(&folder).parent().unwrap();
    let Some(stage) = Stage::set(&[&format!("tagger={folder}"), "--runs", runs.to_str().unwrap()]) else { return };
    let browser = &stage.browser;
    for (scheme, width) in [(Scheme::Light, 1280), (Scheme::Dark, 1280), (Scheme::Light, 400)] {
        browser.prefer(scheme);
        browser.size(width, 900);
        for view in VIEWS {
            stage.open(view);
            browser.wait("document.querySelectorAll('main canvas, main img, main table').length > 0");
            browser.run(&axe);
            let found =
                browser.run("return axe.run(document, { resultTypes: ['violations'] }).then((all) => all.violations)");
            let serious: Vec<String> = found
                .as_array()
                .unwrap()
                .iter()
                .filter(|one| ["serious", "critical"].iter().any(|impact| one["impact"] == *impact))
                .map(|one| format!("{}: {} {}", one["id"], one["help"], places(&one["nodes"])))
                .collect();
            assert!(serious.is_empty(), "{view} {scheme:?} {width}: {serious:#?}");
        }
    }
}

fn places(nodes: &Value) -> String {
    let nodes = nodes.as_array().unwrap().iter().take(4);
    nodes.map(|node| format!("\n{} {}", node["html"], node["any"][0]["message"])).collect()
}

#[test]
fn nothing_is_wider_than_a_narrow_window() {
    let folder = tagger();
    let runs = Path::new(&folder).parent().unwrap();
    let Some(stage) = Stage::set(&[&format!("tagger={folder}"), "--runs", runs.to_str().unwrap()]) else { return };
    let browser = &stage.browser;
    browser.size(400, 900);
    for view in VIEWS {
        stage.open(view);
        browser.wait("document.querySelectorAll('main canvas, main img, main table').length > 0");
        let wide = browser.run("return document.documentElement.scrollWidth");
        assert!(wide.as_u64().unwrap() <= 400, "{view}: {wide}");
        browser.is_calm();
    }
}

#[test]
fn texts_are_never_markup() {
    let Some(stage) = Stage::set(&[&format!("tagger={}", tagger())]) else { return };
    let browser = &stage.browser;
    let text = "<img src=x onerror=document.title=1> <b>saw</b> &amp; </script>";
    let hash =
        "#look?input=%3Cimg+src%3Dx+onerror%3Ddocument.title%3D1%3E+%3Cb%3Esaw%3C%2Fb%3E+%26amp%3B+%3C%2Fscript%3E";
    stage.open(hash);
    browser.wait(&format!("document.querySelector('textarea').value === {text:?}"));
    browser.wait("document.querySelectorAll('.looking span').length > 3");
    assert_eq!(
        browser.run("return document.querySelectorAll('main img[src], main script, .tokens b, .prediction b').length"),
        0
    );
    assert!(browser.text(".looking").contains("<"));
    browser.is_calm();
}

#[test]
fn a_token_is_asked_for_once_and_kept_for_the_tab() {
    let Some(browser) = Browser::start() else { return };
    let served = serve(&["--token", "secret", &format!("tagger={}", tagger())]);
    let address = format!("http://{}/", served.addr);
    browser.open(&address);
    browser.wait("document.querySelector('dialog').open");
    browser.type_into("#token-field", "wrong\u{e007}");
    browser.wait("document.querySelector('#token-problem').textContent.includes('does not know')");
    browser.type_into("#token-field", "secret\u{e007}");
    browser.wait("!document.querySelector('dialog').open && document.querySelector('.overview button')");
    // What a reload finds; another tab would have to ask.
    browser.open(&format!("{address}#question"));
    browser.wait("document.querySelector('.verdict') && !document.querySelector('dialog').open");
    assert_eq!(browser.run("return localStorage.length + document.cookie.length"), 0);
    let kept = browser.run("return Object.values(sessionStorage)");
    assert_eq!(kept, serde_json::json!(["secret"]));
}

#[test]
fn a_server_that_is_gone_or_refuses_is_said() {
    let folder = tagger();
    let Some(mut stage) = Stage::set(&[&format!("tagger={folder}")]) else { return };
    stage.open("");
    // An input that the model refuses.
    let long = "saw ".repeat(3_000);
    stage.browser.run(&format!(
        "const area = document.querySelector('textarea'); area.value = {long:?};
         area.dispatchEvent(new KeyboardEvent('keydown', {{ key: 'Enter', bubbles: true, cancelable: true }}));"
    ));
    stage.browser.wait("document.querySelector('#status').className === 'problem'");
    assert!(stage.browser.text("#status").contains("1 to 200 words"), "{}", stage.browser.text("#status"));
    stage.served.signal("KILL");
    stage.served.ended();
    stage.browser.type_into("textarea", "I saw.\u{e007}");
    stage.browser.wait("document.querySelector('#status').textContent.includes('does not answer')");
}
