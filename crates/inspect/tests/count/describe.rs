//! Tests of descriptions: what is read, what is refused and with which message, and the JSON output.

use regard_inspect::count::{Architecture, CountError, Description, PRESETS, count, preset};
use regard_nn::layers::recurrent::RecurrentConfig;
use serde_json::{Value, json};

use super::counted;

fn refused(value: Value) -> String {
    match Description::from_value(&value).and_then(|description| count(&description)) {
        Ok(_) => panic!("{value} is accepted"),
        Err(error) => error.to_string(),
    }
}

fn says(value: Value, words: &[&str]) {
    let message = refused(value);
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
}

#[test]
fn errors_name_the_field_and_what_is_allowed() {
    says(json!({"model": {"d_model": 10, "n_heads": 3}}), &["model.n_heads = 3", "1, 2, 5, 10", "d_head"]);
    let odd = json!({"model": {"d_model": 20, "n_heads": 4, "position": "rope"}});
    says(odd, &["model.d_head = 5", "even"]);
    says(json!({"model": {"position": "ropes"}}), &["model.position", "ropes", "`rope`", "`alibi`"]);
    let window = json!({"model": {"sight": {"kind": "window", "left": -1, "right": 0}}});
    says(window, &["model.sight.left", "-1", "a whole number, 0 or more"]);
    let learned = json!({"model": {"position": {"kind": "learned", "max_length": "x"}}});
    says(learned, &["model.position.max_length", "a whole number, 0 or more"]);
    says(json!({"model": {"d_modle": 10}}), &["model.d_modle", "unknown field", "`d_model`"]);
    says(json!({"modle": {}}), &["unknown field `modle`", "`model`"]);
    says(json!({"architecture": "perceptron"}), &["architecture", "`encoder_decoder`"]);
    says(json!({"model": {"position": {"kind": "alibi", "base": 3}}}), &["model.position.base", "unknown field"]);
    says(json!({"model": {"dropout": 1.5}}), &["model.dropout = 1.5", "below 1"]);
    says(json!({"model": 7}), &["model", "a table"]);
    says(json!({"sizes": {"batch": 0}}), &["sizes.batch", "1 or more"]);
    says(json!({"architecture": "recurrent", "model": {"cell": "elman"}}), &["model.cell", "`gru`"]);
    says(json!({"architecture": "recurrent", "model": {"d_hidden": 0}}), &["model.d_hidden", "1 or more"]);
}

#[test]
fn a_recurrent_model_has_the_fields_of_its_layers() {
    let layers = json!({"cell": {"kind": "gru", "reset": "before_product"}, "d_in": 3, "d_hidden": 5, "n_layers": 2,
        "direction": "backward", "dropout": 0.5});
    let config: RecurrentConfig = serde_json::from_value(layers.clone()).unwrap();
    let description = Description::from_value(&json!({"architecture": "recurrent", "model": layers})).unwrap();
    assert_eq!(description.architecture, Architecture::Recurrent(config.into()));
    assert_eq!(Description::from_value(&description.to_value()).unwrap(), description);
    let with = |key: &str, value: Value| {
        let mut model = layers.clone();
        model[key] = value;
        json!({"architecture": "recurrent", "model": model})
    };
    says(with("cell", json!("elman")), &["model.cell", "`rnn`", "`gru`"]);
    says(with("cell", json!({"kind": "gru", "reset": "never"})), &["model.cell", "`before_product`"]);
    says(with("cell", json!({"kind": "rnn", "reset": "never"})), &["model.cell.reset", "unknown field"]);
    says(with("direction", json!("up")), &["model.direction", "`forward`", "`backward`", "`both`"]);
    says(with("directions", json!("both")), &["model.directions", "unknown field", "`direction`"]);
    says(with("dropout", json!(1)), &["model.dropout", "below 1"]);
    says(with("n_layers", json!(1)), &["model.dropout = 0.5", "0 with one layer"]);
    says(with("outputs", json!(0)), &["model.outputs", "1 or more"]);
    let mut features = with("vocab", json!(7));
    features["input"] = json!("features");
    says(features, &["model.vocab = 7", "features"]);
}

#[test]
fn features_replace_only_the_tokens_of_the_source() {
    let described = |architecture: &str, input: &str, more: Value| {
        let mut model = json!({"vocab": 50, "n_layers": 1, "d_model": 8, "n_heads": 2, "d_ff": 4,
            "position": {"kind": "learned", "max_length": 3}});
        model.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"architecture": architecture, "input": input, "model": model})
    };
    let total = |value: &Value| counted(&Description::from_value(value).unwrap()).parameters();
    let saved = |architecture: &str, more: Value| {
        let [tokens, features] =
            ["tokens", "features"].map(|input| total(&described(architecture, input, more.clone())));
        tokens as i128 - features as i128
    };
    for output in ["own", "embedding"] {
        // The source's embedding is gone; the target's and the output layer stay.
        assert_eq!(saved("encoder_decoder", json!({"target_vocab": 70, "output_weights": output})), 50 * 8);
        // A shared embedding stays for the target, but source and target no longer share positions.
        assert_eq!(saved("encoder_decoder", json!({"output_weights": output})), -3 * 8);
    }
    assert_eq!(saved("encoder", json!({})), 50 * 8);
    assert_eq!(saved("decoder", json!({})), 50 * 8);
    let nothing_to_share = described("decoder", "features", json!({"output_weights": "embedding"}));
    says(nothing_to_share, &["model.output_weights = embedding", "own", "features"]);
}

#[test]
fn extra_parts_are_checked() {
    let with = |extra: Value| json!({"architecture": "encoder", "extra": [extra]});
    let table = |name: &str| with(json!({"name": name, "part": {"table": {"rows": 3, "width": 5}}}));
    let plain = counted(&Description::from_value(&json!({"architecture": "encoder"})).unwrap());
    let more = counted(&Description::from_value(&table("types")).unwrap());
    assert_eq!(more.parameters() - plain.parameters(), 15);
    says(table("layers"), &["extra[0].name", "layers"]);
    says(with(json!({"name": "a", "part": {"table": {"rows": 0, "width": 5}}})), &["extra[0].part.table.rows"]);
    says(with(json!({"name": "a", "part": {"tabel": {}}})), &["extra[0].part", "`table`"]);
}

#[test]
fn huge_sizes_are_counted_or_refused() {
    let vocab = 1_000_000_000_000_000_000u64;
    let model = json!({"architecture": "encoder", "model": {"vocab": vocab}});
    let large = counted(&Description::from_value(&model).unwrap());
    let small = counted(&Description::from_value(&json!({"architecture": "encoder"})).unwrap());
    assert_eq!(large.parameters() - small.parameters(), 512 * (u128::from(vocab) - 37_000));
    let model = json!({"vocab": u64::MAX, "n_layers": u64::MAX, "d_ff": u64::MAX});
    let error = count(&Description::from_value(&json!({ "model": model })).unwrap()).unwrap_err();
    assert_eq!(error, CountError::TooLarge);
    // Listing the divisors must not take too long.
    says(json!({"model": {"d_model": 1u64 << 60, "n_heads": 3}}), &["model.n_heads = 3", "…"]);
}

#[test]
fn a_description_survives_writing_and_reading() {
    for known in PRESETS {
        let description = preset(known.name).unwrap();
        assert_eq!(Description::from_value(&description.to_value()).unwrap(), description, "{}", known.name);
    }
}

#[test]
fn other_entries_of_a_model_folder_are_ignored() {
    let model = json!({"vocab": 10, "n_layers": 1});
    let config = json!({"task": "tag", "versions": {"regard": "1"}, "architecture": "encoder", "model": model});
    let description = Description::from_model_folder(&config).unwrap();
    assert_eq!(description, Description::from_value(&json!({"architecture": "encoder", "model": model})).unwrap());
}

/// Returns the total of a node, after checking the sum over its parts at every level.
fn sum(node: &Value) -> u64 {
    if let Some(number) = node.as_u64() {
        return number;
    }
    let total = node["total"].as_u64().unwrap();
    match node.get("parts") {
        Some(parts) => assert_eq!(parts.as_object().unwrap().values().map(sum).sum::<u64>(), total),
        None => assert_eq!(node["count"].as_u64().unwrap() * sum(&node["each"]), total),
    }
    total
}

#[test]
fn the_json_adds_up() {
    for known in PRESETS {
        let count = counted(&preset(known.name).unwrap());
        let document: Value = serde_json::from_str(&serde_json::to_string(&count).unwrap()).unwrap();
        assert_eq!(u128::from(sum(&document["parameters"])), count.parameters());
        let flops = &document["flops"];
        let parts: u64 = flops["parts"].as_object().unwrap().values().map(sum).sum();
        assert_eq!(Some(parts), flops["forward"].as_u64());
        assert_eq!(Some(3 * parts), flops["training_step"].as_u64());
        let memory = ["weights", "gradients", "optimiser", "activations", "activations_dense", "training", "logits"];
        assert!(memory.iter().chain(&["kv_cache"]).all(|name| document["memory"][name].is_u64()), "{document}");
    }
    let count = counted(&preset("worked-example").unwrap());
    let document: Value = serde_json::to_value(&count).unwrap();
    let encoder = &document["parameters"]["parts"]["encoder"];
    assert_eq!(encoder["total"], 81_131_520);
    assert_eq!(encoder["parts"]["layers"]["each"]["total"], 6_301_440);
    assert_eq!(encoder["parts"]["embedding"], 30_720_000);
}
