//! Training with several processes over MPI: as many ranks as threads give the same bits, and none is left waiting.
//!
//! The tests need `mpirun` and a binary with the feature `mpi`: the one in `REGARD_MPI_BINARY`, or `target/release/regard-mpi`,
//! which `.ci/run` makes where MPI is installed. Without them they say why they are skipped.

mod binary;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use binary::kill::{Left, newest_checkpoint};
use binary::{
    Ended, command, done, end_of, fails_with, pairs, path, read_document, regard, sets, text, wait_until, write,
};
use serde_json::Value;

/// Time in which all processes end after one has died or was asked to stop.
const SOON: Duration = Duration::from_secs(20);

/// Settings with dropout and several batches of a step.
const SETTINGS: [&str; 9] = [
    "model.d_model=16",
    "model.dropout=0.1",
    "train.accumulate=2",
    "train.batch_examples=8",
    "train.batch_tokens=256",
    "train.evaluate_every=20",
    "train.checkpoint_every=10",
    "train.keep=best",
    "train.steps=60",
];

/// Returns the binary with MPI, or prints why there is none to test.
fn with_mpi() -> Option<PathBuf> {
    let is_given = std::env::var_os("REGARD_MPI_BINARY");
    let plain = Path::new(env!("CARGO_BIN_EXE_regard"));
    let binary = is_given.clone().map_or_else(|| plain.with_file_name("regard-mpi"), PathBuf::from);
    let changed = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    let problem = if !binary.is_file() {
        Some("no binary with the feature mpi")
    } else if is_given.is_none() && changed(&binary) < changed(plain) {
        Some("the binary with the feature mpi is older than that without")
    } else if !Command::new("mpirun").arg("--version").output().is_ok_and(|output| output.status.success()) {
        Some("no mpirun")
    } else {
        None
    };
    let Some(problem) = problem else { return Some(binary) };
    assert!(is_given.is_none(), "REGARD_MPI_BINARY={}: {problem}", binary.display());
    println!(
        "skipped: {problem}; cargo build --release --features mpi && cp target/release/regard target/release/regard-mpi"
    );
    None
}

/// Returns a command that starts groups of processes, each with its number of ranks and its arguments.
fn mpirun(binary: &Path, groups: &[(usize, &[&str])]) -> Command {
    println!("mpirun {groups:?}");
    let mut command = Command::new("mpirun");
    // Tests run on few cores, and in containers as root.
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    command.env("OMPI_MCA_hwloc_base_binding_policy", "none").env("PRTE_MCA_hwloc_default_binding_policy", "none");
    for (at, (ranks, arguments)) in groups.iter().enumerate() {
        if at > 0 {
            command.arg(":");
        }
        command.args(["-n", &ranks.to_string()]).arg(binary).args(*arguments);
    }
    command
}

/// Returns the arguments of a new run.
fn arguments<'a>(task: &'a str, threads: &'a str, out: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    [&["train", task, "--threads", threads, "--out", path(out)], more].concat()
}

/// Starts a command with its output captured.
fn spawned(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn ranks_give_the_bits_of_threads() {
    let Some(binary) = with_mpi() else { return };
    let place = tempfile::tempdir().unwrap();
    let data = pairs(place.path());
    let compose = ["data.size=6", "data.test=50", "data.dev=20"];
    let compose = sets(&[&SETTINGS[..], &compose].concat());
    let translate = [&sets(&SETTINGS)[..], &["--data", &data]].concat();
    let tasks =
        [("translate", translate, &[(2, 1), (3, 1), (4, 1), (2, 2)][..]), ("compose", compose, &[(2, 1), (3, 2)])];
    for (task, settings, divisions) in tasks {
        for &(ranks, threads) in divisions {
            let all = (ranks * threads).to_string();
            let alone = place.path().join(format!("{task}-{all}"));
            if !alone.exists() {
                done(&regard(&arguments(task, &all, &alone, &settings)));
            }
            let out = place.path().join(format!("{task}-{ranks}x{threads}"));
            let threads = threads.to_string();
            let output = mpirun(&binary, &[(ranks, &arguments(task, &threads, &out, &settings))]).ended();
            let said = done(&output);
            // Rank 0 alone talks.
            assert_eq!(said.matches("wrote").count(), 1, "{said}");
            // `threads` or `thread`.
            let opening = format!("{ranks} processes of {threads} thread");
            assert_eq!(text(&output.stderr).matches(&opening).count(), 1, "{}", text(&output.stderr));
            Left::new(&out).expect(&Left::new(&alone), &format!("{task} on {ranks} ranks"));
        }
    }
}

/// Returns the process of a rank that `mpirun` has started.
fn rank_of(mpirun: &Child, rank: usize) -> Option<u32> {
    let id = mpirun.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
    let is_it = |id: &u32| {
        let variables = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        let names = ["OMPI_COMM_WORLD_RANK", "PMI_RANK"].map(|name| format!("{name}={rank}"));
        variables.split(|byte| *byte == 0).any(|one| names.iter().any(|name| one == name.as_bytes()))
    };
    children.split_whitespace().filter_map(|id| id.parse().ok()).find(is_it)
}

/// Runs with several ranks until there is a checkpoint, then disturbs it, and returns what was said before all had ended.
fn disturbed(binary: &Path, out: &Path, settings: &[&str], disturb: impl Fn(&Child)) -> Output {
    let before = newest_checkpoint(out);
    let child = match out.join("config.json").exists() {
        true => spawned(&mut mpirun(binary, &[(2, &arguments("compose", "1", out, &["--resume"]))])),
        false => spawned(&mut mpirun(binary, &[(2, &arguments("compose", "1", out, settings))])),
    };
    wait_until("new checkpoint", || newest_checkpoint(out) > before);
    disturb(&child);
    let start = Instant::now();
    let output = end_of(child);
    assert!(start.elapsed() < SOON, "it ended after {:?}", start.elapsed());
    assert!(!output.status.success(), "{}", text(&output.stdout));
    output
}

fn signal(name: &str, process: u32) {
    assert!(Command::new("kill").args([name, &process.to_string()]).status().unwrap().success());
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_survives_the_death_of_a_rank() {
    let Some(binary) = with_mpi() else { return };
    let place = tempfile::tempdir().unwrap();
    let more = ["data.size=6", "data.test=50", "data.dev=20", "train.steps=1500", "train.evaluate_every=500"];
    let mut settings: Vec<&str> =
        SETTINGS.into_iter().filter(|one| !one.contains("steps") && !one.contains("evaluate")).collect();
    settings.extend(more);
    let settings = sets(&settings);
    let (whole, out) = (place.path().join("whole"), place.path().join("run"));
    done(&mpirun(&binary, &[(2, &arguments("compose", "1", &whole, &settings))]).ended());
    for rank in [1, 0] {
        disturbed(&binary, &out, &settings, |child| signal("-KILL", rank_of(child, rank).expect("a rank")));
    }
    // Ctrl-C reaches `mpirun`, which asks all ranks to stop; a signal may also reach a single rank.
    disturbed(&binary, &out, &settings, |child| signal("-INT", child.id()));
    let output = disturbed(&binary, &out, &settings, |child| signal("-TERM", rank_of(child, 1).expect("a rank")));
    assert_eq!(text(&output.stdout).matches("stopped after step").count(), 1, "{}", text(&output.stdout));
    done(&mpirun(&binary, &[(2, &arguments("compose", "1", &out, &["--resume"]))]).ended());
    Left::new(&out).expect(&Left::new(&whole), "after kills");
}

#[test]
fn a_failing_rank_ends_all_with_its_message() {
    let Some(binary) = with_mpi() else { return };
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("run");
    let good = arguments("compose", "1", &out, &[]);
    let says_once = |other: &[&str], words: &[&str]| {
        let start = Instant::now();
        let output = mpirun(&binary, &[(1, &good), (2, other)]).ended();
        assert!(!output.status.success() && start.elapsed() < SOON, "{:?}", start.elapsed());
        let said = text(&output.stderr);
        assert_eq!(said.matches("error: ").count(), 1, "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        assert!(!said.contains("panicked"), "{said}");
        assert!(!out.exists(), "nothing is written for a run that cannot begin");
    };
    let other = |more| arguments("compose", "1", &out, more);
    says_once(&other(&["--set", "model.n_heads=3"]), &["rank 1", "n_heads"]);
    says_once(&other(&["--seed", "9"]), &["hash of the configuration", "the same on all ranks", "rank 1"]);
    says_once(&arguments("compose", "2", &out, &[]), &["--threads", "1 as on rank 0", "2 on rank 1"]);
    // The batch of a graph is the whole graph.
    let graph = arguments("graph", "1", &out, &["--set", "data.papers=200"]);
    let output = mpirun(&binary, &[(2, &graph)]).ended();
    fails_with(&output, 2, &["graph cannot share", "one process"]);
}

#[test]
fn ranks_share_out_the_runs_of_a_comparison_and_of_a_sweep() {
    let Some(binary) = with_mpi() else { return };
    let place = tempfile::tempdir().unwrap();
    let small = sets(&["data.size=6", "data.test=50", "data.dev=20", "model.d_model=16"]);
    let compare = |out: &Path| {
        let vary = ["--vary", "model.dropout=0,0.1,0.2", "--steps", "20", "--json", "--out"].map(str::to_string);
        let small = small.iter().map(|one| one.to_string());
        let out = path(out).to_string();
        ["compare", "compose", "--threads", "1"]
            .map(str::to_string)
            .into_iter()
            .chain(small)
            .chain(vary)
            .chain([out])
            .collect()
    };
    let scores = |folder: &Path| -> Vec<Value> {
        let document = read_document(&folder.join("compare.json"));
        assert_eq!(document["finished"], true);
        document["runs"].as_array().unwrap().iter().map(|run| run["metrics"].clone()).collect()
    };
    let run = |command: &mut Command| done(&command.ended());
    let (alone, shared) = (place.path().join("alone"), place.path().join("shared"));
    let arguments: Vec<String> = compare(&alone);
    done(&regard(&arguments.iter().map(String::as_str).collect::<Vec<_>>()));
    let arguments: Vec<String> = compare(&shared);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let printed = run(&mut mpirun(&binary, &[(2, &arguments)]));
    assert_eq!(printed.lines().count(), 1, "{printed}");
    assert!(scores(&shared) == scores(&alone) && shared.join("compare.html").is_file());

    let journal = |name: &str| path(&place.path().join(name)).to_string();
    let sweep = |journal: &str| -> Vec<String> {
        let flags = "icl sweep --threads 1 --d 3 --n 8 --p 50,100,200 --repeats 3 --tests 50 --json --journal";
        flags.split(' ').map(str::to_string).chain([journal.to_string()]).collect()
    };
    let as_texts = |all: &[String]| -> Vec<String> { all.to_vec() };
    let (mine, ours) = (sweep(&journal("alone.jsonl")), sweep(&journal("shared.jsonl")));
    let expected = done(&regard(&as_texts(&mine).iter().map(String::as_str).collect::<Vec<_>>()));
    let ours: Vec<&str> = ours.iter().map(String::as_str).collect();
    // The second call finds all runs in the journal.
    for _ in 0..2 {
        assert_eq!(run(&mut mpirun(&binary, &[(3, &ours)])), expected);
    }
    let lines = |name: &str| {
        let text = fs::read_to_string(place.path().join(name)).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines("shared.jsonl"), lines("alone.jsonl"));
}

/// Processes that do not know of each other would train the same model several times.
#[test]
fn a_binary_without_mpi_refuses_to_be_one_of_many() {
    let place = tempfile::tempdir().unwrap();
    write(place.path(), "empty", "");
    for name in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"] {
        for arguments in
            [&["train", "compose"][..], &["compare", "compose", "--vary", "model.d_model=8,16"], &["icl", "sweep"]]
        {
            let output = command(arguments).current_dir(place.path()).env(name, "2").ended();
            fails_with(&output, 2, &["built without MPI", "--features mpi"]);
        }
    }
    assert!(!place.path().join("runs").exists());
}
