//! Tests of `regard compare`: tables, resuming after a kill, failures beside successes.

mod binary;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use binary::kill::{Moments, has_killed};
use binary::{Ended, command, document, done, fails_with, path, read_document, regard, sets, text};
use serde_json::Value;

const FEW: [&str; 8] = [
    "data.size=4",
    "data.test=40",
    "data.dev=20",
    "model.d_model=16",
    "model.d_ff=16",
    "train.batch_examples=8",
    "train.evaluate_every=10",
    "train.checkpoint_every=5",
];

fn compare(out: &Path, more: &[&str]) -> Command {
    command(&[&["compare", "compose", "--threads", "2", "--out", path(out)][..], &sets(&FEW), more].concat())
}

#[test]
fn variants_and_seeds_side_by_side() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("c");
    let vary = ["--vary", "model.kind=transformer,gru", "--vary", "model.n_layers=1,2", "--steps", "20"];
    let run = |seeds: &str| compare(&out, &[&vary[..], &["--seeds", seeds, "--json"]].concat()).ended();
    let two = document(&done(&run("2")));
    assert_eq!(two["finished"], true);
    assert_eq!((two["runs"].as_array().unwrap().len(), two["table"].as_array().unwrap().len()), (8, 4));
    let row = &two["table"][1];
    assert_eq!(
        (&row["variant"]["model.kind"], &row["variant"]["model.n_layers"]),
        (&"transformer".into(), &"2".into())
    );
    // The mean and the deviation are those of the runs.
    let value = |run: usize| two["runs"][run]["metrics"]["accuracy"].as_f64().unwrap();
    let (a, b) = (value(2), value(3));
    let close =
        |found: &Value, wanted: f64| assert!((found.as_f64().unwrap() - wanted).abs() < 1e-9, "{found} {wanted}");
    close(&row["metrics"]["accuracy"]["mean"], (a + b) / 2.0);
    close(&row["metrics"]["accuracy"]["deviation"], (a - b).abs() / 2f64.sqrt());
    assert!(row["parameters"].as_u64() > two["table"][0]["parameters"].as_u64());
    let svg = fs::read_to_string(out.join("compare.svg")).unwrap();
    assert!(svg.contains("transformer, 2") && svg.contains("accuracy"));
    assert!(fs::read_to_string(out.join("compare.html")).unwrap().contains("compose"));
    // A sub-run is a model like any other.
    let folder = out.join(two["runs"][0]["folder"].as_str().unwrap());
    let scores = document(&done(&regard(&["eval", "--json", path(&folder)])));
    assert_eq!(scores["metrics"], two["runs"][0]["metrics"]);

    // Run again with one more seed, only the new runs are trained.
    let weights = fs::metadata(folder.join("model.safetensors")).unwrap().modified().unwrap();
    let output = run("3");
    let told = text(&output.stderr);
    assert_eq!(told.matches("trained before").count(), 8, "{told}");
    let more = document(&done(&output));
    assert_eq!(more["runs"].as_array().unwrap().len(), 12);
    assert_eq!(more["runs"][0], two["runs"][0]);
    assert_eq!(fs::metadata(folder.join("model.safetensors")).unwrap().modified().unwrap(), weights);

    // The folder of one comparison is refused for another.
    let output = compare(&out, &["--vary", "model.kind=transformer,lstm"]).ended();
    fails_with(&output, 1, &["another comparison"]);
}

#[test]
fn a_killed_comparison_resumes_to_the_same_bits() {
    let place = tempfile::tempdir().unwrap();
    let arguments = ["--vary", "model.kind=transformer,rnn", "--steps", "600"];
    let whole = place.path().join("whole");
    let start = Instant::now();
    done(&compare(&whole, &arguments).ended());
    let took = start.elapsed();
    let killed = place.path().join("killed");
    // The first kill falls into the first run, the second comes later.
    let mut moments = Moments::new();
    let mut landed = Vec::new();
    for attempt in 0..2 {
        let mut command = compare(&killed, &arguments);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let moment = took.mul_f64(0.2) + moments.part_of(took.mul_f64(0.25));
        std::thread::sleep(moment);
        if has_killed(child) {
            landed.push(format!("{attempt} after {moment:?}"));
        }
    }
    println!("{} of 2 kills landed: {landed:?}", landed.len());
    assert!(!landed.is_empty(), "it had ended before it was killed");
    let told = done(&compare(&killed, &arguments).ended());
    assert!(told.contains("transformer") && told.contains("accuracy"), "{told}");
    let (one, other) = (read_document(&whole.join("compare.json")), read_document(&killed.join("compare.json")));
    assert_eq!(other["finished"], true);
    for run in 0..2 {
        assert_eq!(one["runs"][run]["metrics"], other["runs"][run]["metrics"]);
        let model = Path::new(one["runs"][run]["folder"].as_str().unwrap()).join("model.safetensors");
        assert!(fs::read(whole.join(&model)).unwrap() == fs::read(killed.join(&model)).unwrap(), "{model:?}");
    }
}

#[test]
fn a_failing_variant_is_reported_and_the_others_continue() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("c");
    // Steps so large that the weights overflow.
    let vary = "train.learning_rate=1e-3,1e38";
    let arguments = ["--vary", vary, "--set", "train.clip=0", "--steps", "200"];
    let output = compare(&out, &arguments).ended();
    fails_with(&output, 1, &["1 of 2 runs failed"]);
    let told = text(&output.stdout);
    assert!(told.contains("1e38 failed") && told.contains("learning_rate"), "{told}");
    let document = read_document(&out.join("compare.json"));
    assert_eq!((&document["runs"][0]["state"], &document["runs"][1]["state"]), (&"finished".into(), &"failed".into()));
}

#[test]
fn wrong_settings_are_refused_before_anything_is_trained() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("c");
    for (vary, wanted) in [
        ("model.positon=rope,alibi", "positon"),
        ("model.kind=transformer,lsmt", "lsmt"),
        ("model.n_heads=4,3", "n_heads"),
        ("model.kind=gru,lstm", "--set model.d_ff=16: model.kind=gru has no d_ff; model.kind=transformer has it"),
        ("model.kind", "key=a,b,c"),
        ("model.kind=gru,gru", "twice"),
        ("seed=1,2", "--seeds"),
    ] {
        fails_with(&compare(&out, &["--vary", vary]).ended(), 2, &[wanted]);
    }
    assert!(!out.exists());
    // If all runs fail, the command fails.
    let output = compare(&out, &["--vary", "train.learning_rate=1e38", "--set", "train.clip=0"]).ended();
    fails_with(&output, 1, &[]);
}
