//! Data, scores, predictions and settings of the caption task.

use burn::tensor::Device;

use super::*;
use crate::task::Validate;
use crate::task::testing::{answers, configured, maps};

const SMALL: [&str; 4] = ["model.d_model=8", "model.channels=[4, 4]", "model.groups=2", "train.batch_examples=4"];

fn config(sets: &[&str]) -> Result<Config, TaskError> {
    configured::<Captions>(&[&SMALL, sets].concat())
}

/// A folder with `count` pictures of built-in scenes and their sentences.
fn folder(count: usize) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let size = config(&[]).unwrap().data.image_size();
    let mut lines = String::new();
    for at in 0..count {
        let scene = built_in_scene(Split::Train, at, size).unwrap().unwrap();
        std::fs::write(place.path().join(format!("{at}.png")), scene.image.to_png()).unwrap();
        lines += &format!("{at}.png\t{}\t{}\n", scene.sentence, ["train", "dev", "test"][at % 3]);
    }
    std::fs::write(place.path().join("captions.tsv"), lines).unwrap();
    place
}

fn task(place: &tempfile::TempDir, sets: &[&str]) -> (Captions, Parts<Part>) {
    let path = format!("data.path={}", place.path().display());
    let sets: Vec<&str> = sets.iter().copied().chain([path.as_str()]).collect();
    Captions::start(config(&sets).unwrap()).unwrap()
}

const HARD: &str = "model.selection={ kind = \"hard\", estimator = \"score_function\" }";

#[test]
fn a_folder_is_learnt_scored_and_described_by_every_kind_of_model() {
    let place = folder(9);
    for sets in [&["model.kind=lstm"][..], &["model.kind=gru", HARD], &["model.kind=transformer", "model.n_heads=2"]] {
        let (task, parts) = task(&place, sets);
        assert_eq!((parts.train.examples.len(), parts.dev.pictures.len()), (3, 3));
        let model = task.model(&Init::new(1, &Device::flex())).unwrap();
        let found = task.evaluate(parts.test.as_ref().unwrap(), &model, None, &Pass::inference()).unwrap();
        assert!(["loss", "bleu", "exact", "accuracy"].iter().all(|name| found.scores.contains_key(*name)), "{sets:?}");
        assert!(!found.scores.contains_key("attention_share"), "only built-in scenes tell where shapes are");
        let picture = place.path().join("2.png").display().to_string();
        let prediction = &answers(&task, &model, &[&picture]).unwrap()[0];
        assert_eq!(prediction.more["caption"], prediction.output.as_str());
        let view = maps(&task, &model, Some(&picture)).unwrap();
        let over: Vec<_> = view.groups.iter().filter(|group| is_over_picture(group.site.unwrap().kind)).collect();
        assert!(!over.is_empty() && over.iter().all(|group| group.keys.len() == 64), "{sets:?}");
    }
}

#[test]
fn scenes_are_scored_by_where_the_model_looks() {
    let (task, parts) = Captions::start(config(&[]).unwrap()).unwrap();
    assert_eq!((parts.train.examples.len(), parts.dev.pictures.len()), (6_000, 500));
    let scene = &parts.dev.pictures[0];
    let words = task.tokenizer.encode(&scene.references[0]).tokens;
    for named in &scene.shapes {
        assert!(named.shape.name().ends_with(words[named.word].trim()), "{words:?}");
        assert_eq!(words[named.phrase.start].trim(), "a");
    }
    // Attention that lies on the shape at the word for it has a share of 1, elsewhere of 0.
    let model = task.model(&Init::new(1, &Device::flex())).unwrap();
    let grid = model.picture().grid();
    let site = regard_nn::Site { side: None, layer: 0, kind: regard_nn::AttentionKind::Alignment };
    let written = scene.shapes[0].sentence.to_vec();
    let map = |on: bool| {
        let mut rows = vec![vec![0.0; grid[0] * grid[1]]; written.len() + 1];
        for named in &scene.shapes {
            let cell = named.shape.covers(grid[0], grid[1]).iter().position(|covered| *covered == on).unwrap();
            rows[named.word][cell] = 1.0;
        }
        regard_nn::AttentionMap { site, sequence: 0, head: 0, first_row: 0, rows, keys: None }
    };
    for (on, focus) in [(true, Focus::Soft), (true, Focus::Hard), (false, Focus::Soft)] {
        let mut shares = gaze::Shares::default();
        shares.add(scene, &written, &[&map(on)], grid, focus);
        assert_eq!(shares.mean(), Some(f64::from(u8::from(on))));
    }
    // A shape that is described wrong does not count.
    let mut shares = gaze::Shares::default();
    shares.add(scene, &[], &[&map(true)], grid, Focus::Soft);
    assert_eq!(shares.mean(), None);
}

#[test]
fn the_telling_scene_has_three_shapes_and_a_drawing() {
    let (task, _) = Captions::start(config(&["model.kind=transformer", "model.n_heads=2"]).unwrap()).unwrap();
    let model = task.model(&Init::new(1, &Device::flex())).unwrap();
    let input = task.telling(&model).unwrap();
    assert_eq!(input.shapes.len(), 3, "{:?}", input.references);
    let capture = regard_nn::Capture::default();
    let legend = task.look(&model, &input, &Pass::inference().with_capture(&capture)).unwrap();
    let view = legend.view(&capture.into_maps()).unwrap();
    let picture = legend.draw.unwrap()(&view).unwrap();
    assert_eq!(picture.data["expected"], input.references[0].as_str());
    let words = picture.data["words"].as_array().unwrap();
    let total: f64 = words[0]["weights"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|row| row.as_array().unwrap())
        .map(|x| x.as_f64().unwrap())
        .sum();
    assert!((total - 1.0).abs() < 1e-4, "{total}");
    assert!(task.input(&"builtin:test/1000".into()).is_err());
    assert_eq!(task.input(&"builtin:test/999".into()).unwrap().name, "builtin:test/999");
}

/// Soft steps leave the baseline alone; the count of batches is kept with the checkpoint.
#[test]
fn hard_attention_begins_with_soft_steps() {
    let (task, parts) = task(&folder(9), &[HARD, "model.soft_steps=2", "train.accumulate=2"]);
    assert!(!task.is_divisible());
    let model = task.model(&Init::new(1, &Device::flex().autodiff())).unwrap();
    let mut memory = Value::Null;
    for batch in 0..6u64 {
        task.loss(&parts.train, &[0, 1, 2], &model, &mut memory, &Pass::training(batch)).unwrap();
        assert_eq!(memory["batches"], batch + 1);
        assert_eq!(memory.get("baseline").is_some(), batch >= 4, "{memory}");
    }
}

/// Writes a folder with a picture of this size for each split.
fn pictures_of(height: usize, width: usize) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let size = regard_data::ImageSize { channels: 1, height, width };
    let mut lines = String::new();
    for (at, split) in ["train", "dev", "test"].iter().enumerate() {
        let image = Image { size, pixels: vec![at as u8; size.values()] };
        std::fs::write(place.path().join(format!("{at}.png")), image.to_png()).unwrap();
        lines += &format!("{at}.png\tnumber {at}\t{split}\n");
    }
    std::fs::write(place.path().join("captions.tsv"), lines).unwrap();
    place
}

#[test]
fn settings_are_checked_with_the_size_of_the_pictures() {
    let started = |place: &tempfile::TempDir, sets: &[&str]| {
        let path = format!("data.path={}", place.path().display());
        let config = config(&[sets, &[path.as_str()]].concat())?;
        config.validate()?;
        Captions::start(config)
    };
    // The second stage halves 48 pixels to 24, and 120 to 60.
    let large = pictures_of(120, 120);
    let (task, _) = started(&large, &["model.cell=30"]).unwrap();
    assert_eq!(task.model(&Init::new(1, &Device::flex())).unwrap().picture().grid(), [2, 2]);
    task.config().validate().unwrap();
    let small = pictures_of(4, 8);
    let error = started(&small, &["model.cell=3"]).unwrap_err().to_string();
    let expected = "model.cell = 3: expected 1 to 2, the output of the network, for pictures of 4 × 8 in grey";
    assert_eq!(error, expected);
    started(&small, &["model.cell=2"]).unwrap();
    // The configuration in a model folder must be valid.
    let long = pictures_of(2, 1_025);
    let error = started(&long, &[]).unwrap_err().to_string();
    assert!(error.contains("data.size = 2 × 1025, as the pictures are: expected 1 to 1024; set it"), "{error}");
    started(&long, &["data.size=[6, 64]"]).unwrap();
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for (set, field) in [
        ("data.max_length=0", "data.max_length"),
        ("data.fold=1/10", "data.fold"),
        ("data.size=0", "data.size"),
        ("data.size=100000", "data.size"),
        ("decode.size=1025", "decode.size"),
        ("model.score=none", "model.score"),
        ("model.channels=[4, 5]", "model.channels[1]"),
        ("model.channels=[]", "model.channels"),
        ("model.cell=25", "model.cell"),
    ] {
        let error = config(&[set]).and_then(|config| config.validate()).unwrap_err().to_string();
        assert!(error.contains(field), "{set}: {error}");
    }
    // How large a cell may be is known once the pictures are.
    let path = "data.path=.";
    for (set, is_valid) in [("model.cell=25", true), ("model.cell=513", false), ("model.groups=3", false)] {
        assert_eq!(config(&[set, path]).unwrap().validate().is_ok(), is_valid, "{set}");
    }
    let windowed = config(&["model.kind=transformer", "model.sight=causal"]).and_then(|config| config.validate());
    assert!(windowed.unwrap_err().to_string().contains("model.sight"));
}
