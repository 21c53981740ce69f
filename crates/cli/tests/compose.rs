//! Tests of the grid form of `compose`: train, eval, predict, and look as pictures.

mod binary;

use std::fs;

use binary::{document, documents, done, path, read_document, regard, sets, sets_beside};
use serde_json::{Value, json};

const GRID: [&str; 6] =
    ["data.form=grid", "data.size=6", "data.width=3", "data.colours=4", "data.test=40", "data.dev=40"];

const SMALL: [&str; 4] = ["model.d_model=64", "model.n_heads=4", "model.d_ff=128", "train.learning_rate=3e-3"];

/// Rearranges a picture by a map, both given in rows.
fn gathered(picture: &Value, map: &Value) -> Value {
    let cells: Vec<&Value> = picture.as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap()).collect();
    let cell = |place: &Value| cells[place.as_u64().unwrap() as usize].clone();
    map.as_array().unwrap().iter().map(|row| row.as_array().unwrap().iter().map(cell).collect::<Value>()).collect()
}

#[test]
fn a_grid_is_learned_scored_and_drawn() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("grid");
    let model = path(&out);
    let train = ["train", "compose", "--out", model, "--steps", "400"];
    done(&regard(&[&train[..], &sets(&GRID), &sets(&SMALL), &sets(&["train.batch_examples=32"])].concat()));
    let scored = document(&done(&regard(&["eval", model, "--json"])));
    let score = |name: &str| scored["metrics"][name].as_f64().unwrap_or_else(|| panic!("{name} in {scored}"));
    // The most frequent colour of a picture is right for 47 % of the cells.
    assert!(score("accuracy") > 0.9 && score("exact") > 0.5, "{scored}");

    let given = "{\"numbers\": [[[3, 1, 0], [2, 2, 1]], [[5, 5, 0], [1, 2, 3]]]}";
    let looked = document(&done(&regard(&["look", model, given, "--json"])));
    let picture = &looked["picture"];
    assert_eq!(picture["wanted"], json!([[1, 1, 3], [1, 0, 2]]));
    assert_eq!(picture["wanted"], gathered(&picture["picture"], &picture["map"]));
    let predicted = documents(&done(&regard(&["predict", model, given, "--json"]))).remove(0);
    assert_eq!(picture["predicted"], predicted["rows"]);
    let names: Vec<&str> =
        picture["heads"].as_array().unwrap().iter().map(|head| head["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["0.0", "0.1", "0.2", "0.3", "1.0", "1.1", "1.2", "1.3"]);
    assert_eq!(looked["maps"].as_array().unwrap().len(), 8);

    let [page, drawing, numbers] = ["look.html", "look.svg", "look.json"].map(|name| place.path().join(name));
    let said = done(&regard(&["look", model, given, "--out", path(&page)]));
    assert!(said.contains("8 maps in 2 layers"), "{said}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("out: wanted") && page.contains("<script"));
    done(&regard(&["look", model, given, "--layer", "1", "--without", "1.0", "--out", path(&drawing)]));
    let drawing = fs::read_to_string(drawing).unwrap();
    for words in
        ["in: the picture", "in: the map", "out: wanted", "predicted:", "1.3 finds", "without 1.0: in: the map"]
    {
        assert!(drawing.contains(words), "{words}");
    }
    assert!(!drawing.contains("0.3 finds"));
    done(&regard(&["look", model, given, "0 1 2 3 0 1 | 5 4 3 2 1 0", "--out", path(&numbers)]));
    assert!(fs::read_to_string(out.join("report.html")).unwrap().contains("out: wanted"));
    let both = read_document(&numbers);
    assert_eq!(both[0]["picture"], *picture);
    assert_eq!(both[1]["picture"]["wanted"], json!([[1, 0, 3], [2, 1, 0]]));
}

#[test]
fn a_grid_without_attention_is_drawn_too() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("lstm");
    let model = path(&out);
    let more = ["model.kind=lstm"];
    let train = ["train", "compose", "--out", model, "--steps", "3"];
    done(&regard(&[&train[..], &sets(&more), &sets(&GRID), &sets_beside(&more, &SMALL)].concat()));
    let looked = document(&done(&regard(&["look", model, "3 1 0 2 2 1 | 5 5 0 1 2 3", "--json"])));
    assert_eq!((&looked["wanted"], &looked["heads"]), (&json!([[1, 1, 3], [1, 0, 2]]), &json!([])));
}
