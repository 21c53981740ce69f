//! Threads that share a batch make the same step: the number of threads reaches it through rounding at most, and the same
//! number gives the same bits.

use std::path::{Path, PathBuf};

use regard_tasks::train::{Event, Observer, Origin, Stop};
use regard_tasks::weights::{self, Tensors};
use regard_tasks::{Kind, Request};
use serde_json::Value;

/// Sums in another order differ by roundings of their terms. Terms of one gradient have about one size, so the error is
/// relative to the gradient's root mean square where an element is smaller. The largest of all tasks is 8e-6; parts that
/// were weighed wrongly would make it 1e-2 and more.
const TOLERANCE: f64 = 3e-5;

/// Hears the loss of the first step and asks for the end, so that no time goes into scores.
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

/// Settings that switch all dropout off: each part of a batch draws its own.
fn without_dropout(kind: &dyn Kind, sets: &[String]) -> Vec<String> {
    let request = Request { sets: sets.to_vec(), ..Request::default() };
    let Value::Object(sections) = kind.configured(&request).unwrap().config else { panic!("sections") };
    let keys = sections.iter().filter_map(|(name, section)| Some((name, section.as_object()?)));
    let dropouts =
        keys.flat_map(|(name, keys)| keys.keys().filter(|key| key.contains("dropout")).map(move |key| (name, key)));
    dropouts.map(|(section, key)| format!("{section}.{key}=0")).collect()
}

/// Sentences of unequal length and their translations: the built-in ones take long to read.
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

/// The weights after one step with a batch of ten on `threads` threads, and the loss of the batch.
fn stepped(kind: &dyn Kind, threads: usize, more: &[&str]) -> (Tensors, Vec<f32>) {
    // So large an ε and learning rate move each weight by a thousand times its gradient: the weights are the gradients, and
    // AdamW does not blow up what rounding leaves of a zero.
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
    sets.extend(without_dropout(kind, &sets));
    let folder = tempfile::tempdir().unwrap();
    let data = (kind.name() == "translate").then(|| pairs(folder.path()));
    let request = Request { sets, data, out: Some(folder.path().join("run")), ..Request::default() };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let stop = Stop::default();
    let mut first = FirstStep { stop: &stop, losses: Vec::new() };
    let ended = pool.install(|| kind.train(&request, Origin::Scratch, &mut first, &stop)).unwrap();
    assert_eq!(ended.step, 1);
    let bytes = std::fs::read(folder.path().join("run/model.safetensors")).unwrap();
    (weights::from_bytes(&bytes, Path::new("model")).unwrap(), first.losses)
}

/// Compares a step on one thread with the same on three. Returns whether they differ at all, by rounding.
fn check(kind: &dyn Kind, more: &[&str]) -> bool {
    let name = format!("{} {more:?}", kind.name());
    let (one, loss) = stepped(kind, 1, more);
    // Ten examples for three threads: 4, 4 and 2.
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

/// The next task in the registry is here without a word.
#[test]
fn a_shared_batch_makes_the_same_step_in_every_task() {
    let differ = regard_tasks::kinds().iter().filter(|kind| check(**kind, &[])).count();
    // Sums in another order: if no task had any, no batch would have been shared.
    assert!(differ > 0, "no batch was shared");
}

#[test]
fn a_shared_batch_makes_the_same_step_in_other_networks() {
    let tag = regard_tasks::kind("tag").unwrap();
    check(tag, &["model.kind=lstm"]);
    check(tag, &["tags.output=crf"]);
    let translate = regard_tasks::kind("translate").unwrap();
    check(translate, &["model.kind=gru"]);
    // A mean of rewards over the batch: the task keeps it whole.
    let hard = "model.selection={ kind = \"hard\", estimator = \"score_function\" }";
    let hard = ["model.kind=gru", hard];
    assert!(stepped(translate, 3, &hard) == stepped(translate, 3, &hard), "not the same bits again");
}
