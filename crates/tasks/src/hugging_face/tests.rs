//! Compares every family with `transformers`: see `golden/hugging_face.py`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor, TensorData};
use regard_nn::Pass;
use serde_json::{Value, json};

use super::generate::written;
use super::generation::Generation;
use super::load::{Loaded, settings};
use super::network::{NetworkConfig, Texts};
use super::opened::Checkpoint;
use super::store::Store;
use super::verify::verify;
use crate::decode::Wish;
use crate::opened::Opened;
use crate::task::Prompt;
use crate::weights::{self, Storage};

pub(super) const ALL: &[&str] = &[
    "bert",
    "bert-classifier",
    "bert-masked",
    "bert-tagger",
    "distilbert-classifier",
    "distilbert-masked",
    "gpt2",
    "llama",
    "llama-linear",
    "llama-yarn",
    "llama3",
    "marian",
    "mistral",
    "qwen2",
    "qwen3",
    "roberta-classifier",
    "roberta-masked",
    "sentences",
    "t5",
    "t5-gated",
    "vit",
];

pub(super) fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/hugging_face").join(name)
}

pub(super) fn loaded(name: &str, device: &Device) -> Loaded {
    let folder = golden(name);
    Loaded::open(&folder, settings(&folder).unwrap().unwrap(), Storage::F32, device).unwrap()
}

#[test]
fn every_family_loads() {
    for name in ALL {
        loaded(name, &Device::flex());
    }
}

/// Compares a checkpoint with a reference and checks every difference.
fn agrees(name: &str, reference: &str) {
    let loaded = loaded(name, &Device::flex());
    let found = verify(&loaded, &golden(name).join(format!("{reference}.safetensors")), &Pass::inference()).unwrap();
    for one in &found {
        let allowed = if one.name == "generated_ids" { 0.0 } else { 1e-5 };
        assert!(one.largest <= allowed, "{name} {reference}: {one:?}");
        assert!(one.agreement.is_none_or(|share| share == 1.0), "{name} {reference}: {one:?}");
    }
    let has = |wanted: &str| found.iter().any(|one| one.name == wanted);
    assert!(has("attentions.0") && has("hidden_states.1"), "{name}: {found:?}");
    let is_whole = golden(name).join("left.safetensors").exists() && name.ends_with("-classifier");
    assert!(has("logits") || has("last_hidden_state") || (is_whole && reference == "left"), "{name}: {found:?}");
}

#[test]
fn outputs_states_and_attention_equal_those_of_transformers() {
    for name in ALL {
        agrees(name, "reference");
    }
}

#[test]
fn padding_on_the_left_changes_nothing() {
    for name in ALL.iter().filter(|name| golden(name).join("left.safetensors").exists()) {
        agrees(name, "left");
    }
}

#[test]
fn generated_tokens_equal_those_of_transformers() {
    let mut compared = 0;
    for name in ["gpt2", "llama", "marian", "t5"] {
        let loaded = loaded(name, &Device::flex());
        let file: Value = serde_json::from_slice(&fs::read(golden(name).join("generation.json")).unwrap()).unwrap();
        let rows = |value: &Value| serde_json::from_value::<Vec<Vec<u32>>>(value.clone()).unwrap();
        let prompts = rows(&file["prompts"]);
        for case in file["cases"].as_array().unwrap() {
            let generation = Generation::of(&case["settings"], &loaded.settings, golden(name)).unwrap();
            let plan = generation.plan(&Wish::default()).unwrap();
            let write = |ids: &[Vec<u32>]| {
                let start = |ids: &Vec<u32>| match loaded.config {
                    NetworkConfig::Translation(_) => vec![generation.start_token().unwrap()],
                    _ => ids.clone(),
                };
                let begin = |ids| generation.begin(&loaded.config, start(ids), &Wish::default(), 12).unwrap();
                let starts = ids.iter().map(begin);
                let (starts, texts) = (starts.collect::<Vec<_>>(), Texts::new(ids.to_vec()));
                written(&loaded.network, &texts, &starts, &plan, &|_| String::new(), &Pass::inference()).unwrap()
            };
            let together = write(&prompts);
            assert_eq!(together, rows(&case["written"]), "{name}: {}", case["settings"]);
            let alone: Vec<Vec<u32>> = prompts.iter().flat_map(|ids| write(std::slice::from_ref(ids))).collect();
            assert_eq!(together, alone, "{name} alone: {}", case["settings"]);
            compared += 1;
        }
    }
    assert!(compared > 50, "{compared}");
}

#[test]
fn settings_of_generation_that_are_not_followed_are_refused() {
    let place = copied("gpt2");
    let opened = || Checkpoint::open(place.path()).unwrap().unwrap();
    let mut pieces = Vec::new();
    for (settings, said) in [
        (json!({ "penalty_alpha": 0.6 }), "penalty_alpha: 0.6 found"),
        (json!({ "sparkle": true }), "does not know this setting"),
        (json!({ "num_beams": "many" }), "a whole number"),
        (json!({ "num_beams": 2, "do_sample": true }), "num_beams"),
        (json!({ "repetition_penalty": 0.0 }), "repetition_penalty"),
        (json!({ "bad_words_ids": [1] }), "a list of lists"),
        (json!([1]), "a JSON object"),
    ] {
        fs::write(place.path().join("generation_config.json"), settings.to_string()).unwrap();
        let prompts = [Prompt { input: None, seed: 0 }];
        let hear = &mut |_: usize, piece: &str| pieces.push(piece.to_string());
        let error = opened().generate(&prompts, &Wish::default(), &Pass::inference(), hear).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("generation_config.json"), "{error}");
    }
    assert!(pieces.is_empty());
}

#[test]
fn weights_of_bf16_change_outputs_by_their_rounding_only() {
    for name in ["bert", "gpt2", "llama", "marian", "t5", "roberta-masked", "vit"] {
        let folder = golden(name);
        let half = Loaded::open(&folder, settings(&folder).unwrap().unwrap(), Storage::Bf16, &Device::flex()).unwrap();
        let found = verify(&half, &folder.join("reference.safetensors"), &Pass::inference()).unwrap();
        let outputs = found.iter().filter(|one| ["logits", "last_hidden_state"].contains(&one.name.as_str()));
        for one in outputs {
            assert!(one.relative > 1e-6 && one.relative < 0.05, "{name}: {one:?}");
        }
    }
    // These weights are bf16 in the file: nothing is rounded.
    for name in ["bert-tagger", "llama-linear"] {
        let folder = golden(name);
        let half = Loaded::open(&folder, settings(&folder).unwrap().unwrap(), Storage::Bf16, &Device::flex()).unwrap();
        let found = verify(&half, &folder.join("reference.safetensors"), &Pass::inference()).unwrap();
        assert!(found.iter().all(|one| one.largest <= 1e-5), "{name}: {found:?}");
    }
}

/// Gradients of the parameters of a network by path.
struct Gradients<'a> {
    path: Vec<String>,
    all: &'a burn::tensor::Gradients,
    found: BTreeMap<String, Vec<f32>>,
}

impl ModuleVisitor for Gradients<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = param.val().grad(self.all) {
            // The first part of a path is the kind of network.
            self.found.insert(self.path[1..].join("."), gradient.to_data().iter().collect());
        }
    }
}

#[test]
fn gradients_equal_those_of_pytorch() {
    let mut compared = 0;
    for name in ALL {
        let path = golden(name).join("gradients.safetensors");
        if !path.exists() {
            continue;
        }
        let device = Device::flex().autodiff();
        let (loaded, reference) = (loaded(name, &device), Store::single(&path).unwrap());
        let rows = |key: &str| {
            let ids = reference.tensors().contains_key(key).then(|| reference.read_integers(key).unwrap())?;
            Some(vec![ids.into_iter().map(|id| id as u32).collect::<Vec<u32>>()])
        };
        let texts = Texts { ids: rows("input_ids").unwrap(), types: rows("token_type_ids") };
        let targets = rows("decoder_input_ids").map(Texts::new);
        let logits = loaded.network.run(&texts, targets.as_ref(), &device, &Pass::inference()).unwrap().logits.unwrap();
        let weights = TensorData::new(reference.read("loss_weights").unwrap(), logits.dims());
        let all = (logits * Tensor::from_data(weights, &device)).sum().backward();
        let mut gradients = Gradients { path: Vec::new(), all: &all, found: BTreeMap::new() };
        loaded.network.visit(&mut gradients);
        for entry in &loaded.table.entries {
            let Some(ours) = gradients.found.get(&entry.ours) else { panic!("{name}: {} has no gradient", entry.ours) };
            for (at, piece) in entry.pieces.iter().enumerate() {
                let theirs = reference.read(&format!("grad/{}", piece.name)).unwrap();
                let scale = theirs.iter().fold(0.5f32, |most, value| most.max(value.abs()));
                for (ours, theirs) in entry.piece(at, ours).iter().zip(&theirs) {
                    assert!((ours - theirs).abs() <= 2e-5 * scale, "{name}: {}: {ours} {theirs}", piece.name);
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn export_writes_the_same_bytes() {
    for name in ALL {
        let place = tempfile::tempdir().unwrap();
        let to = place.path().join("again");
        Checkpoint::open(&golden(name)).unwrap().unwrap().export(&to).unwrap();
        for file in ["model.safetensors", "config.json"] {
            assert!(fs::read(to.join(file)).unwrap() == fs::read(golden(name).join(file)).unwrap(), "{name}: {file}");
        }
        let error = Checkpoint::open(&to).unwrap().unwrap().export(&to).unwrap_err().to_string();
        assert!(error.contains("again") && error.lines().count() == 1, "{error}");
    }
}

/// Copies a golden folder so that it can be changed.
pub(super) fn copied(name: &str) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(golden(name)).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        fs::copy(entry.path(), place.path().join(entry.file_name())).unwrap();
    }
    place
}

fn refused(folder: &Path) -> String {
    let error = match Checkpoint::open(folder) {
        Ok(_) => panic!("{} was loaded", folder.display()),
        Err(error) => error.to_string(),
    };
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

/// Writes a safetensors file with this header and this many bytes of values.
fn write_tensors(path: &Path, header: &str, values: usize) {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(vec![0; values]);
    fs::write(path, bytes).unwrap();
}

#[test]
fn files_that_lie_are_refused_in_one_line() {
    let place = copied("bert");
    let path = place.path().join("model.safetensors");
    let tensor =
        |shape: &str, from: u64, to: u64| format!(r#"{{"dtype":"F32","shape":{shape},"data_offsets":[{from},{to}]}}"#);
    for (header, values, said) in [
        (format!(r#"{{"a":{}}}"#, tensor("[4]", 0, 16)), 8, "truncated"),
        (format!(r#"{{"a":{},"b":{}}}"#, tensor("[4]", 0, 16), tensor("[4]", 8, 24)), 24, "overlaps"),
        (format!(r#"{{"a":{},"b":{}}}"#, tensor("[4]", 0, 16), tensor("[4]", 24, 40)), 40, "gap"),
        (format!(r#"{{"a":{}}}"#, tensor("[4]", 16, 0)), 16, "data_offsets"),
        (format!(r#"{{"a":{}}}"#, tensor("[4]", 0, 16)), 20, "belong to none"),
        (format!(r#"{{"a":{}}}"#, tensor("[18446744073709551615,8]", 0, 16)), 16, "2⁶⁴"),
        (format!(r#"{{"a":{}}}"#, tensor("[-1]", 0, 16)), 16, "shape"),
        (format!(r#"{{"a":{}}}"#, tensor("[5]", 0, 16)), 16, "needs 20 bytes"),
        (r#"{"a":{"dtype":"Q4","shape":[4],"data_offsets":[0,16]}}"#.to_string(), 16, "Q4"),
        ("[1]".to_string(), 0, "not JSON"),
        ("{\"a\":".to_string(), 0, "not JSON"),
    ] {
        write_tensors(&path, &header, values);
        let error = refused(place.path());
        assert!(error.contains(said) && error.contains("model.safetensors"), "{said}: {error}");
    }
    fs::write(&path, u64::MAX.to_le_bytes()).unwrap();
    assert!(refused(place.path()).contains("header"));
    fs::write(&path, [1, 2]).unwrap();
    assert!(refused(place.path()).contains("2 bytes"));
    fs::remove_file(&path).unwrap();
    assert!(refused(place.path()).contains("no model.safetensors"));
    fs::write(place.path().join("pytorch_model.bin"), b"pickle").unwrap();
    assert!(refused(place.path()).contains("pytorch_model.bin"));
    let index = place.path().join("model.safetensors.index.json");
    fs::write(&index, r#"{"weight_map": {"a": "one.safetensors"}}"#).unwrap();
    assert!(refused(place.path()).contains("one.safetensors: missing"));
    fs::write(&index, r#"{"weight_map": {"a": "../one.safetensors"}}"#).unwrap();
    assert!(refused(place.path()).contains("not the name of a file"));
}

#[test]
fn weights_that_are_no_numbers_are_refused() {
    let place = copied("bert");
    let path = place.path().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    let at = bytes.windows(13).position(|part| part == br#""dtype":"F32""#).unwrap();
    let mut other = bytes.clone();
    other[at + 9] = b'I';
    fs::write(&path, other).unwrap();
    assert!(refused(place.path()).contains("has element type I32, expected F32, F16 or BF16"));
    let mut other = bytes;
    let last = other.len() - 4;
    other[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&path, other).unwrap();
    assert!(refused(place.path()).contains("not finite"));
}

#[test]
fn tokenisers_that_lie_are_refused() {
    let place = copied("gpt2");
    let path = place.path().join("tokenizer.json");
    let deep = |count: usize| format!("{{\"version\":{}{}}}", "[".repeat(count), "]".repeat(count));
    // A normaliser made of normalisers, far too deep.
    let open = r#"{"type":"Sequence","normalizers":["#.repeat(5_000);
    let nested = format!(r#"{{"version":"1.0","normalizer":{open}{},"model":{{}}}}"#, "]}".repeat(5_000));
    for content in
        [b"\xff\xfe{}".to_vec(), b"{".to_vec(), b"{}".to_vec(), deep(100_000).into_bytes(), nested.into_bytes()]
    {
        fs::write(&path, content).unwrap();
        assert!(refused(place.path()).contains("tokenizer.json"));
    }
}

/// Changes a `config.json` and returns why the folder is refused.
fn with_setting(name: &str, key: &str, value: serde_json::Value) -> String {
    let place = copied(name);
    let path = place.path().join("config.json");
    let mut settings: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    settings[key] = value;
    fs::write(&path, settings.to_string()).unwrap();
    refused(place.path())
}

#[test]
fn settings_that_change_the_arithmetic_are_named() {
    for (name, key, value, said) in [
        ("bert", "num_attention_heads", json!(0), "num_attention_heads: 0 found"),
        ("bert", "num_attention_heads", json!(3), "n_heads"),
        ("bert", "num_hidden_layers", json!(100_000), "tensors"),
        ("bert", "num_hidden_layers", json!(3), "encoder.layer.2.attention.self.query.weight is missing"),
        ("bert", "num_hidden_layers", json!(1), "is no part of the model"),
        ("bert", "hidden_size", json!(32), "has shape [40, 16], expected [40, 32]"),
        ("bert", "hidden_size", json!(u64::MAX), "n_heads"),
        ("bert", "vocab_size", json!(-1), "vocab_size"),
        ("bert", "position_embedding_type", json!("relative_key"), "position_embedding_type"),
        ("bert", "is_decoder", json!(true), "is_decoder"),
        ("bert", "new_trick", json!(2), "new_trick: 2 found"),
        ("bert", "hidden_act", json!("mish"), "hidden_act"),
        ("bert", "architectures", json!(["BertForQuestionAnswering"]), "architectures"),
        ("bert", "model_type", json!("mamba"), "model_type"),
        ("bert-masked", "tie_word_embeddings", json!(false), "tie_word_embeddings"),
        ("gpt2", "scale_attn_by_inverse_layer_idx", json!(true), "scale_attn_by_inverse_layer_idx"),
        ("gpt2", "n_head", json!(5), "n_heads"),
        ("llama", "rope_parameters", json!({"rope_type": "longrope"}), "rope_parameters.rope_type"),
        ("llama", "rope_parameters", json!({"rope_type": "linear", "factor": 0}), "factor"),
        ("llama", "rope_parameters", json!({"rope_theta": "x"}), "rope_parameters.rope_theta"),
        ("llama", "rope_parameters", json!({"surprise": 1}), "rope_parameters.surprise"),
        ("llama", "attention_bias", json!(true), "attention_bias"),
        ("llama", "num_key_value_heads", json!(0), "kv_heads"),
        ("llama", "tie_word_embeddings", json!(true), "lm_head.weight differs"),
        ("qwen3", "layer_types", json!(["full_attention", "sliding_attention"]), "layer_types"),
        ("vit", "patch_size", json!(4), "image_size"),
        ("marian", "normalize_embedding", json!(true), "normalize_embedding"),
        ("t5", "relative_attention_num_buckets", json!(7), "buckets"),
        ("t5", "dense_act_fn", json!("gelu"), "dense_act_fn"),
    ] {
        let error = with_setting(name, key, value);
        assert!(error.contains(said), "{name} {key}: {error}");
    }
}

#[test]
fn old_names_and_shards_are_read() {
    let place = copied("bert");
    let path = place.path().join("model.safetensors");
    // The same tensors with the names of old checkpoints, in two files.
    let bytes = fs::read(&path).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let renamed = |name: &str| {
        let name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
        format!("bert.{name}")
    };
    let all: Vec<_> = file.iter().map(|(name, view)| (renamed(name), view)).collect();
    let (one, two) = all.split_at(all.len() / 2);
    let mut map = serde_json::Map::new();
    for (part, name) in [(one, "model-1.safetensors"), (two, "model-2.safetensors")] {
        let views = part.iter().map(|(name, view)| (name.as_str(), view));
        fs::write(place.path().join(name), safetensors::serialize(views, None).unwrap()).unwrap();
        part.iter().for_each(|(tensor, _)| drop(map.insert(tensor.clone(), json!(name))));
    }
    fs::remove_file(&path).unwrap();
    let index = place.path().join("model.safetensors.index.json");
    fs::write(&index, json!({ "weight_map": map }).to_string()).unwrap();
    let checkpoint = Checkpoint::open(place.path()).unwrap().unwrap();
    let reference = golden("bert").join("reference.safetensors");
    let found = checkpoint.verify(&reference, &Pass::inference()).unwrap();
    assert!(found.iter().all(|one| one.largest <= 1e-5), "{found:?}");
    let to = place.path().join("again");
    checkpoint.export(&to).unwrap();
    let again = Checkpoint::open(&to).unwrap().unwrap();
    assert_eq!(weights::parameters(&again.loaded.network), weights::parameters(&checkpoint.loaded.network));
    fs::remove_file(place.path().join("model-2.safetensors")).unwrap();
    assert!(refused(place.path()).contains("model-2.safetensors: missing"));
}

#[test]
fn sentences_have_the_vectors_of_their_folder() {
    let checkpoint = Checkpoint::open(&golden("sentences")).unwrap().unwrap();
    let expected: serde_json::Value =
        serde_json::from_slice(&fs::read(golden("sentences").join("embeddings.json")).unwrap()).unwrap();
    let texts: Vec<&str> = expected["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let found = checkpoint.embed(&texts, &Pass::inference()).unwrap();
    for (ours, theirs) in found.iter().zip(expected["embeddings"].as_array().unwrap()) {
        for (ours, theirs) in ours.iter().zip(theirs.as_array().unwrap()) {
            assert!((f64::from(*ours) - theirs.as_f64().unwrap()).abs() < 1e-5, "{ours} {theirs}");
        }
    }
}
