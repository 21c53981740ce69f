//! Threads that share a batch make the same step: the number of threads affects it only through rounding, and the same number
//! gives the same bits.

use std::path::{Path, PathBuf};

use regard_tasks::run::UnusedKeys;
use regard_tasks::train::{Event, Observer, Origin, Stop};
use regard_tasks::weights::{self, Tensors};
use regard_tasks::{Kind, Request};
use serde_json::Value;

/// Largest relative error. Sums in another order differ by rounding of their terms. The terms of one gradient have about the same
/// size, so the error is relative to the gradient's root mean square if an element is smaller. The largest error of all tasks is
/// 8e-6; wrongly weighted parts would make it 1e-2 or more.
const TOLERANCE: f64 = 3e-5;

/// Observer that records the loss of the first step and then stops the run, so that no time goes into scoring.
struct FirstStep<'a> {
    stop: &'a Stop,
    losses: Vec<f32>,
}

impl Observer for FirstStep<'_> {
    fn hear(&mut self, event: &Event) {
        if let Event::Step { loss, .. } = event {
            self.losses.push(*loss);
            self.stop.ask();
        }
    }
}

/// Returns settings that switch dropout and random changes of examples off, because each part of a batch would draw its own.
fn without_chance(kind: &dyn Kind, sets: &[String]) -> Vec<String> {
    let request = Request { sets: sets.to_vec(), unused: UnusedKeys::Dropped, ..Request::default() };
    let Value::Object(sections) = kind.configured(&request).unwrap().config else { panic!("sections") };
    let keys = sections.iter().filter_map(|(name, section)| Some((name, section.as_object()?)));
    let chances = keys.flat_map(|(name, keys)| {
        let is_random = |key: &&String| key.contains("dropout") || ["shift", "noise"].contains(&key.as_str());
        let own = keys.keys().filter(is_random).cloned();
        let changes = keys.get("augment").and_then(Value::as_object);
        let changes = changes.into_iter().flat_map(|changes| changes.keys().map(|key| format!("augment.{key}")));
        own.chain(changes).map(move |key| format!("{name}.{key}=0"))
    });
    chances.collect()
}

/// Writes sentences of different lengths with translations; the built-in ones take long to read.
fn pairs(place: &Path) -> PathBuf {
    let words = [("one", "un"), ("two", "deux"), ("three", "trois"), ("four", "quatre"), ("five", "cinq")];
    let side = |n: usize, pick: fn(&(&'static str, &'static str)) -> &'static str| {
        let word = |at: usize| pick(&words[(n / 5usize.pow(at as u32)) % 5]);
        (0..1 + n % 4).map(word).collect::<Vec<_>>().join(" ")
    };
    let text: String = (0..600).map(|n| format!("{}\t{}\n", side(n, |word| word.0), side(n, |word| word.1))).collect();
    let file = place.join("pairs.tsv");
    std::fs::write(&file, text).unwrap();
    file
}

/// Returns the weights after one step with a batch of ten on `threads` threads, and the loss of the batch.
fn stepped(kind: &dyn Kind, threads: usize, more: &[&str]) -> (Tensors, Vec<f32>) {
    // With such a large ε and learning rate, each weight moves by a thousand times its gradient. So the weights show the
    // gradients, and AdamW does not amplify the rounding error of a zero gradient.
    let sets = [
        "train.epsilon=1e3",
        "train.learning_rate=1e6",
        "train.schedule=constant",
        "train.warmup=0",
        "train.weight_decay=0",
        "train.clip=0",
        "train.batch_examples=10",
        "train.steps=2",
        "train.keep=last",
        "model.d_model=32",
    ];
    let mut sets: Vec<String> = sets.iter().chain(more).map(|set| set.to_string()).collect();
    sets.extend(without_chance(kind, &sets));
    let folder = tempfile::tempdir().unwrap();
    let data = (kind.name() == "translate").then(|| pairs(folder.path()));
    // Not every network has `d_model`.
    let unused = UnusedKeys::Dropped;
    let request = Request { sets, data, out: Some(folder.path().join("run")), unused, ..Request::default() };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let stop = Stop::default();
    let mut first = FirstStep { stop: &stop, losses: Vec::new() };
    let ended = pool.install(|| kind.train(&request, Origin::Scratch, &mut first, &stop)).unwrap();
    assert_eq!(ended.step, 1);
    let bytes = std::fs::read(folder.path().join("run/model.safetensors")).unwrap();
    (weights::from_bytes(&bytes, Path::new("model")).unwrap(), first.losses)
}

/// Compares a step on one thread with the same step on three. Returns whether they differ at all, by rounding.
fn check(kind: &dyn Kind, more: &[&str]) -> bool {
    let name = format!("{} {more:?}", kind.name());
    let (one, loss) = stepped(kind, 1, more);
    // Three threads get 4, 4 and 2 of the ten examples.
    let (three, shared_loss) = stepped(kind, 3, more);
    let again = stepped(kind, 3, more);
    assert!((&three, &shared_loss) == (&again.0, &again.1), "{name}: not the same bits again");
    assert_eq!((loss.len(), shared_loss.len()), (1, 1), "{name}");
    assert!((loss[0] - shared_loss[0]).abs() <= TOLERANCE as f32 * loss[0].abs(), "{name}: {loss:?} {shared_loss:?}");
    assert_eq!(one.keys().collect::<Vec<_>>(), three.keys().collect::<Vec<_>>(), "{name}");
    let mut worst = (0.0, String::new());
    for ((path, (_, one)), (_, three)) in one.iter().zip(three.values()) {
        let square = one.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / one.len().max(1) as f64;
        for (&a, &b) in one.iter().zip(three) {
            let (a, b) = (f64::from(a), f64::from(b));
            let error = if a == b { 0.0 } else { (a - b).abs() / a.abs().max(square.sqrt()) };
            if error.is_nan() || error > worst.0 {
                worst = (error, format!("{path}: {a} alone, {b} shared"));
            }
        }
    }
    println!("{name}: largest relative error {:e} in {}", worst.0, worst.1);
    assert!(worst.0 <= TOLERANCE && !one.is_empty(), "{name}: relative error {:e}: {}", worst.0, worst.1);
    worst.0 > 0.0
}

/// Covers every task in the registry, including future ones.
#[test]
fn a_shared_batch_makes_the_same_step_in_every_task() {
    let differ = regard_tasks::kinds().iter().filter(|kind| check(**kind, &[])).count();
    // If no sum were in another order, no batch would have been shared.
    assert!(differ > 0, "no batch was shared");
}

#[test]
fn a_shared_batch_makes_the_same_step_in_other_networks() {
    let tag = regard_tasks::kind("tag").unwrap();
    check(tag, &["model.kind=lstm"]);
    check(tag, &["tags.output=crf"]);
    let translate = regard_tasks::kind("translate").unwrap();
    check(translate, &["model.kind=gru"]);
    // The baseline of rewards depends on the whole batch, so the batch is not divided.
    let image = regard_tasks::kind("image").unwrap();
    check(image, &["model.kind=attention_cnn", "model.channels=[8,16]"]);
    check(image, &["model.kind=dnn", "model.hidden=[16]"]);
    // More neighbours than there are, so that none is drawn by chance.
    let graph = regard_tasks::kind("graph").unwrap();
    check(graph, &["data.papers=200", "data.neighbours=[999, 999]"]);
    let hard = "model.selection={ kind = \"hard\", estimator = \"score_function\" }";
    let hard = ["model.kind=gru", hard];
    assert!(stepped(translate, 3, &hard) == stepped(translate, 3, &hard), "not the same bits again");
}
