//! Pictures of each view for `docs/inspector.md`; `docs/inspector/make` runs this.

use std::path::{Path, PathBuf};

use crate::binary::{SMALL, done, path, regard, sets};
use crate::browser::Scheme;
use crate::models::Stage;

/// Trains a model with the defaults of its task.
fn train(place: &Path, task: &str, name: &str, steps: &str, more: &[&str]) -> String {
    let folder = place.join(name);
    let arguments = ["train", task, "--steps", steps, "--out", path(&folder)];
    done(&regard(&[&arguments[..], &sets(more)].concat()));
    path(&folder).to_string()
}

#[test]
#[ignore = "writes the pictures of docs/inspector.md"]
fn screenshots() {
    let folder = PathBuf::from(std::env::var("REGARD_SCREENSHOTS").expect("REGARD_SCREENSHOTS names a folder"));
    let place = tempfile::tempdir().unwrap();
    let runs = place.path();
    let models = [
        train(runs, "tag", "tagger", "300", &["train.evaluate_every=50"]),
        train(runs, "tag", "small-tagger", "300", &[&SMALL[..], &["train.evaluate_every=50"]].concat()),
        train(runs, "translate", "translator", "500", &[]),
        train(runs, "image", "digits", "150", &[]),
    ];
    let arguments: Vec<&str> = models.iter().map(String::as_str).chain(["--runs", path(runs)]).collect();
    let Some(stage) = Stage::set(&arguments) else { return };
    let browser = &stage.browser;
    let costs =
        "[...document.querySelectorAll('button')].find((one) => one.textContent.startsWith('Switch off each')).click()";
    let views = [
        ("look-light-1280", "#look?model=tagger&input=I+saw+a+saw+in+the+garden+.&head=1.1&row=1", 900, ""),
        ("picture-dark-1280", "#look?model=digits&head=1.2", 900, ""),
        (
            "question-light-1280",
            "#question?model=tagger&input=I+saw+a+saw+in+the+garden+.&head=1.1&without=0.2",
            1000,
            costs,
        ),
        (
            "compare-dark-1280",
            "#compare?model=translator&model2=translator&input=the+cat+sees+the+dog&input2=the+dog+sees+the+cat&head=encoder.0.1",
            860,
            "",
        ),
        ("runs-light-1280", "#watch?run=tagger&beside=small-tagger", 900, ""),
        ("learn-dark-1280", "#learn?lesson=spin-glass&p=1000", 900, ""),
        ("look-light-400", "#look?model=tagger&input=I+saw+a+saw+in+the+garden+.&head=1.1&row=1", 1000, ""),
        ("learn-dark-400", "#learn?lesson=softmax", 1000, ""),
    ];
    for (name, hash, height, script) in views {
        let (rest, width) = name.rsplit_once('-').unwrap();
        browser.size(width.parse().unwrap(), height);
        browser.prefer(if rest.ends_with("dark") { Scheme::Dark } else { Scheme::Light });
        stage.open(hash);
        browser.wait("document.querySelectorAll('main canvas, main img, main table').length > 0");
        if !script.is_empty() {
            browser.run(script);
        }
        std::thread::sleep(std::time::Duration::from_millis(1_500));
        stage.settled();
        browser.is_calm();
        std::fs::write(folder.join(format!("{name}.png")), browser.screenshot()).unwrap();
    }
}
