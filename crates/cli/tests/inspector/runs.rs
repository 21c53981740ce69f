//! Trainings: a table of runs, live curves, maps over the steps, and a run that is stopped from the page.

use serde_json::json;

use crate::binary::{Ended, SMALL, command, done, path, regard, sets, wait_until, with_address};
use crate::models::Stage;

#[test]
fn a_training_is_watched_and_stopped() {
    let place = tempfile::tempdir().unwrap();
    let old = place.path().join("old");
    done(&regard(&[&["train", "tag", "--steps", "5", "--out", path(&old)][..], &sets(&SMALL)].concat()));
    let Some(stage) = Stage::set(&["--runs", path(place.path())]) else { return };
    let browser = &stage.browser;
    let new = place.path().join("new");
    let train = ["train", "tag", "--steps", "1000000", "--watch", "--out", path(&new)];
    let (mut training, address) = with_address(&[&train[..], &sets(&SMALL)].concat());

    // The page of the training itself.
    browser.open(&format!("http://{address}"));
    browser.wait("document.querySelector('.run h2')?.textContent === 'new'");
    browser.wait("document.querySelectorAll('.curves polyline').length > 1");
    browser.wait("document.querySelector('.run .hint').textContent.includes('tokens/s')");
    // The table of all runs, by another server.
    stage.open("#watch?run=new");
    browser.wait("document.querySelectorAll('.runs tbody tr').length === 2");
    browser.wait("document.querySelector('.runs tbody tr.chosen .state').textContent === 'running'");
    assert!(browser.run("return document.querySelectorAll('.runs .differs').length > 0").as_bool().unwrap());
    browser.run("[...document.querySelectorAll('.runs thead button')].find((one) => one.textContent.startsWith('step')).click()");
    let sorted = "[...document.querySelectorAll('.runs tbody th')].map((one) => one.textContent).join()";
    browser.wait(&format!("{sorted} === 'old,new'"));
    // Maps of a fixed example, at several steps.
    browser.wait("Number(document.querySelector('.run section input[type=range]').max) > 0");
    browser.slide(".run section input[type=range]", 0.0);
    browser.wait("document.querySelectorAll('.overview button').length > 1");
    browser.wait("location.hash.includes('step=')");
    browser.run("[...document.querySelectorAll('button')].find((one) => one.textContent === 'Stop and save').click()");
    wait_until("end of the training", || training.0.try_wait().unwrap().is_some());
    let status = training.0.wait().unwrap();
    assert!(status.success(), "{status}");
    browser.wait("document.querySelector('.runs tbody tr.chosen .state').textContent !== 'running'");
    // It was saved: it goes on.
    let resumed = ["train", "tag", "--resume", "--out", path(&new), "--minutes", "0.01"];
    let output = command(&resumed).ended();
    assert!(output.status.success() || output.status.code() == Some(130), "{output:?}");
    browser.is_calm();
    assert_eq!(stage.served.post("/v1/runs/old/stop", &json!({})).status, 409);
}
