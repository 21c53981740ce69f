//! Tests of the task on recordings: settings, random changes, texts that do not fit, hearing in pieces, and what `look` draws.

use std::fs;

use regard_data::{Sound, encode_wav};
use regard_nn::Wanted;
use serde_json::json;

use super::*;
use crate::looked::Looked;
use crate::opened::viewed;
use crate::task::testing::{answers, configured};

const SMALL: [&str; 5] =
    ["model.d_model=16", "model.n_layers=2", "model.n_heads=2", "model.d_ff=16", "model.dropout=0"];

/// A task on built-in recordings with an untrained network.
fn started(more: &[&str]) -> (Speech, Parts<Part>, VectorModel) {
    let sets: Vec<&str> = SMALL.into_iter().chain(more.iter().copied()).collect();
    let (task, parts) = Speech::start(configured::<Speech>(&sets).unwrap()).unwrap();
    let model = task.model(&Init::new(1, &Device::flex())).unwrap();
    (task, parts, model)
}

/// A tone that rises and falls.
fn tune(samples: usize) -> Vec<f32> {
    (0..samples).map(|n| 0.3 * (n as f32 * 0.3 + 40.0 * (n as f32 / 1_500.0).sin()).sin()).collect()
}

#[test]
fn settings_are_checked() {
    for (sets, words) in [
        (&["data.rate=100"][..], "data.rate"),
        (&["data.window=0"], "data.window"),
        (&["data.bands=0"], "data.bands"),
        (&["data.high=5000"], "data.low and high"),
        (&["data.floor=0"], "data.floor"),
        (&["data.stride=5"], "data.stride"),
        (&["data.hop=30"], "data.hop"),
        (&["data.max_seconds=0"], "data.max_seconds"),
        (&["data.augment.speed=2"], "data.augment.speed"),
        (&["data.test_index=0-4"], "data.test_index"),
        (&["data.path=x", "data.test_index=4-0"], "a range of indices such as 0-4"),
        (&["data.fold=1/10"], "data.fold"),
        (&["decode.size=0"], "decode.size"),
        (&["data.target=text", "train.label_smoothing=0.1"], "train.label_smoothing"),
        (&["model.n_heads=5"], "model.n_heads"),
    ] {
        let config = configured::<Speech>(sets);
        let error = config.and_then(|config| crate::task::Validate::validate(&config)).unwrap_err().to_string();
        assert!(error.contains(words), "{sets:?}: {error}");
    }
}

#[test]
fn random_changes_depend_on_the_pass_alone() {
    for target in ["label", "text"] {
        let (task, parts, model) = started(&[&format!("data.target={target}")]);
        let loss = |seed: u64| {
            let pass = Pass::training(seed);
            let loss = task.loss(&parts.train, &[0, 1, 2], &model, &mut Value::Null, &pass).unwrap();
            (loss.mean.into_scalar::<f32>(), loss.targets, loss.tokens)
        };
        assert_eq!(loss(1), loss(1));
        assert_ne!(loss(1).0, loss(2).0);
        let targets: usize = match target {
            "label" => 3,
            _ => parts.train.examples[..3].iter().map(|one| one.said.ids().len()).sum(),
        };
        assert_eq!(loss(1).1, targets);
        let evaluation = task.evaluate(&parts.dev, &model, Some(20), &Pass::inference()).unwrap();
        assert_eq!(evaluation.main, if target == "label" { "accuracy" } else { "cer" });
        assert!(evaluation.scores[evaluation.main].is_finite());
    }
}

#[test]
fn files_give_back_what_was_learnt() {
    for target in ["label", "text"] {
        let (task, ..) = started(&[&format!("data.target={target}")]);
        let files = task.files();
        let open = |files| crate::folder::testing::with_files(files, |files| Speech::open(task.config.clone(), files));
        let again = open(files.clone()).unwrap();
        assert_eq!((&again.ear.scaler, &again.goal), (&task.ear.scaler, &task.goal));
        let mut damaged = files;
        let text = r#"{"mean": [0.0], "deviation": [1.0]}"#;
        damaged.insert(FILE.to_string(), text.as_bytes().to_vec());
        assert!(open(damaged).unwrap_err().to_string().contains("sounds.json: damaged: not a scale for each band"));
    }
}

#[test]
fn recordings_can_be_given_in_many_ways() {
    let (task, parts, model) = started(&[]);
    let samples = task.samples(parts.test.as_ref().unwrap(), 3);
    assert_eq!(samples[1].given.to_string(), "builtin:test/100");
    let example = &parts.test.as_ref().unwrap().examples[100];
    assert_eq!(task.input(&samples[1].given).unwrap().samples, example.samples);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("a.wav");
    let bytes = encode_wav(&Sound { rate: 16_000, samples: tune(8_000) });
    fs::write(&file, &bytes).unwrap();
    let path = file.display().to_string();
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &bytes);
    let from_path = task.input(&path.as_str().into()).unwrap().samples;
    assert_eq!(from_path.len(), 4_000, "brought to the rate of the model");
    assert_eq!(task.input(&Given::Json(json!({ "audio": encoded }))).unwrap().samples, from_path);
    assert_eq!(answers(&task, &model, &[&path, "builtin:dev/2"]).unwrap().len(), 2);
    let told = |given: Given| task.input(&given).unwrap_err().to_string();
    assert!(told("builtin:test/300".into()).contains("a number below 300, the number of test recordings"));
    assert!(told("none.wav".into()).contains("none.wav"));
    assert!(told(Given::Json(json!({"audio": "AAAA"}))).contains("a WAV file"));
    assert!(told(Given::Json(json!({"audio": "!"}))).contains("base64"));
    fs::write(&file, encode_wav(&Sound { rate: 8_000, samples: tune(199) })).unwrap();
    assert!(
        told(path.as_str().into()).contains("a sound as long as one window (data.window) or longer, got 199 samples")
    );
    fs::write(&file, encode_wav(&Sound { rate: 8_000, samples: vec![0.0; 61 * 8_000] })).unwrap();
    assert!(told(path.as_str().into()).contains("at most 60 s (data.max_seconds of this model), got 61.0 s"));
    // Silence has features as well.
    fs::write(&file, encode_wav(&Sound { rate: 8_000, samples: vec![0.0; 800] })).unwrap();
    let silence = answers(&task, &model, &[&path]).unwrap().remove(0);
    assert!(silence.more["probabilities"].as_object().unwrap().values().all(|p| p.as_f64().unwrap().is_finite()));
}

#[test]
fn a_sound_too_short_for_its_text_is_named() {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, samples: usize| {
        fs::write(place.path().join(name), encode_wav(&Sound { rate: 8_000, samples: tune(samples) })).unwrap();
    };
    write("long.wav", 8_000);
    write("other.wav", 9_000);
    write("short.wav", 400);
    fs::write(place.path().join("dev.tsv"), "long.wav\t12\n").unwrap();
    fs::write(place.path().join("test.tsv"), "short.wav\t1111\n").unwrap();
    fs::write(place.path().join("train.tsv"), "long.wav\t12\nother.wav\t1\n").unwrap();
    let path = format!("data.path={:?}", place.path().display().to_string());
    let sets = [&SMALL[..], &[path.as_str(), "data.target=text"]].concat();
    let config = || configured::<Speech>(&sets).unwrap();
    let (task, parts) = Speech::start(config()).unwrap();
    // What is only to be transcribed needs no length.
    let model = task.model(&Init::new(1, &Device::flex())).unwrap();
    assert!(task.evaluate(parts.test.as_ref().unwrap(), &model, None, &Pass::inference()).is_ok());
    fs::write(place.path().join("train.tsv"), "long.wav\t12\nshort.wav\t1111\n").unwrap();
    let error = Speech::start(config()).unwrap_err().to_string();
    assert!(error.contains("short.wav") && error.contains("7 or more vectors for the text \"1111\""), "{error}");
    assert!(error.contains("the sound is too short"), "{error}");
}

#[test]
fn hearing_in_pieces_gives_the_outputs_of_the_whole() {
    let sight = "model.sight={ kind = \"window\", left = 3, right = 2 }";
    for more in [
        &["data.stack=4", "data.stride=2"][..],
        &["data.stack=1", "data.stride=1", "model.position=relative"],
        &["data.stack=7", "data.stride=3", "model.position=alibi", "data.hop=7"],
        &["data.stack=3", "data.stride=3", "model.position=none"],
    ] {
        let (task, _, model) = started(&[&["data.target=text", sight][..], more].concat());
        let pass = Pass::inference();
        for (length, piece) in [(16_000, 1_600), (16_000, 37), (4_321, 4_321), (9_999, 800), (200, 1), (250, 300)] {
            let samples = tune(length);
            let whole = task.outputs(&model, &[&samples], &pass).unwrap().remove(0);
            let mut listener = task.listen(&model).unwrap();
            let mut pieces = Vec::new();
            for piece in samples.chunks(piece) {
                pieces.extend(listener.hear(piece, &pass).unwrap());
            }
            let before_end = pieces.len();
            pieces.extend(listener.finish(&pass).unwrap());
            assert!(before_end < pieces.len() && (length < 9_000 || before_end > pieces.len() / 2));
            assert_eq!(pieces.len(), whole.len(), "{more:?}, {length} in pieces of {piece}");
            for (at, (piece, whole)) in pieces.iter().zip(&whole).enumerate() {
                assert!((piece - whole).abs() < 1e-5, "{more:?}, {at}: {piece}, {whole}");
            }
            assert_eq!(listener.text(), task.text(&spell(&whole, task.goal.outputs(), BLANK).labels));
        }
    }
    let refused = |sets: &[&str]| {
        let (task, _, model) = started(sets);
        task.listen(&model).err().unwrap().to_string()
    };
    assert!(refused(&["data.target=label"]).contains("data.target = \"text\""));
    assert!(refused(&["data.target=text", "model.sight=full"]).contains("model.sight"));
    assert!(refused(&["data.target=text", "model.position=sinusoidal"]).contains("positions must be relative"));
    let recurrent = configured::<Speech>(&["data.target=text", "model.kind=gru", "model.d_model=8"]).unwrap();
    let (task, _) = Speech::start(recurrent).unwrap();
    let model = task.model(&Init::new(1, &Device::flex())).unwrap();
    assert!(task.listen(&model).err().unwrap().to_string().contains("only a Transformer"));
}

#[test]
fn attention_is_drawn_over_the_sound() {
    for target in ["label", "text"] {
        let (task, _, model) = started(&[&format!("data.target={target}")]);
        let input = task.telling(&model).unwrap();
        let (view, draw) = viewed(&task, &model, &input, Wanted::default(), &Pass::inference()).unwrap();
        let drawn = Looked::from(draw.unwrap()(&view).unwrap());
        let vectors = task.ear.vectors(task.ear.frames(input.samples.len()));
        assert!(view.groups.iter().all(|group| group.keys.len() == vectors));
        let data = drawn.to_json();
        assert_eq!(data["seconds_per_weight"], json!(0.02));
        if target == "label" {
            // Two layers of two heads, and pooling.
            assert_eq!((view.groups.len(), data["attention"].as_array().unwrap().len()), (3, 5));
            assert_eq!(data["probabilities"].as_object().unwrap().len(), 10);
        } else {
            let characters = data["characters"].as_array().unwrap().len();
            // Two layers; without characters, their two heads each.
            let rows = if characters == 0 { 4 } else { 2 * characters.min(24) };
            assert_eq!(data["attention"].as_array().unwrap().len(), rows);
        }
        let sums = data["attention"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["weights"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).sum::<f64>());
        assert!(sums.into_iter().all(|sum| (sum - 1.0).abs() < 1e-4));
    }
}

#[test]
fn unseen_characters_count_as_errors() {
    let (task, _, model) = started(&["data.target=text"]);
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("a.wav"), encode_wav(&Sound { rate: 8_000, samples: tune(4_000) })).unwrap();
    fs::write(place.path().join("all.tsv"), "a.wav\txyz\n").unwrap();
    let part = task.part(&place.path().join("all.tsv")).unwrap();
    let evaluation = task.evaluate(&part, &model, None, &Pass::inference()).unwrap();
    assert!(evaluation.scores["cer"] >= 1.0 && evaluation.scores["exact_match"] == 0.0);
    assert!(!evaluation.contents.is_empty());
}
