//! A run that is killed at any moment goes on to the same bits as one that is not.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn train(out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_regard"));
    command.args(["train", "compose", "--threads", "2", "--out"]).arg(out).args(more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Dropout, accumulation and a cosine, so that everything that could drift is there.
const SETTINGS: [&str; 20] = [
    "--set",
    "data.size=6",
    "--set",
    "model.d_model=32",
    "--set",
    "model.d_ff=64",
    "--set",
    "model.dropout=0.1",
    "--set",
    "train.accumulate=2",
    "--set",
    "train.batch_examples=16",
    "--set",
    "train.evaluate_every=40",
    "--set",
    "train.checkpoint_every=15",
    "--set",
    "data.test=50",
    "--set",
    "train.steps=400",
];

fn finish(child: Child) {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What must not differ: weights, the optimiser, and the metrics but for the time they took.
fn state(folder: &Path) -> (Vec<u8>, Vec<u8>, Vec<u8>, Vec<Value>) {
    let read = |name: &str| fs::read(folder.join(name)).unwrap();
    let metrics = String::from_utf8(read("metrics.jsonl")).unwrap();
    let metrics = metrics.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().remove("seconds");
        line
    });
    (
        read("model.safetensors"),
        read("checkpoints/step-400/model.safetensors"),
        read("checkpoints/step-400/optimizer.safetensors"),
        metrics.collect(),
    )
}

#[test]
fn killed_runs_end_as_if_nothing_had_happened() {
    let place = tempfile::tempdir().unwrap();
    let whole = place.path().join("whole");
    let start = Instant::now();
    finish(train(&whole, &SETTINGS).spawn().unwrap());
    let took = start.elapsed();
    let expected = state(&whole);

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
    let mut kills = Vec::new();
    for attempt in 0..6 {
        let resume = killed.join("config.json").exists();
        let mut child = match resume {
            true => train(&killed, &["--resume"]).spawn().unwrap(),
            false => train(&killed, &SETTINGS).spawn().unwrap(),
        };
        let moment = took.mul_f64((0.05 + 0.5 * share()).min(0.9));
        std::thread::sleep(moment.max(Duration::from_millis(20)));
        child.kill().unwrap();
        child.wait().unwrap();
        kills.push(format!("{attempt}: {moment:?}"));
    }
    finish(
        train(&killed, if killed.join("config.json").exists() { &["--resume"][..] } else { &SETTINGS[..] })
            .spawn()
            .unwrap(),
    );
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
    let few = [&SETTINGS[..], &["--steps", "60"]].concat();
    finish(train(&folder, &few).spawn().unwrap());
    let expected = fs::read(folder.join("model.safetensors")).unwrap();
    let broken = folder.join("checkpoints/step-60/optimizer.safetensors");
    let mut bytes = fs::read(&broken).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&broken, bytes).unwrap();
    let output = train(&folder, &["--resume"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("step-60") && told.contains("damaged") && told.contains("from step 45"), "{told}");
    assert!(fs::read(folder.join("model.safetensors")).unwrap() == expected);
}

#[test]
fn ctrl_c_saves_and_says_how_to_go_on() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    let long = [&SETTINGS[..], &["--steps", "100000"]].concat();
    let child = train(&folder, &long).spawn().unwrap();
    while !has_checkpoint(&folder) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("--resume"), "{told}{}", String::from_utf8_lossy(&output.stderr));
    // What was saved can be used at once.
    let input = "5 4 3 2 1 0 | 0 1 2 3 4 5";
    let mut predict = Command::new(env!("CARGO_BIN_EXE_regard"));
    let output = predict.arg("predict").arg(&folder).arg(input).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_run_is_never_overwritten() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    let few = [&SETTINGS[..], &["--steps", "2"]].concat();
    finish(train(&folder, &few).spawn().unwrap());
    let output = train(&folder, &few).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--resume"));
    let output = train(&folder, &["--resume", "--set", "train.clip=2"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
