//! Examples, scores and inputs of the pointer task.

use std::collections::BTreeSet;

use burn::tensor::Device;

use super::*;
use crate::task::testing::configured;

fn task(sets: &[&str]) -> Compose {
    Compose::start(configured::<Compose>(sets).unwrap()).unwrap().0
}

#[test]
fn no_example_comes_twice_however_large_the_batches() {
    for (sets, batches, size) in [
        (&["train.batch_examples=8"][..], 1_000, 8),
        (&["train.batch_examples=300000", "train.batch_tokens=100000000"], 3, 300_000),
    ] {
        let task = task(sets);
        let plans = [0, 1].map(|epoch| task.plan(&Part::Endless, epoch));
        assert!(plans.iter().all(|plan| plan.len() == batches && plan[0].len() == size));
        let all: BTreeSet<usize> = plans.iter().flatten().flatten().copied().collect();
        assert_eq!(all.len(), 2 * batches * size);
        assert_eq!(task.plan(&Part::Endless, u64::MAX).len(), batches);
    }
}

#[test]
fn an_empty_split_has_no_scores() {
    let task = task(&["model.d_model=8", "model.d_ff=8"]);
    let model = task.model(&Init::new(1, &Device::flex())).unwrap();
    let nothing = task.evaluate(&Part::Fixed(Vec::new()), &model, None, &Pass::inference()).unwrap();
    assert!(nothing.scores.is_empty() && nothing.worth() == f64::NEG_INFINITY);
}

/// The grid form takes numbers as JSON or as text; every way gives the same input.
#[test]
fn numbers_come_as_json_and_as_text() {
    let task = task(&["data.form=grid", "data.size=4", "data.width=2", "data.colours=3"]);
    let want = Example { values: vec![2, 1, 0, 1], places: vec![3, 3, 0, 1] };
    let json = json!({ "numbers": [[2, 1, 0, 1], [3, 3, 0, 1]] });
    for given in [
        Given::from("2 1 0 1 | 3 3 0 1"),
        Given::Json(json.clone()),
        Given::argument(&json.to_string(), InputKind::Numbers).unwrap(),
        Given::json(&json!({ "input": json }).to_string()).unwrap(),
    ] {
        assert_eq!(task.input(&given).unwrap(), want, "{given:?}");
    }
    for (given, has) in [
        (json!({ "numbers": [[2, 1, 0, 3], [3, 3, 0, 1]] }), "4 colours below 3"),
        (json!({ "numbers": [[2, 1], [3, 3, 0, 1]] }), "4 colours below 3"),
        (json!({ "numbers": "x" }), "4 colours below 3"),
        (json!({ "image": "iVBO" }), "got a picture"),
        (json!("words"), "4 colours below 3"),
    ] {
        let told = task.input(&Given::Json(given.clone())).unwrap_err().to_string();
        assert!(told.contains(has), "{given}: {told}");
    }
    let model = task.model(&Init::new(1, &Device::flex())).unwrap();
    let found = task.predict(&model, &[want], &Pass::inference()).unwrap();
    assert_eq!(found[0].more["values"].as_array().unwrap().len(), 4);
    let sample = &task.samples(&task.parts().unwrap().dev, 1)[0];
    assert!(matches!(&sample.given, Given::Json(value) if value["numbers"].is_array()), "{sample:?}");
}
