//! Tests that go through the rules of all tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::{Asked, Choice, Facts};
use crate::settings::{Resolved, resolve_loosely};
use crate::task::{Settings, Task, Validate};

/// Facts about `examples` examples of everything, with labels like `label-3`.
fn facts(examples: usize, labels: usize) -> Facts {
    let words = 12 * examples;
    // Distinct words grow as the root of all words, as Heaps found.
    let distinct = (20.0 * (words as f64).sqrt()) as usize;
    Facts {
        examples,
        dev: examples / 20,
        words,
        characters: 6 * words,
        distinct: distinct.min(words),
        once: distinct.min(words) / 2,
        answer_words: words,
        answer_characters: 6 * words,
        is_spaced: true,
        vectors: 40 * examples,
        placed: Some(0.1),
        sized: Some(0.1),
        pixels: 28 * 28,
        seconds: 2.0 * examples as f64,
        nodes: 3 * examples,
        edges: 9 * examples,
        labels: (0..labels).map(|label| (format!("label-{label}"), examples.div_ceil(labels))).collect(),
    }
}

fn choice<T: Task>(facts: &Facts, sets: &[&str]) -> (Resolved<T::Config>, Choice) {
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    let resolved = |choice: &Choice| -> Resolved<T::Config> {
        resolve_loosely(T::CONFIG, choice, None, &sets, &[])
            .unwrap_or_else(|error| panic!("{} {sets:?}: {error}", T::NAME))
    };
    let plain = resolved(&Choice::default());
    let choice = T::choose(facts, &Asked::new(&plain.config, &plain.given)).expect("the task chooses");
    let found = resolved(&choice);
    let checked = found.config.train().validate().map_err(Into::into).and_then(|()| found.config.validate());
    checked.unwrap_or_else(|error| panic!("{} {sets:?} {:?}: {error}", T::NAME, found.chosen));
    (found, choice)
}

fn json<C: serde::Serialize>(config: &C) -> Value {
    serde_json::to_value(config).unwrap()
}

/// Checks the rules of a task, with each of its kinds of networks set by hand, from 1 example to 100 million.
fn check<T: Task>(kinds: &[&str]) {
    let sizes: Vec<usize> = (0..=32).map(|power| 10f64.powf(f64::from(power) / 4.0) as usize).collect();
    let mut before: Option<Value> = None;
    for &size in &sizes {
        let (found, choice) = choice::<T>(&facts(size, 5), &[]);
        assert_eq!(choice.0.len(), 3, "{}: three lines", T::NAME);
        assert_eq!(found.chosen.len(), 3);
        assert!(found.unused.is_empty());
        let config = json(&found.config);
        let train = &config["train"];
        let steps = train["steps"].as_u64().expect("steps are chosen");
        assert!((1..=1_000_000).contains(&steps), "{} {size}: {steps} steps", T::NAME);
        assert!(train["epochs"].is_null());
        assert!(train["warmup"].as_u64().unwrap() <= steps && train["evaluate_every"].as_u64().unwrap() <= steps);
        // Smooth: with 1.8 times the examples no width doubles.
        let width = |config: &Value| config["model"]["d_model"].as_u64().unwrap_or(1);
        if let Some(before) = &before {
            let (old, new) = (width(before), width(&config));
            assert!(new >= old && new <= 2 * old, "{} {size}: d_model from {old} to {new}", T::NAME);
        }
        before = Some(config);
        for kind in kinds {
            let set = format!("model.kind={kind}");
            let (found, _) = self::choice::<T>(&facts(size, 5), &[&set]);
            assert_eq!(json(&found.config)["model"]["kind"], *kind, "{}", T::NAME);
            assert!(!found.chosen.join(" ").contains("model.kind="), "{:?}", found.chosen);
        }
    }
    for size in sizes {
        let (passes, minutes) = length(&self::choice::<T>(&facts(size, 5), &[]).0.chosen);
        assert!(passes > 0.0 && minutes <= 5.0, "{} {size}: {passes} passes, {minutes} minutes", T::NAME);
    }
    // With the end set by hand, evaluations follow it.
    let (found, _) = self::choice::<T>(&facts(1_000, 5), &["train.steps=40"]);
    let train = json(&found.config)["train"].clone();
    assert_eq!((&train["steps"], &train["epochs"]), (&40.into(), &Value::Null));
    assert!(train["evaluate_every"].as_u64().unwrap() <= 40);
    let (found, _) = self::choice::<T>(&facts(1_000, 5), &["train.epochs=3"]);
    let train = json(&found.config)["train"].clone();
    assert_eq!((&train["steps"], &train["epochs"]), (&Value::Null, &3.into()));
}

/// Returns the passes and the minutes of the third line of a choice: `45 passes, about 4 minutes on two cores: …`.
fn length(lines: &[String]) -> (f64, f64) {
    let line = lines.last().unwrap().strip_prefix("auto: ").unwrap();
    let passes = line.split(' ').next().unwrap().parse().unwrap();
    let minutes = line.split("about ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    (passes, minutes.unwrap_or(1.0))
}

/// Checks the choice for 200, ten thousand and a million examples: the fewer there are, the more often and the more carefully
/// they are seen; with many a run still ends in time, after steps enough to learn something.
fn check_sizes<T: Task>() {
    let answers = [200, 10_000, 1_000_000].map(|size| {
        let found = choice::<T>(&facts(size, 5), &[]).0;
        let (passes, minutes) = length(&found.chosen);
        (json(&found.config), passes, minutes)
    });
    let [few, some, many] = &answers;
    assert!(few.1 >= 10.0 && few.2 <= 3.0, "{}: {} passes, {} minutes", T::NAME, few.1, few.2);
    assert!(few.1 >= some.1 && some.1 >= many.1, "{}: passes {} {} {}", T::NAME, few.1, some.1, many.1);
    let number = |config: &Value, key: &str| key.split('.').fold(config, |value, part| &value[part]).as_f64();
    for (key, grows) in [
        ("model.dropout", false),
        ("model.word_dropout", false),
        ("model.d_model", true),
        ("data.tokenizer.vocab", true),
        ("train.batch_tokens", true),
        ("train.batch_examples", true),
    ] {
        for (less, more) in [(few, some), (some, many)] {
            let (Some(less), Some(more)) = (number(&less.0, key), number(&more.0, key)) else { continue };
            assert!(if grows { less <= more } else { less >= more }, "{}: {key} from {less} to {more}", T::NAME);
        }
    }
    for (config, _, minutes) in &answers {
        let steps = number(config, "train.steps").unwrap();
        assert!(steps >= 100.0 && *minutes <= 5.0, "{}: {steps} steps, {minutes} minutes", T::NAME);
        assert_eq!(number(config, "train.evaluate_every"), Some((steps / 20.0).floor().max(1.0)), "{}", T::NAME);
    }
    // A million examples have a dev split that is not scored as a whole each time.
    assert!(number(&many.0, "train.evaluate_examples").unwrap() <= 2_000.0, "{}", T::NAME);
}

#[test]
fn few_and_many_examples_get_a_sensible_answer() {
    check_sizes::<crate::translate::Translate>();
    check_sizes::<crate::tag::Tag>();
    check_sizes::<crate::classify::Classify>();
    check_sizes::<crate::generate::Generate>();
    check_sizes::<crate::pretrain::Pretrain>();
    check_sizes::<crate::words::Words>();
    check_sizes::<crate::vectors::VectorTask>();
    check_sizes::<crate::image::Images>();
    check_sizes::<crate::speech::Speech>();
}

#[test]
fn every_size_gives_a_valid_choice() {
    let all = ["transformer", "rnn", "lstm", "gru"];
    check::<crate::translate::Translate>(&all);
    check::<crate::tag::Tag>(&[&all[..], &["intra"]].concat());
    check::<crate::classify::Classify>(&[&all[..], &["bag"]].concat());
    check::<crate::generate::Generate>(&all);
    check::<crate::pretrain::Pretrain>(&["transformer"]);
    check::<crate::words::Words>(&["skip_gram", "cbow"]);
    check::<crate::vectors::VectorTask>(&[&all[..], &["dnn"]].concat());
    check::<crate::image::Images>(&["vit", "cnn", "attention_cnn", "dnn"]);
    check::<crate::speech::Speech>(&[&all[..], &["dnn"]].concat());
    check::<crate::graph::Nodes>(&["gat", "gcn", "dnn"]);
}

#[test]
fn keys_set_by_hand_win_and_keep_their_company() {
    let with = |sets: &[&str]| json(&choice::<crate::tag::Tag>(&facts(5_000, 5), sets).0.config);
    let free = with(&[]);
    assert_eq!(free["model"]["kind"], "lstm");
    let config = with(&["model.d_model=40", "words.d_word=7"]);
    assert_eq!((&config["model"]["d_model"], &config["words"]["d_word"]), (&40.into(), &7.into()));
    assert_eq!(config["model"]["dropout"], free["model"]["dropout"], "other keys are still chosen");
    // A key that only a Transformer has keeps the Transformer, and the chosen width suits its heads.
    let config = with(&["model.n_heads=3"]);
    assert_eq!(config["model"]["kind"], "transformer");
    assert_eq!(config["model"]["d_model"].as_u64().unwrap() % 3, 0);
    // A part of a table that is chosen as a whole keeps the default table.
    let config = with(&["words.characters.filters=9"]);
    assert_eq!(config["words"]["characters"]["filters"], 9);
    // A tokeniser is chosen key by key.
    let config = json(&choice::<crate::translate::Translate>(&facts(5_000, 0), &["data.tokenizer.vocab=333"]).0.config);
    assert_eq!(
        (&config["data"]["tokenizer"]["vocab"], &config["data"]["tokenizer"]["kind"]),
        (&333.into(), &"bpe".into())
    );
}

#[test]
fn spans_are_tagged_with_a_crf() {
    let spans = Facts {
        labels: ["O", "B-City", "I-City"].map(|tag| (tag.to_string(), 100)).into_iter().collect::<BTreeMap<_, _>>(),
        ..facts(2_000, 1)
    };
    let with = |sets: &[&str]| json(&choice::<crate::tag::Tag>(&spans, sets).0.config);
    let config = with(&[]);
    assert_eq!((&config["tags"]["output"], &config["train"]["label_smoothing"]), (&"crf".into(), &0.0.into()));
    // Label smoothing set by hand rules a CRF out.
    let config = with(&["train.label_smoothing=0.2"]);
    assert_eq!(config["tags"]["output"], "softmax");
    // A CRF set by hand rules label smoothing out.
    let (found, _) = choice::<crate::tag::Tag>(&facts(2_000, 5), &["tags.output=crf"]);
    assert_eq!(json(&found.config)["train"]["label_smoothing"], 0.0);
}

#[test]
fn numbers_get_no_label_smoothing() {
    let numbers = facts(2_000, 0);
    let config = json(
        &choice::<crate::classify::Classify>(
            &Facts { labels: BTreeMap::new(), ..numbers.clone() },
            &["data.target=value"],
        )
        .0
        .config,
    );
    assert_eq!(config["train"]["label_smoothing"], 0.0);
    let (found, _) = choice::<crate::vectors::VectorTask>(
        &Facts { labels: BTreeMap::new(), ..numbers.clone() },
        &["data.target=next"],
    );
    assert_eq!(json(&found.config)["train"]["label_smoothing"], 0.0);
    let (found, _) = choice::<crate::speech::Speech>(&numbers, &["data.target=text"]);
    assert_eq!(json(&found.config)["train"]["label_smoothing"], 0.0);
}

#[test]
fn an_edited_copy_of_the_defaults_sets_only_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tag.toml");
    let text = crate::tag::Tag::CONFIG.replace("dropout = 0.1 ", "dropout = 0.25 ");
    std::fs::write(&file, text).unwrap();
    let given = |file: Option<&Path>| -> BTreeSet<String> {
        let config: Resolved<crate::tag::Config> =
            resolve_loosely(crate::tag::Tag::CONFIG, &Choice::default(), file, &[], &[]).unwrap();
        config.given
    };
    // The end of a training is always the user's.
    assert_eq!(given(Some(&file)).into_iter().collect::<Vec<_>>(), ["model.dropout", "train.steps"]);
    assert!(given(None).is_empty());
}
