//! Tests of `regard count`.

mod binary;

use std::fs;
use std::process::Output;

use binary::{document, done, path, regard_in, text, write};
use serde_json::{Value, json};

fn count(arguments: &[&str]) -> Output {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    regard_in(root, &[&["count"], arguments].concat())
}

fn printed(arguments: &[&str]) -> String {
    let output = count(arguments);
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    done(&output)
}

fn counted(arguments: &[&str]) -> Value {
    document(&printed(&[arguments, &["--json"]].concat()))
}

fn fails_with(arguments: &[&str], code: i32, words: &[&str]) {
    let output = count(arguments);
    binary::fails_with(&output, code, words);
    assert!(output.stdout.is_empty());
}

/// Returns a safetensors file with this header and zeros as data.
fn safetensors(tensors: &Value) -> Vec<u8> {
    let header = tensors.to_string();
    let mut data = (header.len() as u64).to_le_bytes().to_vec();
    data.extend(header.as_bytes());
    data.resize(data.len() + 4096, 0);
    data
}

#[test]
fn the_commented_config_gives_the_known_counts() {
    let document = counted(&["--config", "configs/count.toml"]);
    let parameters = &document["parameters"];
    assert_eq!(parameters["total"], 218_221_872);
    assert_eq!(parameters["parts"]["encoder"]["total"], 81_131_520);
    assert_eq!(parameters["parts"]["decoder"]["total"], 137_090_352);
    assert_eq!(document, counted(&["--preset", "worked-example", "--set", "sizes.target_seq=512"]));
}

#[test]
fn the_default_is_the_base_model() {
    let document = counted(&[]);
    assert_eq!(document["parameters"]["total"], 63_082_496);
    let (forward, step) = (&document["flops"]["forward"], &document["flops"]["training_step"]);
    assert_eq!(3 * forward.as_u64().unwrap(), step.as_u64().unwrap());
    assert!(document["memory"]["activations"].as_u64() < document["memory"]["activations_dense"].as_u64());
    let table = printed(&[]);
    let words = ["63,082,496", "layers × 6", "3,152,384", "4,204,032", "MiB", "encoder-decoder", "target 512"];
    assert!(words.iter().all(|word| table.contains(word)), "{table}");
}

#[test]
fn sizes_and_entries_can_be_changed() {
    let plain = counted(&["--preset", "gpt2"]);
    let double = counted(&["--preset", "gpt2", "--batch", "2"]);
    let twice = |what: &str| assert_eq!(2 * plain["memory"][what].as_u64().unwrap(), double["memory"][what]);
    twice("activations");
    twice("kv_cache");
    let short = counted(&["--preset", "gpt2", "--seq", "1"]);
    assert_eq!(short["memory"]["kv_cache"], 2 * 12 * 768 * 4);
    let target = counted(&["--target-seq", "1"]);
    assert_eq!(target["memory"]["logits"], 4 * 37_000);
    let rope = counted(&["--preset", "gpt2", "--set", "model.position=rope", "--set", "model.position.base=500000"]);
    assert_eq!(rope["parameters"]["total"], 124_439_808 - 1024 * 768);
    assert_eq!(rope["description"]["model"]["position"]["base"], 500_000.0);
    let window = "model.sight={kind=\"window\", left=3, right=0}";
    let windowed = counted(&["--preset", "gpt2", "--set", window]);
    assert!(windowed["flops"]["forward"].as_u64() < plain["flops"]["forward"].as_u64());
    let more = counted(&["--preset", "minilm-l6", "--set", "extra.0.part.table.rows=4"]);
    assert_eq!(more["parameters"]["total"], 22_713_216 + 2 * 384);
}

#[test]
fn other_architectures_are_counted() {
    let lstm = ["--set", "architecture=recurrent", "--set", "model={cell=\"lstm\", d_in=3, d_hidden=5, n_layers=1}"];
    assert_eq!(counted(&lstm)["parameters"]["total"], 4 * 5 * (3 + 5 + 1));
    let table = printed(&lstm);
    assert!(table.contains("180"), "{table}");
    let more = ["--set", "model.direction=both", "--set", "model.cell.forget_bias=1"];
    assert_eq!(counted(&[&lstm[..], &more].concat())["parameters"]["total"], 2 * 4 * 5 * (3 + 5 + 1));
    let wrong = ["--set", "model.cell={kind=\"rnn\", forget_bias=1}"];
    fails_with(&[&lstm[..], &wrong].concat(), 2, &["model.cell.forget_bias", "unknown field"]);
}

#[test]
fn features_leave_the_target_its_embedding() {
    let document = counted(&["--set", "input=features"]);
    assert_eq!(document["parameters"]["total"], 63_082_496);
    assert_eq!(document["parameters"]["parts"]["decoder"]["parts"]["embedding"], 37_000 * 512);
    fails_with(&["--preset", "gpt2", "--set", "input=features"], 2, &["model.output_weights = embedding", "own"]);
}

#[test]
fn a_wrong_config_is_named_with_file_field_and_what_is_allowed() {
    let place = tempfile::tempdir().unwrap();
    let config = |model: &str, words: &[&str]| {
        let file = write(&place, "wrong.toml", format!("[model]\n{model}\n"));
        fails_with(&["--config", &file], 2, &[&["wrong.toml"], words].concat());
    };
    config("d_model = 10\nn_heads = 3", &["model.n_heads = 3", "divisor of d_model (1, 2, 5, 10), or set d_head"]);
    config("d_model = 20\nn_heads = 4\nposition = \"rope\"", &["model.d_head = 5", "an even number"]);
    config("position = \"ropes\"", &["model.position", "unknown variant `ropes`", "`sinusoidal`", "`alibi`"]);
    let window = "sight = {kind = \"window\", left = -1, right = 0}";
    config(window, &["model.sight.left", "-1", "a whole number, 0 or more"]);
    config("d_modle = 10", &["model.d_modle", "unknown field", "`d_model`"]);
    config("vocab = 0", &["model.vocab = 0", "1 or more"]);
    config("vocab = ", &["line 2"]);
    config("d_ff = 9000000000000000000\nn_layers = 9000000000000000000", &["too large"]);
    fails_with(&["--config", "missing.toml"], 1, &["missing.toml"]);
}

#[test]
fn wrong_use_is_code_2_with_a_message() {
    fails_with(&["--preset", "gpt3"], 2, &["gpt3", "transformer-base", "gpt2-xl", "llama-3-8b", "vit-base-16"]);
    fails_with(&["--preset", "gpt2", "--config", "configs/count.toml"], 2, &["cannot be used with"]);
    fails_with(&["--set", "model.d_model"], 2, &["--set model.d_model", "KEY=VALUE"]);
    fails_with(&["--set", "model..d_model=3"], 2, &["single dots"]);
    fails_with(&["--set", "model.d_model.x=3"], 2, &["512 has no entry x"]);
    fails_with(&["--set", "model.n_layers=many"], 2, &["model.n_layers", "a whole number, 0 or more"]);
    fails_with(&["--set", "extra.3.name=a"], 2, &["no entry 3"]);
    for flag in ["--batch", "--seq", "--target-seq"] {
        for value in ["0", "-1", "1.5", "many", ""] {
            fails_with(&[flag, value], 2, &[flag, value, "a whole number, 1 or more"]);
        }
        fails_with(&[flag, "99999999999999999999"], 2, &[flag, "too large for a whole number"]);
    }
    fails_with(&["--set", "sizes.batch=0"], 2, &["sizes.batch = 0", "1 or more"]);
}

#[test]
fn huge_numbers_are_right() {
    let document = counted(&["--preset", "gpt2", "--set", "model.vocab=1000000000000000000"]);
    let total = document["parameters"]["total"].as_f64().unwrap();
    assert!((total / 768e18 - 1.0).abs() < 1e-6, "{total}");
    let table = printed(&["--preset", "gpt2", "--set", "model.vocab=1000000000000000000"]);
    assert!(table.contains("768,000,000,000,085,842,432"), "{table}");
}

#[test]
fn a_folder_of_hugging_face_with_its_weights() {
    let place = tempfile::tempdir().unwrap();
    let folder = path(place.path());
    let config =
        json!({"model_type": "gpt2", "n_embd": 4, "n_layer": 1, "n_head": 2, "n_positions": 3, "vocab_size": 5});
    write(&place, "config.json", config.to_string());
    // 12 d² + 13 d for the block, 2 d for the final norm, and tables with 5 and 3 rows.
    let total = 12 * 16 + 13 * 4 + 2 * 4 + (5 + 3) * 4;
    let document = counted(&[folder]);
    assert_eq!(document["parameters"]["total"], total);
    assert!(document.get("stored").is_none());

    let tensor = |size: usize| json!({"dtype": "F32", "shape": [size], "data_offsets": [0, 4 * size]});
    write(&place, "model.safetensors", safetensors(&json!({"all": tensor(total)})));
    let document = counted(&[folder]);
    assert_eq!(document["stored"]["parameters"], total);
    assert_eq!(document["stored"]["dtypes"]["F32"], total);
    assert!(document["stored"].get("difference").is_none());
    assert!(printed(&[folder]).contains("as counted"));
    let shown = printed(&[folder, "--set", "model.output_weights=own"]);
    assert!(shown.contains("20 fewer than counted"), "{shown}");

    fs::remove_file(place.path().join("model.safetensors")).unwrap();
    let map = json!({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}});
    write(&place, "model.safetensors.index.json", map.to_string());
    fails_with(&[folder], 1, &["one.safetensors"]);
    write(&place, "one.safetensors", safetensors(&json!({"a": tensor(total)})));
    write(&place, "two.safetensors", safetensors(&json!({"b": tensor(20)})));
    let document = counted(&[folder]);
    assert!(document["stored"]["difference"].as_str().unwrap().contains("20 more than counted; likely a tied output"));
}

#[test]
fn damaged_folders_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let folder = path(place.path());
    fails_with(&[folder], 1, &["config.json"]);
    write(&place, "config.json", "{");
    fails_with(&[folder], 2, &["config.json", "line 1"]);
    write(&place, "config.json", "{}");
    fails_with(&[folder], 2, &["config.json", "architecture", "model_type"]);
    write(&place, "config.json", json!({"model_type": "gpt2"}).to_string());
    write(&place, "model.safetensors", [255; 16]);
    fails_with(&[folder], 2, &["model.safetensors", "damaged"]);
    write(&place, "model.safetensors", [0; 3]);
    fails_with(&[folder], 1, &["model.safetensors"]);
    write(&place, "model.safetensors", safetensors(&json!([])));
    fails_with(&[folder], 2, &["model.safetensors", "table of tensors"]);
}

#[test]
fn a_folder_written_by_regard() {
    let place = tempfile::tempdir().unwrap();
    let folder = path(place.path());
    let model = json!({"vocab": 30_000, "n_layers": 8, "d_model": 1024, "n_heads": 4, "d_head": 192, "d_ff": 1536});
    let config = json!({"task": "tag", "architecture": "encoder", "model": model});
    write(&place, "config.json", config.to_string());
    assert_eq!(counted(&[folder])["parameters"]["total"], 81_131_520);
}
