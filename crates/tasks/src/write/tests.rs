use regard_nn::{Init, Wanted};
use tempfile::TempDir;

use super::*;
use crate::folder::testing::with_files;
use crate::opened::viewed;
use crate::task::Validate;
use crate::task::testing::configured;

/// Zigzags of one stroke for each character, with a point over every `i`.
fn lines(count: usize) -> String {
    let text = |n: usize| ["hi", "ih h", "hhi", "i"][n % 4];
    let line = |n: usize| {
        let mut strokes = Vec::new();
        for (at, character) in text(n).chars().enumerate() {
            let (x, y) = (at as f32 * 12.0, n as f32 / 50.0);
            match character {
                'h' => strokes.push(vec![[x, y], [x, 10.0 + y], [x + 5.0, 5.0], [x + 6.0, 10.0]]),
                'i' => strokes.extend([vec![[x, y + 4.0], [x, 10.0]], vec![[x, y]]]),
                _ => {}
            }
        }
        Handwritten { text: text(n).to_string(), strokes }.line()
    };
    (0..count).map(line).collect()
}

fn start(content: &str, sets: &[&str]) -> Result<(WriteTask, Parts<Part>, TempDir), TaskError> {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("lines.jsonl");
    std::fs::write(&path, content).unwrap();
    let path = format!("data.path={}", path.display());
    let sets: Vec<&str> = sets.iter().copied().chain([path.as_str(), "model.d_model=8"]).collect();
    let config = configured::<WriteTask>(&sets)?;
    config.validate()?;
    let (task, parts) = WriteTask::start(config)?;
    Ok((task, parts, place))
}

fn model(task: &WriteTask) -> Handwriting {
    task.model(&Init::new(1, &Default::default())).unwrap()
}

#[test]
fn both_networks_learn_score_and_write() {
    for kind in ["synthesis", "prediction"] {
        let (task, parts, _place) = start(&lines(120), &[&format!("model.kind={kind}")]).unwrap();
        assert_eq!(task.learnt.alphabet, " hi");
        let model = model(&task);
        let loss = task.loss(&parts.train, &[0, 1, 2], &model, &mut Value::Null, &Pass::inference()).unwrap();
        let points: usize = parts.train.examples[..3].iter().map(Example::length).sum();
        assert_eq!((loss.targets, loss.tokens), (points, points));
        let mean: f32 = loss.mean.into_scalar();
        let scored = task.evaluate(&parts.dev, &model, None, &Pass::inference()).unwrap();
        assert!(mean.is_finite() && scored.scores["log_likelihood"].is_finite(), "{kind}: {mean} {scored:?}");
        let opened = with_files(task.files(), |files| WriteTask::open(task.config().clone(), files)).unwrap();
        assert_eq!(opened.learnt, task.learnt);
        let text = if kind == "synthesis" { "hi" } else { "" };
        let input = task.input(&text.into()).unwrap();
        let found = opened.predict(&model, &[input], &Pass::inference()).unwrap().remove(0);
        let count = |key: &str| -> Vec<usize> {
            found.more[key].as_array().unwrap().iter().map(|list| list.as_array().unwrap().len()).collect()
        };
        assert_eq!(count("strokes"), count("characters"), "{kind}");
    }
}

#[test]
fn the_mean_of_the_loss_is_the_score_without_noise() {
    let (task, parts, _place) = start(&lines(120), &["data.noise=0"]).unwrap();
    let model = model(&task);
    let all: Vec<usize> = (0..parts.dev.examples.len()).collect();
    let loss: f32 =
        task.loss(&parts.dev, &all, &model, &mut Value::Null, &Pass::training(3)).unwrap().mean.into_scalar();
    let score = task.evaluate(&parts.dev, &model, None, &Pass::inference()).unwrap().scores["log_likelihood"];
    assert!((f64::from(loss) + score).abs() < 1e-4, "{loss} {score}");
}

#[test]
fn a_line_depends_on_its_own_seed_alone() {
    let (task, _, _place) = start(&lines(120), &[]).unwrap();
    let model = model(&task);
    let request = |text: &str, seed: u64| PenRequest { text: text.to_string(), seed };
    let write = |lines: &[PenRequest], options: &PenOptions| -> Vec<Option<Ink>> {
        let found = task.write_by_hand(&model, lines, options, &Pass::inference()).unwrap();
        found.into_iter().map(Result::ok).collect()
    };
    let options = PenOptions::default();
    let alone = write(&[request("hi", 7)], &options);
    let among = write(&[request("hhii hh", 1), request("xyz", 2), request("hi", 7), request("", 1)], &options);
    assert_eq!(among.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true, false]);
    // Sums over a larger batch may be rounded differently.
    let close = |a: &Ink, b: &Ink| {
        let (a, b): (Vec<f64>, Vec<f64>) = (a.strokes.concat().concat(), b.strokes.concat().concat());
        a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 0.1)
    };
    assert!(close(among[2].as_ref().unwrap(), alone[0].as_ref().unwrap()));
    assert_eq!(write(&[request("hi", 7)], &options), alone, "the same again");
    assert_ne!(write(&[request("hi", 8)], &options), alone);
    // Handwriting to go on from is not part of the result, and changes it.
    let prime = Handwritten { text: "hh".into(), strokes: vec![vec![[0.0, 0.0], [3.0, 10.0], [9.0, 2.0]]] };
    let primed = write(&[request("hi", 7)], &PenOptions { prime: Some(prime.clone()), ..options.clone() });
    assert!(primed[0].is_some() && primed != alone);
    assert!(primed[0].as_ref().unwrap().characters.iter().flatten().all(|&character| character < 3));
    for (text, strokes, told) in [
        ("hx", prime.strokes.clone(), "\"x\""),
        ("hh", vec![vec![[1.0, 1.0]]], "movements"),
        ("", prime.strokes.clone(), "characters"),
    ] {
        let options = PenOptions { prime: Some(Handwritten { text: text.into(), strokes }), ..options.clone() };
        let error = task.write_by_hand(&model, &[request("hi", 7)], &options, &Pass::inference()).unwrap_err();
        assert!(error.to_string().contains(told) && error.to_string().contains("--prime"), "{error}");
    }
}

#[test]
fn a_written_line_ends() {
    let (task, _, _place) = start(&lines(120), &["model.first_move=1e-6"]).unwrap();
    let model = model(&task);
    // This window never comes to the end of the text.
    let line = [PenRequest { text: "hi".into(), seed: 1 }];
    let found =
        task.write_by_hand(&model, &line, &PenOptions::default(), &Pass::inference()).unwrap().remove(0).unwrap();
    let points: usize = found.strokes.iter().map(Vec::len).sum();
    assert!(!found.is_finished && points > 20 && points < 500, "{points}");
    assert!(found.summary().contains("not finished"));
}

#[test]
fn inputs_are_checked() {
    let (task, _, _place) = start(&lines(120), &["data.max_length=6"]).unwrap();
    for (given, told) in [
        (Given::from(""), "1 to 6 characters"),
        (Given::from("   "), "1 to 6 characters"),
        (Given::from("hihihih"), "1 to 6 characters"),
        (Given::from("häi"), "\"ä\""),
        (Given::Json(json!({"text": "hi", "strokes": []})), "at least one stroke"),
        (Given::Json(json!({"text": "hi", "strokes": [[[1, 2]]]})), "movements"),
        (Given::Json(json!({"text": "hi", "strokes": [[[1, null]]]})), "strokes[0][0]"),
        (Given::Json(json!({"strokes": [[[1, 2], [3, 4]]]})), "a text"),
    ] {
        let error = task.input(&given).unwrap_err().to_string();
        assert!(error.contains(told), "{given:?}: {error}");
    }
    let strokes = json!({"text": "hi", "strokes": [[[0, 0], [0, 10]], [[1e38, -1e38]]]});
    let far = task.input(&Given::Json(strokes)).unwrap();
    assert!(far.points.unwrap().iter().all(|x| x.is_finite()));
}

#[test]
fn data_without_lines_to_learn_from_are_refused() {
    let dot = Handwritten { text: "h".into(), strokes: vec![vec![[1.0, 1.0]]] }.line();
    let flat = Handwritten { text: "h".into(), strokes: vec![vec![[1.0, 1.0], [5.0, 1.0]]] }.line();
    let dots: String = (0..200).map(|n| dot.replace("1.0]", &format!("{n}.0]"))).collect();
    let flats: String = (0..200).map(|n| flat.replace("[5.0", &format!("[{}.0", 5 + n))).collect();
    for content in [dots, flats] {
        let error = start(&content, &[]).err().unwrap().to_string();
        assert!(error.contains("height"), "{error}");
    }
    let error = start(&lines(120), &["data.max_points=1"]).err().unwrap().to_string();
    assert!(error.contains("not too long"), "{error}");
    for (set, told) in [
        ("data.spacing=0", "data.spacing"),
        ("data.noise=-1", "data.noise"),
        ("pen.bias=-1", "pen.bias"),
        ("train.label_smoothing=0.1", "label_smoothing"),
        ("model.first_move=0", "first_move"),
        ("data.max_points=0", "data.max_points"),
    ] {
        let error = start(&lines(120), &[set]).err().unwrap().to_string();
        assert!(error.contains(told), "{set}: {error}");
    }
}

#[test]
fn the_window_is_shown_over_the_strokes() {
    let (task, _, _place) = start(&lines(120), &[]).unwrap();
    let model = model(&task);
    let strokes =
        json!({"text": "hi", "strokes": [[[0, 0], [0, 10], [5, 5], [6, 10]], [[12, 4], [12, 10]], [[12, 0]]]});
    for given in [Given::from("hi"), Given::Json(strokes)] {
        let input = task.input(&given).unwrap();
        let (view, draw) = viewed(&task, &model, &input, Wanted::default(), &Pass::inference()).unwrap();
        let picture = draw.unwrap()(&view).unwrap();
        assert_eq!(picture.figure.panels.len(), 2);
        let rows = view.groups[0].heads[0].rows.len();
        assert_eq!(picture.data["characters"].as_array().map(Vec::len), Some(rows));
        assert!(picture.figure.to_svg().contains("<polyline"));
    }
    let (task, _, _place) = start(&lines(120), &["model.kind=prediction"]).unwrap();
    let model = self::model(&task);
    assert!(task.input(&"hi".into()).unwrap_err().to_string().contains("without a text"));
    let input = task.telling(&model).unwrap();
    let (view, draw) = viewed(&task, &model, &input, Wanted::default(), &Pass::inference()).unwrap();
    assert!(view.groups.is_empty());
    assert_eq!(draw.unwrap()(&view).unwrap().figure.panels.len(), 1, "only the density");
}
