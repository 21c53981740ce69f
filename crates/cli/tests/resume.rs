//! A run that is killed at any moment goes on to the same bits as one that is not.

mod binary;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use binary::{command, documents, done, fails_with, path, regard, sets, text};
use serde_json::Value;

/// Dropout, accumulation and a cosine, so that everything that could drift is there.
const SETTINGS: [&str; 10] = [
    "data.size=6",
    "model.d_model=32",
    "model.d_ff=64",
    "model.dropout=0.1",
    "train.accumulate=2",
    "train.batch_examples=16",
    "train.evaluate_every=40",
    "train.checkpoint_every=15",
    "data.test=50",
    "train.steps=400",
];

fn train(out: &Path, more: &[&str]) -> Command {
    let mut command = command(&[&["train", "compose", "--threads", "2", "--out", path(out)], more].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn begin(out: &Path, more: &[&str]) -> Command {
    train(out, &[&sets(&SETTINGS)[..], more].concat())
}

/// What must not differ: weights, the optimiser, and the metrics but for the time they took.
fn state(folder: &Path) -> (Vec<u8>, Vec<u8>, Vec<u8>, Vec<Value>) {
    let read = |name: &str| fs::read(folder.join(name)).unwrap();
    let mut metrics = documents(&text(&read("metrics.jsonl")));
    for line in &mut metrics {
        line.as_object_mut().unwrap().remove("seconds");
    }
    (
        read("model.safetensors"),
        read("checkpoints/step-400/model.safetensors"),
        read("checkpoints/step-400/optimizer.safetensors"),
        metrics,
    )
}

#[test]
fn killed_runs_end_as_if_nothing_had_happened() {
    let place = tempfile::tempdir().unwrap();
    let whole = place.path().join("whole");
    let start = Instant::now();
    done(&begin(&whole, &[]).output().unwrap());
    let took = start.elapsed();
    let expected = state(&whole);
    let curve = expected.3.iter().filter(|line| line["split"] == "train").count();
    assert_eq!(curve, 200, "points of the loss curve");

    // Moments that differ from run to run of this test: any of them must do.
    let noise = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos();
    let mut random = noise | 1;
    let mut share = || {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        f64::from(random % 1000) / 1000.0
    };
    let killed = place.path().join("killed");
    let go_on = || match killed.join("config.json").exists() {
        true => train(&killed, &["--resume"]),
        false => begin(&killed, &[]),
    };
    let mut kills = Vec::new();
    for attempt in 0..6 {
        let mut child = go_on().spawn().unwrap();
        let moment = took.mul_f64((0.05 + 0.5 * share()).min(0.9));
        std::thread::sleep(moment.max(Duration::from_millis(20)));
        child.kill().unwrap();
        child.wait().unwrap();
        kills.push(format!("{attempt}: {moment:?}"));
    }
    done(&go_on().output().unwrap());
    let found = state(&killed);
    assert!(found.0 == expected.0, "the model differs after kills at {kills:?}");
    assert!(found.1 == expected.1 && found.2 == expected.2, "the last checkpoint differs after kills at {kills:?}");
    assert_eq!(found.3, expected.3, "the metrics differ after kills at {kills:?}");
}

fn has_checkpoint(folder: &Path) -> bool {
    let entries = fs::read_dir(folder.join("checkpoints")).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("step-"))
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_one_before_used() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    done(&begin(&folder, &["--steps", "60"]).output().unwrap());
    let expected = fs::read(folder.join("model.safetensors")).unwrap();
    let broken = folder.join("checkpoints/step-60/optimizer.safetensors");
    let mut bytes = fs::read(&broken).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&broken, bytes).unwrap();
    let output = train(&folder, &["--resume"]).output().unwrap();
    done(&output);
    let told = text(&output.stderr);
    assert!(told.contains("step-60") && told.contains("damaged") && told.contains("from step 45"), "{told}");
    assert!(fs::read(folder.join("model.safetensors")).unwrap() == expected);
}

#[test]
fn ctrl_c_saves_and_says_how_to_go_on() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    let child = begin(&folder, &["--steps", "100000"]).spawn().unwrap();
    while !has_checkpoint(&folder) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let told = done(&child.wait_with_output().unwrap());
    assert!(told.contains("--resume"), "{told}");
    // What was saved can be used at once.
    done(&regard(&["predict", path(&folder), "5 4 3 2 1 0 | 0 1 2 3 4 5"]));
}

#[test]
fn one_process_trains_in_a_folder() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    let mut child = begin(&folder, &["--steps", "100000"]).spawn().unwrap();
    while !has_checkpoint(&folder) {
        std::thread::sleep(Duration::from_millis(20));
    }
    fails_with(&train(&folder, &["--resume"]).output().unwrap(), 1, &["run", "another process"]);
    child.kill().unwrap();
    child.wait().unwrap();
    done(&train(&folder, &["--resume", "--steps", "1"]).output().unwrap());
}

#[test]
fn examples_that_do_not_suit_are_named_with_file_and_line() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    done(&begin(&folder, &["--steps", "2"]).output().unwrap());
    let file = place.path().join("examples.txt");
    let score = || regard(&["eval", path(&folder), "--data", path(&file)]);
    fs::write(&file, "5 4 3 2 1 0 | 0 1 2 3 4 5\n\n5 4 3\n").unwrap();
    fails_with(&score(), 1, &["examples.txt, line 3", "two permutations of 0 to 5", "5 4 3"]);
    fs::write(&file, "\n").unwrap();
    fails_with(&score(), 1, &["examples.txt", "one a line", "none"]);
    fs::write(&file, "5 4 3 2 1 0 | 0 1 2 3 4 5\n").unwrap();
    done(&score());
}

#[test]
fn a_run_is_never_overwritten() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    done(&begin(&folder, &["--steps", "2"]).output().unwrap());
    fails_with(&begin(&folder, &["--steps", "2"]).output().unwrap(), 1, &["--resume"]);
    fails_with(&train(&folder, &["--resume", "--set", "train.clip=2"]).output().unwrap(), 2, &[]);
}
