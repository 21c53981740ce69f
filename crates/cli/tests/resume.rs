//! Tests of runs that are stopped, damaged, edited or read during training; `killed.rs` tests kills.

mod binary;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use binary::kill::{has_killed, newest_checkpoint};
use binary::{Ended, command, done, end_of, fails_with, path, regard, sets, text, wait_until};
use regard_tasks::folder::Folder;
use serde_json::Value;

/// Settings with dropout, accumulation and a cosine schedule, all of which a resumed run must restore.
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

#[test]
fn a_damaged_checkpoint_is_named_and_the_one_before_used() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    done(&begin(&folder, &["--steps", "60"]).ended());
    let expected = fs::read(folder.join("model.safetensors")).unwrap();
    let broken = folder.join("checkpoints/step-60/optimizer.safetensors");
    let mut bytes = fs::read(&broken).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&broken, bytes).unwrap();
    let output = train(&folder, &["--resume"]).ended();
    done(&output);
    let told = text(&output.stderr);
    assert!(told.contains("step-60") && told.contains("damaged") && told.contains("from step 45"), "{told}");
    assert!(fs::read(folder.join("model.safetensors")).unwrap() == expected);
}

/// The exit code is not 0: otherwise a script would deploy a half-trained model.
#[test]
fn a_signal_saves_the_run_and_is_no_success() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("run");
        let child = begin(&folder, &["--steps", "100000"]).spawn().unwrap();
        wait_for_checkpoint(&folder);
        let killed = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let output = end_of(child);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("--resume") && text(&output.stderr).contains("will be saved"));
        // The saved model can be used at once, with a note that its training has not ended.
        let output = regard(&["predict", path(&folder), "5 4 3 2 1 0 | 0 1 2 3 4 5"]);
        done(&output);
        assert!(text(&output.stderr).contains("its training has not ended"), "{}", text(&output.stderr));
    }
}

/// A step of a million batches is abandoned between two of them.
#[test]
fn a_long_step_is_abandoned() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    let child = begin(&folder, &sets(&["train.accumulate=1000000"])).spawn().unwrap();
    wait_until("metrics", || folder.join("metrics.jsonl").exists());
    std::thread::sleep(Duration::from_millis(300));
    let asked = Instant::now();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = end_of(child);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(asked.elapsed() < Duration::from_secs(20) && text(&output.stdout).contains("step 0;"), "{output:?}");
}

/// Scores are never kept beside weights that they do not belong to.
#[test]
fn a_stopped_run_has_no_earlier_scores() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    done(&begin(&folder, &["--steps", "30"]).ended());
    let scores = || serde_json::from_str::<Value>(&fs::read_to_string(folder.join("config.json")).unwrap()).unwrap();
    assert!(scores()["scores"].is_object());
    let child = train(&folder, &["--resume", "--steps", "100000"]).spawn().unwrap();
    wait_until("checkpoint of step 45", || folder.join("checkpoints/step-45").exists());
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = end_of(child);
    assert!(text(&output.stderr).contains("schedule of 100000 steps"), "{}", text(&output.stderr));
    assert!(!scores()["scores"].is_object() && !folder.join("report.html").exists());
}

/// A log on a full disk loses its lines but does not stop the run.
#[cfg(target_os = "linux")]
#[test]
fn a_line_that_cannot_be_printed_does_not_stop_a_run() {
    let place = tempfile::tempdir().unwrap();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let folder = place.path().join("run");
    let output = end_of(begin(&folder, &["--steps", "20"]).stderr(full).spawn().unwrap());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(folder.join("report.html").exists());
}

/// An edited folder is refused for the same reasons as a new run.
#[test]
fn an_edited_folder_is_checked_like_a_new_run() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    done(&begin(&folder, &["--steps", "15"]).ended());
    let (opened, written) = Folder::open(&folder).unwrap();
    for (section, key, value, words) in [
        ("train", "accumulate", 0u64, &["config.json", "train.accumulate"][..]),
        ("data", "size", 1_000_000_000, &["config.json", "data.size"]),
        ("model", "d_model", 1 << 40, &[]),
        ("model", "n_layers", 1_000_000_000, &[]),
        ("model", "n_heads", 3, &["config.json", "n_heads"]),
    ] {
        let mut description = written.clone();
        description.config[section][key] = value.into();
        opened.describe(&description).unwrap();
        for arguments in [&["predict", path(&folder), "5 4 3 2 1 0 | 0 1 2 3 4 5"][..], &["eval", path(&folder)]] {
            fails_with(&regard(arguments), 1, words);
        }
        let output = train(&folder, &["--resume"]).ended();
        assert!(matches!(output.status.code(), Some(1 | 2)), "{section}.{key}: {}", text(&output.stderr));
    }
}

#[test]
fn weights_with_nan_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    done(&begin(&folder, &["--steps", "15"]).ended());
    let model = folder.join("model.safetensors");
    let mut bytes = fs::read(&model).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    // The checksum is right, as if a failed run had written the file.
    let (opened, mut description) = Folder::open(&folder).unwrap();
    opened.commit(&mut description, &BTreeMap::from([("model.safetensors".to_string(), bytes)])).unwrap();
    fails_with(
        &regard(&["predict", path(&folder), "5 4 3 2 1 0 | 0 1 2 3 4 5"]),
        1,
        &["not finite", "train the model again"],
    );
}

/// Closing the output pipe ends the work.
#[test]
fn a_closed_pipe_ends_predictions() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    done(&begin(&folder, &["--steps", "15"]).ended());
    let lines = "5 4 3 2 1 0 | 0 1 2 3 4 5\n".repeat(2_000_000);
    let input = place.path().join("many.txt");
    fs::write(&input, lines).unwrap();
    let mut child =
        command(&["predict", path(&folder), "--input", path(&input)]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let start = Instant::now();
    assert!(end_of(child).status.success());
    assert!(start.elapsed() < Duration::from_secs(20), "it continued for {:?}", start.elapsed());
}

fn wait_for_checkpoint(folder: &Path) {
    wait_until("checkpoint", || newest_checkpoint(folder).is_some());
}

#[test]
fn only_one_process_trains_in_a_folder() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    let child = begin(&folder, &["--steps", "100000"]).spawn().unwrap();
    wait_for_checkpoint(&folder);
    fails_with(&train(&folder, &["--resume"]).ended(), 1, &["run", "another process"]);
    assert!(has_killed(child), "it had ended before");
    done(&train(&folder, &["--resume", "--minutes", "0.0001"]).ended());
}

#[test]
fn invalid_examples_are_named_with_file_and_line() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    done(&begin(&folder, &["--steps", "2"]).ended());
    let file = place.path().join("examples.txt");
    let score = || regard(&["eval", path(&folder), "--data", path(&file)]);
    fs::write(&file, "5 4 3 2 1 0 | 0 1 2 3 4 5\n\n5 4 3\n").unwrap();
    fails_with(&score(), 1, &["examples.txt, line 3", "two permutations of 0 to 5", "5 4 3"]);
    fs::write(&file, "\n").unwrap();
    fails_with(&score(), 1, &["examples.txt", "one per line", "none"]);
    fs::write(&file, "5 4 3 2 1 0 | 0 1 2 3 4 5\n").unwrap();
    done(&score());
}

#[test]
fn a_run_is_never_overwritten() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    done(&begin(&folder, &["--steps", "2"]).ended());
    fails_with(&begin(&folder, &["--steps", "2"]).ended(), 1, &["--resume"]);
    fails_with(&train(&folder, &["--resume", "--set", "train.clip=2"]).ended(), 2, &[]);
}
