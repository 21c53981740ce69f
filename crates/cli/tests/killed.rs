//! Tests that a run of any task, killed at any moment and resumed, ends with the same bits as an undisturbed run.
#![cfg(unix)]

mod binary;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use binary::kill::{Left, Moments, has_killed, newest_checkpoint};
use binary::{Ended, command, done, pairs, path, sets, wait_until};

/// Settings of a small model with all the state that a resumed run must restore: random numbers, sums over batches, a falling
/// learning rate, the best weights beside the last.
const SETTINGS: [&str; 9] = [
    "model.d_model=16",
    "train.accumulate=2",
    "train.batch_examples=8",
    "train.batch_tokens=256",
    "train.evaluate_every=20",
    "train.evaluate_examples=8",
    "train.checkpoint_every=10",
    "train.keep=best",
    "train.steps=200",
];

/// Returns additional settings of a task. A task without any is tested, too.
fn more(task: &str) -> &'static [&'static str] {
    match task {
        "compose" => &["data.size=6", "data.test=50", "model.dropout=0.1"],
        "image" => &["data.limit=500", "model.dropout=0.1"],
        "translate" => &["model.dropout=0.1"],
        // Hard attention counts its soft steps and keeps a running mean of the reward between steps.
        "caption" => &[
            "model.channels=[4, 4]",
            "model.groups=2",
            "model.selection={ kind = \"hard\", estimator = \"score_function\" }",
            "model.soft_steps=90",
        ],
        _ => &[],
    }
}

/// Trains once undisturbed and once with kills, and compares the results.
fn kill(task: &str, settings: &[&str]) -> Left {
    let place = tempfile::tempdir().unwrap();
    let train =
        |out: &Path, more: &[&str]| command(&[&["train", task, "--threads", "2", "--out", path(out)], more].concat());
    // Translating the built-in test sentences at the end would take long.
    let data = pairs(place.path());
    let data = if task == "translate" { vec!["--data", &data] } else { Vec::new() };
    let begin = |out: &Path| train(out, &[sets(settings), data.clone()].concat());
    let whole = place.path().join("whole");
    let start = Instant::now();
    done(&begin(&whole).ended());
    let took = start.elapsed();
    let (expected, last_step) = (Left::new(&whole), newest_checkpoint(&whole));

    let killed = place.path().join("killed");
    let go_on = || -> Command {
        match killed.join("config.json").exists() {
            true => train(&killed, &["--resume"]),
            false => begin(&killed),
        }
    };
    let mut moments = Moments::new();
    let (mut landed, mut resumed) = (Vec::new(), false);
    for attempt in 0..4 {
        let before = newest_checkpoint(&killed);
        let mut child = go_on().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let moment = match attempt {
            // During reading, at the start or in the first steps.
            0 => moments.part_of(took / 3),
            // At a new checkpoint, or somewhat later.
            1 | 2 => {
                wait_until("new checkpoint", || {
                    newest_checkpoint(&killed) > before || child.try_wait().unwrap().is_some()
                });
                if attempt == 1 { Duration::ZERO } else { moments.part_of((took / 6).min(Duration::from_millis(300))) }
            }
            // At any moment, perhaps after the end.
            _ => moments.part_of(took),
        };
        std::thread::sleep(moment);
        if has_killed(child) {
            let step = newest_checkpoint(&killed);
            resumed |= step.is_some() && step < last_step;
            landed.push(format!("{attempt} after {moment:?} at step {step:?}"));
        }
    }
    println!("{task}: {} of 4 kills landed: {landed:?}", landed.len());
    assert!(resumed, "{task}: no kill left a checkpoint to resume from: {landed:?}");
    done(&go_on().ended());
    Left::new(&killed).expect(&expected, &format!("{task} {settings:?} after kills {landed:?}"));
    expected
}

/// Covers every task of the registry, including future ones.
#[test]
fn runs_of_every_task_end_as_if_nothing_had_happened() {
    for task in regard_tasks::kinds() {
        let left = kill(task.name(), &[&SETTINGS[..], more(task.name())].concat());
        let curve = left.metrics.iter().filter(|line| line["split"] == "train").count();
        assert_eq!(curve, 200, "{}: points of the loss curve", task.name());
        assert!(left.has_best(), "{}", task.name());
    }
}

/// Hard attention trained with the score function keeps a running mean of the reward between steps.
#[test]
fn a_run_with_state_between_steps_ends_as_if_nothing_had_happened() {
    let hard =
        ["model.kind=gru", "model.selection={ kind = \"hard\", estimator = \"score_function\" }", "model.dropout=0.1"];
    kill("translate", &[&SETTINGS[..], &hard].concat());
}

/// Early stopping counts the evaluations before a kill.
#[test]
fn a_run_that_ends_early_ends_as_if_nothing_had_happened() {
    let early = [
        "data.size=6",
        "data.test=50",
        "data.dev=20",
        "train.evaluate_examples=0",
        "train.evaluate_every=25",
        "train.patience=12",
        "train.learning_rate=0.1",
        "train.schedule=constant",
        "train.steps=20000",
    ];
    let settings: Vec<&str> = SETTINGS.into_iter().filter(|one| !is_in(one, &early)).chain(early).collect();
    let left = kill("compose", &settings);
    let last = left.metrics.last().unwrap()["step"].as_u64().unwrap();
    assert!((12 * 25..20_000).contains(&last), "it ended at step {last}");
}

/// Returns whether `list` sets the key of `setting`.
fn is_in(setting: &str, list: &[&str]) -> bool {
    let key = |setting: &str| setting.split('=').next().unwrap().to_string();
    list.iter().any(|other| key(other) == key(setting))
}
