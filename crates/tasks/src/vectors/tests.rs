//! Tests of the task with data of every kind of answer.

use std::path::PathBuf;

use rand::SeedableRng;
use regard_nn::Init;
use tempfile::TempDir;

use super::*;
use crate::folder::testing::with_files;
use crate::survey::Survey;
use crate::task::testing::configured;

fn file(name: &str, content: &str) -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(name);
    std::fs::write(&path, content).unwrap();
    (place, path)
}

fn start(path: &Path, sets: &[&str]) -> Result<(VectorTask, Parts<Part>), TaskError> {
    let path = format!("data.path={}", path.display());
    let sets: Vec<&str> = sets.iter().copied().chain([path.as_str()]).collect();
    VectorTask::start(configured::<VectorTask>(&sets)?)
}

fn model(task: &VectorTask) -> VectorModel {
    task.model(&Init::new(1, &Default::default())).unwrap()
}

/// Lines of vectors whose target is `target(n)`.
fn lines(count: usize, target: impl Fn(usize) -> String) -> String {
    (0..count).map(|n| format!("{{\"vectors\": [[{n}, 1], [2, {n}], [3, 4]], {}}}\n", target(n))).collect()
}

#[test]
fn each_kind_of_target_is_learnt_saved_and_predicted() {
    for (key, target, rows) in [
        ("label", "\"label\": \"a\"", 1),
        ("labels", "\"labels\": [\"a\", \"b\", \"a\"]", 3),
        ("value", "\"value\": 2.5", 1),
        ("values", "\"values\": [1, 2, 3]", 3),
    ] {
        let other = target.replace("\"a\"", "\"c\"").replace("2.5", "7").replace("[1, ", "[9, ");
        let text = lines(60, |n| if n % 2 == 0 { target.to_string() } else { other.clone() });
        let (_place, path) = file("data.jsonl", &text);
        let (task, parts) = start(&path, &["model.d_model=8", "model.n_heads=2"]).unwrap();
        let answers: usize = parts.train.examples.iter().map(|example| example.answers.len()).sum();
        assert_eq!(answers, rows * parts.train.examples.len(), "{key}");
        let model = model(&task);
        let loss = task.loss(&parts.train, &[0, 1, 2], &model, &mut Value::Null, &Pass::inference()).unwrap();
        assert_eq!((loss.targets, loss.tokens), (3 * rows, 9), "{key}");
        let opened = with_files(task.files(), |files| VectorTask::open(task.config().clone(), files)).unwrap();
        assert_eq!((&opened.goal, &opened.scaling), (&task.goal, &task.scaling));
        let input = task.input(&Given::json("[[1, 2], [3, 4], [5, 6]]").unwrap()).unwrap();
        let found = opened.predict(&model, &[input], &Pass::inference()).unwrap().remove(0);
        match rows {
            1 => assert!(!found.more[key].is_array(), "{found:?}"),
            _ => assert_eq!(found.more[key].as_array().map(Vec::len), Some(3), "{found:?}"),
        }
        let evaluation = task.evaluate(&parts.test.unwrap(), &model, None, &Pass::inference()).unwrap();
        assert!(evaluation.scores.contains_key(evaluation.main), "{key}");
    }
}

#[test]
fn forecasts_are_scored_beside_the_last_vector() {
    // A line through the plane: the next vector is the last one plus (1, 2).
    let rows: String = (0..200).map(|n| format!("{n},{}\n", 2 * n)).collect();
    let (_place, path) = file("series.csv", &format!("x,y\n{rows}"));
    let sets = ["data.target=next", "data.window=5", "data.horizon=3", "model.kind=dnn"];
    let (task, parts) = start(&path, &sets).unwrap();
    assert_eq!(parts.train.examples.len(), 160 - 5 - 3 + 1, "all whole windows of the first eight tenths");
    let test = parts.test.unwrap();
    assert_eq!(test.examples.len(), 20 - 3 + 1, "windows reach back, forecasts lie in the last tenth");
    let model = model(&task);
    let scores = task.evaluate(&test, &model, None, &Pass::inference()).unwrap().scores;
    // Steps 1 to 3 ahead, by 1 and by 2.
    assert!((scores["mae_last"] - (1.0 + 2.0 + 3.0) / 3.0 * 1.5).abs() < 1e-5, "{scores:?}");
    // All changes are alike, so the scale of the changes alone is a perfect forecast.
    let Goal::Next(forecast) = &task.goal else { panic!("a forecast") };
    assert_eq!(forecast.restored(vec![0.0; 6], &[10.0, 20.0]), [11.0, 22.0, 12.0, 24.0, 13.0, 26.0]);
    let input = task.input(&Given::json("{\"vectors\": [[1, 2], [2, 4]]}").unwrap()).unwrap();
    let found = task.predict(&model, &[input], &Pass::inference()).unwrap().remove(0);
    assert_eq!(found.more["values"].as_array().map(Vec::len), Some(3));

    let one = [&sets[..], &["data.features=[2]"]].concat();
    let (task, _) = start(&path, &one).unwrap();
    assert_eq!(task.goal.outputs(), 3);
    let error = start(&path, &[&sets[..], &["data.features=[3]"]].concat()).unwrap_err().to_string();
    assert!(error.contains("features from 1 to 2"), "{error}");
    let twice = configured::<VectorTask>(&["data.features=[1,1]"]).unwrap();
    assert!(twice.validate().unwrap_err().to_string().contains("data.features"));
    let short = [&sets[..], &["data.horizon=50"]].concat();
    assert!(start(&path, &short).unwrap_err().to_string().contains("data.horizon"));
}

/// The window and the forecast of a series are multiplied by the same matrix, so that the matrix applied to the whole series gives
/// the same examples.
#[test]
fn a_mixed_window_has_a_mixed_forecast() {
    let rows: String = (0..60).map(|n| format!("{},{},{}\n", n * n, 100 - n, 7 * (n % 5))).collect();
    let (_place, path) = file("series.csv", &format!("x,y,z\n{rows}"));
    let sets = ["data.target=next", "data.window=5", "data.horizon=2", "data.features=[3,1]", "data.normalise=size"];
    let (task, parts) = start(&path, &[&sets[..], &["data.augment.mix=0.3"]].concat()).unwrap();
    let (part, example) = (&parts.train, &parts.train.examples[9]);
    let Goal::Next(forecast) = &task.goal else { panic!("a forecast") };
    let random = &mut rand_chacha::ChaCha8Rng::seed_from_u64(3);
    let window = part.window(example, 3);
    let (changed, mix) = task.scaling.apply_changed(window, &task.config.data.augment, random);
    let mix = mix.unwrap();
    let series = &part.series[0];
    let wanted = forecast.wanted(series, example.to, &task.scaling, Some(&mix));
    let plain = forecast.wanted(series, example.to, &task.scaling, None);
    assert!(wanted.iter().zip(&plain).any(|(a, b)| (a - b).abs() > 0.01), "{wanted:?} {plain:?}");

    // The whole series, from its first vector on, multiplied in the units of the data. A shift changes neither what the network
    // sees nor the forecast.
    let mut moved: Vec<f32> = series.iter().enumerate().map(|(at, x)| x - series[at % 3]).collect();
    task.scaling.mix_differences(&mix, &mut moved);
    let same = |a: &[f32], b: &[f32]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-3);
    let again = forecast.wanted(&moved, example.to, &task.scaling, None);
    assert!(same(&wanted, &again), "{wanted:?} {again:?}");
    // With size taken out, windows agree up to their size.
    let ratio = |window: &[f32]| -> Vec<f32> {
        let differences: Vec<f32> = window.iter().skip(3).zip(window).map(|(b, a)| b - a).collect();
        let size = differences.iter().map(|x| x * x).sum::<f32>().sqrt();
        differences.iter().map(|x| x / size).collect()
    };
    let seen = task.scaling.apply(&moved[example.from * 3..example.to * 3]);
    assert!(same(&ratio(&seen), &ratio(&changed)), "{seen:?} {changed:?}");
}

#[test]
fn flags_are_found_before_resampling() {
    let line = |n: usize| {
        let vectors = format!("[[{n}, 0], [{}, 1], [2, 0], [9, 1]]", n + 3);
        format!("{{\"vectors\": {vectors}, \"label\": \"{}\"}}\n", n % 2)
    };
    let text: String = (0..60).map(line).collect();
    let (_place, path) = file("pen.jsonl", &text);
    let (task, parts) = start(&path, &["data.resample=6", "model.kind=dnn"]).unwrap();
    assert_eq!(task.scaling.flags(), [1]);
    let is_flag = |numbers: &[f32]| numbers.iter().skip(1).step_by(2).all(|&x| x == 0.0 || x == 1.0);
    assert!(parts.train.series.iter().all(|series| series.len() == 12 && is_flag(series)));
    // An input whose first feature happens to be 0 or 1 is a path from 0 to 1.
    let Typed(points) = task.input(&Given::json("[[0, 0], [1, 0]]").unwrap()).unwrap();
    let first: Vec<f32> = points.iter().step_by(2).copied().collect();
    assert!(first.iter().enumerate().all(|(at, x)| (x - at as f32 / 5.0).abs() < 1e-6), "{first:?}");
}

#[test]
fn an_input_that_overflows_is_refused_alone() {
    let text = lines(60, |n| format!("\"label\": \"{}\"", n % 3));
    let (_place, path) = file("data.jsonl", &text);
    for kind in ["transformer", "lstm", "dnn"] {
        let kind = format!("model.kind={kind}");
        for sets in [&["data.differences=true"][..], &["data.normalise=mean"], &["data.resample=4"], &[]] {
            let (task, _) = start(&path, &[sets, &[kind.as_str()]].concat()).unwrap();
            let model = model(&task);
            for huge in ["[[1, 2], [3, 1e38]]", "[[3e38, 2], [-3e38, 1]]"] {
                let error = task.input(&Given::json(huge).unwrap()).unwrap_err();
                assert!(matches!(&error, TaskError::Input { .. }));
                assert!(error.to_string().contains("within 1e12 standard deviations of the training data"), "{error}");
            }
            // Large numbers that do not overflow have an answer.
            let large = task.input(&Given::json("[[1e9, 2], [3, -1e9]]").unwrap()).unwrap();
            let found = task.predict(&model, &[large], &Pass::inference()).unwrap().remove(0);
            let probabilities = found.more["probabilities"].as_object().unwrap();
            assert!(probabilities.values().all(|p| p.as_f64().is_some_and(f64::is_finite)), "{found:?}");
        }
    }
    // Whatever gets past this check is refused if the network overflows.
    let (task, _) = start(&path, &["model.kind=dnn"]).unwrap();
    let inputs = [Typed(vec![1.0, 2.0]), Typed(vec![f32::NAN, f32::MAX])];
    let error = task.predict(&model(&task), &inputs, &Pass::inference()).unwrap_err();
    assert!(matches!(&error, TaskError::Input { .. }) && error.to_string().contains("an overflow"), "{error}");
    // The size of an example is taken out before anything can overflow.
    let (task, _) = start(&path, &["data.normalise=size"]).unwrap();
    let huge = task.input(&Given::json("[[1, 2], [3, 1e38]]").unwrap()).unwrap();
    assert_eq!(task.predict(&model(&task), &[huge], &Pass::inference()).unwrap().len(), 1);

    let rows: String = (0..200).map(|n| format!("{n},{}\n", 2 * n)).collect();
    let (_place, path) = file("series.csv", &format!("x,y\n{rows}"));
    let (task, _) = start(&path, &["data.target=next", "data.window=2"]).unwrap();
    assert!(task.input(&Given::json("[[1, 2], [3, 1e38], [4, 5]]").unwrap()).is_err());
    assert!(task.input(&Given::json("[[3, 1e38], [4, 5], [6, 7]]").unwrap()).is_ok(), "a forecast looks at the end");
}

#[test]
fn inputs_are_compared_exactly() {
    // Rounded to four digits, all inputs are the same.
    let line = |n: usize| format!("{{\"vectors\": [[{}, 2]], \"label\": \"{}\"}}\n", 1.0 + n as f64 * 1e-6, n % 2);
    let (_place, path) = file("close.jsonl", &(0..60).map(line).collect::<String>());
    let path = format!("data.path={}", path.display());
    let warnings = |sets: &[&str]| {
        let config = configured::<VectorTask>(&[sets, &[path.as_str()]].concat()).unwrap();
        Survey::new(&VectorTask::raw(&config).unwrap().unwrap()).warnings
    };
    assert_eq!(warnings(&[]), [""; 0]);
    assert_eq!(warnings(&["data.resample=3"]), [""; 0], "the data are compared, not what becomes of them");
}

#[test]
fn wrong_inputs_are_named() {
    let text = lines(60, |n| format!("\"label\": \"{}\"", n % 3));
    let (_place, path) = file("data.jsonl", &text);
    let (task, _) = start(&path, &["data.max_length=4"]).unwrap();
    for (input, told) in [
        ("[[1, 2], [3]]", "2 numbers in vectors[1]"),
        ("[[1, 2, 3]]", "2 numbers in vectors[0]"),
        ("[]", "at least one vector"),
        ("[[1, null]]", "a number in vectors[0][1]"),
        ("[[1, 1e300]]", "below 3.4e38"),
        ("{\"image\": \"x\"}", "vectors"),
        ("\"hello\"", "vectors of 2 numbers"),
        ("[[1,1],[1,1],[1,1],[1,1],[1,1]]", "1 to 4 vectors"),
    ] {
        let error = Given::json(input).and_then(|given| task.input(&given)).unwrap_err().to_string();
        assert!(error.contains(told), "{input}: {error}");
    }
    assert!(Given::json("[[NaN, 1]]").is_err());
    let (_place, other) = file("other.jsonl", "{\"vectors\": [[1, 2, 3]], \"label\": \"1\"}\n");
    assert!(task.part(&other).unwrap_err().to_string().contains("2 numbers in each vector"));
    let (_place, other) = file("other.jsonl", "{\"vectors\": [[1, 2]], \"value\": 1}\n");
    assert!(task.part(&other).unwrap_err().to_string().contains("label, which this model predicts"));
    let (_place, other) = file("other.jsonl", "{\"vectors\": [[1, 2]], \"label\": \"new\"}\n");
    assert_eq!(task.part(&other).unwrap().unseen, ["new"]);
    let (_place, none) = file("none.jsonl", &lines(60, |n| format!("\"note\": {n}")));
    let error = start(&none, &[]).unwrap_err().to_string();
    assert!(error.contains("data.target=next"), "{error}");
}

#[test]
fn scores_of_a_set_do_not_depend_on_its_order() {
    let sets = ["model.position=none", "model.d_model=8", "model.n_heads=2"];
    let (task, _) = VectorTask::start(configured::<VectorTask>(&sets).unwrap()).unwrap();
    let model = model(&task);
    let predict = |text: &str| {
        let input = task.input(&Given::json(text).unwrap()).unwrap();
        let found = task.predict(&model, &[input], &Pass::inference()).unwrap().remove(0);
        found.more["probabilities"]["circle left"].as_f64().unwrap()
    };
    let (one, other) = (predict("[[1, 2], [3, 4], [0, 1]]"), predict("[[0, 1], [1, 2], [3, 4]]"));
    assert!((one - other).abs() < 1e-6, "{one} {other}");
}
