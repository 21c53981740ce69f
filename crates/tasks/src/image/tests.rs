//! Tests of the task on pictures: settings, random changes, unseen labels, and what `look` draws.

use std::fs;

use regard_inspect::AttentionView;
use regard_nn::Wanted;
use serde_json::json;

use super::*;
use crate::looked::Looked;
use crate::opened::viewed;
use crate::survey::Survey;
use crate::task::testing::{answers, configured};

const SMALL: [&str; 6] =
    ["data.limit=60", "model.d_model=16", "model.n_layers=2", "model.n_heads=2", "train.steps=2", "model.dropout=0"];

/// A task on built-in digits with an untrained network.
fn started(more: &[&str]) -> (Images, Parts<Part>, ImageClassifier) {
    let small = SMALL
        .into_iter()
        .filter(|set| !more.iter().any(|other| other.starts_with("model.kind")) || !set.starts_with("model."));
    let sets: Vec<&str> = small.chain(more.iter().copied()).collect();
    let (task, parts) = Images::start(configured::<Images>(&sets).unwrap()).unwrap();
    let model = task.model(&Init::new(1, &Device::flex())).unwrap();
    (task, parts, model)
}

fn looked(task: &Images, model: &ImageClassifier, wanted: Wanted) -> (AttentionView, Looked) {
    let input = task.telling(model).unwrap();
    let (view, draw) = viewed(task, model, &input, wanted, &Pass::inference()).unwrap();
    let picture = draw.unwrap()(&view).unwrap();
    (view, picture.into())
}

#[test]
fn settings_are_checked() {
    let fails = |sets: &[&str]| {
        let config = configured::<Images>(sets);
        let error = config.and_then(|config| crate::task::Validate::validate(&config));
        error.unwrap_err().to_string()
    };
    for (sets, words) in [
        (&["data.size=0", "data.path=."][..], "data.size"),
        (&["data.size=[28,5000]", "data.path=."], "data.size"),
        (&["data.size=28"], "the built-in digits are 28 × 28 in grey"),
        (&["data.colours=rgb"], "the built-in digits are 28 × 28 in grey"),
        (&["data.dev=10"], "the built-in digits have a dev split"),
        (&["data.limit=0"], "data.limit"),
        (&["data.crop=0"], "data.crop"),
        (&["data.crop=1.5"], "data.crop"),
        (&["data.fold=1/10"], "data.fold"),
        (&["model.n_heads=3"], "model.n_heads"),
        (&["model.kind=cnn", "model.channels=[12]"], "model.channels[0]"),
        (&["model.kind=cnn", "model.patch=3"], "model.kind=cnn has no patch"),
    ] {
        let told = fails(sets);
        assert!(told.contains(words), "{sets:?}: {told}");
    }
    // Whether patches fit is known once the pictures are.
    let config = configured::<Images>(&["model.patch=5"]).unwrap();
    let error = Images::start(config).unwrap_err().to_string();
    assert!(error.contains("model.patch") && error.contains('5'), "{error}");
    let config = configured::<Images>(&["data.limit=4001"]).unwrap();
    assert!(Images::start(config).unwrap_err().to_string().contains("data.limit: expected from 1 to"));
}

#[test]
fn random_changes_depend_on_the_pass_alone() {
    let (task, parts, model) = started(&["data.shift=3"]);
    let loss = |seed: u64| {
        let pass = Pass::training(seed);
        let loss = task.loss(&parts.train, &[0, 1, 2], &model, &mut Value::Null, &pass).unwrap();
        (loss.mean.into_scalar::<f32>(), loss.targets, loss.tokens)
    };
    assert_eq!(loss(1), loss(1));
    assert_ne!(loss(1).0, loss(2).0);
    assert_eq!((loss(1).1, loss(1).2), (3, 3));
    // Scores are those of the pictures as they are.
    let score = || task.evaluate(&parts.dev, &model, Some(20), &Pass::inference()).unwrap().scores;
    assert_eq!(score(), score());
}

#[test]
fn files_give_back_what_was_learnt() {
    let (task, ..) = started(&[]);
    let files = task.files();
    let again =
        crate::folder::testing::with_files(files.clone(), |files| Images::open(task.config.clone(), files)).unwrap();
    assert_eq!((&again.pixels, &again.answers), (&task.pixels, &task.answers));
    let mut damaged = files;
    let text = String::from_utf8(damaged[pixels::FILE].clone()).unwrap().replace("\"channels\": 1", "\"channels\": 2");
    damaged.insert(pixels::FILE.to_string(), text.into_bytes());
    let error = crate::folder::testing::with_files(damaged, |files| Images::open(task.config.clone(), files));
    assert!(error.unwrap_err().to_string().contains("pictures.json: damaged: not the size of a picture"));
}

#[test]
fn built_in_pictures_have_names() {
    let (task, parts, model) = started(&[]);
    let samples = task.samples(parts.test.as_ref().unwrap(), 3);
    assert_eq!(samples[1].given.to_string(), "builtin:test/333");
    let shown = task.input(&samples[1].given).unwrap();
    assert_eq!(shown.image, parts.test.as_ref().unwrap().examples[333].image);
    assert_eq!(answers(&task, &model, &["builtin:test/1", "builtin:dev/2"]).unwrap().len(), 2);
    let error = task.input(&"builtin:test/1000".into()).unwrap_err().to_string();
    assert!(error.contains("a number below 1000, the number of test digits"), "{error}");
    assert!(matches!(task.input(&"none.png".into()), Err(TaskError::Data(_))));
    assert!(task.input(&Given::Json(json!({"image": "AAAA"}))).unwrap_err().to_string().contains("PNG or JPEG"));
}

#[test]
fn a_label_that_training_lacks_counts_as_wrong() {
    let (task, parts, model) = started(&[]);
    let place = tempfile::tempdir().unwrap();
    let digit = &parts.dev.examples[0].image;
    for (label, name) in [("0", "a.png"), ("gate", "b.png")] {
        fs::create_dir_all(place.path().join(label)).unwrap();
        fs::write(place.path().join(label).join(name), digit.to_png()).unwrap();
    }
    let part = task.part(place.path()).unwrap();
    assert_eq!(part.unseen, ["gate"]);
    let evaluation = task.evaluate(&part, &model, None, &Pass::inference()).unwrap();
    assert!(evaluation.scores["accuracy"] <= 0.5 && evaluation.examples == 2);
}

#[test]
fn the_same_pixels_are_the_same_input() {
    let place = tempfile::tempdir().unwrap();
    let size = ImageSize { channels: 1, height: 2, width: 2 };
    for (folder, pixel) in [("train/a", 1), ("train/b", 2), ("dev/a", 3), ("test/b", 2)] {
        fs::create_dir_all(place.path().join(folder)).unwrap();
        let image = Image { size, pixels: vec![pixel; 4] };
        fs::write(place.path().join(folder).join("1.png"), image.to_png()).unwrap();
    }
    let path = format!("data.path={:?}", place.path().display().to_string());
    let raw = Images::raw(&configured::<Images>(&[&path]).unwrap()).unwrap().unwrap();
    let warnings = Survey::new(&raw).warnings;
    assert!(
        warnings.len() == 1 && warnings[0].starts_with("1 input of test is also in train, such as"),
        "{warnings:?}"
    );
}

#[test]
fn attention_is_drawn_over_the_picture() {
    for (pooling, tokens) in [("class_token", 50), ("mean", 49)] {
        let (task, _, model) = started(&[&format!("model.pooling={pooling}")]);
        let (view, drawn) = looked(&task, &model, Wanted::default());
        assert_eq!((view.groups.len(), view.groups[0].keys.len()), (2, tokens));
        let data = drawn.to_json();
        let sum = |rows: &Value| -> f64 {
            rows.as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap()).map(|x| x.as_f64().unwrap()).sum()
        };
        assert_eq!(data["heads"].as_array().unwrap().len(), 4);
        assert_eq!(data["rollout"].as_array().unwrap().len(), 7);
        // All weights of a row sum to 1; without the class token they are fewer.
        let all = sum(&data["rollout"]);
        assert!(if pooling == "mean" { (all - 1.0).abs() < 1e-4 } else { (0.2..0.99).contains(&all) }, "{all}");
        let some = Wanted { heads: Some(vec![1]), ..Wanted::default() };
        assert_eq!(looked(&task, &model, some).1.to_json()["rollout"], Value::Null);
    }
}

#[test]
fn attention_blocks_of_convolutions_are_drawn() {
    let (task, _, model) = started(&["model.kind=attention_cnn", "model.channels=[8,16]", "model.groups=4"]);
    let (view, drawn) = looked(&task, &model, Wanted::default());
    let sizes: Vec<usize> = view.groups.iter().map(|group| group.keys.len()).collect();
    assert_eq!(sizes, [14 * 14, 16], "positions, then channels");
    let heads = drawn.to_json()["heads"].clone();
    assert_eq!(heads.as_array().unwrap().len(), 3, "all positions, the centre, the one looked at most");
    assert!(heads[1]["name"].as_str().unwrap().ends_with("from the centre, row 7, column 7"), "{heads}");
    let (task, parts, model) = started(&["model.kind=dnn", "model.hidden=[8]"]);
    let (view, drawn) = looked(&task, &model, Wanted::default());
    assert!(view.groups.is_empty() && drawn.to_json()["probabilities"].as_object().unwrap().len() == 10);
    assert!(task.evaluate(&parts.dev, &model, Some(10), &Pass::inference()).unwrap().contents.len() >= 2);
    assert!(task.positions(&model).is_empty());
}
