//! Data, scores and settings of the translation task.

use burn::tensor::Device;

use super::*;
use crate::task::Validate;
use crate::task::testing::configured;

fn config(sets: &[&str]) -> Config {
    let small = ["model.d_model=8", "model.d_ff=8", "model.n_heads=2", "model.n_layers=1"];
    configured::<Translate>(&[&small, sets].concat()).unwrap()
}

/// A task with sentences of one to six words in each split.
fn task(sets: &[&str]) -> (Translate, Parts<Part>) {
    let place = tempfile::tempdir().unwrap();
    for (name, word) in [("train", "a"), ("dev", "b"), ("test", "c")] {
        let lines = (1..=6).map(|n| format!("{}\t{}\n", format!("{word} ").repeat(n), "x ".repeat(n)));
        std::fs::write(place.path().join(format!("{name}.tsv")), lines.collect::<String>()).unwrap();
    }
    let path = format!("data.path={}", place.path().display());
    let sets: Vec<&str> = sets.iter().copied().chain([path.as_str()]).collect();
    Translate::start(config(&sets)).unwrap()
}

#[test]
fn longer_sentences_than_trained_on_are_scored_apart() {
    let (task, parts) = task(&["data.longest=4", "data.max_length=5"]);
    let test = parts.test.unwrap();
    assert_eq!((parts.train.pairs.len(), test.pairs.len(), test.sentences.len()), (4, 5, 6));
    assert!(parts.notes.iter().any(|note| note.contains("1 pairs are longer than 4 tokens")), "{:?}", parts.notes);
    let model = task.model(&Init::new(1, &Device::flex())).unwrap();
    let found = task.evaluate(&test, &model, None, &Pass::inference()).unwrap().scores;
    assert!(["bleu_longer", "exact_longer", "loss", "exact"].iter().all(|name| found.contains_key(*name)));
    // The first sentence is short.
    let found = task.evaluate(&test, &model, Some(1), &Pass::inference()).unwrap().scores;
    assert!(!found.contains_key("exact_longer") && found.contains_key("exact"));
}

#[test]
fn an_empty_split_has_no_scores() {
    let (task, _) = task(&[]);
    let model = task.model(&Init::new(1, &Device::flex())).unwrap();
    let nothing = task.evaluate(&Part::default(), &model, None, &Pass::inference()).unwrap();
    assert!(nothing.scores.is_empty() && nothing.worth() == f64::NEG_INFINITY);
}

#[test]
fn data_settings_that_make_no_sense_are_refused() {
    for (set, field) in [
        ("data.longest=0", "data.longest"),
        ("data.longest=61", "data.longest"),
        ("data.fold=1/10", "data.fold"),
        ("decode.size=1025", "decode.size"),
    ] {
        let error = config(&[set]).validate().unwrap_err().to_string();
        assert!(error.contains(field), "{set}: {error}");
    }
}
