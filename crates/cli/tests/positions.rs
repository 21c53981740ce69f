//! Tests of `regard look --positions`: each kind drawn from the weights of a trained model, for every task that has positions.

mod binary;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use binary::{SMALL, document, done, fails_with, pairs, path, read_document, regard, sets, text};
use serde_json::Value;

/// Trains a tiny model of `compose` with a kind of positions and returns its folder.
fn composer(place: &Path, position: &str) -> String {
    let out = place.join("model");
    let position = format!("model.position={position}");
    let settings = [&SMALL[..], &["data.size=5", "data.dev=8", "data.test=8", &position]].concat();
    let train = ["train", "compose", "--steps", "20", "--out", path(&out)];
    done(&regard(&[&train[..], &sets(&settings)].concat()));
    path(&out).to_string()
}

fn positions(model: &str, more: &[&str]) -> Value {
    document(&done(&regard(&[&["look", model, "--positions", "--json"], more].concat())))
}

/// Reads the weights of the positions from `model.safetensors`, by their last names.
fn weights(model: &str) -> BTreeMap<String, Vec<f64>> {
    let bytes = fs::read(Path::new(model).join("model.safetensors")).unwrap();
    let size = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = document(&text(&bytes[8..8 + size]));
    let mut found = BTreeMap::new();
    for (name, tensor) in header.as_object().unwrap() {
        let Some((_, last)) = name.split_once("position.") else { continue };
        let offset = |index: usize| 8 + size + tensor["data_offsets"][index].as_u64().unwrap() as usize;
        let values = bytes[offset(0)..offset(1)].chunks_exact(4);
        let values = values.map(|four| f64::from(f32::from_le_bytes(four.try_into().unwrap())));
        found.insert(last.rsplit('.').next().unwrap().to_string(), values.collect());
    }
    found
}

/// Fails the test unless the rows of a table in JSON are those expected.
#[track_caller]
fn expect_table(table: &Value, expected: &[Vec<f64>], tolerance: f64) {
    let rows = table.as_array().unwrap();
    assert_eq!(rows.len(), expected.len());
    for (at, (row, expected)) in rows.iter().zip(expected).enumerate() {
        for (got, want) in row.as_array().unwrap().iter().zip(expected) {
            let got = got.as_f64().unwrap();
            assert!((got - want).abs() < tolerance, "position {at}: {got}, expected {want}");
        }
    }
}

/// `out_j = Σ_i x_i W_ij + b_j` for a row-major `W`.
fn dense(x: &[f64], w: &[f64], b: &[f64]) -> Vec<f64> {
    let sum = |j: usize| x.iter().enumerate().map(|(i, x)| x * w[i * b.len() + j]).sum::<f64>() + b[j];
    (0..b.len()).map(sum).collect()
}

#[test]
fn learned_positions_are_the_rows_of_the_table() {
    let place = tempfile::tempdir().unwrap();
    let model = &composer(place.path(), "learned");
    let found = &positions(model, &[])["positions"][0];
    assert_eq!((&found["kind"], &found["part"], &found["length"]), (&"learned".into(), &"encoder".into(), &10.into()));
    let weight = &weights(model)["weight"];
    let rows: Vec<Vec<f64>> = weight.chunks_exact(16).take(10).map(<[f64]>::to_vec).collect();
    expect_table(&found["table"], &rows, 1e-7);
    let dot = |p: usize, q: usize| rows[p].iter().zip(&rows[q]).map(|(a, b)| a * b).sum::<f64>();
    let cosine = found["cosine_similarity"][2][7].as_f64().unwrap();
    assert!((cosine - dot(2, 7) / (dot(2, 2) * dot(7, 7)).sqrt()).abs() < 1e-6);
    // Training has moved the table away from its start, of standard deviation 0.02.
    assert!(rows.iter().flatten().any(|value| value.abs() > 0.1), "{rows:?}");

    assert_eq!(positions(model, &["--length", "30"])["positions"][0]["length"], 30);
    for (extension, start) in [("svg", &b"<svg"[..]), ("png", b"\x89PNG"), ("html", b"<!DOCTYPE html>")] {
        let picture = place.path().join(format!("positions.{extension}"));
        let said = done(&regard(&["look", model, "--positions", "--out", path(&picture)]));
        assert!(said.contains("learned (encoder)") && said.contains("wrote "), "{said}");
        assert!(fs::read(&picture).unwrap().starts_with(start), "{extension}");
    }
    let file = place.path().join("positions.json");
    done(&regard(&["look", model, "--positions", "--out", path(&file)]));
    assert_eq!(&read_document(&file)["positions"][0], found);
}

#[test]
fn relative_positions_are_a_bias_by_distance() {
    let place = tempfile::tempdir().unwrap();
    let model = &composer(place.path(), "{kind=\"relative\",max_distance=6}");
    let found = &positions(model, &[])["positions"][0];
    let weight = &weights(model)["weight"];
    assert_eq!(weight.len(), 2 * 13);
    assert!(weight.iter().any(|bias| bias.abs() > 1e-3), "training has not moved the table");
    for (head, bias) in weight.chunks_exact(13).enumerate() {
        let curve = &found["curves"][head];
        assert_eq!((&curve["name"], &curve["distances"][0]), (&format!("head {head}").into(), &(-6.0).into()));
        for (got, want) in curve["values"].as_array().unwrap().iter().zip(bias) {
            assert!((got.as_f64().unwrap() - want).abs() < 1e-7);
        }
    }
}

/// Solves FLOATER's equation `dp/dt = tanh([p, t] W₁ + b₁) W₂ + b₂` with the classical Runge–Kutta method in f64.
#[test]
fn floater_positions_are_points_of_its_trajectory() {
    let place = tempfile::tempdir().unwrap();
    let model = &composer(place.path(), "floater");
    let found = &positions(model, &[])["positions"][0];
    let w = weights(model);
    let slope = |t: f64, p: &[f64]| {
        let hidden = dense(&[p, &[t]].concat(), &w["w1"], &w["b1"]);
        dense(&hidden.iter().map(|x| x.tanh()).collect::<Vec<_>>(), &w["w2"], &w["b2"])
    };
    let moved = |p: &[f64], by: f64, k: &[f64]| p.iter().zip(k).map(|(p, k)| p + by * k).collect::<Vec<f64>>();
    let delta = 0.1;
    let mut expected = vec![w["start"].clone()];
    for step in 0..9 {
        let (t, p) = (f64::from(step) * delta, expected.last().unwrap().clone());
        let k1 = slope(t, &p);
        let k2 = slope(t + delta / 2.0, &moved(&p, delta / 2.0, &k1));
        let k3 = slope(t + delta / 2.0, &moved(&p, delta / 2.0, &k2));
        let k4 = slope(t + delta, &moved(&p, delta, &k3));
        let mean: Vec<f64> = (0..p.len()).map(|i| (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]) / 6.0).collect();
        expected.push(moved(&p, delta, &mean));
    }
    expect_table(&found["table"], &expected, 1e-5);
}

/// Runs the gated unit with its constant input in f64.
#[test]
fn recurrent_positions_are_the_states_of_their_network() {
    let place = tempfile::tempdir().unwrap();
    let model = &composer(place.path(), "rnn");
    let found = &positions(model, &[])["positions"][0];
    let w = weights(model);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let mut expected = vec![w["start"].clone()];
    for _ in 0..9 {
        let p = expected.last().unwrap().clone();
        let (d, inner) = (p.len(), dense(&p, &w["w_hh"], &w["bias_hh"]));
        let next = |i: usize| {
            let gate = |at: usize| sigmoid(w["input"][at * d + i] + inner[at * d + i]);
            let (r, z) = (gate(0), gate(1));
            let n = (w["input"][2 * d + i] + r * inner[2 * d + i]).tanh();
            (1.0 - z) * n + z * p[i]
        };
        expected.push((0..d).map(next).collect());
    }
    expect_table(&found["table"], &expected, 1e-5);
}

#[test]
fn every_task_with_positions_shows_them() {
    let place = tempfile::tempdir().unwrap();
    for (task, data, part, more) in [
        ("tag", None, "body", &["model.kind=transformer"][..]),
        ("classify", None, "encoder", &["model.kind=transformer"]),
        ("generate", None, "decoder", &["data.block=16"]),
        ("pretrain", None, "encoder", &[]),
        ("translate", Some(pairs(place.path())), "encoder and decoder", &[]),
    ] {
        let out = place.path().join(task);
        let settings = [&SMALL[..], &["model.position=learned", "train.batch_tokens=256"], more].concat();
        let mut train = vec!["train", task, "--steps", "3", "--out", path(&out)];
        train.extend(data.iter().flat_map(|data| ["--data", data.as_str()]));
        done(&regard(&[&train[..], &sets(&settings)].concat()));
        let found = &positions(path(&out), &["--length", "8"])["positions"];
        assert_eq!((&found[0]["part"], &found[0]["kind"]), (&part.into(), &"learned".into()), "{task}");
        assert_eq!(found[0]["table"].as_array().unwrap().len(), 8, "{task}");
    }
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let place = tempfile::tempdir().unwrap();
    let model = &composer(place.path(), "none");
    fails_with(&regard(&["look", model, "--positions"]), 2, &["model.position is none", "model.position=learned"]);
    let lstm = place.path().join("lstm");
    let settings = ["model.kind=lstm", "model.d_model=8", "data.size=4", "data.dev=8", "data.test=8"];
    let train = ["train", "compose", "--steps", "2", "--out", path(&lstm)];
    done(&regard(&[&train[..], &sets(&settings)].concat()));
    fails_with(&regard(&["look", path(&lstm), "--positions"]), 2, &["only a Transformer", "model.kind=transformer"]);
    for (more, word) in [
        (&["0 1 2 3 4 | 4 3 2 1 0"][..], "INPUT"),
        (&["--layer", "0"], "--layer"),
        (&["--head", "0"], "--head"),
        (&["--without", "0.0"], "--without"),
    ] {
        fails_with(&regard(&[&["look", model, "--positions"], more].concat()), 2, &["--positions", word]);
    }
    fails_with(&regard(&["look", model, "--length", "4"]), 2, &["--positions"]);
    let other = tempfile::tempdir().unwrap();
    let rope = &composer(other.path(), "rope");
    fails_with(&regard(&["look", rope, "--positions", "--length", "1"]), 2, &["length = 1", "2 to 512"]);
    fails_with(&regard(&["look", rope, "--positions", "--length", "900"]), 2, &["length = 900", "2 to 512"]);
}

#[test]
fn attention_maps_are_printed_as_json() {
    let place = tempfile::tempdir().unwrap();
    let model = &composer(place.path(), "rope");
    let input = "0 1 2 3 4 | 4 3 2 1 0";
    let printed = document(&done(&regard(&["look", model, input, "--json"])));
    let file = place.path().join("look.json");
    done(&regard(&["look", model, input, "--out", path(&file)]));
    assert_eq!(printed, read_document(&file));
}
