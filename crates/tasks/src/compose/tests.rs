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

fn grid() -> Compose {
    task(&["data.form=grid", "data.size=6", "data.width=3", "data.colours=4", "data.dev=50", "data.test=50"])
}

/// The result at row `r` and column `c` is the cell of the picture that the map names at `r`, `c`.
#[test]
fn a_grid_is_a_gather() {
    let task = grid();
    let Parts { dev, test, .. } = task.parts().unwrap();
    let mut held_out: Vec<Example> = Vec::new();
    for part in [dev, test.unwrap()] {
        let Part::Fixed(examples) = part else { panic!("held-out examples are fixed") };
        assert_eq!(examples.len(), 50);
        held_out.extend(examples);
    }
    let (mut colours, mut places) = (BTreeSet::new(), BTreeSet::new());
    for example in &held_out {
        let cell = |grid: &[usize], r: usize, c: usize| grid[3 * r + c];
        for (r, c) in (0..2).flat_map(|r| (0..3).map(move |c| (r, c))) {
            let place = cell(&example.places, r, c);
            assert_eq!(cell(&example.answer(), r, c), cell(&example.values, place / 3, place % 3));
            colours.insert(cell(&example.values, r, c));
            places.insert(place);
        }
    }
    assert_eq!((colours, places), ((0..4).collect(), (0..6).collect()), "every colour and every place occurs");
    for index in 0..500 {
        let example = task.example(Side::Train, index);
        assert!(!held_out.contains(&example), "training example {index} is held out");
    }
    assert_eq!(task.example(Side::Train, 7), grid().example(Side::Train, 7));
}

#[test]
fn a_grid_comes_and_goes_in_rows() {
    let task = grid();
    let example = Example { values: vec![3, 1, 0, 2, 2, 1], places: vec![5, 5, 0, 1, 2, 3] };
    let rows = json!({ "numbers": [[[3, 1, 0], [2, 2, 1]], [[5, 5, 0], [1, 2, 3]]] });
    assert_eq!(task.input(&Given::Json(rows)).unwrap(), example);
    let crooked = json!({ "numbers": [[[3, 1], [0, 2], [2, 1]], [5, 5, 0, 1, 2, 3]] });
    let told = task.input(&Given::Json(crooked)).unwrap_err().to_string();
    assert!(told.contains("rows of 3"), "{told}");
    let model = task.model(&Init::new(1, &Device::flex())).unwrap();
    let found = task.predict(&model, &[example], &Pass::inference()).unwrap().remove(0);
    let rows: Vec<Vec<usize>> = serde_json::from_value(found.more["rows"].clone()).unwrap();
    assert_eq!((rows.len(), json!(rows.concat())), (2, found.more["values"].clone()));
}

/// A head that looks exactly at the mapped cells, another that looks at the map.
#[test]
fn a_grid_is_drawn_with_its_wrong_cells_and_where_heads_look() {
    use regard_inspect::{AttentionView, HeadMap, MapGroup};
    let example = Example { values: vec![3, 1, 0, 2, 2, 1], places: vec![5, 5, 0, 1, 2, 3] };
    assert_eq!(example.answer(), [1, 1, 3, 1, 0, 2]);
    let grid = Grid { example: example.clone(), answer: vec![1, 1, 3, 1, 0, 3], width: 3, colours: 4 };
    let row = |key: usize| (0..12).map(|other| if other == key { 0.75 } else { 0.02 }).collect::<Vec<f32>>();
    let pointing = (0..12).map(|query| row(if query < 6 { query } else { example.places[query - 6] })).collect();
    let elsewhere = (0..12).map(row).collect();
    let tokens = || (0..12).map(|token| token.to_string());
    let group = MapGroup::new("layer 1", tokens(), tokens())
        .head(HeadMap { head: 0, rows: pointing })
        .head(HeadMap { head: 1, rows: elsewhere });
    let picture = grid.picture(&AttentionView::new("").group(group)).unwrap();
    assert_eq!(picture.data["wanted"], json!([[1, 1, 3], [1, 0, 2]]));
    assert_eq!((&picture.data["predicted"], &picture.data["wrong"]), (&json!([[1, 1, 3], [1, 0, 3]]), &json!(1)));
    let heads = &picture.data["heads"];
    assert_eq!(heads[0]["looks_most_at"], json!([[5, 5, 0], [1, 2, 3]]));
    assert_eq!((&heads[0]["found"], &heads[1]["found"]), (&json!(6), &json!(0)));
    assert_eq!(heads[1]["looks_most_at"], json!([[null, null, null], [null, null, null]]));
    assert!((heads[0]["weight_on_mapped"].as_f64().unwrap() - 0.75).abs() < 1e-6);
    let svg = picture.figure.to_svg();
    for word in ["3≠2", "1 of 6 cells wrong", "head 0 finds the mapped cell: 6 of 6"] {
        assert!(svg.contains(word), "{word}");
    }
    // Texts do not fit into a large grid, so its wrong cells are hatched.
    let places: Vec<usize> = (0..50).collect();
    let wide = Grid {
        example: Example { values: places.iter().map(|cell| cell % 4).collect(), places },
        answer: vec![0; 50],
        width: 50,
        colours: 4,
    };
    let svg = wide.picture(&AttentionView::new("")).unwrap().figure.to_svg();
    assert!(svg.contains("regard-hatch") && svg.contains("37 of 50 cells wrong"));
}
