//! Processes that share a batch make the same step, bit for bit, as one process with as many threads. The ranks are simulated by
//! threads here; `ranks.rs` of the binary has those of MPI.

use std::fs;
use std::path::Path;

use regard_system::{Ranks, simulated};
use regard_tasks::run::UnusedKeys;
use regard_tasks::train::{Event, Observer, Origin, Stop};
use regard_tasks::{Finished, Kind, Request, TaskError};
use serde_json::Value;

/// Settings with dropout, several batches of a step and best weights beside the last.
const SETTINGS: [&str; 8] = [
    "model.d_model=16",
    "train.accumulate=2",
    "train.batch_examples=7",
    "train.evaluate_every=4",
    "train.evaluate_examples=4",
    "train.checkpoint_every=4",
    "train.keep=best",
    "train.steps=6",
];

/// Returns additional settings that keep the data of a task small.
fn more(task: &str) -> &'static [&'static str] {
    match task {
        "compose" => &["data.size=6", "data.test=20", "data.dev=20", "model.dropout=0.1"],
        "image" => &["data.limit=200", "model.dropout=0.1"],
        "translate" => &["model.dropout=0.1"],
        "graph" => &["data.papers=200", "data.neighbours=[4, 2]"],
        _ => &[],
    }
}

fn pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

/// Writes sentences of different lengths with translations; the built-in ones take long to score.
fn write_pairs(place: &Path) {
    let words = [("one", "un"), ("two", "deux"), ("three", "trois"), ("four", "quatre"), ("five", "cinq")];
    let side = |n: usize, pick: fn(&(&'static str, &'static str)) -> &'static str| {
        let word = |at: usize| pick(&words[(n / 5usize.pow(at as u32)) % 5]);
        (0..1 + n % 4).map(word).collect::<Vec<_>>().join(" ")
    };
    let text: String = (0..200).map(|n| format!("{}\t{}\n", side(n, |word| word.0), side(n, |word| word.1))).collect();
    fs::write(place.join("pairs.tsv"), text).unwrap();
}

fn request(kind: &dyn Kind, place: &Path, out: &str, sets: &[&str]) -> Request {
    let sets = SETTINGS.iter().chain(more(kind.name())).chain(sets).map(|set| set.to_string()).collect();
    let data = (kind.name() == "translate").then(|| place.join("pairs.tsv"));
    Request { sets, data, out: Some(place.join(out)), unused: UnusedKeys::Dropped, ..Request::default() }
}

/// Observer that asks the run to stop after a step.
struct StopAfter<'a>(u64, &'a Stop);

impl Observer for StopAfter<'_> {
    fn hear(&mut self, event: &Event) {
        if matches!(event, Event::Step { step, .. } if *step == self.0) {
            self.1.ask();
        }
    }
}

/// Trains on `size` ranks with `threads` threads each and returns the outcome of each rank.
fn train(
    kind: &dyn Kind,
    [size, threads]: [usize; 2],
    from: Origin,
    request: impl Fn(Ranks) -> Request + Sync,
    stop_after: u64,
) -> Vec<Result<Finished, TaskError>> {
    simulated::ranks(size, |ranks| {
        let stop = Stop::default();
        let request = request(ranks);
        pool(threads).install(|| kind.train(&request, from, &mut StopAfter(stop_after, &stop), &stop))
    })
}

/// Returns the weights of a folder, and its metrics without times.
fn left(folder: &Path) -> (Vec<u8>, Vec<Value>) {
    let metrics = fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().remove("seconds");
        line
    };
    (fs::read(folder.join("model.safetensors")).unwrap(), metrics.lines().map(line).collect())
}

/// Compares runs of as many parts, divided in several ways.
fn check(kind: &dyn Kind, sets: &[&str], divisions: &[[usize; 2]]) {
    let place = tempfile::tempdir().unwrap();
    write_pairs(place.path());
    let mut known = None;
    for &[size, threads] in divisions {
        let out = format!("{size}x{threads}");
        let make = |ranks| Request { ranks, ..request(kind, place.path(), &out, sets) };
        for (rank, finished) in train(kind, [size, threads], Origin::Scratch, make, 0).into_iter().enumerate() {
            let finished = finished.unwrap_or_else(|error| panic!("{} on rank {rank} of {out}: {error}", kind.name()));
            assert!(finished.finished && finished.step == 6 && finished.folder.ends_with(&out), "{finished:?}");
        }
        let left = left(&place.path().join(&out));
        let known = known.get_or_insert_with(|| left.clone());
        assert!(*known == left, "{} {sets:?}: {out} differs from {:?}", kind.name(), divisions[0]);
    }
}

/// Covers every task in the registry, including future ones.
#[test]
fn two_ranks_are_two_threads_in_every_task() {
    for kind in regard_tasks::kinds() {
        check(*kind, &[], &[[1, 2], [2, 1]]);
    }
}

#[test]
fn ranks_and_threads_divide_a_batch_alike() {
    let compose = regard_tasks::kind("compose").unwrap();
    check(compose, &[], &[[1, 3], [3, 1]]);
    check(compose, &[], &[[1, 4], [4, 1], [2, 2]]);
    // More parts than examples.
    check(compose, &["train.batch_examples=2"], &[[1, 6], [6, 1], [3, 2], [2, 3]]);
    check(compose, &["train.batch_examples=1"], &[[1, 2], [2, 1]]);
    let translate = regard_tasks::kind("translate").unwrap();
    check(translate, &["model.kind=gru"], &[[1, 2], [2, 1]]);
}

#[test]
fn a_batch_that_cannot_be_divided_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let kind = regard_tasks::kind("graph").unwrap();
    let make = |ranks| Request { ranks, ..request(kind, place.path(), "run", &["data.neighbours=[]"]) };
    for refused in train(kind, [2, 1], Origin::Scratch, make, 0) {
        let error = refused.unwrap_err();
        assert!(error.is_wrong_use() && error.to_string().contains("one process"), "{error}");
    }
    assert!(!place.path().join("run").exists());
}

#[test]
fn a_run_resumes_with_as_many_parts() {
    let place = tempfile::tempdir().unwrap();
    let kind = regard_tasks::kind("compose").unwrap();
    let begin = |out: &'static str| {
        let place = place.path();
        move |ranks| Request { ranks, ..request(kind, place, out, &[]) }
    };
    let whole = train(kind, [2, 1], Origin::Scratch, begin("whole"), 0);
    assert!(whole.iter().all(|finished| finished.as_ref().unwrap().finished));
    // Rank 0 alone hears of the steps, so it alone is asked to stop.
    for stopped in train(kind, [2, 1], Origin::Scratch, begin("run"), 3) {
        let stopped = stopped.unwrap();
        assert!(!stopped.finished && stopped.step == 3, "{stopped:?}");
    }
    let out = place.path().join("run");
    let resume = |ranks| Request { out: Some(out.clone()), ranks, ..Request::default() };
    for refused in train(kind, [3, 1], Origin::Checkpoint, resume, 0) {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("2 × 1 threads") && error.contains("--force"), "{error}");
    }
    for stopped in train(kind, [2, 1], Origin::Checkpoint, resume, 5) {
        assert_eq!(stopped.unwrap().step, 5);
    }
    for finished in train(kind, [1, 2], Origin::Checkpoint, resume, 0) {
        assert!(finished.unwrap().finished);
    }
    assert!(left(&out) == left(&place.path().join("whole")));
}

#[test]
fn all_ranks_end_with_the_one_that_fails() {
    let place = tempfile::tempdir().unwrap();
    let kind = regard_tasks::kind("compose").unwrap();
    // A rank with a file that others do not have, and one with other data.
    for (seed, set, words) in [(1, "data.size=0", "data.size"), (2, "train.clip=0.77", "the same on all ranks")] {
        let make = |ranks: Ranks| {
            let sets: &[&str] = if ranks.rank() == 1 { &[set] } else { &[] };
            let out = format!("run-{seed}");
            Request { seed: Some(seed), ..Request { ranks, ..request(kind, place.path(), &out, sets) } }
        };
        for (rank, failed) in train(kind, [3, 1], Origin::Scratch, make, 0).into_iter().enumerate() {
            let error = failed.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
            assert!(seed == 2 || (rank == 1) != error.contains("rank 1"), "{error}");
        }
    }
}
