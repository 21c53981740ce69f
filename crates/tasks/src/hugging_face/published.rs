//! Settings as published checkpoints have them, around the tiny models: every key of theirs must be known, and none may change what
//! a model computes.

use std::fs;
use std::path::Path;

use regard_nn::Pass;
use serde_json::{Value, json};

use super::config::ConfigFile;
use super::families::family;
use super::generation::Generation;
use super::opened::Checkpoint;
use super::tests::{copied, golden};
use crate::decode::{Summed, Wish};

/// A published checkpoint and the tiny model that is like it.
struct Published {
    name: String,
    like: String,
    config: Value,
    generation: Option<Value>,
    /// Keys whose published value the tiny model has, too.
    keep: Vec<String>,
}

fn all() -> Vec<Published> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/published_configs.jsonl");
    let read = |line: &str| -> Published {
        let row: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| row[key].as_str().unwrap().to_string();
        let keep = row["keep"].as_array().into_iter().flatten().map(|key| key.as_str().unwrap().to_string());
        let generation = row.get("generation").cloned();
        Published {
            name: text("name"),
            like: text("like"),
            config: row["config"].clone(),
            generation,
            keep: keep.collect(),
        }
    };
    fs::read_to_string(path).unwrap().lines().map(read).collect()
}

/// Returns the published settings with the sizes of the tiny model, written in the old form that the published ones have.
fn shrunk(published: &Published) -> Value {
    let mut settings = published.config.clone();
    let tiny: Value = serde_json::from_slice(&fs::read(golden(&published.like).join("config.json")).unwrap()).unwrap();
    for (key, value) in tiny.as_object().unwrap() {
        let is_own = ["architectures", "model_type"].contains(&key.as_str()) || published.keep.contains(key);
        let is_known = published.config.get(key).is_some();
        if !is_own && !value.is_null() && (is_known || (value.is_number() && !key.contains("drop"))) {
            settings[key] = value.clone();
        }
    }
    if let Some(mut rotation) = tiny.get("rope_parameters").cloned() {
        let base = rotation.as_object_mut().unwrap().remove("rope_theta").unwrap();
        // The base of llama-7b is not in its file.
        if settings.get("rope_theta").is_some() {
            settings["rope_theta"] = base;
        }
        if settings.get("rope_scaling").is_some_and(Value::is_object) {
            settings["rope_scaling"] = rotation;
        }
    }
    settings
}

#[test]
fn settings_of_published_checkpoints_are_known_and_change_nothing() {
    let all = all();
    assert_eq!(all.len(), 20);
    for published in &all {
        let file = ConfigFile(&published.config);
        family(file).and_then(|family| family.check(file).map(|()| family)).unwrap().describe(file).unwrap();
        let place = copied(&published.like);
        fs::write(place.path().join("config.json"), shrunk(published).to_string()).unwrap();
        let checkpoint = match Checkpoint::open(place.path()) {
            Ok(found) => found.unwrap(),
            Err(error) => panic!("{}: {error}", published.name),
        };
        let reference = golden(&published.like).join("reference.safetensors");
        for one in checkpoint.verify(&reference, &Pass::inference()).unwrap() {
            assert!(one.largest <= 1e-5, "{}: {one:?}", published.name);
        }
    }
}

#[test]
fn ways_to_generate_of_published_checkpoints_are_followed() {
    for published in all() {
        let path = Path::new("generation_config.json").to_path_buf();
        let found = match &published.generation {
            Some(settings) => Generation::of_file(settings, &published.config, path),
            None => Generation::of(&Value::Null, &published.config, path),
        };
        let plan = found.unwrap().plan(&Wish::default()).unwrap();
        if published.name == "opus-mt-en-de" {
            assert_eq!((plan.beams, plan.rules.summed, plan.rules.banned), (6, Summed::Normalised, vec![vec![58100]]));
        }
    }
}

#[test]
fn variants_that_compute_something_else_are_refused() {
    let config = |name: &str| all().into_iter().find(|one| one.name == name).unwrap().config;
    for (name, key, value, said) in [
        ("Llama-3.2-1B-Instruct", "rope_scaling", json!({"type": "dynamic", "factor": 2.0}), "\"dynamic\" found"),
        (
            "Llama-3.2-1B-Instruct",
            "rope_scaling",
            json!({"rope_type": "longrope", "factor": 2.0}),
            "\"longrope\" found",
        ),
        ("Llama-3.2-1B-Instruct", "rope_scaling", json!({"type": "yarn", "factor": 4.0, "mscale": 0.7}), "mscale"),
        ("Llama-3.2-1B-Instruct", "attention_bias", json!(true), "attention_bias"),
        ("Llama-3.2-1B-Instruct", "quantization_config", json!({"bits": 4}), "quantization_config"),
        ("Llama-3.2-1B-Instruct", "auto_map", json!({"AutoModelForCausalLM": "modeling.Own"}), "auto_map"),
        ("Llama-3.2-1B-Instruct", "num_local_experts", json!(8), "num_local_experts"),
        ("SmolLM2-135M", "partial_rotary_factor", json!(0.5), "partial_rotary_factor"),
        ("SmolLM2-135M", "rope_interleaved", json!(true), "rope_interleaved"),
        ("Qwen2.5-0.5B-Instruct", "use_mrope", json!(true), "use_mrope"),
        ("Qwen3-0.6B", "layer_types", json!(["full_attention", "sliding_attention"]), "layer_types"),
        ("bert-base-uncased", "position_embedding_type", json!("relative_key_query"), "position_embedding_type"),
        ("bert-base-uncased", "add_cross_attention", json!(true), "add_cross_attention"),
        ("bert-base-uncased", "pruned_heads", json!({"0": [1]}), "pruned_heads"),
        ("gpt2", "scale_attn_weights", json!(false), "scale_attn_weights"),
        ("gpt2", "reorder_and_upcast_attn", json!(true), "reorder_and_upcast_attn"),
        ("opus-mt-en-de", "static_position_embeddings", json!(false), "static_position_embeddings"),
        ("opus-mt-en-de", "force_bos_token_to_be_generated", json!(true), "force_bos_token_to_be_generated"),
        ("flan-t5-small", "feed_forward_proj", json!("gated-silu"), "feed_forward_proj"),
        ("vit-base-patch16-224", "pooler_output_size", json!(64), "pooler_output_size"),
    ] {
        let mut settings = config(name);
        settings[key] = value;
        let file = ConfigFile(&settings);
        let found = family(file).and_then(|family| family.check(file).and_then(|()| family.describe(file).map(drop)));
        let error = found.unwrap_err().to_string();
        assert!(error.contains(said) && error.lines().count() == 1, "{name} {key}: {error}");
    }
    // A window in some layers is refused, in none it is none.
    let mut settings = config("Qwen2.5-0.5B-Instruct");
    settings["use_sliding_window"] = json!(true);
    let check = |settings: &Value| family(ConfigFile(settings)).unwrap().check(ConfigFile(settings));
    check(&settings).unwrap();
    settings["max_window_layers"] = json!(20);
    assert!(check(&settings).unwrap_err().to_string().contains("max_window_layers"));
}
