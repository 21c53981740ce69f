//! Tests of model folders: they are never mixed with other files, and no run continues to different bits without a warning.

mod binary;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use binary::{Ended, command, document, done, fails_with, pairs, path, regard, sets, text, wait_until};
use regard_tasks::folder::Folder;

const SETTINGS: [&str; 7] = [
    "data.size=4",
    "model.d_model=16",
    "model.d_ff=16",
    "model.n_heads=2",
    "data.dev=20",
    "data.test=20",
    "train.checkpoint_every=10",
];
const INPUT: &str = "3 2 1 0 | 0 1 2 3";

fn train(out: &Path, more: &[&str]) -> Command {
    let mut command = command(&[&["train", "compose", "--out", path(out)], more].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns a command that trains for `steps` steps on two threads.
fn begin(out: &Path, steps: &str) -> Command {
    train(out, &[&["--threads", "2", "--steps", steps], &sets(&SETTINGS)[..]].concat())
}

/// Waits until a run in the background has written `file`.
fn wait_for(file: &Path, child: &mut Child) {
    wait_until(path(file), || file.exists() || child.try_wait().unwrap().is_some());
    assert!(file.exists(), "the run ended without {}", file.display());
}

/// Runs a command with another instruction set than the tests themselves.
fn on_other_isa(mut command: Command) -> Command {
    match std::env::var("REGARD_ISA").as_deref() {
        Ok("scalar") => command.env_remove("REGARD_ISA"),
        _ => command.env("REGARD_ISA", "scalar"),
    };
    command
}

#[test]
fn a_description_that_was_edited_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    done(&begin(&folder, "5").ended());
    let file = folder.join("config.json");
    let written = fs::read_to_string(&file).unwrap();
    let edited = written.replacen("\"n_heads\": 2", "\"n_heads\": 4", 1);
    assert_ne!(edited, written);
    fs::write(&file, edited).unwrap();
    for arguments in [&["predict", path(&folder), INPUT][..], &["eval", path(&folder)], &["look", path(&folder)]] {
        fails_with(&regard(arguments), 1, &["config.json", "changed since Regard wrote it"]);
    }
    fails_with(&train(&folder, &["--resume"]).ended(), 1, &["changed since"]);
    fs::write(&file, written).unwrap();
    done(&regard(&["predict", path(&folder), INPUT]));
}

#[test]
fn a_folder_with_other_files_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("thesis");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("chapter.tex"), "words").unwrap();
    fails_with(&begin(&folder, "5").ended(), 1, &["thesis", "chapter.tex", "--out"]);
    let compare = ["compare", "compose", "--vary", "model.n_heads=1,2", "--out", path(&folder)];
    fails_with(&regard(&compare), 1, &["thesis", "chapter.tex", "--out"]);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    // Checkpoints without the config.json of their run are not used for another run.
    let folder = place.path().join("run");
    done(&begin(&folder, "15").ended());
    fs::remove_file(folder.join("config.json")).unwrap();
    fails_with(&begin(&folder, "15").ended(), 1, &["checkpoints", "config.json of their run is gone"]);
}

#[test]
fn other_conditions_are_refused_or_warned_of() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    done(&begin(&folder, "5").ended());
    let resume = |more: &[&str]| train(&folder, &[&["--resume", "--steps", "6"], more].concat());
    fails_with(&resume(&["--threads", "1"]).ended(), 1, &["begun on 2 threads", "--threads 2", "--force"]);
    let other = on_other_isa(resume(&["--threads", "2"])).ended();
    fails_with(&other, 1, &["instructions", "REGARD_ISA", "--force"]);
    let forced = resume(&["--threads", "1", "--force"]).ended();
    done(&forced);
    let told = text(&forced.stderr);
    assert!(told.contains("warning") && told.contains("not bit-identical"), "{told}");
    fails_with(&regard(&["train", "compose", "--force"]), 2, &["--resume"]);
}

#[test]
fn a_run_ends_with_its_minutes_and_resumes_to_the_same_bits() {
    let place = tempfile::tempdir().unwrap();
    let [whole, short] = ["whole", "short"].map(|name| place.path().join(name));
    done(&begin(&whole, "300").ended());
    let printed = done(&begin(&short, "300").args(["--minutes", "0.0001"]).ended());
    assert!(printed.contains("test split") && printed.contains("--resume"), "{printed}");
    let (_, description) = Folder::open(&short).unwrap();
    assert!(description.finished && description.scores.is_some() && (1..300).contains(&description.step));
    assert!(short.join("report.html").exists());
    done(&train(&short, &["--resume", "--threads", "2"]).ended());
    let model = |folder: &Path| fs::read(folder.join("model.safetensors")).unwrap();
    assert!(model(&short) == model(&whole), "the models differ");
    // A huge number of epochs is not planned before the first step.
    let endless = sets(&["train.epochs=1000000000000"]);
    let output =
        train(&place.path().join("endless"), &[&endless[..], &sets(&SETTINGS), &["--minutes", "0.01"]].concat());
    done(&{ output }.ended());
    for wrong in ["0", "-1", "nan", "soon"] {
        let output = begin(&place.path().join("none"), "5").args(["--minutes", wrong]).ended();
        assert!(matches!(output.status.code(), Some(1 | 2)), "{wrong}: {output:?}");
    }
}

#[test]
fn a_running_model_answers_from_its_newest_checkpoint() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    let mut child = begin(&folder, "1000000").spawn().unwrap();
    wait_for(&folder.join("checkpoints/step-10"), &mut child);
    let output = regard(&["predict", path(&folder), INPUT, "--json"]);
    assert!(document(&done(&output))["output"].is_string());
    let told = text(&output.stderr);
    assert!(told.contains("its training has not ended") && !told.contains("step 0"), "{told}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_comparison_locks_its_folder() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("both");
    let compare = || {
        let fixed =
            ["compare", "compose", "--vary", "model.n_layers=1,2", "--steps", "1000000", "--out", path(&folder)];
        let mut command = command(&[&fixed[..], &sets(&SETTINGS)].concat());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command
    };
    let mut child = compare().spawn().unwrap();
    wait_for(&folder.join("model.n_layers=1/seed-1/checkpoints/step-10"), &mut child);
    fails_with(&compare().ended(), 1, &["another process"]);
    child.kill().unwrap();
    child.wait().unwrap();
    // Runs under other conditions cannot be compared with the existing ones.
    fails_with(&on_other_isa(compare()).ended(), 1, &["instructions", "could not be compared", "--force"]);
}

#[test]
fn a_comparison_names_the_wrong_flag() {
    let output = regard(&["compare", "compose", "--vary", "model.n_heads=2,many"]);
    fails_with(&output, 2, &["--vary model.n_heads=many"]);
    assert!(!text(&output.stderr).contains("--set model"), "{}", text(&output.stderr));
    let output = regard(&["compare", "compose", "--vary", "model.d_hidden=2,4"]);
    fails_with(&output, 2, &["--vary model.d_hidden=2"]);
}

#[test]
fn moved_data_are_accepted_and_other_data_refused() {
    let place = tempfile::tempdir().unwrap();
    let data = pairs(place.path());
    let folder = place.path().join("run");
    let small = sets(&["model.d_model=16", "model.n_heads=2", "model.d_ff=16", "model.n_layers=1", "train.warmup=1"]);
    let fixed = ["train", "translate", "--threads", "2", "--out", path(&folder)];
    done(&regard(&[&fixed[..], &["--data", &data, "--steps", "2"], &small[..]].concat()));
    let moved = place.path().join("moved.tsv");
    fs::rename(&data, &moved).unwrap();
    let resume = |data: &str| regard(&[&fixed[..], &["--resume", "--steps", "3", "--data", data]].concat());
    done(&resume(path(&moved)));
    let other = place.path().join("other.tsv");
    fs::write(&other, fs::read_to_string(&moved).unwrap() + "six\tsix\n").unwrap();
    fails_with(&resume(path(&other)), 1, &["not those that this run began with"]);
    // Other data are refused even without a checkpoint, because the tokeniser was trained on the first data.
    fs::remove_dir_all(folder.join("checkpoints")).unwrap();
    fails_with(&resume(path(&other)), 1, &["not those that this run began with"]);
    done(&resume(path(&moved)));
    fails_with(&regard(&[&fixed[..], &["--resume", "--steps", "1"]].concat()), 1, &["3 steps have been made already"]);
}

/// Ctrl-C during a long evaluation stops the run at once, and the resumed run has the same scores and bits.
#[cfg(unix)]
#[test]
fn an_interrupted_evaluation_is_repeated() {
    let place = tempfile::tempdir().unwrap();
    let [whole, stopped] = ["whole", "stopped"].map(|name| place.path().join(name));
    let small = ["data.size=6", "model.d_model=16", "model.d_ff=16", "model.n_heads=2", "data.test=20"];
    let long = ["data.dev=20000", "train.evaluate_every=5", "train.checkpoint_every=7", "train.steps=10"];
    let settings = sets(&[&small[..], &long].concat());
    let begin = |out: &Path| train(out, &[&["--threads", "2"], &settings[..]].concat());
    done(&begin(&whole).ended());
    let mut child = begin(&stopped).spawn().unwrap();
    wait_for(&stopped.join("metrics.jsonl"), &mut child);
    let lines = || fs::read_to_string(stopped.join("metrics.jsonl")).unwrap().lines().count();
    wait_until("fifth step", || lines() >= 5 || child.try_wait().unwrap().is_some());
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = binary::end_of(child);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    done(&train(&stopped, &["--threads", "2", "--resume"]).ended());
    let lines = |folder: &Path| {
        let mut lines = binary::documents(&fs::read_to_string(folder.join("metrics.jsonl")).unwrap());
        lines.iter_mut().for_each(|line| drop(line.as_object_mut().unwrap().remove("seconds")));
        lines
    };
    assert_eq!(lines(&stopped), lines(&whole));
    let model = |folder: &Path| fs::read(folder.join("model.safetensors")).unwrap();
    assert!(model(&stopped) == model(&whole), "the models differ");
}
